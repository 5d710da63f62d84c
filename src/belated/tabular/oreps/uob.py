"""UOB-REPS: mirror descent on occupancy measures with upper occupancy bounds, for bandit feedback.

Jin, Jin, Luo, Sra & Yu (ICML 2020), "Learning adversarial Markov decision processes with bandit
feedback and unknown transition", Algorithms 2 and 3. The delayed form is a reconstruction of that
of Jin, Lancewicki, Luo, Mansour & Rosenberg (NeurIPS 2022).

    1  q^1 = uniform in every step; P^1 = all transition functions
    2  for every episode k:
    3      play the policy pi^k of q^k;  u^k(h, s, a) = its largest occupancy over P^k
    4      for every episode j whose feedback arrives now:
    5          l_h(s, a) += 1{(s, a) visited at h} cost_h / (max(u^j, u^k)_h(s, a) + gamma)
    6      count the visits N and the transitions of the paths that have arrived
    7      if some N has doubled since its epoch began (0 becomes 1): a new epoch begins,
           P^{k+1} = the set of the counts of now; otherwise P^{k+1} = P^k
    8      q^{k+1} = argmin over q in Delta(P^{k+1}) of eta <q, l> + KL(q || q^k)

The set: |p' - p| <= 2 sqrt(p L / m) + 14 L / (3 m), p the observed frequency after N visits,
m = max(1, N - 1), L = ln(K X A / delta), X = 2 + (H - 1) S.

    paper              here
    q^k                the last `Projection`
    P_i                `Epoch`
    u                  `kernels.optimism.upper_occupancy`, on the path alone
    eta, gamma         learning_rate, exploration
    T, L, |X|          K, H, X

Without delay j = k, and this is the paper's algorithm. With delays line 5 is our reading: the
estimate is used when it arrives, and divides by the larger of the bound when the episode was played
and the bound of now.

Readings:
- The paper's states are layered, with one first and one last state. A visit of the last step can
  begin an epoch, and there is no transition to be learned there.
- A pair that has not been visited has the whole simplex.
- Line 5 has the set of the epoch that ends, line 8 that of the new one.
- A path counts once it has arrived, even if its costs have not.

Departures: counts are pooled over the steps before the last where the problem is homogeneous; the
first state may be drawn; where K is not given, L is one for any number of episodes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from belated.core import checks, stored
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.tabular.counts import SMALLEST, Counts, episodes_in_union_bound, paths_of_others
from belated.tabular.kernels import optimism
from belated.tabular.oreps.projection import (
    ConfidenceBox,
    Projection,
    initial_reference,
    project,
)
from belated.tabular.parts.transitions import NO_TOTAL
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.tuning import Parameters, Setting, layered

Scalar = TypeVar("Scalar", bound=np.generic)

LEAST = 1e-100
"""Least exploration: no sum of estimates is infinite."""
TOLERANCE = 1e-12
FINE = 1e-10
"""How exact a projection is; errors would add up over the episodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """A confidence set P_i, from the counts when its epoch began.

    Attributes:
        number: i, from 1 on.
        log_term: L.
        radius_scale: factor on the radius.
        counts: the transitions, but for the last step.
        last: (S, A), visits of the last step.
        problem: states, actions, horizon, start.
        box: the bounds, as backward passes take them.
        dynamics: the bounds of every step, as the projection takes them.
    """

    number: int
    log_term: float
    radius_scale: float
    counts: Counts
    last: Ints
    problem: Problem
    box: optimism.Box = field(init=False)
    dynamics: ConfidenceBox = field(init=False)

    def __post_init__(self) -> None:
        counts, visits = self.counts, self.counts.visits[..., None]
        p, m = counts.counts / np.maximum(visits, 1), np.maximum(visits - 1, 1)
        L, scale = self.log_term, self.radius_scale
        wide = scale * 14.0 * L / (3.0 * m)
        radius = scale * 2.0 * np.sqrt(p * L / m) + wide
        seen = (visits > 0) & (np.arange(counts.width) < counts.known[..., None])
        lower = np.where(seen, np.maximum(p - radius, 0.0), 0.0)
        upper = np.where(seen, np.minimum(p + radius, 1.0), 0.0)
        unseen = np.where(visits > 0, np.minimum(wide, 1.0), 1.0)[..., 0]
        rest = np.maximum(1.0 - lower.sum(axis=3), 0.0)
        box = optimism.Box(counts.successors, counts.known, lower, upper - lower, unseen, rest)
        object.__setattr__(self, "box", box)
        H = self.problem.horizon
        known, others = _every(counts.known, H), _every(unseen, H)
        known[-1], others[-1] = 0, 1.0  # the last step leads to the end, whatever was seen
        dynamics = ConfidenceBox(
            _every(counts.successors, H),
            known,
            _every(lower, H),
            _every(upper, H),
            others,
            self.problem.start_probabilities,
            H,
        )
        object.__setattr__(self, "dynamics", dynamics)

    def state(self) -> stored.State:
        """What the set is made of."""
        return {
            "number": self.number,
            "log_term": self.log_term,
            "counts": self.counts.state(),
            "last": self.last,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What is remembered of an episode: its policy (H, S, A), and the set of its epoch."""

    policy: Floats
    epoch: Epoch

    def upper(self, states: Ints, actions: Ints) -> Floats:
        """Line 3 on a path: u (H,) of its states (H + 1,) and actions (H,)."""
        problem = self.epoch.problem
        H, S, A = problem.shape
        reach = optimism.upper_occupancy(
            self.epoch.box,
            frozen(np.zeros((1, S, A))),
            NO_TOTAL,
            self.policy,
            problem.start_probabilities,
            states,
        )
        bound: Floats = reach * self.policy[np.arange(H), states[:-1], actions]
        return bound

    def state(self) -> stored.State:
        """The policy and the number of the epoch."""
        return {"policy": self.policy, "epoch": self.epoch.number}


class UOBREPS(Ledgered):
    """Mirror descent with upper occupancy bounds; see the module for the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        learning_rate: eta. `tuning.uob_reps` suggests both rates, and `Doubling` replaces them.
        exploration: gamma.
        episodes: K, in the radius; None: a radius for any number.
        delta: probability that the confidence sets may fail.
        radius_scale: factor on the radius; 1 is the paper's.
        scale: factor on the rates of `Doubling`.
    """

    information: Information = "bandit"
    uses_paths = True

    def __init__(
        self,
        problem: Problem,
        *,
        learning_rate: float,
        exploration: float,
        episodes: int | None = None,
        delta: float = 0.1,
        radius_scale: float = 1.0,
        scale: float = 1.0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        self.problem = problem
        self._arguments: dict[str, Any] = {
            "learning_rate": checks.real("learning_rate", learning_rate, 0.0, above=True),
            "exploration": checks.real("exploration", exploration, LEAST),
            "episodes": checks.episodes(episodes),
            "delta": checks.real("delta", delta, 0.0, 1.0, above=True),
            "radius_scale": checks.real("radius_scale", radius_scale, 0.0, 1e100, above=True),
            "scale": checks.real("scale", scale, 0.0, above=True),
        }
        self._ledger: Ledger[Played] = Ledger(problem, "bandit", uses_paths=True)
        self._counts = Counts(problem, steps=problem.horizon - 1)
        self._last_visits: Ints = np.zeros((problem.states, problem.actions), dtype=np.int64)
        self._solves = self._unconverged = 0
        self._epoch = self._new_epoch(1)
        self._now: Played | None = None  # what the newest episode played
        self._batch: Floats | None = None
        self._restart(self._arguments["learning_rate"], self._arguments["exploration"])

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        fresh = self._doubled()
        if fresh:
            self._epoch = self._new_epoch(self._epoch.number + 1)
        if fresh or self._batch is not None:
            self._move()
        policy = self._measure.policy
        if (
            self._now is None
            or self._now.policy is not policy
            or self._now.epoch is not self._epoch
        ):
            self._now = Played(policy, self._epoch)
        return self._ledger.hand_out(self._now, policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths, and gather the estimates of the episodes that are complete."""
        paths, entries = self._ledger.take(records)
        for entry in entries:
            if entry.path is not None and entry.costs is not None:
                self._learn(entry)
                self._ledger.settle(entry)
        self._count(paths)

    def count(self, paths: Iterable[Trajectory]) -> None:
        """Count trajectories of episodes that others played; their costs are not used."""
        self._count(paths_of_others(self.problem, self._counts, paths))

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        return Setting(information="bandit", paths=paths, uob=True)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase at the first measure, with new rates and the same counts.

        carry_over: whether feedback of open episodes will still move the measure.
        """
        scale = self._arguments["scale"]
        self._restart(
            scale * parameters.learning_rate, max(scale * (parameters.exploration or 0.0), LEAST)
        )
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, the epoch, how the solves went, and the rates."""
        return {
            **self._ledger.diagnostics(),
            "epoch": self._epoch.number,
            "solves": self._solves,
            "unconverged": self._unconverged,
            "gap": self._measure.gap,
            "learning_rate": self._rate,
            "exploration": self._exploration,
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, **self._arguments}

    def state(self) -> stored.State:
        """The arguments, the counts, the sets that are still needed, and the last measure."""
        memories = [entry.memory for entry in self._ledger] + [self._now]
        epochs = {p.epoch.number: p.epoch for p in memories if p is not None}
        epochs[self._epoch.number] = self._epoch
        return {
            "configuration": self.configuration(),
            "counts": self._counts.state(),
            "last_visits": self._last_visits.copy(),
            "epochs": [epochs[number].state() for number in sorted(epochs)],
            "ledger": self._ledger.state(Played.state),
            "now": None if self._now is None else self._now.state(),
            "measure": self._measure.state(),
            "batch": None if self._batch is None else self._batch.copy(),
            "rate": self._rate,
            "exploration": self._exploration,
            "solves": self._solves,
            "unconverged": self._unconverged,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        numbers = ("rate", "exploration", "solves", "unconverged")
        arrays = ("counts", "last_visits", "epochs", "ledger", "now", "measure", "batch")
        read = stored.exact(state, "configuration", *arrays, *numbers)
        given = ("learning_rate", "exploration", "episodes", "delta", "radius_scale", "scale")
        agent = cls(**stored.exact(read["configuration"], "problem", *given))
        shape = agent.problem.shape
        agent._counts.restore(read["counts"])
        agent._last_visits = _visits(read["last_visits"], shape[1:])
        epochs: dict[int, Epoch] = {}
        for item in stored.items("epochs", read["epochs"]):
            epoch = agent._read_epoch(item)
            epochs[epoch.number] = agent._epoch = epoch
        if not epochs or list(epochs) != sorted(epochs):
            raise ValueError("epochs must be at least one, in their order")

        def played(memory: object) -> Played:
            fields = stored.exact(memory, "policy", "epoch")
            number = checks.integer("epoch", fields["epoch"], 1)
            if number not in epochs:
                raise ValueError(f"epoch must be one of the saved epochs, got {number}")
            return Played(stored.policy("policy", fields["policy"], shape), epochs[number])

        agent._ledger.restore(read["ledger"], played)
        agent._measure = Projection.from_state(read["measure"], shape, known=False)
        agent._rate = checks.real("rate", read["rate"], 0.0, above=True)
        agent._exploration = checks.real("exploration", read["exploration"], LEAST)
        agent._now = None if read["now"] is None else played(read["now"])
        if read["batch"] is not None:
            agent._batch = stored.copied("batch", read["batch"], np.float64, shape)
            stored.finite("batch", agent._batch)
        agent._solves = checks.integer("solves", read["solves"], 0)
        agent._unconverged = checks.integer("unconverged", read["unconverged"], 0)
        return agent

    def __repr__(self) -> str:
        return call(self, self.problem, **self._arguments)

    def _restart(self, learning_rate: float, exploration: float) -> None:
        """The first measure: line 1, or the nearest measure to it in the set of now."""
        self._rate, self._exploration = learning_rate, exploration
        dynamics = self._epoch.dynamics
        self._measure = self._noted(
            project(dynamics, initial_reference(dynamics), tolerance=TOLERANCE, fine=FINE)
        )
        self._batch, self._now = None, None

    def _learn(self, entry: Open[Played]) -> None:
        """Line 5 for an episode, unless it belongs to an earlier phase."""
        played, path, costs = entry.memory, entry.path, entry.costs
        if played is None or path is None or costs is None:
            return
        bound = played.upper(path.states, path.actions)
        if self._now is not None and self._now is not played:
            bound = np.maximum(bound, self._now.upper(path.states, path.actions))
        if self._batch is None:
            self._batch = np.zeros(self.problem.shape)
        at = (np.arange(self.problem.horizon), path.states[:-1], path.actions)
        self._batch[at] += costs.values / (bound + self._exploration)

    def _count(self, paths: list[Trajectory]) -> None:
        """Line 6."""
        for path in paths:
            self._counts.add(path)
            self._last_visits[path.states[-2], path.actions[-1]] += 1

    def _doubled(self) -> bool:
        """Line 7: whether the visits of some pair have doubled in this epoch."""
        epoch = self._epoch
        pairs = ((self._counts.visits, epoch.counts.visits), (self._last_visits, epoch.last))
        return any(bool(np.any(now >= np.maximum(1, 2 * then))) for now, then in pairs)

    def _new_epoch(self, number: int) -> Epoch:
        return Epoch(
            number,
            self._log_term(),
            self._arguments["radius_scale"],
            copy.deepcopy(self._counts),
            self._last_visits.copy(),
            self.problem,
        )

    def _log_term(self) -> float:
        """L = ln(K X A / delta)."""
        K = episodes_in_union_bound(self._arguments["episodes"], self.begun)
        delta = max(self._arguments["delta"], SMALLEST)
        return math.log(K * layered(self.problem) * self.problem.actions / delta)

    def _move(self) -> None:
        """Line 8."""
        cost = None if self._batch is None else self._rate * self._batch
        last = self._measure
        self._measure = self._noted(
            project(
                self._epoch.dynamics,
                last.log_measure,
                cost,
                warm=last,
                tolerance=TOLERANCE,
                fine=FINE,
            )
        )
        self._batch = None

    def _noted(self, solved: Projection) -> Projection:
        self._solves += 1
        self._unconverged += not solved.converged
        return solved

    def _read_epoch(self, item: object) -> Epoch:
        read = stored.exact(item, "number", "log_term", "counts", "last")
        counts = Counts(self.problem, steps=self.problem.horizon - 1)
        counts.restore(read["counts"])
        return Epoch(
            checks.integer("number", read["number"], 1),
            checks.real("log_term", read["log_term"], 0.0),
            self._arguments["radius_scale"],
            counts,
            _visits(read["last"], self.problem.shape[1:]),
            self.problem,
        )


def _every(array: npt.NDArray[Scalar], horizon: int) -> npt.NDArray[Scalar]:
    """The array (1 or H, ...) as a copy for each of H steps."""
    return np.array(np.broadcast_to(array, (horizon, *array.shape[1:])))


def _visits(saved: object, shape: tuple[int, ...]) -> Ints:
    visits = stored.copied("last visits", saved, np.int64, shape)
    if np.any(visits < 0):
        raise ValueError("last visits must be at least 0, got one below")
    return visits
