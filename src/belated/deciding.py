"""The loop of `simulate` for worlds of decisions, whose outcomes arrive late or never."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.delays import (
    NEVER,
    DelayLine,
    PlayedEpisode,
    as_delays,
    is_oblivious,
    missing_feedback,
)
from belated.linear.reward import Reward
from belated.linear.world import DecisionWorld, Visits

Progress = Callable[[range], Iterable[int]]


def decided(
    world: DecisionWorld,
    agent: Any,
    *,
    delays: Any = None,
    episodes: int,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Let an agent decide for every visitor of a run; returns the columns of a `Run`.

    The value of a decision is exact: the expected outcome under the probabilities that the agent
    states. The comparator is the best action for every visitor. Costs are negated outcomes.
    """
    if agent.problem != world.problem:
        raise ValueError(f"agent must be made for {world.problem!r}, got {agent.problem!r}")
    streams = np.random.SeedSequence(checks.integer("seed", seed, 0)).spawn(3)
    visits = world.visits(episodes, np.random.default_rng(streams[0]))
    rng = np.random.default_rng(streams[2])
    waits = _waits(delays, visits, episodes, rng)
    line: DelayLine[Reward] = DelayLine()
    values, realised = np.zeros(episodes), np.zeros(episodes)
    drawn = np.full(episodes, NEVER, dtype=np.int64)
    steps = range(episodes)
    for k in steps if progress is None else progress(steps):
        decision = agent.decide(visits.at(k))
        if decision.number != k:
            raise ValueError(
                f"agent must be fresh and number its decisions 0, 1, 2, ..., got "
                f"{checks.show(decision.number)} for decision {k}"
            )
        brings = float(visits.outcomes[k, decision.action])
        values[k] = -float(np.dot(decision.probabilities, visits.means[k]))
        realised[k] = -brings
        if world.silence is None or brings != world.silence:
            drawn[k] = waits(k, decision.action, brings)
            line.push([Reward(k, brings)], int(drawn[k]))
        agent.observe(line.release(k))
    return {
        "values": values,
        "realised": realised,
        "comparator": -visits.means.max(axis=1),
        "uniform": -visits.means.mean(axis=1),
        "best_policy": None,
        "delays": drawn,
        "missing": missing_feedback(drawn),
        "diagnostics": dict(agent.diagnostics()),
    }


def _waits(
    delays: Any, visits: Visits, episodes: int, rng: np.random.Generator
) -> Callable[[int, int, float], int]:
    """A function that gives the delay of a decision from its number, action and outcome."""
    if not is_oblivious(delays):
        return lambda k, action, brings: delays.after(
            PlayedEpisode(k, np.array([action]), np.array([brings])), rng
        )
    if delays is None and visits.delays is not None:
        own = visits.delays
        return lambda k, action, brings: int(own[k, action])
    given: Ints
    if delays is None:
        given = np.zeros(episodes, dtype=np.int64)
    elif hasattr(delays, "draw"):
        given = delays.draw(episodes, rng)
    else:
        given = as_delays("delays", delays)
    if len(given) != episodes:
        raise ValueError(f"delays must hold episodes = {episodes} numbers, got {len(given)}")
    return lambda k, action, brings: int(given[k])
