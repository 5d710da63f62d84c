"""Worlds of decisions: conversions, outcomes with noise, items and a mailer."""

from __future__ import annotations

from typing import Literal

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.linear.choice import Choice
from belated.linear.world import DecisionWorld, Visits

Change = Literal["none", "switch", "drift"]
CHANGES = ("none", "switch", "drift")
MAILER = ((0.10, 0.04, 0.06, 0.05), (0.04, 0.05, 0.06, 0.10))
"""Purchase rates of four subject lines among two kinds of customers."""


def _sigmoid(z: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-z))


def _over_time(models: Floats, change: str, episodes: int) -> Floats:
    """The model of every decision, (K, ...), from two models (2, ...): see `conversions`."""
    if change == "none":
        return np.broadcast_to(models[0], (episodes, *models.shape[1:]))
    place = np.arange(episodes) / max(1, episodes - 1)
    weight = (place >= 0.5).astype(float) if change == "switch" else place
    weight = weight.reshape(-1, *[1] * (models.ndim - 1))
    mixed: Floats = (1.0 - weight) * models[0] + weight * models[1]
    return mixed


def conversions(
    actions: int = 4,
    features: int = 6,
    *,
    rate: float = 0.05,
    contrast: float = 1.0,
    change: Change = "none",
    amounts: float = 0.0,
    seed: int = 0,
) -> DecisionWorld:
    """Visitors who sometimes buy; only a purchase reports.

    >>> import belated as bl
    >>> bl.environments.conversions(actions=3, features=2).problem
    Choice(actions=3, features=2)

    Args:
        actions: A.
        features: d; 0 for none.
        rate: the typical probability of a purchase.
        contrast: the effect of features and actions on its log-odds.
        change: "none"; "switch": the visitors change in the middle of a run; "drift": they change
            gradually from the first decision to the last.
        amounts: the spread of the logarithm of the amounts, around 1; 0: every purchase is 1.
        seed: determines the visitors' preferences.
    """
    A, d = checks.integer("actions", actions, 1), checks.integer("features", features, 0)
    base = checks.real("rate", rate, 0.0, 1.0, above=True)
    scale = checks.real("contrast", contrast, 0.0)
    spread = checks.real("amounts", amounts, 0.0, 5.0)
    checks.choice("change", change, CHANGES)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    slopes = rng.normal(0.0, scale / np.sqrt(max(d, 1)), (2, A, d))
    offsets = np.log(base / (1.0 - base)) + rng.normal(0.0, 0.5 * scale, (2, A))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, d))
        log_odds = np.einsum("kd,kad->ka", x, _over_time(slopes, change, episodes))
        rates = _sigmoid(log_odds + _over_time(offsets, change, episodes))
        bought = rng.random(rates.shape) < rates
        worth = np.exp(rng.normal(0.0, spread, rates.shape))
        means = rates * np.exp(0.5 * spread**2)
        return Visits(x if d else None, means, np.where(bought, worth, 0.0))

    return DecisionWorld(Choice(actions=A, features=d or None), draw)


def outcomes(
    actions: int = 4,
    features: int = 6,
    *,
    noise: float = 0.5,
    change: Change = "none",
    seed: int = 0,
) -> DecisionWorld:
    """Outcomes that are linear in the features, with Gaussian noise; every one reports.

    >>> import belated as bl
    >>> bl.environments.outcomes(noise=0.1).silence is None
    True
    """
    A, d = checks.integer("actions", actions, 1), checks.integer("features", features, 0)
    sigma = checks.real("noise", noise, 0.0)
    checks.choice("change", change, CHANGES)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    slopes = rng.normal(0.0, 0.5, (2, A, d))
    offsets = rng.normal(0.0, 0.3, (2, A))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, d))
        means = np.einsum("kd,kad->ka", x, _over_time(slopes, change, episodes))
        means = means + _over_time(offsets, change, episodes)
        return Visits(x if d else None, means, means + sigma * rng.normal(size=means.shape))

    return DecisionWorld(Choice(actions=A, features=d or None), draw, silence=None)


def items(
    at_hand: int = 8,
    features: int = 8,
    *,
    rate: float = 0.1,
    contrast: float = 1.0,
    change: Change = "none",
    noise: float | None = None,
    seed: int = 0,
) -> DecisionWorld:
    """New items at every decision, described by their features, with one model for all.

    >>> import belated as bl
    >>> bl.environments.items().problem
    Choice(features=8)

    Args:
        at_hand: the number of items.
        features: d.
        rate: the typical probability that an item is accepted; only then it reports.
        contrast: the effect of features on its log-odds, or on the outcome.
        change: see `conversions`.
        noise: if given, every outcome reports: it is linear in the features, with Gaussian noise of
            this standard deviation.
        seed: determines the model.
    """
    n, d = checks.integer("at_hand", at_hand, 1), checks.integer("features", features, 1)
    base = checks.real("rate", rate, 0.0, 1.0, above=True)
    scale = checks.real("contrast", contrast, 0.0)
    checks.choice("change", change, CHANGES)
    sigma = None if noise is None else checks.real("noise", noise, 0.0)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    slopes = rng.normal(0.0, scale / np.sqrt(d), (2, d))
    offset = np.log(base / (1.0 - base))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, n, d))
        linear = np.einsum("knd,kd->kn", x, _over_time(slopes, change, episodes))
        if sigma is not None:
            return Visits(x, linear, linear + sigma * rng.normal(size=linear.shape))
        rates = _sigmoid(linear + offset)
        return Visits(x, rates, (rng.random(rates.shape) < rates).astype(float))

    silence = 0.0 if sigma is None else None
    return DecisionWorld(Choice(features=d), draw, silence=silence)


def mailer() -> DecisionWorld:
    """Four subject lines for two kinds of customers, who buy in 4 to 10 % of the cases.

    >>> import belated as bl
    >>> bl.environments.mailer().problem.names
    ('plain', 'question', 'discount', 'story')
    """
    rates = np.array(MAILER)

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        kind = rng.integers(0, 2, episodes)
        means = rates[kind]
        bought = rng.random(means.shape) < means
        return Visits(kind[:, None].astype(float), means, bought.astype(float))

    lines = ["plain", "question", "discount", "story"]
    return DecisionWorld(Choice(actions=lines, features=1), draw)
