"""Summaries of a learner for people: the outcomes of each action, and what features do."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from belated.core.arrays import Floats
from belated.evaluation.verdict import ActionRow, Z
from belated.linear.choice import Choice
from belated.linear.fit import TINY, Known, Sums
from belated.linear.model import Model, best_of


@dataclass(frozen=True, slots=True)
class Weight:
    """The effect of a feature on the outcome of an action.

    Attributes:
        action: its name, or its number; "all" if one model is shared.
        feature: the name of the feature. Numbers are in standard deviations.
        weight: the change of the outcome if the feature is 1; for a value of a category, relative
            to the mixture of values of all visitors.
        low: the lower end of its 95 % interval.
        high: the upper end of its 95 % interval.
    """

    action: str
    feature: str
    weight: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Overview:
    """A summary of a learner for people.

    Attributes:
        rows: one per action.
        probabilities: (A,) current probability of each action, averaged over the newest decisions;
            empty if the actions vary.
        weights: the weights of the features, the most significant first.
        ages: (E,), by the clock or in decisions.
        shares: (E,) the share of the reports that have arrived at these ages, over all actions.
        silence: the outcome of decisions that never report; None if all report.
    """

    rows: list[ActionRow]
    probabilities: Floats
    weights: list[Weight]
    ages: Floats
    shares: Floats
    silence: float | None


def changes(average: Floats, groups: list[range]) -> Floats:
    """What each feature changes in a visitor, (d, d).

    The indicators of a category add up to 1, like the constant, so the weight of one value alone
    has no meaning: it is compared with that of the average visitor (d,).

    groups: the indices of the values of each category.
    """
    change = np.eye(len(average))
    for group in groups:
        places = slice(group.start, group.stop)
        change[places, places] -= average[places]
    return change


def effects(known: Known, rows: Floats) -> tuple[Floats, Floats]:
    """The effect of features (n, d) on each action, and its standard error, (A, n) each."""
    variances = np.einsum("nu,auv,nv->an", rows, known.covariance, rows, optimize=True)
    return known.theta @ rows.T, known.sigma * np.sqrt(np.maximum(variances, 0.0))


def weights(problem: Choice, sums: Sums, known: Known | None, most: int) -> list[Weight]:
    """The weights of the most significant features, at most this many."""
    labels = problem.labels()
    if known is None:
        return []
    rows = changes(sums.average, problem.groups())[: len(labels)]  # without the constant
    theta, errors = effects(known, rows)
    error = Z * errors
    order = np.argsort((error - np.abs(theta)).ravel(), kind="stable")[:most]
    values = np.stack([theta, theta - error, theta + error], axis=-1)
    return [
        Weight("all" if problem.shared else problem.name(a), labels[u], *values[a, u].tolist())
        for a, u in zip(*np.unravel_index(order, theta.shape), strict=True)
    ]


def means(exposed: Floats, raw: Floats, hits: Floats) -> tuple[Floats, Floats]:
    """Mean outcome of each action and its standard error, (A,) each.

    raw: sums of the outcomes and of their squares, (A, 2), relative to silence. One additional
    outcome of average size keeps the error of an action that has not reported yet above 0.
    """
    mass = np.maximum(exposed, hits)  # a decision that has reported was exposed, whatever its F
    total, squares = raw.T
    mean: Floats = total / np.maximum(mass, 1e-12)
    typical = max(squares.sum(), 0.0) / max(hits.sum(), 1.0)
    spread = np.maximum(squares - mean**2 * mass, 0.0) + typical
    error: Floats = np.where(mass > 0.0, np.sqrt(spread) / np.maximum(mass, 1.0), math.inf)
    return mean, error


def leading(mean: Floats, error: Floats, active: list[int]) -> Floats:
    """The probability that each action is the best of the active ones, (A,)."""
    shares: Floats = np.zeros(len(mean))
    finite = np.isfinite(error[active]).all()
    shares[active] = best_of(mean[active], error[active]) if finite else 1.0 / len(active)
    return shares


def table(
    names: Sequence[str],
    counts: tuple[Floats, Floats, Floats],
    outcomes: tuple[Floats, Floats],
    silence: float = 0.0,
    retired: Collection[int] = (),
) -> list[ActionRow]:
    """A row per action.

    counts: plays, reports, exposures. outcomes: mean and error, relative to silence.
    """
    (plays, reports, exposed), (mean, error) = counts, outcomes
    leads = leading(mean, error, [a for a in range(len(names)) if a not in retired])
    ends = mean - Z * error, mean + Z * error
    told = [part + silence for part in (mean, *ends)]
    columns = plays.astype(int), reports.astype(int), exposed, *told, leads
    gone = [a in retired for a in range(len(names))]
    values = zip(names, *(column.tolist() for column in columns), gone, strict=True)
    return [ActionRow(*row) for row in values]


def learned(
    model: Model, sums: Sums, known: Known | None, silence: float | None
) -> list[ActionRow]:
    """The table of a learner; with features, the outcomes are those for all visitors."""
    problem = model.problem
    outcomes = means(sums.exposed, sums.raw, sums.hits)
    names = ["all"] if problem.shared else [problem.name(a) for a in range(len(sums.plays))]
    if known is not None and problem.width and not problem.shared:
        effect, errors = effects(known, sums.average[None])
        typical = sums.level[1] / max(sums.hits.sum(), 1.0)  # one more outcome of average size
        unsure = math.sqrt(typical / max(sums.exposed.sum(), 1.0))
        more = math.hypot(known.sigma, unsure)
        outcomes = known.constant + effect[:, 0], errors[:, 0] * more / max(known.sigma, TINY)
    counts = sums.plays, sums.hits, sums.exposed
    return table(names, counts, outcomes, silence or 0.0, model.retired)
