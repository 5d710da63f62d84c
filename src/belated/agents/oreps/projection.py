"""The update of Delayed O-REPS: the occupancy measure nearest to a reference, after costs.

    project(dynamics, log_reference, cost) = argmin_q  <q, cost> + sum q log(q / reference)

over the occupancy measures q of the dynamics; `cost` is eta times the sum of the costs that came.

Known transitions (`KnownDynamics`). All candidates share p, so a measure is kept on (h, s, a). The
set is affine, hence the reference may be the last measure (mirror descent) or

    initial_reference(dynamics) - eta * (all costs processed before)       (follow the leader)

with the same answer; the second form accumulates no rounding. Pass the last `Projection` as `warm`.

Unknown transitions (`ConfidenceBox`). Measures live on (h, s, a, next state) and the law of a row
may be anything in its box. The reference is the last measure, `last.log_measure`; its entries that
are -inf (impossible under the box of that time) start again from the uniform measure.

The first reference 1 / (S^2 A) is no occupancy measure: project it once, without cost.

How it is solved: Newton's method on the multipliers V of the flow constraints (newton.py).
Every iterate gives a feasible measure and an exact duality gap. When a solve does not reach its
tolerance the cost is applied in smaller portions, each one starting where the last ended. That is a
continuation in the cost: the problem that is solved in the end is the given one, so it is exact for
known and unknown transitions alike (halving a batch into two *updates* would be exact for known
transitions only).
"""

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from belated import checks, stored
from belated.agents.oreps import newton as kernels
from belated.arrays import Bools, Floats, Indices, frozen

FINE = 1e-6  # wanted max |m|; what the gap cannot see, in states of vanishing density
PATIENCE = 8  # Newton steps spent on that after the gap is closed
GRADIENT_LIMIT = 60  # conjugate-gradient iterations before the block elimination takes over
SAFE_DENSITY = -30.0  # log density below which the inner product of the gradients sees too little
SMALLEST_PORTION = 2.0**-12
SLACK = 1e-13  # a box whose lower bounds sum to 1 within this leaves no choice


@dataclass(frozen=True, slots=True, eq=False)
class KnownDynamics:
    """Transitions that are known. T is 1 or H; padding has probability 0."""

    successors: Indices  # (T, S, A, W)
    probabilities: Floats  # (T, S, A, W)
    start: Floats  # (S,)
    horizon: int
    reach: Bools = field(init=False, repr=False)  # (H, S): states that some policy reaches

    def __post_init__(self) -> None:
        reach = np.zeros((self.horizon, self.start.size), np.bool_)
        reach[0] = self.start > 0.0
        for h in range(self.horizon - 1):
            t = min(h, self.successors.shape[0] - 1)
            possible = self.probabilities[t, reach[h]] > 0.0
            reach[h + 1, self.successors[t, reach[h]][possible]] = True
        object.__setattr__(self, "reach", reach)


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceBox:
    """Bounds on every next-state probability. T is 1 or H.

    The first known[t, s, a] slots of a row are bounded by lower and upper, all other next states
    by 0 and unseen. Every row holds at least one distribution.
    """

    successors: Indices  # (T, S, A, W)
    known: Indices  # (T, S, A)
    lower: Floats  # (T, S, A, W)
    upper: Floats  # (T, S, A, W)
    unseen: Floats  # (T, S, A)
    start: Floats  # (S,)
    horizon: int
    reach: Bools = field(init=False, repr=False)  # (H, S): some policy and law give mass

    def __post_init__(self) -> None:
        T, S, A, W = self.successors.shape
        used = np.arange(W) < self.known[..., None]
        slack = 1.0 - np.sum(self.lower * used, axis=3) > SLACK
        positive = (self.lower > 0.0) | (slack[..., None] & (self.upper > 0.0))
        possible = np.zeros((T, S, A, S), np.bool_)
        possible |= (slack & (self.unseen > 0.0))[..., None]
        row = np.nonzero(used)
        possible[row[0], row[1], row[2], self.successors[row]] = positive[row]
        some_action = np.logical_or.reduce(possible, axis=2)  # (T, S, S)
        reach = np.zeros((self.horizon, S), np.bool_)
        reach[0] = self.start > 0.0
        for h in range(self.horizon - 1):
            reach[h + 1] = np.logical_or.reduce(some_action[min(h, T - 1)][reach[h]], axis=0)
        object.__setattr__(self, "reach", reach)


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A feasible measure and how near to the optimum it is."""

    log_measure: Floats  # (H, S, A) for known transitions, (H, S, A, S) for unknown ones
    log_policy: Floats  # (H, S, A); uniform at states out of reach
    policy: Floats  # (H, S, A)
    log_density: Floats  # (H, S); -inf at states out of reach
    dual: Floats  # (H, S); row 0 is the soft value of the first step, not a multiplier
    value: float  # <q, cost> + sum q log(q / reference)
    gap: float  # value minus a lower bound of the optimum
    residual: float  # max |m| over all states within reach, however improbable
    steps: int  # Newton steps, all portions together
    eliminations: int  # how many of them needed the block elimination
    portions: int  # 1 unless the cost had to be applied in parts
    converged: bool  # gap <= tolerance

    def state(self) -> stored.State:
        """The fields."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_state(cls, state: stored.State, shape: tuple[int, int, int], *, known: bool) -> Self:
        """The projection that wrote the state, for a problem of shape (H, S, A)."""
        H, S, A = shape
        read = stored.exact(state, *(item.name for item in fields(cls)))
        shapes: dict[str, tuple[int, ...]] = {
            "log_measure": (H, S, A) if known else (H, S, A, S),
            "log_policy": (H, S, A),
            "policy": (H, S, A),
            "log_density": (H, S),
            "dual": (H, S),
        }
        for name, wanted in shapes.items():
            stored.array(name, read[name], np.float64, wanted)
        checks.policy("policy", read["policy"], shape)
        for name in ("steps", "eliminations", "portions"):
            checks.integer(name, read[name], 0)
        checks.flag("converged", read["converged"])
        for name in ("value", "gap", "residual"):
            if not isinstance(read[name], float):
                raise ValueError(f"{name} must be a number, got {checks.show(read[name])}")
        return cls(**read)


def initial_reference(dynamics: KnownDynamics | ConfidenceBox) -> Floats:
    """Logarithm of the measure 1 / (S^2 A). (H, S, A) for known transitions, else (H, S, A, S).

    Reduced to (h, s, a), the divergence from that measure leaves the entropy of p behind, which
    therefore belongs to the reference.
    """
    _, S, A, _ = dynamics.successors.shape
    H = dynamics.horizon
    uniform = -np.log(S * S * A)
    if isinstance(dynamics, ConfidenceBox):
        return np.full((H, S, A, S), uniform)
    p = _merged(dynamics.successors, dynamics.probabilities)
    entropy = -np.sum(p * np.log(np.where(p > 0.0, p, 1.0)), axis=3)
    return np.ascontiguousarray(np.broadcast_to(uniform + entropy, (H, S, A)))


def _merged(successors: Indices, probabilities: Floats) -> Floats:
    """Probabilities (T, S, A, W) with those of one next state in several slots put into one."""
    order = np.argsort(successors, axis=3, kind="stable")
    states = np.take_along_axis(successors, order, axis=3)
    p = np.take_along_axis(probabilities, order, axis=3)
    W = p.shape[3]
    groups = np.zeros(p.shape, np.int64)
    groups[..., 1:] = np.cumsum(states[..., 1:] != states[..., :-1], axis=3)
    slots = groups + W * np.arange(p.size // W).reshape(*p.shape[:3], 1)
    return np.bincount(slots.ravel(), p.ravel(), p.size).astype(np.float64).reshape(p.shape)


def project(
    dynamics: KnownDynamics | ConfidenceBox,
    log_reference: Floats,
    cost: Floats | None = None,
    *,
    warm: Projection | None = None,
    tolerance: float = 1e-10,
    max_steps: int = 60,
) -> Projection:
    """Minimise <q, cost> + sum q log(q / reference) over the occupancy measures q.

    log_reference: (H, S, A) or (H, S, A, S), see the module. cost: (1 or H, S, A), already times
    eta. warm: a projection whose densities are near the answer; by default the reference's own.
    tolerance: on the duality gap. The result is feasible even when `converged` is False.
    """
    newton = _Newton(dynamics, log_reference, cost)
    density = _first_density(newton.reach, log_reference if warm is None else warm.log_density)
    dual = None if warm is None or newton.box else warm.dual

    def attempt(share: float, wanted: float) -> bool:
        return newton.solve(share, density, True, wanted, max_steps) or (
            dual is not None and newton.solve(share, dual, False, wanted, max_steps)
        )

    done = attempt(1.0, tolerance)
    portions = 1
    if not done and cost is not None:
        reached, portion = 0.0, 0.5
        while reached < 1.0 and portion >= SMALLEST_PORTION:
            share = min(1.0, reached + portion)
            done = attempt(share, tolerance if share == 1.0 else max(tolerance, 1e-6))
            portions += 1
            if done:
                reached, portion = share, 2.0 * portion
                density = np.where(newton.reach, newton.log_d, 0.0)
                dual = newton.V[:-1].copy()
            else:
                portion *= 0.5
        if reached < 1.0:
            done = newton.solve(1.0, density, True, tolerance, max_steps)
    return newton.result(portions, done)


def _first_density(reach: Bools, log_mass: Floats) -> Floats:
    """Normalised log densities (H, S), finite within reach, from any log array (H, S, ...)."""
    H, S = reach.shape
    flat = log_mass.reshape(H, S, -1)
    top = np.max(flat, axis=2)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        density = top + np.log(np.sum(np.exp(flat - top[:, :, None]), axis=2))
    density = np.where(reach, density, -np.inf)
    lowest = np.min(np.where(np.isfinite(density), density, 0.0), axis=1, keepdims=True)
    density = np.where(reach & ~np.isfinite(density), lowest, density)
    peak = np.max(density, axis=1, keepdims=True)
    total = peak + np.log(np.sum(np.exp(density - peak), axis=1, keepdims=True))
    return np.where(reach, density - total, 0.0)


def _floats(array: Floats) -> Floats:
    return frozen(np.asarray(array, np.float64))


def _ints(array: npt.NDArray[np.integer]) -> Indices:
    return frozen(np.asarray(array, np.int32))


class _Newton:
    """Arrays of one problem and the loop over Newton steps; see newton.py."""

    def __init__(
        self,
        dynamics: KnownDynamics | ConfidenceBox,
        log_reference: Floats,
        cost: Floats | None,
    ) -> None:
        _, S, A, _ = dynamics.successors.shape
        H = dynamics.horizon
        self.box = isinstance(dynamics, ConfidenceBox)
        if isinstance(dynamics, ConfidenceBox):
            fresh = -np.log(S * S * A)
            self.log_reference = np.where(np.isfinite(log_reference), log_reference, fresh)
            self.successors = _ints(np.arange(S).reshape(1, 1, 1, S))
            self.law = np.zeros((H, S, A, S))
            self.log_law = np.full((H, S, A, S), -np.inf)
            self.free = np.zeros((H, S, A, S), np.bool_)
            self.bounds = (
                _ints(dynamics.successors),
                _ints(dynamics.known),
                _floats(dynamics.lower),
                _floats(dynamics.upper),
                _floats(dynamics.unseen),
            )
        else:
            self.log_reference = log_reference[..., None]
            self.successors = _ints(dynamics.successors)
            self.law = np.array(dynamics.probabilities, np.float64, order="C")
            with np.errstate(divide="ignore"):
                self.log_law = np.log(self.law)
            self.free = np.zeros((1, 1, 1, 1), np.bool_)
            nothing, none = np.zeros((1, 1, 1, 1), np.int32), np.zeros((1, 1, 1, 1))
            self.bounds = (
                _ints(nothing),
                _ints(nothing[0]),
                _floats(none),
                _floats(none),
                _floats(none[0]),
            )
        with np.errstate(divide="ignore"):
            self.log_start = _floats(np.log(dynamics.start))
        self.cost = None if cost is None else cost[..., None]
        self.reach = dynamics.reach
        self.V = np.zeros((H + 1, S))
        self.W = np.zeros((H, S))
        self.log_pi = np.zeros((H, S, A))
        self.pi = np.zeros((H, S, A))
        self.log_d = np.zeros((H, S))
        self.d = np.zeros((H, S))
        self.m = np.zeros((H, S))
        self.x = np.zeros((H + 1, S))
        self.value = self.gap = self.residual = np.inf
        self.steps = 0
        self.eliminations = 0

    def evaluate(self, start: bool) -> None:
        """Policy, densities, residuals and gap that belong to V."""
        kernels.evaluate_rows(
            start,
            self.V,
            self.law,
            self.log_law,
            self.free,
            self.successors,
            self.log_weights,
            self.box,
            *self.bounds,
            self.reach,
            self.W,
            self.log_pi,
            self.pi,
        )
        self.value, self.gap, self.residual = kernels.carry_forward(
            self.V,
            self.law,
            self.log_law,
            self.successors,
            self.log_start,
            self.reach,
            self.W,
            self.log_pi,
            self.log_d,
            self.d,
            self.m,
        )

    def solve(
        self, share: float, guess: Floats, densities: bool, tolerance: float, max_steps: int
    ) -> bool:
        """Newton's method for the given share of the cost, from a guess (H, S).

        densities True: the guess is log d, which carries far. False: it is the multipliers, which
        are right when the share hardly changed, also where densities are too small to tell.
        """
        weights = (
            self.log_reference if self.cost is None else self.log_reference - share * self.cost
        )
        self.log_weights = _floats(weights)
        H = self.pi.shape[0]
        self.V[:H] = guess
        self.V[H] = 0.0
        self.evaluate(start=densities)
        exact = self.box
        extra = 0
        for _ in range(max_steps if H > 1 else 0):
            if self.gap <= tolerance:
                if self.residual <= FINE or extra == PATIENCE:
                    break
                extra += 1
                exact = exact or self.lowest() < SAFE_DENSITY
            if not exact:
                exact = not self._step_by_gradients(tolerance)
            if exact and not self._step_by_blocks(tolerance):
                break
        return bool(self.gap <= tolerance)

    def lowest(self) -> float:
        """Smallest log density within reach."""
        return float(np.min(self.log_d, where=self.reach, initial=0.0))

    def _step_by_gradients(self, tolerance: float) -> bool:
        forcing = max(1e-4, min(0.3, self.gap**0.25))
        slope, _, done = kernels.direction_by_gradients(
            self.law,
            self.log_law,
            self.successors,
            self.reach,
            self.log_pi,
            self.pi,
            self.log_d,
            self.d,
            self.m,
            forcing,
            GRADIENT_LIMIT,
            self.x,
        )
        if not (done and slope <= 0.0):
            return False
        if self.lowest() > SAFE_DENSITY:
            return self._search(slope, tolerance, 1e-3, False)
        return self._search(slope, tolerance, 0.2, True)

    def _step_by_blocks(self, tolerance: float) -> bool:
        slope = kernels.direction_by_blocks(
            self.law,
            self.log_law,
            self.free,
            self.box,
            self.successors,
            self.reach,
            self.log_pi,
            self.pi,
            self.log_d,
            self.d,
            self.m,
            self.x,
        )
        self.eliminations += 1
        return self._search(slope, tolerance, 1e-7, False)

    def _search(self, slope: float, tolerance: float, shortest: float, cautious: bool) -> bool:
        """Shorten the step until it is an improvement; go back when it never is.

        An improvement makes the gap smaller; or, without opening the gap, it makes max |m| smaller,
        or the value by as much as the slope promises. Decrease of the objective is not sufficient:
        the objective does not see states of vanishing density, whose multipliers would diverge.
        cautious: only the gap counts. Once the gap is closed, only steps that make max |m| smaller
        count.
        """
        self.steps += 1
        V, value, gap, residual = self.V.copy(), self.value, self.gap, self.residual
        if gap <= tolerance:
            shortest = 0.01
        length = 1.0
        while length >= shortest:
            np.add(V, length * self.x, out=self.V)
            if not np.all(np.isfinite(self.V)):
                length *= 0.5
                continue
            self.evaluate(start=False)
            if gap <= tolerance:
                good = self.gap <= tolerance and self.residual <= (1.0 - 0.2 * length) * residual
            else:
                falls = abs(slope) > 1e-10 * (1.0 + abs(value)) and (
                    self.value <= value + 1e-4 * length * slope
                )
                nearer = self.residual <= (1.0 - 0.2 * length) * residual
                good = self.gap <= (1.0 - 0.1 * length) * gap or (
                    not cautious and (falls or nearer) and self.gap <= 2.0 * gap
                )
            if good:
                return True
            length *= 0.5
        self.V[:] = V
        self.evaluate(start=False)
        return False

    def result(self, portions: int, converged: bool) -> Projection:
        """Freeze what was found."""
        H = self.pi.shape[0]
        log_measure = self.log_d[:, :, None] + self.log_pi
        if self.box:
            log_measure = log_measure[..., None] + self.log_law
            log_measure[~self.reach] = -np.inf
        dual = self.V[:H].copy()
        dual[0] = self.W[0]
        arrays = (log_measure, self.log_pi, self.pi, self.log_d, dual)
        for array in arrays:
            array.flags.writeable = False
        return Projection(
            *arrays,
            value=float(self.value),
            gap=float(self.gap),
            residual=float(self.residual),
            steps=self.steps,
            eliminations=self.eliminations,
            portions=portions,
            converged=converged,
        )
