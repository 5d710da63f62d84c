"""Cost processes: the cost function of every episode, independent of the learner.

`at(episode)` of a process returns the cost function of that episode, (1 or H, S, A) in [0, 1],
read-only. Processes are oblivious: the costs depend on the episode and on the seed of the process,
never on the learner or on the order of the calls. A random process takes a `seed`; if it is None,
the simulator sets one (`seeded`), so that one seed determines a whole run.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen


class CostProcess(Protocol):
    """A sequence of cost functions."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of every cost function: (1 or H, S, A)."""
        ...

    def at(self, episode: int) -> Floats:
        """The cost function of an episode, (1 or H, S, A), read-only."""
        ...

    def seeded(self, seed: int) -> CostProcess:
        """The same process with this seed, if it is random and has no seed yet."""
        ...


def expected(process: CostProcess, episode: int) -> Floats:
    """The cost function of an episode in expectation over its noise, (1 or H, S, A), read-only.

    A process with independent noise has a method of this name; for any other this is `at`.

    Example:
        >>> process = bl.costs.stochastic(np.array([[0.1, 0.9]]), seed=0)
        >>> bl.costs.expected(process, 3)
        array([[[0.1, 0.9]]])
    """
    costs: Floats = getattr(process, "expected", process.at)(episode)
    return costs


def _cost_function(name: str, value: object) -> Floats:
    array = checks.floats(name, value, "(S, A), (1, S, A) or (H, S, A)", (2, 3))
    checks.in_unit_interval(name, array)
    return frozen(array if array.ndim == 3 else array[None])


def _cost_functions(name: str, values: object) -> tuple[Floats, ...]:
    if not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise ValueError(
            f"{name} must be a sequence of at least one cost function, got {checks.show(values)}"
        )
    functions = tuple(_cost_function(f"{name}[{i}]", value) for i, value in enumerate(values))
    for i, function in enumerate(functions):
        if function.shape != functions[0].shape:
            raise ValueError(
                f"{name} must hold cost functions of one shape, got {functions[0].shape} and "
                f"{name}[{i}] of shape {function.shape}"
            )
    return functions


def _shape(array: Floats) -> tuple[int, int, int]:
    T, S, A = array.shape
    return T, S, A


@dataclass(frozen=True, slots=True, eq=False)
class Deterministic:
    """Cost functions by a schedule: see `switching`, `drifting`, `changing` and `sequence`.

    Attributes:
        functions: the cost functions, (1 or H, S, A) each.
        schedule: of an episode, two functions by number and the weight of the second.
    """

    functions: tuple[Floats, ...]
    schedule: Callable[[int], tuple[int, int, float]]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of every cost function: (1 or H, S, A)."""
        return _shape(self.functions[0])

    def at(self, episode: int) -> Floats:
        """The cost function of an episode."""
        first, second, weight = self.schedule(checks.integer("episode", episode, 0))
        here = self.functions[first]
        if weight == 0.0:
            return here
        return frozen(here + (self.functions[second] - here) * weight)

    def seeded(self, seed: int) -> Self:
        """Itself: there is no chance in it."""
        return self


def _in_turn(count: int, every: int, drift: bool, episode: int) -> tuple[int, int, float]:
    turn, into = divmod(episode, every)
    return turn % count, (turn + 1) % count, into / every if drift else 0.0


def _from(starts: tuple[int, ...], episode: int) -> tuple[int, int, float]:
    return bisect_right(starts, episode), 0, 0.0


def _one_by_one(count: int, episode: int) -> tuple[int, int, float]:
    return checks.integer("episode", episode, 0, count - 1), 0, 0.0


def fixed(costs: object) -> Deterministic:
    """The same cost function in every episode. costs: (S, A), (1, S, A) or (H, S, A).

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.fixed(costs).at(7)
        array([[[0.1, 0.9]]])
    """
    return Deterministic((_cost_function("costs", costs),), partial(_in_turn, 1, 1, False))


def switching(costs: object, every: int) -> Deterministic:
    """Several cost functions in rotation, each for `every` episodes.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.switching([costs, 1 - costs], every=10).at(10)
        array([[[0.9, 0.1]]])
    """
    return _rotating(costs, every, drift=False)


def drifting(costs: object, every: int) -> Deterministic:
    """Linear interpolation from each cost function to the next over `every` episodes, cyclically.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.drifting([costs, 1 - costs], every=10).at(5).shape
        (1, 1, 2)
    """
    return _rotating(costs, every, drift=True)


def _rotating(costs: object, every: int, drift: bool) -> Deterministic:
    every = checks.integer("every", every, 1)
    functions = _cost_functions("costs", costs)
    return Deterministic(functions, partial(_in_turn, len(functions), every, drift))


def changing(costs: object, at: Sequence[int]) -> Deterministic:
    """Several cost functions, once: the second from episode at[0] on, the third from at[1] on.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.changing([costs, 1 - costs], at=[4]).at(4)
        array([[[0.9, 0.1]]])
    """
    functions = _cost_functions("costs", costs)
    if not isinstance(at, Sequence | np.ndarray) or len(at) != len(functions) - 1:
        raise ValueError(
            f"at must hold {len(functions) - 1} episodes, one less than costs, "
            f"got {checks.show(at)}"
        )
    starts = tuple(checks.integer(f"at[{i}]", start, 0) for i, start in enumerate(at))
    if list(starts) != sorted(starts):
        raise ValueError(f"at must not decrease, got {checks.show(at)}")
    return Deterministic(functions, partial(_from, starts))


@dataclass(frozen=True, slots=True, eq=False)
class Walking:
    """Costs that walk at random; see `walking`."""

    start: Floats
    step: float
    seed: int | None = None
    _begins: list[Floats] = field(default_factory=list, repr=False)
    _last: dict[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of every cost function: (1 or H, S, A)."""
        return _shape(self.start)

    def at(self, episode: int) -> Floats:
        """The cost function of an episode."""
        stretch, into = divmod(checks.integer("episode", episode, 0), STRETCH)
        if stretch not in self._last:
            begins = self._begins or [self.start]
            while len(begins) <= stretch:
                begins.append(begins[-1] + self._moves(len(begins) - 1).sum(axis=0))
            self._begins[:] = begins
            moves = self._moves(stretch)
            before = np.cumsum(moves, axis=0) - moves
            self._last.clear()
            self._last[stretch] = 1.0 - np.abs(1.0 - (begins[stretch] + before) % 2.0)
        return frozen(self._last[stretch][into])

    def _moves(self, stretch: int) -> Floats:
        normal = _generator(self.seed, stretch).standard_normal((STRETCH, *self.start.shape))
        moves: Floats = self.step * normal
        return moves

    def seeded(self, seed: int) -> Self:
        """The same walk with this seed, unless a seed was given."""
        if self.seed is not None:
            return self
        return dataclasses.replace(self, seed=seed, _begins=[], _last={})


STRETCH = 256
"""The number of episodes of a walk that are drawn together."""


def walking(start: object, step: float, seed: int | None = None) -> Walking:
    """A random walk from the cost function `start`, reflected at 0 and 1.

    Every entry moves by independent normal steps with this standard deviation.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.walking(costs, step=0.1, seed=0).at(3).shape
        (1, 1, 2)
    """
    step = checks.real("step", step, 0.0)
    return Walking(_cost_function("start", start), step, _seed(seed))


def sequence(costs: object) -> Deterministic:
    """One cost function per episode. costs: (K, 1 or H, S, A), or a list of K of them.

    Example:
        >>> process = bl.costs.sequence([np.zeros((1, 2)), np.ones((1, 2))])
        >>> process.at(1)
        array([[[1., 1.]]])
    """
    functions = _cost_functions("costs", costs)
    return Deterministic(functions, partial(_one_by_one, len(functions)))


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Independent noise around the costs of another process; see `stochastic` and `noisy`."""

    process: CostProcess
    noise: str
    width: float
    seed: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of every cost function: (1 or H, S, A)."""
        return self.process.shape

    @property
    def means(self) -> Floats:
        """The means in episode 0; for `stochastic` those of every episode."""
        return self.process.at(0)

    def expected(self, episode: int) -> Floats:
        """The mean cost function of an episode: that of the process inside."""
        return expected(self.process, episode)

    def at(self, episode: int) -> Floats:
        """The cost function of an episode."""
        rng = _generator(self.seed, episode)
        means = self.process.at(episode)
        if self.noise == "bernoulli":
            return frozen((rng.random(means.shape) < means).astype(np.float64))
        half = np.minimum(self.width / 2, np.minimum(means, 1.0 - means))
        drawn = means + half * (2.0 * rng.random(means.shape) - 1.0)
        return frozen(np.clip(drawn, 0.0, 1.0))

    def seeded(self, seed: int) -> Self:
        """The same with this seed if it has none; the process inside gets a derived seed."""
        process = self.process.seeded((seed + 1) % 2**64)
        own = seed if self.seed is None else self.seed
        return dataclasses.replace(self, process=process, seed=own)


def stochastic(
    means: object, noise: str = "bernoulli", width: float = 0.5, seed: int | None = None
) -> Noisy:
    """Independent costs in every episode with the given means, (S, A), (1, S, A) or (H, S, A).

    noise "bernoulli": 0 or 1. noise "uniform": uniform on an interval of this width around the
    mean, made narrower where it would leave [0, 1], so that the mean does not change.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> set(bl.costs.stochastic(costs, seed=0).at(3).ravel()) <= {0.0, 1.0}
        True
    """
    return noisy(fixed(_cost_function("means", means)), noise, width, seed)


def noisy(
    process: CostProcess, noise: str = "bernoulli", width: float = 0.5, seed: int | None = None
) -> Noisy:
    """Independent noise in every episode around the costs of any process; see `stochastic`.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.noisy(bl.costs.fixed(costs), seed=0).at(3).shape
        (1, 1, 2)
    """
    if not (hasattr(process, "at") and hasattr(process, "seeded")):
        raise ValueError(f"process must be a cost process, got {checks.show(process)}")
    noise = checks.choice("noise", noise, ("bernoulli", "uniform"))
    return Noisy(process, noise, checks.real("width", width, 0.0, 1.0), _seed(seed))


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Fair coins per block and action; see `blocks`."""

    shape: tuple[int, int, int]
    length: int
    seed: int | None = None
    _last: dict[int, Floats] = field(default_factory=dict, repr=False)

    def at(self, episode: int) -> Floats:
        """The cost function of an episode."""
        block = checks.integer("episode", episode, 0) // self.length
        if block not in self._last:
            coins = _generator(self.seed, block).integers(0, 2, self.shape[2]).astype(np.float64)
            self._last.clear()
            self._last[block] = frozen(np.broadcast_to(coins, self.shape))
        return self._last[block]

    def seeded(self, seed: int) -> Self:
        """The same blocks with this seed, unless a seed was given."""
        if self.seed is not None:
            return self
        return dataclasses.replace(self, seed=seed, _last={})


def blocks(states: int, actions: int, length: int, seed: int | None = None) -> Blocks:
    """The costs behind the delay lower bound: constant on blocks of `length` episodes.

    In every block a fair coin decides whether an action costs 0 or 1, in all states and at all
    steps. With a fixed delay of length - 1 no costs of a block are known before the block ends.

    Example:
        >>> bl.costs.blocks(states=1, actions=2, length=5, seed=0).at(3).shape
        (1, 1, 2)
    """
    states = checks.integer("states", states, 1)
    actions = checks.integer("actions", actions, 1)
    checks.room(states * actions, states=states, actions=actions)
    length = checks.integer("length", length, 1)
    return Blocks((1, states, actions), length, _seed(seed))


def _seed(seed: object) -> int | None:
    return None if seed is None else checks.integer("seed", seed, 0, 2**64 - 1)


def _generator(seed: int | None, index: int) -> np.random.Generator:
    """The generator of one episode or block; a second call gives the same numbers."""
    index = checks.integer("episode", index, 0)
    return np.random.Generator(np.random.Philox(key=seed or 0, counter=(0, 0, 0, index)))
