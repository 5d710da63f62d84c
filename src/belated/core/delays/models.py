"""Delay models: they draw the delays of a run, or repeat those that were recorded.

Two models with the same parameters are equal, a model prints as the call that makes it, and it can
be pickled.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.delays.line import NEVER, as_delays

Rule = Callable[[Floats, np.random.Generator], int]

PRINTED = 12
"""The number of values that a long list prints."""
CLOCK = 946_684_800
"""Seconds from 1970 to 2000: in any unit, a clock that counts from 1970 shows at least this."""
LARGEST_DRAW = 2**61
"""Heavy tails are cut off here, so that a very long delay is never taken for `NEVER`."""


class DelayModel(Protocol):
    """Anything that draws delays."""

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,), at least 0, `NEVER` if lost."""


@dataclass(frozen=True, repr=False)
class Call:
    """A function below, and the parameters that it was called with.

    Attributes:
        maker: the name of the function.
        rule: computes delays; its keyword arguments have the names and defaults of the parameters.
        parameters: (name, value) for each parameter.
    """

    maker: str
    rule: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        known = inspect.signature(self.rule).parameters
        given = [
            f"{name}={shown(value)}"
            for name, value in self.parameters
            if name not in known or value != known[name].default
        ]
        return f"{self.maker}({', '.join(given)})"


@dataclass(frozen=True, repr=False)
class RandomDelays(Call):
    """A model whose rule draws the delays (K,) from (episodes, rng, costs) and parameters."""

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,)."""
        checks.generator("rng", rng)
        n = checks.integer("episodes", episodes, 0, checks.ROOM)
        drawn: Ints = self.rule(n, rng, costs, **dict(self.parameters))
        return drawn


def shown(value: object) -> str:
    """A parameter as it is printed: 5.0 as 5, 2**62 as NEVER, a function by its name."""
    if isinstance(value, int | float):
        return "NEVER" if value == NEVER else repr(value).removesuffix(".0")
    if isinstance(value, tuple):
        more = [f"... {len(value)} in all"] if len(value) > PRINTED else []
        return f"[{', '.join([*map(shown, value[:PRINTED]), *more])}]"
    return str(getattr(value, "__qualname__", repr(value)))


def model_of(name: str, value: object) -> Any:
    """Check that a parameter is a model that draws delays before a run."""
    if not hasattr(value, "draw"):
        raise ValueError(
            f"{name} must be a delay model that looks at nothing, such as geometric(20), got "
            f"{shown(value)}"
        )
    return value


def _made(rule: Callable[..., Ints], /, **parameters: object) -> RandomDelays:
    return RandomDelays(rule.__name__.strip("_"), rule, tuple(parameters.items()))


def _none(n: int, rng: np.random.Generator, costs: Any) -> Ints:
    return np.zeros(n, dtype=np.int64)


def none() -> RandomDelays:
    """Feedback arrives at the end of its own episode.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.none().draw(4, rng)
        array([0, 0, 0, 0])
    """
    return _made(_none)


def _fixed(n: int, rng: np.random.Generator, costs: Any, delay: int) -> Ints:
    return np.full(n, delay, dtype=np.int64)


def fixed(delay: int) -> RandomDelays:
    """Every episode has the same delay.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.fixed(3).draw(4, rng)
        array([3, 3, 3, 3])
    """
    return _made(_fixed, delay=checks.integer("delay", delay, 0, NEVER))


def _uniform(n: int, rng: np.random.Generator, costs: Any, low: int, high: int) -> Ints:
    return rng.integers(low, high + 1, n)


def uniform(low: int, high: int) -> RandomDelays:
    """Delays are uniform on the whole numbers from low to high, both included.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.uniform(1, 3).draw(100, rng)
        >>> int(drawn.min()), int(drawn.max())
        (1, 3)
    """
    low = checks.integer("low", low, 0, NEVER)
    return _made(_uniform, low=low, high=checks.integer("high", high, low, NEVER))


def _geometric(n: int, rng: np.random.Generator, costs: Any, mean: float) -> Ints:
    return rng.geometric(1 / (1 + mean), n) - 1


def geometric(mean: float) -> RandomDelays:
    """Delays are geometric on 0, 1, 2, ..., with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.geometric(mean=5).draw(100, rng))
        100
    """
    return _made(_geometric, mean=checks.real("mean", mean, 0.0, 1e15))


def _poisson(n: int, rng: np.random.Generator, costs: Any, mean: float) -> Ints:
    return rng.poisson(mean, n)


def poisson(mean: float) -> RandomDelays:
    """Delays are Poisson with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.poisson(mean=5).draw(100, rng))
        100
    """
    return _made(_poisson, mean=checks.real("mean", mean, 0.0, 1e15))


def _heavy_tailed(
    n: int, rng: np.random.Generator, costs: Any, index: float, scale: float = 1.0
) -> Ints:
    with np.errstate(over="ignore"):
        drawn = scale * rng.pareto(index, n)
    return np.floor(np.minimum(drawn, float(LARGEST_DRAW))).astype(np.int64)


def heavy_tailed(index: float, scale: float = 1.0) -> RandomDelays:
    """Delays have Pareto tails: P(d >= x) falls like (1 + x / scale) ** -index.

    The mean is infinite for an index of at most 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.heavy_tailed(index=1.5).draw(100, rng))
        100
    """
    index = checks.real("index", index, 0.0, above=True)
    return _made(_heavy_tailed, index=index, scale=checks.real("scale", scale, 0.0, above=True))


def _nightly(
    n: int, rng: np.random.Generator, costs: Any, per_day: int, low: int, high: int
) -> Ints:
    episodes = np.arange(n)
    day = episodes // per_day + rng.integers(low, high + 1, n)
    return (day + 1) * per_day - 1 - episodes


def nightly(per_day: int, low: int, high: int) -> RandomDelays:
    """Outcomes are known `low` to `high` days later and arrive with that night's batch.

    >>> import belated as bl, numpy as np
    >>> model = bl.delays.nightly(per_day=3, low=0, high=0)
    >>> model.draw(6, np.random.default_rng(0)).tolist()
    [2, 1, 0, 2, 1, 0]

    Args:
        per_day: the number of episodes per day.
        low: the smallest number of days; 0 is the night of the same day.
        high: the largest number of days; all numbers from low to high are equally likely.
    """
    per_day = checks.integer("per_day", per_day, 1, checks.ROOM)
    low = checks.integer("low", low, 0, 10**6)
    high = checks.integer("high", high, low, 10**6)
    return _made(_nightly, per_day=per_day, low=low, high=high)


NONE = none()


def _lost(
    n: int,
    rng: np.random.Generator,
    costs: Any,
    probability: float,
    otherwise: DelayModel = NONE,
) -> Ints:
    drawn = otherwise.draw(n, rng, costs)
    return np.where(rng.random(n) < probability, NEVER, drawn)


def lost(probability: float, otherwise: DelayModel | None = None) -> RandomDelays:
    """Each record is lost with this probability.

    Args:
        probability: from 0 to 1.
        otherwise: the model of the records that are not lost; by default they have no delay.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.lost(1.0).draw(3, rng)
        >>> bool(np.all(drawn == bl.NEVER))
        True
    """
    probability = checks.real("probability", probability, 0.0, 1.0)
    inner = NONE if otherwise is None else model_of("otherwise", otherwise)
    return _made(_lost, probability=probability, otherwise=inner)


def _bursts(
    n: int, rng: np.random.Generator, costs: Any, size: int, within: DelayModel = NONE
) -> Ints:
    drawn = within.draw(n, rng, costs)
    played = np.arange(1, n + 1) + drawn
    held = np.minimum(drawn + (-played) % size, NEVER)
    return np.where(drawn == NEVER, NEVER, held)


def bursts(size: int, within: DelayModel | None = None) -> RandomDelays:
    """Feedback is held until a multiple of `size` episodes has been played, then arrives at once.

    Args:
        size: the number of episodes between two deliveries.
        within: the model of the delays before feedback is held; by default there are none.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.bursts(size=3).draw(6, rng)
        array([2, 1, 0, 2, 1, 0])
    """
    inner = NONE if within is None else model_of("within", within)
    return _made(_bursts, size=checks.integer("size", size, 1, 2**40), within=inner)


def _monotone(n: int, rng: np.random.Generator, costs: Any, model: DelayModel) -> Ints:
    drawn = model.draw(n, rng, costs)
    episode = np.arange(n)
    kept = drawn != NEVER
    arrival = np.maximum.accumulate(np.where(kept, episode + drawn, -1))
    return np.where(kept, arrival - episode, NEVER)


def monotone(model: DelayModel) -> RandomDelays:
    """Records arrive in order: each waits for the records of all earlier episodes.

    Lost records stay lost, and no record waits for them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.monotone(bl.delays.uniform(0, 9)).draw(20, rng)
        >>> bool(np.all(np.diff(np.arange(20) + drawn) >= 0))
        True
    """
    return _made(_monotone, model=model_of("model", model))


def _function(n: int, rng: np.random.Generator, costs: Any, rule: Rule) -> Ints:
    if costs is None:
        raise ValueError("costs must be given to a delay model made by function(), got None")
    drawn = [
        checks.integer(f"delay of episode {k}", rule(costs.at(k), rng), 0, NEVER) for k in range(n)
    ]
    return np.array(drawn, dtype=np.int64)


def function(rule: Rule) -> RandomDelays:
    """Delays are any function of the episode's costs.

    Args:
        rule: takes the costs of the episode and a generator; returns a delay.

    Example:
        >>> model = bl.delays.function(lambda costs, rng: int(costs.mean() > 0.5))
        >>> model.draw(3, np.random.default_rng(0), bl.costs.fixed(np.full((1, 2, 2), 0.7)))
        array([1, 1, 1])
    """
    if not callable(rule):
        raise ValueError(f"rule must be a function of (costs, rng), got {checks.show(rule)}")
    return _made(_function, rule=rule)


class Recorded(RandomDelays):
    """See `trace`."""

    @property
    def delays(self) -> Ints:
        """The delays (K,), counted in episodes, read-only."""
        return frozen(np.array(self.parameters[0][1]))

    @property
    def repeat(self) -> bool:
        """Whether the delays start again at their end."""
        return bool(self.parameters[1][1])

    def __repr__(self) -> str:
        return f"trace({shown(self.parameters[0][1])}{', repeat=True' if self.repeat else ''})"


def _trace(
    n: int, rng: np.random.Generator, costs: Any, delays: tuple[int, ...], repeat: bool
) -> Ints:
    if n > len(delays) and not repeat:
        raise ValueError(
            f"episodes must be at most {len(delays)}, the length of the trace "
            f"(or give repeat=True), got {n}"
        )
    return np.resize(np.array(delays), n)


def trace(delays: object, *, repeat: bool = False) -> Recorded:
    """Recorded delays, in their order.

    Args:
        delays: (K,) whole numbers of episodes; NaN, infinity, None or `NEVER` for lost feedback. A
            number of 946684800 or more (the seconds from 1970 to 2000) is refused as a time.
        repeat: whether to start again at the end of the trace; otherwise drawing more delays than
            it holds is an error.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.trace([0, 2, 1]).draw(3, rng)
        array([0, 2, 1])
    """
    found, repeat = as_delays("delays", delays), checks.flag("repeat", repeat)
    times = (found >= CLOCK) & (found != NEVER)
    if len(found) == 0:
        raise ValueError("delays must hold at least one delay, got none")
    if times.any():
        raise ValueError(
            f"delays must be numbers of episodes below {CLOCK}, got {found[times][0]}, which looks "
            "like a time: use from_times(decided, arrived)"
        )
    return Recorded("trace", _trace, (("delays", tuple(found.tolist())), ("repeat", repeat)))


def from_times(decided: object, arrived: object, *, repeat: bool = False) -> Recorded:
    """Delays in episodes from the times of decisions and of their outcomes.

    Feedback that arrives at time t can be used by the first later decision at time t or after; the
    delay is the number of decisions in between. Feedback that arrives after the last decision is
    counted as arriving right after it.

    Args:
        decided: (K,) the times of the decisions, which do not decrease: numbers in any unit, or
            dates (datetime64, `datetime`, a column of pandas or polars).
        arrived: (K,) the times of the outcomes, of the same kind; NaN, NaT, None or infinity where
            none arrived.
        repeat: whether to start again at the end, as in `trace`.

    Example:
        >>> bl.delays.from_times([0, 10, 20, 50], [35, None, 21, 50])
        trace([2, NEVER, 0, 0])
    """
    times, kind = _times("decided", decided)
    arrivals, other = _times("arrived", arrived)
    if len(arrivals) != len(times):
        raise ValueError(f"arrived must hold {len(times)} times like decided, got {len(arrivals)}")
    if other != kind and not np.isnan(arrivals).all():
        raise ValueError(f"arrived must hold {kind} like decided, got {other}")
    earlier = times < np.fmax.accumulate(times)
    for name, wrong, allowed in (
        ("decided", ~np.isfinite(times), "be finite: a time for every decision, got none in"),
        ("decided", earlier, "not decrease (sort by it), got an earlier"),
        ("arrived", arrivals < times, "not be before decided, got it before in"),
    ):
        if wrong.any():
            raise ValueError(f"{name} must {allowed} {name}[{int(np.argmax(wrong))}]")
    lost = ~np.isfinite(arrivals)
    if times[0] >= CLOCK and (arrivals[~lost] > 100 * times[-1]).any():
        raise ValueError(
            "arrived must be in the unit of decided and from the same clock, got "
            f"{np.max(arrivals[~lost]):.12g} where decided ends at {times[-1]:.12g}"
        )
    usable = np.searchsorted(times, np.where(lost, times, arrivals), side="left")
    passed = np.maximum(usable - np.arange(len(times)) - 1, 0)
    return trace(np.where(lost, NEVER, passed), repeat=repeat)


def _times(name: str, value: object) -> tuple[Floats, str]:
    """Numbers, or dates in seconds, with NaN where there is none; and which of the two."""
    array, kind = np.asarray(value), "dates"
    zoned = {cell.tzinfo is not None for cell in array.flat if _is_date(cell)}
    if zoned:
        if len(zoned) > 1:
            raise ValueError(f"{name} must hold dates that all have a time zone, or all none")
        kind = "dates with a time zone" if zoned == {True} else "dates without a time zone"
        plain = [_without_zone(cell) if _is_date(cell) else None for cell in array.flat]
        array = np.array(plain, dtype="datetime64[us]")
    if array.dtype.kind == "M":
        moments = array.astype("datetime64[us]")
        found = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    else:
        found, kind = checks.numbers(name, value, "(K,), or dates"), "numbers"
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} must have shape (K,), got shape {found.shape}")
    return found, kind


def _is_date(cell: object) -> bool:
    return isinstance(cell, datetime) and type(cell).__name__ != "NaTType"


def _without_zone(cell: datetime) -> datetime:
    """The same moment, in UTC if it has a zone."""
    return cell if cell.tzinfo is None else cell.astimezone(UTC).replace(tzinfo=None)
