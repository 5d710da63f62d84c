"""When feedback comes: delay models, and the line in which records wait.

A delay d of episode k means that its record is released right after episode k + d has been
played; 0 is the end of the same episode, and `NEVER` is a delay too. A model answers
`draw(episodes, rng)` with the delays of that many episodes, (K,) whole numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from belated import checks
from belated.arrays import Floats, Ints
from belated.columns import DURATIONS, EPISODES, TIMES, read_column
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
    return Independent(
        f"uniform({low}, {high})", lambda n, rng: _chance(rng).integers(low, high + 1, n)
    )


def geometric(mean: float) -> DelayModel:
    """Geometric on 0, 1, 2, ..., given by its mean."""
    mean = checks.real("mean", mean, 0.0, 1e15)
    return Independent(
        f"geometric({mean:g})", lambda n, rng: _chance(rng).geometric(1 / (1 + mean), n) - 1
    )


def poisson(mean: float) -> DelayModel:
    """Poisson, given by its mean."""
    mean = checks.real("mean", mean, 0.0, 1e15)
    return Independent(f"poisson({mean:g})", lambda n, rng: _chance(rng).poisson(mean, n))


def heavy_tailed(index: float, scale: float = 1.0) -> DelayModel:
    """Pareto tails: P(d >= x) falls like (1 + x / scale) ** -index.

    The mean is infinite for an index of at most 1.
    """
    index = checks.real("index", index, 0.0, above=True)
    scale = checks.real("scale", scale, 0.0, above=True)

    def sampler(n: int, rng: np.random.Generator) -> Ints:
        with np.errstate(over="ignore"):
            drawn = scale * _chance(rng).pareto(index, n)
        return np.floor(np.minimum(drawn, float(2**61))).astype(np.int64)

    return Independent(f"heavy_tailed({index:g}, {scale:g})", sampler)


def trace(
    delays: object,
    column: str | None = None,
    *,
    decided: object = None,
    rate: float | None = None,
    repeat: bool = False,
) -> DelayModel:
    """Recorded delays, in their order, in episodes or in units of time.

    In episodes, with neither `decided` nor `rate`: whole numbers.

    In units of time: what was decided at time t and waited w can be used by the first later
    decision at time t + w or after it, so the delay is the number of decisions in between. What
    comes after the last decision counts as coming right after it.

    Args:
        delays: numbers (K,), with `NEVER`, NaN or infinity where the feedback is lost; or the path
            of a CSV file with a header, or of a Parquet file (which needs polars).
        column: the column of the file. Empty, "never", "nan", "inf" and null mean lost. Durations
            are read as seconds.
        decided: when each decision was made, (K,) numbers that do not decrease, in the unit of the
            delays; or the name of a column of the file. Dates with times are read as seconds.
        rate: decisions per unit of time, evenly spaced, instead of `decided`.
        repeat: start again when the trace is over; otherwise asking for more is an error.
    """
    repeat = checks.flag("repeat", repeat)
    path = Path(delays) if isinstance(delays, str | Path) else None
    if path is None and (column is not None or isinstance(decided, str)):
        name = "column" if column is not None else "decided"
        raise ValueError(f"{name} is the name of a column for files only, got an array of delays")
    timed = decided is not None or rate is not None
    if path is not None:
        if isinstance(decided, str):
            decided = read_column(path, decided, TIMES)
        delays = read_column(path, column, DURATIONS if timed else EPISODES)
    if not timed:
        recorded = as_delays("delays", delays)
    elif decided is not None and rate is not None:
        raise ValueError(f"rate must be None where decided is given, got {checks.show(rate)}")
    else:
        recorded = _in_episodes(delays, decided, rate)
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


def _in_episodes(delays: object, decided: object, rate: float | None) -> Ints:
    """Waiting times as numbers of decisions; see `trace`."""
    waits = checks.floats("delays", delays, "(K,)", (1,))
    waits = np.where(np.isnan(waits) | (waits >= NEVER), np.inf, waits)
    if np.any(waits < 0):
        k = int(np.argmax(waits < 0))
        raise ValueError(f"delays must be at least 0, got delays[{k}] = {waits[k]:g}")
    lost = np.isinf(waits)
    waits = np.where(lost, 0.0, waits)
    if decided is None:
        spans = waits * checks.real("rate", rate, 0.0, above=True)
        spans = np.minimum(spans, float(2**61))
        passed = np.ceil(spans * (1 - 1e-12)) - 1  # a hair above a whole number is rounding
        return np.where(lost, NEVER, np.maximum(passed, 0).astype(np.int64))
    times = checks.floats("decided", decided, "(K,)", (1,))
    if times.shape != waits.shape:
        raise ValueError(f"decided must hold {len(waits)} times like delays, got {len(times)}")
    if not np.all(np.isfinite(times)):
        k = int(np.argmax(~np.isfinite(times)))
        raise ValueError(f"decided must be finite, got decided[{k}] = {times[k]}")
    if np.any(np.diff(times) < 0):
        k = int(np.argmax(np.diff(times) < 0)) + 1
        raise ValueError(
            f"decided must not decrease, got decided[{k}] = {times[k]:g} after {times[k - 1]:g}"
        )
    first_after = np.searchsorted(times, times + waits, side="left")
    passed = np.maximum(first_after - np.arange(len(times)) - 1, 0)
    return np.where(lost, NEVER, passed)


def as_delays(name: str, value: object) -> Ints:
    """An array of delays; NaN and infinity in a float array are `NEVER`."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.ndim == 1:
        lost = ~np.isfinite(array) | (array == NEVER)
        numbers = np.where(lost, 0.0, array)
        wrong = (numbers != np.floor(numbers)) | (array < 0) | (numbers > NEVER)
        if np.any(wrong):
            raise ValueError(
                f"{name} must be whole numbers from 0 to 2**62, NaN or infinity, "
                f"got {array[wrong][0]}"
            )
        value = np.where(lost, NEVER, numbers.astype(np.int64))
    return checks.whole_numbers(name, value, 0, NEVER)


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
        return np.where(_chance(rng).random(len(drawn)) < probability, NEVER, drawn)

    return Reshaped(f"lost({probability:g})", model, change)


def bursts(size: int, within: DelayModel | None = None) -> DelayModel:
    """Everything is held until a multiple of `size` episodes has been played, then comes at once.

    within: the delays before the holding, none by default.
    """
    size = checks.integer("size", size, 1, 2**40)

    def change(drawn: Ints, rng: np.random.Generator) -> Ints:
        played = np.arange(1, len(drawn) + 1) + drawn
        held = np.minimum(drawn + (-played) % size, NEVER)
        return np.where(drawn == NEVER, NEVER, held)

    return Reshaped(
        f"bursts({size})", _model("within", none() if within is None else within), change
    )


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
            checks.integer(f"delay of episode {k}", self.rule(costs.at(k), _chance(rng)), 0, NEVER)
            for k in range(episodes)
        ]
        return np.array(drawn, dtype=np.int64)


def function(rule: Callable[[Floats, np.random.Generator], int]) -> DelayModel:
    """Any function of the episode's costs (1 or H, S, A) and a generator; returns a delay."""
    if not callable(rule):
        raise ValueError(f"rule must be a function of (costs, rng), got {checks.show(rule)}")
    return OfCosts(rule)


def _chance(rng: object) -> np.random.Generator:
    checks.instance("rng", rng, np.random.Generator, ", e.g. np.random.default_rng(seed)")
    return cast(np.random.Generator, rng)


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
        batch = list(records)
        for record in batch:
            if not hasattr(record, "episode"):
                raise ValueError(f"records must be records of episodes, got {checks.show(record)}")
        for record in batch:
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
