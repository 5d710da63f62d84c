"""Delay models: they draw the delays of a run.

Each model is a frozen dataclass. Two models with the same parameters are equal, a model prints as
the call that makes it, and it can be pickled. The functions below (`fixed`, `geometric`, ...) make
the models.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.delays.arithmetic import NEVER

Rule = Callable[[Floats, np.random.Generator], int]

LARGEST_DRAW = 2**61
"""Heavy tails are cut off here, so that a very long delay is never taken for `NEVER`."""


class DelayModel(Protocol):
    """Anything that draws delays."""

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,), at least 0, `NEVER` if lost."""
        ...


class Printed:
    """A dataclass that prints as the call of the function that makes it, without defaults."""

    __slots__ = ()
    maker = ""
    """The name of that function."""

    def __repr__(self) -> str:
        given = [
            f"{part.name}={shown(getattr(self, part.name))}"
            for part in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, part.name) != part.default
        ]
        return f"{self.maker}({', '.join(given)})"


def shown(value: object) -> str:
    """A parameter as it is printed: 5.0 as 5, 2**62 as NEVER, a function by its name."""
    if isinstance(value, int | float):
        if value == NEVER:
            return "NEVER"
        return repr(value).removesuffix(".0")
    return str(getattr(value, "__qualname__", repr(value)))


class Independent(Printed, ABC):
    """A model whose delays do not depend on the costs."""

    __slots__ = ()

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,)."""
        return self._sample(checks.integer("episodes", episodes, 0, checks.ROOM), rng)

    @abstractmethod
    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw n delays."""


class Reshaped(Printed, ABC):
    """A model that changes the delays of another model."""

    __slots__ = ()

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,)."""
        return self._change(self._inner().draw(episodes, rng, costs), rng)

    @abstractmethod
    def _inner(self) -> DelayModel:
        """The model whose delays are changed."""

    @abstractmethod
    def _change(self, drawn: Ints, rng: np.random.Generator) -> Ints:
        """The delays after the change."""


@dataclass(frozen=True, slots=True, repr=False)
class NoDelay(Independent):
    """See `none`."""

    maker = "none"

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        return np.zeros(n, dtype=np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class Fixed(Independent):
    """See `fixed`."""

    delay: int
    maker = "fixed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", checks.integer("delay", self.delay, 0, NEVER))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        return np.full(n, self.delay, dtype=np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class Uniform(Independent):
    """See `uniform`."""

    low: int
    high: int
    maker = "uniform"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", checks.integer("low", self.low, 0, NEVER))
        object.__setattr__(self, "high", checks.integer("high", self.high, self.low, NEVER))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        return _generator(rng).integers(self.low, self.high + 1, n)


@dataclass(frozen=True, slots=True, repr=False)
class Geometric(Independent):
    """See `geometric`."""

    mean: float
    maker = "geometric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", checks.real("mean", self.mean, 0.0, 1e15))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        return _generator(rng).geometric(1 / (1 + self.mean), n) - 1


@dataclass(frozen=True, slots=True, repr=False)
class Poisson(Independent):
    """See `poisson`."""

    mean: float
    maker = "poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", checks.real("mean", self.mean, 0.0, 1e15))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        return _generator(rng).poisson(self.mean, n)


@dataclass(frozen=True, slots=True, repr=False)
class HeavyTailed(Independent):
    """See `heavy_tailed`."""

    index: float
    scale: float = 1.0
    maker = "heavy_tailed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", checks.real("index", self.index, 0.0, above=True))
        object.__setattr__(self, "scale", checks.real("scale", self.scale, 0.0, above=True))

    def _sample(self, n: int, rng: np.random.Generator) -> Ints:
        with np.errstate(over="ignore"):
            drawn = self.scale * _generator(rng).pareto(self.index, n)
        return np.floor(np.minimum(drawn, float(LARGEST_DRAW))).astype(np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class Lost(Reshaped):
    """See `lost`."""

    probability: float
    otherwise: DelayModel = NoDelay()
    maker = "lost"

    def __post_init__(self) -> None:
        probability = checks.real("probability", self.probability, 0.0, 1.0)
        object.__setattr__(self, "probability", probability)
        _check_model("otherwise", self.otherwise)

    def _inner(self) -> DelayModel:
        return self.otherwise

    def _change(self, drawn: Ints, rng: np.random.Generator) -> Ints:
        return np.where(_generator(rng).random(len(drawn)) < self.probability, NEVER, drawn)


@dataclass(frozen=True, slots=True, repr=False)
class Bursts(Reshaped):
    """See `bursts`."""

    size: int
    within: DelayModel = NoDelay()
    maker = "bursts"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checks.integer("size", self.size, 1, 2**40))
        _check_model("within", self.within)

    def _inner(self) -> DelayModel:
        return self.within

    def _change(self, drawn: Ints, rng: np.random.Generator) -> Ints:
        played = np.arange(1, len(drawn) + 1) + drawn
        held = np.minimum(drawn + (-played) % self.size, NEVER)
        return np.where(drawn == NEVER, NEVER, held)


@dataclass(frozen=True, slots=True, repr=False)
class Monotone(Reshaped):
    """See `monotone`."""

    model: DelayModel
    maker = "monotone"

    def __post_init__(self) -> None:
        _check_model("model", self.model)

    def _inner(self) -> DelayModel:
        return self.model

    def _change(self, drawn: Ints, rng: np.random.Generator) -> Ints:
        episode = np.arange(len(drawn))
        kept = drawn != NEVER
        arrival = np.maximum.accumulate(np.where(kept, episode + drawn, -1))
        return np.where(kept, arrival - episode, NEVER)


@dataclass(frozen=True, slots=True, repr=False)
class OfCosts(Printed):
    """See `function`."""

    rule: Rule
    maker = "function"

    def __post_init__(self) -> None:
        if not callable(self.rule):
            raise ValueError(
                f"rule must be a function of (costs, rng), got {checks.show(self.rule)}"
            )

    def draw(self, episodes: int, rng: np.random.Generator, costs: Any = None) -> Ints:
        """Draw the delays of the episodes 0 to K - 1: (K,)."""
        if costs is None:
            raise ValueError("costs must be given to a delay model made by function(), got None")
        drawn = [
            checks.integer(
                f"delay of episode {k}", self.rule(costs.at(k), _generator(rng)), 0, NEVER
            )
            for k in range(checks.integer("episodes", episodes, 0, checks.ROOM))
        ]
        return np.array(drawn, dtype=np.int64)


def none() -> NoDelay:
    """Feedback arrives at the end of its own episode.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.none().draw(4, rng)
        array([0, 0, 0, 0])
    """
    return NoDelay()


def fixed(delay: int) -> Fixed:
    """Every episode has the same delay.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.fixed(3).draw(4, rng)
        array([3, 3, 3, 3])
    """
    return Fixed(delay)


def uniform(low: int, high: int) -> Uniform:
    """Delays are uniform on the whole numbers from low to high, both included.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.uniform(1, 3).draw(100, rng)
        >>> int(drawn.min()), int(drawn.max())
        (1, 3)
    """
    return Uniform(low, high)


def geometric(mean: float) -> Geometric:
    """Delays are geometric on 0, 1, 2, ..., with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.geometric(mean=5).draw(100, rng))
        100
    """
    return Geometric(mean)


def poisson(mean: float) -> Poisson:
    """Delays are Poisson with this mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.poisson(mean=5).draw(100, rng))
        100
    """
    return Poisson(mean)


def heavy_tailed(index: float, scale: float = 1.0) -> HeavyTailed:
    """Delays have Pareto tails: P(d >= x) falls like (1 + x / scale) ** -index.

    The mean is infinite for an index of at most 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> len(bl.delays.heavy_tailed(index=1.5).draw(100, rng))
        100
    """
    return HeavyTailed(index, scale)


def lost(probability: float, otherwise: DelayModel | None = None) -> Lost:
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
    return Lost(probability, NoDelay() if otherwise is None else otherwise)


def bursts(size: int, within: DelayModel | None = None) -> Bursts:
    """Feedback is held until a multiple of `size` episodes has been played, then arrives at once.

    Args:
        size: the number of episodes between two deliveries.
        within: the model of the delays before feedback is held; by default there are none.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> bl.delays.bursts(size=3).draw(6, rng)
        array([2, 1, 0, 2, 1, 0])
    """
    return Bursts(size, NoDelay() if within is None else within)


def monotone(model: DelayModel) -> Monotone:
    """Records arrive in order: each waits for the records of all earlier episodes.

    Lost records stay lost, and no record waits for them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> drawn = bl.delays.monotone(bl.delays.uniform(0, 9)).draw(20, rng)
        >>> bool(np.all(np.diff(np.arange(20) + drawn) >= 0))
        True
    """
    return Monotone(model)


def function(rule: Rule) -> OfCosts:
    """Delays are any function of the episode's costs.

    Args:
        rule: takes the costs of the episode, (1 or H, S, A), and a generator; returns a delay.

    Example:
        >>> model = bl.delays.function(lambda episode, costs: episode % 2)
        >>> type(model).__name__
        'OfCosts'
    """
    return OfCosts(rule)


def _generator(rng: object) -> np.random.Generator:
    checks.instance("rng", rng, np.random.Generator, ", e.g. np.random.default_rng(seed)")
    return cast(np.random.Generator, rng)


def _check_model(name: str, value: object) -> None:
    if not hasattr(value, "draw"):
        raise ValueError(f"{name} must be a delay model, got {checks.show(value)}")
