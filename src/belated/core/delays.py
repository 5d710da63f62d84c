"""When feedback arrives: delay models, recorded delays, and the delay line.

A delay d of episode k means that its feedback arrives right after episode k + d has been played:
delay 0 is the end of the same episode, and `NEVER` is the delay of lost feedback. A model draws
the delays (K,) of K episodes with `draw(episodes, rng)`. Two models with the same parameters are
equal, a model prints as the call that makes it, and it can be pickled.

These models are oblivious: they draw the delays of a run before it begins. An
`OutcomeDependentDelay` draws a delay after every episode, from its actions, path or outcome. Bounds
that assume oblivious delays do not hold for them, and a learner that treats early outcomes as a
fair sample is misled where better actions report later.
"""

import heapq
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen

__all__ = [
    "NEVER",
    "DelayLine",
    "DelayModel",
    "OutcomeDependentDelay",
    "PlayedEpisode",
    "as_delays",
    "bursts",
    "by_action",
    "by_outcome",
    "delay_of",
    "fixed",
    "from_times",
    "geometric",
    "heavy_tailed",
    "is_oblivious",
    "lost",
    "missing_feedback",
    "monotone",
    "nightly",
    "none",
    "of_episodes",
    "per_step",
    "poisson",
    "total_delay",
    "trace",
    "uniform",
]

R = TypeVar("R")
PRINTED = 12
"""The number of values that a long list prints."""
CLOCK = 946_684_800
"""Seconds from 1970 to 2000: in any unit, a clock that counts from 1970 shows at least this."""
LARGEST_DRAW = 2**61
"""Heavy tails are cut off here, so that a very long delay is never taken for `NEVER`."""
NEVER = checks.LARGEST_INTEGER
"""The delay of feedback that is lost. Models print it as `NEVER`."""


def as_delays(name: str, value: object) -> Ints:
    """Check an array of delays (K,) and return a copy; NaN and infinity become `NEVER`.

    Args:
        name: the name of the argument, for the error message.
        value: whole numbers from 0 to `NEVER`, as integers or as floats; None is NaN.

    Example:
        >>> bl.delays.as_delays('delays', [0, 3])
        array([0, 3])
    """
    array = np.asarray(value)
    if array.dtype == object:  # None, or numbers beyond those of NumPy
        array = checks.numbers(name, value, "(K,)")
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


def total_delay(delays: Ints) -> int:
    """The sum of the delays (K,) of a run, each cut off at the last episode: min(d_k, K - 1 - k).

    This is D in the theory. Lost feedback counts until the end of the run.

    Example:
        >>> bl.delays.total_delay(np.array([1, 0, 0]))
        1
    """
    left = len(delays) - 1 - np.arange(len(delays))
    return int(np.minimum(delays, left).sum())


def missing_feedback(delays: Ints) -> Ints:
    """For every episode k, the number of episodes up to k whose feedback arrives after k.

    Args:
        delays: the delays (K,) of a run.

    Example:
        >>> bl.delays.missing_feedback(np.array([1, 0, 0]))
        array([1, 0, 0])
    """
    K = len(delays)
    arrival = np.arange(K) + delays
    arrived = np.bincount(arrival[arrival < K], minlength=K)
    return np.arange(1, K + 1) - np.cumsum(arrived)


class DelayLine(Generic[R]):
    """A queue of records: a record of episode k with delay d comes out of `release(k + d)`.

    Example:
        >>> line = bl.DelayLine()
        >>> line.push([bl.Costs(0, [0.5])], delay=2)
        >>> [len(line.release(k)) for k in range(4)]
        [0, 0, 1, 0]
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, R]] = []  # when due, episode, order of arrival
        self._order = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, records: Iterable[R], delay: int) -> None:
        """Add records that share a delay. Lost records (`NEVER`) are dropped to save memory."""
        delay = checks.integer("delay", delay, 0, NEVER)
        batch: list[Any] = list(records)
        for record in batch:
            if not hasattr(record, "episode"):
                raise ValueError(f"records must have an episode number, got {checks.show(record)}")
        for record in batch if delay != NEVER else ():
            heapq.heappush(
                self._waiting, (record.episode + delay, record.episode, next(self._order), record)
            )

    def release(self, episode: int) -> list[R]:
        """Return and remove the records due by the end of this episode, oldest episode first."""
        due = []
        while self._waiting and self._waiting[0][0] <= episode:
            due.append(heapq.heappop(self._waiting))
        due.sort(key=itemgetter(1, 2))  # by episode, then by the order of arrival
        return [record for _, _, _, record in due]


class DelayModel(Protocol):
    """Anything that draws delays."""

    def draw(self, episodes: int, rng: np.random.Generator) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,), at least 0, `NEVER` if lost."""


@dataclass(frozen=True, repr=False)
class Call:
    """A model: a function below, the parameters that it was called with, and the rule they make.

    Attributes:
        maker: the function.
        parameters: (name, value) for each parameter.
        rule: computes delays.
    """

    maker: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]
    rule: Callable[..., Any] = field(compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(self.maker, **dict(self.parameters)), ()

    def __repr__(self) -> str:
        known = inspect.signature(self.maker).parameters
        given = [
            f"{name}={shown(value)}"
            for name, value in self.parameters
            if known[name].default is inspect.Parameter.empty
            or value not in (known[name].default, NONE)
        ]
        return f"{self.maker.__name__}({', '.join(given).removeprefix('delays=')})"


@dataclass(frozen=True, repr=False)
class RandomDelays(Call):
    """A model whose rule draws the delays (K,) from (episodes, rng)."""

    def draw(self, episodes: int, rng: np.random.Generator) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,)."""
        checks.generator("rng", rng)
        episodes = checks.integer("episodes", episodes, 0, checks.ROOM)
        return self.rule(episodes, rng)  # type: ignore[no-any-return]


class Recorded(RandomDelays):
    """See `trace`."""

    @property
    def delays(self) -> Ints:
        """The delays (K,), counted in episodes, read-only."""
        return frozen(np.array(self.parameters[0][1]))


@dataclass(frozen=True, slots=True, eq=False)
class PlayedEpisode:
    """What a delay may depend on.

    Attributes:
        episode: the number of the episode.
        actions: (H,) the actions played.
        outcomes: (H,) the costs of the steps, or the outcome of a decision.
        states: (H + 1,) the path; None where a problem has none.
    """

    episode: int
    actions: Ints
    outcomes: Floats
    states: Ints | None = None

    @property
    def action(self) -> int:
        """The action of the last step; a decision has only one step."""
        return int(self.actions[-1])

    @property
    def outcome(self) -> float:
        """The sum of the outcomes."""
        return float(self.outcomes.sum())


Rule = Callable[[PlayedEpisode, np.random.Generator], Any]


@dataclass(frozen=True, repr=False)
class OutcomeDependentDelay(Call):
    """A model whose rule gives the delay of an episode, or of its steps, once it was played."""

    def after(self, played: PlayedEpisode, rng: np.random.Generator) -> Any:
        """The delay of the episode that has just been played, or the delays (H,) of its steps."""
        return self.rule(played, rng)


def _made(maker: Callable[..., Any], rule: Callable[..., Any], /, **given: object) -> RandomDelays:
    return RandomDelays(maker, tuple(given.items()), rule)


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


def none() -> RandomDelays:
    """Feedback arrives at the end of its own episode.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.none().draw(4, rng)
        array([0, 0, 0, 0])
    """
    return _made(none, lambda n, rng: np.zeros(n, dtype=np.int64))


def fixed(delay: int) -> RandomDelays:
    """Every episode has the same delay.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.fixed(3).draw(4, rng)
        array([3, 3, 3, 3])
    """
    delay = checks.integer("delay", delay, 0, NEVER)
    return _made(fixed, lambda n, rng: np.full(n, delay, dtype=np.int64), delay=delay)


def uniform(low: int, high: int) -> RandomDelays:
    """Delays are uniform on the whole numbers from low to high, both included.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.uniform(1, 3).draw(100, rng)
        >>> int(drawn.min()), int(drawn.max())
        (1, 3)
    """
    low = checks.integer("low", low, 0, NEVER)
    high = checks.integer("high", high, low, NEVER)
    return _made(uniform, lambda n, rng: rng.integers(low, high + 1, n), low=low, high=high)


def geometric(mean: float) -> RandomDelays:
    """Delays are geometric on 0, 1, 2, ..., with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.geometric(mean=5).draw(100, rng))
        100
    """
    mean = checks.real("mean", mean, 0.0, 1e15)
    return _made(geometric, lambda n, rng: rng.geometric(1 / (1 + mean), n) - 1, mean=mean)


def poisson(mean: float) -> RandomDelays:
    """Delays are Poisson with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.poisson(mean=5).draw(100, rng))
        100
    """
    mean = checks.real("mean", mean, 0.0, 1e15)
    return _made(poisson, lambda n, rng: rng.poisson(mean, n), mean=mean)


def heavy_tailed(index: float, scale: float = 1.0) -> RandomDelays:
    """Delays have Pareto tails: P(d >= x) falls like (1 + x / scale) ** -index.

    The mean is infinite for an index of at most 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.heavy_tailed(index=1.5).draw(100, rng))
        100
    """
    index = checks.real("index", index, 0.0, above=True)
    scale = checks.real("scale", scale, 0.0, above=True)

    def rule(n: int, rng: np.random.Generator) -> Ints:
        with np.errstate(over="ignore"):
            drawn = scale * rng.pareto(index, n)
        return np.floor(np.minimum(drawn, float(LARGEST_DRAW))).astype(np.int64)

    return _made(heavy_tailed, rule, index=index, scale=scale)


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

    def rule(n: int, rng: np.random.Generator) -> Ints:
        episodes = np.arange(n)
        day = episodes // per_day + rng.integers(low, high + 1, n)
        return (day + 1) * per_day - 1 - episodes

    return _made(nightly, rule, per_day=per_day, low=low, high=high)


NONE = none()


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

    def rule(n: int, rng: np.random.Generator) -> Ints:
        drawn = inner.draw(n, rng)
        return np.where(rng.random(n) < probability, NEVER, drawn)

    return _made(lost, rule, probability=probability, otherwise=inner)


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
    size = checks.integer("size", size, 1, 2**40)

    def rule(n: int, rng: np.random.Generator) -> Ints:
        drawn = inner.draw(n, rng)
        held = drawn + -(np.arange(1, n + 1) + drawn) % size
        return np.where(drawn == NEVER, NEVER, np.minimum(held, NEVER))

    return _made(bursts, rule, size=size, within=inner)


def monotone(model: DelayModel) -> RandomDelays:
    """Records arrive in order: each waits for the records of all earlier episodes.

    Lost records stay lost, and no record waits for them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.monotone(bl.delays.uniform(0, 9)).draw(20, rng)
        >>> bool(np.all(np.diff(np.arange(20) + drawn) >= 0))
        True
    """
    inner = model_of("model", model)

    def rule(n: int, rng: np.random.Generator) -> Ints:
        drawn, episode = inner.draw(n, rng), np.arange(n)
        kept = drawn != NEVER
        arrival = np.maximum.accumulate(np.where(kept, episode + drawn, -1))
        return np.where(kept, arrival - episode, NEVER)

    return _made(monotone, rule, model=inner)


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

    def rule(n: int, rng: np.random.Generator) -> Ints:
        if n > len(found) and not repeat:
            raise ValueError(
                f"episodes must be at most {len(found)}, the length of the trace "
                f"(or give repeat=True), got {n}"
            )
        return np.resize(found, n)

    return Recorded(trace, (("delays", tuple(found.tolist())), ("repeat", repeat)), rule)


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
    array = np.asarray(value)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must have shape (K,), got shape {array.shape}")
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]").astype(object)
    dates = [cell if isinstance(cell, datetime) and str(cell) != "NaT" else None for cell in array]
    zoned = {date.tzinfo is not None for date in dates if date}
    if len(zoned) > 1:
        raise ValueError(f"{name} must hold dates that all have a time zone, or all none")
    if not zoned:
        return checks.numbers(name, array, "(K,), or dates"), "numbers"
    aware = (date and date.replace(tzinfo=date.tzinfo or UTC) for date in dates)
    seconds = np.array([date.timestamp() if date else np.nan for date in aware])
    return seconds, f"dates {'with' if zoned == {True} else 'without'} a time zone"


def delay_of(rule: Rule) -> OutcomeDependentDelay:
    """Delays from a function of your own.

    >>> import belated as bl
    >>> model = bl.delays.delay_of(lambda played, rng: 30 if played.action == 2 else 5)

    Args:
        rule: `rule(played, rng)` gives the delay of an episode, `NEVER` if it is lost; it sees
            `played.action`, `.actions`, `.states`, `.outcome`, `.outcomes` and `.episode`.
    """
    if not callable(rule):
        raise ValueError(f"rule must be a function, got {checks.show(rule)}")
    return OutcomeDependentDelay(
        delay_of,
        (("rule", rule),),
        lambda played, rng: checks.integer("delay", rule(played, rng), 0, NEVER),
    )


def by_action(models: Sequence[DelayModel]) -> OutcomeDependentDelay:
    """One model for every action of the last step.

    >>> import belated as bl
    >>> bl.delays.by_action([bl.delays.fixed(2), bl.delays.geometric(mean=30)])
    by_action(models=[fixed(delay=2), geometric(mean=30)])
    """
    given = _models(models)

    def rule(played: PlayedEpisode, rng: np.random.Generator) -> int:
        if played.action >= len(given):
            raise ValueError(
                f"models must be one for every action, got {len(given)} for action {played.action}"
            )
        return int(given[played.action].draw(1, rng)[0])

    return OutcomeDependentDelay(by_action, (("models", given),), rule)


def by_outcome(
    model: DelayModel, otherwise: DelayModel, threshold: float = 0.0
) -> OutcomeDependentDelay:
    """One model for outcomes above a threshold, and another one for all others.

    >>> import belated as bl
    >>> bl.delays.by_outcome(bl.delays.fixed(20), bl.delays.none())
    by_outcome(model=fixed(delay=20), otherwise=none())
    """

    def rule(played: PlayedEpisode, rng: np.random.Generator) -> int:
        return int((model if played.outcome > threshold else otherwise).draw(1, rng)[0])

    return OutcomeDependentDelay(
        by_outcome,
        (
            ("model", model_of("model", model)),
            ("otherwise", model_of("otherwise", otherwise)),
            ("threshold", checks.real("threshold", threshold, -np.inf)),
        ),
        rule,
    )


def _each_step(rule: Rule, played: PlayedEpisode, rng: np.random.Generator) -> Ints:
    """The delays (H,) of the steps of an episode by a rule."""
    found = as_delays("delays of an episode", rule(played, rng))
    if len(found) != len(played.actions):
        raise ValueError(
            f"delays of an episode must be {len(played.actions)}, one per step, got {len(found)}"
        )
    return found


def per_step(
    models: Sequence[DelayModel] | DelayModel | Rule, steps: int | None = None
) -> RandomDelays | OutcomeDependentDelay:
    """A separate delay for the cost of every step of an episode.

    An episode is complete once its last cost has arrived, and lost if one of them is. `simulate`
    passes the costs one by one, as `StepCost`, to an `Inbox` around the agent.

    >>> import belated as bl
    >>> bl.delays.per_step([bl.delays.none(), bl.delays.fixed(3)])
    per_step(models=[none(), fixed(delay=3)])
    >>> bl.delays.per_step(bl.delays.fixed(3), steps=2)
    per_step(models=[fixed(delay=3), fixed(delay=3)])

    Args:
        models: one model per step; one model for all steps, with `steps`; or a function
            `rule(played, rng)` that returns the H delays of an episode that was played, `NEVER`
            for lost costs.
        steps: H, if there is one model for all steps.
    """
    if steps is not None:
        if not hasattr(models, "draw"):
            raise ValueError(f"steps needs one delay model for all of them, got {shown(models)}")
        models = (models,) * checks.integer("steps", steps, 1, checks.ROOM)
    if callable(models):
        return OutcomeDependentDelay(per_step, (("models", models),), partial(_each_step, models))
    given = _models(models)

    def rule(n: int, rng: np.random.Generator) -> Ints:
        return np.stack([model.draw(n, rng) for model in given], axis=1)

    return _made(per_step, rule, models=given)


def is_per_step(model: object) -> bool:
    """Whether a model gives a delay for every step."""
    return getattr(model, "maker", None) is per_step


def is_oblivious(model: object) -> bool:
    """Whether the delays of a model are independent of actions, paths and outcomes.

    Example:
        >>> bl.delays.is_oblivious(bl.delays.fixed(2))
        True
    """
    return not hasattr(model, "after")


def _models(models: object) -> tuple[DelayModel, ...]:
    if not isinstance(models, Sequence | np.ndarray) or not len(models):
        raise ValueError(
            "models must be a list of delay models, one per action or step, or for steps one model "
            f"with steps, got {shown(models)}"
        )
    return tuple(model_of(f"models[{i}]", model) for i, model in enumerate(models))


def of_episodes(delays: Ints) -> Ints:
    """The delays (K,) after which episodes are complete: of (K, H), the largest over the steps.

    Example:
        >>> bl.delays.of_episodes(np.array([[0, 3], [2, 1]]))
        array([3, 2])
    """
    delays = np.asarray(delays)
    return delays if delays.ndim == 1 else delays.max(axis=1, initial=0)
