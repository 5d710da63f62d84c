"""The kernels of the learner against densities, inverses, integrals and draws written plainly."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

import belated as bl
from belated.linear import fit, model
from belated.linear.exposure import EDGES, UNIT_EDGES, Delays
from belated.linear.model import uniform

seeds = st.integers(0, 2**32)


def sample(seed, M=3, width=2, n=40):
    """Features, models, masses w F and totals w r of decisions; and y = r / F."""
    rng = np.random.default_rng(seed)
    x, models = rng.normal(size=(n, width)), rng.integers(0, M, n).astype(np.int32)
    mass, y = rng.uniform(0.2, 1.5, n), rng.normal(0.5, 1.0, n)
    return x, models, mass, mass * y, y


def with_constant(x):
    return np.column_stack([x, np.ones(len(x))])


def summed(x, models, mass, total, M):
    """Gram and moment of each model."""
    z, mine = with_constant(x), np.eye(M)[models] * (models >= 0)[:, None]
    gram = np.einsum("k,ki,ku,kv->iuv", mass, mine, z, z)
    return gram, np.einsum("k,ki,ku->iu", total, mine, z)


def design(x, models, M, own):
    """One column per model and feature, (n, M p); own: whether models have a constant."""
    z = with_constant(x)[:, : x.shape[1] + own]
    return np.einsum("ki,ku->kiu", np.eye(M)[models], z).reshape(len(x), -1)


def taken(x, models, mass, y, exposed=None, hits=None, raw=None):
    """Decisions as a regression takes them."""
    n = len(x)
    exposed = np.ones(n) if exposed is None else exposed
    hits = np.zeros(n, bool) if hits is None else hits
    parts = (mass, mass * y, 0.1 * mass, y, exposed, y if raw is None else raw, hits)
    return fit.Weighed(x, models, *parts, np.ones(n), np.full(n, 9.0))


def scales(jump, M, mean=0.3, spread=0.9):
    """Sums with these scales, whose last feature is the constant."""
    sums = fit.Sums(M, len(jump), len(jump), rare=False)
    sums.plays[0], sums.exposed[0] = len(jump) / jump[-1], 1.0
    sums.features[0], sums.features[1] = 1.0, jump / jump[-1]
    sums.level[:] = mean, spread + mean**2
    return sums


def definite(rng, M, p):
    roots = rng.normal(size=(M, p + 2, p))
    return np.einsum("iku,ikv->iuv", roots, roots) + 0.1 * np.eye(p)


def density(y, mass, X, T, P, m, pseudo, s2):
    """The log density of y = X theta + mu + noise / sqrt(mass); all in units of s^2."""
    covariance = np.diag(1.0 / mass) + X @ np.linalg.solve(P, X.T) + 1.0 / pseudo
    return stats.multivariate_normal(X @ T + m, s2 * covariance).logpdf(y)


# Regressions


@given(seed=seeds, M=st.integers(1, 3), width=st.integers(0, 3), own=st.booleans())
@settings(max_examples=30)
def test_a_regression_is_ridge(seed, M, width, own):
    """All equations as one least squares problem, with the constant of all models as a column."""
    width += not own and width == 0
    x, models, mass, total, y = sample(seed, M, width)
    rng, p = np.random.default_rng(seed), width + own
    T, P, m = rng.normal(size=(M, p)), definite(rng, M, p), 0.4
    prior = fit.Belief(T, P, m, fit.PSEUDO)
    found = fit.regress(*summed(x, models, mass, total, M), prior)
    X, root = design(x, models, M, own), np.sqrt(mass)
    U = linalg.block_diag(*(np.linalg.cholesky(each).T for each in P), math.sqrt(0.1))
    rows = np.vstack([with_constant(X) * root[:, None], U])
    solved = np.linalg.lstsq(rows, np.append(root * y, U @ np.append(T, m)))[0]
    np.testing.assert_allclose(found.theta.ravel(), solved[:-1], rtol=1e-6, atol=1e-8)
    assert found.constant == pytest.approx(solved[-1], rel=1e-6, abs=1e-8)
    left = fit.residual(*summed(x, models, mass, total, M), (mass * y * y).sum(), found)
    assert left == pytest.approx((mass * (y - with_constant(X) @ solved) ** 2).sum(), rel=1e-6)


@given(seed=seeds)
@settings(max_examples=10)
def test_sums_over_decisions(seed):
    """Those without an action count nowhere; only lower triangles are written."""
    rng = np.random.default_rng(seed)
    x, models, mass, total, _ = sample(seed, n=30)
    models[rng.random(30) < 0.2] = -1
    pending = rng.random(30) * (rng.random(30) < 0.7)
    gram, asked = np.zeros((2, 3, 3, 3))
    moment = np.zeros((3, 3))
    for _ in range(2):
        fit.accumulate(x, models, mass, total, pending, gram, moment, asked)
    for found, weight in ((gram, mass), (asked, pending)):
        want, h = summed(x, models, 2.0 * weight, 2.0 * total, 3)
        np.testing.assert_allclose(found, np.tril(want), atol=1e-12)
    np.testing.assert_allclose(moment, h, atol=1e-12)
    theta = rng.normal(size=(3, 3))
    for p in (2, 3):
        found = fit.predictions(x, models, theta[:, :p].copy(), 0.25)
        want = 0.25 + (with_constant(x)[:, :p] * theta[np.maximum(models, 0), :p]).sum(1)
        np.testing.assert_allclose(found, want)


def test_decisions_are_weighed_by_what_can_have_come():
    """w = (1 - p) / (1 - p F) if all reports are equal, p at most .95; otherwise 1, clipped."""
    x, models = np.array([[0.0], [1.0], [3.0], [1.0], [0.0]]), np.array([0, 0, 1, 1, -1], np.int32)
    exposed, hits = (
        np.array([0.5, 1.0, 0.25, 0.8, 0.0]),
        np.array([False, True, True, False, False]),
    )
    theta = np.array([[0.2, 0.1], [0.9, 0.0]])
    known = model.Known(theta, np.ones((2, 2, 2)), 0.4, 1.0, 0.5, 2.0, 5, 2)
    outcome = np.where(hits, 2.0, 0.0)
    p = np.array([0.25, 0.35, 0.95, 0.65, 0.25])  # of a report, each of 2; the third has 1.55
    w = (1.0 - p) / (1.0 - p * exposed)
    found, weight = fit.weights(x, models, outcome, hits, exposed, known)
    np.testing.assert_allclose(weight, w, rtol=1e-12)
    assert found.tolist() == outcome.tolist()
    outcome = np.array([0.0, 1.0, -9.0, 0.0, 0.0])
    found, weight = fit.weights(x, models, outcome, hits, exposed, known)
    tau = fit.clipped(outcome[hits])
    assert found.tolist() == np.clip(outcome, -tau, tau).tolist()
    assert weight.tolist() == [1.0]


@pytest.mark.parametrize("silence", [0.0, None])
def test_decisions_are_read_from_the_log(silence):
    """Under silence mass and pending add up to 1; otherwise F is 1 after the report."""
    agent = bl.LinearSampler(bl.Choice(2, 1), silence=silence, floor=1.0, changes=False)
    for k in range(6):
        agent.decide([float(k)])
        agent.observe([bl.Reward(k // 2, 3.0)] if k % 2 else [])
    agent.forget(1)
    agent.forget(4)
    agent.begin_episode()
    found = agent._weigh().rows(slice(1, 7))
    assert found.x[:, 0].tolist() == [1, 2, 3, 4, 5, 0]
    assert found.hits.tolist() == [True, True, False, False, False, False]
    assert found.raw[:2].tolist() == found.outcome[:2].tolist() == [3.0, 3.0]
    assert found.delays[:2].tolist() == [2.0, 3.0]
    assert found.ages[:5].tolist() == [4, 3, 2, 1, 0]
    assert found.ages[5] < 0.0
    if silence is None:
        assert found.mass.tolist() == found.exposed.tolist() == [1, 1, 0, 0, 0, 0]
        assert found.total.tolist() == [3, 3, 0, 0, 0, 0]
        assert found.pending.tolist() == [0, 0, 1, 0, 1, 0]
    else:
        assert 0.0 < found.exposed[2] < 1.0
        np.testing.assert_allclose(found.mass + found.pending, [1, 1, 1, 1, 1, 0])
        weight = found.mass[:3] / found.exposed[:3]
        np.testing.assert_allclose(found.total[:3], weight * [3.0, 3.0, 0.0])


def test_sums_of_decisions_and_the_variance_of_an_outcome():
    """Rows before the start count in everything but the regression."""
    x, models, mass, total, y = sample(1, 2, 2, 30)
    hits, exposed = np.arange(30) % 3 == 0, np.linspace(0.1, 1.0, 30)
    raw = 1.5 * y * hits  # what has not reported is 0
    sums = fit.Sums(2, 3, 3, rare=False)
    sums.take(taken(x, models, mass, y, exposed, hits, raw), 10)
    gram, moment = summed(x[10:], models[10:], mass[10:], total[10:], 2)
    np.testing.assert_allclose(sums.gram, np.tril(gram), atol=1e-12)
    np.testing.assert_allclose(sums.asked, np.tril(0.1 * gram), atol=1e-12)
    np.testing.assert_allclose(sums.moment, moment, atol=1e-12)
    z = with_constant(x)
    np.testing.assert_allclose(sums.features, [(z != 0).sum(0), (z * z).sum(0), z.sum(0)])
    assert sums.square[0] == pytest.approx((total * y)[10:].sum())
    assert sums.level.tolist() == pytest.approx([y[hits].sum(), (y[hits] ** 2).sum()])
    for i in range(2):
        mine = models == i
        assert (sums.plays[i], sums.hits[i]) == (mine.sum(), (mine & hits).sum())
        assert sums.exposed[i] == pytest.approx(exposed[mine].sum())
        assert sums.raw[i] == pytest.approx([raw[mine & hits].sum(), (raw[mine & hits] ** 2).sum()])
    assert sums.came.sum() == hits.sum()
    prior = scales(np.full(3, 2.0), 2).fresh()
    fitted, variance = fit.regressed(sums, prior)
    want = fit.regress(gram, moment, prior)
    np.testing.assert_allclose(fitted.theta, want.theta, rtol=1e-9)
    rss = fit.residual(gram, moment, (mass * y * y)[10:].sum(), want)
    assert variance == pytest.approx((rss + 2.0 * sums.outcome[1]) / (mass[10:].sum() + 2.0))
    one = fit.Sums(3, 3, 3, rare=False).including(sums)
    assert (one.gram.shape, one.raw.shape, one.plays[2]) == ((3, 3, 3), (3, 2), 0.0)
    one.clear()
    assert sums.gram.any()
    assert not one.gram.any()


@given(seed=seeds, n=st.integers(2, 300), spread=st.floats(0.0, 3.0))
@settings(max_examples=40)
def test_clipping_solves_its_equation(seed, n, spread):
    amounts = np.exp(spread * np.random.default_rng(seed).normal(size=n)) * (-1.0) ** np.arange(n)
    tau = fit.clipped(amounts)
    assert np.minimum(amounts**2 / tau**2, 1.0).sum() == pytest.approx(math.log(n + 2.0))
    for power in (-40, 30):
        assert fit.clipped(amounts * 2.0**power) == tau * 2.0**power


def test_one_amount_is_not_clipped():
    assert fit.clipped(np.array([-3.0])) == 3.0
    assert fit.clipped(np.zeros(0)) == math.inf


@given(seed=seeds)
@settings(max_examples=10)
def test_after_a_change_the_prior_is_wider_by_the_change(seed):
    rng = np.random.default_rng(seed)
    V, T, jump = definite(rng, 2, 3), rng.normal(size=(2, 3)), 1.7
    jump = jump * np.array([1.0, 4.0, 0.3])
    found = fit.inflated(fit.Belief(T, V, 0.3, 9.0), jump, fit.PSEUDO)
    want = np.linalg.inv(np.linalg.inv(V) + np.diag(1.0 / jump))
    np.testing.assert_allclose(found.precision, want, rtol=1e-6, atol=1e-9)
    assert found.theta.tolist() == T.tolist()
    assert (found.constant, found.weight) == (0.3, fit.PSEUDO)
    # what later decisions do not say remains: model 1 has none
    x, _, mass, total, _ = sample(seed)
    later = fit.regress(*summed(x, np.zeros(40, np.int32), mass, total, 2), found)
    np.testing.assert_allclose(later.theta[1], T[1], rtol=1e-9)
    np.testing.assert_allclose(later.precision[1], found.precision[1])
    more = found.with_model()
    np.testing.assert_allclose(more.theta[2], T.mean(0))
    np.testing.assert_allclose(more.precision[2], found.precision.mean(0))


def test_the_level_is_that_of_the_sums():
    """Root mean squares where features are not 0; the prior is stronger for rare outcomes."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 2)) * [30.0, 0.1] * (rng.random((50, 2)) < 0.6)
    r = np.where(rng.random(50) < 0.1, 2.0, 0.0)
    z = with_constant(x)
    nonzero = (with_constant(x) != 0).sum(1).mean()
    mean = r.sum() / 40.0
    spread = (r * r).sum() / 40.0 - mean**2
    for rare, factor in ((False, 1.0), (True, math.sqrt(spread) / mean)):
        sums = fit.Sums(1, 3, 3, rare=rare)
        sums.features[:] = (z != 0).sum(0), (z * z).sum(0), z.sum(0)
        sums.plays[:], sums.exposed[:], sums.level[:] = 50, 40.0, (r.sum(), (r * r).sum())
        prior, want = sums.fresh(), np.array([*((c[c != 0] ** 2).mean() for c in x.T), 1.0])
        np.testing.assert_allclose(sums.jump, sums.ridge * want)
        assert sums.ridge == pytest.approx(nonzero * factor)
        assert (prior.constant, sums.outcome[1]) == pytest.approx((mean, spread))
        np.testing.assert_allclose(prior.precision, [np.diag(sums.jump)])
        assert (prior.weight, sums.nonzero) == (fit.PSEUDO, nonzero)
    sums.features[:2, 1] = 0.0  # a feature that was never seen
    assert sums.jump[1] == sums.ridge


@given(seed=seeds)
@settings(max_examples=10)
def test_features_of_any_scale_give_the_same_predictions(seed):
    rng, s = np.random.default_rng(seed), np.array([1e-9, 1e11, 1.0])
    gram, moment = summed(*sample(seed)[:4], 3)
    prior = fit.Belief(np.zeros((3, 3)), definite(rng, 3, 3), 0.2, fit.PSEUDO)
    other = prior._replace(precision=prior.precision * np.outer(s, s))
    plain = fit.regress(gram, moment, prior)
    scaled = fit.regress(gram * np.outer(s, s), moment * s, other)
    np.testing.assert_allclose(scaled.theta * s, plain.theta, rtol=1e-8)
    V = definite(rng, 2, 3)
    np.testing.assert_allclose(
        fit.inverse(V * np.outer(s, s)) * np.outer(s, s), np.linalg.inv(V), rtol=1e-8
    )
    odd = np.array([[[1.0, 2.0], [2.0, 1.0]]])  # not definite: inverted all the same
    np.testing.assert_allclose(fit.inverse(odd), np.linalg.inv(odd))


# The evidence of a change


def judged(weighed, sums, M):
    """What `evidence` says, and the regression without a change."""
    fitted = fit.regress(*summed(*weighed[:4], M), sums.fresh())
    return fit.evidence(weighed, sums, fitted), fitted


def posterior(logs, count):
    """The probability of a change and the median place, from log Bayes factors."""
    odds = np.exp(logs) * 0.03 / count
    return odds.sum() / (1.0 + odds.sum()), np.searchsorted(np.cumsum(odds), 0.5 * odds.sum())


def test_predictions_are_made_without_the_outcome_that_they_predict():
    """Those of as many regressions, each without one decision, and the sum of their squares."""
    M, width = 2, 3
    x, models, mass, total, y = sample(5, M, width, 25)
    models[3], mass[3], total[3] = -1, 0.0, 0.0  # has not acted
    weighed = taken(x, models, mass, y)
    prior = scales(np.full(4, 2.0), M).fresh()._replace(weight=fit.FIXED)
    fitted = fit.regress(*summed(*weighed[:4], M), prior)
    said = fit.predictions(x, models, fitted.theta, fitted.constant)
    left, weight, moved = fit._left_out(weighed, said, np.linalg.inv(fitted.precision))
    for k in range(25):
        kept = np.arange(25) != k
        other = fit.regress(*summed(x[kept], models[kept], mass[kept], total[kept], M), prior)
        want = fit.predictions(x[k : k + 1], models[k : k + 1], other.theta, other.constant)[0]
        assert left[k] == pytest.approx(want, rel=1e-5)
        if k != 3:
            spread = x_form(x[k], other.precision[models[k]])
            assert weight[k] == pytest.approx(mass[k] / (1.0 + mass[k] * spread))
            assert moved[k] == pytest.approx(weight[k] * y[k])


def test_recent_decisions_move_the_weights_of_the_models_that_have_some():
    """Each model's weighted least squares around the weights that it had; model 2 keeps them."""
    M, width, n = 3, 2, 900
    x, models, mass, _, y = sample(7, M - 1, width, n)
    sums, log = scales(np.full(3, 2.0), M), taken(x, models, mass, y)
    rng = np.random.default_rng(1)
    whole = fit.Belief(rng.normal(size=(M, 3)), definite(rng, M, 3), 0.4, 30.0)
    found = fit.recent(log, sums, whole)
    weights = mass * np.exp((np.arange(n) - n + 1) / 400.0)
    for i in range(M):
        z, w = with_constant(x)[models == i], weights[models == i]
        V = (z.T * w) @ z + np.diag(sums.jump)
        left = y[models == i] - 0.4 - z @ whole.theta[i]
        want = whole.theta[i] + np.linalg.solve(V, (z.T * w) @ left)
        np.testing.assert_allclose(found[i], want, rtol=1e-9)
    np.testing.assert_allclose(found[2], whole.theta[2], rtol=1e-12)


@pytest.mark.parametrize("true", [-0.5, 0.0, 0.4, 1.0, 1.6])
def test_the_share_of_recent_decisions_is_that_of_least_squares(true):
    """Less three times what one squared standard error would gain, between 0 and 1."""
    n, rng = 3000, np.random.default_rng(2)
    said = rng.normal(size=(n, 2))
    mass = rng.random(n)
    y = said[:, 0] + true * (said[:, 1] - said[:, 0]) + 0.1 * rng.normal(size=n)
    log = taken(np.zeros((n, 0)), np.zeros(n, np.int32), mass, y)
    w = np.exp((np.arange(n) - n + 1) / 1000.0) * mass
    moved = said[:, 1] - said[:, 0]
    gained, squares = (w * moved * (y - said[:, 0])).sum(), (w * moved**2).sum()
    for variance in (0.01, 40.0):
        want = gained / squares - 3.0 * variance / gained if gained > 0.0 else 0.0
        assert fit.drift(log, said, variance) == pytest.approx(np.clip(want, 0.0, 1.0), abs=1e-12)
    assert fit.drift(log, np.tile(said[:, :1], 2), 0.01) == 0.0
    never = log._replace(mass=np.zeros(n))  # outcomes at ages at which none was expected
    assert 0.0 <= fit.drift(never, said, 0.01) <= 1.0


def x_form(x, precision):
    z = np.append(x, 1.0)
    return z @ np.linalg.inv(precision) @ z


@pytest.mark.parametrize(("seed", "step"), [(0, 0.0), (1, 1.5), (2, 2.5), (3, -2.5)])
@pytest.mark.parametrize("width", [0, 2, 40])
def test_the_probability_of_a_change_is_that_of_normal_densities(seed, step, width):
    """Two models, from decision 50 on another constant: another factor and constant of each."""
    M, n = 2, 90
    x, models, mass, _, y = sample(seed, M, width, n)
    y[50:] += step * (models[50:] == 0)
    sums = scales(2.0 * np.append(np.full(width, 1.5), 1.0) ** 2, M, 0.5, 1.0)
    exposed = np.where(np.arange(n) < n - 28, 1.0, 0.3)  # the newest start is not ready
    weighed = taken(x, models, mass, y, exposed)
    (probability, start), fitted = judged(weighed, sums, M)
    ages = [24 / 0.7**k for k in range(9) if n - 24 / 0.7**k > 10.0]
    at = [int(n - age) for age in reversed(ages)]
    assert fit.starts(n) == at
    said = fitted.constant + design(x, models, M, True) @ fitted.theta.ravel()
    left, weight, _ = fit._left_out(weighed, said, np.linalg.inv(fitted.precision))
    squares = mass * (y - said) * (y - exposed * left)  # outcomes are y here, whatever F
    s2 = (squares.sum() + 2.0 * sums.outcome[1]) / (mass.sum() + 2.0)
    X = design(left[:, None] - fitted.constant, models, M, True)
    slopes = np.maximum((sums.jump * fitted.theta**2).sum(1), s2)
    P = np.diag(np.array([[slope, sums.ridge] for slope in slopes]).ravel())
    T, m, pseudo = np.tile([1.0, 0.0], M), fitted.constant, 1e12
    plain, logs = density(y, weight, X, T, P, m, pseudo, s2), []
    squares = (y - exposed * said) ** 2
    heavy = min(1.0, 3.0 * squares.mean() ** 2 / (squares**2).mean())
    for j in at:
        both = np.hstack([X, X * (np.arange(n) >= j)[:, None]])
        PD, TD = linalg.block_diag(P, P), np.append(T, 0.0 * T)
        ready = exposed[j:].mean() >= 0.4
        jump = density(y, weight, both, TD, PD, m, pseudo, s2) - plain
        logs.append(heavy * jump if ready else -math.inf)
    want, place = posterior(np.array(logs), len(at))
    assert probability == pytest.approx(want, rel=1e-4)
    assert start == at[place]
    assert logs[-1] == -math.inf


def test_the_evidence_of_a_change_is_an_integral():
    """One action without features: its constant and the change of it on a grid."""
    rng = np.random.default_rng(4)
    y, s2, D, j = rng.normal(0.2, 0.7, 40), 0.5, 1.3, 22
    y[j:] += 0.9
    grid = np.linspace(-5.0, 5.0, 801)
    step, width = grid[1] - grid[0], math.sqrt(s2 / D)
    like = lambda part: np.exp(  # noqa: E731
        stats.norm.logpdf(part[:, None], grid, math.sqrt(s2)).sum(0)
    )
    prior = stats.norm.pdf(grid, 0.0, width)
    plain = (like(y) * prior).sum() * step
    later = like(y[j:])
    moved = [  # of each constant: the integral over its change, from the later decisions
        (later * stats.norm.pdf(grid - theta, 0.0, width)).sum() * step for theta in grid
    ]
    changed = (like(y[:j]) * prior * moved).sum() * step
    before, after = float(j), 40.0 - j
    gram = np.array([[[before + after, after], [after, after]]])
    both = gram, np.array([[y.sum(), y[j:].sum()]]), np.full((1, 2), D)
    one = gram[:, :1, :1], both[1][:, :1], both[2][:, :1]
    found = (fit.log_evidence(*both, s2) - fit.log_evidence(*one, s2)) / 2.0
    assert found == pytest.approx(math.log(changed / plain), rel=1e-6)
    assert found > 2.0


# Exposure


def plain_shares(models, delays, ages, A, weight=10.0):
    """F at the edges by the definition, from reports (inf: silent), (A, E)."""
    seen = delays <= ages
    share = np.ones((A, EDGES))
    for j in range(EDGES - 1, 0, -1):
        low, high = UNIT_EDGES[j - 1], UNIT_EDGES[j]
        mine, below = seen & (delays > low) & (delays <= high), seen & (delays <= high)
        if not (seen & (delays > low)).any():
            continue
        came = [(mine & (ages >= high) & (models == a)).sum() for a in range(A)]
        risk = [(below & (ages >= high) & (models == a)).sum() for a in range(A)]
        pool = (sum(came) + mine.sum() / max(below.sum(), 1)) / (sum(risk) + 1.0)
        hazard = (np.array(came) + weight * pool) / (np.array(risk) + weight)
        share[:, j - 1] = share[:, j] * (1.0 - hazard)
    return share


def counted(models, delays, ages, A):
    fresh, seen = Delays(A), delays <= ages
    cut = len(seen) // 3  # counts are added in any parts
    for part in (np.flatnonzero(seen)[:cut], np.flatnonzero(seen)[cut:]):
        fresh.add(models[part], delays[part], ages[part])
    return fresh


def test_delays_are_counted_as_the_reverse_hazard_says():
    rng = np.random.default_rng(0)
    T, models = 150, rng.integers(0, 2, 150)
    delays = np.where(rng.random(T) < 0.6, rng.geometric(0.08, T) - 1.0, np.inf)
    ages = T - 1.0 - np.arange(T)
    fresh, came = counted(models, delays, ages, 2), delays <= ages
    for a in range(2):
        for j in range(20):
            mine = came & (models == a)
            in_bin = (
                mine & (delays > (UNIT_EDGES[j - 1] if j else -1.0)) & (delays <= UNIT_EDGES[j])
            )
            at_risk = mine & (delays <= UNIT_EDGES[j]) & (ages >= UNIT_EDGES[j])
            assert fresh.came[a, j] == (in_bin & at_risk).sum()
            assert fresh.risk[a, j] == at_risk.sum()
            assert fresh.early[a, j] == (in_bin & ~at_risk).sum()
    np.testing.assert_allclose(fresh.shares(), plain_shares(models, delays, ages, 2), rtol=1e-12)
    assert UNIT_EDGES[:9].tolist() == [0, 1, 2, 3, 4, 6, 8, 12, 16]
    assert UNIT_EDGES[-1] == 3.0 * 2.0**30


def test_exposure_is_a_kaplan_meier_of_reversed_time():
    """Every delay in a bin of its own, so that bins lose nothing; one report of 2,000 is added."""
    rng = np.random.default_rng(2)
    T = 2000
    delays, ages = rng.integers(0, 5, T).astype(float), T - 1.0 - np.arange(T)
    share = counted(np.zeros(T, int), delays, ages, 1).shares()[0]
    want, seen = 1.0, delays <= ages
    for value in (4, 3, 2, 1):
        assert share[value] == pytest.approx(want, abs=1e-4)
        want *= 1.0 - (seen & (delays == value)).sum() / (
            (seen & (delays <= value) & (ages >= value)).sum()
        )
    assert share[0] == pytest.approx(want, abs=1e-4)


def test_exposure_is_the_distribution_of_delays():
    """A geometric law with 950 reports: error .02 to .03; the histogram of what came has more."""
    rng = np.random.default_rng(1)
    T, errors, naive = 1600, [], []
    for _ in range(6):
        delays = np.where(rng.random(T) < 0.7, rng.geometric(0.005, T) - 1.0, np.inf)
        ages, models = T - 1.0 - np.arange(T), np.zeros(T, int)
        fresh, at = counted(models, delays, ages, 1), np.arange(0.0, 800.0, 7.0)
        found = fresh.at(np.zeros(len(at), int), at)
        true = 1.0 - 0.995 ** (at + 1.0)
        errors.append(np.abs(found - true).max())
        naive.append(np.abs((delays[delays <= ages][None] <= at[:, None]).mean(1) - true).max())
    assert np.mean(errors) < 0.04
    assert np.mean(errors) < np.mean(naive)


def test_few_delays_are_shrunk_to_their_histogram():
    """One report of four has a long delay, whose edge no decision with a report has reached."""
    fresh = Delays(1)
    fresh.add(np.zeros(4, int), np.array([0.0, 0.0, 0.0, 5.0]), np.array([4.0, 3.0, 2.0, 5.0]))
    assert fresh.risk[0, 5] == 0.0
    assert fresh.shares()[0, 4] == pytest.approx(1.0 - 10.0 * 0.25 / 10.0)


def test_exposure_between_two_edges_follows_the_delays_seen_there():
    k = np.arange(400)
    fresh = Delays(1)
    fresh.add(0 * k, np.where(k % 2, 200.0, 8.0 + k % 8 / 2.0), 599.0 - k)
    at = np.array([-1.0, 7.0, 8.0, 10.0, 11.0, 150.0, 199.0, 199.5, 200.0, 1e6])
    found = fresh.at(np.zeros(len(at), int), at)
    np.testing.assert_allclose(
        found, [0.0, 0.0, 0.125, 0.375, 0.5, 0.5, 0.5, 0.75, 1.0, 1.0], atol=2e-3
    )
    assert found[-1] == found[-2] == 1.0
    at_once = Delays(1)
    at_once.add(np.zeros(2, int), np.zeros(2), np.full(2, 5.0))
    assert at_once.at(np.array([0, 0, -1]), np.array([-1.0, 0.0, 3.0])).tolist() == [0, 1, 0]


# Choice


def test_a_floor_and_a_holdout_are_added():
    """Uniform before the first report; then 1 - floor of the best, and a share of the reference."""
    known = model.Known(
        np.array([[1.0], [0.0]]), np.full((2, 1, 1), 1e-20), 0.0, 1e-9, 0.5, 1.0, 9, 9
    )
    rows, both = np.zeros((1, 0)), np.arange(2)
    for floor, holdout, reference, want in (
        (0.0, 0.0, None, 1.0),
        (0.1, 0.0, None, 0.95),
        (0.1, 0.5, None, 0.725),
        (0.1, 0.5, (0.2, 0.8), 0.575),
        (0.1, 0.5, (0.0, 0.0), 0.725),
    ):
        made = model.Model(bl.Choice(2), floor=floor, holdout=holdout)
        made.reference = reference
        plain = made.shares(rows, both)
        made.known = known
        np.testing.assert_allclose(made.shares(rows, both), [want, 1.0 - want], rtol=1e-9)
        assert plain[0] == pytest.approx(
            0.5 if holdout == 0.0 or reference in (None, (0.0, 0.0)) else 0.35
        )


@given(
    seeds, st.integers(1, 4), st.integers(1, 5), st.booleans(), st.sampled_from([0.0, 0.02, 0.5])
)
@settings(max_examples=40)
def test_scores_are_their_definition(seed, p, A, shared, rate):
    rng = np.random.default_rng(seed)
    models = rng.permutation(A).astype(np.int64)
    x, theta = rng.normal(size=(A if shared else 1, p - 1)), rng.normal(size=(A, p))
    C = np.linalg.inv(definite(rng, A, p) * np.exp(rng.uniform(0.0, 5.0, (A, 1, 1))))
    sigma, constant, nonzero = 0.7, 0.2, 2.5
    known = model.Known(theta, C, constant, sigma, rate, nonzero, 9, 9)
    means, widths = model.scores(x, models, theta, C, known[2:6])
    for a, i in enumerate(models):
        z = np.append(x[a if shared and A > 1 else 0], 1.0)
        q = z @ C[i] @ z
        error = sigma * math.sqrt(q)
        c = math.sqrt(min(1.0, 3.0 * q / (nonzero * rate) if rate else 1.0) / nonzero)
        want = constant + theta[i] @ z + 0.5 * error, c * error
        assert (means[a], widths[a]) == pytest.approx(want, rel=1e-9, abs=1e-12)


def shares(means, widths):
    return model.best_of(np.array(means, float), np.array(widths, float))


@pytest.mark.parametrize("ratio", [1.0, 2.0, 30.0, 1000.0])
def test_of_two_actions_the_better_score_has_a_closed_form(ratio):
    for gap in np.linspace(-4.0, 4.0, 33):
        for unit in (1.0, ratio):
            want = stats.norm.cdf(gap * unit / math.hypot(ratio, 1.0))
            assert shares([gap * unit, 0.0], [ratio, 1.0])[0] == pytest.approx(want, abs=0.003)
            found = shares([7.0, 7.0 + gap * unit], [1e-9, ratio])[1]
            assert found == pytest.approx(stats.norm.cdf(gap * unit / ratio), abs=1e-4)
            exact = shares([7.0, 7.0 + gap * unit], [0.0, ratio])[1]
            assert exact == pytest.approx(stats.norm.cdf(gap * unit / ratio), abs=1e-4)


@pytest.mark.parametrize("n", [3, 5, 12])
def test_shares_are_those_of_a_million_draws(n):
    rng = np.random.default_rng(n)
    means, widths = rng.normal(size=n), np.exp(rng.normal(size=n))
    means[-1], widths[-1] = means.max() + 0.1, 0.0
    best = np.zeros(n)
    for _ in range(10):
        draws = means + widths * rng.normal(size=(100_000, n))
        best += np.bincount(draws.argmax(axis=1), minlength=n) / 1e6
    np.testing.assert_allclose(shares(means, widths), best, atol=0.003)
    assert (best > 0.01).sum() > 1


def test_without_width_the_best_mean_is_played():
    assert shares([1.0, 2.0, 3.0, 0.0], [0.0] * 4).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert shares([1.0, 2.0, 2.0, 0.0], [0.0] * 4).tolist() == [0.0, 0.5, 0.5, 0.0]
    np.testing.assert_allclose(shares([2.0] * 5, [0.3] * 5), 0.2, rtol=1e-12)
    np.testing.assert_allclose(shares([0.0] * 3, [0.0, 0.0, 1.0]), [0.25, 0.25, 0.5], atol=1e-6)
    assert shares([-1e30], [1e30]).tolist() == [1.0]
    assert shares([1e20, 1e20], [1.0, 1.0]).tolist() == [0.5, 0.5]  # rounding removes the widths


numbers = st.one_of(st.floats(-1e40, 1e40), st.sampled_from([0.0, 1.0, -1.0, 1.0 + 2.0**-52]))


@given(st.lists(st.tuples(numbers, numbers.map(abs)), min_size=1, max_size=6))
@settings(max_examples=200)
def test_probabilities_sum_to_1_for_any_scores(scores):
    found = shares(*zip(*scores, strict=True))
    assert found.sum() == pytest.approx(1.0, abs=1e-9)
    assert found.min() >= 0.0


def test_the_normal_distribution():
    z = np.linspace(-6.0, 6.0, 4001)
    found = np.array([model.normal(one) for one in z])
    np.testing.assert_allclose(found, stats.norm.cdf(z), atol=5e-6)
    assert (np.diff(found) >= 0.0).all()
    assert (found[0], found[-1]) == (0.0, 1.0)


def test_draws_follow_the_probabilities():
    """100,000 numbers of decisions: within 4.5 standard errors, uniform, and none twice."""
    given, n = np.array([0.5, 0.0, 0.3, 0.15, 0.05]), 100_000
    draws = np.array([uniform(11, number) for number in range(n)])
    counts = np.bincount([model.place_of(given, draw) for draw in draws], minlength=5)
    assert (np.abs(counts / n - given) <= 4.5 * np.sqrt(given * (1 - given) / n)).all()
    assert len(set(draws.tolist())) == n
    assert draws.min() > 0.0
    assert draws.max() < 1.0
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    assert [model.place_of(given * 4.0, draw) for draw in (0.49, 0.51)] == [0, 2]
    assert model.place_of(given, 0.5 - 1e-9) == 0
    assert model.place_of(given, 0.5 + 1e-9) == 2
    assert model.place_of(given, 0.5) == 2
    assert model.place_of(given, 1.0 - 2.0**-53) == 4
