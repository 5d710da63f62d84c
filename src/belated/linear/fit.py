"""From the log to the models: regressions on what should have come by now, and changes.

With z_k = (x_k, 1) the features of the chosen action, r_k the outcome so far less silence, F_k the
exposure of decision k (see `exposure`), and p_k its prediction, all sums are over the decisions of
model i since the last change:

    G_i = sum w_k F_k z_k z_k'    h_i = sum w_k r_k z_k    w_k = (1 - p_k) / (1 - p_k F_k)

E[r_k | x_k] = F_k E[outcome | x_k] makes this the regression of the outcome. w_k is the precision
of a success or failure of which F_k has been seen; it is 1 unless all reports are equal. Amounts
are clipped at tau, sum min(r^2 / tau^2, 1) = log n.

**Regression** (`regress`). The weights theta_i of all models have the prior N(T_i, s^2 P_i^-1)
around one constant mu, whose prior is m with the weight of a tenth of an outcome. At first T = 0
and P = D, a diagonal: the mean square of each feature, times the mean number of features that are
not 0, times the deviation of an outcome over its mean if silence has a meaning, so that rare
outcomes have small effects.

**Change** (`evidence`). For starts j at geometric ages, the hypothesis of a change at j lets each
model's predictions q_k from j on differ by a factor and a constant of their own:

    r_k = F_k (q_k + (a_i + a'_i 1[k >= j]) (q_k - mu) + b_i + b'_i 1[k >= j]) + noise

All have normal priors, as wide as those of the weights, but a factor at most as wide as 1, and
without a change a' = b' = 0, so that marginal likelihoods are known in closed form. Each prediction
is made without the outcome that it predicts: otherwise old decisions would be predicted better than
young ones, which have hardly reported. It is then a little lower the larger that outcome is, which
a large factor could use where nothing else tells decisions apart. The change has a prior
probability of 3 %, divided equally among the starts. If a change is more probable than not, the log
begins at its median start, with the prior T = theta_i before it and P^-1 = V_i^-1 + D^-1: what was
known is still the best guess, and what the decisions since then do not say remains as it was. The
constant of all models is then fixed where every model has its own: it would move them all.

**Drift** (`recent`, `drift`). A second regression fades decisions of age t by e^(-t / 400), around
the weights theta_i of the first, with the precision D. Both predict each decision before it
reports, by the fit at that time: q_k and q_k + d_k. The weights in use move from the first to the
second by the share b / a that would have been best, less what noise alone would bring:

    share = b / a - 3 s^2 / b    b = sum v_k d_k w_k (r_k - F_k q_k)    a = sum v_k w_k F_k d_k^2

with v_k = e^(-t / 1000); at most 1, and 0 if it or b is negative. Without drift b^2 / (s^2 a) is
the square of a normal number whose variance is at most 1, so that the share is mostly 0.

A model without recent decisions keeps its weights.
"""

import math
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from scipy.linalg import lapack

from belated.core.arrays import Bools, Floats, Indices, Ints, frozen
from belated.core.compiled import njit
from belated.core.tree import Count, Entries
from belated.linear.exposure import Delays, Positive
from belated.linear.rows import Rows

PSEUDO = 0.1
"""The weight of the mean outcome in the constant of all models."""
CHANGE = 0.03
"""The prior probability of a change in the log."""
RATIO = 0.7
"""The age of a possible change over that of the next older one."""
NEWEST = 24
"""The age of the newest possible change, in decisions."""
EXPOSED = 0.4
"""The mean exposure of the decisions since a possible change from which it is tested."""
RECENT = 400.0
"""The age at which a decision has 1 / e of its weight in the recent regression, in decisions."""
LASTING = 1000.0
"""The same, in the share of that regression."""
FADED = 4000
"""The age from which a weight in the recent regression, at most e^-10, is left out."""
NOISE = 3.0
"""The evidence below which the share is 0, as the square of a normal number."""
FIXED = 1e15
"""The weight of a constant that is not fitted."""
TINY = 1e-300
HUGE = 1e300
ROUNDING = 1e-12
LEAST_SQUARE = 1e-200
"""The smallest mean square of a feature, so that nothing is divided by 0."""


class Weighed(NamedTuple):
    """Decisions of the log as a regression takes them.

    Attributes:
        x: features (n, width).
        models: (n,), -1 before an action is chosen; the others have the same shape.
        mass: w F.
        total: w r.
        pending: 1 - w F, or 0 if nothing is awaited.
        outcome: r, clipped.
        exposed: F.
        raw: r, not clipped.
        hits: whether it has reported.
        delays, ages: of the first report and of the decision, in units.
    """

    x: Floats
    models: Indices
    mass: Floats
    total: Floats
    pending: Floats
    outcome: Floats
    exposed: Floats
    raw: Floats
    hits: Bools
    delays: Floats
    ages: Floats

    def rows(self, here: slice | Bools) -> Self:
        """Some of the decisions."""
        return type(self)._make(part[here] for part in self)


class Belief(NamedTuple):
    """The weights of all models: N(theta_i, s^2 V_i^-1), around one constant.

    Attributes:
        theta: (M, p).
        precision: V, (M, p, p).
        constant: of all models.
        weight: the precision of the constant, in outcomes.
    """

    theta: Annotated[Floats, Entries("models p")]
    precision: Annotated[Floats, Entries("models p p")]
    constant: float
    weight: Annotated[float, Entries(low=0.0)]

    def with_model(self) -> Self:
        """One more model, which is the mean of the others."""
        theta, precision = (
            frozen(np.concatenate([part, part.mean(axis=0, keepdims=True)])) for part in self[:2]
        )
        return self._replace(theta=theta, precision=precision)


class Sums(Delays):
    """Sums over the decisions that have left the log, or over all decisions, and their delays.

    Attributes:
        gram: the lower triangle of G of each model, (M, d, d).
        moment: h of each model, (M, d).
        asked: the sum of (1 - w F) z z' over decisions that have not reported in full.
        square: (1,) the sum of w r^2.
        features: the number of values of each feature that are not 0, their squares and their sum.
        plays, hits, exposed: (M,) decisions, reports, and the sum of the exposures.
        raw: (M, 2) the sum of outcomes and of their squares, not clipped.
        level: (2,) the same over all models, clipped.
        rare: whether silence has a meaning, so that rare outcomes have small effects.
        p: the number of weights of a model.
    """

    gram: Floats
    moment: Floats
    asked: Floats
    square: Positive
    features: Floats
    plays: Positive
    hits: Positive
    exposed: Positive
    raw: Floats
    level: Floats

    def __init__(self, models: int, d: int, p: int, *, rare: bool) -> None:
        super().__init__(models)
        self.rare, self.p = rare, p
        self.gram, self.asked = np.zeros((2, models, d, d))
        self.moment, self.square = np.zeros((models, d)), np.zeros(1)
        self.features, self.raw, self.level = np.zeros((3, d)), np.zeros((models, 2)), np.zeros(2)
        self.plays, self.hits, self.exposed = np.zeros((3, models))

    def take(self, log: Weighed, first: int) -> None:
        """Add decisions; first: the place of the first of them in the regression."""
        fitted, hits, acted = log.rows(slice(first, None)), log.hits, log.models >= 0
        models, outcome = log.models[acted], log.outcome[hits]
        self.add(log.models[hits], log.delays[hits], log.ages[hits])
        accumulate(*fitted[:5], self.gram, self.moment, self.asked)
        self.square += (fitted.total * fitted.outcome).sum()
        x, one = log.x, np.ones(len(log.x))  # the features of those without a model are 0
        self.features[:, :-1] += one @ (x != 0.0), one @ (x * x), one @ x
        self.features[:, -1] += len(models)
        for sums, each in (
            (self.plays, acted),
            (self.hits, hits),
            (self.exposed, log.exposed),
            (self.raw[:, 0], log.raw),
            (self.raw[:, 1], log.raw**2),
        ):
            sums[:] += np.bincount(models, each[acted], len(sums))
        self.level += outcome.sum(), (outcome**2).sum()

    def clear(self) -> None:
        """Drop the sums of the regression, which are in the prior after a change."""
        for part in (self.gram, self.moment, self.asked, self.square):
            part[:] = 0.0

    @property
    def nonzero(self) -> float:
        """The mean number of features that are not 0."""
        return float(max(self.features[0, : self.p].sum() / max(self.plays.sum(), 1.0), 1.0))

    @property
    def average(self) -> Floats:
        """The mean features, (p,)."""
        return frozen(self.features[2, : self.p] / max(self.plays.sum(), 1.0))

    @property
    def outcome(self) -> tuple[float, float]:
        """The mean outcome and its variance."""
        mass = max(self.exposed.sum(), 1e-9)
        mean, second = self.level / mass
        return mean, max(second - mean * mean, 1e-12 * second + TINY)

    @property
    def ridge(self) -> float:
        """The precision of the effect of a feature whose mean square is 1."""
        mean, spread = self.outcome
        unsure = math.sqrt(spread / max(self.exposed.sum(), 1.0))  # a mean of 0 is not exact
        factor = max(1.0, math.sqrt(spread) / max(abs(mean), unsure)) if self.rare else 1.0
        return self.nonzero * factor

    @property
    def jump(self) -> Floats:
        """D, (p,): the ridge times the mean square of each feature where it is not 0."""
        nonzero, squares = self.features[:2, : self.p]
        means = np.maximum(squares / np.maximum(nonzero, 1.0), LEAST_SQUARE)
        return self.ridge * np.where(nonzero, means, 1.0)

    def fresh(self) -> Belief:
        """The prior before any change."""
        M = len(self.plays)
        precision = np.tile(np.diag(self.jump), (M, 1, 1))
        return Belief(np.zeros((M, self.p)), precision, self.outcome[0], PSEUDO)


class Known(NamedTuple):
    """What a fit has found.

    Attributes:
        theta: weights of the features, and of the constant if every action has a model, (M, p).
        covariance: of the weights in units of sigma^2, (M, p, p).
        constant: of all models.
        sigma: the standard deviation of an outcome given its prediction.
        rate: the share of decisions that report in the end.
        nonzero: the mean number of features that are not 0.
        decisions: the number of decisions from which on it is fitted anew.
        reports: the number of reports from which on it is fitted anew.
    """

    theta: Annotated[Floats, Entries("models p")]
    covariance: Annotated[Floats, Entries("models p p")]
    constant: float
    sigma: Annotated[float, Entries(low=0.0)]
    rate: Annotated[float, Entries(low=0.0, high=1.0)]
    nonzero: Annotated[float, Entries(low=1.0)]
    decisions: Count
    reports: Count


def weigh(
    rows: Rows, at: slice | Ints, past: Delays, known: Known | None, *, shown: bool = False
) -> Weighed:
    """Decisions of the log; past: delays of those that have left it; known: the last fit.

    Where every outcome reports, F is 1 after the report, and 0 before. Shown to people, no amount
    is clipped, and all weights are 1.
    """
    x, models, raw, hits = rows.x[at], rows.model[at], rows.raw(at), rows.hits(at)
    unit = rows.unit
    ages, delays = rows.ages(at) / unit, rows.delay[at] / unit
    outcome, weight, exposed = raw, np.ones(1), hits.astype(np.float64)
    counted = rows.awaited(at) | hits
    if rows.silent:
        counts = Delays(len(past.came)).including(past)
        counts.add(models[hits], delays[hits], ages[hits])
        exposed, counted = counts.at(models, ages), models >= 0
    if rows.silent and not shown:
        outcome, weight = weights(x, models, raw, hits, exposed, known)
    mass, total = weight * exposed, weight * outcome
    return Weighed(
        x, models, mass, total, counted - mass, outcome, exposed, raw, hits, delays, ages
    )


def weights(
    x: Floats, models: Indices, raw: Floats, hits: Bools, exposed: Floats, known: Known | None
) -> tuple[Floats, Floats]:
    """The outcomes r_k, clipped, and their weights w_k; the prediction p_k is that of a fit."""
    amounts, weight = raw[hits], np.ones(1)
    if len(amounts) and amounts.min() < amounts.max():
        tau = clipped(amounts)
        return np.clip(raw, -tau, tau), weight
    if len(amounts) and known is not None:
        p = np.clip(predictions(x, models, known.theta, known.constant) / amounts[0], 0.0, 0.95)
        weight = (1.0 - p) / (1.0 - p * exposed)
    return raw, weight


@njit(cache=True)
def accumulate(
    x: Floats,
    models: Indices,
    mass: Floats,
    total: Floats,
    pending: Floats,
    gram: Floats,
    moment: Floats,
    asked: Floats,
) -> None:
    """Add decisions to the lower triangles of gram and asked, (M, d, d), and to moment (M, d)."""
    z = np.ones(x.shape[1] + 1)
    for k in range(len(x)):
        i = models[k]
        if i >= 0:
            z[:-1] = x[k]
            for u in range(len(z)):
                moment[i, u] += total[k] * z[u]
            add_square(gram[i], mass[k], z)
            if pending[k] != 0.0:
                add_square(asked[i], pending[k], z)


@njit(cache=True)
def add_square(lower: Floats, weight: float, z: Floats) -> None:
    """Add z z' to a lower triangle."""
    for u in range(len(z)):
        one = weight * z[u]
        for v in range(u + 1):
            lower[u, v] += one * z[v]


@njit(cache=True)
def predictions(x: Floats, models: Indices, theta: Floats, constant: float) -> Floats:
    """The prediction of each decision, (n,)."""
    out, z = np.full(len(x), constant), np.ones(x.shape[1] + 1)
    for k in range(len(x)):
        z[:-1] = x[k]
        for u in range(theta.shape[1]):
            out[k] += theta[max(models[k], 0), u] * z[u]
    return out


def clipped(outcomes: Floats) -> float:
    """The tau at which reported amounts are clipped: sum min(r^2 / tau^2, 1) = log(n + 2)."""
    sizes = np.sort(np.abs(outcomes))[::-1]
    limit = math.log(len(sizes) + 2.0)
    above = np.arange(min(math.ceil(limit), len(sizes)))  # the number of amounts above tau
    sums = np.cumsum(sizes[::-1] ** 2)[::-1]
    tau = np.sqrt(sums[above] / (limit - above))
    solves = np.flatnonzero(tau >= sizes[above])
    return float(tau[solves[0]]) if len(solves) else float(sizes.max(initial=0.0)) or math.inf


def regress(gram: Floats, moment: Floats, prior: Belief) -> Belief:
    """The regression of p features, the first p rows of gram; its last row is the constant 1.

    Only lower triangles are read.

    V = G + P, c = h - m f + P T, left = pseudo + sum N - sum f'V^-1 f,
    mu = m + (sum(R - m N) - sum f'V^-1 c) / left, theta = V^-1 (c - (mu - m) f)
    """
    T, P, m, pseudo = prior
    p = T.shape[1]
    f, N, R = gram[:, -1, :p], gram[:, -1, -1], moment[:, -1]
    V = gram[:, :p, :p] + P
    c = moment[:, :p] - m * f + (P @ T[..., None])[..., 0]
    vc, vf = np.moveaxis(solved(V, np.stack([c, f], axis=-1)), -1, 0)
    left = pseudo + (N.sum() - (f * vf).sum())
    mu = ((R - m * N).sum() - (f * vc).sum()) / left
    return Belief(vc - mu * vf, V, m + mu, left)


def solved(lower: Floats, right: Floats) -> Floats:
    """The matrices V^-1 B, from the lower triangles of symmetric V (M, p, p) and B (M, p, n)."""
    found = np.empty_like(right)
    for i, V in enumerate(lower):
        _, found[i], failed = lapack.dposv(V.T, right[i])
        if failed:
            found[i] = np.linalg.solve(np.tril(V) + np.tril(V, -1).T, right[i])
    return found


def inverse(lower: Floats) -> Floats:
    """The inverses of symmetric matrices, whose lower triangles are given."""
    return solved(lower, np.tile(np.eye(lower.shape[1]), (len(lower), 1, 1)))


def regressed(sums: Sums, prior: Belief | None) -> tuple[Belief, float]:
    """The regression and s^2 = (rss + 2 spread) / (mass + 2); prior: that after a change."""
    fitted = regress(sums.gram, sums.moment, prior or sums.fresh())
    left = residual(sums.gram, sums.moment, sums.square.item(), fitted)
    mass = sums.gram[:, -1, -1].sum()
    return fitted, (left + 2.0 * sums.outcome[1]) / (mass + 2.0)


def residual(gram: Floats, moment: Floats, square: float, fitted: Belief) -> float:
    """The weighted sum of squared residuals of a regression."""
    beta = np.zeros_like(moment)
    beta[:, : fitted.theta.shape[1]] = fitted.theta
    beta[:, -1] += fitted.constant
    squares = sum(form(G, b) for G, b in zip(gram, beta, strict=True))
    return float(max(square - 2.0 * (beta * moment).sum() + squares, 0.0))


def inflated(fitted: Belief, jump: Floats, weight: float) -> Belief:
    """The prior after a change: P^-1 = V^-1 + D^-1, D: jump (p,); weight: of the constant."""
    V, D = fitted.precision, np.diag(jump)
    P = D - jump[:, None] * inverse(V + D) * jump
    return Belief(frozen(fitted.theta), frozen(P), fitted.constant, weight)


def recent(log: Weighed, sums: Sums, whole: Belief) -> Floats:
    """The weights of recent decisions around those of all, whose constant they keep, (M, p)."""
    log = log.rows(slice(-FADED, None))
    gram, moment, weight = np.zeros_like(sums.gram), np.zeros_like(sums.moment), faded(log, RECENT)
    mass, total, none = weight * log.mass, weight * log.total, np.zeros(len(weight))
    accumulate(log.x, log.models, mass, total, none, gram, moment, gram)
    prior = sums.fresh()._replace(theta=whole.theta, constant=whole.constant, weight=FIXED)
    return regress(gram, moment, prior).theta


def faded(log: Weighed, age: float) -> Floats:
    """The weights of decisions which fall to 1 / e at an age, in decisions."""
    weights: Floats = np.exp(np.arange(1.0 - len(log.x), 1.0) / age)
    return weights


def drift(log: Weighed, said: Floats, variance: float) -> float:
    """The share of the recent regression, by what both predicted (n, 2) before the reports."""
    moved = said[:, 1] - said[:, 0]
    weight = faded(log, LASTING) * moved
    squares = float(weight @ (log.mass * moved))
    gained = max(float(weight @ (log.total - log.mass * said[:, 0])), TINY)
    return min(max(gained / max(squares, TINY) - NOISE * float(variance) / gained, 0.0), 1.0)


def starts(n: int) -> list[int]:
    """The possible changes in a log of n decisions, oldest first."""
    found, age = [], float(NEWEST)
    while n - age > 10.0:
        found.append(int(n - age))
        age /= RATIO
    return found[::-1]


def evidence(log: Weighed, sums: Sums, fitted: Belief) -> tuple[float, int]:
    """The probability of a change in a log, and its median start.

    Args:
        log: the decisions.
        sums: those of all decisions.
        fitted: the regression without a change.
    """
    n, at, M = len(log.x), starts(len(log.x)), len(fitted.theta)
    if not at:
        return 0.0, 0
    said = predictions(log.x, log.models, fitted.theta, fitted.constant)
    tails = 0.5 * _tails(log, said)
    said, mass, total = _left_out(log, said, inverse(fitted.precision))
    squares = (total - mass * said) * (log.outcome - log.exposed * said)
    variance = float(squares.sum() + 2.0 * sums.outcome[1]) / (log.mass.sum() + 2.0)
    slope = np.maximum((sums.jump * fitted.theta**2).sum(axis=1), variance)
    prior = np.tile(np.stack([slope, np.full(M, sums.ridge)], axis=1), 2)
    # sums (start, model) over the decisions from each start on: from the first, from none at last
    grams, moments = np.zeros((len(at) + 2, M, 2, 2)), np.zeros((len(at) + 2, M, 2))
    segments = np.searchsorted(at, np.arange(n), side="right").astype(np.int32)
    z, flat = (said - fitted.constant)[:, None], grams.reshape(-1, 2, 2)
    residual = total - mass * said
    accumulate(
        z,
        log.models + M * segments,
        mass,
        residual,
        np.zeros(n),
        flat,
        moments.reshape(-1, 2),
        flat,
    )
    grams[..., 0, 1] = grams[..., 1, 0]
    late, later = (np.cumsum(part[::-1], axis=0)[::-1] for part in (grams, moments))
    both, sides = np.tile(late, (2, 2)), np.tile(later, 2)
    both[..., :2, :2], sides[..., :2] = late[0], later[0]
    logs = log_evidence(both, sides, prior, variance)
    counted = np.concatenate([[0.0], np.cumsum(log.exposed)])
    ready = counted[-1] - counted[at] >= EXPOSED * (n - np.array(at))
    gained = tails * (logs[1:-1] - logs[-1]) + math.log(CHANGE / len(at))
    logs = np.where(ready, gained, -math.inf)
    top = max(0.0, float(logs.max()))
    weights = np.exp(logs - top)
    shares = np.cumsum(weights) / (weights.sum() + math.exp(-top))
    return shares.item(-1), at[int(np.searchsorted(shares, 0.5 * shares[-1]))]


def log_evidence(gram: Floats, moment: Floats, prior: Floats, variance: float) -> Any:
    """Twice the log of the marginal likelihood of residuals, up to what all hypotheses share.

    gram: (..., M, q, q), moment: (..., M, q), prior: precisions (M, q); summed over M.
    """
    q = prior.shape[1]
    bordered = np.zeros((*gram.shape[:-2], q + 1, q + 1))  # its last row is V^-1/2 h in the end
    bordered[..., :q, :q] = (gram + prior[..., None] * np.eye(q)) * (1.0 + ROUNDING * np.eye(q))
    bordered[..., q, :q], bordered[..., q, q] = moment, HUGE
    root = np.linalg.cholesky(bordered)
    gain = (root[..., q, :q] ** 2).sum(axis=-1) / variance
    sizes = np.diagonal(root, axis1=-2, axis2=-1)[..., :q]
    volume = (2.0 * np.log(sizes) - np.log(prior)).sum(axis=-1)
    return (gain - volume).sum(axis=-1)


def _left_out(log: Weighed, said: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
    """Predictions without the outcome that they predict, and the masses and totals for these.

    Each is that of the regression without the decision, like that of a decision whose outcome is
    still to come; 1 - w F z'V^-1 z is the weight of its residual.
    """
    spread = spreads(log.x, log.models, covariance)
    weight = 1.0 - log.mass * spread
    said = said - spread * (log.total - log.mass * said) / weight
    return said, log.mass * weight, log.total * weight


@njit(cache=True, fastmath={"reassoc", "contract"})
def form(C: Floats, z: Floats) -> float:
    """The form z'C z, from the lower triangle of C."""
    total = 0.0
    for u in range(len(C)):
        inner = 0.0
        for v in range(u):
            inner += C[u, v] * z[v]
        total += z[u] * (2.0 * inner + C[u, u] * z[u])
    return total


@njit(cache=True)
def spreads(x: Floats, models: Indices, covariance: Floats) -> Floats:
    """The form z'C z of every decision, (n,)."""
    z, out = np.ones(covariance.shape[1]), np.empty(len(x))
    for k in range(len(x)):
        z[: x.shape[1]] = x[k]
        out[k] = form(covariance[max(models[k], 0)], z)
    return out


def _tails(log: Weighed, said: Floats) -> float:
    """At most 1: the factor of the evidence where outcomes have heavy tails, 3 over kurtosis."""
    taken = (log.exposed > 0.5) | (log.total != 0.0)
    squares = (log.outcome - log.exposed * said)[taken] ** 2
    fourth: float = len(squares) * (squares * squares).sum()
    return min(1.0, 3.0 * float(squares.sum()) ** 2 / max(fourth, TINY))
