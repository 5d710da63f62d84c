"""Worlds of decisions: conversions, and a mailer."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.linear.choice import Choice
from belated.linear.world import DecisionWorld, Visits

Change = Literal["none", "switch", "drift"]
MAILER = ((0.10, 0.04, 0.06, 0.05), (0.04, 0.05, 0.06, 0.10))
"""Purchase rates of four subject lines among two kinds of customers."""


def over_time(models: Floats, change: str, episodes: int) -> Floats:
    """The model of every decision, (K, ...), from two models (2, ...): see `conversions`."""
    place = np.linspace(0.0, change != "none", episodes)
    weight = np.floor(place + 0.5) if change == "switch" else place
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
    checks.choice("change", change, get_args(Change))
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    slopes = rng.normal(0.0, scale / np.sqrt(max(d, 1)), (2, A, d))
    offsets = np.log(base / (1.0 - base)) + rng.normal(0.0, 0.5 * scale, (2, A))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, d))
        log_odds = np.einsum("kd,kad->ka", x, over_time(slopes, change, episodes))
        rates = 1.0 / (1.0 + np.exp(-log_odds - over_time(offsets, change, episodes)))
        bought = rng.random(rates.shape) < rates
        worth = np.exp(rng.normal(0.0, spread, rates.shape))
        means = rates * np.exp(0.5 * spread**2)
        return Visits(x if d else None, means, np.where(bought, worth, 0.0))

    return DecisionWorld(Choice(actions=A, features=d or None), draw)


def mailer() -> DecisionWorld:
    """Four subject lines for two kinds of customers, who buy in 4 to 10 % of the cases.

    >>> import belated as bl
    >>> bl.environments.mailer().problem.names
    ('plain', 'question', 'discount', 'story')
    """

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        kind = rng.integers(0, 2, episodes)
        means = np.array(MAILER)[kind]
        bought = rng.random(means.shape) < means
        return Visits(kind[:, None].astype(float), means, bought.astype(float))

    lines = ["plain", "question", "discount", "story"]
    return DecisionWorld(Choice(actions=lines, features=1), draw)
