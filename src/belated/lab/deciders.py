"""Agents for decisions with features, by kind. They are told what silence stands for."""

from __future__ import annotations

from typing import Any

from belated.config.briefing import Told
from belated.config.registry import Maker
from belated.linear.rivals import OTFLinUCB, RidgeRival, ThompsonByHand, VowpalWabbit
from belated.linear.rivals.base import Join
from belated.linear.rivals.ridge import Rule
from belated.linear.sampler import LinearSampler


def linear_sampler(
    told: Told,
    /,
    changes: bool = True,
    floor: float = 0.01,
    holdout: float = 0.0,
    close_at: float | None = None,
    seed: int = 0,
) -> LinearSampler:
    """`belated.LinearSampler`, which `recommended` gives for decisions."""
    return LinearSampler(
        told.problem,
        silence=told.silence,
        changes=changes,
        floor=floor,
        holdout=holdout,
        close_at=close_at,
        seed=seed,
    )


def ridge(
    told: Told,
    /,
    rule: Rule = "epsilon",
    scale: float = 0.05,
    join: Join = "arrival",
    window: int | None = None,
    seed: int = 0,
) -> RidgeRival:
    """Ridge regression with epsilon-greedy play, LinUCB ("ucb") or linear Thompson sampling.

    join: learn on "arrival", after a "window" of so many decisions, or "at once" with silence as
    the outcome, corrected later. Where every outcome reports, it learns on arrival in any case.
    """
    given = _joined(told, join, window)
    return RidgeRival(told.problem, rule=rule, scale=scale, seed=seed, **given)


def otf_lin_ucb(
    told: Told, /, window: int = 200, scale: float = 1.0, delta: float = 0.1, seed: int = 0
) -> OTFLinUCB:
    """OTFLinUCB (Vernade et al. 2020); scale multiplies its width, 1 is the paper."""
    return OTFLinUCB(told.problem, window=window, scale=scale, delta=delta, seed=seed)


def thompson_by_hand(told: Told, /, bits: int = 3, seed: int = 0) -> ThompsonByHand:
    """A Beta posterior per action and cell of sign patterns; a failure until it reports."""
    return ThompsonByHand(told.problem, bits=bits, seed=seed)


def vowpal_wabbit(
    told: Told,
    /,
    rule: str = "epsilon",
    epsilon: float = 0.05,
    gamma_scale: float = 10.0,
    learning_rate: float = 0.5,
    join: Join = "arrival",
    window: int | None = None,
    seed: int = 0,
) -> VowpalWabbit:
    """Vowpal Wabbit, "epsilon" or "squarecb" (needs the extra `vw`); for join see `ridge`."""
    return VowpalWabbit(
        told.problem,
        rule=rule,  # type: ignore[arg-type]
        epsilon=epsilon,
        gamma_scale=gamma_scale,
        learning_rate=learning_rate,
        seed=seed,
        **_joined(told, join, window),
    )


def _joined(told: Told, join: Join, window: int | None) -> dict[str, Any]:
    """When a rival learns: where all report, nobody would take silence for an outcome."""
    if told.silence is None:
        return {"silence": None, "join": "arrival"}
    return {"silence": told.silence, "join": join, "window": window}


KINDS: dict[str, Maker] = {
    "linear_sampler": linear_sampler,
    "otf_lin_ucb": otf_lin_ucb,
    "ridge": ridge,
    "thompson_by_hand": thompson_by_hand,
    "vowpal_wabbit": vowpal_wabbit,
}
