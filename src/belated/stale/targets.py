"""V-trace: value targets and advantages for rollouts of another policy.

Espeholt et al. (ICML 2018), https://arxiv.org/abs/1802.01561, section 4.1. With w = pi_k / pi_b,
rho = min(rho_cap, w), c = trace * min(c_cap, w), V the current values and g the discount:

    v_t - V(s_t) = rho_t (r_t + g_t V(s_{t+1}) - V(s_t)) + g_t c_t (v_{t+1} - V(s_{t+1}))
    A_t          = r_t + g_t v_{t+1} - V(s_t),  used with the weight rho_t

The recursion is x_t = a_t + b_t x_{t+1}. It is solved by doubling: after the pass with shift k the
term x_t covers 2 k steps. This takes log2(T) passes over whole arrays, the same in all libraries.
"""

from typing import NamedTuple

from belated.core import checks
from belated.stale.corrections import capped
from belated.stale.libraries import Array, Namespace, booleans, cast, check, prepared


class VTrace(NamedTuple):
    """The inputs of PPO under V-trace.

    Attributes:
        anchor: the old log-probabilities, which are the current ones (T, ...).
        weight: rho, factors on the advantages (T, ...).
        advantage: A (T, ...), without its weight.
        target: v, the targets of the value function (T, ...).
    """

    anchor: Array
    weight: Array
    advantage: Array
    target: Array


def vtrace(
    then: Array,
    now: Array,
    rewards: Array,
    values: Array,
    discounts: Array,
    *,
    next_values: Array,
    ends: Array = None,
    mask: Array = None,
    rho_cap: float = 1.0,
    c_cap: float = 1.0,
    trace: float = 1.0,
    discrete: bool = False,
) -> VTrace:
    """V-trace targets and advantages of a rollout; time is the first axis of every array.

    Args:
        then: log pi_b of the actions (T, ...).
        now: log pi_k of the same actions.
        rewards: r (T, ...).
        values: V(s_t) of the current value function.
        discounts: the discount after each step, 0 where an episode terminates.
        next_values: V of the state after each step: `values` shifted by one within an episode, V of
            the last state where the rollout or a truncated episode stops.
        ends: True or 1 where an episode ends, by termination or a limit of time: nothing is carried
            over from the step after it. None: only discounts of 0 end an episode.
        mask: True or 1 where a step counts, for padded sequences; elsewhere all results are 0, and
            nothing is carried over from there.
        rho_cap: the largest weight of a temporal difference, and of the advantage.
        c_cap: the largest factor on what is carried back.
        trace: lambda, a further factor on what is carried back, from 0 to 1.
        discrete: whether actions are discrete, so that no logarithm may be positive.

    Returns:
        `anchor`, `weight`, `advantage` and `target`, constants of the library of `then`.

    Examples:
        >>> import numpy as np
        >>> import belated as bl
        >>> logs, zeros = np.log([0.5, 0.5]), np.zeros(2)
        >>> bl.stale.vtrace(
        ...     logs, logs, np.ones(2), zeros, np.array([0.9, 0.0]), next_values=zeros
        ... ).target
        array([1.9, 1. ])
    """
    rho_cap = checks.real("rho_cap", rho_cap, 0.0, above=True)
    c_cap = checks.real("c_cap", c_cap, 0.0, above=True)
    trace = checks.real("trace", trace, 0.0, 1.0)
    xp, arrays, one, dtype = prepared(
        then,
        now,
        mask,
        discrete,
        rewards=rewards,
        values=values,
        discounts=discounts,
        next_values=next_values,
    )
    then, now, rewards, values, discounts, next_values = arrays
    if not then.shape or then.shape[0] == 0:
        raise ValueError(
            f"then must have time as its first axis, (T, ...), got shape {tuple(then.shape)}"
        )
    check(xp, "discounts", discounts, lambda a: (a >= 0) & (a <= 1), "be from 0 to 1")
    carried = xp.ones_like(values)
    if ends is not None:
        carried = xp.where(booleans("ends", ends, then), xp.zeros_like(values), carried)
    rho = capped(xp, now - then, rho_cap) * one
    c = trace * capped(xp, now - then, c_cap)
    difference = rho * (rewards + discounts * next_values - values)
    beyond = _recursion(xp, difference, discounts * c * carried)  # v - V
    following = next_values + carried * _later(xp, beyond, 1)
    advantage = rewards + discounts * following - values
    parts = (now, rho, advantage, values + beyond)
    return VTrace(*(cast(xp, part, dtype) for part in parts))


def _recursion(xp: Namespace, a: Array, b: Array) -> Array:
    """Solve x_t = a_t + b_t x_{t+1} with 0 after the end (T, ...)."""
    shift = 1
    while shift < a.shape[0]:
        a, b = a + b * _later(xp, a, shift), b * _later(xp, b, shift)
        shift *= 2
    return a


def _later(xp: Namespace, array: Array, shift: int) -> Array:
    """The array shifted to `shift` steps later, 0 after the end (T, ...)."""
    return xp.concatenate((array[shift:], xp.zeros_like(array[:shift])))
