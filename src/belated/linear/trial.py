"""A small world of decisions, for the checks of the contract of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from belated.core.arrays import Floats
from belated.linear.reward import Reward

if TYPE_CHECKING:
    from belated.linear.choice import Choice

VISITORS = 7
ROWS = 3
"""The number of available actions if every decision brings its own."""


class Trial:
    """Visitors with features; an outcome is the value of the action plus noise."""

    def __init__(self, problem: Choice, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._values = rng.normal(size=(VISITORS, problem.actions or ROWS))
        self._visitors = [_visitor(problem, rng) for _ in range(VISITORS)]

    def play(self, agent: Any, episode: Any, rng: np.random.Generator) -> list[Reward]:
        """Act in an episode; returns its outcome."""
        kind = episode.number % VISITORS
        action, _ = episode.act(0, self._visitors[kind], rng)
        return [Reward(episode.number, float(self._values[kind, action] + rng.normal()))]

    def policy(self, agent: Any, episode: Any) -> Floats:
        """The probabilities of an episode for every visitor, (visitors, actions)."""
        rows: Floats = np.array([episode.probabilities(0, x) for x in self._visitors])
        assert np.all(rows >= 0.0)
        assert np.allclose(rows.sum(axis=1), 1.0)
        return rows

    def spoil(self, episode: Any) -> None:
        """Do nothing: an episode has no arrays to overwrite."""

    def spoiled(self, records: list[Reward]) -> list[Reward]:
        """The records themselves: rewards hold no arrays."""
        return records

    def bad_records(self, agent: Any, records: list[Reward]) -> dict[str, object]:
        """Invalid batches, by name."""
        (reward,) = records
        other = Reward(reward.episode, reward.value + 1.0)
        return {
            "an outcome never begun": [Reward(reward.episode + 100, 0.0)],
            "another outcome of the same event": [reward, other],
            "no record": [None],
            "no list": 7,
        }


def _visitor(problem: Choice, rng: np.random.Generator) -> Any:
    """Features for `decide`."""
    fields = getattr(problem.features, "fields", None)
    if fields is not None:
        given = {
            name: float(rng.normal()) if kind == "number" else f"v{rng.integers(3)}"
            for name, kind in fields.items()
        }
        return [given] * ROWS if problem.shared else given
    if problem.width == 0:
        return None
    return rng.normal(size=(ROWS, problem.width) if problem.shared else problem.width)
