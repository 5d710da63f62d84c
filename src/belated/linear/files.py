"""The numbers of a learner in a saved state: named, and checked when they are read.

Compiled code does not check indices, so every index that it uses is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.linear import sums
from belated.linear.exposure import BIN, MODEL, STATUS
from belated.linear.sums import EDGES, RING, State

_BLOCKS = ("young", "shares", "low", "high")
"""Parts that are stored for the blocks in use, oldest first."""
_LEFT_OUT = ("order", "span", "precisions")
"""Parts that are computed from others before they are used."""
_SIZES = range(sums.SEED + 1)
"""The indices of `counts` that follow from the arguments."""
_ROUNDING = 1e-6
"""The share of all squares ever added by which a sum of some of them may be wrong."""
_LARGEST = 1e120
"""The limit of sums and weights: far above what outcomes and features allow, and squares of it are
finite."""


def write(state: State) -> stored.State:
    """The numbers of a learner by name."""
    order = state.order[: state.counts[sums.BLOCKS]]
    written: dict[str, Any] = {}
    for name, part in state._asdict().items():
        if name in _BLOCKS:
            written[name] = part[order]
        elif name not in _LEFT_OUT:
            written[name] = part.copy()
    written["predicted"] = state.predicted[: min(state.counts[sums.BEGUN], RING)].copy()
    low, high = int(state.span[0]), int(state.span[1]) + 1
    written["sizes"] = state.sizes[:, low : max(low, high)].copy()
    written["first"] = low
    return written


def read(saved: object, fresh: State) -> None:
    """Fill the parts of a fresh learner with those that `write` wrote."""
    names = [name for name in State._fields if name not in _LEFT_OUT]
    given = stored.exact(saved, *names, "first")
    _read_counts(given["counts"], fresh)
    begun, blocks = int(fresh.counts[sums.BEGUN]), int(fresh.counts[sums.BLOCKS])
    first = checks.integer("first", given["first"], 0, fresh.sizes.shape[1])
    sizes = stored.array("sizes", given["sizes"], np.float64, (2, None))
    if first + sizes.shape[1] > fresh.sizes.shape[1]:
        raise ValueError(f"sizes must end below {fresh.sizes.shape[1]}, got a first of {first}")
    places: dict[str, Any] = dict.fromkeys(_BLOCKS, slice(0, blocks))
    places["predicted"] = slice(0, min(begun, RING))
    places["sizes"] = (slice(None), slice(first, first + sizes.shape[1]))
    arguments = _arguments(fresh)
    for name in names:
        if name == "counts":
            continue
        target = getattr(fresh, name)[places.get(name, slice(None))]
        if target.dtype == np.int64:
            part: npt.NDArray[Any] = stored.copied(name, given[name], np.int64, target.shape)
            stored.between(name, part, 0, begun)
        else:
            part = stored.copied(name, given[name], np.float64, target.shape)
            stored.finite(name, part)
        target[...] = part
    if sizes.shape[1]:
        fresh.span[:] = first, first + sizes.shape[1] - 1
    if not np.array_equal(arguments, _arguments(fresh)):
        raise ValueError("floor, holdout, reference and discounts must follow from the arguments")
    _check(fresh, begun, blocks)
    _check_sums(fresh, blocks)


def _arguments(state: State) -> Floats:
    """The numbers that follow from the arguments of a learner."""
    level = state.level[[sums.FLOOR, sums.HOLDOUT]]
    return np.concatenate([level, state.reference, state.memory[sums.DISCOUNT]])


def _read_counts(saved: object, fresh: State) -> None:
    """Read the whole numbers: those determined by the arguments, and others within limits."""
    counts = stored.copied("counts", saved, np.int64, (sums.COUNTS,))
    if (counts[_SIZES] != fresh.counts[_SIZES]).any():
        raise ValueError("counts must begin with the sizes that follow from the arguments")
    begun = checks.integer("begun", int(counts[sums.BEGUN]), 0, checks.MOST)
    for name, place, low, high in (
        ("base", sums.BASE, 0, begun),
        ("blocks", sums.BLOCKS, 0, len(fresh.order)),
        ("reports", sums.REPORTS, 0, begun),
        ("fresh", sums.FRESH, 0, checks.MOST),
        ("fitted", sums.FITTED, -1, begun),
        ("known", sums.KNOWN, 0, begun),
        ("unpredicted", sums.UNPREDICTED, 0, begun),
        ("kinds", sums.KINDS, 0, 2),
        ("negative", sums.NEGATIVE, 0, 1),
        ("top", sums.TOP, 0, EDGES - 1),
        ("spread", sums.SPREAD, -1, begun),
    ):
        checks.integer(name, int(counts[place]), low, high)
    fresh.counts[:] = counts


def _check(state: State, begun: int, blocks: int) -> None:
    """Check the consistency of the parts."""
    if not (state.edges[0] == 0.0 and (np.diff(state.edges) > 0.0).all()):
        raise ValueError("edges must increase from 0")
    if (state.delays[:, sums.CAME] > state.delays[:, sums.RISK]).any():
        raise ValueError("delays must have at most as many that came as were at risk")
    stored.between("delays", state.delays, 0.0, checks.MOST)
    stored.between("within", state.within, 0.0, state.edges[-1])
    stored.between("tally", state.tally[[sums.PLAYS, sums.HITS]], 0.0, checks.MOST)
    stored.between("sizes", state.sizes, 0.0, stored.LARGEST_FLOAT)
    stored.between("shares of delays", state.delays[:, sums.SHARE], 0.0, 1.0)
    stored.between("shares", state.shares, 0.0, 1.0)
    stored.between("scales", state.memory[sums.SCALE], 1e-200, 1.0)
    stored.between("weights", state.memory[sums.WEIGHT], 0.0, 1.0)
    level = state.level
    for name, place, most in (
        ("sigma", sums.SIGMA, stored.LARGEST_FLOAT),
        ("rate", sums.RATE, 1.0),
        ("optimism", sums.OPTIMISM, 1.0),
    ):
        checks.real(name, float(level[place]), 0.0, most)
    checks.real("judging", float(level[sums.JUDGING]), 0.9, 1.0)
    if level[sums.FOLLOWS] > 0.0 and not 1e-100 * level[sums.SIGMA] < level[sums.MEAN]:
        raise ValueError("mean must be above 0 where the variance follows it")
    low, high = state.low[:blocks], state.high[:blocks]
    follow = blocks == 0 or bool(
        (low[1:] == high[:-1]).all() and (low < high).all() and high[-1] == begun
    )
    if not follow:
        raise ValueError("low and high must make blocks that follow each other up to the newest")
    if blocks == 0 and state.counts[sums.SILENT] and begun:
        raise ValueError("low and high must make blocks that follow each other up to the newest")


def _check_sums(state: State, blocks: int) -> None:
    """Check that sums are not too large, and that counts and sums of squares are not negative.

    What was forgotten was subtracted, so squares may be negative by rounding, relative to all that
    was ever added.
    """
    d, t = int(state.counts[sums.FEATURES]), int(state.counts[sums.TERMS])
    first, last = 2 + 2 * d, 2 + 2 * d + t
    scale = state.memory[sums.SCALE][:, None, None]
    young, old = state.young[:blocks, :, :last], state.old * scale
    added = [("young", young[..., first:]), ("old", old[..., first:])]
    if not state.counts[sums.SILENT]:
        added.append(("asked", state.asked * scale))
    for name, part in (
        *(("theta", state.theta), ("fits", state.fits), ("tally", state.tally)),
        *(("features", state.features), ("young", young), ("old", old), *added),
        *(("mu", state.memory[sums.MU]), ("level", state.level[[sums.MEAN, sums.OFFSET]])),
    ):
        stored.between(name, part, -_LARGEST, _LARGEST)
    judged = state.memory[[sums.RP, sums.PP]], state.young[:blocks, :, last:]
    for part in judged:
        stored.between("predictions", part, -1e200, 1e200)
    if any((part < 0.0).any() for part in (young[..., 0], old[..., 0], state.features[:2])):
        raise ValueError("young, old and features must not have negative counts")
    rows, columns = (np.arange(d),) * 2 if t == d else np.triu_indices(d)
    rounding = np.sqrt(_ROUNDING * state.features[1]) + 1e-150  # smaller squares are 0
    for name, products in added:
        squares = products[..., rows == columns]
        sizes = np.sqrt(np.maximum(squares, 0.0)) + rounding
        if (squares < -rounding * rounding).any():
            raise ValueError(f"{name} must not have negative squares")
        if (np.abs(products) > 1.01 * sizes[..., rows] * sizes[..., columns]).any():
            raise ValueError(f"{name} must have products that are possible for its squares")
    if (state.tally[sums.SQUARES] < -_ROUNDING * state.sizes[1].sum()).any():
        raise ValueError("tally must not have negative squares")


def write_log(x: Floats, log: Floats, marks: npt.NDArray[np.int32], kept: int) -> stored.State:
    """The decisions in the log."""
    return {"x": x[:kept].copy(), "log": log[:kept].copy(), "marks": marks[:kept].copy()}


def read_log(
    saved: object, width: int, models: int, kept: int
) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """The log that `write_log` wrote: features (n, width), numbers (n, 3) and marks (n, 3)."""
    given = stored.exact(saved, "x", "log", "marks")
    x = stored.copied("x", given["x"], np.float64, (kept, width))
    log = stored.copied("log", given["log"], np.float64, (kept, 3))
    for name, part in (("x", x), ("log", log)):
        stored.between(name, part, -stored.LARGEST_FLOAT, stored.LARGEST_FLOAT)
    marks = stored.copied("marks", given["marks"], np.int32, (kept, 3))
    stored.between("models", marks[:, MODEL], 0, models - 1)
    stored.between("bins", marks[:, BIN], -1, EDGES - 1)
    stored.between("statuses", marks[:, STATUS], 0, 3)
    return x, log, marks


def check_early(state: State, marks: npt.NDArray[np.int32]) -> None:
    """Check that `delays` counts the reports of decisions that have not reached their bin's age."""
    if (np.diff(state.passed) > 0).any():
        raise ValueError("passed must not increase: younger decisions reach an age later")
    who = np.flatnonzero(marks[:, BIN] >= 0)
    early = who[who + state.counts[sums.BASE] >= state.passed[marks[who, BIN]]]
    waiting = np.zeros_like(state.delays[:, sums.EARLY])
    np.add.at(waiting, (marks[early, MODEL], marks[early, BIN]), 1.0)
    if (waiting > state.delays[:, sums.EARLY]).any():
        raise ValueError("delays must count all reports that were early")
