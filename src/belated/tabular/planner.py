"""Planning under delayed bandit feedback, with several memories and deep exploration.

    1  when an episode begins:
    2      in every cell (s, a): each memory predicts a mean and a variance of the cost; the slowest
           one has a learned prior. They are weighted by their past errors; memories with the
           smallest weight do not count                                          (beliefs)
    3      with probability `probe_rate`, less after many fruitless probes, more after a promising
           one: use only the memory that forgets slowly, and more optimism or more noise
    4      Q = cost + next value - (lean - xi) * deviation, clipped to [0, steps left], backwards;
           the deviation includes the cost and the next value                    (deep_planning)
    5      play the best action everywhere, a random one of several; remember the predictions
    6      compute the expected visits of the plan: they are pending, and count as visits in line 4
           until they arrive or are overdue
    7  when path and costs of an episode have arrived:
    8      score every memory by its predictions *when the episode began*
    9      add the costs to every memory; a cell visited several times counts once
    10     if there is one step: a probe was promising if other actions are better than the planned
           ones for the memory that forgets slowly, with the slowest one as its prior mean

Ties are broken at random at every (h, s), and in probes xi(s, a) is N(0, noise^2), by a
counter-based generator keyed by the agent's seed and the number of the episode. Noise that is drawn
once per cell would repeat one action at every step where nothing is known; random ties walk at
random. Pending visits, not noise, make the plans of open episodes differ.

The pooled memories are discounted by the factors `KEEP` per arrival, and one more memory is kept
per step: so the agent learns how fast costs change and whether they depend on the step. Ties go to
the slowest memory, which has no toll. docs/algorithms/planner.md explains each idea and how it was
measured. There is no regret bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from belated.core import checks, versions
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information
from belated.core.learner import Learner, generator
from belated.core.ledger import Open
from belated.core.tree import Count, Entries
from belated.tabular.counts import Counts, EmpiricalModel
from belated.tabular.kernels import beliefs, deep_planning
from belated.tabular.kernels.planning import Rows
from belated.tabular.parts.pending import Pending
from belated.tabular.parts.transitions import matching
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.transitions import Transitions

KEEP = (1.0, 0.995, 0.97, 0.8)
"""The factor by which each arrival discounts older observations, memory by memory."""
PROBED = 1
"""The memory that a probe plans with."""


def probe_rate(horizon: int) -> float:
    """The share of episodes that are probes, from 4 % for arms to 1 % for ten steps."""
    return min(0.04, max(0.01, 0.1 / horizon))


FRUITLESS = 100
"""After this many probes without a discovery, their rate falls with the number of such probes."""
PROMISING = 4.0
"""The factor of the rate after a promising probe."""
GAIN = 0.01
"""The cost by which other actions must be better in order to be promising."""


def optimism(horizon: int, *, probing: bool) -> tuple[float, float]:
    """`lean`, in standard deviations, and the standard deviation of xi, which only probes have."""
    if probing:
        return (1.5, 0.1) if horizon == 1 else (0.8, 1.0)
    return 0.8, 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """The predictions of the memories when an episode began.

    Attributes:
        means: (M, S, A) of the pooled memories; None once the path has arrived.
        steps: (H or 0, S, A) of the memory kept per step; None once the path has arrived. In a
            large problem, (1, S, A) its predictions for unvisited rows.
        met: (N, H) of all memories for the path, once it has arrived.
        rows: (R,) in a large problem, the visited rows: flat over (H, S), increasing.
        values: (R, A) the predictions for these rows.
        probe: whether the episode is a probe.
    """

    means: Annotated[Floats, Entries("M S A", low=0.0, high=1.0)] | None
    steps: Annotated[Floats, Entries("0|1|H S A", low=0.0, high=1.0)] | None
    met: Annotated[Floats, Entries("N H", low=0.0, high=1.0)] | None = None
    rows: Annotated[Ints, Entries("_", low=0)] | None = None
    values: Annotated[Floats, Entries("_ A", low=0.0, high=1.0)] | None = None
    probe: bool = False

    def of_steps(self, states: Ints, actions: Ints) -> Floats:
        """The predictions of the memory kept per step for a path: states and actions (H,)."""
        assert self.steps is not None
        h = np.arange(len(actions))
        if self.rows is None or self.values is None:
            found: Floats = self.steps[h, states, actions]
            return found
        plain: Floats = self.steps[0, states, actions]
        if not len(self.rows):
            return plain
        sought = h * self.steps.shape[1] + states
        place = np.minimum(np.searchsorted(self.rows, sought), len(self.rows) - 1)
        return np.where(self.rows[place] == sought, self.values[place, actions], plain)


class DelayedPlanner(Learner[Said]):
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
    _memories: beliefs.CostMemories
    _model: EmpiricalModel | None
    _pending: Pending
    _fruitless: Count  # probes since the slowest memory was last not the best
    _reported: bool  # whether a probe has reported since the last ordinary plan
    _promising: bool  # whether the last probe that has reported was promising

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        changing: bool = True,
        seed: int = 0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if transitions is not None:
            checks.instance("transitions", transitions, Transitions)
            matching(problem, transitions)
        self._seed = checks.integer("seed", seed, 0, 2**64 - 1)
        changing = checks.flag("changing", changing)
        super().__init__(problem, transitions=transitions, changing=changing, seed=self._seed)
        self._transitions = transitions
        self._keep = np.array(KEEP if changing else KEEP[:1])
        self._probes = probe_rate(problem.horizon) if changing else 0.0
        self._model = EmpiricalModel(Counts(problem), 0.0) if transitions is None else None
        shape, known = self._rows.successors.shape[:3], transitions is not None
        self._trust = deep_planning.Trust(
            np.full(shape, float(known)), np.zeros(shape), np.zeros(shape)
        )
        self._pending = Pending(shape, shape[1:])
        self._memories = _memories(problem, len(self._keep))
        self._fruitless, self._reported, self._promising = 0, False, False

    @property
    def axes(self) -> dict[str, int]:
        """The numbers of pooled memories and of all memories."""
        return {"M": len(self._memories.sums), "N": len(self._memories.scores)}

    @property
    def _counts(self) -> Counts | None:
        return None if self._model is None else self._model.counts

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths, then learn from every episode whose path and costs have both arrived."""
        paths, entries = self._ledger.take(records)
        if self._model is not None:
            for path in paths:
                self._model.add(path)
        for entry in entries:
            if entry.path is None or entry.memory is None:
                continue
            if entry.memory.met is None:
                self._meet(entry, entry.path, entry.memory)
            if entry.costs is not None:
                self._learn(entry)
                self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its visits are not pending."""
        super().forget(episode)
        self._pending.take_out(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the noise of costs, and the weights of the memories."""
        weights = np.exp(self._memories.scores)
        weights /= weights.sum()
        counts = self._counts
        return {
            **super().diagnostics(),
            **({} if counts is None else {"visited": float(np.mean(counts.visits > 0))}),
            "noise": float(beliefs.noise_factor(self._memories.errors)),
            **{f"weight_{m}": float(weight) for m, weight in enumerate(weights)},
        }

    def check_learned(self) -> None:
        """Check that the learned values are consistent."""
        sums, weights, step_sums, step_weights, *_, prior = self._memories
        for total, weight in ((sums, weights), (step_sums, step_weights)):
            if np.any(total > weight * (1.0 + 1e-9) + 1e-9):
                raise ValueError("sums must not exceed the weights: costs are at most 1")
        checks.real("prior variance", prior[1], beliefs.LEAST_SPREAD, beliefs.SPAN)
        for entry in self._ledger:
            said = entry.memory
            if said is not None and (said.met is None) != (entry.path is None):
                raise ValueError("met must be kept where the path has come, and only there")

    def _next_policy(self) -> tuple[Floats, Said]:
        """Lines 2 to 6."""
        self._pending.give_up(self.begun)
        H, S, A = self.problem.shape
        rng = generator(self._seed, self.begun)
        rate = self._probes * FRUITLESS / max(self._fruitless, FRUITLESS)
        probing = rng.random() < rate * (PROMISING if self._promising else 1.0)
        self._fruitless += probing
        lean, noise = optimism(H, probing=probing)
        said, costs = self._predicted(probing)
        row_visits, cell_visits = self._pending.totals
        if self._counts is not None:
            deep_planning.trust(self._counts.visits, row_visits, self._trust)
        policy, draws = np.zeros((H, S, A)), np.empty((H, S))
        leans = lean - noise * rng.standard_normal((S, A)) if noise else np.full((S, A), lean)
        rng.random(out=draws)
        deep_planning.plan(self._rows, self._trust, costs, cell_visits, leans, draws, policy)
        rows, cells = np.zeros(row_visits.shape), np.zeros((S, A))
        start = self.problem.start_probabilities
        deep_planning.expected_visits(self._rows, self._trust, policy, start, rows, cells)
        self._pending.put_in(self.begun, frozen(rows), frozen(cells))
        if self._reported and not probing:
            self._reported = False
            self._promising = H == 1 and self._better_actions(said, policy, costs.noise)
        return frozen(policy), said

    def _better_actions(self, said: Said, policy: Floats, noise: Floats) -> bool:
        """Whether other actions are better than a policy, by the costs of late. noise: (S, A)."""
        memories, means = self._memories, said.means
        assert means is not None
        kappa = noise / beliefs.SPAN
        found = memories.sums[PROBED] + kappa * means[0]
        found /= memories.weights[PROBED] + kappa
        gains = (policy[0] * found).sum(1) - found.min(1)
        return bool(self.problem.start_probabilities @ gains > GAIN)

    @property
    def _rows(self) -> Rows:
        if self._transitions is not None:
            return self._transitions.rows
        assert self._model is not None
        counts = self._model.counts
        return Rows(frozen(counts.successors), frozen(self._model.probabilities))

    def _predicted(self, probing: bool) -> tuple[Said, deep_planning.PlannedCosts]:
        """The predictions of the memories, and the costs to plan with."""
        memories = self._memories
        cells = memories.sums.shape[1:]
        means, variances = np.empty(memories.sums.shape), np.empty(memories.sums.shape)
        steps, noise = np.empty(memories.step_sums.shape), np.empty(cells)
        cost, variance, share = np.empty(cells), np.empty(cells), np.empty(cells)
        phi = beliefs.noise_factor(memories.errors)
        beliefs.fit_prior(memories.sums[0], memories.weights[0], memories.prior, phi)
        beliefs.predict(memories, phi, means, variances, noise, steps)
        alone = PROBED if probing else -1
        beliefs.combine(memories, means, variances, alone, cost, variance, share)
        costs = deep_planning.PlannedCosts(
            cost, variance, share, noise, steps, memories.step_weights, beliefs.SPAN
        )
        if not steps.size or steps.size < versions.LARGE:
            return Said(frozen(means), frozen(steps), probe=probing), costs
        kappa = noise / beliefs.SPAN
        plain = kappa * means[:1] / kappa  # the prediction for an unvisited step
        rows = versions.differing(np.broadcast_to(plain, steps.shape), steps)
        values = frozen(steps.reshape(-1, self.problem.actions)[rows])
        return Said(frozen(means), frozen(plain), None, frozen(rows), values, probing), costs

    def _meet(self, entry: Open[Said], path: Trajectory, said: Said) -> None:
        """The path has arrived: keep only its predictions, and count only its visits."""
        assert said.means is not None
        assert said.steps is not None
        states, actions = path.states[:-1], path.actions
        met = np.empty((len(self._memories.scores), len(actions)))
        met[: len(said.means)] = said.means[:, states, actions]
        if len(said.steps):
            met[-1] = said.of_steps(states, actions)
        entry.memory = Said(None, None, frozen(met), probe=said.probe)
        if entry.number in self._pending and entry.costs is None:
            cells = np.zeros(self._pending.totals[1].shape)
            cells[states, actions] = 1.0
            self._pending.put_in(entry.number, None, frozen(cells))

    def _learn(self, entry: Open[Said]) -> None:
        """Score the memories and update them."""
        assert entry.memory is not None
        assert entry.memory.met is not None
        path, costs = entry.path, entry.costs.values
        said = entry.memory.met
        beliefs.learn(self._memories, self._keep, said, path.states, path.actions, costs)
        self._reported |= entry.memory.probe
        if self._memories.scores[0] < 0.0:  # costs are changing, and the weights follow them
            self._fruitless, self._reported, self._promising = 0, False, False
        self._pending.take_out(entry.number)
        self._pending.note(self.begun - 1 - entry.number)


def _memories(problem: Problem, count: int) -> beliefs.CostMemories:
    """Empty memories, with the widest prior."""
    H, S, A = problem.shape
    steps = H if H > 1 else 0
    N = count + (steps > 0)
    shapes = ((count, S, A), (count, S, A), (steps, S, A), (steps, S, A), (N,), (N, S, A), (N + 1,))
    empty = [np.zeros(shape) for shape in shapes]
    return beliefs.CostMemories._make([*empty, np.array(beliefs.FIRST_PRIOR)])
