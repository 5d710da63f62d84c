"""Planning under delayed bandit feedback, with several memories and deep exploration.

    1  when an episode begins:
    2      in every cell (s, a): each memory predicts a mean and a variance of the cost; the slowest
           one has a learned prior. They are weighted by their past errors; memories with the
           smallest weight do not count                                          (beliefs)
    3      with probability `probe_rate`, less after many fruitless probes: use only the memory that
           forgets slowly, and more optimism
    4      Q = cost + next value - optimism * deviation, at least 0, backwards; the deviation
           includes the cost and the next value                                  (deep_planning)
    5      play the best action everywhere, a random one of several; remember the predictions
    6      compute the expected visits of the plan: they are pending, and count as visits in line 4
           until they arrive or are overdue
    7  when path and costs of an episode have arrived:
    8      score every memory by its predictions *when the episode began*
    9      add the costs to every memory; a cell visited several times counts once

Ties are broken at random at every (h, s), by a counter-based generator keyed by the agent's seed
and the number of the episode: where nothing is known, the plan is a random walk. Pending visits,
not noise, make the plans of open episodes differ.

The pooled memories are discounted by the factors `KEEP` per arrival, and one more memory is kept
per step: so the agent learns how fast costs change and whether they depend on the step.
docs/algorithms/planner.md explains each idea and how it was measured. There is no regret bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information
from belated.core.episodes import Learner, Memory, Open, generator
from belated.core.tree import Count, Entries
from belated.tabular.counts import FrequencyModel, Model
from belated.tabular.kernels import beliefs, deep_planning
from belated.tabular.kernels.planning import Rows
from belated.tabular.parts.pending import Pending
from belated.tabular.parts.transitions import matching
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions

KEEP = (1.0, 0.99, 0.9)
"""The factor by which each arrival discounts older observations, memory by memory."""
TIE_PENALTY = 0.005
"""The squared error added for all memories but the slowest, which thus wins ties."""
OPTIMISM = 0.8
"""Optimism of a plan, in standard deviations."""
PROBED, PROBE_OPTIMISM = 1, 1.5
"""The memory that a probe plans with, and its optimism."""
FRUITLESS = 100
"""After this many probes while nothing changes, their rate falls with the number of such probes."""


def probe_rate(horizon: int) -> float:
    """The share of episodes that are probes: a tenth of a step per episode, at most 8 %."""
    return min(0.08, 0.1 / horizon)


class Said(NamedTuple):
    """The predictions of the memories when an episode began.

    Attributes:
        means: (M, C) of the pooled memories for all cells.
        seen: (n,) the cells that the memory kept per step had seen, flat over (H, C), increasing.
        values: (n,) its predictions for them; those for others are the means of memory 0.
    """

    means: Annotated[Floats, Entries("M C", low=0.0, high=1.0)]
    seen: Annotated[Ints, Entries("_", low=0)]
    values: Annotated[Floats, Entries("_", low=0.0, high=1.0)]


SaidOrMet = Said | Annotated[Floats, Entries("N H", low=0.0, high=1.0)]
"""What is remembered of an episode: once its path has come, the predictions for it (N, H)."""


class MemoryPlanner(Learner[Memory]):
    """The base of agents that plan with memories of costs, an empirical model and pending visits.

    Attributes:
        axes: the numbers of memories, of steps that one is kept for, and of cells.
    """

    _memories: beliefs.CostMemories
    _model: Model
    _pending: Pending

    def __init__(
        self,
        problem: Problem,
        transitions: Transitions | None,
        changing: bool,
        seed: int,
        *,
        keep: tuple[float, ...],
        by_step: bool,
    ) -> None:
        """keep: the discounts of the memories. by_step: whether one more is kept per step.

        With the latter, costs are suffered, and a row without visits is free in evaluations.
        """
        checks.instance("problem", problem, Problem)
        if transitions is None:
            self._model = FrequencyModel(problem, 0.0, free=by_step)
        else:
            checks.instance("transitions", transitions, Transitions)
            self._model = Model(problem, matching(problem, transitions))
        seed = checks.integer("seed", seed, 0, 2**64 - 1)
        changing = checks.flag("changing", changing)
        super().__init__(problem, transitions=transitions, changing=changing, seed=seed)
        H, S, A = problem.shape
        self._keep = np.array(keep if changing else keep[:1])
        self._rng = generator(seed, 0)
        self._start = self._rng.bit_generator.state
        rows = self._rows.successors.shape[:3]
        self._trust = np.ones(rows), np.zeros(rows), np.zeros(rows)  # of known transitions
        self._pending = Pending(rows, problem.start_probabilities)
        M, L, C = len(self._keep), H if by_step else 0, S * A
        # D cells if a memory is kept for every step
        N, D = M + by_step, C if by_step else C * H
        self.axes = {"M": M, "N": N, "L": L, "C": C, "D": D}
        shapes = ((M, C), (M, C), (L, C), (L, C), (N,), (N, C), (N + 1,))
        prior = np.array(beliefs.FIRST_PRIOR)  # the widest one
        self._memories = beliefs.CostMemories._make([*map(np.zeros, shapes), prior])

    @property
    def _rows(self) -> Rows:
        """The transitions of the model, read-only, for kernels."""
        return Rows(frozen(self._model.rows.successors), frozen(self._model.rows.probabilities))

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its visits are not pending."""
        super().forget(episode)
        self._pending.take_out(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger and the model, and the weights of the memories."""
        weights = np.exp(self._memories.scores)
        shares = {f"weight_{m}": float(w) for m, w in enumerate(weights / weights.sum())}
        return {**super().diagnostics(), **self._model.diagnostics(), **shares}

    def check_learned(self) -> None:
        """Check that restored memories are consistent."""
        sums, weights, step_sums, step_weights, _, local, _, prior = self._memories
        if len({each.shape[1] for each in (sums, weights, step_sums, step_weights, local)}) > 1:
            raise ValueError("sums, weights and local must have the same number of cells")
        for total, weight in ((sums, weights), (step_sums, step_weights)):
            if np.any(total > weight * (1.0 + 1e-9) + 1e-9):
                raise ValueError("sums must not exceed the weights: costs are at most 1")
        checks.real("prior variance", prior[1], beliefs.LEAST_SPREAD, beliefs.SPAN)

    def _draws(self) -> np.random.Generator:
        """The generator of the episode that begins now."""
        return rewound(self._rng, self._start, self.begun)

    def _plan(
        self, costs: Floats, variances: Floats, optimism: float, draws: Floats, new: float = 0.0
    ) -> Floats:
        """The plan (H, S, A) for costs with these variances (1 or H, C).

        optimism: in standard deviations. draws: (H, S), which break ties. new: see `trust`.
        """
        H, S, A = self.problem.shape
        if self._model.counts is not None:
            deep_planning.trust(self._model.counts.visits, self._pending.total, new, self._trust)
        policy = np.zeros((H, S, A))
        mean, spread = (frozen(each.reshape(-1, S, A)) for each in (costs, variances))
        deep_planning.plan(self._rows, self._trust, mean, spread, optimism, draws, policy)
        return frozen(policy)


class DelayedPlanner(MemoryPlanner[SaidOrMet]):
    """One optimistic plan per episode, from memories with several discounts.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true dynamics, if they are known.
        changing: whether costs may change. If not, the agent neither forgets nor probes.
        seed: the seed of the agent's own draws.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedPlanner(world.problem)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    information: Information = "bandit"
    uses_paths = True
    _fruitless: Count  # probes since the slowest memory was last not the best

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        changing: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(problem, transitions, changing, seed, keep=KEEP, by_step=True)
        self._probes = probe_rate(problem.horizon) if changing else 0.0
        self._alone = np.where(np.arange(len(self._memories.scores)) == PROBED, 0.0, -np.inf)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the noise of costs, and the weights of the memories."""
        noise = {"noise": float(beliefs.noise_factor(self._memories.errors))}
        return {**super().diagnostics(), **noise}

    def check_learned(self) -> None:
        """Check that the learned values are consistent."""
        super().check_learned()
        for entry in self._ledger.open.values():
            said = entry.memory if isinstance(entry.memory, Said) else None
            if (said is None) == (entry.path is None):
                raise ValueError("all predictions must be kept only where the path has not come")
            if said and (len(said.seen) != len(said.values) or np.any(np.diff(said.seen) <= 0)):
                raise ValueError("seen must rise, and be as many as values")

    def _next_policy(self) -> tuple[Floats, SaidOrMet]:
        """Lines 2 to 6."""
        self._pending.give_up(self.begun)
        pending = self._pending.total
        H, S, _ = self.problem.shape
        rng = self._draws()
        probing = rng.random() < self._probes * FRUITLESS / max(self._fruitless, FRUITLESS)
        self._fruitless += probing
        memories = self._memories._replace(scores=self._alone) if probing else self._memories
        means, costs, variances, noises = beliefs.predict(memories, pending.sum(0).ravel())
        seen, values = beliefs.of_steps(memories, means, noises)
        said = Said(frozen(means), frozen(seen), frozen(values))
        optimism = PROBE_OPTIMISM if probing else OPTIMISM
        policy = self._plan(costs, variances, optimism, rng.random((H, S)))
        self._pending.expect(self.begun, self._rows, policy)
        return policy, said

    def _cells(self, path: Trajectory) -> Ints:
        """The cells (H,) of a path."""
        return path.states[:-1] * self.problem.actions + path.actions  # type: ignore[no-any-return]

    def _prepare(self, paths: list[Trajectory], entries: list[Open[SaidOrMet]]) -> None:
        """Count the paths, keep only what was predicted for them, and count them as pending."""
        self._model.learn(paths, self.begun)
        for path in paths:
            entry = self._ledger.open[path.episode]
            assert isinstance(entry.memory, Said)
            met = np.empty((len(self._memories.scores), self.problem.horizon))
            beliefs.on_path(*entry.memory, self._cells(path), met)
            entry.memory = frozen(met)
            if entry.number in self._pending and entry.costs is None:
                visits = np.zeros(self._pending.total.shape)
                steps = np.minimum(np.arange(self.problem.horizon), len(visits) - 1)
                visits[steps, path.states[:-1], path.actions] = 1.0
                self._pending.put_in(entry.number, frozen(visits))

    def _learn(self, entry: Open[SaidOrMet]) -> None:
        """Score the memories and update them."""
        assert isinstance(entry.memory, np.ndarray)
        said, costs, cells = entry.memory, entry.costs.values, self._cells(entry.path)
        shares, rate = 1.0 / np.bincount(cells)[cells], beliefs.RATE / math.sqrt(len(cells))
        beliefs.learn(self._memories, self._keep, said, cells, shares, costs, rate, TIE_PENALTY)
        if self._memories.scores[0] < 0.0:  # costs are changing
            self._fruitless = 0
        self._pending.take_out(entry.number)
        self._pending.note(self.begun - 1 - entry.number)


def rewound(
    rng: np.random.Generator, start: Mapping[str, Any], episode: int
) -> np.random.Generator:
    """The generator that `generator` makes for an episode, by setting one back: ten times faster.

    start: the state of its bit generator as `generator` makes it for some episode.
    """
    start["state"]["counter"][3] = episode
    rng.bit_generator.state = start
    return rng
