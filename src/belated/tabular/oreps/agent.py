"""Delayed O-REPS: mirror descent on occupancy measures, on whatever costs have arrived.

Lancewicki, Rosenberg & Mansour (AAAI 2022), appendix "Delayed O-REPS"; base algorithm: Zimin & Neu
(2013), Rosenberg & Mansour (2019). Full information.

    1  q^1 = the occupancy measure nearest to 1 / (S^2 A)
    2  for every episode k:
    3      play the policy of q^k: pi(a | h, s) = q(h, s, a) / sum over b of q(h, s, b)
    4      count the trajectories that have arrived
    5      c = sum of the cost functions that have arrived since the last update, 0 if none has
    6      q^{k+1} = argmin over q in Delta(M, k) of eta <q, c> + KL(q || q^k)

    paper              here
    q^k                the last `Projection`: measure, policy and dual
    Delta(M, k)        the measures of the transitions, or of the confidence set of now
    eta                learning_rate
    F^k                the records handed to `observe` since the last episode began

`projection.project` solves line 6.

Known transitions: all measures share p, so they live on (h, s, a), the set is affine, and the
update is the same as eta <q, all costs so far> + KL(q || q^1), which gathers no rounding. Then
R_K <= 2 H ln(S A) / eta + eta H (K + 3 D_K), without a failure probability.
If c = 0, line 6 changes nothing.
Unknown transitions: the set changes with every trajectory, so line 6 moves the measure even if
c = 0. project="every episode" is the paper's line; project="on arrival" skips it until costs come.
Paths at once are the paper's setting. Its bound is not proved: a lemma needs q^k in Delta(M, k),
and the sets are not nested. For late paths there is no bound at all.

Departures: the first measure 1 / (S^2 A) is no occupancy measure, so it is projected first; the
confidence set is that of the newest counts; the dual of the paper is re-derived (its printed form
gives a feasible but worse measure); project="on arrival" is ours. The paper gives no step size; see
`tuning.oreps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered
from belated.core.records import Episode
from belated.tabular.counts import paths_of_others
from belated.tabular.oppo import CONFIDENCE, REVEALED
from belated.tabular.oreps.projection import (
    ConfidenceBox,
    KnownDynamics,
    Projection,
    initial_reference,
    project,
)
from belated.tabular.parts.transitions import Confidence, Confident, matching
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

PROJECT = ("every episode", "on arrival")
"""When the measure is projected on a confidence set that has changed."""


LARGEST = 1e100
"""The largest learning rate and the largest factor on it; beyond, sums might become infinite."""


class DelayedOREPS(Ledgered):
    """Mirror descent on occupancy measures for delayed full-information feedback.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`, or `Confidence()` for unknown ones.
        learning_rate: eta; `tuning.oreps` suggests a value, and `Doubling` replaces any.
        scale: factor on the step sizes of `Doubling`.
        tolerance: the duality gap at which a solve stops. The conditions of optimality are then off
            by 1e-6 at most, or by 1e4 times the tolerance if that is less.
        project: unknown transitions only: solve in "every episode" that begins after a trajectory
            or costs have come, as the paper does (None stands for it), or only "on arrival" of
            costs, which takes fewer solves.
    """

    information: Information = "full"

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | Confidence = CONFIDENCE,
        learning_rate: float | None = None,
        scale: float = 1.0,
        tolerance: float = 1e-10,
        project: str | None = None,
    ) -> None:
        self._configure(problem, transitions, learning_rate, scale, tolerance, project)
        self._last = self._first()

    def _configure(
        self,
        problem: Problem,
        transitions: Transitions | Confidence,
        learning_rate: float | None,
        scale: float,
        tolerance: float,
        project: str | None,
    ) -> None:
        """Everything but the first measure, which takes a solve."""
        checks.instance("problem", problem, Problem)
        if learning_rate is None:
            raise ValueError(
                "learning_rate is required; belated.tuning.oreps(problem, episodes, total_delay) "
                "suggests a value, and Doubling replaces any"
            )
        self.problem = problem
        self._learning_rate = self._rate = checks.real("learning_rate", learning_rate, 0.0, LARGEST)
        self._scale = checks.real("scale", scale, 0.0, LARGEST, above=True)
        self._tolerance = checks.real("tolerance", tolerance, 0.0, above=True)
        self._transitions = transitions
        self._known: KnownDynamics | None = None
        self._model: Confident | None = None
        if isinstance(transitions, Transitions):
            t = matching(problem, transitions)
            self._known = KnownDynamics(
                t.successors, t.probabilities, problem.start_probabilities, problem.horizon
            )
        elif isinstance(transitions, Confidence):
            self._model = transitions.start(problem, REVEALED)
        else:
            raise ValueError(
                f"transitions must be Transitions or Confidence(), got {checks.show(transitions)}"
            )
        if project is not None:
            checks.choice("project", project, PROJECT)
            if self._known is not None:
                raise ValueError(
                    "project must be left out with known transitions, where the measure moves only "
                    f"when costs arrive, got {project!r}"
                )
        self._project = project
        self.uses_paths = self._model is not None
        self._ledger: Ledger[bool] = Ledger(problem, "full", uses_paths=self.uses_paths)
        self._solves = self._unconverged = 0
        self._total: Floats = np.zeros((1, problem.states, problem.actions))
        self._batch: Floats | None = None
        self._counted = False

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        if self._batch is not None or self._counted:
            self._move()
        return self._ledger.hand_out(True, self._last.policy)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths and gather the costs; move the measure now or when an episode begins."""
        paths, entries = self._ledger.take(records)
        if self._model is not None:
            self._model.learn(paths, self.begun)
        for entry in entries:
            if entry.costs is None:
                continue
            if entry.memory is not None:
                costs = entry.costs.values
                self._batch = costs if self._batch is None else self._batch + costs
            self._ledger.settle(entry)
        if self._at_begin:
            self._counted = self._counted or bool(paths)
        elif self._batch is not None:
            self._move()

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def count(self, paths: Iterable[Trajectory]) -> None:
        """Count trajectories of episodes that others played; their costs are not used."""
        counts = None if self._model is None else self._model.counts
        others = paths_of_others(self.problem, counts, paths)
        if self._model is not None:
            self._model.learn(others, self.begun)
        self._counted = self._counted or (self._at_begin and bool(others))

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        dynamics = "known" if self._model is None else "unknown"
        return Setting(dynamics=dynamics, paths=paths, oreps=True)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase at the first measure, with a new step size and the same counts.

        carry_over: whether feedback of open episodes will still move the measure.
        """
        self._rate = self._scale * parameters.learning_rate
        self._batch, self._counted = None, False
        self._total = np.zeros((1, self.problem.states, self.problem.actions))
        if self._ledger.begun:
            self._last = self._first()
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, the newest costs of the measure, and how the solves went."""
        told = self._ledger.diagnostics()
        costs = self._ledger.newest
        if costs is not None:
            measure = np.exp(self._last.log_measure)
            pairs = measure if measure.ndim == 3 else measure.sum(axis=3)
            told["cost"] = float(np.sum(pairs * costs))
        return {
            **told,
            "solves": self._solves,
            "unconverged": self._unconverged,
            "gap": self._last.gap,
            "steps": self._last.steps,
            "learning_rate": self._rate,
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {
            "problem": self.problem,
            "transitions": self._transitions,
            "learning_rate": self._learning_rate,
            "scale": self._scale,
            "tolerance": self._tolerance,
            "project": self._project,
        }

    def state(self) -> stored.State:
        """The arguments, the last measure, the costs so far and the counts."""
        return {
            "configuration": self.configuration(),
            "model": None if self._model is None else self._model.state(),
            "ledger": self._ledger.state(bool),
            "last": self._last.state(),
            "total": self._total,
            "batch": self._batch,
            "counted": self._counted,
            "rate": self._rate,
            "solves": self._solves,
            "unconverged": self._unconverged,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("model", "ledger", "last", "total", "batch", "counted", "rate")
        read = stored.exact(state, "configuration", *names, "solves", "unconverged")
        given = ("problem", "transitions", "learning_rate", "scale", "tolerance", "project")
        agent = cls.__new__(cls)
        agent._configure(**stored.exact(read["configuration"], *given))
        if agent._model is not None:
            agent._model.restore(read["model"])
        agent._ledger.restore(read["ledger"], bool)
        agent._total = agent._costs("total", read["total"])
        agent._counted = checks.flag("counted", read["counted"])
        if read["batch"] is not None:
            agent._batch = agent._costs("batch", read["batch"])
        if (agent._counted or read["batch"] is not None) and not agent._at_begin:
            raise ValueError("batch and counted must be empty where costs move the measure at once")
        agent._last = Projection.from_state(
            read["last"], agent.problem.shape, known=agent._known is not None
        )
        agent._rate = checks.real("rate", read["rate"], 0.0, LARGEST**2)
        agent._solves = stored.count("solves", read["solves"])
        agent._unconverged = stored.count("unconverged", read["unconverged"])
        return agent

    def __repr__(self) -> str:
        arguments = self.configuration()
        return call(self, arguments.pop("problem"), **arguments)

    def _first(self) -> Projection:
        """The measure nearest to 1 / (S^2 A)."""
        dynamics = self._dynamics()
        return self._noted(
            project(dynamics, initial_reference(dynamics), tolerance=self._tolerance)
        )

    @property
    def _at_begin(self) -> bool:
        """Whether the measure moves when an episode begins, and not when costs arrive."""
        return self._known is None and self._project != "on arrival"

    def _costs(self, name: str, value: object) -> Floats:
        """Summed costs (1 or H, S, A) of a saved state."""
        H, S, A = self.problem.shape
        costs = stored.copied(name, value, np.float64, (None, S, A))
        if len(costs) not in (1, H):
            raise ValueError(f"{name} must have 1 or H steps, got {len(costs)}")
        stored.finite(name, costs)
        return costs

    def _move(self) -> None:
        """Line 6 of the algorithm, with the costs gathered since the last time."""
        dynamics, batch = self._dynamics(), self._batch
        reference = self._last.log_measure
        if isinstance(dynamics, KnownDynamics):
            assert batch is not None
            reference = initial_reference(dynamics) - self._rate * self._total
            self._total = self._total + batch
        costs = None if batch is None else self._rate * batch
        moved = project(dynamics, reference, costs, warm=self._last, tolerance=self._tolerance)
        self._last = self._noted(moved)
        self._batch, self._counted = None, False

    def _noted(self, solved: Projection) -> Projection:
        self._solves += 1
        self._unconverged += not solved.converged
        return solved

    def _dynamics(self) -> KnownDynamics | ConfidenceBox:
        if self._known is not None:
            return self._known
        assert self._model is not None
        self._model.retune(self.begun)
        bounds = self._model.set
        return ConfidenceBox(
            bounds.counts.successors,
            bounds.counts.known,
            bounds.lower,
            bounds.lower + bounds.width,
            bounds.unseen,
            self.problem.start_probabilities,
            self.problem.horizon,
        )
