"""When feedback comes: delay models, and the line in which records wait.

A delay d of episode k means that its record is released right after episode k + d has been
played; 0 is the end of the same episode, and `NEVER` is a delay too. A model answers
`draw(episodes, rng)` with the delays of that many episodes, (K,) whole numbers.
"""

from __future__ import annotations

import csv
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from belated import checks
from belated.arrays import Floats, Ints
from belated.costs import CostProcess
from belated.feedback import Record

NEVER = 2**62
"""The delay of feedback that is lost."""


class DelayModel(Protocol):
    """Anything that draws delays."""

    def draw(
        self, episodes: int, rng: np.random.Generator, costs: CostProcess | None = None
    ) -> Ints:
        """Delays of the episodes 0 to K - 1: (K,), at least 0, `NEVER` where lost."""
        ...


@dataclass(frozen=True, slots=True)
class Independent:
    """Delays drawn by a function of (number, generator), whatever the costs are."""

    name: str
    sampler: Callable[[int, np.random.Generator], Ints] = field(repr=False)

    def draw(
        self, episodes: int, rng: np.random.Generator, costs: CostProcess | None = None
    ) -> Ints:
        """Delays of the episodes 0 to K - 1: (K,)."""
        return self.sampler(checks.integer("episodes", episodes, 0), rng)


def none() -> DelayModel:
    """Feedback at the end of the same episode."""
    return fixed(0)


def fixed(delay: int) -> DelayModel:
    """The same delay for every episode."""
    delay = checks.integer("delay", delay, 0, NEVER)
    return Independent(f"fixed({delay})", lambda n, rng: np.full(n, delay, dtype=np.int64))


def uniform(low: int, high: int) -> DelayModel:
    """Any whole number from low to high, both included."""
    low = checks.integer("low", low, 0, NEVER)
    high = checks.integer("high", high, low, NEVER)
    return Independent(f"uniform({low}, {high})", lambda n, rng: rng.integers(low, high + 1, n))


def geometric(mean: float) -> DelayModel:
    """Geometric on 0, 1, 2, ..., given by its mean."""
    mean = checks.real("mean", mean, 0.0)
    return Independent(f"geometric({mean:g})", lambda n, rng: rng.geometric(1 / (1 + mean), n) - 1)


def poisson(mean: float) -> DelayModel:
    """Poisson, given by its mean."""
    mean = checks.real("mean", mean, 0.0, 1e15)
    return Independent(f"poisson({mean:g})", lambda n, rng: rng.poisson(mean, n))


def heavy_tailed(index: float, scale: float = 1.0) -> DelayModel:
    """Pareto tails: P(d >= x) falls like (1 + x / scale) ** -index.

    The mean is infinite for an index of at most 1.
    """
    index = checks.real("index", index, 0.0, above=True)
    scale = checks.real("scale", scale, 0.0, above=True)

    def sampler(n: int, rng: np.random.Generator) -> Ints:
        with np.errstate(over="ignore"):
            drawn = scale * rng.pareto(index, n)
        return np.floor(np.minimum(drawn, float(2**61))).astype(np.int64)

    return Independent(f"heavy_tailed({index:g}, {scale:g})", sampler)


def trace(delays: object, column: str | None = None, *, repeat: bool = False) -> DelayModel:
    """Recorded delays, in their order.

    Args:
        delays: whole numbers (K,), with `NEVER` (or NaN or infinity in a float array) where the
            feedback is lost; or the path of a CSV file with a header.
        column: the column of the CSV file. Empty, "never", "nan" and "inf" mean lost.
        repeat: start again when the trace is over; otherwise asking for more is an error.
    """
    repeat = checks.flag("repeat", repeat)
    if isinstance(delays, str | Path):
        recorded = _csv_column(Path(delays), column)
    elif column is not None:
        raise ValueError(f"column is for CSV files only, got column {column!r} and an array")
    else:
        recorded = as_delays("delays", delays)
    if len(recorded) == 0:
        raise ValueError("delays must hold at least one delay, got none")

    def sampler(n: int, rng: np.random.Generator) -> Ints:
        if n > len(recorded) and not repeat:
            raise ValueError(
                f"episodes must be at most {len(recorded)}, the length of the trace "
                f"(or give repeat=True), got {n}"
            )
        return np.resize(recorded, n)

    return Independent(f"trace of {len(recorded)}", sampler)


def as_delays(name: str, value: object) -> Ints:
    """An array of delays; NaN and infinity in a float array are `NEVER`."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.ndim == 1:
        lost = ~np.isfinite(array)
        numbers = np.where(lost, 0.0, array)
        wrong = (numbers != np.floor(numbers)) | (array < 0) | (numbers >= NEVER)
        if np.any(wrong):
            raise ValueError(
                f"{name} must be whole numbers from 0 to 2**62, NaN or infinity, "
                f"got {array[wrong][0]}"
            )
        value = np.where(lost, NEVER, numbers.astype(np.int64))
    return checks.whole_numbers(name, value, 0, NEVER)


def _csv_column(path: Path, column: str | None) -> Ints:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"delays must be a readable CSV file, got {path}: {error}") from None
    names = [name for name in rows[0] if name] if rows else []
    if column is None and len(names) == 1:
        column = names[0]
    column = checks.choice("column", column, names)
    found = []
    for line, row in enumerate(rows, start=2):
        cell = (row[column] or "").strip().lower()
        if cell in ("", "never", "nan", "inf"):
            found.append(NEVER)
        elif cell.isascii() and cell.isdigit() and int(cell) <= NEVER:
            found.append(int(cell))
        else:
            raise ValueError(
                f"column {column!r} must hold delays of at least 0 or 'never', got {cell!r} "
                f"in line {line} of {path.name}"
            )
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Another model's delays, changed afterwards."""

    name: str
    model: DelayModel
    change: Callable[[Ints, np.random.Generator], Ints] = field(repr=False)

    def draw(
        self, episodes: int, rng: np.random.Generator, costs: CostProcess | None = None
    ) -> Ints:
        """Delays of the episodes 0 to K - 1: (K,)."""
        return self.change(self.model.draw(episodes, rng, costs), rng)


def lost(probability: float, otherwise: DelayModel | None = None) -> DelayModel:
    """Each record is lost with this probability, else late by the other model (default: none)."""
    probability = checks.real("probability", probability, 0.0, 1.0)
    model = _model("otherwise", none() if otherwise is None else otherwise)

    def change(drawn: Ints, rng: np.random.Generator) -> Ints:
        return np.where(rng.random(len(drawn)) < probability, NEVER, drawn)

    return Reshaped(f"lost({probability:g})", model, change)


def bursts(size: int, within: DelayModel | None = None) -> DelayModel:
    """Everything is held until a multiple of `size` episodes has been played, then comes at once.

    within: the delays before the holding, none by default.
    """
    size = checks.integer("size", size, 1)

    def change(drawn: Ints, rng: np.random.Generator) -> Ints:
        played = np.arange(1, len(drawn) + 1) + drawn
        return np.where(drawn == NEVER, NEVER, drawn + (-played) % size)

    return Reshaped(f"bursts({size})", _model("within", within or none()), change)


def monotone(model: DelayModel) -> DelayModel:
    """Arrivals never overtake: what would come before an earlier episode's record waits for it.

    Lost records stay lost and hold nobody up.
    """

    def change(drawn: Ints, rng: np.random.Generator) -> Ints:
        episode = np.arange(len(drawn))
        kept = drawn != NEVER
        arrival = np.maximum.accumulate(np.where(kept, episode + drawn, -1))
        return np.where(kept, arrival - episode, NEVER)

    return Reshaped("monotone", _model("model", model), change)


@dataclass(frozen=True, slots=True)
class OfCosts:
    """Delays that depend on the costs; see `function`."""

    rule: Callable[[Floats, np.random.Generator], int]

    def draw(
        self, episodes: int, rng: np.random.Generator, costs: CostProcess | None = None
    ) -> Ints:
        """Delays of the episodes 0 to K - 1: (K,)."""
        if costs is None:
            raise ValueError("costs must be given to a delay model made by function(), got None")
        drawn = [
            checks.integer(f"delay of episode {k}", self.rule(costs.at(k), rng), 0, NEVER)
            for k in range(episodes)
        ]
        return np.array(drawn, dtype=np.int64)


def function(rule: Callable[[Floats, np.random.Generator], int]) -> DelayModel:
    """Any function of the episode's costs (1 or H, S, A) and a generator; returns a delay."""
    if not callable(rule):
        raise ValueError(f"rule must be a function of (costs, rng), got {checks.show(rule)}")
    return OfCosts(rule)


def _model(name: str, value: object) -> DelayModel:
    if not hasattr(value, "draw"):
        raise ValueError(f"{name} must be a delay model, got {checks.show(value)}")
    return value


class DelayLine:
    """Where records wait: a record of episode k with delay d comes out of `release(k + d)`."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, Record]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, records: Iterable[Record], delay: int) -> None:
        """Put records in line. Lost ones (`NEVER`) are dropped here, so they take no memory."""
        delay = checks.integer("delay", delay, 0, NEVER)
        for record in records:
            if delay != NEVER:
                due = record.episode + delay
                heapq.heappush(self._waiting, (due, record.episode, self._pushed, record))
                self._pushed += 1

    def release(self, episode: int) -> list[Record]:
        """Everything due at the end of this episode and not yet released, oldest episode first."""
        return [
            record for _, _, _, record in sorted(self._due(episode), key=lambda item: item[1:3])
        ]

    def _due(self, episode: int) -> Iterator[tuple[int, int, int, Record]]:
        while self._waiting and self._waiting[0][0] <= episode:
            yield heapq.heappop(self._waiting)
