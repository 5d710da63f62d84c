"""Copies of learners, compared with a recomputation."""

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Bonus, Confidence, Softmax, Weighted


def softmax(total, eta):
    weights = np.exp(-eta * (total - total.min(-1, keepdims=True)))
    return weights / weights.sum(-1, keepdims=True)


def q_with_bonus(counts, costs, policy):
    """Clipped Q of observed frequencies with bonus 0.3 / sqrt(n); 0 where nothing was seen."""
    H, S, A = policy.shape
    V, Q = np.zeros(S), np.zeros((H, S, A))
    for h in reversed(range(H)):
        n = counts[h].sum(-1)
        p = counts[h] / np.maximum(n, 1)[..., None]
        Q[h] = np.clip(costs[h] - 0.3 / np.sqrt(np.maximum(n, 1)) + p @ V, 0, H - h)
        Q[h][n == 0] = 0.0
        V = (policy[h] * Q[h]).sum(-1)
    return Q


@pytest.mark.parametrize("paths", ["late", "at once"])
@pytest.mark.parametrize("bold", [True, False])
def test_every_copy_learns_from_its_own_episodes(paths, bold):
    """Every copy uses its own costs and its own counts, those of the new batch included."""
    rng = np.random.default_rng(8)
    H, S, A, K, largest, eta = 3, 3, 2, 40, 3, 0.7
    world = oracles.random_world(rng, H, S, A)
    delays = rng.integers(0, largest + 1, K)

    def make():
        return bl.DelayedOPPO(world.problem, transitions=Bonus(0.3), update=Softmax(eta))

    agent = bl.wrappers.Bold(make) if bold else bl.wrappers.Parallel(make, largest)
    copies, busy, turns, history = largest + 1, set(), [], []
    total, counts = np.zeros((K, H, S, A)), np.zeros((K, H, S, A, S))
    line = bl.DelayLine()
    for k in range(K):
        turn = min(set(range(K)) - busy) if bold else k % copies
        turns.append(turn)
        busy.add(turn)
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, softmax(total[turn], eta), atol=1e-10)
        history.append(policy)
        path, costs = world.mdp.play(policy, rng, k), bl.Costs(k, world.costs.at(k))
        line.push([costs] if paths == "at once" else [path, costs], int(delays[k]))
        agent.observe(batch := ([path] if paths == "at once" else []) + line.release(k))
        for record in batch:
            if isinstance(record, bl.Trajectory):
                for h in range(H):
                    s, a, y = record.states[h], record.actions[h], record.states[h + 1]
                    counts[turns[record.episode], h, s, a, y] += 1
        for record in batch:
            if isinstance(record, bl.Costs):
                i = turns[record.episode]
                busy.discard(i)
                total[i] += q_with_bonus(counts[i], record.values, history[record.episode])
    assert len(set(turns)) == len(agent.agents) > 2
    arrived = sum(copy._model.counts.arrived for copy in agent.agents)
    assert arrived == (K if paths == "at once" else int((np.arange(K) + delays < K).sum()))


def test_bold_against_a_pool_written_again():
    """Each copy runs Hedge over the arms; lost feedback keeps its copy busy for ever."""
    rng = np.random.default_rng(3)
    A, K, eta = 3, 60, 0.4
    world = bl.environments.bandit([0.2, 0.5, 0.7])
    delays = oracles.random_delays(rng, K, 0.1, 6)
    agent = bl.wrappers.Bold(
        lambda: bl.DelayedOPPO(
            world.problem, transitions=world.mdp.transitions, update=Softmax(eta)
        )
    )
    pool, idle, players = [np.zeros(A)], [True], []
    line = bl.DelayLine()
    for k in range(K):
        if not any(idle):
            pool.append(np.zeros(A))
            idle.append(True)
        i = idle.index(True)
        idle[i] = False
        players.append(i)
        np.testing.assert_allclose(
            agent.begin_episode().policy[0, 0], softmax(pool[i], eta), atol=1e-12
        )
        costs = rng.random((1, 1, A))
        line.push([bl.Costs(k, costs)], int(delays[k]))
        agent.observe(batch := line.release(k))
        for record in batch:
            pool[players[record.episode]] += record.values[0, 0]
            idle[players[record.episode]] = True
    assert len(agent.agents) == len(pool) > 5


COPIED = {
    "oreps": lambda problem: bl.DelayedOREPS(
        problem, learning_rate=0.5, transitions=Confidence(0.005)
    ),
    "oreps on arrival": lambda problem: bl.DelayedOREPS(
        problem, learning_rate=0.5, transitions=Confidence(0.005), project="on arrival"
    ),
    "ucbvi": lambda problem: bl.DelayedUCBVI(problem, transitions=Confidence(0.1)),
    "weighted": lambda problem: bl.DelayedOPPO(
        problem, transitions=Confidence(0.02), costs=Weighted(0.1), update=Softmax(0.5)
    ),
}


@pytest.mark.parametrize("kind", COPIED)
def test_copies_are_saved(kind, tmp_path):
    """Loaded copies play what the saved ones play; so do copies that are made afterwards."""
    world = oracles.random_world(np.random.default_rng(0))
    agent = bl.wrappers.Parallel(lambda: COPIED[kind](world.problem), 5)
    agents, rng, line = [agent], np.random.default_rng(1), bl.DelayLine()
    for k in range(16):
        if k == 4:  # two copies are still to be made
            bl.save(agent, tmp_path / "agent")
            agents.append(bl.load(tmp_path / "agent"))
            assert repr(agents[1]) == repr(agent)
        policies = [one.begin_episode().policy for one in agents]
        assert all(np.array_equal(policies[0], other) for other in policies)
        path, costs = world.mdp.play(policies[0], rng, k), world.costs.at(k)
        if agent.information == "bandit":
            costs = costs[np.arange(3), path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, costs)], int(rng.integers(0, 4)))
        batch = line.release(k)
        for one in agents:
            one.observe(batch)
