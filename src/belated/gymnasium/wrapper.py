"""A Gymnasium wrapper that delays rewards, for learners of any kind.

This module imports Gymnasium; `import belated` does not import this module.
"""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from belated import checks
from belated.arrays import Floats, Ints
from belated.delays import DelayLine, DelayModel, as_delays


class LateReward(NamedTuple):
    """The rewards (T,) of the T steps of an episode, delivered together."""

    episode: int
    rewards: Floats


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

    Args:
        env: any environment.
        delays: a model, or an array of whole numbers, one per episode.
        episodes: the number of episodes, required with a model. Playing more is an error.
        seed: decides the delays.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        delays: DelayModel | Ints,
        episodes: int | None = None,
        seed: int = 0,
    ) -> None:
        RecordConstructorArgs.__init__(self, delays=delays, episodes=episodes, seed=seed)
        gymnasium.Wrapper.__init__(self, env)
        if hasattr(delays, "draw"):
            if episodes is None:
                raise ValueError("episodes must be given with a delay model, got None")
            rng = np.random.default_rng(checks.integer("seed", seed, 0))
            self._delays = delays.draw(checks.integer("episodes", episodes, 1), rng)
        else:
            self._delays = as_delays("delays", delays)
            if episodes is not None and episodes != len(self._delays):
                raise ValueError(
                    f"delays must hold episodes = {checks.show(episodes)} numbers, "
                    f"got {len(self._delays)}"
                )
        self._episode = -1
        self._rewards: list[float] = []
        self._playing = False
        self._line: DelayLine[LateReward] = DelayLine()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode; ending one early puts the rewards that are due into the info."""
        due = self._end() if self._playing else ()
        if self._episode + 1 >= len(self._delays):
            raise ValueError(
                f"episodes must be at most {len(self._delays)}, the number of delays, "
                f"got a reset for episode {self._episode + 1}"
            )
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode += 1
        self._rewards = []
        self._playing = True
        return observation, self._told(info, due)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with reward 0.0; the info of the last step holds the rewards that are due."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._rewards.append(float(reward))
        due: tuple[LateReward, ...] = ()
        if self._playing and (terminated or truncated):
            due = self._end()
        return observation, 0.0, terminated, truncated, self._told(info, due)

    def _end(self) -> tuple[LateReward, ...]:
        """Put the rewards of the episode in line and return those due, oldest episode first."""
        self._playing = False
        late = LateReward(self._episode, np.array(self._rewards))
        self._line.push([late], int(self._delays[self._episode]))
        return tuple(self._line.release(self._episode))

    def _told(self, info: dict[str, Any], due: tuple[LateReward, ...]) -> dict[str, Any]:
        return {**info, "late_rewards": due, "episode_number": self._episode}
