"""Means over seeds with bootstrap intervals, and paired differences.

The bootstrap resamples seeds. All agents of a case face the same seeds, so differences between
agents are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from belated.core.arrays import Floats, Ints
from belated.core.score import score, verdict
from belated.lab.spec import Experiment

RESAMPLES = 2000
LEVEL = 0.95
LAST = 0.1
"""Share of a run that counts as its end."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


UNDEFINED = Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True, slots=True)
class Line:
    """An agent in a case, over its seeds.

    Attributes:
        case, agent, seeds: which runs, and how many.
        cost: mean cost per episode.
        end: mean cost per episode in the last tenth of the run.
        regret: of the whole run.
        optimum: mean cost per episode of the best fixed policy.
        score: cost on a scale from the best fixed policy (0) to uniform play (1); NaN if uniform
            play is as good as the best fixed policy.
        verdict: what is wrong with the mean learning curve; empty if the agent has learned.
    """

    case: str
    agent: str
    seeds: int
    cost: Interval
    end: Interval
    regret: Interval
    optimum: float
    score: Interval
    verdict: str


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second agent, in mean cost per episode, over the seeds that both have.

    won: share of seeds on which the first has the smaller cost; a tie counts half.
    """

    case: str
    first: str
    second: str
    seeds: int
    cost: Interval
    won: float


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One column of the rows, per seed and episode."""

    seeds: Ints  # (N,)
    values: Floats  # (N, K)


def bootstrap(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean over the first axis and percentile bounds, with the same resamples at every call.

    values: (N, ...) by seed. Returns three arrays of shape (...).
    """
    N = len(values)
    flat = values.reshape(N, -1)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(N, np.full(N, 1 / N), size=RESAMPLES) / N  # (R, N)
    means = flat.T @ weights.T  # (..., R)
    outside = round((1 - LEVEL) / 2 * RESAMPLES)
    low, high = (_smallest(means, i) for i in (outside - 1, RESAMPLES - outside))
    shape = values.shape[1:]
    return flat.mean(axis=0).reshape(shape), low.reshape(shape), high.reshape(shape)


def _smallest(values: Floats, i: int) -> Floats:
    """The i-th smallest entry along the last axis, counted from 0; reorders the entries."""
    values.partition(i, axis=-1)
    return values[:, i].copy()


def interval(values: Floats) -> Interval:
    """Mean over seeds with its interval. values: (N,)."""
    mean, low, high = bootstrap(values)
    return Interval(float(mean), float(low), float(high))


def curves(rows: pl.DataFrame, column: str) -> dict[tuple[str, str], Curves]:
    """A column by (case, agent), in the order of the rows."""
    result = {}
    for (case, agent), group in rows.group_by(["case", "agent"], maintain_order=True):
        seeds = group["seed"].unique(maintain_order=True).to_numpy()
        values = group[column].to_numpy().astype(np.float64).reshape(len(seeds), -1)
        result[str(case), str(agent)] = Curves(seeds, values)
    return result


def summary(rows: pl.DataFrame) -> list[Line]:
    """One line per case and agent, in the order of the rows."""
    regret, best = curves(rows, "regret"), curves(rows, "comparator")
    uniform = curves(rows, "uniform")
    lines = []
    for (case, agent), costs in curves(rows, "value").items():
        last = max(1, round(LAST * costs.values.shape[1]))
        runs = (costs.values, best[case, agent].values, uniform[case, agent].values)
        lines.append(
            Line(
                case,
                agent,
                len(costs.seeds),
                interval(costs.values.mean(axis=1)),
                interval(costs.values[:, -last:].mean(axis=1)),
                interval(regret[case, agent].values[:, -1]),
                float(best[case, agent].values.mean()),
                _scored(np.array([score(*run) for run in zip(*runs, strict=True)])),
                verdict(*(values.mean(axis=0) for values in runs)),
            )
        )
    return lines


def _scored(scores: Floats) -> Interval:
    """Mean score of the seeds that have one."""
    defined = scores[~np.isnan(scores)]
    return interval(defined) if len(defined) else UNDEFINED


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Mean scores over seeds, by case and agent; NaN where nothing is finished or defined."""

    cases: tuple[str, ...]
    agents: tuple[str, ...]
    scores: Floats  # (cases, agents)

    @property
    def worst(self) -> Floats:
        """(agents,) the largest score of every agent that has finished all cases."""
        defined = self._defined
        if not len(defined):
            return np.full(len(self.agents), np.nan)
        worst: Floats = defined.max(axis=0)
        return worst

    @property
    def mean(self) -> Floats:
        """(agents,) the mean over cases of every agent that has finished all of them."""
        defined = self._defined
        if not len(defined):
            return np.full(len(self.agents), np.nan)
        mean: Floats = defined.mean(axis=0)
        return mean

    @property
    def _defined(self) -> Floats:
        """The cases in which some agent has a score."""
        return self.scores[~np.isnan(self.scores).all(axis=1)]

    def profile(self, agent: int, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Share of cases with a score of at most `at` (N,), and its band over cases."""
        found = self.scores[:, agent]
        found = found[~np.isnan(found)]
        return bootstrap((found[:, None] <= at).astype(np.float64))


def score_table(experiment: Experiment, lines: Sequence[Line]) -> Scores:
    """The scores of the cases that have any, in the order of the experiment."""
    found = {(line.case, line.agent): line.score.mean for line in lines}
    agents = tuple(learner.name for learner in experiment.learners)
    cases = tuple(
        case for case in experiment.case_names() if any((case, a) in found for a in agents)
    )
    rows = [[found.get((case, agent), np.nan) for agent in agents] for case in cases]
    return Scores(cases, agents, np.array(rows, dtype=np.float64))


def differences(rows: pl.DataFrame) -> list[Difference]:
    """Every pair of agents of a case, on the seeds that both have."""
    costs = curves(rows, "value")
    found = []
    for (case, first), (other, second) in combinations(costs, 2):
        if case == other:
            difference = paired(costs[case, first], costs[case, second])
            if len(difference):
                won = float((difference < 0).mean() + 0.5 * (difference == 0).mean())
                found.append(
                    Difference(case, first, second, len(difference), interval(difference), won)
                )
    return found


def paired(first: Curves, second: Curves) -> Floats:
    """First minus second, mean over episodes, on the seeds that both have: (N,)."""
    _, i, j = np.intersect1d(first.seeds, second.seeds, return_indices=True)
    difference: Floats = first.values[i].mean(axis=1) - second.values[j].mean(axis=1)
    return difference


def slope(x: Floats, y: Floats) -> float:
    """Slope of the least-squares line of log y on log x. x, y: (N,), positive."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
