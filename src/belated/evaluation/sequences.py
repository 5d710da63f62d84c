"""Confidence sequences: intervals that stay valid however often, and whenever, somebody looks.

Decision k shows the outcome r_k of action a_k, which was played with probability p_k. With a model
q fitted on the decisions before it,

    phi_k(a)   q(x_k, a) + 1[a_k = a] (r_k - q(x_k, a)) / p_k                     score of a line
    y_k        u_k (phi_k(a) - phi_k(b)),  u_k fixed before x_k is seen
    S, V, H    sum y_k,  sum y_k^2,  sum u_k
    diagonal   sum u_k phi_k(a),  sum u_k^2 (phi_k(a) - m)^2,  sum u_k            one line alone

S - sum_k u_k E[phi_k(a) - phi_k(b)] is a martingale, whatever the allocation and whatever changes
for all lines alike. The wealth of a bet against "a is no better than b" is

    exact        gamma-exponential mixture of exp(lam S + (log(1 - lam) + lam) V), where |y| <= 1
                 (Howard, Ramdas, McAuliffe & Sekhon 2021, Proposition 9)
    asymptotic   half-normal mixture of exp(lam S - lam^2 V / 2)
                 (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024)

and exceeds 1/alpha at some time with probability alpha at most. A false winner beats the best line,
so with L lines alpha = (1 - level) / L. S / H is the difference, and the S whose wealth is 1/alpha
(`radius`), over H, is the half of its interval.

Exact: if outcomes are within R of each other and q among them, then |phi_k(a) - phi_k(b)| <=
R / min(p_k), so u_k = min(p_k) / R. Without features p_k is known before the decision; with
features it depends on x_k, and the least probability of any decision takes its place.

Asymptotic: u_k = 2 / (E w(a)^2 + E w(b)^2) with w_k(a) = 1[a_k = a] / p_k, over the past. A line
that is played rarely looks certain before its first success, so both lines need

    n_a >= 20 n sum e^4 / (sum e^2)^2,   n_a = n^2 / sum E w_k(a)^2,   e_k = r_k - q(x_k, a_k)

twenty outcomes, where one of a hundred decisions has one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools, Floats, Ints

TUNED = 25.0
"""The variance, in squares of a typical outcome, at which intervals are narrowest."""
ENOUGH = 20.0
"""The effective number of outcomes from which asymptotic intervals begin."""
FIRST, GROWTH = 50, 1.05
"""The model is fitted anew after so many decisions, and whenever the log has grown so much."""
CELLS = 10**6
MANY = 1e9


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with an interval that is valid at every look.

    Attributes:
        value: the estimate.
        low: the lower end.
        high: the upper end.
        exact: whether the level holds for every sample size, or only for large ones.
    """

    value: float
    low: float
    high: float
    exact: bool


def log_wealth(total: Floats | float, spread: Floats | float, rho: float, *, exact: bool) -> Floats:
    """The log wealth of bets that a martingale which has come to `total` rises.

    Args:
        total: S less its expectation.
        spread: V.
        rho: the spread at which the bets are best.
        exact: whether each step is at least -1; otherwise the bets are those of the normal limit.
    """
    from scipy.special import gammainc, gammaln, log_ndtr  # noqa: PLC0415 - slow to import

    s, v = np.maximum(np.asarray(total, dtype=float), 0.0), np.asarray(spread, dtype=float)
    a = v + rho
    if exact:
        z = s + a
        prior = rho * math.log(rho) - gammaln(rho) - np.log(gammainc(rho, rho))
        return prior + gammaln(a) + np.log(gammainc(a, z)) - a * np.log(z) + s + v  # type: ignore[no-any-return]
    return 0.5 * np.log(4.0 * rho / a) + s * s / (2.0 * a) + log_ndtr(s / np.sqrt(a))  # type: ignore[no-any-return]


def radius(spread: float, rho: float, alpha: float, *, exact: bool) -> float:
    """The total whose wealth is 1/alpha: the martingale exceeds it with probability alpha."""
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    def lacking(total: float) -> float:
        return float(log_wealth(total, spread, rho, exact=exact)) + math.log(alpha)

    high = 4.0 * math.sqrt((spread + rho) * math.log(1.0 / alpha))
    while lacking(high) < 0.0:
        high *= 2.0
    return float(brentq(lacking, 0.0, high, xtol=1e-9 * high))


STATE = (
    "decisions", "_bounded", "_floor", "_S", "_V", "_H", "_sure", "_gram", "_target",
    "_coefficients", "_mean", "_total", "_square", "_played", "_moments", "_rho", "_next",
)  # fmt: skip
"""What a contest has seen, in the order of its state."""


class Contest:
    """Lines that are compared at every look, in the order of the decisions.

    >>> contest = Contest(2, range=(0.0, 1.0))
    >>> contest.extend([0, 1, 0], np.full((3, 2), 0.5), [1.0, 0.0, 0.0])
    >>> contest.winner() is None, contest.exact
    (True, True)

    Args:
        lines: the number of lines: actions, or policies that choose among them.
        features: the number of features of a decision.
        actions: the number of actions, if the lines are policies.
        level: the probability that no winner is ever wrong, and that the interval of no value is;
            an end of the interval of a difference is with probability (1 - level) / lines at most.
        range: the smallest and the largest possible outcome, if they are known.
        least: the smallest probability that any action of any decision can have, unless `extend`
            says more.
    """

    def __init__(
        self,
        lines: int,
        features: int = 0,
        *,
        actions: int | None = None,
        level: float = 0.95,
        range: tuple[float, float] | list[float] | None = None,
        least: float | None = None,
    ) -> None:
        self.lines = checks.integer("lines", lines, 2)
        self.features = checks.integer("features", features, 0)
        self.actions = self.lines if actions is None else checks.integer("actions", actions, 1)
        self.level = checks.real("level", level, 0.5, 0.9999)
        self.range = None
        if range is not None:
            low, high = self.range = tuple(checks.shaped("range", range, (2,)).tolist())
            if not -math.inf < low < high < math.inf:
                raise ValueError(
                    f"range must be two finite numbers that rise, got {checks.show(range)}"
                )
        self.least = None if least is None else checks.real("least", least, 1e-12, 1.0)
        self._ends = self.range or (-math.inf, math.inf)  # what outcomes lie between
        # What makes the largest difference of outcomes 1, where it is known.
        self._scale = 1.0 if self.range is None else 1.0 / (self.range[1] - self.range[0])
        self.decisions = 0
        L, A, d = self.lines, self.actions, self.features + 1
        self._of_policies = actions is not None
        # Whether lines are played for different visitors, so that values need weights.
        self._weighted = bool(self.features) or self._of_policies
        self._bounded = True  # whether something was known of all probabilities before x was seen
        self._floor = self.least or 0.0  # that of the newest decision
        self._S, self._V, self._H, self._sure = np.zeros((4, L, L))
        self._gram, self._target = np.zeros((A, d, d)), np.zeros((A, d))
        self._coefficients: Floats = np.zeros((A, d))
        self._mean, self._total = 0.0, 0.0
        # Decisions in which a line was possible, and what to expect of squared importance weights.
        self._played = np.outer([1.0, A], np.full(L, float(FIRST)))
        self._square = np.full(L, float(A))  # their mean at the last fit
        self._moments = np.zeros(2)  # sums of squares and fourth powers of the residuals
        self._rho = TUNED if self.range is not None else 0.0
        self._next = FIRST

    @property
    def exact(self) -> bool:
        """Whether the level holds for every sample size."""
        return self.range is not None and self._bounded

    @property
    def _enough(self) -> Bools:
        """Which lines have outcomes enough for the normal limit, (L,)."""
        squares, fourth = self._moments
        return self._played[0] ** 2 / self._played[1] >= (  # type: ignore[no-any-return]
            ENOUGH * self.decisions * fourth / max(squares**2, 1e-300)
        )

    def state(self) -> Floats:
        """What it has seen, as numbers (m,)."""
        return np.concatenate([np.ravel(getattr(self, name)).astype(float) for name in STATE])

    def restore(self, state: Floats) -> Self:
        """Continue from the state of another contest with the same arguments."""
        before = [np.asarray(getattr(self, name)) for name in STATE]
        ends = np.cumsum([old.size for old in before])
        if state.shape != (ends[-1],):
            raise ValueError(f"state must have shape ({ends[-1]},), got shape {state.shape}")
        for name, old, part in zip(STATE, before, np.split(state, ends[:-1]), strict=True):
            new = part.reshape(old.shape).astype(old.dtype)
            setattr(self, name, new if old.ndim else new.item())
        return self

    def extend(
        self,
        actions: object,
        probabilities: object,
        outcomes: object,
        x: object = None,
        policies: object = None,
        least: object = None,
    ) -> None:
        """Take the next decisions whose outcomes are final.

        Args:
            actions: (n,).
            probabilities: (n, A) of all actions, 0 for those that could not be played, or (n,) of
                the chosen ones.
            outcomes: (n,).
            x: features, (n, d).
            policies: (n, L, A), if the lines are policies.
            least: (n, A) the smallest probabilities that the actions could have, whatever the
                features were, and 0 for those that could not be played. By default that of the
                contest; without features the probabilities themselves, if they are of all actions.
                It is needed for exact intervals.
        """
        a = checks.whole_numbers("actions", actions, 0, self.actions - 1)
        n, A = len(a), self.actions
        if not n:
            return
        p = checks.shaped("probabilities", probabilities, (n,), (n, A))
        r = checks.shaped("outcomes", outcomes, (n,))
        rows = checks.shaped("x", np.zeros((n, 0)) if x is None else x, (n, self.features))
        pi = np.broadcast_to(np.eye(A), (n, A, A))
        if self._of_policies:
            pi = checks.distributions(
                "policies", checks.shaped("policies", policies, (n, self.lines, A))
            )
        if not (np.isfinite(r).all() and np.isfinite(rows).all()):
            raise ValueError("outcomes and x must be finite, got a number that is not")
        played = p if p.ndim == 1 else p[np.arange(n), a]
        if not 0.0 < played.min() <= played.max() <= 1.0 + 1e-9:
            raise ValueError("probabilities of chosen actions must be above 0 and at most 1")
        if (r != r.clip(*self._ends)).any():
            raise ValueError(
                f"outcomes must be within range {self.range}, got {r.min():g} to {r.max():g}"
            )
        could = (p > 0.0).astype(float) if p.ndim == 2 else np.ones((n, A))
        known = None if self.least is None else self.least * could
        if least is not None:
            known = checks.shaped("least", least, (n, A))
        elif p.ndim == 2 and not self._weighted:
            known = p
        if known is None and self._bounded and self.decisions and not self._weighted:
            raise ValueError("probabilities must be (n, A) as before, got (n,)")
        if known is not None and (played < known[np.arange(n), a] * (1.0 - 1e-9)).any():
            raise ValueError("least must be at most the probability of every chosen action")
        self._bounded = self._bounded and known is not None
        least = could if known is None else known
        most = max(CELLS // self.lines**2, 1)
        part = slice(0, 0)
        while part.stop < n:
            part = slice(part.stop, part.stop + min(most, self._next - self.decisions))
            self._take(a[part], played[part], r[part], rows[part], pi[part], least[part])
        self._floor = float(least[-1][least[-1] > 0.0].min(initial=1.0))
        if self._rho:
            wealth = log_wealth(self._S, self._V, self._rho, exact=self.exact)
            proved = wealth >= math.log(self.lines / (1.0 - self.level))
            proved &= self.exact | (self._enough[:, None] & self._enough)
            self._sure = np.maximum(self._sure, proved) * ~proved.T

    def _take(
        self, a: Ints, played: Floats, r: Floats, x: Floats, pi: Floats, least: Floats
    ) -> None:
        """Add decisions to the sums; all of them use the model and the weights of the past."""
        n, each = len(a), np.arange(len(a))
        if self._of_policies:
            least = np.broadcast_to(least.min(axis=1, keepdims=True), (n, self.lines))
        X = np.column_stack([x, np.ones(n)])
        q = np.clip(self._mean + X @ self._coefficients.T, *self._ends)  # (n, A)
        residual = r - q[each, a]
        chosen = np.eye(self.actions)[a] / played[:, None]
        phi = np.einsum("nla,na->nl", pi, q + chosen * residual[:, None])
        if self.range is not None or self.decisions >= FIRST:  # else nothing is known of the scale
            u = self._unit(a, least)
            y, alone = u * (phi[:, :, None] - phi[:, None, :]), np.arange(self.lines)
            seen, centre = (
                (phi, np.clip(self._mean, *self._ends)) if self._weighted else (r[:, None], q)
            )
            y[:, alone, alone] = u[:, alone, alone] * seen
            self._S += y.sum(axis=0)
            y[:, alone, alone] = u[:, alone, alone] * (seen - centre)
            self._V += (y * y).sum(axis=0)
            self._H += u.sum(axis=0)
            self._moments += [(residual**2).sum(), (residual**4).sum()]

        self.decisions += n
        self._total += float(r.sum())
        squares = np.divide(1.0, least, where=least > 0.0, out=np.zeros(least.shape))
        if not self._bounded:
            squares = np.einsum("nla,na->nl", pi, chosen) ** 2
        self._played += [(least > 0.0).sum(axis=0), squares.sum(axis=0)]
        for action in np.unique(a):
            mine = a == action
            self._gram[action] += X[mine].T @ X[mine]
            self._target[action] += X[mine].T @ r[mine]
        if self.decisions == self._next:
            self._fit()

    def _unit(self, a: Ints, least: Floats) -> Floats:
        """The weights u of each pair, and of each line alone on the diagonal, (n, L, L)."""
        u = np.minimum(least[:, :, None], least[:, None, :])
        if not self._bounded or (self._weighted and not self.exact):
            square = np.add.outer(self._square, self._square)
            u = (u > 0.0) * 2.0 / square  # what could not be played is not compared
        if not self._weighted:
            alone = np.arange(self.lines)
            u[:, alone, alone] = a[:, None] == alone
        return u * self._scale

    def _fit(self) -> None:
        """Fit the model on all decisions so far; the next ones use it."""
        self._mean = self._total / self.decisions
        squares = self._gram.diagonal(axis1=1, axis2=2).sum(axis=0) / self.decisions
        ridge = np.diag(np.maximum(squares, 1e-12))
        target = self._target - self._mean * self._gram[:, -1]
        self._coefficients[:] = np.linalg.solve(self._gram + ridge, target[..., None])[..., 0]
        self._square = self._played[1] / self._played[0]
        squares, fourth = self._moments
        if not self._rho and squares**2 >= ENOUGH * fourth > 0.0:
            self._rho = TUNED * fourth / squares
        self._next = max(self._next + FIRST, math.ceil(self._next * GROWTH))

    # Answers

    def difference(self, line: int, other: int) -> Interval:
        """The value of a line less that of another, with both ends at the level."""
        width = self._ends[1] - self._ends[0]
        ends = (
            0.0 if self._sure[line, other] else -width,
            0.0 if self._sure[other, line] else width,
        )
        return self._interval(line, other, self.lines, self.exact, ends)

    def value(self, line: int) -> Interval:
        """The value of a line per decision. It assumes that outcomes do not change over time."""
        exact = self.exact or (self.range is not None and not self._weighted)
        return self._interval(line, line, 2 * self.lines, exact, self._ends)

    def _interval(
        self, line: int, other: int, split: int, exact: bool, ends: tuple[float, float]
    ) -> Interval:
        """The interval of S / H, as far as it lies between two ends."""
        S, V, H = (sums.item(line, other) for sums in (self._S, self._V, self._H))
        found = S / H if H > 0.0 else math.nan
        begun = self._rho > 0.0 and (exact or self._enough[[line, other]].all())
        if not (begun and H > 0.0):
            return Interval(found, *ends, exact)
        error = radius(V, self._rho, (1.0 - self.level) / split, exact=exact) / H
        return Interval(found, max(found - error, ends[0]), min(found + error, ends[1]), exact)

    def winner(self, among: Sequence[int] | None = None) -> int | None:
        """The line that is better than all others (of these), or None while that is not sure.

        What was sure at a look stays so, unless the opposite becomes sure.
        """
        lines = range(self.lines) if among is None else among
        return next((a for a in lines if all(self._sure[a, b] for b in lines if b != a)), None)

    def behind(self, line: int, among: list[int], level: float) -> float:
        """The most that a line is behind the best of these, at one look; at least 0.

        It trusts no model: the normal limit, with the level split over these.
        """
        from scipy.special import ndtri  # noqa: PLC0415 - slow to import

        others = [b for b in among if b != line and self._H[b, line] > 0.0]
        z = ndtri(1.0 - (1.0 - level) / (len(others) + 1))
        S, V, H = (sums[others, line] for sums in (self._S, self._V, self._H))
        return float(((S + z * np.sqrt(V)) / H).max(initial=0.0))

    def still(self, line: int, gaps: Floats, shares: Floats, least: float | None = None) -> float:
        """About how many more decisions make it sure that a line wins; infinite if never.

        Args:
            line: the line that leads.
            gaps: (L,) by how much it is better than each line; not finite for lines to leave out.
            shares: (L,) the share of the decisions that plays each line from now on.
            least: the smallest probability of an action from now on; by default as before.
        """
        floor = self._floor if least is None else least
        n, square = max(self.decisions, 1), float(self._moments[0]) / max(self.decisions, 1)
        spread = np.where(self._V[line] > 0.0, n * self._V[line], math.inf)
        # With features 1/p is larger on average than 1/share; so these shares stand for it.
        alike = 2.0 * square * self._H[line] ** 2 / spread
        return max(
            needed(
                float(gaps[other]) * self._scale,
                square * self._scale**2,
                (alike[other].item(),) * 2
                if self._weighted and least is None
                else (shares[line], shares[other]),
                (1.0 - self.level) / self.lines,
                least=floor if self._weighted and self.exact else None,
                rho=self._rho,
                exact=self.exact,
                begun=(float(self._S[line, other]), float(self._V[line, other])),
            )
            for other in np.flatnonzero(np.isfinite(gaps))
            if other != line
        )


def needed(
    gap: float,
    square: float,
    shares: tuple[float, float],
    alpha: float,
    *,
    least: float | None = None,
    rho: float = TUNED,
    exact: bool = True,
    begun: tuple[float, float] = (0.0, 0.0),
    luck: float = 0.0,
) -> float:
    """How many decisions prove that a line is better than another; infinite if none do.

    Args:
        gap: by how much it is better, where outcomes are within 1.
        square: the variance of an outcome.
        shares: the shares of the decisions that play the two lines.
        alpha: the probability of a wrong proof.
        least: the weight of a decision; by default the smaller share.
        rho: see `log_wealth`.
        exact: see `log_wealth`.
        begun: S and V so far.
        luck: by how many standard deviations the outcomes may be worse than expected.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    u = min(shares) if least is None else least
    if not (rho > 0.0 and gap > 0.0 and u > 0.0 and min(shares) > 0.0):
        return math.inf
    spread = u * u * square * (1.0 / shares[0] + 1.0 / shares[1])

    def lacking(n: float) -> float:
        total = begun[0] + n * u * gap - luck * math.sqrt(n * spread)
        return -math.log(alpha) - float(log_wealth(total, begun[1] + n * spread, rho, exact=exact))

    if lacking(MANY) > 0.0:
        return math.inf
    return float(brentq(lacking, 0.0, MANY, xtol=1.0)) if lacking(0.0) > 0.0 else 0.0
