"""Delayed OPPO when the dynamics are unknown: T1, T8, T12, T13, T19, T20, and a literal twin."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import belated as bl
import oracles
from belated.core.arrays import frozen
from belated.parts import Averaged, Bonus, Confidence, FewVisits, Revealed, Softmax, Weighted
from belated.tabular.parts.costs import importance_weighted
from limits import FULL


class Literal:
    """The algorithm as written: dense arrays, a linear program per row, a snapshot per episode."""

    def __init__(self, problem, information, eta, gamma, K, delta, scale, limit=None):
        self.problem, self.information = problem, information
        self.eta, self.gamma, self.scale, self.limit = eta, gamma, scale, limit
        H, S, A = problem.shape
        self.L = max(math.log(H * S * A * K / (4 * delta)), math.log(2))
        self.T = 1 if problem.homogeneous else H
        self.counts = np.zeros((self.T, S, A, S))
        self.policy = np.full((H, S, A), 1 / A)
        self.snapshots, self.paths, self.k = {}, {}, 0

    def begin_episode(self, now=None):
        H, S, A = self.problem.shape
        mask = np.zeros((H, S), dtype=bool)
        if self.limit is not None:
            for h, s in np.ndindex(H, S):
                mask[h, s] = self.counts[min(h, self.T - 1), s].sum() <= self.limit
        played = np.where(mask[..., None], 1 / A, self.policy)
        self.snapshots[self.k] = (self.policy, played, mask, self.counts.copy())
        self.k += 1
        return bl.Episode(self.k - 1, played)

    def bounds(self, counts, h, s, a):
        c = counts[min(h, self.T - 1), s, a]
        n = c.sum()
        if n == 0:
            return np.zeros(len(c)), np.ones(len(c))
        p = c / n
        eps = self.scale * (4 * np.sqrt(p * (1 - p) * self.L / n) + 10 * self.L / n)
        return np.maximum(0, p - eps), np.minimum(1, p + eps)

    def least(self, counts, h, s, a, V):
        low, high = self.bounds(counts, h, s, a)
        bounds = np.stack([low, high], 1)
        return linprog(V, A_eq=np.ones((1, len(V))), b_eq=[1], bounds=bounds).fun

    def upper(self, counts, policy, h, s):
        f = np.zeros(self.problem.states)
        f[s] = 1
        for t in reversed(range(h)):
            best = -np.array(
                [
                    [self.least(counts, t, x, a, -f) for a in range(self.problem.actions)]
                    for x in range(self.problem.states)
                ]
            )
            f = (policy[t] * best).sum(-1)
        return self.problem.start_probabilities @ f

    def observe(self, records, now=None):
        H, S, A = self.problem.shape
        arrived = []
        for record in records:
            if isinstance(record, bl.Trajectory):
                self.paths[record.episode] = record
                for h in range(H):
                    row = (min(h, self.T - 1), record.states[h], record.actions[h])
                    self.counts[row][record.states[h + 1]] += 1
            else:
                arrived.append(record)
        gradient = np.zeros((H, S, A))
        for record in arrived:
            path = self.paths[record.episode]
            policy, played, mask, counts = self.snapshots[record.episode]
            if any(mask[h, path.states[h]] for h in range(H)):
                continue
            if self.information == "full":
                costs, counts = oracles.per_step(record.values, H), self.counts
            else:
                costs = np.zeros((H, S, A))
                for h in range(H):
                    s, a = path.states[h], path.actions[h]
                    u = self.upper(counts, played, h, s)
                    costs[h, s, a] = record.values[h] / (u * played[h, s, a] + self.gamma)
            V = np.zeros(S)
            for h in reversed(range(H)):
                Q = np.array(
                    [
                        [costs[h, s, a] + self.least(counts, h, s, a, V) for a in range(A)]
                        for s in range(S)
                    ]
                )
                gradient[h] += Q
                V = (policy[h] * Q).sum(-1)
        self.policy = self.policy * np.exp(-self.eta * gradient)
        self.policy /= self.policy.sum(-1, keepdims=True)


SETTINGS = list(
    itertools.product(["full", "bandit"], ["late", "at once"], [False, True], [None, 0])
)


@pytest.mark.parametrize(
    ("information", "paths", "homogeneous", "limit"), SETTINGS if FULL else SETTINGS[::5]
)
@pytest.mark.slow
def test_policies_equal_the_literal_algorithm(information, paths, homogeneous, limit):
    """All settings of the table, with and without explicit exploration, over a scripted run."""
    rng = np.random.default_rng(5)
    H, S, A, K = 3, 3, 2, 26
    world = oracles.random_world(rng, H, S, A, homogeneous, start=(0.7, 0.3, 0.0))
    delays = oracles.random_delays(rng, K, lost=0.1, largest=5)
    eta, gamma, scale = 0.8, 0.2, 0.03
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=Confidence(radius_scale=scale, delta=0.1, episodes=K),
        costs=Weighted(gamma) if information == "bandit" else Revealed(),
        update=Softmax(eta),
        explore=None if limit is None else FewVisits(limit),
    )
    twin = Literal(world.problem, information, eta, gamma, K, 0.1, scale, limit)
    line, moved = bl.DelayLine(), 0.0
    for k in range(K):
        mine, other = agent.begin_episode().policy, twin.begin_episode().policy
        np.testing.assert_allclose(mine, other, atol=1e-8)
        moved = max(moved, np.abs(mine - 1 / A).max())
        path = world.mdp.play(mine, rng, k)
        costs = world.costs.at(k)
        met = costs[np.arange(H), path.states[:-1], path.actions]
        record = bl.Costs(k, costs if information == "full" else met)
        at_once = [path] if paths == "at once" else []
        line.push([record] if at_once else [path, record], int(delays[k]))
        batch = at_once + line.release(k)
        agent.observe(batch)
        twin.observe(batch)
    assert moved > 0.05


def test_without_delay_it_is_plain_oppo():
    """T1 for unknown dynamics: the literal algorithm, every record at the end of its episode."""
    rng = np.random.default_rng(6)
    world = oracles.random_world(rng, 3, 3, 2)
    transitions = Confidence(radius_scale=0.05, episodes=25)
    agent = bl.DelayedOPPO(world.problem, transitions=transitions, update=Softmax(0.5))
    twin = Literal(world.problem, "full", 0.5, 0.0, 25, 0.1, 0.05)
    for k in range(25):
        mine = agent.begin_episode().policy
        np.testing.assert_allclose(mine, twin.begin_episode().policy, atol=1e-8)
        batch = [world.mdp.play(mine, rng, k), bl.Costs(k, world.costs.at(k))]
        agent.observe(batch)
        twin.observe(batch)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 8), st.floats(0, 6))
def test_explored_episodes_are_few(seed, max_delay, limit):
    """T8: at most floor(tau) + d_max + 1 episodes meet their mask in any one (s, h)."""
    rng = np.random.default_rng(seed)
    H, S, A, K = 2, 3, 2, 60
    world = oracles.random_world(rng, H, S, A)
    agent = bl.DelayedOPPO(world.problem, explore=FewVisits(limit), update=Softmax(0.3))
    delays = rng.integers(0, max_delay + 1, K)
    line, observed, met, inside = bl.DelayLine(), np.zeros((H, S)), np.zeros((H, S)), 0
    for k in range(K):
        policy = agent.begin_episode().policy
        mask = observed <= limit
        np.testing.assert_allclose(policy[mask], 1 / A)
        path = world.mdp.play(policy, rng, k)
        steps = (np.arange(H), path.states[:-1])
        hit = mask[steps]
        met[steps] += hit
        inside += hit.any() and k + delays[k] < K
        line.push([path, bl.Costs(k, world.costs.at(k % 40))], int(delays[k]))
        batch = line.release(k)
        agent.observe(batch)
        for record in batch:
            if isinstance(record, bl.Trajectory):
                observed[np.arange(H), record.states[:-1]] += 1
    assert np.all(met <= math.floor(limit) + max_delay + 1)
    assert agent.diagnostics()["explored"] == inside


def truth_inside(problem, mdp, box):
    """Whether the true transitions are in a confidence set."""
    p = mdp.transitions.dense()
    for row in np.ndindex(box.unseen.shape):
        known = box.counts.successors[row][: box.counts.known[row]]
        for s in range(problem.states):
            slot = np.flatnonzero(known == s)
            low, high = 0.0, box.unseen[row]
            if len(slot):
                low = box.lower[row][slot[0]]
                high = low + box.width[row][slot[0]]
            if not low - 1e-12 <= p[row][s] <= high + 1e-12:
                return False
    return True


@pytest.mark.parametrize("homogeneous", [True, False])
def test_optimism_when_the_truth_is_inside(homogeneous):
    """T12, T13: p stays in the set (18 of 20 runs at least), then Q <= Q^pi and u >= q."""
    rng = np.random.default_rng(8)
    inside = 0
    for run in range(20):
        world = bl.environments.random_mdp(4, 2, 4, homogeneous=homogeneous, seed=run)
        p = oracles.dense(world.mdp)
        part = Confidence(radius_scale=0.15, delta=0.1, episodes=60)
        dynamics = part.start(world.problem, Weighted(0.1))
        held = True
        for k in range(60):
            policy = frozen(rng.dirichlet(np.ones(2), (4, 4)))
            path = world.mdp.play(policy, rng, k)
            dynamics.learn([path], k + 1)
            held = held and truth_inside(world.problem, world.mdp, dynamics.set)
            if held and k % 10 == 9:
                costs = rng.random((4, 4, 2))
                Q = np.zeros((4, 4, 2))
                dynamics.add_q(frozen(costs), policy, Q)
                _, true_Q = oracles.values(p, costs, policy)
                assert np.all(true_Q + 1e-12 >= Q)
                reach = dynamics.as_of(k + 1).reach(policy, path.states)
                q = bl.planning.occupancy(world.mdp, policy).sum(-1)
                assert np.all(reach >= q[np.arange(4), path.states[:-1]] - 1e-12)
        inside += held
    assert inside >= 18  # 1 - delta of 20; the radius is scaled by 0.15 and still holds


def test_mean_of_the_optimistic_estimate():
    """T19, T20: E[c-hat] = c q pi / (u pi + gamma) <= c; 15,000 paths, 4.5 standard errors."""
    rng = np.random.default_rng(9)
    H, S, A, gamma, n = 3, 3, 2, 0.1, 15_000
    world = oracles.random_world(rng, H, S, A)
    part = Confidence(radius_scale=0.3, delta=0.1, episodes=50)
    dynamics = part.start(world.problem, Weighted(0.1))
    policy = frozen(rng.dirichlet(np.ones(A), (H, S)))
    for k in range(30):
        dynamics.learn([world.mdp.play(policy, rng, k)], k + 1)
    then = dynamics.as_of(30)
    u = np.zeros((H, S))
    for s in range(S):
        path = np.full(H + 1, s)
        u[:, s] = then.reach(policy, path)
    q = bl.planning.occupancy(world.mdp, policy)
    assert np.all(u >= q.sum(-1) - 1e-12)
    costs, total = world.costs.at(0), np.zeros((H, S, A))
    steps = np.arange(H)
    for _ in range(n):
        path = world.mdp.play(policy, rng)
        at = (steps, path.states[:-1], path.actions)
        estimate = importance_weighted(costs[at], path, policy, u[steps, path.states[:-1]], gamma)
        assert estimate.max() <= 1 / gamma
        total += estimate
    weight = u[..., None] * policy + gamma
    expected = costs * q / weight
    assert np.all(np.abs(total / n - expected) <= 4.5 * costs / weight * np.sqrt(q / n) + 1e-12)
    assert np.all(expected <= costs + 1e-12)


def test_snapshots_are_not_kept():
    """Nothing grows with the delay but policies: the model of each open episode is recomputed."""
    world = bl.environments.random_mdp(4, 2, 3)
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=Confidence(episodes=200),
        costs=Weighted(0.1),
        update=Softmax(0.1),
    )
    bl.simulate(world, agent, delays=bl.delays.uniform(0, 8), episodes=200)
    assert len(agent._model.counts._recent) <= 9
    for k in range(200):
        agent.forget(k)
    assert len(agent._model.counts._recent) == 0


def test_stochastic_costs_are_averaged():
    """S2: Q of the mean of all observed costs, less a deviation; known transitions, by hand."""
    rng = np.random.default_rng(3)
    H, S, A, K = 3, 3, 2, 30
    world = oracles.random_world(rng, H, S, A)
    world = bl.World(world.mdp, bl.costs.stochastic(rng.random((H, S, A))))
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=world.mdp.transitions,
        costs=Averaged(scale=0.1),
        update=Softmax(0.5),
    )
    p, L = oracles.dense(world.mdp), np.zeros((H, S, A))
    sums, n = np.zeros((H, S, A)), np.zeros((H, S, A))
    line, history, steps = bl.DelayLine(), [], np.arange(H)
    for k in range(K):
        policy = agent.begin_episode().policy
        expected = np.exp(-0.5 * (L - L.min(-1, keepdims=True)))
        np.testing.assert_allclose(policy, expected / expected.sum(-1, keepdims=True), atol=1e-10)
        history.append(policy)
        path, costs = world.mdp.play(policy, rng, k), world.costs.at(k)
        met = costs[steps, path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, met)], int(rng.integers(0, 5)))
        batch = line.release(k)
        agent.observe(batch)
        walked = {r.episode: r for r in batch if isinstance(r, bl.Trajectory)}
        arrived = [r for r in batch if isinstance(r, bl.Costs)]
        for r in arrived:
            at = (steps, walked[r.episode].states[:-1], walked[r.episode].actions)
            np.add.at(sums, at, r.values)
            np.add.at(n, at, 1)
        N = 2 ** math.floor(math.log2(k + 2) + 1)  # the smallest power of two above begun + 1
        scale = 0.1 * math.sqrt(math.log(2 * H * S * A * N**2 / 0.1) / 2)
        low = np.maximum(sums / np.maximum(n, 1) - scale / np.sqrt(np.maximum(n, 1)), 0)
        for r in arrived:
            L += oracles.values(p, np.where(n > 0, low, 0.0), history[r.episode])[1]


@pytest.mark.parametrize("seed", range(10 if FULL else 1))
@pytest.mark.slow
def test_the_experiment_of_the_paper(seed):
    """10 x 10 grid, H = 50, K = 500, eta = 0.1, geometric delays: within 3 % of the optimum."""
    world = bl.environments.paper_grid()
    agent = bl.DelayedOPPO(world.problem, transitions=Bonus(), update=Softmax(0.1))
    run = bl.simulate(world, agent, delays=bl.delays.geometric(10), episodes=500, seed=seed)
    assert run.optimum / 500 == pytest.approx(21.34, abs=0.005)
    assert run.values[-20:].mean() < 1.03 * 21.34


def test_a_new_limit_makes_a_new_mask():
    problem = bl.Problem(2, 2, 3)
    few = FewVisits(0)
    learned = few.start(problem, Confidence().start(problem, Revealed()))
    assert few.mask(learned).all()
    learned.threshold = -1.0
    assert few.mask(learned) is None


def test_the_threshold_follows_delta_unless_it_is_given():
    problem = bl.Problem(2, 2, 2)
    sure = Confidence(delta=0.02)
    agent = bl.DelayedOPPO(problem, transitions=sure, explore=FewVisits(max_delay=6))
    assert agent._explore.threshold == pytest.approx(12 * math.log(8 / 0.02))
    given = bl.DelayedOPPO(problem, transitions=sure, explore=FewVisits(3))
    assert given._explore.threshold == 3
