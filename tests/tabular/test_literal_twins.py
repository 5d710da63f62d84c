"""Whole runs against twins written from the texts alone: dense, slow, short.

- UCBVI under delay: Lancewicki, Rosenberg & Mansour (AAAI 2022), "Stochastic MDP with delayed
  feedback", with Hoeffding's bonuses in optimistic value iteration (Azar, Osband & Munos 2017).
- `Lazy`: Howson, Pike-Burke & Filippi (AISTATS 2023), Algorithm 2 and Lemma 5, around that UCBVI.
- `Bold`: Joulani, György & Szepesvári (ICML 2013), around OPPO without delay.
- `Doubling` by default: Algorithm 5 of the paper as completed in docs/algorithms/doubling.md.
- Algorithm 4 of van der Hoeven et al. (COLT 2023), around their Algorithm 2.

A twin has `play(k)`, the policy of episode k, and `learn(k, arrived)` with (j, path, costs) of all
episodes j that report at the end of k. Episodes count from 0.
"""

import math

import numpy as np
import pytest
from scipy.linalg import null_space

import belated as bl
import oracles
from belated.parts import Confidence, FewVisits, Softmax, Weighted
from belated.tabular.oreps.doubling import DoublingFTRL

DELTA = 0.1


def follow(world, agent, twin, delays, seed, full=False):
    """Both play the same episodes; returns the largest difference of their policies."""
    rng, open_, worst = np.random.default_rng(seed), [], 0.0
    H = world.problem.horizon
    for k in range(len(delays)):
        policy, expected = agent.begin_episode().policy, twin.play(k)
        worst = max(worst, float(np.abs(policy - expected).max()))
        path, costs = world.mdp.play(policy, rng, k), world.costs.at(k % 40)
        met = costs if full else costs[np.arange(H), path.states[:-1], path.actions]
        open_.append((k, path, met))
        arrived = [(j, path, met) for j, path, met in open_ if j + delays[j] == k]
        agent.observe([r for j, path, met in arrived for r in (path, bl.Costs(j, met))])
        twin.learn(k, arrived)
    return worst


def cells(path):
    return np.arange(len(path.actions)), path.states[:-1], path.actions


class UCBVI:
    """N visits, M transitions and C cost sums of what has reported; costs lowered by Hoeffding.

    All actions of least Q are played equally often. Unvisited and clipped rows tie at exactly 0,
    other rows at random costs never: so a margin of 1e-12 is far above rounding and below gaps.
    """

    def __init__(self, problem, K, scale, visits=-1.0):
        self.shape, self.visits = problem.shape, visits  # uniform in states with at most so many
        H, S, A = self.shape
        self.w = scale * math.sqrt(math.log(2 * H * S * A * K / DELTA) / 2)
        self.N, self.C = np.zeros((H, S, A)), np.zeros((H, S, A))
        self.M = np.zeros((H, S, A, S))

    def learn(self, k, arrived):
        for _, path, costs in arrived:
            at = cells(path)
            self.N[at] += 1
            self.C[at] += costs
            self.M[(*at, path.states[1:])] += 1

    def play(self, k):
        return self.plan(self.N, self.M, self.C)

    def plan(self, N, M, C):
        H, S, A = self.shape
        policy, V = np.zeros((H, S, A)), np.zeros(S)
        for h in range(H - 1, -1, -1):
            Q = np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    n = N[h, s, a]
                    if n > 0:
                        cost = max(0.0, C[h, s, a] / n - self.w / math.sqrt(n))
                        bonus = (H - 1 - h) * self.w / math.sqrt(n)
                        Q[s, a] = min(max(cost - bonus + M[h, s, a] @ V / n, 0.0), H - h)
                best = [a for a in range(A) if Q[s, a] <= min(Q[s]) + 1e-12]
                policy[h, s, best] = 1 / len(best)
                if N[h, s].sum() <= self.visits:
                    policy[h, s] = 1 / A
            V = Q.min(1)
        return policy


@pytest.mark.parametrize("explores", [False, True])
def test_ucbvi_under_delay(explores):
    H, S, A, K, longest = 3, 3, 2, 120, 3
    world = oracles.random_world(np.random.default_rng(11), H, S, A)
    delays = oracles.random_delays(np.random.default_rng(12), K, 0.1, longest)
    threshold = 2 * longest * math.log(H * S * A / DELTA)
    twin = UCBVI(world.problem, K, 0.1, threshold if explores else -1.0)
    agent = bl.DelayedUCBVI(
        world.problem,
        transitions=Confidence(radius_scale=0.1, delta=DELTA, episodes=K),
        explore=FewVisits(max_delay=longest) if explores else None,
    )
    assert follow(world, agent, twin, delays, 13) <= 1e-12


class LazyTwin(UCBVI):
    """Algorithm 2: the plan of the epoch, until some count has grown by 1 / alpha of itself."""

    def __init__(self, problem, K, scale, alpha):
        super().__init__(problem, K, scale)
        self.alpha, self.epochs = alpha, 0
        self.N0 = np.zeros_like(self.N)
        self.policy = self.plan(self.N, self.M, self.C)

    def play(self, k):
        new = self.N - self.N0
        if (self.alpha * new >= np.maximum(self.N0, 1)).any():  # Lemma 5: 0 counts as 1
            self.N0, self.epochs = self.N.copy(), self.epochs + 1
            self.policy = self.plan(self.N, self.M, self.C)
        return self.policy


@pytest.mark.parametrize("alpha", [1, 4])
def test_lazy_updating(alpha):
    K = 120
    world = oracles.random_world(np.random.default_rng(14), 3, 3, 2)
    delays = oracles.random_delays(np.random.default_rng(15), K, 0.1, 7)
    twin = LazyTwin(world.problem, K, 0.1, alpha)
    inside = bl.DelayedUCBVI(world.problem, transitions=Confidence(0.1, delta=DELTA, episodes=K))
    agent = bl.wrappers.Lazy(inside, alpha)
    assert follow(world, agent, twin, delays, 16) <= 1e-12
    assert agent.diagnostics()["epochs"] == twin.epochs
    assert 10 < twin.epochs < K / 2


class OPPO:
    """Without delay: pi_{k+1} in proportion to pi_k exp(-eta Q of pi_k)."""

    def __init__(self, p, start, shape, eta, gamma):
        self.p, self.start, self.eta, self.gamma = p, start, eta, gamma
        self.policy = np.full(shape, 1 / shape[2])

    def learn(self, path, costs):
        change = q_values(self.p, self.start, self.policy, path, costs, self.gamma)
        weights = self.policy * np.exp(-self.eta * change)
        self.policy = weights / weights.sum(-1, keepdims=True)


def q_values(p, start, policy, path, costs, gamma):
    """Q of the played policy: of a cost function, or of importance-weighted costs of a path."""
    if np.ndim(costs) == 1:
        given = np.zeros_like(policy)
        given[cells(path)] = costs / (oracles.occupancy(p, policy, start)[cells(path)] + gamma)
        costs = given
    return oracles.values(p, costs, policy)[1]


class BoldTwin:
    """A pool of learners; each waits for the costs of its last episode before it plays again."""

    def __init__(self, make):
        self.make, self.pool, self.busy, self.player = make, [], set(), {}

    def play(self, k):
        idle = [i for i in range(len(self.pool)) if i not in self.busy]
        if not idle:
            self.pool.append(self.make())
            idle = [len(self.pool) - 1]
        self.player[k] = idle[0]
        self.busy.add(idle[0])
        return self.pool[idle[0]].policy

    def learn(self, k, arrived):
        for j, path, costs in arrived:
            self.pool[self.player[j]].learn(path, costs)
            self.busy.remove(self.player[j])


@pytest.mark.parametrize("full", [True, False])
def test_bold(full):
    K, eta, gamma = 100, 0.3, 0.2
    world = oracles.random_world(np.random.default_rng(17), 3, 3, 2)
    problem, p = world.problem, oracles.dense(world.mdp)
    delays = oracles.random_delays(np.random.default_rng(18), K, 0.05, 6)
    twin = BoldTwin(lambda: OPPO(p, problem.start_probabilities, problem.shape, eta, gamma))
    given = {} if full else {"costs": Weighted(gamma)}
    agent = bl.wrappers.Bold(
        lambda: bl.DelayedOPPO(
            problem, transitions=world.mdp.transitions, update=Softmax(eta), **given
        )
    )
    assert follow(world, agent, twin, delays, 19, full) <= 1e-12
    assert len(agent.agents) == len(twin.pool) > 6


class DoublingTwin:
    """Algorithm 5 around OPPO with known transitions, as completed in docs/algorithms/doubling.md.

    The estimate adds kappa and the missing episodes that are not overdue. 2^e passes the estimate
    in one go. Under full information the sum of Q stays; under bandit feedback a phase starts anew
    and only its own episodes move the policy.
    """

    def __init__(self, p, start, shape, full):
        self.p, self.start, self.shape, self.full = p, start, shape, full
        self.kappa = 1.0 if full else shape[2] ** 1.5
        self.e = max(1, math.ceil(math.log2(self.kappa)))
        self.estimate, self.first, self.total = 0.0, 0, np.zeros(shape)
        self.played, self.missing, self.P, self.longest = {}, [], 0, 0
        self.overdue = self.skipped = self.old = 0

    def play(self, k):
        H, _, A = self.shape
        patience = min(2 * self.longest + 8, math.sqrt(8 * (self.P + 1) / math.log(A)))
        stays = [j for j in self.missing if k - j <= patience]
        self.overdue += len(self.missing) - len(stays)
        self.P += 1 + len(stays)
        if k > 0:
            self.estimate += self.kappa + len(stays)
            if self.estimate > 2**self.e:
                self.e = math.ceil(math.log2(self.estimate))
                if not self.full:
                    self.total, self.first = np.zeros(self.shape), k
        self.missing = [*stays, k]
        eta = 2 ** (-self.e / 2) / H if self.full else 2 ** (-2 * self.e / 3) / H
        weights = np.exp(-eta * (self.total - self.total.min(-1, keepdims=True)))
        self.played[k] = weights / weights.sum(-1, keepdims=True)
        return self.played[k]

    def learn(self, k, arrived):
        for j, path, costs in arrived:
            self.missing = [i for i in self.missing if i != j]
            self.longest = max(self.longest, k - j)
            if not self.full and k - j > 2 ** (self.e / 2):
                self.skipped += 1
            elif not self.full and j < self.first:
                self.old += 1
            else:
                gamma = 2 ** (-self.e / 3)
                policy = self.played[j]
                self.total += q_values(self.p, self.start, policy, path, costs, gamma)


@pytest.mark.parametrize("full", [True, False])
def test_doubling_by_default(full):
    K = 150
    world = oracles.random_world(np.random.default_rng(20), 3, 3, 2)
    problem = world.problem
    delays = oracles.random_delays(np.random.default_rng(21), K, 0.15, 12)
    delays[::10] = 45
    start = problem.start_probabilities
    twin = DoublingTwin(oracles.dense(world.mdp), start, problem.shape, full)
    given = {} if full else {"costs": Weighted(1.0)}
    inside = bl.DelayedOPPO(
        problem, transitions=world.mdp.transitions, update=Softmax(1.0), **given
    )
    agent = bl.wrappers.Doubling(inside)
    assert follow(world, agent, twin, delays, 22, full) <= 1e-12
    assert (agent.phase, agent.estimate) == (twin.e, pytest.approx(twin.estimate))
    assert twin.overdue > 5
    assert full or (twin.skipped > 2 and twin.old > 2)


class FTRL:
    """Algorithm 2 of van der Hoeven et al. on w_h(s, a, s'), by Newton steps in the null space.

    Every transition is possible here. p is taken as it is: the box of the paper's set, of width
    1 / (T H S A), is left out, so that the bound u equals w.
    """

    def __init__(self, p, eta, gamma):
        self.p, self.eta, self.gamma = p, eta, gamma
        H, S, A, _ = p.shape
        index = np.arange(p.size).reshape(p.shape)
        rows = [np.isin(np.arange(p.size), index[0, 0]) * 1.0]  # all begin in state 0
        for h, s in np.ndindex(H, S):
            for a, t in np.ndindex(A, S):  # w(s, a, t) = p(t | s, a) * sum of w(s, a, .)
                row = np.eye(p.size)[index[h, s, a, t]]
                row[index[h, s, a]] -= p[h, s, a, t]
                rows.append(row)
            if h:  # the mass that leaves s has come to s
                row = np.isin(np.arange(p.size), index[h, s]) * 1.0
                row[index[h - 1, :, :, s]] -= 1.0
                rows.append(row)
        self.there = np.ones(p.shape, dtype=bool)
        self.there[0, 1:] = False
        self.free = null_space(np.array(rows)[:, self.there.ravel()], rcond=1e-10)
        uniform = np.full((H, S, A), 1 / A)
        self.first = (oracles.occupancy(p, uniform, np.eye(S)[0])[..., None] * p)[self.there]
        self.L = np.zeros((H, S, A))

    def solve(self):
        """w_h(s, a) that minimises <L, w> + 1/eta sum w ln w - 1/gamma sum ln w."""
        w, N = self.first, self.free
        L = np.broadcast_to(self.L[..., None], self.p.shape)[self.there]
        for _ in range(100):
            slope = L + (np.log(w) + 1) / self.eta - 1 / (self.gamma * w)
            bend = 1 / (self.eta * w) + 1 / (self.gamma * w**2)
            step = N @ np.linalg.solve(N.T @ (bend[:, None] * N), -N.T @ slope)
            decrement = math.sqrt(step @ (bend * step))
            w = w + step * min(1.0, 0.5 / np.abs(step / w).max())
            if decrement < 1e-13 * math.sqrt(1 / self.gamma):
                break
        full = np.zeros(self.p.shape)
        full[self.there] = w
        return full.sum(-1)


class Algorithm4:
    """Restart ALG with a larger e, for a largest delay of 2^e, once a delay of 2^e was observed."""

    def __init__(self, p, T, D, literal):
        self.p, self.T, self.D, self.literal, self.e = p, T, D, literal, 1
        self.seen, self.first, self.w = [0], 0, {}
        self.start()

    def start(self):
        H, S, A, _ = self.p.shape
        stable = H * (1 + 2**self.e) ** 2
        rows = S * A * self.T
        eta = min(1 / (256 * stable), 1 / math.sqrt((rows + self.D) * math.log(H * rows)))
        self.alg = FTRL(self.p, eta, 1 / (4096 * stable))

    def play(self, k):
        epoch = self.e
        while max(self.seen) >= 2**self.e:
            self.e += 1
            if self.literal:
                break
        if self.e > epoch:
            self.start()
            self.first = k
        self.w[k] = self.alg.solve()
        mass = self.w[k].sum(-1, keepdims=True)
        uniform = np.full(self.w[k].shape, 1 / self.w[k].shape[2])
        return np.where(mass > 0, self.w[k] / np.where(mass > 0, mass, 1), uniform)

    def learn(self, k, arrived):
        for j, path, costs in arrived:
            self.seen.append(k - j)
            if j >= self.first:
                at = cells(path)
                self.alg.L[at] += costs / self.w[j][at]


@pytest.mark.parametrize("literal", [True, False])
def test_algorithm_4_of_van_der_hoeven_and_others(literal):
    T, D = 40, 200.0
    world = oracles.random_world(np.random.default_rng(23), 2, 3, 2)
    delays = np.random.default_rng(24).integers(0, 3, T)
    delays[[5, 20]] = 3, 11
    twin = Algorithm4(oracles.dense(world.mdp), T, D, literal)
    inside = bl.DelayedFTRL(
        world.problem, transitions=world.mdp.transitions, learning_rate=1, barrier=1
    )
    agent = DoublingFTRL(inside, literal=literal, totals=(T, D))
    assert follow(world, agent, twin, delays, 25) <= 1e-9
    assert agent.delay_phase == twin.e == 4
