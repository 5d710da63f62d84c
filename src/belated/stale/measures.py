"""Measures of staleness, to watch and to log."""

import math
from typing import NamedTuple

from belated.core import checks
from belated.stale.corrections import capped, largest, mean
from belated.stale.libraries import Array, prepared


class Staleness(NamedTuple):
    """The distance of the policy from the one that collected a rollout; scalars of its library.

    They are float32 if the arrays have fewer bits.

    Attributes:
        effective_sample_size: (sum w)^2 / (n sum w^2) of w = pi_k / pi_b, from 1 / n to 1.
        drift: mean of log pi_b - log pi_k, an estimate of KL(pi_b, pi_k).
        largest_weight: the largest w, or half of the largest number of its type.
        without_gradient: the share of samples with zero gradient in the first step of PPO with the
            behaviour anchor. With advantages: because of the clip. Without: those that would be
            clipped for one of the two signs of the advantage.
    """

    effective_sample_size: Array
    drift: Array
    largest_weight: Array
    without_gradient: Array


def staleness(
    then: Array,
    now: Array,
    *,
    advantage: Array = None,
    clip: float = 0.2,
    mask: Array = None,
    discrete: bool = False,
) -> Staleness:
    """Measure how far the policy has moved since a rollout was collected.

    Args:
        then: log pi_b of the actions of the rollout, any shape.
        now: log pi_k of the same actions, when the rollout arrives.
        advantage: of the same shape; makes `without_gradient` exact.
        clip: epsilon of PPO, in (0, 1).
        mask: True or 1 where an entry counts.
        discrete: whether actions are discrete, so that no logarithm may be positive.

    Examples:
        >>> import numpy as np
        >>> import belated as bl
        >>> print(bl.stale.staleness(np.log([0.5, 0.5]), np.log([0.5, 0.25])).largest_weight)
        1.0
    """
    clip = checks.real("clip", clip, 0.0, 1.0, above=True)
    others = {} if advantage is None else {"advantage": advantage}
    xp, (then, now, *signs), one, _ = prepared(then, now, mask, discrete, **others)
    if math.prod(then.shape) == 0:
        raise ValueError(f"then must hold at least one number, got shape {tuple(then.shape)}")
    log_weight = now - then  # 0 where the mask is False
    most = xp.where(one > 0.0, log_weight, -math.inf).max()
    scaled = xp.exp(xp.clip(log_weight - most, None, 0.0)) * one
    count = xp.clip(one.sum(), 1.0, None)
    size = scaled.sum() ** 2 / (count * xp.clip((scaled * scaled).sum(), 1.0, None))
    above = log_weight > math.log1p(clip)
    below = log_weight < (math.log1p(-clip) if clip < 1.0 else -math.inf)
    for sign in signs:
        above, below = above & (sign > 0.0), below & (sign < 0.0)
    without = mean(xp, xp.where(above | below, one, xp.zeros_like(one)), one)
    highest = capped(xp, most, largest(xp, now.dtype))
    return Staleness(size, mean(xp, then - now, one), highest, without)
