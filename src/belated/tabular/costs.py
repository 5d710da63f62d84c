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
from typing import Any, Protocol, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.episodes import generator


class CostProcess(Protocol):
    """A sequence of cost functions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every cost function: (1 or H, S, A)."""

    def at(self, episode: int) -> Floats:
        """The cost function of an episode, (1 or H, S, A), read-only."""

    def seeded(self, seed: int) -> CostProcess:
        """The same process with this seed, if it is random and has no seed yet."""


def expected(process: CostProcess, episode: int) -> Floats:
    """The cost function of an episode in expectation over its noise, (1 or H, S, A), read-only.

    A process with independent noise has a method of this name; for any other this is `at`.

    Example:
        >>> process = bl.costs.stochastic(np.array([[0.1, 0.9]]), seed=0)
        >>> bl.costs.expected(process, 3)
        array([[[0.1, 0.9]]])
    """
    return getattr(process, "expected", process.at)(episode)


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


@dataclass(frozen=True, slots=True, eq=False)
class Process:
    """Costs by a rule; the functions below make such processes.

    Attributes:
        shape: the shape of every cost function, (1 or H, S, A).
        rule: the cost function, given the seed, the episode, and a dictionary in which the rule may
            keep what it has computed.
        seed: the seed, if one was given or set; a rule without chance ignores it.
    """

    shape: tuple[int, ...]
    rule: Callable[[int, int, dict[str, Any]], Floats]
    seed: int | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def at(self, episode: int) -> Floats:
        """The cost function of an episode."""
        episode = checks.integer("episode", episode, 0)
        return frozen(self.rule(self.seed or 0, episode, self._cache))

    def seeded(self, seed: int) -> Self:
        """The same with this seed, unless a seed was given."""
        return self if self.seed is not None else dataclasses.replace(self, seed=seed, _cache={})


Functions = tuple[Floats, ...]


def _in_turn(
    functions: Functions, every: int, drift: bool, seed: int, episode: int, cache: object
) -> Floats:
    """Each function for `every` episodes, in rotation; drift: interpolated to the next one."""
    turn, into = divmod(episode, every)
    here = functions[turn % len(functions)]
    if not drift or into == 0:
        return here
    return here + (functions[(turn + 1) % len(functions)] - here) * (into / every)


def _from(
    functions: Functions, starts: tuple[int, ...], seed: int, episode: int, cache: object
) -> Floats:
    """The first function, then the others from their starts on."""
    return functions[bisect_right(starts, episode)]


def _one_by_one(functions: Functions, seed: int, episode: int, cache: object) -> Floats:
    """One function for every episode, until there are no more."""
    return functions[checks.integer("episode", episode, 0, len(functions) - 1)]


def fixed(costs: object) -> Process:
    """The same cost function in every episode. costs: (S, A), (1, S, A) or (H, S, A).

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.fixed(costs).at(7)
        array([[[0.1, 0.9]]])
    """
    return _rotating([_cost_function("costs", costs)], 1, drift=False)


def switching(costs: object, every: int) -> Process:
    """Several cost functions in rotation, each for `every` episodes.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.switching([costs, 1 - costs], every=10).at(10)
        array([[[0.9, 0.1]]])
    """
    return _rotating(costs, every, drift=False)


def drifting(costs: object, every: int) -> Process:
    """Linear interpolation from each cost function to the next over `every` episodes, cyclically.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.drifting([costs, 1 - costs], every=10).at(5).shape
        (1, 1, 2)
    """
    return _rotating(costs, every, drift=True)


def _rotating(costs: object, every: int, drift: bool) -> Process:
    every = checks.integer("every", every, 1)
    functions = _cost_functions("costs", costs)
    return Process(functions[0].shape, partial(_in_turn, functions, every, drift))


def changing(costs: object, at: Sequence[int]) -> Process:
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
    return Process(functions[0].shape, partial(_from, functions, starts))


STRETCH = 256
"""The number of episodes of a walk that are drawn together."""


def _walk(start: Floats, step: float, seed: int, episode: int, cache: dict[str, Any]) -> Floats:
    """A walk from the start; the cache has the costs of a stretch, and where stretches begin."""
    stretch, into = divmod(episode, STRETCH)

    def moves(index: int) -> Floats:
        return step * generator(seed, index).standard_normal((STRETCH, *start.shape))

    if cache.get("stretch") != stretch:
        begins = cache.setdefault("begins", [start])  # the costs at the start of every stretch
        while len(begins) <= stretch:
            begins.append(begins[-1] + moves(len(begins) - 1).sum(axis=0))
        steps = moves(stretch)
        before = begins[stretch] + (np.cumsum(steps, axis=0) - steps)
        cache["stretch"], cache["costs"] = stretch, 1.0 - np.abs(1.0 - before % 2.0)
    return cache["costs"][into]  # type: ignore[no-any-return]


def walking(start: object, step: float, seed: int | None = None) -> Process:
    """A random walk from the cost function `start`, reflected at 0 and 1.

    Every entry moves by independent normal steps with this standard deviation.

    Example:
        >>> costs = np.array([[0.1, 0.9]])
        >>> bl.costs.walking(costs, step=0.1, seed=0).at(3).shape
        (1, 1, 2)
    """
    begin = _cost_function("start", start)
    rule = partial(_walk, begin, checks.real("step", step, 0.0))
    return Process(begin.shape, rule, _seed(seed))


def sequence(costs: object) -> Process:
    """One cost function per episode. costs: (K, 1 or H, S, A), or a list of K of them.

    Example:
        >>> process = bl.costs.sequence([np.zeros((1, 2)), np.ones((1, 2))])
        >>> process.at(1)
        array([[[1., 1.]]])
    """
    functions = _cost_functions("costs", costs)
    return Process(functions[0].shape, partial(_one_by_one, functions))


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Independent noise around the costs of another process; see `stochastic` and `noisy`."""

    process: CostProcess
    noise: str
    width: float
    seed: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
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
        means = self.process.at(episode)
        rng = generator(self.seed or 0, episode)
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


def _coins(shape: tuple[int, ...], length: int, seed: int, episode: int, cache: object) -> Floats:
    """A coin for every action, in all states and steps, for `length` episodes."""
    coins = generator(seed, episode // length).integers(0, 2, shape[2]).astype(np.float64)
    return np.broadcast_to(coins, shape)


def blocks(states: int, actions: int, length: int, seed: int | None = None) -> Process:
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
    shape = (1, states, actions)
    rule = partial(_coins, shape, checks.integer("length", length, 1))
    return Process(shape, rule, _seed(seed))


def _seed(seed: object) -> int | None:
    return None if seed is None else checks.integer("seed", seed, 0, 2**64 - 1)
