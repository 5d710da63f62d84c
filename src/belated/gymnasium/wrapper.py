"""A Gymnasium wrapper that delays rewards, for learners of any kind."""

from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.delays import DelayLine, DelayModel, Recorded, as_delays

try:
    import gymnasium
    from gymnasium.utils import RecordConstructorArgs
except ImportError:
    raise ImportError(
        "belated.gymnasium needs Gymnasium: pip install 'belated[gymnasium]'"
    ) from None


class LateReward(NamedTuple):
    """The rewards (T,) of the T steps of an episode, delivered together."""

    episode: int
    rewards: Floats


BLOCK = 1024
"""The number of delays that are drawn together."""


class LateRewards(
    gymnasium.Wrapper[Any, Any, Any, Any],
    RecordConstructorArgs,
):
    """Withhold rewards and deliver them episodes later, in `info["late_rewards"]`.

    `step` returns reward 0.0. The rewards of episode k with delay d arrive together, as one
    `LateReward`, in the info of the last step of episode k + d (delay 0: of its own last step).
    A `reset` in the middle of an episode ends it, and the rewards that are then due arrive in the
    info of `reset`. Lost rewards (`NEVER`) never arrive. Every info has the key `"late_rewards"`,
    with an empty tuple if nothing is due, and `"episode_number"`, counted from 0.

    A `reset` with a seed starts over: episodes are numbered from 0 again, delays are drawn anew by
    the seed, and pending rewards are dropped. Seed the first reset only.

    Args:
        env: any environment.
        delays: a model, from which delays are drawn as needed; or an array of whole numbers, one
            per episode, which limits the number of episodes.
        seed: the seed of the delays, together with the seed of `reset`.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], delays: DelayModel | Ints, seed: int = 0
    ) -> None:
        RecordConstructorArgs.__init__(self, delays=delays, seed=seed)
        gymnasium.Wrapper.__init__(self, env)
        if isinstance(delays, Recorded) and not dict(delays.parameters)["repeat"]:
            delays = delays.delays
        self._model = delays if hasattr(delays, "draw") else None
        self._given = as_delays("delays", [] if self._model is not None else delays)
        self._seed = checks.integer("seed", seed, 0)
        self._start_over(None)

    def _start_over(self, seed: int | None) -> None:
        self._entropy = [self._seed] if seed is None else [self._seed, seed]
        self._drawn, self._episode, self._playing = self._given, -1, False
        self._line: DelayLine[LateReward] = DelayLine()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode; ending one early puts the rewards that are due into the info."""
        due = self._end() if self._playing and seed is None else ()
        if seed is not None:
            self._start_over(seed)
        if self._model is None and self._episode + 1 >= len(self._given):
            raise ValueError(
                f"episodes must be at most {len(self._given)}, the number of delays, "
                f"got a reset for episode {self._episode + 1}"
            )
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode, self._playing = self._episode + 1, True
        self._rewards: list[float] = []
        return observation, self._told(info, due)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with reward 0.0; the info of the last step holds the rewards that are due."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._rewards.append(float(reward))
        due = self._end() if self._playing and (terminated or truncated) else ()
        return observation, 0.0, terminated, truncated, self._told(info, due)

    def _delay(self) -> int:
        """The delay of the episode.

        The model draws the delays of all episodes up to the end of the block, and those of the
        block are used, so that a delay depends on its position; a block has its own generator.
        """
        while self._model is not None and self._episode >= len(self._drawn):
            known = len(self._drawn)
            rng = np.random.default_rng([*self._entropy, known])
            drawn = as_delays("delays", self._model.draw(max(BLOCK, 2 * known), rng))
            self._drawn = np.concatenate([self._drawn, drawn[known:]])
        return int(self._drawn[self._episode])

    def _end(self) -> tuple[LateReward, ...]:
        """Queue the rewards of the episode and return those due, oldest episode first."""
        self._playing = False
        late = LateReward(self._episode, np.array(self._rewards))
        self._line.push([late], self._delay())
        return tuple(self._line.release(self._episode))

    def _told(self, info: dict[str, Any], due: tuple[LateReward, ...]) -> dict[str, Any]:
        return {**info, "late_rewards": due, "episode_number": self._episode}
