"""The update of Delayed O-REPS: the occupancy measure nearest to a reference, after costs.

    project(dynamics, log_reference, cost) = argmin_q  <q, cost> + sum q log(q / reference)

over the occupancy measures q of the dynamics; `cost` is eta times the sum of the new costs.

Known transitions (`Rows`): all candidates share p, so a measure is kept on (h, s, a). The
set is affine, hence the reference may be the last measure (mirror descent) or

    initial_reference(dynamics) - eta * (all costs processed before)       (follow the leader)

with the same answer; the second form accumulates no rounding. `warm` takes the last `Projection`.

Unknown transitions (`BoxBounds`): measures live on (h, s, a, next state), and the law of a row
may be anything in its box. The reference is the last measure, `last.log_measure`. Its entries that
are -inf (impossible under the box of that time) are replaced by the uniform measure.

The first reference 1 / (S^2 A) is not an occupancy measure, so it is projected once, without cost.

The solver is Newton's method on the multipliers V of the flow constraints (newton.py). Every
iterate gives a feasible measure and an exact duality gap. If a solve does not reach its tolerance,
the cost is applied in smaller portions, and each portion starts where the last one ended. The last
portion solves the given problem, so the answer is exact for known and unknown transitions alike.
(Two *updates* with half of a batch each would be exact for known transitions only.)
"""

import math
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, frozen
from belated.core.tree import Entries
from belated.core.versions import Policy
from belated.tabular.kernels.planning import Rows
from belated.tabular.oreps import newton as kernels
from belated.tabular.oreps.newton import BoxBounds
from belated.tabular.transitions import reachable

FINE = 1e-6  # largest `fine`: the gap does not depend on states of vanishing density
FINE_PER_GAP = 1e4  # `fine` relative to the tolerance, for tolerances below the usual 1e-10
PATIENCE = 8  # Newton steps towards `fine` after the gap is closed
GRADIENT_LIMIT = 60  # conjugate-gradient iterations before the block elimination takes over
SAFE_DENSITY = -30.0  # log density below which conjugate gradients are not accurate enough
SMALLEST_PORTION = 2.0**-12


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """What is known of the transitions, of the start, and the number of steps.

    Attributes:
        laws: the `Rows` themselves, whose padding has probability 0, or `BoxBounds` on them, where
            every row holds at least one distribution.
        start: (S,) the distribution of the first state.
        horizon: H.
        reach: (H, S) the states that some policy (and some law in the box) reaches.
    """

    laws: Rows | BoxBounds
    start: Floats
    horizon: int
    reach: Bools = field(init=False, repr=False)

    def __post_init__(self) -> None:
        reach = (
            reachable(self.laws, self.start, self.horizon)
            if isinstance(self.laws, Rows)
            else _reachable_in_box(self.laws, self.start, self.horizon)
        )
        checks.fix(self, "reach", reach)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        _, S, A, _ = self.laws.successors.shape
        return self.horizon, S, A


def _reachable_in_box(box: BoxBounds, start: Floats, horizon: int) -> Bools:
    """Whether some policy and some law in the box come to a state at a step, (H, S)."""
    T, S, A, W = box.successors.shape
    # a next state is possible if its lower bound is above 0, or if the bounds leave mass for it
    used = np.arange(W) < box.known[..., None]
    slack = 1.0 - np.sum(box.lower * used, axis=3) > kernels.BOX_SLACK
    positive = (box.lower > 0.0) | (slack[..., None] & (box.upper > 0.0))
    possible = np.zeros((T, S, A, S), np.bool_)
    possible |= (slack & (box.unseen > 0.0))[..., None]
    row = np.nonzero(used)
    possible[row[0], row[1], row[2], box.successors[row]] = positive[row]
    # forward: a state is within reach if some action leads there from a state within reach
    some_action = np.logical_or.reduce(possible, axis=2)  # (T, S, S)
    reach = np.zeros((horizon, S), np.bool_)
    reach[0] = start > 0.0
    for h in range(horizon - 1):
        reach[h + 1] = np.logical_or.reduce(some_action[min(h, T - 1)][reach[h]], axis=0)
    return reach


def free_at_the_end(box: BoxBounds, horizon: int) -> BoxBounds:
    """The same box for H steps, the last of which may lead anywhere."""
    every = [np.array(np.broadcast_to(each, (horizon, *each.shape[1:]))) for each in box]
    free = BoxBounds(*every)
    free.known[-1], free.unseen[-1] = 0, 1.0
    return free


AnyReal = Annotated[float, Entries(low=-math.inf, high=math.inf)]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A feasible measure and its distance from the optimum."""

    # (H, S, A) for known transitions, (H, S, A, S) for unknown ones
    log_measure: Annotated[Floats, Entries("measure", low=-math.inf)]
    policy: Policy  # (H, S, A), uniform out of reach
    log_density: Annotated[Floats, Entries("H S", low=-math.inf)]  # -inf at states out of reach
    dual: Annotated[Floats, Entries("H S", low=-math.inf)]  # row 0 is the soft value of step 1
    value: AnyReal  # <q, cost> + sum q log(q / reference)
    gap: AnyReal  # value minus a lower bound of the optimum
    residual: AnyReal  # max |m| over all states within reach, however improbable
    steps: int  # Newton steps, all portions together
    eliminations: int  # how many of them needed the block elimination
    portions: int  # 1 unless the cost had to be applied in parts
    converged: bool  # gap <= tolerance


def initial_reference(dynamics: Dynamics) -> Floats:
    """Logarithm of the measure 1 / (S^2 A). (H, S, A) for known transitions, else (H, S, A, S).

    The divergence from that measure contains the entropy of p. If p is known, this is a constant
    of each row (h, s, a), and it is part of the reference.
    """
    H, S, A = dynamics.shape
    uniform = -np.log(S * S * A)
    if not isinstance(dynamics.laws, Rows):
        return np.full((H, S, A, S), uniform)
    entropies = entropies_of(merge_repeats(dynamics.laws))
    return np.ascontiguousarray(np.broadcast_to(uniform + entropies, (H, S, A)))


def entropies_of(p: Floats) -> Floats:
    """The entropies (T, S, A) of the rows p (T, S, A, W)."""
    return -np.sum(p * np.log(np.where(p > 0.0, p, 1.0)), axis=3)  # type: ignore[no-any-return]


def merge_repeats(rows: Rows) -> Floats:
    """Probabilities (T, S, A, W) with repeated next states of a row merged into one slot."""
    successors, probabilities = rows
    order = np.argsort(successors, axis=3, kind="stable")
    states = np.take_along_axis(successors, order, axis=3)
    p = np.take_along_axis(probabilities, order, axis=3)
    W = p.shape[3]
    groups = np.zeros(p.shape, np.int64)
    groups[..., 1:] = np.cumsum(states[..., 1:] != states[..., :-1], axis=3)
    slots = groups + W * np.arange(p.size // W).reshape(*p.shape[:3], 1)
    return np.bincount(slots.ravel(), p.ravel(), p.size).astype(np.float64).reshape(p.shape)


def project(
    dynamics: Dynamics,
    log_reference: Floats,
    cost: Floats | None = None,
    *,
    warm: Projection | None = None,
    tolerance: float = 1e-10,
    fine: float | None = None,
    max_steps: int = 60,
) -> Projection:
    """Minimise <q, cost> + sum q log(q / reference) over the occupancy measures q.

    log_reference: (H, S, A) or (H, S, A, S), see the module. cost: (1 or H, S, A), for unknown
    transitions also (1 or H, S, A, S), already times eta. warm: a projection whose densities are
    near the answer; by default the reference's own. tolerance: on the duality gap. fine: wanted
    max |m|; None: 1e-6, or 1e4 times the tolerance if that is less. The result is feasible even
    when `converged` is False.
    """
    fine = min(FINE, FINE_PER_GAP * tolerance) if fine is None else fine
    newton = _Newton(dynamics, log_reference, cost, fine)
    reach = newton.rows.reach
    density = _first_density(reach, log_reference if warm is None else warm.log_density)
    dual = None if warm is None or newton.rows.box else warm.dual

    def attempt(share: float, wanted: float) -> bool:
        return newton.solve(share, density, True, wanted, max_steps) or (
            dual is not None and newton.solve(share, dual, False, wanted, max_steps)
        )

    # stage 1: the whole cost at once, from the densities or the multipliers of the last answer
    done = attempt(1.0, tolerance)
    portions = 1
    if not done and cost is not None:
        # stage 2: smaller portions; a success doubles the next one, a failure halves it
        reached, portion = 0.0, 0.5
        while reached < 1.0 and portion >= SMALLEST_PORTION:
            share = min(1.0, reached + portion)
            done = attempt(share, tolerance if share == 1.0 else max(tolerance, 1e-6))
            portions += 1
            if done:
                reached, portion = share, 2.0 * portion
                density = np.where(reach, newton.point.log_d, 0.0)
                dual = newton.point.V[:-1].copy()
            else:
                portion *= 0.5
        if reached < 1.0:
            done = newton.solve(1.0, density, True, tolerance, max_steps)
    return newton.result(portions, done)


def _first_density(reach: Bools, log_mass: Floats) -> Floats:
    """Normalised log densities (H, S), finite within reach, from any log array (H, S, ...)."""
    H, S = reach.shape
    flat = log_mass.reshape(H, S, -1)
    top = flat.max(axis=2)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        density = top + np.log(np.exp(flat - top[:, :, None]).sum(axis=2))
    density = np.where(reach, density, -np.inf)
    lowest = np.where(np.isfinite(density), density, 0.0).min(axis=1, keepdims=True)
    density = np.where(reach & ~np.isfinite(density), lowest, density)
    peak = density.max(axis=1, keepdims=True)
    total = peak + np.log(np.exp(density - peak).sum(axis=1, keepdims=True))
    return np.where(reach, density - total, 0.0)


_NO_BOX = BoxBounds(
    np.zeros((1, 1, 1, 1), np.int32),
    np.zeros((1, 1, 1), np.int32),
    np.zeros((1, 1, 1, 1)),
    np.zeros((1, 1, 1, 1)),
    np.zeros((1, 1, 1)),
)
"""An empty box, which kernels need as an argument where the transitions are known."""


class _Newton:
    """The arrays of one problem and the loop over Newton steps; see newton.py."""

    def __init__(
        self,
        dynamics: Dynamics,
        log_reference: Floats,
        cost: Floats | None,
        fine: float = FINE,
    ) -> None:
        self.fine = fine
        H, S, A = dynamics.shape
        laws, box = dynamics.laws, _NO_BOX
        if isinstance(laws, Rows):
            self.log_reference = log_reference[..., None]
            successors, law = laws.successors, np.array(laws.probabilities, order="C")
            free = np.zeros((1, 1, 1, 1), np.bool_)
        else:
            uniform = -np.log(S * S * A)
            self.log_reference = np.where(np.isfinite(log_reference), log_reference, uniform)
            box, successors = laws, np.broadcast_to(np.arange(S, dtype=np.int32), (1, S, A, S))
            law, free = np.zeros((H, S, A, S)), np.zeros((H, S, A, S), np.bool_)
        self.bounds = BoxBounds._make(frozen(bound) for bound in box)
        with np.errstate(divide="ignore"):
            log_law, self.log_start = np.log(law), frozen(np.log(dynamics.start))
        self.rows = kernels.NewtonRows(
            frozen(successors), law, log_law, free, dynamics.reach, box=laws is box
        )
        self.cost = cost if cost is None or cost.ndim == 4 else cost[..., None]
        self.point = kernels.Point(
            V=np.zeros((H + 1, S)),
            W=np.zeros((H, S)),
            log_pi=np.zeros((H, S, A)),
            pi=np.zeros((H, S, A)),
            log_d=np.zeros((H, S)),
            d=np.zeros((H, S)),
            m=np.zeros((H, S)),
        )
        self.x = np.zeros((H + 1, S))
        self.value = self.gap = self.residual = self.lowest = np.inf
        self.steps = self.eliminations = 0

    def evaluate(self, start: bool) -> None:
        """Compute the policy, densities, residuals and gap of V."""
        self.value, self.gap, self.residual, self.lowest = kernels.evaluate(
            self.log_weights, self.log_start, self.bounds, self.rows, self.point, start
        )

    def solve(
        self, share: float, guess: Floats, densities: bool, tolerance: float, max_steps: int
    ) -> bool:
        """Newton's method for the given share of the cost, from a guess (H, S).

        densities: whether the guess is log d or the multipliers. Log densities are a good guess
        even if the share changed much. Multipliers are a good guess if it hardly changed, even
        where the densities are too small.
        """
        weights = (
            self.log_reference if self.cost is None else self.log_reference - share * self.cost
        )
        self.log_weights = frozen(weights)
        self.point.V[:-1] = guess
        self.point.V[-1] = 0.0
        self.evaluate(start=densities)
        exact = self.rows.box
        extra = 0
        for _ in range(max_steps if len(guess) > 1 else 0):
            if self.gap <= tolerance:
                if self.residual <= self.fine or extra == PATIENCE:
                    break
                extra += 1
                exact = exact or self.lowest < SAFE_DENSITY
            if not exact:
                exact = not self._step_by_gradients(tolerance)
            if exact and not self._step_by_blocks(tolerance):
                break
        return bool(self.gap <= tolerance)

    def _step_by_gradients(self, tolerance: float) -> bool:
        # the closer the optimum, the more accurately the system is solved
        forcing = max(1e-4, min(0.3, self.gap**0.25))
        slope, done = kernels.direction_by_gradients(
            self.rows, self.point, forcing, GRADIENT_LIMIT, self.x
        )
        if not (done and slope <= 0.0):
            return False
        if self.lowest > SAFE_DENSITY:
            return self._search(slope, tolerance, 1e-3, False)
        return self._search(slope, tolerance, 0.2, True)

    def _step_by_blocks(self, tolerance: float) -> bool:
        slope = kernels.direction_by_blocks(self.rows, self.point, self.x)
        self.eliminations += 1
        return self._search(slope, tolerance, 1e-7, False)

    def _search(self, slope: float, tolerance: float, shortest: float, cautious: bool) -> bool:
        """Halve the step until it is an improvement; undo it if even the shortest one is not.

        A step is an improvement if it makes the gap smaller. Unless `cautious`, it also is one if
        the gap at most doubles, and max |m| becomes smaller or the value falls as the slope says.
        A smaller value alone is not enough: the value does not depend on states of vanishing
        density, and their multipliers would diverge. Once the gap is within the tolerance, a step
        must keep it there and make max |m| smaller.
        """
        self.steps += 1
        V = self.point.V
        before, value, gap, residual = V.copy(), self.value, self.gap, self.residual
        if gap <= tolerance:
            shortest = 0.01
        length = 1.0
        while length >= shortest:
            V[:] = before + length * self.x
            if np.isfinite(V).all():
                self.evaluate(start=False)
                nearer = self.residual <= (1.0 - 0.2 * length) * residual
                falls = abs(slope) > 1e-10 * (1.0 + abs(value)) and (
                    self.value <= value + 1e-4 * length * slope
                )
                good = self.gap <= (1.0 - 0.1 * length) * gap or (
                    not cautious and (falls or nearer) and self.gap <= 2.0 * gap
                )
                if (self.gap <= tolerance and nearer) if gap <= tolerance else good:
                    return True
            length *= 0.5
        V[:] = before
        self.evaluate(start=False)
        return False

    def result(self, portions: int, converged: bool) -> Projection:
        """Freeze what was found."""
        V, W, log_pi, pi, log_d, _, _ = self.point
        log_measure = log_d[:, :, None] + log_pi
        if self.rows.box:
            log_measure = log_measure[..., None] + self.rows.log_law
            log_measure[~self.rows.reach] = -np.inf
        dual = V[:-1].copy()
        dual[0] = W[0]
        return Projection(
            frozen(log_measure),
            frozen(pi),
            frozen(log_d),
            frozen(dual),
            value=float(self.value),
            gap=float(self.gap),
            residual=float(self.residual),
            steps=self.steps,
            eliminations=self.eliminations,
            portions=portions,
            converged=converged,
        )
