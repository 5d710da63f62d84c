"""What rows say: means over seeds with intervals, differences, and the selected settings.

The bootstrap resamples seeds. All agents of a case face the same seeds, so differences between
agents are taken seed by seed.

The best of many settings looks better than it is on the seeds on which it was chosen. With
`select = { seeds = 5 }` the choice is made on the first five seeds, for every agent and every case
separately, and only the other seeds are reported. With `cases = "together"` every agent has one
setting for all cases: that with the smallest mean score over cases, since costs of different worlds
differ in scale.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any
import numpy as np
import polars as pl

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.delays import NEVER, total_delay
from belated.lab.spec import Experiment, settings
from belated.tabular.hindsight import score, verdict

RESAMPLES = 2000
LEVEL = 0.95
LAST = 0.1
"""The share of a run that counts as its end."""


ON = ("means", "drawn")
"""Costs in expectation over their noise, or as they were drawn."""
COLUMNS = {
    "means": ("mean_value", "mean_comparator", "mean_uniform"),
    "drawn": ("value", "comparator", "uniform"),
}
REGRETS = {
    "hindsight": "regret",
    "means": "regret on mean costs",
    "dynamic": "dynamic regret",
    "so far": "regret so far",
}
"""The kinds of regret and their names.

hindsight: against the best fixed policy of the whole run, for the costs that were drawn. means: the
same for mean costs (pseudo-regret). dynamic: against the best policy of every episode. so far: of
the episodes up to k, against the best fixed policy of these. The last two are on mean costs.
"""
DEFAULT = {"means": "means", "drawn": "hindsight"}
"""The regret for these costs, if none is asked for."""


def with_regret(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows with one of the cumulative regrets in the column `regret`."""
    mean = pl.col("mean_value")
    regrets = {
        "hindsight": pl.col("regret"),
        "means": (mean - pl.col("mean_comparator")).cum_sum(),
        "dynamic": (mean - pl.col("best_each")).cum_sum(),
        "so far": mean.cum_sum() - pl.col("best_so_far"),
    }
    found = regrets[checks.choice("regret", kind, REGRETS)]
    return rows.with_columns(regret=found.over(["case", "agent", "seed"]))


def noisy(rows: pl.DataFrame) -> bool:
    """Whether some costs have noise: expected costs differ from those of the drawn functions."""
    return not rows["value"].equals(rows["mean_value"])


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
        case, agent, seeds: the case, the agent and the number of seeds.
        cost: mean cost per episode.
        end: mean cost per episode in the last tenth of the run.
        regret: the regret of the whole run.
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
    return values.mean(axis=0), *_bounds(values, np.mean)


def _bounds(values: Floats | Ints, statistic: Callable[..., Floats]) -> tuple[Floats, Floats]:
    """The bounds of a statistic of the seeds, which takes an axis; one seed gives a point."""
    if len(values) == 1:
        only = statistic(values, axis=0)
        return only, only
    from scipy.stats import bootstrap  # noqa: PLC0415 - slow to import

    found = bootstrap(
        (values,),
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        vectorized=True,
        random_state=np.random.default_rng(0),
    ).confidence_interval
    return found.low, found.high


def interval(values: Floats) -> Interval:
    """Mean over seeds with its interval. values: (N,); undefined if there are none."""
    return Interval(*map(float, bootstrap(values))) if len(values) else UNDEFINED


def curves(
    rows: pl.DataFrame, column: str, by: Sequence[str] = ("case", "agent")
) -> dict[tuple[str, str], Curves]:
    """A column by (case, agent), in the order of the rows."""
    result = {}
    for (case, agent), group in rows.group_by(by, maintain_order=True):
        seeds = group["seed"].unique(maintain_order=True).to_numpy()
        values = group[column].to_numpy().astype(np.float64).reshape(len(seeds), -1)
        result[str(case), str(agent)] = Curves(seeds, values)
    return result


def summary(rows: pl.DataFrame, on: str = "means", kind: str | None = None) -> list[Line]:
    """One line per case and agent, in the order of the rows.

    Args:
        rows: the rows of some runs.
        on: "means" for costs in expectation over their noise, "drawn" for costs as drawn.
        kind: one of `REGRETS`; by default against the best fixed policy for the same costs.
    """
    checks.choice("on", on, ON)
    value, comparator, at_random = COLUMNS[on]
    regret = curves(with_regret(rows, kind or DEFAULT[on]), "regret")
    best = curves(rows, comparator)
    uniform = curves(rows, at_random)
    lines = []
    for (case, agent), costs in curves(rows, value).items():
        last = max(1, round(LAST * costs.values.shape[1]))
        runs = (costs.values, best[case, agent].values, uniform[case, agent].values)
        scores = np.array([score(*run) for run in zip(*runs, strict=True)])
        lines.append(
            Line(
                case,
                agent,
                len(costs.seeds),
                interval(costs.values.mean(axis=1)),
                interval(costs.values[:, -last:].mean(axis=1)),
                interval(regret[case, agent].values[:, -1]),
                float(best[case, agent].values.mean()),
                interval(scores[~np.isnan(scores)]),
                verdict(*(values.mean(axis=0) for values in runs)),
            )
        )
    return lines


def score_table(experiment: Experiment, lines: Sequence[Line]) -> tuple[list[str], Floats]:
    """The cases that have any scores, in the order of the experiment, and their mean scores.

    Returns the names of the cases, and the scores over seeds (cases, agents), NaN where nothing is
    finished or defined.
    """
    found = {(line.case, line.agent): line.score.mean for line in lines}
    agents = [learner.name for learner in experiment.learners]
    cases = [case for case in experiment.case_names() if any((case, a) in found for a in agents)]
    rows = [[found.get((case, agent), np.nan) for agent in agents] for case in cases]
    return cases, np.array(rows, dtype=np.float64)


def profile(scores: Floats, at: Floats) -> tuple[Floats, Floats, Floats]:
    """The share of scores (C,) that are at most `at` (N,), and its band over cases."""
    return bootstrap((scores[:, None] <= at).astype(np.float64))


def differences(
    rows: pl.DataFrame, baseline: str | None = None, on: str = "means"
) -> list[Difference]:
    """Every pair of agents of a case, on the seeds that both have; or all against one baseline."""
    costs = curves(rows, COLUMNS[checks.choice("on", on, ON)][0])
    agents = list(dict.fromkeys(agent for _, agent in costs))
    if baseline is not None:
        checks.choice("baseline", baseline, agents)
    found = []
    for (case, first), (other, second) in combinations(costs, 2):
        pair = (second, first) if baseline == first else (first, second)
        if case != other or baseline not in (None, *pair):
            continue
        one, two = (costs[case, agent] for agent in pair)
        _, i, j = np.intersect1d(one.seeds, two.seeds, return_indices=True)
        difference = one.values[i].mean(axis=1) - two.values[j].mean(axis=1)
        if len(difference):
            won = float((difference < 0).mean() + 0.5 * (difference == 0).mean())
            found.append(Difference(case, *pair, len(difference), interval(difference), won))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The regret of whole runs over a quantity.

    Attributes:
        x: (N,) values of the quantity.
        regret: (N,) the regret there.
        slope: of the least-squares line on logarithmic axes, with an interval over seeds; NaN if
            undefined.
        chosen: the points that were selected.
        level: whether the curve is constant, because the agent does not have the parameter.
    """

    x: Floats
    regret: tuple[Interval, ...]
    slope: Interval = UNDEFINED
    chosen: tuple[int, ...] = ()
    level: bool = False


def exponents(
    experiment: Experiment, rows: pl.DataFrame, lines: Sequence[Line], kind: str
) -> dict[str, Series]:
    """How the regret of every agent grows over K, or over K + D (`experiment.against`).

    kind: the regret of the lines, one of `REGRETS`.
    """
    by = {(line.case, line.agent): line for line in lines}
    found = curves(with_regret(rows, kind), "regret")
    result = {}
    for learner in experiment.learners:
        cases = [case for case in experiment.case_names() if (case, learner.name) in by]
        ends = {
            case: dict(zip(curve.seeds.tolist(), curve.values[:, -1].tolist(), strict=True))
            for case in cases
            for curve in [found[case, learner.name]]
        }
        x = np.array([across(experiment, rows, case) for case in cases])
        regret = tuple(by[case, learner.name].regret for case in cases)
        result[learner.name] = Series(x, regret, _slope(x, ends))
    return result


def _slope(x: Floats, ends: dict[str, dict[int, float]]) -> Interval:
    """The slope over cases, and its interval over the seeds that all cases have."""
    seeds = sorted(set.intersection(*(set(end) for end in ends.values()))) if ends else []
    if len(x) < 2 or not seeds:
        return UNDEFINED
    regret = np.array([[end[seed] for end in ends.values()] for seed in seeds])  # (N, C)
    logs = np.log(x) - np.log(x).mean()
    square = logs @ logs

    def slope(drawn: Ints, axis: int) -> Floats:
        """The slope of the least-squares line of log regret on log x, for places of seeds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.log(regret[drawn].mean(axis=axis - (axis < 0))) @ logs / square
        return found

    places = np.arange(len(seeds))
    mean = float(slope(places, axis=0))
    if not np.isfinite(mean):
        return UNDEFINED
    low, high = _bounds(places, slope)
    return Interval(mean, float(low), float(high))


def across(experiment: Experiment, rows: pl.DataFrame, case: str) -> float:
    """The quantity on the axis for a case: K, or K + D with D averaged over seeds."""
    K = experiment.scene(case).episodes
    if experiment.against == "episodes":
        return float(K)
    some = rows.filter(pl.col("case") == case)
    first = some.filter(pl.col("agent") == some["agent"][0])
    (delays,) = curves(first, "delay").values()
    drawn = np.where(delays.values < 0, NEVER, delays.values).astype(np.int64)
    return float(K + np.mean([total_delay(one) for one in drawn]))


def series(experiment: Experiment, case: str, learner: str, path: str) -> str:
    """The name of the curve over a path that contains a case and a learner."""
    found = []
    for variant in experiment.variants(case, learner):
        others = settings(experiment, [pair for pair in variant.at if pair[0] != path])
        found.append(", ".join(filter(None, [variant.base, others])))
    return ": ".join(filter(None, found))


def over(experiment: Experiment, lines: Sequence[Line], path: str) -> dict[str, dict[Any, Line]]:
    """The lines over a path, by the name of a curve and the value.

    An agent or a case without the parameter has the same line at every value.
    """
    values = dict(experiment.sweep)[path]
    found: dict[str, dict[Any, Line]] = {}
    for line in lines:
        at = experiment.at(line.case, line.agent)
        curve = found.setdefault(series(experiment, line.case, line.agent, path), {})
        curve.update(dict.fromkeys([at[path]] if path in at else values, line))
    return found


Choices = dict[tuple[str, str], list[Line]]
"""The settings of every swept agent, by case and agent: the chosen one first."""


def chosen_on(experiment: Experiment, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the seeds on which the choice is made; all rows if there is none."""
    if experiment.select is None:
        return rows
    return rows.filter(pl.col("seed") < experiment.first_seed + experiment.select.seeds)


def choose(experiment: Experiment, rows: pl.DataFrame) -> Choices:
    """The settings of every swept agent, the best first; those with missing seeds do not count.

    Ties go to the first setting.
    """
    found: Choices = {}
    some = chosen_on(experiment, rows)
    if experiment.select is None or not len(some):
        return found
    for line in summary(some):
        swept = line.agent != experiment.base(line.agent)
        if swept and line.seeds == experiment.select.seeds:
            found.setdefault((line.case, experiment.base(line.agent)), []).append(line)
    if experiment.select.cases == "each":
        return {key: sorted(lines, key=lambda line: line.cost.mean) for key, lines in found.items()}
    settings: dict[str, list[Line]] = {}
    for line in chain(*found.values()):
        settings.setdefault(line.agent, []).append(line)
    whole = {name for name, own in settings.items() if len(own) == len(experiment.cases_of(name))}
    means = {name: mean_score(settings[name]) for name in whole}
    for key, lines in found.items():
        found[key] = sorted(lines, key=lambda line: means.get(line.agent, np.inf))
    return {key: lines for key, lines in found.items() if lines[0].agent in whole}


def mean_score(lines: Sequence[Line]) -> float:
    """The mean score over the cases that have one; infinite if none has."""
    scores = [line.score.mean for line in lines if not np.isnan(line.score.mean)]
    return float(np.mean(scores)) if scores else np.inf


def reported(experiment: Experiment, rows: pl.DataFrame, choices: Choices) -> pl.DataFrame:
    """The rows that are reported: with a selection, the chosen settings on the other seeds."""
    if experiment.select is None:
        return rows
    names = [one.name for one in experiment.learners if one.name == experiment.base(one.name)]
    kept = [(case, name) for case in experiment.case_names() for name in names]
    kept += [(lines[0].case, lines[0].agent) for lines in choices.values()]
    wanted = pl.DataFrame(kept, {"case": pl.String, "agent": pl.String}, orient="row")
    others = rows.filter(pl.col("seed") >= experiment.first_seed + experiment.select.seeds)
    return others.join(wanted, on=["case", "agent"], how="semi", maintain_order="left")


def sentence(experiment: Experiment) -> str:
    """A sentence on the selection; empty if there is none."""
    if experiment.select is None:
        return ""
    first, n = experiment.first_seed, experiment.select.seeds
    chosen, others = seeds(first, n), seeds(first + n, experiment.seeds - n)
    how = {
        "each": "in each case by itself, by its cost per episode",
        "together": "one for all cases, by its mean score over cases",
    }[experiment.select.cases]
    return (
        f"The setting of every swept agent was selected, {how} on {chosen}; tables, "
        f"curves and differences show the selected settings on {others} "
        f"only. Over a swept parameter all settings are shown, on {chosen}."
    )


def seeds(first: int, number: int) -> str:
    """A range of seeds in words."""
    return f"seed {first}" if number == 1 else f"seeds {first} to {first + number - 1}"
