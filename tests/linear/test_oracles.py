"""The learner against closed forms, other packages and invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.core import saving
from belated.core.compiled import njit
from belated.linear import choosing, fitting, learning, sums
from belated.linear import exposure as exposures
from belated.linear.chance import uniform
from belated.linear.learning import pick
from linear.playing import play, world


@njit()
def frequencies(probabilities, draws, seed):
    """Shares of the actions in many draws, as decisions 0, 1, 2, ... draw them."""
    counts = np.zeros(len(probabilities))
    for number in range(draws):
        counts[pick(probabilities, uniform(seed, number))] += 1.0
    return counts / draws


def told(A=1, d=3, T=60, seed=0, shared=True, **settings):
    """A learner with every outcome at once, its features, outcomes and chosen actions."""
    rng = np.random.default_rng(seed)
    agent = bl.LinearSampler(
        bl.Choice(None if shared else A, d), silence=None, changes=False, **settings
    )
    x, r, chosen = rng.normal(size=(T, d)), rng.normal(size=T), []
    for k in range(T):
        chosen.append(agent.decide(x[k][None] if shared else x[k]).action)
        agent.observe([bl.Reward(k, r[k])])
    refit(agent)
    return agent, x, r, np.array(chosen)


def refit(agent):
    """Fit all models exactly."""
    if agent._waiting:
        agent._learn_waiting()
    agent._parts.fits[:, :, sums.WHEN] = -1.0
    agent._whole[sums.SPREAD] = -1
    agent._fit()


def theta(agent, m=0):
    """The coefficients of memory m, (A, d)."""
    fits, mu = agent._parts.fits[m], agent._parts.memory[sums.MU, m]
    d = agent._parts.theta.shape[1]
    return fits[:, :d] - mu * fits[:, d : 2 * d]


def ridge(agent):
    """The penalties (d,)."""
    out = np.empty(agent._parts.theta.shape[1])
    parts = agent._parts
    fitting.ridge_of(parts.features, float(parts.tally[sums.PLAYS].sum()), out)
    return out


def packed(V):
    """The rows of the upper triangle of a matrix, one after the other."""
    return V[np.triu_indices(len(V))]


def unpacked(C, d):
    V = np.zeros((d, d))
    V[np.triu_indices(d)] = C
    return V + np.triu(V, 1).T


def test_full_exposure_is_ridge_regression():
    linear_model = pytest.importorskip("sklearn.linear_model")
    agent, x, r, _ = told()
    root = np.sqrt(ridge(agent))
    # sklearn has one penalty for all features and none for its constant; ours also counts a
    # tenth of a decision with the mean outcome in the constant.
    X = np.vstack([x, np.zeros((1, 3))]) / root
    weights = np.append(np.ones(len(x)), fitting.PSEUDO)
    found = linear_model.Ridge(alpha=1.0).fit(X, np.append(r, r.mean()), sample_weight=weights)
    np.testing.assert_allclose(theta(agent)[0], found.coef_ / root, rtol=1e-9)
    np.testing.assert_allclose(agent._parts.memory[sums.MU, 0], found.intercept_, rtol=1e-9)


def test_the_constant_of_all_models_is_that_of_the_augmented_solve():
    agent, x, r, chosen = told(A=3, shared=False)
    x1 = np.column_stack([x, np.ones(len(x))])
    d = 4
    rows = np.zeros((len(x), 3 * d + 1))
    for k, a in enumerate(chosen):
        rows[k, a * d : (a + 1) * d] = x1[k]
    rows[:, -1] = 1.0
    V = rows.T @ rows + np.diag(np.append(np.tile(ridge(agent), 3), fitting.PSEUDO))
    b = rows.T @ r
    b[-1] += fitting.PSEUDO * r.mean()
    solved = np.linalg.solve(V, b)
    mu = agent._parts.memory[sums.MU, 0]
    np.testing.assert_allclose(mu, solved[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(theta(agent).ravel(), solved[:-1], rtol=1e-8, atol=1e-12)


def test_one_hot_features_are_means_of_cells():
    agent = bl.LinearSampler(bl.Choice(features=4), silence=None, changes=False)
    rng = np.random.default_rng(3)
    cells, r = rng.integers(0, 4, 200), rng.choice([-1.0, 1.0], 200)
    for k in range(200):
        agent.decide(np.eye(4)[cells[k]][None])
        agent.observe([bl.Reward(k, r[k])])
    refit(agent)
    mu = agent._parts.memory[sums.MU, 0]
    for c in range(4):
        mine = r[cells == c]
        shrunk = mu + (mine - mu).sum() / (len(mine) + 1.0)
        assert mu + theta(agent)[0, c] == pytest.approx(shrunk, abs=1e-12)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 7))
@settings(max_examples=25)
def test_factor_solve_and_inverse(seed, d):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d + 2, d))
    V = root.T @ root + 0.1 * np.eye(d)
    x = rng.normal(size=d)
    y = rng.normal(size=d)
    U, solved, inverse = packed(V), x.copy(), np.zeros(d * (d + 1) // 2)
    both = y.copy()
    fitting.factor(U, d)
    fitting.solve(U, solved, both)
    fitting.inverse(U, d, inverse)
    np.testing.assert_allclose(solved, np.linalg.solve(V, x), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(both, np.linalg.solve(V, y), rtol=1e-8, atol=1e-10)
    if d == 1:
        return
    np.testing.assert_allclose(unpacked(inverse, d), np.linalg.inv(V), rtol=1e-8, atol=1e-10)
    assert fitting.quadratic(inverse, x) == pytest.approx(x @ np.linalg.inv(V) @ x, rel=1e-8)
    fitting.add_one(inverse, x)
    one_more = np.linalg.inv(V + np.outer(x, x))
    np.testing.assert_allclose(unpacked(inverse, d), one_more, rtol=1e-8, atol=1e-10)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 60), A=st.integers(1, 5), full=st.booleans())
@settings(max_examples=25)
def test_products_of_features_and_variances_of_all_actions(seed, d, A, full):
    """Sizes above and below the part used at a time, even and odd numbers of actions."""
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=d), rng.normal()
    matrices = rng.normal(size=(A, d, d))
    matrices += matrices.transpose(0, 2, 1)
    if not full:
        matrices = np.stack([np.diag(np.diag(one)) for one in matrices])
    terms = packed if full else np.diag
    C, P = np.stack([terms(one) for one in matrices]), np.empty(d * (d + 1) // 2 if full else d)
    sums.half_products(x, P)
    added = terms(matrices[0]).copy()
    sums.add_square(added, P, d, weight)
    want = terms(matrices[0] + weight * np.outer(x, x))
    np.testing.assert_allclose(added, want, rtol=1e-9, atol=1e-9)
    models, out = rng.permutation(A)[: 1 + A // 2].astype(np.int64), np.empty(1 + A // 2)
    fitting.forms(C, models, P, out)
    want = [x @ matrices[i] @ x for i in models]
    np.testing.assert_allclose(out, want, rtol=1e-9, atol=1e-9)
    if full:
        y = fitting.product(C[0], x)
        np.testing.assert_allclose(y, matrices[0] @ x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1e13])
def test_features_that_are_too_large_change_nothing(busy, wrong):
    """Whether outcomes wait to be learned or not."""
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), world(seed=3, T=150))
    if busy:
        agent.observe([bl.Reward(149, 2.0, event="later")])
    before = saving.to_bytes(agent.state())
    with pytest.raises(ValueError, match="x must hold finite numbers of at most 1e\\+12, got"):
        agent.decide(np.array([0.5, wrong]))
    assert saving.to_bytes(agent.state()) == before


def literal(agent, x, chosen, r, share, g, w):
    """The regression of `fitting` for one memory, from its definition: constant and theta."""
    D, T, A = ridge(agent), len(x), agent._models
    x1 = np.column_stack([x, np.ones(T)])
    weight = g ** (T - np.arange(T)) * w
    top, low, solved = fitting.PSEUDO * r.sum() / share.sum(), fitting.PSEUDO, []
    for i in range(A):
        mine = chosen == i
        rows, part = x1[mine], weight[mine]
        V = np.diag(D) + (rows * (part * share[mine])[:, None]).T @ rows
        b, f = rows.T @ (part * r[mine]), rows.T @ (part * share[mine])
        u, v = np.linalg.solve(V, b), np.linalg.solve(V, f)
        top += (part * r[mine]).sum() - f @ u
        low += (part * share[mine]).sum() - f @ v
        solved.append((u, v))
    mu = top / low
    return mu, np.array([u - mu * v for u, v in solved])


@pytest.mark.parametrize("amounts", [False, True])
def test_models_are_the_regression_on_what_should_have_come(amounts):
    """Against the sums of the definition, decision by decision.

    Blocks give all their decisions one exposure and one age. With fewer than 20 reports nothing is
    settled, and blocks are narrow against the delays here: the error is below 6 % of the range of
    the means.
    """
    rng = np.random.default_rng(5)
    T = 90
    agent = bl.LinearSampler(bl.Choice(2, 2), floor=1.0)
    x, chosen, r = rng.normal(size=(T, 2)), [], np.zeros(T)
    arrived = np.full(T, np.inf)
    due: dict[int, list] = {}
    for k in range(T):
        chosen.append(agent.decide(x[k]).action)
        if rng.random() < 0.18:
            arrived[k] = k + rng.geometric(0.05)
            r[k] = rng.uniform(1.0, 2.0) if amounts else 1.0
            due.setdefault(int(arrived[k]), []).append(bl.Reward(k, r[k]))
        agent.observe(due.pop(k, []))
    refit(agent)
    chosen = np.array(chosen)
    r = np.where(arrived < T, r, 0.0)
    taken = agent._log[:T, 2]
    assert ((taken != 0.0) == (r != 0.0)).all()
    edges, delays = agent._parts.edges, agent._parts.delays
    share = np.array(
        [np.interp(T - 1.0 - k, edges, delays[chosen[k], sums.SHARE]) for k in range(T)]
    )
    w = np.ones(T)
    if not amounts:
        rate = (r > 0).sum() / share.sum()
        for i in range(2):
            mine = chosen == i
            p = min(((r[mine] > 0).sum() + rate) / (share[mine].sum() + 1.0), 0.95)
            w[mine] = (1.0 - p) / (1.0 - p * share[mine])
    for m, g in enumerate(agent._parts.memory[sums.DISCOUNT]):
        mu, coefficients = literal(agent, x, chosen, taken, share, g, w)
        x1 = np.column_stack([x, np.ones(T)])
        want = mu + x1 @ coefficients.T
        found = agent._parts.memory[sums.MU, m] + x1 @ theta(agent, m).T
        assert np.abs(found - want).max() < 0.06 * np.ptp(want)


def test_what_was_asked_is_the_inverse_of_the_definition():
    """Rank-one updates and blocks against the sum over all decisions; one memory."""
    rng = np.random.default_rng(6)
    agent = bl.LinearSampler(bl.Choice(2, 3), changes=False, floor=1.0)
    x, chosen = rng.normal(size=(200, 3)), []
    for k in range(200):
        chosen.append(agent.decide(x[k]).action)
        agent.observe([bl.Reward(k, 1.0)] if rng.random() < 0.3 else [])
    fitted = int(agent._whole[sums.SPREAD])
    assert 100 < fitted < 199  # later decisions have come in by rank-one updates
    x1 = np.column_stack([x, np.ones(200)])
    for exactly in (False, True):
        if exactly:
            refit(agent)
        for i in range(2):
            rows = x1[np.array(chosen) == i]
            want = np.linalg.inv(np.diag(ridge(agent)) + rows.T @ rows)
            found = unpacked(agent._parts.spread[i], 4)
            np.testing.assert_allclose(found, want, rtol=1e-8 if exactly else 0.05, atol=1e-5)


def test_models_that_are_not_stale_are_near_those_fitted_anew():
    """Tolerance: a fifth of a standard error, at the mean of all decisions."""
    given = world(seed=9, T=400)
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), given)
    x = np.append(given[0].mean(0), 1.0)
    before = agent._parts.level[sums.OFFSET] + agent._parts.theta @ x
    error = agent._parts.level[sums.SIGMA] * np.sqrt(
        [fitting.quadratic(spread, x) for spread in agent._parts.spread]
    )
    refit(agent)
    after = agent._parts.level[sums.OFFSET] + agent._parts.theta @ x
    assert (np.abs(after - before) < 0.2 * error).all()


def test_blocks_hold_every_decision_once():
    agent = bl.LinearSampler(bl.Choice(2))
    parts = agent._parts
    for number in range(5000):
        parts.counts[sums.BEGUN] = number + 1
        sums.begin(parts.counts, parts.order, parts.low, parts.high, parts.young, number)
        blocks = int(parts.counts[sums.BLOCKS])
        slot = sums.slot_of(blocks, parts.order, parts.low, number)
        parts.young[slot, number % 2, 0] += 1.0
        if number % 500 == 499:
            order = parts.order[:blocks]
            low, high = parts.low, parts.high
            assert low[order[0]] == 0
            assert (low[order[1:]] == high[order[:-1]]).all()
            assert (parts.young[order, :, 0].sum(1) == high[order] - low[order]).all()
            widths = high[order] - low[order]
            ages = number + 1 - high[order]
            assert (widths <= 8 + 1.0 * ages).all()
            for k in (0, number // 3, number):
                holder = sums.slot_of(blocks, parts.order, parts.low, k)
                assert low[holder] <= k < high[holder]
    assert sorted(parts.order.tolist()) == list(range(len(parts.order)))


class Counted:
    """The counts of delays of A models."""

    def __init__(self, A):
        self.edges = exposures.unit_edges()
        self.delays = np.zeros((A, 4, sums.EDGES))
        self.within = np.array([self.edges, 0.0 * self.edges])
        self.passed = np.zeros(sums.EDGES, dtype=np.int64)
        self.top = 0

    def report(self, k, model, delay):
        found = exposures.count_report(
            self.edges, self.passed, self.delays, self.within, k, model, delay
        )
        self.top = max(self.top, found)
        return found

    def advance(self, marks, log, seen, time):
        exposures.advance(self.edges, self.passed, self.delays, 0, log, marks, seen, time)

    def share_at(self, age):
        out = np.zeros(len(self.delays))
        exposures.share_at(self.edges, self.delays, self.within, age, out, 1.0)
        return out


def kept(T, models):
    """A log and marks of T decisions, one per unit of time."""
    log, marks = np.zeros((T, 3)), np.full((T, 3), -1, dtype=np.int32)
    log[:, exposures.CLOCK] = np.arange(T)
    marks[:, exposures.MODEL] = models
    return log, marks


def count(delays, actions, T, A=1):
    """The exposure at T - 1 of decisions 0 to T - 1 with these delays (inf: silent)."""
    fresh = Counted(A)
    log, marks = kept(T, actions)
    for now in range(T):
        for k in range(now + 1):
            if k + delays[k] == now:
                marks[k, exposures.BIN] = fresh.report(k, int(actions[k]), delays[k])
        fresh.advance(marks, log, now + 1, float(now))
    exposures.fit(fresh.delays, fresh.top)
    return fresh


def test_the_reverse_hazard_is_counted_as_its_definition_says():
    rng = np.random.default_rng(0)
    T = 120
    delays = np.where(rng.random(T) < 0.6, rng.geometric(0.08, T) - 1.0, np.inf)
    models = rng.integers(0, 2, T)
    fresh = count(delays, models, T, A=2)
    ages = T - 1 - np.arange(T)
    came = delays <= ages
    edges = fresh.edges
    for a in range(2):
        for j in range(20):
            mine = came & (models == a)
            low = edges[j - 1] if j else -1.0
            in_bin = mine & (delays > low) & (delays <= edges[j])
            at_risk = mine & (delays <= edges[j]) & (ages >= edges[j])
            assert fresh.delays[a, sums.CAME, j] == (in_bin & at_risk).sum()
            assert fresh.delays[a, sums.RISK, j] == at_risk.sum()
            assert fresh.delays[a, sums.EARLY, j] == (in_bin & ~at_risk).sum()


def test_the_reverse_hazard_finds_the_distribution_of_delays():
    # A geometric law at 950 reports; margin: three times the error that is usual there.
    rng = np.random.default_rng(1)
    T, errors, naive = 1600, [], []
    for _ in range(3):
        delays = np.where(rng.random(T) < 0.7, rng.geometric(0.005, T) - 1.0, np.inf)
        fresh = Counted(1)
        log, marks = kept(T, 0)
        fresh.advance(marks, log, T, T - 1.0)
        seen = np.flatnonzero(delays <= T - 1 - np.arange(T))
        for k in seen:
            fresh.report(k, 0, delays[k])
        exposures.fit(fresh.delays, fresh.top)
        ages = np.arange(0.0, 800.0, 7.0)
        found = np.array([fresh.share_at(age) for age in ages])
        true = 1.0 - 0.995 ** (ages + 1.0)
        errors.append(np.abs(found[:, 0] - true).max())
        histogram = (delays[seen][None] <= ages[:, None]).mean(1)
        naive.append(np.abs(histogram - true).max())
    assert np.mean(errors) < 0.06
    assert np.mean(errors) < np.mean(naive)


def test_the_reverse_hazard_is_a_kaplan_meier_of_reversed_time():
    # Every delay in a bin of its own (0, 1, 2, 3, 4), so that bins lose nothing.
    rng = np.random.default_rng(2)
    T = 200
    delays = rng.integers(0, 5, T).astype(float)
    fresh = count(delays, np.zeros(T), T)
    ages = T - 1.0 - np.arange(T)
    seen = delays <= ages
    # Reversed time: -delay is an event, entered late at -age (left truncation).
    share, expected = 1.0, {}
    for value in (4.0, 3.0, 2.0, 1.0):
        expected[value] = share
        at_risk = (seen & (delays <= value) & (ages >= value)).sum()
        share *= 1.0 - (seen & (delays == value)).sum() / at_risk
    expected[0.0] = share
    for j in range(5):  # the histogram, nearly the same here, counts as one report of 200
        assert fresh.delays[0, sums.SHARE, j] == pytest.approx(expected[float(j)], abs=1e-6)


def test_few_delays_are_shrunk_to_their_histogram():
    """One report has a long delay: the exposure of lower ages follows from the histogram alone."""
    fresh = Counted(1)
    log, marks = kept(10, 0)
    for k, delay in ((5, 0.0), (6, 0.0), (7, 0.0), (4, 5.0)):  # no age above 5 has reported
        marks[k, exposures.BIN] = fresh.report(k, 0, delay)
    fresh.advance(marks, log, 10, 9.0)
    exposures.fit(fresh.delays, fresh.top)
    came, risk = 0.0, 0.0  # of the bin (4, 6], whose edge no decision with a report has reached
    assert fresh.delays[0, sums.RISK, 5] == risk
    hazard = (came + 1.0 / 4.0) / (risk + 1.0)  # one of four reports seen, worth one report
    kept_share = 1.0 - (came + 10.0 * hazard) / (risk + 10.0)
    assert fresh.delays[0, sums.SHARE, 4] == pytest.approx(kept_share)
    assert fresh.share_at(2.0)[0] > 0.5  # without the histogram it would be 0


def test_a_first_late_report_does_not_make_predictions_explode():
    """In the world `common`, seed 1000, a mean of 1e9 once spoiled the weights of the memories."""
    agent = bl.LinearSampler(bl.Choice(3, 2))
    rng = np.random.default_rng(0)
    due: dict[int, list] = {}
    for k in range(300):
        agent.decide(rng.uniform(-1, 1, 2))
        if rng.random() < 0.5:
            due.setdefault(k + int(rng.geometric(0.01)), []).append(bl.Reward(k, 1.0))
        agent.observe(due.pop(k, []))
        assert abs(agent._parts.level[sums.MEAN]) <= 1.0
    assert np.abs(agent._parts.predicted).max() < 10.0
    learning.measure(agent._parts, np.zeros(3), 2.0, 2.0, 2.0)  # two reports, no exposure
    assert agent._parts.level[sums.MEAN] == agent._parts.level[sums.RATE] == 1.0


@pytest.mark.parametrize("shared", [False, True])
def test_with_one_feature_the_diagonal_form_is_the_regression(shared):
    """A feature and the constant of its model, or of all models; see `fitting.solve_each`."""
    fits = []
    for diagonal in (False, True):
        agent = bl.LinearSampler(
            bl.Choice(None if shared else 2, 1), silence=None, floor=1.0, diagonal=diagonal
        )
        rng = np.random.default_rng(4)
        x, r = rng.normal(1.0, 1.0, 80), rng.normal(2.0, 1.0, 80)
        for k in range(80):
            agent.decide([[x[k]]] if shared else [x[k]])
            agent.observe([bl.Reward(k, r[k] + x[k])])
        refit(agent)
        mu = agent._parts.memory[sums.MU, 0]
        fits.append([mu + theta(agent) @ ([v] if shared else [v, 1.0]) for v in (-1.0, 0.5, 2.0)])
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-9 if not shared else 1e-12)


def test_a_rate_is_right_while_reports_are_still_to_come():
    # Rate 0.05 and delays of 200 decisions on average: a fifth of the reports are still to come.
    estimates, naive = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        agent = bl.LinearSampler(bl.Choice(1), changes=False)
        due: dict[int, list] = {}
        for k in range(1000):
            agent.decide()
            if rng.random() < 0.05:
                due.setdefault(k + int(rng.geometric(1 / 200)), []).append(bl.Reward(k, 1.0))
            agent.observe(due.pop(k, []))
        row = agent.table()[0]
        estimates.append(row.mean)
        naive.append(row.reports / row.plays)
    assert abs(np.mean(estimates) - 0.05) < 0.0065  # about 3 standard errors
    assert np.mean(naive) < np.mean(estimates) - 0.005


@pytest.mark.parametrize("silence", [0.0, None])
@pytest.mark.parametrize("power", [-7, 3])
def test_scaling_outcomes_by_a_power_of_two_changes_no_bit(silence, power):
    given = world(seed=4, T=200)
    _, plain = play(bl.LinearSampler(bl.Choice(3, 2), silence=silence), given)
    _, scaled = play(
        bl.LinearSampler(bl.Choice(3, 2), silence=silence), given, value=lambda v: v * 2.0**power
    )
    assert scaled == plain


@pytest.mark.parametrize("silence", [0.0, None])
def test_shifting_outcomes_and_silence_changes_only_rounding(silence):
    given = world(seed=5, T=200)
    done = []
    for shift in (0.0, 0.375):
        amounts = iter(np.random.default_rng(0).uniform(1.0, 2.0, 200))
        agent = bl.LinearSampler(
            bl.Choice(3, 2), silence=None if silence is None else silence + shift
        )
        _, played = play(agent, given, value=lambda v, a=amounts, s=shift: next(a) + s)
        done.append([action for action, _ in played])
    assert np.mean(np.equal(*done)) > 0.99


def test_no_delay_is_full_exposure():
    given = world(seed=6, T=200)
    x, outcomes, _ = given
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), (x, outcomes, np.zeros(outcomes.shape)))
    agent._fit()
    order = agent._parts.order[: agent._whole[sums.BLOCKS]]
    assert (agent._parts.shares[order] == 1.0).all()
    assert agent._exposed().sum() == pytest.approx(200.0)


def test_probabilities_match_a_hundred_thousand_draws():
    agent, _ = play(bl.LinearSampler(bl.Choice(4, 2), floor=0.08), world(seed=7, T=120, A=4))
    shares = agent._asked(agent.begun, [0.4, -0.2], None)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert (shares >= 0.02 - 1e-12).all()
    draws = frequencies(shares, 100_000, 11)
    errors = np.abs(draws - shares) / np.sqrt(shares * (1 - shares) / 100_000 + 1e-12)
    assert errors.max() < 4.0


def test_draws_of_decisions_follow_the_stated_probabilities():
    # 3,000 decisions with equal probabilities: counts within 4 standard deviations.
    agent = bl.LinearSampler(bl.Choice(5), floor=1.0)
    counts = np.bincount([agent.decide().action for _ in range(3000)], minlength=5)
    assert (np.abs(counts - 600) < 4 * math.sqrt(3000 * 0.2 * 0.8)).all()


def test_relabelled_actions_are_played_alike():
    # Shares of 40 learners for each order, every one with its own seed; margin: 4 standard errors.
    shares = np.zeros((2, 40, 3))
    x, outcomes, delays = world(seed=8, T=120)
    for flip in (0, 1):
        order = [0, 1, 2] if flip == 0 else [2, 0, 1]
        for seed in range(40):
            agent = bl.LinearSampler(bl.Choice(3, 2), seed=seed + 1000 * flip)
            given = (x, outcomes[:, order], delays[:, order])
            _, done = play(agent, given)
            counts = np.bincount([a for a, _ in done], minlength=3) / len(x)
            shares[flip, seed] = counts[np.argsort(order)]
    difference = shares[0].mean(0) - shares[1].mean(0)
    error = np.sqrt(shares.var(axis=1).sum(0) / 40)
    assert (np.abs(difference) < 4 * error).all()


@given(data=st.data())
@settings(max_examples=10)
def test_order_and_duplicates_between_two_decisions_do_not_matter(data):
    records = [bl.Reward(k, 1.0 + k % 3, event=None if k % 2 else f"e{k}") for k in range(6)]
    records += [bl.Reward(2, -0.7, event="refund"), bl.Reward(3, 0.3, event="more")]
    shuffled = data.draw(st.permutations([*records, records[0], records[-1]]))
    cut = data.draw(st.integers(0, len(shuffled)))
    agents = []
    for batches in ([records], [shuffled[:cut], shuffled[cut:]]):
        agent = bl.LinearSampler(bl.Choice(3, 2))
        for k in range(8):
            agent.decide([0.1 * k, 1.0])
        for batch in batches:
            agent.observe(batch)
        agent.decide([0.0, 1.0])
        agents.append(saving.to_bytes(agent.state()["sums"]))
    assert agents[0] == agents[1]


def test_late_events_and_refunds_add_up():
    agent = bl.LinearSampler(bl.Choice(1))
    for _ in range(30):
        agent.decide()
    agent.observe([bl.Reward(3, 10.0, event="a")])
    agent.decide()
    agent.observe([bl.Reward(3, 5.0, event="b"), bl.Reward(3, -12.0, event="refund")])
    agent.decide()
    row = agent.table()[0]
    assert row.reports == 1
    assert row.mean * row.exposed == pytest.approx(3.0)


def test_what_is_forgotten_under_silence_stays_in_the_sums():
    frozen = bl.LinearSampler(bl.Choice(1), changes=False)
    kept = bl.LinearSampler(bl.Choice(1), changes=False)
    for agent in (frozen, kept):
        for k in range(200):
            agent.decide()
            agent.observe([bl.Reward(k, 1.0)] if k % 10 == 0 else [])
    for k in range(150):
        frozen.forget(k)
    a, b = frozen.table()[0], kept.table()[0]
    assert a.mean == pytest.approx(b.mean, rel=1e-9)
    assert frozen.open_episodes() == list(range(150, 200))
    frozen.observe([bl.Reward(7, 1.0)])
    assert frozen.diagnostics()["late"] == 1
    assert frozen.table()[0].mean == a.mean


def test_what_is_forgotten_where_all_report_is_dropped():
    agent = bl.LinearSampler(bl.Choice(features=2), silence=None)
    for _ in range(5):
        agent.decide(np.ones((2, 2)))
    before = agent._parts.asked.copy()
    agent.decide(np.ones((2, 2)))
    agent.forget(5)
    discounts = agent._parts.memory[sums.DISCOUNT][:, None, None]
    scale = agent._parts.memory[sums.SCALE][:, None, None]
    np.testing.assert_allclose(agent._parts.asked * scale, before * discounts**6, rtol=1e-12)
    agent.observe([bl.Reward(5, 1.0)])
    assert agent.diagnostics()["late"] == 1


def fresh_sizes():
    """The sizes of outcomes before the first one."""
    return np.zeros((2, 4 * sums.OCTAVES)), np.array([4 * sums.OCTAVES, -1])


def test_clipping_solves_its_equation():
    tails = fresh_sizes()
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.normal(0, 2, 500))
    for size in sizes:
        learning.note_size(*tails, size)
    tau = learning.clipping_point(*tails, 4000)
    assert np.minimum(sizes**2 / tau**2, 1.0).sum() == pytest.approx(math.log(4001.0), rel=0.15)
    assert learning.clipping_point(*tails, 1) < math.inf
    for scale in (2.0**-40, 2.0**30):
        scaled = fresh_sizes()
        for size in sizes:
            learning.note_size(*scaled, size * scale)
        assert learning.clipping_point(*scaled, 4000) == tau * scale


def test_equal_outcomes_are_never_clipped():
    tails = fresh_sizes()
    for n in range(1, 40):
        learning.note_size(*tails, 3.0)
        assert learning.clipping_point(*tails, 10**6) > 3.0, n


def test_a_nightly_batch_under_the_days_stamp_is_a_day_of_age():
    # All outcomes report on the evening of the next day: after that batch F is 1 at one day.
    agent = bl.LinearSampler(bl.Choice(1), changes=False)
    hits: list[bl.Reward] = []
    for day in range(12):
        numbers = [agent.decide(now=float(day)).number for _ in range(40)]
        agent.observe(hits, now=float(day))
        hits = [bl.Reward(number, 1.0) for number in numbers[:8]]
    row = agent.table()[0]
    assert agent._clock.unit == 1.0
    assert row.exposed == pytest.approx(11 * 40, rel=0.01)
    assert row.mean == pytest.approx(0.2, rel=0.02)


def test_heavy_tails_do_not_break_the_learner():
    # An unlucky start may keep a good action from being tried: three of four seeds must find it.
    found = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        agent = bl.LinearSampler(bl.Choice(2), changes=False)
        for k in range(800):
            decision = agent.decide()
            won = rng.random() < 0.1 + 0.1 * decision.action
            amount = 5000.0 if rng.random() < 0.01 else rng.uniform(20, 200)
            agent.observe([bl.Reward(k, amount)] if won else [])
        assert np.isfinite(agent._parts.theta).all()
        found += agent.decide().probabilities[1] > 0.9
    assert found >= 3


@pytest.mark.parametrize("case", ["one action", "constant features", "zero features", "silent"])
def test_degenerate_cases_work(case):
    agent = {
        "one action": bl.LinearSampler(bl.Choice(1, 2)),
        "constant features": bl.LinearSampler(bl.Choice(2, 2)),
        "zero features": bl.LinearSampler(bl.Choice(2, 0)),
        "silent": bl.LinearSampler(bl.Choice(2, 2)),
    }[case]
    x = None if case == "zero features" else [0.0, 3.0]
    for k in range(60):
        decision = agent.decide(x)
        assert np.isfinite(decision.probabilities).all()
        agent.observe([bl.Reward(k, 0.0)] if case != "silent" and k % 3 == 0 else [])
    if case == "silent":
        assert decision.probabilities.tolist() == [0.5, 0.5]


HELD = {
    "a deadline soon after all reports": (200, {"deadline": 210}),
    "outcomes held to the deadline": (None, {"deadline": 200, "hold": True}),
    "silence reported at the deadline": (None, {"deadline": 200, "default": 0.0}),
    "a deadline long after most reports": (None, {"deadline": 200}),
}


@pytest.mark.parametrize("case", HELD)
def test_a_deadline_freezes_decisions_at_the_exposure_that_they_have(case):
    """A success rate of .15: means within .05, six standard errors; they were up to 1.2."""
    delay, wrapped = HELD[case]
    rng = np.random.default_rng(0)
    agent = bl.LinearSampler(bl.Choice(2))
    inbox = bl.Inbox(agent, **wrapped)
    due: dict[int, list[bl.Reward]] = {}
    for k in range(3000):
        number = inbox.decide().number
        if rng.random() < 0.15:
            later = int(rng.geometric(0.05)) if delay is None else delay
            due.setdefault(k + later, []).append(bl.Reward(number, 1.0))
        inbox.observe(due.pop(k, []))
    assert all(row.mean == pytest.approx(0.15, abs=0.05) for row in agent.table())


def test_exposure_between_the_edges_of_a_bin():
    """It follows the delays that were seen there, and is complete after the largest of them."""
    fresh, (log, marks) = Counted(1), kept(600, np.zeros(600, dtype=np.int64))
    for k in range(400):
        marks[k, exposures.BIN] = fresh.report(k, 0, 200.0 if k % 2 else 8.0 + k % 8 / 2.0)
    fresh.advance(marks, log, 600, 599.0)
    exposures.fit(fresh.delays, fresh.top)
    assert fresh.share_at(199.0)[0] == pytest.approx(0.5, abs=1e-3)
    assert fresh.share_at(200.0)[0] == 1.0
    assert fresh.share_at(10.0)[0] == pytest.approx(0.375, abs=1e-3)  # 8, 9 and 10, not 11
    assert fresh.share_at(11.0)[0] == pytest.approx(0.5, abs=1e-3)


def test_a_report_that_equals_silence_changes_no_decision():
    """With and without reports of decisions that brought nothing; conflicts are still found."""
    rng = np.random.default_rng(5)
    quiet, told = (bl.LinearSampler(bl.Choice(3, 1), silence=1.5) for _ in range(2))
    due: dict[int, list[bl.Reward]] = {}
    for k in range(600):
        x = [float(rng.integers(2))]
        first, second = quiet.decide(x), told.decide(x)
        assert first.probabilities.tolist() == second.probabilities.tolist()
        outcome = 4.0 if rng.random() < (0.1, 0.2, 0.3)[first.action] else 1.5
        due.setdefault(k + int(rng.integers(1, 60)), []).append(bl.Reward(k, outcome))
        came = due.pop(k, [])
        quiet.observe([record for record in came if record.value != 1.5])
        told.observe(came)
        silent = [record.episode for record in came if record.value == 1.5]
        if k > 500 and silent:
            with pytest.raises(bl.FeedbackError, match=r"known to be 1\.5, got 4"):
                told.observe([bl.Reward(silent[0], 4.0)])
    reports = [sum(row.reports for row in agent.table()) for agent in (quiet, told)]
    assert reports[0] == reports[1]


@pytest.mark.parametrize("decisions", [5, 20, 60, 400])
def test_draws_are_wider_where_few_reports_can_be_expected(decisions):
    """The width follows its formula, between 0.35 and 1 standard deviations."""
    rate, sigma = 0.08, 0.27
    level = np.zeros(len(play(bl.LinearSampler(bl.Choice(2, 2)), world(T=5))[0]._parts.level))
    level[sums.OPTIMISM], level[sums.SIGMA], level[sums.RATE] = 0.35, sigma, rate
    q = 1.0 / decisions
    means, widths, factors = np.empty(1), np.empty(1), np.empty(1)
    rows, theta, spread = np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), q)
    models = np.zeros(1, dtype=np.int64)
    P = np.full(1, 0.5)
    choosing.scores(rows, P, models, theta, spread, level, means, widths, factors)
    c = min(max(0.35, 0.35 * 8.0 * q / rate), 1.0)
    assert widths[0] == pytest.approx(c * sigma * math.sqrt(q))


def test_nightly_batches_without_a_clock_are_as_good_as_days():
    """All decisions between two batches have the same age, whatever their place in the day."""
    rng = np.random.default_rng(4)
    agents = [bl.LinearSampler(bl.Choice(3, 1)) for _ in range(2)]
    due: dict[int, list[bl.Reward]] = {}
    for day in range(30):
        for _ in range(40):
            x = [float(rng.integers(2))]
            plain, dated = agents[0].decide(x), agents[1].decide(x, now=float(day))
            assert (plain.number, plain.action) == (dated.number, dated.action)
            assert plain.probabilities.tolist() == dated.probabilities.tolist()
            if rng.random() < 0.2:
                late = day + int(rng.integers(1, 4))
                due.setdefault(late, []).append(bl.Reward(plain.number, 1.0))
        agents[0].observe(due.get(day, []))
        agents[1].observe(due.get(day, []), now=float(day))
    shares = [agent._parts.delays[:, sums.SHARE].mean(0) for agent in agents]
    assert shares[0].tolist() == shares[1].tolist()
    assert shares[0][1:4] == pytest.approx([1 / 3, 2 / 3, 1.0], abs=0.15)
    assert agents[0]._parts.edges[:5].tolist() == [0.0, 40.0, 80.0, 120.0, 160.0]


def test_a_learner_of_batches_is_saved_before_its_unit_is_fixed(tmp_path):
    """Loaded after every night, with decisions forgotten, it makes the same decisions."""
    rng = np.random.default_rng(6)
    whole, again = bl.LinearSampler(bl.Choice(3)), bl.LinearSampler(bl.Choice(3))
    for day in range(12):
        for _ in range(15):
            one, other = whole.decide(), again.decide()
            assert one.probabilities.tolist() == other.probabilities.tolist()
        late = [k for k in range(max(15 * day - 30, 0), 15 * day) if rng.random() < 0.2]
        for agent in (whole, again):
            agent.observe([bl.Reward(k, 1.0) for k in late if agent.is_open(k)])
            for k in range(15 * day - 45, 15 * day - 30):
                if k >= 0:
                    agent.forget(k)
        bl.save(again, tmp_path / "agent")
        again = bl.load(tmp_path / "agent")
    assert whole._clock.fixed
    assert whole._clock.unit == 15.0
    assert whole._delays == {}
