"""Planning under late bandit feedback: honest memories, and exploration that goes deep.

    1  when an episode begins:
    2      in every cell (s, a): each memory says a mean and a variance of the cost; the slowest one
           has a learned prior. They are weighted by how well they predicted, all memories that are
           not at their floor                                                    (beliefs)
    3      with probability `probe_rate`: only the memory that forgets slowly, and much noise
    4      Q = cost + next value - (lean - xi) * deviation, clipped to [0, steps left], backwards;
           the deviation is that of the cost and that of the next value          (deep_planning)
    5      play the best action everywhere; remember what the memories said
    6      push the plan through the model: these visits are on their way, and count as visits in
           line 4 until they arrive or are overdue
    7  when path and costs of an episode have arrived:
    8      judge every memory by what it said *when the episode began*
    9      let every memory learn the costs; a cell visited several times counts once

xi(s, a) is drawn anew for every episode, N(0, noise^2), by a counter-based generator keyed by the
agent's seed and the number of the episode. Visits that are on their way, and not noise, keep the
plans of open episodes apart.

The memories forget by the factors `KEEP` per arrival, over all steps together, and one is kept step
by step: how fast costs change and whether they depend on the step is learned. Ties go to the
slowest memory, which has no toll. docs/algorithms/planner.md says what each idea is for, and what
it was measured on. There is no regret bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.tabular.counts import Counts, EmpiricalModel
from belated.tabular.kernels import beliefs, deep_planning
from belated.tabular.kernels.planning import Rows
from belated.tabular.parts.transitions import matching
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.transitions import Transitions

KEEP = (1.0, 0.995, 0.97, 0.8)
"""What an arrival leaves of the older observations, memory by memory."""
PROBED = 1
"""The memory that a probe plans with."""
LEAN = 0.8
"""Optimism, in standard deviations."""
SLACK = 5
"""Episodes that count as on their way for longer than twice the mean delay."""


def probe_rate(horizon: int) -> float:
    """The share of episodes that look for improvements, from 4 % for arms to 1 % for ten steps."""
    return min(0.04, max(0.01, 0.1 / horizon))


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What the memories said when an episode began.

    Attributes:
        means: (M, S, A) what the pooled memories said; None once the path has come.
        steps: (H or 0, S, A) what the memory that is kept step by step said; the same.
        met: (N, H) what all memories said of the path, once it has come.
    """

    means: Floats | None
    steps: Floats | None
    met: Floats | None = None


class Coming(NamedTuple):
    """Visits of an episode that are on their way: of rows (T, S, A), of costs of cells (S, A).

    rows is None once the path has come; only its costs are then on their way.
    """

    rows: Floats | None
    cells: Floats


class DelayedPlanner(Ledgered):
    """One optimistic plan per episode, from memories that forget at several speeds.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true dynamics, if they are known.
        changing: whether costs may change. If not, nothing is forgotten and nothing is probed.
        seed: of the agent's own draws.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedPlanner(world.problem)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    information: Information = "bandit"
    uses_paths = True

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
        self.problem = problem
        self.seed = checks.integer("seed", seed, 0, 2**64 - 1)
        self._arguments = {
            "transitions": transitions,
            "changing": checks.flag("changing", changing),
            "seed": self.seed,
        }
        H, S, A = problem.shape
        self._transitions = transitions
        self._keep = np.array(KEEP if changing else KEEP[:1])
        self._memories = _fresh(problem, len(self._keep))
        self._model = None if transitions is not None else EmpiricalModel(Counts(problem), 0.0)
        T = self._rows.successors.shape[0]
        known = transitions is not None
        self._trust = deep_planning.Trust(
            np.full((T, S, A), float(known)), np.zeros((T, S, A)), np.zeros((T, S, A))
        )
        self._pending_rows: Floats = np.zeros((T, S, A))
        self._pending_cells: Floats = np.zeros((S, A))
        self._coming: dict[int, Coming] = {}  # by episode, oldest first
        self._ledger: Ledger[Said] = Ledger(problem, "bandit", uses_paths=True)
        self._delays = 0
        self._arrived = 0
        self._probes = probe_rate(H) if changing else 0.0
        self._noise = max(0.05, 0.3 / H)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        self._give_up()
        H, S, A = self.problem.shape
        key, counter = self.seed, (0, 0, 0, self.begun)
        rng = np.random.Generator(np.random.Philox(key=key, counter=counter))
        probing = rng.random() < self._probes
        lean = LEAN - (1.0 if probing else self._noise) * rng.standard_normal((S, A))
        means, steps, costs = self._predicted(probing)
        if self._model is not None:
            deep_planning.trust(self._model.counts.visits, self._pending_rows, self._trust)
        policy = np.zeros((H, S, A))
        deep_planning.plan(self._rows, self._trust, costs, self._pending_cells, lean, policy)
        rows, cells = np.zeros(self._pending_rows.shape), np.zeros((S, A))
        start = self.problem.start_probabilities
        deep_planning.expected_visits(self._rows, self._trust, policy, start, rows, cells)
        self._put_in(self.begun, Coming(frozen(rows), frozen(cells)))
        return self._ledger.hand_out(Said(frozen(means), frozen(steps)), frozen(policy))

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths, then learn from every episode whose path and costs have both come."""
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
                self._learn(entry, entry.path, entry.costs.values)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used, and its visits do not come."""
        entry = self._ledger.forget(episode)
        if entry is not None:
            self._take_out(entry.number)

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, the noise of costs, and the weights of the memories."""
        weights = np.exp(self._memories.scores)
        weights /= weights.sum()
        counts = None if self._model is None else self._model.counts
        return {
            **self._ledger.diagnostics(),
            **({} if counts is None else {"visited": float(np.mean(counts.visits > 0))}),
            "noise": float(beliefs.noise_factor(self._memories.errors)),
            **{f"weight_{m}": float(weight) for m, weight in enumerate(weights)},
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, **self._arguments}

    def state(self) -> stored.State:
        """The arguments, the memories, the observed transitions and the open episodes."""
        return {
            "configuration": self.configuration(),
            "memories": {name: a.copy() for name, a in self._memories._asdict().items()},
            "counts": None if self._model is None else self._model.counts.state(),
            "delays": self._delays,
            "arrived": self._arrived,
            "coming": [
                {"number": number, "rows": coming.rows, "cells": coming.cells}
                for number, coming in self._coming.items()
            ],
            "ledger": self._ledger.state(_write),
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("memories", "counts", "delays", "arrived", "coming", "ledger")
        read = stored.exact(state, "configuration", *names)
        arguments = ("problem", "transitions", "changing", "seed")
        agent = cls(**stored.exact(read["configuration"], *arguments))
        if agent._model is not None:
            agent._model.counts.restore(read["counts"])
            agent._model.refresh(np.arange(agent._model.counts.visits.size))
        elif read["counts"] is not None:
            raise ValueError("counts must be None where the transitions are known")
        agent._memories = _restored(agent._memories, read["memories"])
        agent._ledger.restore(read["ledger"], agent._read)
        agent._arrived = stored.count("arrived", read["arrived"], agent.begun)
        agent._delays = stored.count("delays", read["delays"], agent.begun * (agent.begun + 1))
        met = {entry.number: entry.path is not None for entry in agent._ledger if entry.memory}
        if any(e.memory and (e.memory.met is None) != (e.path is None) for e in agent._ledger):
            raise ValueError("met must be kept where the path has come, and only there")
        for item in stored.items("coming", read["coming"]):
            agent._restore_coming(item, met)
        return agent

    def __repr__(self) -> str:
        return call(self, self.problem, **self._arguments)

    @property
    def _rows(self) -> Rows:
        if self._transitions is not None:
            return self._transitions.rows
        assert self._model is not None
        counts = self._model.counts
        return Rows(frozen(counts.successors), frozen(self._model.probabilities))

    def _predicted(self, probing: bool) -> tuple[Floats, Floats, deep_planning.Costs]:
        """What the memories say, (M, S, A) and (H or 0, S, A), and the costs to plan with."""
        memories = self._memories
        cells = memories.sums.shape[1:]
        means, variances = np.empty(memories.sums.shape), np.empty(memories.sums.shape)
        steps, noise = np.empty(memories.step_sums.shape), np.empty(cells)
        cost, variance, share = np.empty(cells), np.empty(cells), np.empty(cells)
        phi = beliefs.noise_factor(memories.errors)
        beliefs.fit_prior(memories, phi)
        beliefs.predict(memories, phi, means, variances, noise, steps)
        alone = PROBED if probing else -1
        beliefs.combine(memories, means, variances, alone, cost, variance, share)
        costs = deep_planning.Costs(
            cost, variance, share, noise, steps, memories.step_weights, beliefs.SPAN
        )
        return means, steps, costs

    def _meet(self, entry: Open[Said], path: Trajectory, said: Said) -> None:
        """The path is known: keep what was said of it, and count its visits and no others."""
        assert said.means is not None
        assert said.steps is not None
        states, actions = path.states[:-1], path.actions
        met = np.empty((len(self._memories.scores), len(actions)))
        met[: len(said.means)] = said.means[:, states, actions]
        if len(said.steps):
            met[-1] = said.steps[np.arange(len(actions)), states, actions]
        entry.memory = Said(None, None, frozen(met))
        if entry.number in self._coming and entry.costs is None:
            cells = np.zeros(self._pending_cells.shape)
            cells[states, actions] = 1.0
            self._take_out(entry.number)
            self._put_in(entry.number, Coming(None, frozen(cells)))

    def _learn(self, entry: Open[Said], path: Trajectory, costs: Floats) -> None:
        """Judge the memories and let them learn."""
        assert entry.memory is not None
        assert entry.memory.met is not None
        said = entry.memory.met
        beliefs.learn(self._memories, self._keep, said, path.states, path.actions, costs)
        self._delays += self.begun - 1 - entry.number
        self._arrived += 1
        self._take_out(entry.number)
        self._ledger.settle(entry)

    def _put_in(self, number: int, coming: Coming) -> None:
        """The visits of an episode are on their way."""
        self._coming[number] = coming
        self._pending_cells += coming.cells
        if coming.rows is not None:
            self._pending_rows += coming.rows

    def _take_out(self, number: int) -> None:
        """The visits of an episode are no longer on their way, if they were."""
        coming = self._coming.pop(number, None)
        if coming is not None:
            self._pending_cells -= coming.cells
            if coming.rows is not None:
                self._pending_rows -= coming.rows

    def _give_up(self) -> None:
        """What is overdue does not count as on its way; it is still used if it comes after all."""
        if not self._arrived:
            return
        limit = 2.0 * self._delays / self._arrived + SLACK
        for number in [n for n in self._coming if self.begun - n > limit]:
            self._take_out(number)

    def _read(self, saved: object) -> Said:
        """What was remembered of an episode."""
        read = stored.exact(saved, "means", "steps", "met")
        memories = self._memories
        if read["met"] is None:
            means = stored.array("means", read["means"], np.float64, memories.sums.shape)
            steps = stored.array("steps", read["steps"], np.float64, memories.step_sums.shape)
            stored.between("means", means, 0.0, 1.0)
            stored.between("steps", steps, 0.0, 1.0)
            return Said(means, steps)
        shape = (len(memories.scores), self.problem.horizon)
        met = stored.array("met", read["met"], np.float64, shape)
        stored.between("met", met, 0.0, 1.0)
        if read["means"] is not None or read["steps"] is not None:
            raise ValueError("means and steps must be None once met is known")
        return Said(None, None, met)

    def _restore_coming(self, item: object, met: Mapping[int, bool]) -> None:
        """Count visits on their way again. met: open episodes, and whether their path has come."""
        read = stored.exact(item, "number", "rows", "cells")
        number = checks.integer("number", read["number"], 0, self.begun - 1)
        if number not in met or number in self._coming or (read["rows"] is None) != met[number]:
            raise ValueError(f"coming must be visits of open episodes, each once, got {number}")
        arrays: list[Floats | None] = []
        for name, like in (("rows", self._pending_rows), ("cells", self._pending_cells)):
            value = read[name]
            if value is not None or name == "cells":
                value = stored.array(name, value, np.float64, like.shape)
                stored.between(name, value, 0.0, 1.0)
                scaled = value * deep_planning.QUANTUM
                if not np.array_equal(scaled, np.floor(scaled)):
                    raise ValueError(f"{name} must be whole multiples of the quantum")
            arrays.append(value)
        rows, cells = arrays
        assert cells is not None
        self._put_in(number, Coming(rows, cells))


def _write(said: Said) -> stored.State:
    return {"means": said.means, "steps": said.steps, "met": said.met}


def _fresh(problem: Problem, count: int) -> beliefs.Memories:
    """Memories that have seen nothing."""
    H, S, A = problem.shape
    steps = H if H > 1 else 0
    N = count + (steps > 0)
    return beliefs.Memories(
        np.zeros((count, S, A)),
        np.zeros((count, S, A)),
        np.zeros((steps, S, A)),
        np.zeros((steps, S, A)),
        np.zeros(N),
        np.zeros((N, S, A)),
        np.zeros(N + 1),
        np.array([0.5, beliefs.SPAN, 0.5]),
    )


def _restored(fresh: beliefs.Memories, saved: object) -> beliefs.Memories:
    """The memories of a state, each array checked."""
    read = stored.exact(saved, *fresh._fields)
    arrays = {
        name: stored.copied(name, read[name], np.float64, array.shape)
        for name, array in fresh._asdict().items()
    }
    made = beliefs.Memories(**arrays)
    for name in ("sums", "weights", "step_sums", "step_weights", "errors"):
        stored.between(name, arrays[name], 0.0, checks.MOST)
    for total, weight in ((made.sums, made.weights), (made.step_sums, made.step_weights)):
        if np.any(total > weight * (1.0 + 1e-9) + 1e-9):
            raise ValueError("sums must not exceed the weights: costs are at most 1")
    for name in ("scores", "local"):
        stored.between(name, arrays[name], beliefs.LEAST, 0.0)
    m0, t2, eps = made.prior
    checks.real("prior mean", m0, 0.0, 1.0)
    checks.real("prior variance", t2, beliefs.LEAST_SPREAD, beliefs.SPAN)
    checks.real("prior share", eps, 0.0, 1.0)
    return made
