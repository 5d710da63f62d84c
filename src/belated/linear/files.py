"""Arrays of a learner in a saved state: named, of one kind and shape, checked when they are read.

Compiled code does not check indices, so every index that it uses is checked here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from belated.core import checks, stored
from belated.linear.exposure import EDGES, Exposure
from belated.linear.learning import RING, Level, Log, Model, Tails
from belated.linear.sums import Old, Young


class Sizes(NamedTuple):
    """What the shapes of all arrays follow from."""

    models: int
    features: int
    columns: int  # features, or 1 for a diagonal
    memories: int


def _array(
    saved: dict[str, Any], name: str, shape: tuple[int, ...], low: float, high: float
) -> npt.NDArray[Any]:
    """A float array of a shape whose entries are in [low, high]."""
    read = stored.copied(name, saved[name], np.float64, shape)
    stored.between(name, read, low, high)
    return read


def _whole(
    saved: dict[str, Any], name: str, shape: tuple[int, ...], low: int, high: int
) -> npt.NDArray[np.int64]:
    """The same of whole numbers."""
    read = stored.copied(name, saved[name], np.int64, shape)
    stored.between(name, read, low, high)
    return read


def write_exposure(exposure: Exposure) -> stored.State:
    """The counts of delays."""
    return {name: column.copy() for name, column in exposure._asdict().items()}


def read_exposure(state: object, sizes: Sizes, begun: int) -> Exposure:
    """The counts that `write_exposure` wrote."""
    saved = stored.exact(state, *Exposure._fields)
    counts = (sizes.models, EDGES)
    edges = _array(saved, "edges", (EDGES,), 0.0, stored.LARGEST_FLOAT)
    if not (edges[0] == 0.0 and (np.diff(edges) > 0.0).all()):
        raise ValueError("edges must increase from 0")
    came = _array(saved, "came", counts, 0.0, checks.MOST)
    risk = _array(saved, "risk", counts, 0.0, checks.MOST)
    if (came > risk).any():
        raise ValueError("came must be at most risk")
    young = _array(saved, "young", counts, 0.0, checks.MOST)
    passed = _whole(saved, "passed", (EDGES,), 0, begun)
    return Exposure(edges, came, risk, young, passed, _array(saved, "share", counts, 0.0, 1.0))


def write_young(young: Young, blocks: int) -> stored.State:
    """The blocks in use, oldest first."""
    order = young.order[:blocks]
    return {name: getattr(young, name)[order] for name in Young._fields if name != "order"}


def read_young(state: object, fresh: Young, sizes: Sizes, begun: int) -> int:
    """Fill fresh blocks with those that `write_young` wrote; returns how many there are."""
    names = [name for name in Young._fields if name != "order"]
    saved = stored.exact(state, *names)
    low = stored.array("low", saved["low"], np.int64, (None,))
    blocks = len(low)
    if blocks > len(fresh.order):
        raise ValueError(f"low must have at most {len(fresh.order)} entries, got {blocks}")
    for name in names:
        column = getattr(fresh, name)
        shape = (blocks, *column.shape[1:])
        if name in ("low", "high"):
            column[:blocks] = _whole(saved, name, shape, 0, begun)
        else:
            column[:blocks] = _array(
                saved, name, shape, -stored.LARGEST_FLOAT, stored.LARGEST_FLOAT
            )
    high = fresh.high[:blocks]
    follow = blocks == 0 or (
        bool((fresh.low[1:blocks] == high[:-1]).all())
        and bool((fresh.low[:blocks] < high).all())
        and high[-1] == begun
    )
    if not follow:
        raise ValueError("low and high must make blocks that follow each other up to the newest")
    return blocks


def write_named(arrays: NamedTuple) -> stored.State:
    """Arrays by name."""
    return {name: column.copy() for name, column in arrays._asdict().items()}


def read_old(state: object, fresh: Old) -> Old:
    """The settled sums."""
    saved = stored.exact(state, *Old._fields)
    arrays = {
        name: _array(saved, name, column.shape, -stored.LARGEST_FLOAT, stored.LARGEST_FLOAT)
        for name, column in fresh._asdict().items()
    }
    stored.between("scale", arrays["scale"], 1e-200, 1.0)
    return Old(**arrays)


def write_model(model: Model, begun: int) -> stored.State:
    """What was fitted, and the predictions that are remembered."""
    written = write_named(model)
    written["predicted"] = model.predicted[: min(begun, RING)].copy()
    return written


def read_model(state: object, fresh: Model, begun: int) -> Model:
    """The model that `write_model` wrote."""
    saved = stored.exact(state, *Model._fields)
    rows = min(begun, RING)
    shapes = {name: column.shape for name, column in fresh._asdict().items()}
    shapes["predicted"] = (rows, shapes["predicted"][1])
    arrays = {
        name: _array(saved, name, shape, -stored.LARGEST_FLOAT, stored.LARGEST_FLOAT)
        for name, shape in shapes.items()
    }
    fresh.predicted[:rows] = arrays["predicted"]
    stored.between("weight", arrays["weight"], 0.0, 1.0)
    return Model(**{**arrays, "predicted": fresh.predicted})


def write_log(log: Log, kept: int) -> stored.State:
    """The decisions in the log; small whole numbers as `int32`."""
    written = {name: column[:kept].copy() for name, column in log._asdict().items()}
    for name in ("bin", "status"):
        written[name] = written[name].astype(np.int32)
    return written


def read_log(state: object, sizes: Sizes, kept: int) -> Log:
    """The log that `write_log` wrote."""
    saved = stored.exact(state, *Log._fields)
    most = {"model": sizes.models - 1, "bin": EDGES - 1, "status": 3}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in Log._fields:
        shape = (kept, sizes.features) if name == "x" else (kept,)
        if name in most:
            read = stored.copied(name, saved[name], np.int32, shape)
            stored.between(name, read, -1 if name == "bin" else 0, most[name])
            arrays[name] = read if name == "model" else read.astype(np.int8)
        else:
            arrays[name] = _array(saved, name, shape, -stored.LARGEST_FLOAT, stored.LARGEST_FLOAT)
    return Log(**arrays)


def write_tails(tails: Tails) -> stored.State:
    """The sizes of outcomes that have come."""
    low, high = int(tails.span[0]), int(tails.span[1]) + 1
    part = slice(low, max(low, high))
    return {
        "first": low,
        "count": tails.number[part].copy(),
        "square": tails.square[part].copy(),
    }


def read_tails(state: object, fresh: Tails) -> None:
    """Fill fresh tails with those that `write_tails` wrote."""
    saved = stored.exact(state, "first", "count", "square")
    size = len(fresh.number)
    count = stored.array("count", saved["count"], np.float64, (None,))
    first = checks.integer("first", saved["first"], 0, size)
    if first + len(count) > size:
        raise ValueError(f"count must have at most {size - first} entries, got {len(count)}")
    stored.between("count", count, 0.0, checks.MOST)
    square = _array(saved, "square", count.shape, 0.0, stored.LARGEST_FLOAT)
    if len(count):
        fresh.number[first : first + len(count)] = count
        fresh.square[first : first + len(count)] = square
        fresh.span[:] = first, first + len(count) - 1


def read_level(state: object) -> Level:
    """The numbers of all models together."""
    saved = stored.exact(state, *Level._fields)
    level = Level(**{name: checks.real(name, value, -math.inf) for name, value in saved.items()})
    checks.real("judging", level.judging, 0.9, 1.0)
    return level
