"""Whole runs recomputed from the definitions: the anytime rule, doubling, mean costs, UCBVI."""

import math

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Averaged, Bonus, Confidence, FewVisits, Softmax
from belated.tabular.counts import ConfidenceSet, Counts, log_term
from twins import Counting


def softmax(total, eta):
    weights = np.exp(-eta * (total - total.min(-1, keepdims=True)))
    return weights / weights.sum(-1, keepdims=True)


class Observed:
    """Counted transitions (T, S, A, S), and sums and numbers (C, S, A) of costs with a path."""

    def __init__(self, shape, T, C):
        self.horizon, S, A = shape
        self.counts = np.zeros((T, S, A, S))
        self.sums, self.n = np.zeros((C, S, A)), np.zeros((C, S, A))
        self._paths, self._costs, self._used = {}, {}, set()

    def take(self, batch):
        """Returns the episodes whose path and costs are both there now."""
        for r in batch:
            (self._paths if isinstance(r, bl.Trajectory) else self._costs)[r.episode] = r
            if isinstance(r, bl.Trajectory):
                for h in range(self.horizon):
                    t = min(h, len(self.counts) - 1)
                    self.counts[t, r.states[h], r.actions[h], r.states[h + 1]] += 1
        new = [j for j in sorted(self._paths) if j in self._costs and j not in self._used]
        self._used.update(new)
        for j in new:
            path = self._paths[j]
            for h in range(self.horizon):
                at = (min(h, len(self.sums) - 1), path.states[h], path.actions[h])
                self.sums[at] += self._costs[j].values[h]
                self.n[at] += 1
        return new


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_anytime_rule(scale):
    rng = np.random.default_rng(1)
    H, S, A, K = 3, 3, 2, 40
    world = oracles.random_world(rng, H, S, A)
    p, delays = oracles.dense(world.mdp), oracles.random_delays(rng, K, 0.1, 8)
    agent = bl.DelayedOPPO(
        world.problem, transitions=world.mdp.transitions, update=Softmax(scale=scale)
    )
    total, history, counting = np.zeros((H, S, A)), [], Counting(A)
    line = bl.DelayLine()
    for k in range(K):
        counting.begin(k)
        root = math.sqrt(counting.total)
        eta = scale * math.sqrt(math.log(A) / 2) / (np.arange(H, 0, -1) * root)
        expected = softmax(total, eta[:, None, None])
        np.testing.assert_allclose(agent.begin_episode().policy, expected, atol=1e-12)
        history.append(expected)
        line.push([bl.Costs(k, world.costs.at(k))], int(delays[k]))
        agent.observe(line.release(k))
        for j in range(k + 1):
            if j + delays[j] == k:
                counting.arrive(j, k)
                total += oracles.values(p, world.costs.at(j), history[j])[1]
    assert counting.total < sum(1 + sum(j + delays[j] >= k for j in range(k)) for k in range(K))


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("optimism", ["bonus", "confidence"])
def test_mean_costs_on_unknown_transitions(homogeneous, pooled, optimism):
    """S2 with paths and costs that arrive separately, and a start distribution."""
    rng = np.random.default_rng(3)
    H, S, A, K = 3, 3, 2, 40
    world = oracles.random_world(rng, H, S, A, homogeneous, start=(0.4, 0.6, 0.0))
    T, C = 1 if homogeneous else H, 1 if pooled else H
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=Bonus(0.3) if optimism == "bonus" else Confidence(0.05, episodes=K),
        costs=Averaged(pooled=pooled),
        update=Softmax(0.5),
    )
    observed = Observed((H, S, A), T, C)
    counts, sums, n = observed.counts, observed.sums, observed.n
    total, history, line = np.zeros((H, S, A)), [], bl.DelayLine()
    L = math.log(H * S * A * K / 0.4)
    pairs = H * S * A * K * (H if homogeneous else 1)
    deviation = 0.3 if optimism == "bonus" else 0.05 * math.sqrt(math.log(2 * pairs / 0.1) / 2)
    for k in range(K):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, softmax(total, 0.5), atol=1e-9)
        history.append(policy)
        path = world.mdp.play(policy, rng, k)
        line.push([path], int(rng.integers(0, 6)))
        line.push([bl.Costs(k, rng.random(H))], int(rng.integers(0, 6)))
        agent.observe(batch := line.release(k))
        new = observed.take(batch)
        low = np.maximum(sums / np.maximum(n, 1) - deviation / np.sqrt(np.maximum(n, 1)), 0)
        low[n == 0] = 0
        for j in new:
            V = np.zeros(S)
            for h in reversed(range(H)):
                Q = np.zeros((S, A))
                for s, a in np.ndindex(S, A):
                    seen, cost = counts[min(h, T - 1), s, a], low[min(h, C - 1), s, a]
                    Q[s, a] = backup(seen, cost, V, L, H - h, optimism)
                total[h] += Q
                V = (history[j][h] * Q).sum(-1)
    assert np.abs(policy - 0.5).max() > 0.05


def backup(seen, cost, V, L, left, optimism):
    """Q of one row: with a bonus of 0.3 / sqrt(m), or the least over a radius scaled by 0.05."""
    m = seen.sum()
    if optimism == "bonus":
        return 0.0 if m == 0 else min(max(cost - 0.3 / math.sqrt(m) + seen / m @ V, 0), left)
    if m == 0:
        return cost + V.min()
    p = seen / m
    radius = 0.05 * (4 * np.sqrt(p * (1 - p) * L / m) + 10 * L / m)
    x, high = np.maximum(0, p - radius), np.minimum(1, p + radius)
    for i in np.argsort(V):
        x[i] += min(1 - x.sum(), high[i] - x[i])
    return cost + x @ V


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_ucbvi_over_several_steps(homogeneous, pooled, known):
    rng = np.random.default_rng(4)
    H, S, A, K = 4, 4, 3, 80
    world = oracles.random_world(rng, H, S, A, homogeneous, start=(0.4, 0.6, 0.0, 0.0))
    T, C = 1 if homogeneous else H, 1 if pooled else H
    agent = bl.DelayedUCBVI(
        world.problem,
        transitions=world.mdp.transitions if known else Confidence(0.1, episodes=K),
        costs=Averaged(pooled=pooled, scale=0.1 if known else 1.0),
        explore=None if known else FewVisits(2),
    )
    line, observed = bl.DelayLine(), Observed((H, S, A), T, C)
    counts, sums, n = observed.counts, observed.sums, observed.n
    tied = single = 0
    for k in range(K):
        # known transitions: an anytime log term, and the true p without a bonus
        number = max(2, 1 << (k + 1).bit_length()) ** 2 if known else K
        pairs = H * S * A * number * (H if homogeneous else 1)
        width = 0.1 * math.sqrt(math.log(2 * pairs / 0.1) / 2)
        V, expected = np.zeros(S), np.zeros((H, S, A))
        for h in reversed(range(H)):
            seen, c = counts[min(h, T - 1)], min(h, C - 1)
            m, mean = np.maximum(seen.sum(-1), 1), sums[c] / np.maximum(n[c], 1)
            low = np.maximum(mean - width / np.sqrt(np.maximum(n[c], 1)), 0)
            Q = low - (H - 1 - h) * width / np.sqrt(m) + (seen / m[..., None]) @ V
            Q = np.where((seen.sum(-1) > 0) & (n[c] > 0), np.clip(Q, 0, H - h), 0.0)
            if known:
                Q = np.where(n[c] > 0, low, 0.0) + oracles.dense(world.mdp)[h] @ V
            # equally good actions equally often: ties are at exactly 0, other gaps above 1e-12
            V = Q.min(-1)
            best = Q - V[:, None] <= 1e-12
            expected[h] = best / best.sum(-1, keepdims=True)
            tied, single = tied + (best.sum(-1) == 2).sum(), single + (best.sum(-1) == 1).sum()
            expected[h][(seen.sum((-1, -2)) <= 2) & (not known)] = 1 / A
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, expected)
        line.push([world.mdp.play(policy, rng, k)], int(rng.integers(0, 6)))
        line.push([bl.Costs(k, rng.random(H))], int(rng.integers(0, 6)))
        agent.observe(batch := line.release(k))
        observed.take(batch)
    assert min(tied, single) > 0  # two of three actions, and one


def test_the_radius_without_known_episodes_follows_the_clock():
    """episodes=None: at every arrival the box has the current log term."""
    world = oracles.random_world(np.random.default_rng(0))
    agent = bl.DelayedOPPO(world.problem, transitions=Confidence(0.05), update=Softmax(0.3))
    bl.simulate(world, agent, episodes=40)
    box = agent._model.set
    fresh = ConfidenceSet(Counts(world.problem), log_term(world.problem, None, 40, 0.1), 0.05)
    fresh.counts = box.counts
    fresh.refresh(np.arange(box.unseen.size))
    np.testing.assert_array_equal(box.unseen, fresh.unseen)
    np.testing.assert_array_equal(box.lower, fresh.lower)


def test_doubling_restarts_oreps():
    """Each phase begins at the first measure and forgets the costs of earlier phases."""
    world = oracles.random_world(np.random.default_rng(0), 3, 3, 2)
    known = {"transitions": world.mdp.transitions}
    agent = bl.wrappers.Doubling(bl.DelayedOREPS(world.problem, learning_rate=1, **known))
    first = bl.DelayedOREPS(world.problem, learning_rate=1, **known).begin_episode().policy
    since, phase, starts, open_records = np.zeros((3, 3, 2)), agent.phase, 0, []
    for k in range(30):
        policy = agent.begin_episode().policy
        if agent.phase != phase:
            phase, since, starts, open_records = agent.phase, since * 0, starts + 1, []
            np.testing.assert_allclose(policy, first, atol=1e-9)
        eta = math.sqrt(2 * math.log(3 * 2) / 2.0**phase)
        fresh = bl.DelayedOREPS(world.problem, learning_rate=eta, **known)
        for i, costs in enumerate(open_records):
            fresh.begin_episode()
            fresh.observe([bl.Costs(i, costs)])
        np.testing.assert_allclose(policy, fresh.begin_episode().policy, atol=1e-5)
        open_records.append(world.costs.at(k))
        agent.observe([bl.Costs(k, world.costs.at(k))])
    assert starts >= 3


def test_a_row_that_names_a_successor_twice_is_the_same_row():
    """The first measure of O-REPS, and everything else, depends on the dynamics only."""
    world = bl.environments.gridworld(3, horizon=5)
    merged = bl.Transitions.from_dense(world.mdp.transitions.dense()[0])
    one, other = (
        bl.DelayedOREPS(world.problem, transitions=t, learning_rate=0.5)
        for t in (world.mdp.transitions, merged)
    )
    for k in range(5):
        policies = [agent.begin_episode().policy for agent in (one, other)]
        np.testing.assert_allclose(policies[0], policies[1], atol=1e-7)
        for agent in (one, other):
            agent.observe([bl.Costs(k, world.costs.at(k))])
