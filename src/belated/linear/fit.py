"""From the log to the models: regressions on what should have come by now, and changes.

With z_k = (x_k, 1) the features of the chosen action, r_k the outcome so far less silence, F_k the
exposure of decision k (see `exposure`), and p_k its prediction, all sums are over the decisions of
model i since the last change:

    G_i = sum w_k F_k z_k z_k'    h_i = sum w_k r_k z_k    w_k = (1 - p_k) / (1 - p_k F_k)

E[r_k | x_k] = F_k E[outcome | x_k] makes this the regression of the outcome. w_k is the precision
of a success or failure of which F_k has been seen; it is 1 unless all reports are equal. Amounts
are clipped at tau, sum min(r^2 / tau^2, 1) = log n.

**Regression** (`regress`). Features are divided by their root mean square. The weights theta_i of
all models have the prior N(T_i, s^2 P_i^-1) around one constant mu, whose prior is m with the
weight of a tenth of an outcome. At first T = 0 and P = D, a multiple of the identity: the mean
number of features that are not 0, times the deviation of an outcome over its mean if silence has a
meaning, so that rare outcomes have small effects.

**Change** (`evidence`). For starts j at geometric ages, the hypothesis of a change at j gives the
decisions from j on weights theta_i + delta_i, delta_i ~ N(0, s^2 D^-1): a regression with the
features (x, x 1[k >= j]), whose marginal likelihood is known in closed form. The change has a prior
probability of 3 %, divided equally among the starts. If a change is more probable than not, the
log begins at its median start, with the prior T = theta_i before it and P^-1 = V_i^-1 + D^-1: what
was known is still the best guess, and what the decisions since then do not say remains as it was.
The constant of all models is then fixed where every model has its own: it would move them all.
With more than 8 features the test asks for a change of the predictions alone: of one factor and
one constant per model. Each prediction is made without the outcome that it predicts: otherwise old
decisions would be predicted better than young ones, which have hardly reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import lapack

from belated.core.arrays import Bools, Floats, Indices, frozen
from belated.core.compiled import njit
from belated.core.tree import Entries, Learned
from belated.linear.exposure import Delays

if TYPE_CHECKING:
    from belated.linear.model import Known

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
WIDE = 8
"""The number of features above which the test asks for a change of the predictions."""
BATCHED = 2**18
"""The number of entries of the matrices that are solved at once."""
FIXED = 1e15
"""The weight of a constant that is not fitted."""
TINY = 1e-300
LEAST_SQUARE = 1e-200
"""The smallest mean square of a feature, so that nothing is divided by 0."""


class Sums(Learned):
    """Sums over the decisions that have left the log, or over all decisions.

    Attributes:
        gram: G of each model, (M, d, d); with `diagonal` its diagonal and its last column.
        moment: h of each model, (M, d).
        asked: the sum of (1 - w F) z z' over decisions that have not reported in full.
        square: (1,) the sum of w r^2.
        features: the number of values of each feature that are not 0, their squares and their sum.
        plays, hits, exposed: (M,) decisions, reports, and the sum of the exposures.
        raw: (M, 2) the sum of outcomes and of their squares, not clipped.
        level: (2,) the same over all models, clipped.
    """

    gram: Annotated[Floats, Entries("models d columns")]
    moment: Annotated[Floats, Entries("models d")]
    asked: Annotated[Floats, Entries("models d columns")]
    square: Annotated[Floats, Entries(low=0.0)]
    features: Annotated[Floats, Entries("3 d")]
    plays: Annotated[Floats, Entries("models", 0.0)]
    hits: Annotated[Floats, Entries("models", 0.0)]
    exposed: Annotated[Floats, Entries("models", 0.0)]
    raw: Annotated[Floats, Entries("models 2")]
    level: Annotated[Floats, Entries("2")]

    def __init__(self, models: int, d: int, *, diagonal: bool) -> None:
        columns = 2 if diagonal else d
        self.gram, self.asked = np.zeros((models, d, columns)), np.zeros((models, d, columns))
        self.moment, self.square = np.zeros((models, d)), np.zeros(1)
        self.features, self.raw, self.level = np.zeros((3, d)), np.zeros((models, 2)), np.zeros(2)
        self.plays, self.hits, self.exposed = (np.zeros(models) for _ in range(3))

    def add(self, part: Weighed, hits: Bools, raw: Floats, start: int) -> None:
        """Add decisions; raw: their outcomes; start: the first of them in the regression."""
        fitted, models, count = part.rows(slice(start, None)), part.models, len(self.plays)
        accumulate(*fitted[:5], self.gram, self.moment, self.asked)
        self.square += (fitted.total * fitted.outcome).sum()
        describe(part.x, models, self.features)
        decided = models >= 0
        mine, reported = models[decided], models[hits]
        self.plays += np.bincount(mine, minlength=count)
        self.exposed += np.bincount(mine, part.exposed[decided], count)
        self.hits += np.bincount(reported, minlength=count)
        self.raw[:, 0] += np.bincount(reported, raw[hits], count)
        self.raw[:, 1] += np.bincount(reported, raw[hits] ** 2, count)
        self.level += part.outcome[hits].sum(), (part.outcome[hits] ** 2).sum()

    def clear(self) -> None:
        """Drop the sums of the regression, which are in the prior after a change."""
        for part in (self.gram, self.moment, self.asked, self.square):
            part[:] = 0.0


Counts = TypeVar("Counts", Sums, Delays)


def copied(counts: Counts, fresh: Counts) -> Counts:
    """Fresh counts, with what others have counted; fresh ones may have more models."""
    for name, value in vars(counts).items():
        getattr(fresh, name)[tuple(map(slice, value.shape))] = value
    return fresh


class Weighed(NamedTuple):
    """The decisions of a log as a regression takes them.

    Attributes:
        x: features (n, width).
        models: (n,), -1 before an action is chosen; the others have the same shape.
        mass: w F.
        total: w r.
        pending: 1 - w F, or 0 if nothing is awaited.
        outcome: r, clipped.
        exposed: F.
    """

    x: Floats
    models: Indices
    mass: Floats
    total: Floats
    pending: Floats
    outcome: Floats
    exposed: Floats

    def rows(self, here: slice | Bools) -> Weighed:
        """Some of the decisions."""
        parts: Any = (part[here] for part in self)
        return Weighed(*parts)


class Belief(NamedTuple):
    """The weights of all models: N(theta_i, s^2 V_i^-1), around one constant.

    Attributes:
        theta: (M, p).
        precision: V, (M, p, p); its diagonal (M, p, 1) if only that is kept.
        constant: of all models.
        weight: the precision of the constant, in outcomes.
    """

    theta: Annotated[Floats, Entries("models p")]
    precision: Annotated[Floats, Entries("models p p|1")]
    constant: Annotated[float, Entries()]
    weight: Annotated[float, Entries(low=0.0)]

    def with_model(self) -> Belief:
        """One more model, which is the mean of the others."""
        theta, precision = (
            frozen(np.concatenate([part, part.mean(axis=0, keepdims=True)])) for part in self[:2]
        )
        return Belief(theta, precision, self.constant, self.weight)


def all_report(x: Floats, models: Indices, outcome: Floats, hits: Bools, awaited: Bools) -> Weighed:
    """Decisions where every outcome reports: F is 1 after the report, and 0 before."""
    exposed = hits.astype(np.float64)
    waiting = (awaited & ~hits).astype(np.float64)
    return Weighed(x, models, exposed, outcome * exposed, waiting, outcome, exposed)


def silence_counts(
    x: Floats, models: Indices, outcome: Floats, hits: Bools, exposed: Floats, known: Known | None
) -> Weighed:
    """Decisions where silence has a meaning; the prediction p_k is that of the last fit."""
    amounts, weight = outcome[hits], np.ones(1)
    if len(amounts) and amounts.min() < amounts.max():
        tau = clipped(amounts)
        outcome = np.clip(outcome, -tau, tau)
    elif len(amounts) and known is not None:
        p = np.clip(predictions(x, models, known.theta, known.constant) / amounts[0], 0.0, 0.95)
        weight = (1.0 - p) / (1.0 - p * exposed)
    mass = weight * exposed
    return Weighed(x, models, mass, weight * outcome, (models >= 0) - mass, outcome, exposed)


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
    """Add decisions to the lower triangles of gram and asked (M, d, d), and to moment (M, d).

    If there are fewer columns than features, they are the diagonal and the constant's column.
    """
    n, width = x.shape
    d = width + 1
    diagonal = gram.shape[2] < d
    z = np.ones(d)
    for k in range(n):
        i = models[k]
        if i < 0:
            continue
        for u in range(width):
            z[u] = x[k, u]
        m, t, e = mass[k], total[k], pending[k]
        for u in range(d):
            moment[i, u] += t * z[u]
            if diagonal:
                gram[i, u, 0] += m * z[u] * z[u]
                gram[i, u, 1] += m * z[u]
                asked[i, u, 0] += e * z[u] * z[u]
                continue
            row, one = gram[i, u], m * z[u]
            for v in range(u + 1):
                row[v] += one * z[v]
            if e != 0.0:
                row, one = asked[i, u], e * z[u]
                for v in range(u + 1):
                    row[v] += one * z[v]


@njit(cache=True)
def describe(x: Floats, models: Indices, features: Floats) -> None:
    """Add the decisions to the counts, squares and sums of the features, (3, d)."""
    width = x.shape[1]
    for k in range(len(x)):
        if models[k] >= 0:
            for u in range(width):
                value = x[k, u]
                features[0, u] += value != 0.0
                features[1, u] += value * value
                features[2, u] += value
            features[:, width] += 1.0


@njit(cache=True)
def predictions(x: Floats, models: Indices, theta: Floats, constant: float) -> Floats:
    """The prediction of each decision, (n,)."""
    out = np.empty(len(x))
    width = x.shape[1]
    for k in range(len(x)):
        i = max(models[k], 0)
        total = constant
        for u in range(width):
            total += theta[i, u] * x[k, u]
        if theta.shape[1] > width:
            total += theta[i, width]
        out[k] = total
    return out


def mirrored(lower: Floats) -> Floats:
    """Symmetric matrices from lower triangles; diagonals stay as they are."""
    if lower.shape[-1] < lower.shape[-2]:
        return lower
    return np.tril(lower) + np.tril(lower, -1).swapaxes(-1, -2)


def clipped(outcomes: Floats) -> float:
    """The tau at which reported amounts are clipped: sum min(r^2 / tau^2, 1) = log(n + 2)."""
    sizes = np.sort(np.abs(outcomes))
    n = len(sizes)
    limit = math.log(n + 2.0)
    sums = np.cumsum(sizes * sizes)
    for above in range(min(math.ceil(limit), n)):  # the number of amounts above tau
        tau = math.sqrt(sums[n - above - 1] / (limit - above))
        if tau >= sizes[n - above - 1]:
            return tau
    return float(sizes[-1]) if n else math.inf


def regress(gram: Floats, moment: Floats, prior: Belief) -> tuple[Belief, Any]:
    """The regression of p features, the first p rows of gram; the last row is the constant 1.

    V = G + P, c = h - m f + P T, left = pseudo + sum N - sum f'V^-1 f,
    mu = (sum(R - m N) - sum f'V^-1 c) / left, theta = V^-1 (c - mu f), and
    gain = sum(c'V^-1 c - T'P T) + mu^2 left + 2 m sum R - m^2 sum N,
    the part of the evidence that depends on the outcomes. More axes before those of the models
    are as many regressions.
    """
    T, P, m, pseudo = prior
    p = T.shape[-1]
    if gram.shape[-1] < gram.shape[-2]:
        return _each(gram, moment, prior), 0.0
    f, N, R = gram[..., :p, -1], gram[..., -1, -1], moment[..., -1]
    V, PT = gram[..., :p, :p] + P, (P @ T[..., None])[..., 0]
    c = moment[..., :p] - m * f + PT
    solved = np.linalg.solve(V, np.stack([c, f], axis=-1))
    vc, vf = solved[..., 0], solved[..., 1]
    models = (-2, -1)
    left = pseudo + N.sum(axis=-1) - (f * vf).sum(axis=models)
    mu = ((R - m * N).sum(axis=-1) - (f * vc).sum(axis=models)) / left
    gain = (c * vc - T * PT).sum(axis=models) + mu * mu * left
    gain += 2.0 * m * R.sum(axis=-1) - m * m * N.sum(axis=-1)
    return Belief(vc - mu[..., None, None] * vf, V, m + mu, left), gain


def regressed(sums: Sums, level: Level, prior: Belief) -> tuple[Belief, float]:
    """The regression in scaled features, and s^2 = (rss + 2 spread) / (mass + 2)."""
    gram, moment = level.scaled(sums.gram), sums.moment / level.whole
    fitted, _ = regress(gram, moment, prior)
    mass = float(gram[:, -1, 0 if level.diagonal else -1].sum())
    left = residual(gram, moment, float(sums.square[0]), fitted)
    return fitted, (left + 2.0 * level.spread) / (mass + 2.0)


def volume(belief: Belief) -> Any:
    """The log determinant of all precisions."""
    return np.linalg.slogdet(belief.precision)[1].sum(axis=-1) + np.log(belief.weight)


def log_evidence(gram: Floats, moment: Floats, prior: Belief, variance: float) -> Any:
    """Twice the log of the marginal likelihood, up to what all regressions have in common."""
    fitted, gain = regress(gram, moment, prior)
    return gain / variance - volume(fitted) + volume(prior)


def _each(gram: Floats, moment: Floats, prior: Belief) -> Belief:
    """One regression per feature, each with a constant: what a diagonal allows."""
    T, P, m, pseudo = prior
    p = T.shape[1]
    f, N, R = gram[:, :p, 1], gram[:, -1, 0], moment[:, -1]
    V = gram[:, :p, :1] + P
    own = p == gram.shape[1]
    mu = m + float((R - m * N).sum() / (pseudo + N.sum()))
    level = np.full(len(N), mu)
    theta = np.empty_like(T)
    if own:
        weight = P[:, -1, 0]
        theta[:, -1] = (R - mu * N + weight * T[:, -1]) / (N + weight)
        level += theta[:, -1]
    last = p - own
    around = V[:, :last, 0] - f[:, :last] ** 2 / np.maximum(N, 1.0)[:, None]
    known = moment[:, :last] - level[:, None] * f[:, :last] + P[:, :last, 0] * T[:, :last]
    theta[:, :last] = known / np.maximum(around, P[:, :last, 0])
    shift = (theta[:, :last] * f[:, :last]).sum(axis=1) / np.maximum(N, 1.0)
    if own:
        theta[:, -1] -= shift
    else:
        mu -= float(shift[0])
    return Belief(theta, V, mu, pseudo + float(N.sum()))


def residual(gram: Floats, moment: Floats, square: float, fitted: Belief) -> float:
    """The weighted sum of squared residuals of a regression."""
    M, d = moment.shape
    beta = np.zeros((M, d))
    beta[:, : fitted.theta.shape[1]] = fitted.theta
    beta[:, -1] += fitted.constant
    if gram.shape[2] < d:
        return max(square - float((beta * moment).sum()), 0.0)
    form = float(np.vdot(beta, (gram @ beta[..., None])[..., 0]))
    return max(square - 2.0 * float((beta * moment).sum()) + form, 0.0)


def inflated(fitted: Belief, jump: float, weight: float) -> Belief:
    """The prior after a change: P = (V^-1 + D^-1)^-1, D = jump I; weight: of the constant."""
    V = fitted.precision
    if V.shape[2] < V.shape[1]:
        return fitted._replace(precision=V * jump / (V + jump), weight=weight)
    one = jump * np.eye(V.shape[1])
    return fitted._replace(precision=one - jump * jump * inverse(V + one), weight=weight)


def starts(n: int) -> list[int]:
    """The possible changes in a log of n decisions, oldest first."""
    found, age = [], float(NEWEST)
    while n - age > 10.0:
        found.append(int(n - age))
        age /= RATIO
    return found[::-1]


class Level(NamedTuple):
    """The scale of features and outcomes.

    Attributes:
        scale: (p,) root mean square of each feature of a model.
        whole: (d,) the same with the constant.
        ridge: the precision of the prior in scaled features, D.
        mean, spread: mean and variance of the outcomes.
        nonzero: the mean number of features that are not 0.
        diagonal: whether only the diagonals of matrices are kept.
    """

    scale: Floats
    whole: Floats
    ridge: float
    mean: float
    spread: float
    nonzero: float
    diagonal: bool

    def scaled(self, lower: Floats) -> Floats:
        """Matrices (M, d, d) from lower triangles, of scaled features; diagonals likewise."""
        if self.diagonal:
            return lower / np.stack([self.whole * self.whole, self.whole], axis=1)
        return mirrored(lower / np.outer(self.whole, self.whole))

    def square(self) -> Floats:
        """The scales of the entries of a matrix, (p, p), or of its diagonal (p, 1)."""
        return self.scale[:, None] ** 2 if self.diagonal else np.outer(self.scale, self.scale)

    def prior(self, models: int) -> Belief:
        """The prior of a fresh learner."""
        p = len(self.scale)
        one = np.ones((p, 1)) if self.diagonal else np.eye(p)
        precision = np.tile(self.ridge * one, (models, 1, 1))
        return Belief(np.zeros((models, p)), precision, self.mean, PSEUDO)

    def rescaled(self, prior: Belief) -> Belief:
        """A prior, for scaled features."""
        theta, precision = prior.theta * self.scale, prior.precision / self.square()
        return prior._replace(theta=theta, precision=precision)

    def unscaled(self, prior: Belief) -> Belief:
        """A prior for scaled features, for the features themselves."""
        theta, precision = prior.theta / self.scale, prior.precision * self.square()
        return prior._replace(
            theta=frozen(theta), precision=frozen(precision), constant=float(prior.constant)
        )


def level_of(sums: Sums, p: int, *, rare: bool) -> Level:
    """The scales; rare: whether silence has a meaning."""
    nonzero, squares = sums.features[:2]
    size = np.sqrt(np.maximum(squares / np.maximum(nonzero, 1.0), LEAST_SQUARE))
    size[nonzero == 0.0] = 1.0
    count = max(float(nonzero[:p].sum() / max(sums.plays.sum(), 1.0)), 1.0)
    mass = max(float(sums.exposed.sum()), 1e-9)
    mean, second = (float(part) / mass for part in sums.level)
    spread = max(second - mean * mean, 1e-12 * second + TINY)
    factor = max(1.0, math.sqrt(spread) / max(abs(mean), TINY)) if rare else 1.0
    diagonal = sums.gram.shape[2] < sums.gram.shape[1]
    return Level(size[:p], size, count * factor, mean, spread, count, diagonal)


def inverse(precision: Floats) -> Floats:
    """The inverses of symmetric matrices, by Cholesky; of diagonals, one by one."""
    if precision.shape[2] < precision.shape[1]:
        return 1.0 / precision[..., :1]
    lower = np.empty_like(precision)
    for i, V in enumerate(precision):
        root, failed = lapack.dpotrf(V, lower=1)
        lower[i] = np.linalg.inv(V) if failed else lapack.dpotri(root, lower=1)[0]
    return mirrored(lower)


def evidence(
    log: Weighed, past: Sums, level: Level, prior: Belief, fitted: Belief, variance: float
) -> tuple[float, int]:
    """The probability of a change in a log, and its median start.

    Args:
        log: the decisions.
        past: the sums over decisions before them.
        level: the scales.
        prior: of the regression without a change, in scaled features.
        fitted: that regression.
        variance: s^2.
    """
    at = starts(len(log.x))
    if not at:
        return 0.0, 0
    said = predictions(log.x, log.models, fitted.theta / level.scale, fitted.constant)
    tails = 0.5 * _tails(log, said)
    jump, scale = np.full(prior.theta.shape, level.ridge), level.whole
    if len(level.scale) > WIDE:
        left, squares = _left_out(log, said, inverse(fitted.precision) / level.square())
        variance = float(squares.sum() + 2.0 * level.spread) / (float(log.mass.sum()) + 2.0)
        log = left._replace(x=left.x - fitted.constant)
        slope = level.ridge * (fitted.theta**2).sum(axis=1)
        jump = np.stack([np.maximum(slope, TINY), jump[:, 0]], axis=1)
        scale, flat = np.ones(2), np.tile([1.0, 0.0], (len(jump), 1))
        prior = Belief(flat, jump[:, :, None] * np.eye(2), fitted.constant, FIXED)
    grams, moments = _from_each(log, [0, *at, len(log.x)], scale, len(jump))
    if len(level.scale) <= WIDE:
        grams[0] += level.scaled(past.gram)
        moments[0] += past.moment / scale
    plain = log_evidence(grams[0], moments[0], prior, variance)
    counted = np.concatenate([[0.0], np.cumsum(log.exposed)])
    ages = len(log.x) - np.array(at)
    ready = np.flatnonzero(counted[-1] - counted[at] >= EXPOSED * ages)
    logs = np.full(len(at), -math.inf)
    many = max(1, BATCHED // (4 * jump.size * len(jump[0])))  # regressions at once
    for part in np.split(ready, range(many, len(ready), many)):
        changed = _doubled(grams[0], moments[0], grams[part + 1], moments[part + 1], prior, jump)
        gained = log_evidence(*changed, variance) - plain
        logs[part] = tails * gained + math.log(CHANGE / len(at))
    top = max(0.0, float(logs.max()))
    weights = np.exp(logs - top)
    total = float(weights.sum())
    if total == 0.0:
        return 0.0, 0
    median = int(np.searchsorted(np.cumsum(weights), 0.5 * total))
    return total / (total + math.exp(-top)), at[min(median, len(at) - 1)]


def _left_out(log: Weighed, said: Floats, covariance: Floats) -> tuple[Weighed, Floats]:
    """The log with predictions in place of features, and their squared residuals.

    The prediction of a decision is that of the regression without its own outcome, like that of a
    decision whose outcome is still to come; 1 - w F z'V^-1 z is the weight of its residual.
    """
    spread = spreads(log.x, log.models, covariance)
    weight = 1.0 - log.mass * spread
    said = said - spread * (log.total - log.mass * said) / weight
    mass, total = log.mass * weight, log.total * weight
    squares = total * (log.outcome - 2.0 * said) + mass * said * said
    return log._replace(x=said[:, None], mass=mass, total=total), squares


@njit(cache=True, fastmath={"reassoc", "contract"})
def spreads(x: Floats, models: Indices, covariance: Floats) -> Floats:
    """Z' C z of every decision, (n,)."""
    width, p = x.shape[1], covariance.shape[1]
    z, out = np.ones(p), np.zeros(len(x))
    for k in range(len(x)):
        C = covariance[max(models[k], 0)]
        z[:width] = x[k]
        for u in range(p):
            inner = 0.0
            for v in range(u):
                inner += C[u, v] * z[v]
            out[k] += z[u] * (2.0 * inner + C[u, u] * z[u])
    return out


def _from_each(
    log: Weighed, bounds: list[int], scale: Floats, models: int
) -> tuple[Floats, Floats]:
    """Scaled grams and moments of the decisions from each bound on, but for the last."""
    d, H = log.x.shape[1] + 1, len(bounds) - 1
    lower, moments = np.zeros((H, models, d, d)), np.zeros((H, models, d))
    unused = np.zeros((models, d, d))
    for place in range(H):
        x, of, mass, total, *_ = log.rows(slice(bounds[place], bounds[place + 1]))
        accumulate(x, of, mass, total, np.zeros(len(x)), lower[place], moments[place], unused)
    grams = mirrored(np.cumsum(lower[::-1], axis=0)[::-1] / np.outer(scale, scale))
    return grams, np.cumsum(moments[::-1], axis=0)[::-1] / scale


def _doubled(
    gram: Floats, moment: Floats, late: Floats, later: Floats, prior: Belief, jump: Floats
) -> tuple[Floats, Floats, Belief]:
    """Sums and prior of regressions with the features (x, x 1[k >= j]).

    gram, moment: of all decisions. late, later: the same of those from each j on, (n, M, ...).
    """
    (M, p), n = prior.theta.shape, len(late)
    G, h = np.zeros((n, M, 2 * p + 1, 2 * p + 1)), np.zeros((n, M, 2 * p + 1))
    G[..., :p, :p], G[..., -1, -1] = gram[:, :p, :p], gram[:, -1, -1]
    G[..., :p, -1], G[..., p:-1, -1] = gram[:, :p, -1], late[..., :p, -1]
    for rows, columns in ((0, p), (p, 0), (p, p)):
        G[..., rows : rows + p, columns : columns + p] = late[..., :p, :p]
    h[..., :p], h[..., p:-1], h[..., -1] = moment[:, :p], later[..., :p], moment[:, -1]
    precision = np.zeros((M, 2 * p, 2 * p))
    precision[:, :p, :p] = prior.precision
    precision[:, range(p, 2 * p), range(p, 2 * p)] = jump
    theta = np.concatenate([prior.theta, np.zeros((M, p))], axis=1)
    return G, h, prior._replace(theta=theta, precision=precision)


def _tails(log: Weighed, said: Floats) -> float:
    """At most 1: the factor of the evidence where outcomes have heavy tails, 3 over kurtosis."""
    taken = (log.exposed > 0.5) | (log.total != 0.0)
    squares = (log.outcome - log.exposed * said)[taken] ** 2
    fourth = len(squares) * float((squares * squares).sum())
    return min(1.0, 3.0 * float(squares.sum()) ** 2 / max(fourth, TINY))
