"""PPO of Stable-Baselines3 with rollouts that arrive late, out of order, or never.

Lancewicki, Rosenberg & Sotnikov (ICML 2023), section 5 and appendix F: after every rollout the
buffer is stored, and the update uses the buffers whose delay is over.

    1  for every rollout k:
    2      collect it with the policy pi_k, and store it; it is due after rollout k + d_k
    3      for every rollout j that is due now, the oldest first:
    4          anchor, weight = correct(then = log pi_j, now = log pi, kind)
    5          PPO on rollout j with the anchor as old log-probabilities and weighted advantages

Readings and departures: advantages and returns are those of the value function at the time of the
rollout, as stored in the buffer (V-trace computes its own at the arrival). Advantages are
normalised in each minibatch before they are weighted. If the policy has not changed since the
rollout was collected, `now` is `then` and is not computed again, so that without delays every
correction except V-trace is Stable-Baselines3's PPO to the last digit.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.delays import NEVER, NONE, DelayLine, DelayModel
from belated.stale.corrections import CAP, KINDS, LIMIT, Correction, correct
from belated.stale.measures import staleness
from belated.stale.targets import vtrace

try:
    import torch
    from gymnasium import spaces
    from stable_baselines3 import PPO
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.utils import obs_as_tensor
except ImportError as error:
    raise ImportError(
        f"belated.stale.sb3 needs Stable-Baselines3 and PyTorch ({error.name} is missing): "
        "pip install 'belated[sb3]'"
    ) from None

CORRECTIONS = (*KINDS, "vtrace")
DRAWN = 16
"""At least 2 ** DRAWN delays are drawn at once: models such as `bursts` need the whole run."""
ROWS = 8192
"""The largest number of observations in one pass through the network."""


class DelayedPPO(PPO):
    """Stable-Baselines3's PPO with late rollouts and a correction for them.

    It is used like PPO: `learn` with its progress bar, callbacks and logger, `save` and `load`,
    even while rollouts are pending. The logger gets `stale/effective_sample_size`, `drift`,
    `largest_weight`, `without_gradient` and `age` (rollouts between making and use), means over
    what arrived since it wrote last, and `waiting` and `lost`. With `target_kl` the divergence is
    measured from the anchor.

    Args:
        policy: as in PPO.
        env: as in PPO.
        delays: a delay model such as `belated.delays.geometric(30)`, in rollouts; a lost rollout
            (`belated.delays.lost`) is never used. By default there are no delays.
        correction: one of "behaviour", "current", "delay-adapted", "decoupled", "truncated",
            "guarded" and "vtrace"; see `belated.stale`.
        cap: the largest weight of truncated and guarded.
        limit: the largest drift up to which guarded is truncated.
        settings: any other argument of PPO. `seed` seeds the delays too, in a stream of their own.
    """

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        delays: DelayModel | None = None,
        correction: str = "delay-adapted",
        cap: float = CAP,
        limit: float = LIMIT,
        _init_setup_model: bool = True,
        **settings: Any,
    ) -> None:
        self.delays = NONE if delays is None else delays
        self.correction, self.cap, self.limit = correction, cap, limit
        seed = settings.get("seed")
        seed = np.random.SeedSequence().entropy if seed is None else seed
        self.delay_seed = checks.integer("seed", seed, 0)
        self.collected = self.lost = 0
        """The numbers of rollouts so far, and of those that never arrive."""
        self._waiting: DelayLine[Any] = DelayLine()
        super().__init__(policy, env, _init_setup_model=_init_setup_model, **settings)

    @property
    def waiting(self) -> int:
        """The number of pending rollouts."""
        return len(self._waiting)

    def train(self) -> None:
        """Store the rollout, and update the policy with each one that arrives now.

        A pending rollout is a copy of the buffer with its number (`episode`), the number of updates
        before it (`updates`), the observations after it (`last`), and whether an episode ended with
        its last step (`ended`, one for each environment).
        """
        number, delay = self.collected, self._delay_of(self.collected)
        self.collected, self.lost = number + 1, self.lost + (delay == NEVER)
        collecting, normalised = self.rollout_buffer, self.normalize_advantage
        # The arrays of the copy are its own: a buffer takes new ones when it is reset.
        rollout: Any = copy.copy(collecting)
        rollout.episode, rollout.updates = number, self._n_updates
        rollout.last = copy.deepcopy(self._last_obs)
        rollout.ended = np.array(self._last_episode_starts, dtype=np.bool_)
        self._waiting.push([rollout], delay)
        try:
            for due in self._waiting.release(number):
                self.normalize_advantage = normalised
                self.rollout_buffer = self._corrected(due)
                self.logger.record_mean("stale/age", number - due.episode)
                super().train()
        finally:
            self.rollout_buffer, self.normalize_advantage = collecting, normalised
        self.logger.record("stale/waiting", len(self._waiting))
        self.logger.record("stale/lost", self.lost)

    def _setup_model(self) -> None:
        """Check our own arguments, including those that `load` replaces, and make the model."""
        if not hasattr(self.delays, "draw"):
            raise ValueError(
                f"delays must be a delay model such as belated.delays.fixed(3), "
                f"got {checks.show(self.delays)}"
            )
        checks.choice("correction", self.correction, CORRECTIONS)
        self.cap = checks.real("cap", self.cap, 0.0, above=True)
        self.limit = checks.real("limit", self.limit, 0.0)
        self._delay_of(0)  # raises now if the model cannot draw
        super()._setup_model()

    def _delay_of(self, number: int) -> int:
        """The delay of a rollout; delays depend only on the seed and the model."""
        count = 1 << max(DRAWN, number.bit_length())
        return int(self.delays.draw(count, np.random.default_rng((self.delay_seed, 27)))[number])

    def _corrected(self, buffer: Any) -> RolloutBuffer:
        """A pending rollout with anchors in place of old log-probabilities, and weights."""
        then = now = buffer.log_probs
        discrete = not isinstance(self.action_space, spaces.Box)
        moved = buffer.updates != self._n_updates
        if moved or self.correction == "vtrace":
            evaluated, values, following = self._evaluated(buffer)
            now = evaluated if moved else then
        given = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        options = {"advantage": buffer.advantages, "clip": min(max(float(given), 1e-6), 1.0)}
        for name, value in staleness(then, now, discrete=discrete, **options)._asdict().items():
            self.logger.record_mean(f"stale/{name}", float(value))
        if self.correction == "vtrace":
            after = 1.0 - np.concatenate([buffer.episode_starts[1:], buffer.ended[None]])
            made = vtrace(
                then,
                now,
                buffer.rewards,
                values,
                (self.gamma * after).astype(np.float32),
                next_values=following,
                discrete=discrete,
            )
            buffer.advantages, buffer.returns, buffer.values = made.advantage, made.target, values
            fix = Correction(made.anchor, made.weight)
        else:
            caps = {"cap": self.cap, "limit": self.limit}
            fix = correct(then, now, self.correction, discrete=discrete, **caps)
        buffer.log_probs = fix.anchor
        if (fix.weight != 1.0).any():
            self._weigh(buffer, fix.weight)
        return buffer  # type: ignore[no-any-return]

    def _weigh(self, buffer: RolloutBuffer, weight: Any) -> None:
        """Make the buffer return advantages that are normalised first and then weighted."""
        weights = buffer.to_torch(buffer.swap_and_flatten(weight)).flatten()
        plain, normalise = buffer._get_samples, self.normalize_advantage

        def weighted(indices: Any, env: Any = None) -> Any:
            samples = plain(indices, env)
            advantages = samples.advantages
            if normalise and len(advantages) > 1:
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            return samples._replace(advantages=weights[indices] * advantages)

        self.normalize_advantage = False  # until the update with this rollout is done
        buffer.__dict__["_get_samples"] = weighted

    def _evaluated(self, buffer: Any) -> tuple[Any, Any, Any]:
        """Log-probabilities, values and next values under the current policy (steps, envs)."""
        self.policy.set_training_mode(False)
        steps, environments = buffer.log_probs.shape
        count = steps * environments
        actions = buffer.to_torch(buffer.actions.reshape(count, -1).astype(np.float32, copy=False))
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.long().flatten()
        parts = []
        with torch.no_grad():
            for i in range(0, count, ROWS):
                rows = slice(i, min(i + ROWS, count))
                seen = obs_as_tensor(_rows(buffer.observations, count, rows), self.device)
                values, logs, _ = self.policy.evaluate_actions(seen, actions[rows])
                parts.append(torch.stack((logs, values.flatten())))
            last = self.policy.predict_values(obs_as_tensor(buffer.last, self.device))
        logs, values = torch.cat(parts, dim=1).reshape(2, steps, environments).cpu().numpy()
        return logs, values, np.concatenate([values[1:], last.cpu().numpy().reshape(1, -1)])


def _rows(observations: Any, count: int, rows: slice) -> Any:
    """Some rows of observations (steps, environments, ...), which may be a dictionary."""
    if isinstance(observations, dict):
        return {name: _rows(part, count, rows) for name, part in observations.items()}
    return observations.reshape(count, *observations.shape[2:])[rows]
