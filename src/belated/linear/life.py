"""Summaries of a learner for people: the outcomes of each action, and what features do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated.core.arrays import Floats
from belated.linear.model import Known
from belated.verdict import DRAWS, ActionRow, Z


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


def weights(
    actions: list[str], labels: list[str], theta: Floats, error: Floats, most: int
) -> list[Weight]:
    """At most `most` weights; theta, error: (A, d), of which the labels name the first."""
    d = len(labels)
    sure = np.abs(theta[:, :d]) - Z * error[:, :d]
    order = np.argsort(-sure.ravel(), kind="stable")[:most]
    return [
        Weight(
            actions[a],
            labels[u],
            float(theta[a, u]),
            float(theta[a, u] - Z * error[a, u]),
            float(theta[a, u] + Z * error[a, u]),
        )
        for a, u in (divmod(place, d) for place in order.tolist())
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
    if not np.isfinite(error[active]).all():
        shares[active] = 1.0 / len(active)
        return shares
    rng = np.random.default_rng(0)  # a fixed seed, so that results repeat
    draws = mean[active] + error[active] * rng.standard_normal((DRAWS, len(active)))
    shares[active] = np.bincount(draws.argmax(axis=1), minlength=len(active)) / DRAWS
    return shares


def table(
    names: list[str],
    plays: Floats,
    hits: Floats,
    exposed: Floats,
    raw: Floats,
    silence: float,
    overall: tuple[Floats, Floats] | None,
    retired: set[int],
) -> list[ActionRow]:
    """A row per action. overall: mean and error for all visitors, where there are features."""
    mean, error = means(exposed, raw, hits) if overall is None else overall
    active = [a for a in range(len(names)) if a not in retired]
    leads = leading(mean, error, active)
    return [
        ActionRow(
            names[a],
            int(plays[a]),
            int(hits[a]),
            float(exposed[a]),
            float(mean[a]) + silence,
            float(mean[a] - Z * error[a]) + silence,
            float(mean[a] + Z * error[a]) + silence,
            float(leads[a]),
            a in retired,
        )
        for a in range(len(names))
    ]
