"""Corrections for stale rollouts, each of them an anchor and a weight.

With pi the policy that is optimised, A the advantage, w = pi_k / pi_b, and
P(r, A) = min(r A, clip(r) A), the objectives are

    behaviour       P(pi / pi_b, A)               anchor log pi_b               weight 1
    current         P(pi / pi_k, A)               anchor log pi_k               weight 1
    delay-adapted   P(pi / max(pi_b, pi_k), A)    anchor max of both logs       weight 1
    decoupled       w P(pi / pi_k, A)             anchor log pi_k               weight w
    truncated       min(w, C) P(pi / pi_k, A)     anchor log pi_k               weight min(w, C)
    guarded         truncated up to a drift of mean(log pi_b - log pi_k), delay-adapted above it

Since w >= 0, w P(r, A) = P(r, w A): each one is PPO with another old log-probability and a
weighted advantage.

Behaviour, current and delay-adapted: Lancewicki, Rosenberg & Sotnikov (ICML 2023), section 5,
where they are called DPPO, NDPPO and DAPPO. Decoupled: Hilton, Cobbe & Schulman (NeurIPS 2022),
https://arxiv.org/abs/2110.00641. Truncated importance sampling is older than PPO; the cap of 2 is
the one that libraries for language models use. Guarded is our own hypothesis.
"""

import math
from typing import Any, NamedTuple

from belated.core import checks
from belated.stale.libraries import Array, Namespace, cast, fails, prepared

KINDS = ("behaviour", "current", "delay-adapted", "decoupled", "truncated", "guarded")
"""The corrections that `correct` knows."""
CAP = 2.0
LIMIT = 0.03


class Correction(NamedTuple):
    """The replacement for PPO's old log-probabilities, and the weights of its advantages.

    Attributes:
        anchor: the old log-probabilities, of the shape of `then`.
        weight: factors on the advantages, of the same shape.
    """

    anchor: Array
    weight: Array


def correct(
    then: Array,
    now: Array,
    kind: str = "delay-adapted",
    *,
    cap: float = CAP,
    limit: float = LIMIT,
    mask: Array = None,
    discrete: bool = False,
) -> Correction:
    """The anchor and the weight of a correction; call it once for each rollout that arrives.

    `now` is the policy when the rollout arrives, and stays the same during the epochs of the
    update. Normalise advantages before they are weighted, not after. For actions with several
    independent parts add the logarithms first. Values are checked except inside functions that are
    being compiled (`jax.jit`, `torch.compile`), where they are not known.

    Args:
        then: log pi_b of the actions of the rollout, any shape; densities may exceed 1.
        now: log pi_k of the same actions, the same shape and library. Of two types of floats the
            wider one is returned; sums and exponentials are in float32 at least.
        kind: one of `KINDS`.
        cap: C, the largest weight of truncated and of guarded.
        limit: the largest drift up to which guarded is truncated.
        mask: True or 1 where an entry counts, for padded sequences; elsewhere anchor and weight
            are 0, whatever the values are.
        discrete: whether actions are discrete, so that no logarithm may be positive.

    Returns:
        `anchor` and `weight`, constants of the library of `then`.

    Examples:
        >>> import numpy as np
        >>> import belated as bl
        >>> then, now = np.log([0.5, 0.2]), np.log([0.25, 0.4])
        >>> fix = bl.stale.correct(then, now, "delay-adapted")
        >>> np.exp(fix.anchor)
        array([0.5, 0.4])
        >>> bl.stale.correct(then, now, "decoupled").weight
        array([0.5, 2. ])
    """
    if str(kind).lower() in ("vtrace", "v-trace"):
        raise ValueError(
            "kind must not be V-trace, which needs rewards and values: use belated.stale.vtrace"
        )
    checks.choice("kind", kind, KINDS)
    cap = checks.real("cap", cap, 0.0, above=True)
    limit = checks.real("limit", limit, 0.0)
    xp, (then, now), one, given = prepared(then, now, mask, discrete)
    most = largest(xp, given)
    if kind == "decoupled" and fails(xp, now - then <= math.log(most)):
        raise ValueError(
            f"now must not be so far above then that a weight overflows {given}, got a "
            f"difference of {float((now - then).max()):g}; truncated weights do not overflow"
        )
    # Inside a compiled function, where values are not known, decoupled weights stop at `most`.
    w = capped(xp, now - then, most if kind == "decoupled" else min(cap, most)) * one
    either, far = xp.maximum(then, now), mean(xp, then - now, one) > limit
    anchor, weight = {
        "behaviour": (then, one),
        "current": (now, one),
        "delay-adapted": (either, one),
        "decoupled": (now, w),
        "truncated": (now, w),
        "guarded": (xp.where(far, either, now), xp.where(far, one, w)),
    }[kind]
    return Correction(cast(xp, anchor, given), cast(xp, weight, given))


def capped(xp: Namespace, difference: Array, cap: float) -> Array:
    """min(exp(difference), cap); the exponential never overflows."""
    return xp.exp(xp.clip(difference, None, math.log(cap)))


def largest(xp: Namespace, dtype: Any) -> float:
    """Half of the largest number that the type can represent."""
    return float(xp.finfo(dtype).max) / 2.0


def mean(xp: Namespace, values: Array, one: Array) -> Array:
    """The mean over the entries that count, which have 1 in `one`; 0 where there are none."""
    return (values * one).sum() / xp.clip(one.sum(), 1.0, None)
