"""Worlds of decisions with features and late outcomes, whose expected outcomes are known exactly.

Every world is drawn from a seed: its parameters, then for each decision the features, the expected
outcome of every action, what each action would bring and when that would report. Two learners with
the same seed therefore meet the same visitors, and a score has no noise from the outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from belated.core.arrays import Floats

NEVER = np.inf
DECISIONS = 4000


@dataclass(frozen=True)
class DecisionWorld:
    """What every action would bring, decision by decision.

    Attributes:
        features: (T, d), or (T, A, d) where they describe the actions; d may be 0.
        means: expected outcome of every action, silence included, (T, A).
        outcomes: what every action would bring, (T, A).
        delays: when the outcome reports, in decisions, (T, A); infinite where nothing ever comes.
        silence: the outcome that does not report, or None if all report.
    """

    features: Floats
    means: Floats
    outcomes: Floats
    delays: Floats
    silence: float | None = 0.0

    @property
    def actions(self) -> int:
        """A."""
        return int(self.means.shape[1])

    def score(self, values: Floats) -> float:
        """0 for the best policy, 1 for uniform play; values: what each decision is worth, (T,)."""
        best = self.means.max(axis=1).sum()
        uniform = self.means.mean(axis=1).sum()
        return float((best - values.sum()) / (best - uniform))


def _delays(rng: np.random.Generator, shape: tuple[int, ...], kind: str, mean: float) -> Floats:
    if kind == "geometric":
        return rng.geometric(1.0 / mean, shape).astype(float)
    if kind == "lognormal":
        return np.ceil(mean * np.exp(rng.normal(-0.5, 1.0, shape)))
    return rng.integers(1, int(2 * mean), shape).astype(float)


def _sigmoid(z: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-z))


def _gaussian(rng: np.random.Generator, T: int, d: int) -> Floats:
    return rng.normal(size=(T, d))


def _successes(
    rng: np.random.Generator, features: Floats, rates: Floats, delays: Floats, amount: Floats | None
) -> DecisionWorld:
    came = rng.random(rates.shape) < rates
    value = np.ones(rates.shape) if amount is None else amount
    means = rates if amount is None else rates * amount.mean()
    return DecisionWorld(
        features, means, np.where(came, value, 0.0), np.where(came, delays, NEVER), 0.0
    )


def rare(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Conversions of about 1 to 10 %, by a logistic model per action."""
    A, d = int(rng.integers(3, 7)), int(rng.integers(4, 11))
    x = _gaussian(rng, T, d)
    theta = rng.normal(size=(A, d)) * 0.8 / np.sqrt(d) * rng.uniform(0.8, 1.4)
    rates = _sigmoid(x @ theta.T + rng.normal(0, 0.4, A) + rng.uniform(-3.6, -2.6))
    kind = str(rng.choice(["geometric", "lognormal", "uniform"]))
    return _successes(rng, x, rates, _delays(rng, rates.shape, kind, rng.uniform(50, 200)), None)


def common(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Successes of 20 to 60 %, by a linear model per action."""
    A, d = int(rng.integers(3, 7)), int(rng.integers(4, 11))
    x = rng.uniform(-1, 1, (T, d))
    theta = rng.normal(size=(A, d)) * rng.uniform(0.15, 0.3) / np.sqrt(d / 3)
    rates = np.clip(x @ theta.T + rng.uniform(0.25, 0.5) + rng.normal(0, 0.05, A), 0.02, 0.95)
    kind = str(rng.choice(["geometric", "lognormal", "uniform"]))
    return _successes(rng, x, rates, _delays(rng, rates.shape, kind, rng.uniform(50, 200)), None)


def heavy(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Amounts with a heavy tail after some 10 to 30 % of the decisions."""
    A, d = int(rng.integers(3, 7)), int(rng.integers(4, 11))
    x = rng.uniform(-1, 1, (T, d))
    theta = rng.normal(size=(A, d)) * 0.25 / np.sqrt(d / 3)
    rates = np.clip(x @ theta.T + rng.uniform(0.15, 0.3) + rng.normal(0, 0.04, A), 0.01, 0.95)
    spread = rng.uniform(0.8, 1.3)
    amount = 40.0 * np.exp(rng.normal(0, spread, rates.shape))
    came = rng.random(rates.shape) < rates
    delays = _delays(rng, rates.shape, "lognormal", rng.uniform(50, 150))
    return DecisionWorld(
        x,
        rates * 40.0 * np.exp(spread**2 / 2),
        np.where(came, amount, 0.0),
        np.where(came, delays, NEVER),
        0.0,
    )


def slow_lost(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Better actions report later, and a share of the outcomes is lost."""
    A, d = int(rng.integers(3, 6)), int(rng.integers(3, 8))
    x = rng.uniform(-1, 1, (T, d))
    theta = rng.normal(size=(A, d)) * 0.12 / np.sqrt(d / 3)
    base = np.sort(rng.uniform(0.08, 0.3, A))
    rates = np.clip(x @ theta.T + base, 0.01, 0.9)
    means = np.geomspace(20, rng.uniform(250, 450), A)
    delays = np.ceil(rng.exponential(1.0, rates.shape) * means)

    world = _successes(rng, x, rates * 0.8, delays, None)

    order = rng.permutation(A)
    return DecisionWorld(
        x, world.means[:, order], world.outcomes[:, order], world.delays[:, order], 0.0
    )


def switch(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """The models change once, in the middle."""
    A, d = int(rng.integers(3, 6)), int(rng.integers(3, 8))
    x = rng.uniform(-1, 1, (T, d))
    rates = np.empty((T, A))
    cut = int(T * rng.uniform(0.4, 0.6))
    for part in (slice(0, cut), slice(cut, T)):
        theta = rng.normal(size=(A, d)) * 0.25 / np.sqrt(d / 3)
        rates[part] = x[part] @ theta.T + 0.3 + rng.normal(0, 0.06, A)
    delays = _delays(rng, rates.shape, "geometric", rng.uniform(40, 120))
    return _successes(rng, x, np.clip(rates, 0.01, 0.95), delays, None)


def linear_drift(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Every outcome reports, with noise; the models of the actions exchange places step by step."""
    A, d = int(rng.integers(3, 6)), int(rng.integers(3, 8))
    x = _gaussian(rng, T, d)
    knots = rng.normal(size=(4, A, d)) * 0.5
    place = np.linspace(0, 3, T)
    left = np.minimum(place.astype(int), 2)
    part = (place - left)[:, None, None]
    theta = (1 - part) * knots[left] + part * knots[left + 1]
    means = np.einsum("td,tad->ta", x, theta) + rng.normal(0, 0.3, A)
    outcomes = means + rng.normal(0, 0.5, means.shape)
    delays = _delays(rng, means.shape, "geometric", rng.uniform(20, 80))
    return DecisionWorld(x, means, outcomes, delays, None)


def drift(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Success rates rotate through the space of the features."""
    A, d = int(rng.integers(3, 6)), int(rng.integers(3, 6))
    x = rng.uniform(-1, 1, (T, d))
    first, second = rng.normal(size=(2, A, d)) * 0.3 / np.sqrt(d / 3)
    angle = np.linspace(0, np.pi * rng.uniform(1.0, 1.6), T)[:, None, None]
    theta = np.cos(angle) * first + np.sin(angle) * second
    rates = np.clip(np.einsum("td,tad->ta", x, theta) + 0.35, 0.01, 0.95)
    delays = _delays(rng, rates.shape, "geometric", rng.uniform(30, 100))
    return _successes(rng, x, rates, delays, None)


def _classes(name: str, rng: np.random.Generator, T: int) -> DecisionWorld:
    data, labels = getattr(import_module("sklearn.datasets"), name)(return_X_y=True)
    data = (data - data.mean(0)) / data.std(0)
    rows = rng.integers(0, len(data), T)
    A = int(labels.max()) + 1
    means = (labels[rows][:, None] == np.arange(A)[None]).astype(float)
    delays = _delays(rng, means.shape, "geometric", rng.uniform(40, 120))
    return DecisionWorld(data[rows], means, means.copy(), np.where(means > 0, delays, NEVER), 0.0)


def cancer(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Diagnoses of breast cancer: only a right answer reports."""
    return _classes("load_breast_cancer", rng, T)


def wine(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Cultivars of wine: only a right answer reports."""
    return _classes("load_wine", rng, T)


def arms(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Four actions of 4 to 10 %, no features, nothing changes."""
    rates = np.tile(rng.permutation(np.array([0.04, 0.06, 0.08, 0.10])), (T, 1))
    delays = _delays(rng, rates.shape, "geometric", rng.uniform(50, 150))
    return _successes(rng, np.zeros((T, 0)), rates, delays, None)


def items(rng: np.random.Generator, T: int = DECISIONS) -> DecisionWorld:
    """Eight available items, described by their features; one model for all."""
    A, d = 8, int(rng.integers(5, 12))
    x = rng.normal(size=(T, A, d))
    theta = rng.normal(size=d) * 0.4 / np.sqrt(d)
    rates = _sigmoid(x @ theta * 1.5 - 2.2)
    delays = _delays(rng, rates.shape, "lognormal", rng.uniform(50, 150))
    return _successes(rng, x, rates, delays, None)


Make = Callable[[np.random.Generator, int], DecisionWorld]
NINE = (rare, common, heavy, slow_lost, switch, linear_drift, drift, cancer, wine)
ALL = (*NINE, arms, items)
