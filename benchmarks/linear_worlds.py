"""Linear outcomes, and items with one model for all, as worlds of `belated.simulate`."""

from __future__ import annotations

import numpy as np

from belated import Choice
from belated.environments import DecisionWorld, Visits
from belated.linear.worlds import Change, over_time


def outcomes(
    actions: int = 4,
    features: int = 6,
    *,
    noise: float = 0.5,
    change: Change = "none",
    seed: int = 0,
) -> DecisionWorld:
    """Outcomes that are linear in the features, with Gaussian noise; every one reports."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.0, 0.5, (2, actions, features))
    offsets = rng.normal(0.0, 0.3, (2, actions))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, features))
        means = np.einsum("kd,kad->ka", x, over_time(slopes, change, episodes))
        means = means + over_time(offsets, change, episodes)
        return Visits(x, means, means + noise * rng.normal(size=means.shape))

    return DecisionWorld(Choice(actions=actions, features=features), draw, silence=None)


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

    Args:
        at_hand: the number of items.
        features: d.
        rate: the typical probability that an item is accepted; only then it reports.
        contrast: the effect of features on its log-odds, or on the outcome.
        change: see `bl.environments.conversions`.
        noise: if given, every outcome reports: it is linear in the features, with Gaussian noise of
            this standard deviation.
        seed: determines the model.
    """
    slopes = np.random.default_rng(seed).normal(0.0, contrast / np.sqrt(features), (2, features))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, at_hand, features))
        linear = np.einsum("knd,kd->kn", x, over_time(slopes, change, episodes))
        if noise is not None:
            return Visits(x, linear, linear + noise * rng.normal(size=linear.shape))
        rates = 1.0 / (1.0 + np.exp(-linear) * (1.0 / rate - 1.0))
        return Visits(x, rates, (rng.random(rates.shape) < rates).astype(float))

    silence = 0.0 if noise is None else None
    return DecisionWorld(Choice(features=features), draw, silence=silence)
