"""Delayed O-REPS: mirror descent on occupancy measures, on whatever costs have arrived.

Lancewicki, Rosenberg & Mansour (AAAI 2022), appendix "Delayed O-REPS"; base algorithm: Zimin & Neu
(2013), Rosenberg & Mansour (2019). Full information.

    paper              here
    q^k                the last `Projection`: measure, policy and dual
    Delta(M, k)        the measures of the transitions, or of the confidence set of now
    eta                learning_rate
    F^k                the batch handed to `observe`

At the end of an episode in which costs arrived, q becomes the minimiser of
eta <q, sum of the costs> + KL(q || q^k); the policy is q conditioned on the state. Nothing is
solved when no costs arrived. `projection.project` solves it.

Known transitions: all measures share p, so they live on (h, s, a), the set is affine, and the
update is the same as eta <q, all costs so far> + KL(q || q^1), which gathers no rounding. Then
R_K <= 2 H ln(S A) / eta + eta H (K + 3 D_K), without a failure probability.
Unknown transitions, paths at once: the paper's setting. With delayed paths no bound is proved.

Departures: the first measure 1 / (S^2 A) is no occupancy measure, so it is projected first; the
confidence set is that of the newest counts; the dual of the paper is re-derived (its printed form
gives a feasible but worse measure). The paper gives no step size; see `tuning.oreps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from belated import checks
from belated.agents.contract import Information
from belated.agents.dynamics import matching
from belated.agents.ledger import Ledger
from belated.arrays import Floats
from belated.feedback import Episode, Record
from belated.model import ConfidenceSet, Counts, log_term
from belated.problem import Problem
from belated.projection import (
    ConfidenceBox,
    KnownDynamics,
    Projection,
    initial_reference,
    project,
)
from belated.transitions import Transitions
from belated.tuning import Parameters


class DelayedOREPS:
    """Mirror descent on occupancy measures for delayed full-information feedback.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true dynamics, if they are known.
        learning_rate: eta, from `tuning.oreps`; or any, inside `Doubling`.
        rate_scale: factor on the step sizes of `Doubling`.
        episodes: K, in the confidence radius. None: an anytime radius.
        delta: probability that the confidence set may fail.
        radius_scale: factor on the confidence radius; 1 is the paper's.
        tolerance: the duality gap at which a solve stops.
    """

    information: Information = "full"

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        learning_rate: float | None = None,
        rate_scale: float = 1.0,
        episodes: int | None = None,
        delta: float = 0.1,
        radius_scale: float = 1.0,
        tolerance: float = 1e-10,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if learning_rate is None:
            raise ValueError(
                "learning_rate must be given; belated.tuning.oreps(problem, episodes, "
                "total_delay) gives it, and Doubling replaces any, got None"
            )
        self.problem = problem
        self.parameters: dict[str, float | str | None] = {
            "transitions": "unknown" if transitions is None else "known",
            "learning_rate": learning_rate,
            "rate_scale": rate_scale,
            "episodes": episodes,
            "delta": delta,
            "radius_scale": radius_scale,
            "tolerance": tolerance,
        }
        self._rate = checks.real("learning_rate", learning_rate, 0.0)
        self._rate_scale = checks.real("rate_scale", rate_scale, 0.0, above=True)
        self._episodes = None if episodes is None else checks.integer("episodes", episodes, 1)
        self._delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        self._tolerance = checks.real("tolerance", tolerance, 0.0, above=True)
        radius_scale = checks.real("radius_scale", radius_scale, 0.0)
        self._known: KnownDynamics | None = None
        self._set: ConfidenceSet | None = None
        if transitions is not None:
            t = matching(problem, transitions)
            self._known = KnownDynamics(
                t.successors, t.probabilities, problem.start_probabilities, problem.horizon
            )
        else:
            term = log_term(problem, self._episodes, 0, self._delta)
            self._set = ConfidenceSet(Counts(problem), term, radius_scale)
        self.uses_paths = transitions is None
        self._ledger: Ledger[bool] = Ledger(problem, "full", uses_paths=self.uses_paths)
        self._solves = self._unconverged = 0
        self._total: Floats = np.zeros((1, problem.states, problem.actions))
        self._last = self._first()

    def begin_episode(self) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        return Episode(self._ledger.begin(True), self._last.policy.copy())

    def observe(self, records: Iterable[Record]) -> None:
        """Count the paths, then move the measure by the costs of the batch, if there are any."""
        paths, entries = self._ledger.take(records)
        if self._set is not None:
            for path in paths:
                self._set.add(path)
        batch: Floats | None = None
        for entry in entries:
            if entry.costs is None:
                continue
            if entry.memory is not None:
                batch = entry.costs.values if batch is None else batch + entry.costs.values
            self._ledger.settle(entry)
        if batch is not None:
            self._move(batch)

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used."""
        self._ledger.forget(episode)

    def setting(self, trajectory: str) -> str:
        """The row of `tuning.SETTINGS` that applies."""
        return "o-reps"

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase at the first measure, with a new step size and the same counts.

        carry_over: whether feedback of open episodes will still move the measure.
        """
        self._rate = self._rate_scale * parameters.learning_rate
        self._total = np.zeros((1, self.problem.states, self.problem.actions))
        if self._ledger.begun:
            self._last = self._first()
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None

    def diagnostics(self) -> Mapping[str, float]:
        """Episodes, solves, those that missed their tolerance, and the last gap and steps."""
        return {
            "begun": self._ledger.begun,
            "open": len(self._ledger),
            "unused": self._ledger.unsettled,
            "solves": self._solves,
            "unconverged": self._unconverged,
            "gap": self._last.gap,
            "steps": self._last.steps,
            "learning_rate": self._rate,
        }

    def _first(self) -> Projection:
        """The measure nearest to 1 / (S^2 A)."""
        dynamics = self._dynamics()
        return self._noted(
            project(dynamics, initial_reference(dynamics), tolerance=self._tolerance)
        )

    def _move(self, costs: Floats) -> None:
        dynamics = self._dynamics()
        if isinstance(dynamics, KnownDynamics):
            reference = initial_reference(dynamics) - self._rate * self._total
            self._total = self._total + costs
        else:
            reference = self._last.log_measure
        moved = project(
            dynamics, reference, self._rate * costs, warm=self._last, tolerance=self._tolerance
        )
        self._last = self._noted(moved)

    def _noted(self, solved: Projection) -> Projection:
        self._solves += 1
        self._unconverged += not solved.converged
        return solved

    def _dynamics(self) -> KnownDynamics | ConfidenceBox:
        if self._known is not None:
            return self._known
        box = self._set
        assert box is not None
        box.retune(log_term(self.problem, self._episodes, self._ledger.begun, self._delta))
        return ConfidenceBox(
            box.counts.successors,
            box.counts.known,
            box.lower,
            box.lower + box.width,
            box.unseen,
            self.problem.start_probabilities,
            self.problem.horizon,
        )
