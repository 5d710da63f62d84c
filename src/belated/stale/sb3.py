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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.delays import NEVER, NONE, DelayModel
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
PARTS = (
    "observations", "actions", "rewards", "episode_starts",
    "values", "log_probs", "advantages", "returns",
)  # fmt: skip
"""The arrays of a rollout buffer, (steps, environments, ...) each."""
DRAWN = 16
"""At least 2 ** DRAWN delays are drawn at once: models such as `bursts` need the whole run."""
ROWS = 8192
"""The largest number of observations in one pass through the network."""


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """A pending rollout.

    Attributes:
        number: the number of rollouts collected before it.
        due: it arrives after the rollout with this number.
        updates: the number of updates of the policy before it.
        buffer: its data, a buffer of Stable-Baselines3.
        last: the observations after it.
        ended: whether an episode ended with its last step (environments,).
    """

    number: int
    due: int
    updates: int
    buffer: RolloutBuffer
    last: Any
    ended: Any


class PendingRollouts:
    """The pending rollouts. Stable-Baselines3 saves them like the parameters of a module."""

    def __init__(self, pattern: RolloutBuffer) -> None:
        self._pattern = pattern
        self._rollouts: list[Rollout] = []

    def __len__(self) -> int:
        return len(self._rollouts)

    def add(self, rollout: Rollout) -> None:
        """Store a rollout."""
        self._rollouts.append(rollout)

    def release(self, number: int) -> list[Rollout]:
        """Return and remove the rollouts due by the end of this one, the oldest first."""
        due = [rollout for rollout in self._rollouts if rollout.due <= number]
        self._rollouts = [rollout for rollout in self._rollouts if rollout.due > number]
        return due

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers and tensors: reading them executes nothing."""
        return {
            "rollouts": [
                {
                    "number": rollout.number,
                    "due": rollout.due,
                    "updates": rollout.updates,
                    "last": _tensors(rollout.last),
                    "ended": _tensors(np.asarray(rollout.ended, dtype=np.bool_)),
                    **{part: _tensors(getattr(rollout.buffer, part)) for part in PARTS},
                }
                for rollout in self._rollouts
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Continue from `state_dict()`; strict is what Stable-Baselines3 passes to modules."""
        self._rollouts = [self._read(i, item) for i, item in enumerate(state["rollouts"])]

    def _read(self, i: int, item: Mapping[str, Any]) -> Rollout:
        buffer = copy.copy(self._pattern)
        for part in PARTS:
            pattern = getattr(self._pattern, part)
            setattr(buffer, part, _arrays(f"{part} of waiting rollout {i}", item[part], pattern))
        buffer.pos, buffer.full, buffer.generator_ready = buffer.buffer_size, True, False
        seen = self._pattern.observations
        first = {k: v[0] for k, v in seen.items()} if isinstance(seen, dict) else seen[0]
        number = checks.integer(f"number of waiting rollout {i}", item["number"], 0, NEVER)
        return Rollout(
            number,
            checks.integer(f"due of waiting rollout {i}", item["due"], number, NEVER),
            checks.integer(f"updates of waiting rollout {i}", item["updates"], 0, NEVER),
            buffer,
            _arrays(f"last of waiting rollout {i}", item["last"], first, squeezed=True),
            _arrays(f"ended of waiting rollout {i}", item["ended"], np.zeros(buffer.n_envs, bool)),
        )


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
        settings: any other argument of PPO except `rollout_buffer_class`. `seed` seeds the delays
            too, in a stream of their own.
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
        self._check()
        if settings.get("rollout_buffer_class") is not None:
            raise ValueError(
                "rollout_buffer_class must be left out: waiting rollouts are buffers of "
                f"Stable-Baselines3, got {checks.show(settings['rollout_buffer_class'])}"
            )
        seed = settings.get("seed")
        drawn = np.random.SeedSequence().entropy if seed is None else seed
        self.delay_seed = checks.integer("seed", drawn, 0)
        self.collected = 0
        """The number of rollouts so far."""
        self.lost = 0
        """The number of rollouts that never arrive."""
        self._drawn = np.empty(0, dtype=np.int64)
        self._delay_of(0)  # raises now if the model cannot draw
        super().__init__(policy, env, _init_setup_model=False, **settings)
        if _init_setup_model:
            self._setup_model()

    @property
    def waiting(self) -> int:
        """The number of pending rollouts."""
        return len(self._waiting)

    def train(self) -> None:
        """Store the rollout, and update the policy with each one that arrives now."""
        number = self.collected
        self.collected += 1
        delay = self._delay_of(number)
        if delay == NEVER:
            self.lost += 1
        else:
            # The arrays of the copy are its own: a buffer takes new ones when it is reset.
            made = copy.copy(self.rollout_buffer)
            last = copy.deepcopy(self._last_obs)
            due = number + delay
            ended = np.array(self._last_episode_starts, dtype=np.bool_)
            self._waiting.add(Rollout(number, due, self._n_updates, made, last, ended))
        for rollout in self._waiting.release(number):
            self._use(rollout)
        self.logger.record("stale/waiting", len(self._waiting))
        self.logger.record("stale/lost", self.lost)

    def _use(self, rollout: Rollout) -> None:
        """Update the policy with a rollout that has arrived."""
        collecting, normalised = self.rollout_buffer, self.normalize_advantage
        try:
            self.rollout_buffer = self._corrected(rollout)
            self.logger.record_mean("stale/age", self.collected - 1 - rollout.number)
            super().train()
        finally:
            self.rollout_buffer, self.normalize_advantage = collecting, normalised

    def _check(self) -> None:
        """Check our own arguments, including those that `load` replaces."""
        if not hasattr(self.delays, "draw"):
            raise ValueError(
                f"delays must be a delay model such as belated.delays.fixed(3), "
                f"got {checks.show(self.delays)}"
            )
        checks.choice("correction", self.correction, CORRECTIONS)
        self.cap = checks.real("cap", self.cap, 0.0, above=True)
        self.limit = checks.real("limit", self.limit, 0.0)

    def _setup_model(self) -> None:
        self._check()
        super()._setup_model()
        self._waiting = PendingRollouts(self.rollout_buffer)
        self._drawn = np.empty(0, dtype=np.int64)  # a loaded model has another delay model

    def _delay_of(self, number: int) -> int:
        """The delay of a rollout; delays depend only on the seed and the model."""
        if number >= len(self._drawn):
            count = 1 << max(DRAWN, number.bit_length())
            rng = np.random.default_rng((self.delay_seed, 27))
            self._drawn = self.delays.draw(count, rng)
        return int(self._drawn[number])

    def _corrected(self, rollout: Rollout) -> RolloutBuffer:
        """The buffer of a rollout with anchors in place of old log-probabilities, and weights."""
        buffer = rollout.buffer
        then = buffer.log_probs
        discrete = not isinstance(self.action_space, spaces.Box)
        same = rollout.updates == self._n_updates
        if same and self.correction != "vtrace":
            now = then
        else:
            now, values = self._evaluated(buffer)
            now = then if same else now
        clip = float(self.clip_range(self._current_progress_remaining))  # type: ignore[operator]
        measured = staleness(
            then,
            now,
            advantage=buffer.advantages,
            clip=min(max(clip, 1e-6), 1.0),
            discrete=discrete,
        )
        for name, value in measured._asdict().items():
            self.logger.record_mean(f"stale/{name}", float(value))
        if self.correction == "vtrace":
            after = 1.0 - np.concatenate([buffer.episode_starts[1:], rollout.ended[None]])
            last = self._values_of(rollout.last)
            made = vtrace(
                then,
                now,
                buffer.rewards,
                values,
                (self.gamma * after).astype(np.float32),
                next_values=np.concatenate([values[1:], last[None]]),
                discrete=discrete,
            )
            buffer.advantages, buffer.returns, buffer.values = made.advantage, made.target, values
            fix = Correction(made.anchor, made.weight)
        else:
            fix = correct(
                then, now, self.correction, cap=self.cap, limit=self.limit, discrete=discrete
            )
        buffer.log_probs = fix.anchor
        if (fix.weight != 1.0).any():
            self._weigh(buffer, fix.weight)
        return buffer

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

    def _evaluated(self, buffer: RolloutBuffer) -> tuple[Any, Any]:
        """Log-probabilities and values of a rollout under the current policy (steps, envs)."""
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
        both = torch.cat(parts, dim=1).reshape(2, steps, environments).cpu().numpy()
        return both[0], both[1]

    def _values_of(self, observations: Any) -> Any:
        """The values of observations, one for each environment."""
        with torch.no_grad():
            found = self.policy.predict_values(obs_as_tensor(observations, self.device))
        return found.flatten().cpu().numpy()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_waiting", "_drawn"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, others = super()._get_torch_save_params()
        return [*modules, "_waiting"], others


def _rows(observations: Any, count: int, rows: slice) -> Any:
    """Some rows of observations (steps, environments, ...), which may be a dictionary."""
    if isinstance(observations, dict):
        return {name: _rows(part, count, rows) for name, part in observations.items()}
    return observations.reshape(count, *observations.shape[2:])[rows]


def _tensors(arrays: Any) -> Any:
    """Arrays as tensors with memory of their own."""
    if isinstance(arrays, dict):
        return {name: _tensors(part) for name, part in arrays.items()}
    return torch.tensor(np.asarray(arrays))


def _arrays(name: str, tensors: Any, pattern: Any, *, squeezed: bool = False) -> Any:
    """Tensors as arrays of the shapes and types of a pattern.

    squeezed: whether the shape may lack axes of length 1, as discrete observations do.
    """
    if isinstance(pattern, dict):
        if not isinstance(tensors, dict) or set(tensors) != set(pattern):
            raise ValueError(f"{name} must have the parts {', '.join(sorted(pattern))}")
        return {
            part: _arrays(f"{name}, {part},", tensors[part], pattern[part], squeezed=squeezed)
            for part in pattern
        }
    array = tensors.cpu().numpy()
    fits = array.shape == pattern.shape or (squeezed and array.size == pattern.size)
    if not fits or (array.dtype != pattern.dtype and not squeezed):
        raise ValueError(
            f"{name} must have shape {pattern.shape} and type {pattern.dtype}, as this model's "
            f"environments and steps make them, got {array.shape} and {array.dtype}"
        )
    return array
