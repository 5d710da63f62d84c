"""Delayed O-REPS: mirror descent on occupancy measures, with the costs that have arrived.

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
    Delta(M, k)        the measures of the transitions, or of the current confidence set
    eta                learning_rate
    F^k                the records passed to `observe` since the last episode began

`projection.project` solves line 6.

Known transitions: all measures share p, so they live on (h, s, a), the set is affine, and the
update is the same as eta <q, all costs so far> + KL(q || q^1), without rounding errors. Then
R_K <= 2 H ln(S A) / eta + eta H (K + 3 D_K), without a failure probability.
If c = 0, line 6 changes nothing.
Unknown transitions: the set changes with every trajectory, so line 6 moves the measure even if
c = 0. project="every episode" is the paper's line; project="on arrival" skips it until costs
arrive. Paths at once are the paper's setting. Its bound is not proved: a lemma needs q^k in
Delta(M, k), and the sets are not nested. For late paths there is no bound at all.

Costs may depend on the next state too, as in the paper's appendix (next_costs=True). With known
transitions their means are equivalent.

Reading: the paper's measures q_h(s, a, s') have a next state at the last step as well, but its
trajectory {(s_h, a_h), h = 1, ..., H} does not contain it. Ours does: the last transition is
counted and bounded like any other. last_step="free" follows the paper: it may lead anywhere.

Departures: the first measure 1 / (S^2 A) is not an occupancy measure, so it is projected first; the
confidence set is that of the newest counts; the dual of the paper is re-derived (its printed form
gives a feasible but worse measure); project="on arrival" is ours. The paper gives no step size; see
`tuning.oreps`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Information
from belated.core.episodes import Learner, Ledger, Open
from belated.core.tree import Count, Entries
from belated.tabular.kernels.planning import Rows
from belated.tabular.oreps.newton import BoxBounds
from belated.tabular.oreps.projection import (
    Dynamics,
    Projection,
    free_at_the_end,
    initial_reference,
    project,
)
from belated.tabular.parts.costs import REVEALED
from belated.tabular.parts.transitions import CONFIDENCE, Confidence, ConfidenceModel, matching
from belated.tabular.problem import Problem
from belated.tabular.records import Record, Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

PROJECT = ("every episode", "on arrival")
"""When the measure is projected onto a confidence set that has changed."""
LAST_STEP = ("counted", "free")
"""How the next state of the last step is treated."""
STEEPEST = 1e100
"""The largest learning rate and the largest factor on it; with larger ones sums may overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OREPSSetting(Setting):
    """The tuning of O-REPS. The paper prints no step size; its bound suggests N = K + 3 D.

    Attributes:
        dynamics: whether the transitions are "known" or "unknown".

    Example:
        >>> bl.tuning.OREPSSetting().proved
        False
    """

    dynamics: str = "unknown"
    delay_weight: ClassVar[float] = 3.0

    @property
    def proved(self) -> bool:
        """Whether the bound is proved: with known transitions.

        With unknown ones a lemma assumes that the last measure is in the new confidence set, but
        the sets are not nested. For late paths no bound is stated.
        """
        return self.dynamics == "known"

    @property
    def exact(self) -> bool:
        """Whether the bound includes its constants: with known transitions it does."""
        return self.dynamics == "known"

    def rate(self, problem: Problem, N: float) -> float:
        """sqrt(2 ln(S A) / N)."""
        return math.sqrt(2.0 * math.log(problem.states * problem.actions) / N)

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        K, D = episodes, total_delay
        if self.dynamics == "known":
            return 2.0 * H * math.sqrt(2.0 * math.log(S * A) * (K + 3.0 * D))
        if self.paths == "late":
            return math.inf
        return math.pow(H, 1.5) * S * math.sqrt(A * K) + H * math.sqrt(D)


def oreps(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed O-REPS, full information: eta = sqrt(2 ln(S A) / (K + 3 D)).

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.oreps(problem, episodes=1000, total_delay=5000))
        ['learning_rate']
    """
    tuned = OREPSSetting(dynamics="known").at(problem, episodes, total_delay)
    return {"learning_rate": tuned.learning_rate}


class DelayedOREPS(Learner[bool]):
    """Mirror descent on occupancy measures for delayed full-information feedback.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`, or `Confidence()` for unknown ones.
        learning_rate: eta; `tuning.oreps` suggests a value, and `Doubling` replaces it.
        scale: factor on the step sizes of `Doubling`.
        tolerance: the duality gap at which a solve stops. The violation of the optimality
            conditions is then at most 1e-6, or 1e4 times the tolerance if that is smaller.
        project: unknown transitions only: solve in "every episode" that begins after a trajectory
            or costs have arrived, as the paper does (the default), or only "on arrival" of costs,
            which takes fewer solves.
        last_step: unknown transitions only: the next state of the last step is "counted" and
            bounded (the default), or "free", since the paper's trajectory does not contain it.
        next_costs: whether cost functions are (1 or H, S, A, S), with a cost for every next state.
            Wrappers that check records themselves do not accept them.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOREPS(
        ...     world.problem, transitions=world.mdp.transitions, learning_rate=0.3
        ... )
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    information: Information = "full"
    waits_for_paths = False
    _model: ConfidenceModel | None
    _last: Projection | None  # None: the first measure is still to be computed
    _total: Annotated[Floats, Entries("1|H S A")]  # all costs that have moved the measure
    _batch: Annotated[Floats, Entries("batch")] | None  # the costs that have not
    _counted: bool  # whether trajectories have arrived since the measure moved
    _rate: Annotated[float, Entries(low=0.0, high=STEEPEST**2)]
    _solves: Count
    _unconverged: Count

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | Confidence = CONFIDENCE,
        learning_rate: float | None = None,
        scale: float = 1.0,
        tolerance: float = 1e-10,
        project: str | None = None,
        last_step: str | None = None,
        next_costs: bool = False,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if learning_rate is None:
            raise ValueError(
                "learning_rate is required; belated.tuning.oreps(problem, episodes, total_delay) "
                "suggests a value, and Doubling replaces any"
            )
        rate = checks.real("learning_rate", learning_rate, 0.0, STEEPEST)
        self._scale = checks.real("scale", scale, 0.0, STEEPEST, above=True)
        self._tolerance = checks.real("tolerance", tolerance, 0.0, above=True)
        self._known: Dynamics | None = None
        self._model = None
        if isinstance(transitions, Transitions):
            rows = matching(problem, transitions).rows
            self._known = Dynamics(rows, problem.start_probabilities, problem.horizon)
        elif isinstance(transitions, Confidence):
            self._model = transitions.start(problem, REVEALED)
        else:
            raise ValueError(
                f"transitions must be Transitions or Confidence(), got {checks.show(transitions)}"
            )
        for name, value, allowed in (
            ("project", project, PROJECT),
            ("last_step", last_step, LAST_STEP),
        ):
            if value is not None and checks.choice(name, value, allowed) and self._known:
                raise ValueError(
                    f"{name} must be left out with known transitions, where the measure moves only "
                    f"when costs arrive and nothing is counted, got {value!r}"
                )
        self._free = last_step == "free"
        self._next_costs = checks.flag("next_costs", next_costs)
        self.uses_paths = self._model is not None
        super().__init__(
            problem,
            transitions=transitions,
            learning_rate=rate,
            scale=self._scale,
            tolerance=self._tolerance,
            project=project,
            last_step=last_step,
            next_costs=next_costs,
        )
        if next_costs:
            self._ledger = Ledger(problem, "next costs", uses_paths=self.uses_paths)
        # whether the measure moves when an episode begins, and not when costs arrive
        self._at_begin = self._known is None and project != "on arrival"
        self._total = np.zeros((1, problem.states, problem.actions))
        self._rate = rate

    @property
    def axes(self) -> dict[str, Any]:
        """The shapes of measures and of waiting costs."""
        H, S, A = self.problem.shape
        batch = "1|H S A S" if self._next_costs and self._model else "1|H S A"
        return {"measure": (H, S, A) if self._known else (H, S, A, S), "batch": batch}

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths and collect the costs; move the measure now or at the next episode."""
        super().observe(records, now)
        if self._batch is not None and not self._at_begin:
            self._move()

    def setting(self, paths: str) -> Setting:
        """The row of tuning for trajectories that arrive "late" or "at once"."""
        dynamics = "known" if self._model is None else "unknown"
        return OREPSSetting(dynamics=dynamics, paths=paths)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase at the first measure, with a new step size and the same counts.

        carry_over: whether feedback of open episodes will still move the measure.
        """
        self._rate = self._scale * parameters.learning_rate
        self._last, self._batch, self._counted = None, None, False
        self._total = np.zeros((1, self.problem.states, self.problem.actions))
        self._end_phase(carry_over)

    def check_learned(self) -> None:
        """Check that costs wait only if the measure moves when an episode begins."""
        if (self._counted or self._batch is not None) and not self._at_begin:
            raise ValueError("batch and counted must be empty where costs move the measure at once")

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger and the solver, and the newest costs of the measure."""
        told = self._ledger.diagnostics()
        last, costs = self._last, self._ledger.newest_costs
        if costs is not None and last is not None:
            measure, costs = np.exp(last.log_measure), self._on_measures(costs)
            pairs = measure if measure.ndim == costs.ndim else measure.sum(axis=3)
            told["cost"] = float(np.sum(pairs * costs))
        return {
            **told,
            "solves": self._solves,
            "unconverged": self._unconverged,
            "gap": 0.0 if last is None else last.gap,
            "steps": 0 if last is None else last.steps,
            "learning_rate": self._rate,
        }

    def _next_policy(self) -> tuple[Floats, bool]:
        if self._batch is not None or self._counted:
            self._move()
        elif self._last is None:
            self._last = self._first()
        assert self._last is not None
        return self._last.policy, True

    def _prepare(self, paths: list[Trajectory], entries: list[Open[bool]]) -> None:
        """Line 4."""
        if self._model is not None:
            self._model.learn(paths, self.begun)
        self._counted = self._counted or (self._at_begin and bool(paths))

    def _learn(self, entry: Open[bool]) -> None:
        """Line 5: collect the costs."""
        costs = self._on_measures(entry.costs.values)
        self._batch = costs if self._batch is None else self._batch + costs

    def _first(self) -> Projection:
        """Line 1: the measure nearest to 1 / (S^2 A)."""
        dynamics = self._dynamics()
        return self._project(dynamics, initial_reference(dynamics))

    def _move(self) -> None:
        """Line 6, with the costs collected since the last update."""
        last = self._first() if self._last is None else self._last
        dynamics, batch = self._dynamics(), self._batch
        reference = last.log_measure
        if self._known is not None:
            assert batch is not None
            reference = initial_reference(dynamics) - self._rate * self._total
            self._total = self._total + batch
        costs = None if batch is None else self._rate * batch
        self._last = self._project(dynamics, reference, costs, last)
        self._batch, self._counted = None, False

    def _project(
        self,
        dynamics: Dynamics,
        reference: Floats,
        costs: Floats | None = None,
        last: Projection | None = None,
    ) -> Projection:
        """The measure that is nearest to the reference, after costs."""
        solved = project(dynamics, reference, costs, warm=last, tolerance=self._tolerance)
        self._solves += 1
        self._unconverged += not solved.converged
        return solved

    def _dynamics(self) -> Dynamics:
        if self._known is not None:
            return self._known
        assert self._model is not None
        self._model.retune(self.begun)
        successors, known, lower, width, unseen, _ = self._model.set.box
        box, H = BoxBounds(successors, known, lower, lower + width, unseen), self.problem.horizon
        box = free_at_the_end(box, H) if self._free else box
        return Dynamics(box, self.problem.start_probabilities, H)

    def _on_measures(self, costs: Floats) -> Floats:
        """Costs in the form of the measure: means over next states if transitions are known."""
        if self._known is None or costs.ndim == 3:
            return costs
        assert isinstance(self._known.laws, Rows)
        successors, p = self._known.laws
        shape = (max(len(costs), len(p)), *p.shape[1:])
        each = np.broadcast_to(costs, (*shape[:3], costs.shape[3]))
        paid = np.take_along_axis(each, np.broadcast_to(successors, shape), axis=3)
        return np.sum(p * paid, axis=3)  # type: ignore[no-any-return]
