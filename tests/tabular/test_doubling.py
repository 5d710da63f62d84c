"""Doubling against the printed algorithm and a twin; late, lost and repeated records."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Averaged, Confidence, Revealed, Softmax, Weighted
from twins import Phases

COSTS = ["revealed", "weighted", "averaged"]
SETTINGS = list(itertools.product(COSTS, [True, False], ["late", "at once"], [False, True]))


def agent_of(world, costs, known, paths="late", literal=False, K=100, width=0.03, scale=1.0):
    part = {
        "revealed": Revealed(),
        "weighted": Weighted(1),
        "averaged": Averaged(scale=0.0 if known else 1.0),
    }[costs]
    transitions = world.mdp.transitions if known else Confidence(width, episodes=K)
    inside = bl.DelayedOPPO(
        world.problem, transitions=transitions, costs=part, update=Softmax(1, scale=scale)
    )
    return bl.wrappers.Doubling(inside, paths=paths, literal=literal)


def compare(world, agent, twin, delays, rng, paths="late"):
    """Play both on the same records; returns how far the policies went from uniform."""
    H, _, A = world.problem.shape
    records, moved = [], 0.0
    for k in range(len(delays)):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, twin.begin(k), atol=1e-9)
        assert agent.phase == twin.e
        assert agent.estimate == pytest.approx(twin.estimate)
        moved = max(moved, np.abs(policy - 1 / A).max())
        path, costs = world.mdp.play(policy, rng, k), world.costs.at(k % 40)
        met = costs[np.arange(H), path.states[:-1], path.actions]
        records.append((path, costs if agent.information == "full" else met))
        come = [j for j in range(k + 1) if j + delays[j] == k]
        ways = [path] if paths == "at once" else [records[j][0] for j in come]
        agent.observe([*ways, *(bl.Costs(j, records[j][1]) for j in come)])
        twin.observe(ways, [(j, records[j][1]) for j in come], k)
    assert agent.diagnostics()["skipped"] == twin.too_late
    return moved


@pytest.mark.parametrize(("costs", "known", "paths", "literal"), SETTINGS)
def test_policies_equal_an_independent_twin(costs, known, paths, literal):
    rng = np.random.default_rng([7, COSTS.index(costs), known, literal])
    H, S, A, K = 2, 3, 2, 90
    world = oracles.random_world(rng, H, S, A, start=(0.6, 0.4, 0.0))
    delays = oracles.random_delays(rng, K, 0.1, 40)
    scale = 8.0 if costs == "weighted" else 4.0
    agent = agent_of(world, costs, known, paths, literal, K, scale=scale)
    p = oracles.dense(world.mdp) if known else None
    twin = Phases(world.problem, costs, p, paths, literal, K, 0.03, scale)
    assert compare(world, agent, twin, delays, rng, paths) > 0.02
    assert twin.used > 5
    skips = math.isfinite(twin.parameters()[2])
    assert (twin.too_late > 0) == skips
    if literal and not skips:
        assert twin.old > 0


@pytest.mark.parametrize("literal", [False, True])
def test_arms_equal_an_independent_twin(literal):
    rng = np.random.default_rng(5)
    world, K = oracles.random_world(rng, 1, 1, 3), 120
    delays = oracles.random_delays(rng, K, 0.1, 12)
    agent = agent_of(world, "weighted", True, literal=literal)
    p = oracles.dense(world.mdp)
    twin = Phases(world.problem, "weighted", p, "late", literal, K, 0.0, 1.0)
    assert compare(world, agent, twin, delays, rng) > 0.1


@pytest.mark.parametrize("costs", COSTS)
def test_forgotten_episodes_equal_an_independent_twin(costs, monkeypatch):
    """Two delays are far longer than the others: their records are dropped, and count once."""
    monkeypatch.setattr("belated.tabular.doubling.SHORTEST_WAIT", 6)
    rng = np.random.default_rng(8)
    world, K = oracles.random_world(rng, 2, 3, 2, start=(0.6, 0.4, 0.0)), 90
    delays = oracles.random_delays(rng, K, 0.1, 2)
    delays[[20, 25]] = 50, 17
    agent = agent_of(world, costs, known=False, K=K, scale=4.0)
    twin = Phases(world.problem, costs, None, "late", False, K, 0.03, 4.0, least=6)
    compare(world, agent, twin, delays, rng)
    assert agent.diagnostics()["forgotten"] > 3
    reported = np.arange(K) + delays < K
    assert agent.agent._model.counts.arrived == reported.sum() - 2


def printed(world, delays, rng, agent):
    """Algorithm 5 of the paper, line by line: known transitions, bandit feedback."""
    H, S, A = world.problem.shape
    p, start = oracles.dense(world.mdp), world.problem.start_probabilities
    policy, e, F, played, seen = np.full((H, S, A), 1 / A), 1, [], [], []
    for k in range(1, len(delays) + 1):
        eta, gamma, beta = 2 ** (-2 * e / 3) / H, 2 ** (-e / 3), 2 ** (e / 2)
        np.testing.assert_allclose(agent.begin_episode().policy, policy, atol=1e-10)
        assert agent.phase == e
        played.append(policy)
        path, costs = world.mdp.play(policy, rng, k - 1), world.costs.at((k - 1) % 40)
        seen.append((path, costs[np.arange(H), path.states[:-1], path.actions]))
        F.append([j for j in range(1, k + 1) if j + delays[j - 1] == k])
        batch = [(bl.Costs(j - 1, seen[j - 1][1]), seen[j - 1][0]) for j in F[-1]]
        agent.observe(itertools.chain.from_iterable(batch))
        change = np.zeros((H, S, A))
        for j in F[-1]:
            if delays[j - 1] <= beta:
                q = oracles.occupancy(p, played[j - 1], start)
                chat = np.zeros((H, S, A))
                for h in range(H):
                    cell = (h, seen[j - 1][0].states[h], seen[j - 1][0].actions[h])
                    chat[cell] = seen[j - 1][1][h] / (q[cell] + gamma)
                change += oracles.values(p, chat, played[j - 1])[1]
        policy = policy * np.exp(-eta * change)
        policy = policy / policy.sum(-1, keepdims=True)
        if A**1.5 * k + sum(j - sum(map(len, F[:j])) for j in range(1, k + 1)) > 2**e:
            policy, e = np.full((H, S, A), 1 / A), e + 1
        yield k, e, beta, change


@pytest.mark.parametrize("seed", range(3))
def test_literal_is_the_printed_algorithm(seed):
    rng = np.random.default_rng(seed)
    world = oracles.random_world(rng, 2, 3, 2, start=(0.5, 0.3, 0.2))
    delays = oracles.random_delays(rng, 120, 0.1, 30)
    agent = agent_of(world, "weighted", known=True, literal=True)
    for _ in printed(world, delays, rng, agent):
        pass
    assert agent.diagnostics()["skipped"] > 0


def test_an_episode_that_was_once_too_old_is_used_in_a_longer_phase():
    """The delay is 7; the threshold is 4 when the episode is first too old, and 8 at arrival."""
    rng = np.random.default_rng(0)
    world = oracles.random_world(rng, 2, 1, 2)
    delays = np.zeros(12, dtype=int)
    delays[2] = 7
    agent = agent_of(world, "weighted", known=True, literal=True)
    for k, _, beta, change in printed(world, delays, rng, agent):
        if k == 10:  # it arrives, and so does episode 10 itself
            assert (agent.phase, beta) == (6, 8.0)
            assert np.count_nonzero(change) > 2
            assert agent.diagnostics()["skipped"] == 0


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("costs", COSTS)
def test_every_delivered_trajectory_is_counted(costs, literal):
    rng = np.random.default_rng(0)
    mdp, K = oracles.random_world(rng, 2, 3, 2).mdp, 500
    world = bl.World(mdp, bl.costs.sequence(rng.random((K, 2, 3, 2))))
    delays = bl.delays.geometric(10).draw(K, rng)
    agent = agent_of(world, costs, known=False, literal=literal)
    bl.simulate(world, agent, delays=delays, episodes=K)
    delivered = int((np.arange(K) + delays < K).sum())
    assert agent.diagnostics()["skipped"] > 50
    assert agent.agent._model.counts.arrived == delivered
    if costs == "averaged":
        assert agent.agent._costs.visits.sum() == 2 * delivered


@pytest.mark.parametrize("known", [False, True])
def test_dapo_counts_what_is_too_late_and_does_not_follow_it(known):
    world = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
    transitions = world.mdp.transitions if known else None
    inside = bl.DAPO(world.problem, transitions=transitions, learning_rate=1, exploration=1)
    agent = bl.wrappers.Doubling(inside, literal=True)
    for _ in range(12):
        agent.begin_episode()
    assert agent.parameters.threshold < 11
    for number, moves in ((0, False), (11, True)):
        agent.observe([bl.Trajectory(number, [0, 1, 2], [0, 1]), bl.Costs(number, [0.5, 0.5])])
        assert inside._total.any() == moves
    assert agent.diagnostics()["skipped"] == 1
    assert known or inside._set.counts.arrived == 2


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("least", [1000, 5])
def test_an_episode_counts_once(literal, least, monkeypatch):
    """Its costs arrive again in every later episode; the phases are those of a run without that."""
    monkeypatch.setattr("belated.tabular.doubling.SHORTEST_WAIT", least)
    problem, seen = bl.Problem(1, 2, 1), []
    t = bl.Transitions.from_dense(np.ones((1, 2, 1)))
    for again in (False, True):
        agent = bl.wrappers.Doubling(bl.DelayedOPPO(problem, transitions=t), literal=literal)
        rng, trace = np.random.default_rng(0), []
        lost = rng.random(300) < 0.3
        for k in range(300):
            agent.begin_episode()
            trace.append((agent.phase, agent.estimate))
            if not lost[k] and k:
                agent.observe([bl.Costs(k, [[[0.0, 1.0]]])])
            if k == 30 or (k > 30 and again):
                try:
                    agent.observe([bl.Costs(0, [[[0.0, 1.0]]])])
                except bl.FeedbackError:
                    assert k > 30
                else:
                    assert k == 30 or (least == 5 and not literal)
        seen.append((trace, agent.diagnostics()))
    assert seen[0] == seen[1]


def test_memory_stays_bounded_when_feedback_is_lost(monkeypatch):
    """Nothing is skipped in this setting, so only forgetting bounds the open episodes."""
    monkeypatch.setattr("belated.tabular.doubling.SHORTEST_WAIT", 100)
    problem = bl.Problem(1, 50, 1)
    t = bl.Transitions.from_dense(np.ones((1, 50, 1)))
    agent = bl.wrappers.Doubling(bl.DelayedOPPO(problem, transitions=t))
    rng = np.random.default_rng(0)
    lost, costs = rng.random(1500) < 0.2, rng.random((100, 1, 1, 50))
    line, sizes = bl.DelayLine(), []
    tracemalloc.start()
    for k in range(1500):
        agent.begin_episode()
        line.push([bl.Costs(k, costs[k % 100])], bl.NEVER if lost[k] else 3)
        agent.observe(line.release(k))
        assert agent.diagnostics()["open"] <= 101
        if k in (499, 1499):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert agent.diagnostics()["forgotten"] == lost[: 1500 - 101].sum()
    assert sizes[1] - sizes[0] < 20_000


def test_delays_beyond_what_is_remembered_are_learned(monkeypatch):
    """The first episodes are forgotten; their late reports make the memory long enough."""
    monkeypatch.setattr("belated.tabular.doubling.SHORTEST_WAIT", 10)
    rng = np.random.default_rng(0)
    world = bl.World(oracles.random_world(rng).mdp, bl.costs.sequence(rng.random((300, 3, 4, 3))))
    agent = agent_of(world, "revealed", known=False, paths="late")
    bl.simulate(world, agent, delays=bl.delays.fixed(60), episodes=300)
    assert agent.diagnostics()["forgotten"] <= 60
    assert agent.agent._model.counts.arrived >= 300 - 60 - 60


def test_a_refused_batch_changes_no_phase():
    """A batch of a late record and a bad one is refused; the late record can then come again."""
    world = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
    agent = agent_of(world, "averaged", known=True, literal=True)
    for _ in range(8):
        agent.begin_episode()
    path, late = bl.Trajectory(0, [0, 0, 0], [0, 0]), bl.Costs(0, [0.5, 0.5])
    before = agent.diagnostics()
    with pytest.raises(bl.FeedbackError):
        agent.observe([path, late, bl.Costs(1, [0.5])])
    assert agent.diagnostics() == before
    agent.observe([path, late])
    assert agent.diagnostics()["skipped"] == 1


@pytest.mark.parametrize("costs", ["revealed", "weighted"])
@pytest.mark.parametrize("literal", [False, True])
def test_a_new_phase_begins_anew_only_where_the_proof_needs_it(costs, literal):
    """E16b, E16c: the policy is uniform again in the pseudo-code, and with importance weights."""
    world = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
    agent = agent_of(world, costs, known=False, paths="at once", literal=literal, scale=20.0)
    phases, policies = [], []
    rng = np.random.default_rng(0)
    for k in range(60):
        policies.append(agent.begin_episode().policy)
        phases.append(agent.phase)
        path, function = world.mdp.play(policies[-1], rng, k), world.costs.at(k % 40)
        met = function[np.arange(2), path.states[:-1], path.actions]
        agent.observe([path, bl.Costs(k, function if costs == "revealed" else met)])
    starts = [k for k in range(8, 60) if phases[k] > phases[k - 1]]
    assert len(starts) >= 2
    for k in starts:
        assert np.all(policies[k] == 0.5) == (literal or costs == "weighted")
    assert agent.agent._model.counts.arrived == 60


def test_saving_keeps_what_has_reported(monkeypatch, tmp_path):
    monkeypatch.setattr("belated.tabular.doubling.SHORTEST_WAIT", 5)
    world = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
    agent = agent_of(world, "averaged", known=True)
    bl.simulate(world, agent, delays=bl.delays.lost(0.3, bl.delays.fixed(2)), episodes=40)
    bl.save(agent, tmp_path / "agent")
    other = bl.load(tmp_path / "agent")
    assert other.diagnostics() == agent.diagnostics()
    late = [bl.Costs(k, [0.5, 0.5]) for k in range(20)]
    for one in (agent, other):
        one.observe(late)
        one.begin_episode()
    assert other.diagnostics() == agent.diagnostics()
