"""Delayed O-REPS, the agent (its solver: test_projection): T14, T15, T16, and measures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.tree import freeze, thaw
from belated.parts import Confidence


def measures_of(agent):
    return np.exp(agent._last.log_measure)


@settings(max_examples=25)
@given(st.integers(0, 100_000), st.floats(0.02, 2.0))
def test_regret_bound_of_known_transitions(seed, eta):
    """T14: R_K <= 2 H ln(S A) / eta + eta H (K + 3 D_K), lost feedback included."""
    rng = np.random.default_rng(seed)
    H, S, A = (int(n) for n in rng.integers(1, 4, 3))
    world = oracles.random_world(rng, H, S, A, homogeneous=bool(rng.integers(2)))
    costs = rng.random((40, H, S, A))
    world = bl.World(world.mdp, bl.costs.sequence(np.round(costs) if seed % 2 else costs))
    delays = oracles.random_delays(rng, 40, rng.random() * 0.4, int(rng.integers(0, 30)))
    agent = bl.DelayedOREPS(world.problem, transitions=world.mdp.transitions, learning_rate=eta)
    run = bl.simulate(world, agent, delays=delays, episodes=40)
    bound = 2 * H * math.log(max(S * A, 2)) / eta + eta * H * (40 + 3 * run.total_delay)
    assert run.regret[-1] <= bound
    assert run.diagnostics["unconverged"] == 0


def test_one_step_is_delayed_hedge():
    """T16, H = 1: weights of the actions are multiplied by exp(-eta costs), also under delays."""
    A, K, eta = 4, 60, 0.3
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), (3, A))
    mdp = bl.MDP(bl.Transitions.from_dense(p), 1, 1)
    entropy = -(p * np.log(p)).sum(-1)[1]
    delays, costs = oracles.random_delays(rng, K, 0.1, 9), rng.random((K, 1, 3, A))
    known = bl.DelayedOREPS(mdp.problem, transitions=mdp.transitions, learning_rate=eta)
    unknown = bl.DelayedOREPS(mdp.problem, learning_rate=eta)
    arrival, line = np.arange(K) + delays, bl.DelayLine()
    for k in range(K):
        weights = np.exp(-eta * costs[arrival < k].sum(0)[0, 1])
        policy = known.begin_episode().policy[0, 1]
        first = weights * np.exp(entropy)  # the reduced reference of 1 / (S^2 A)
        np.testing.assert_allclose(policy, first / first.sum(), atol=1e-10)
        policy = unknown.begin_episode().policy[0, 1]
        np.testing.assert_allclose(policy, weights / weights.sum(), atol=1e-8)
        line.push([bl.Costs(k, costs[k])], int(delays[k]))
        batch = line.release(k)
        known.observe(batch)
        unknown.observe(batch)


def test_nothing_is_solved_when_nothing_can_move():
    """T15, second half, and the diagnostics."""
    world = oracles.random_world(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    known = bl.DelayedOREPS(world.problem, transitions=world.mdp.transitions, learning_rate=0.3)
    arriving, always = (
        bl.DelayedOREPS(
            world.problem, transitions=Confidence(0.003), learning_rate=0.3, project=project
        )
        for project in ("on arrival", "every episode")
    )
    for agent in (known, arriving, always):
        first = agent.begin_episode().policy
        solves = agent.diagnostics()["solves"]
        second = agent.begin_episode().policy  # neither path nor costs
        assert agent.diagnostics()["solves"] == solves
        assert np.array_equal(second, first)
        agent.observe([world.mdp.play(first, rng, 0)] if agent.uses_paths else [])
        third = agent.begin_episode().policy  # a path alone changes the set, not the costs
        assert agent.diagnostics()["solves"] == solves + (agent is always)
        assert np.array_equal(third, first) == (agent is not always)
        agent.observe([bl.Costs(0, world.costs.at(0))])
        fourth = agent.begin_episode().policy
        assert agent.diagnostics()["solves"] == solves + 1 + (agent is always)
        assert not np.array_equal(fourth, third)
        assert agent.diagnostics()["gap"] <= 1e-10


def cone_measure(lower, upper, weights, start):
    """argmin over measures (H, S, A, S) of sum q (log q - weights), by a cone solver."""
    H, S, A, _ = weights.shape
    cp = pytest.importorskip("cvxpy")
    q = [cp.Variable((S * A, S), nonneg=True) for _ in range(H)]
    rows = np.kron(np.eye(S), np.ones((1, A)))
    constraints = [rows @ cp.sum(q[0], axis=1) == start]
    for h in range(H):
        mass = cp.reshape(cp.sum(q[h], axis=1), (S * A, 1), order="C") @ np.ones((1, S))
        constraints.append(q[h] >= cp.multiply(lower[h].reshape(S * A, S), mass))
        constraints.append(q[h] <= cp.multiply(upper[h].reshape(S * A, S), mass))
        if h:
            constraints.append(rows @ cp.sum(q[h], axis=1) == cp.sum(q[h - 1], axis=0))
    flat = weights.reshape(H, S * A, S)
    total = sum(cp.sum(-cp.entr(q[h]) - cp.multiply(q[h], flat[h])) for h in range(H))
    cp.Problem(cp.Minimize(total), constraints).solve(solver=cp.CLARABEL)
    return np.array([np.maximum(x.value, 1e-30).reshape(S, A, S) for x in q])


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("project", ["every episode", "on arrival", None])
@pytest.mark.long
def test_policies_equal_a_literal_twin(project):
    """Fixed delay, paths at once: the paper's loop with dense boxes and a cone solver.

    The twin knows both places of the projection, and the two differ by more than 0.02.
    """
    rng = np.random.default_rng(4)
    H, S, A, K, delay, eta, scale = 3, 3, 2, 20, 12, 0.5, 0.005
    world = oracles.random_world(rng, H, S, A)
    agent = bl.DelayedOREPS(
        world.problem,
        transitions=Confidence(scale, episodes=K),
        learning_rate=eta,
        **({} if project is None else {"project": project}),
    )
    L = math.log(H * S * A * K / 0.4)
    counts, line, largest = np.zeros((H, S, A, S)), bl.DelayLine(), 0.0
    every = np.full((H, S, A, S), 1 / (S * S * A))
    arrival, batch = every, None
    for k in range(K):
        n = np.maximum(counts.sum(-1, keepdims=True), 1)
        mean = counts / n
        radius = scale * (4 * np.sqrt(mean * (1 - mean) * L / n) + 10 * L / n)
        radius[counts.sum(-1) == 0] = 1.0
        box = np.maximum(mean - radius, 0), np.minimum(mean + radius, 1)
        start = np.eye(S)[0]
        paid = 0.0 if batch is None else eta * batch[..., None]
        every = cone_measure(*box, np.log(every) - paid, start)
        if k == 0 or batch is not None:
            arrival = cone_measure(*box, np.log(arrival) - paid, start)
        policies = [q.sum(-1) / q.sum((-1, -2))[..., None] for q in (every, arrival)]
        reached = every.sum((-1, -2)) > 1e-6  # the others are out of reach, uniform in the agent
        largest = max(largest, np.abs(policies[0] - policies[1])[reached].max())
        policy = agent.begin_episode().policy
        expected = policies[project == "on arrival"]
        np.testing.assert_allclose(policy[reached], expected[reached], atol=2e-4)
        path = world.mdp.play(policy, rng, k)
        for h in range(H):
            counts[h, path.states[h], path.actions[h], path.states[h + 1]] += 1
        line.push([bl.Costs(k, world.costs.at(k))], delay)
        agent.observe([path])
        agent.observe(late := line.release(k))
        batch = late[0].values if late else None
    assert largest > 0.02


@pytest.mark.parametrize("project", ["every episode", "on arrival"])
def test_what_waits_for_the_next_episode_is_saved(project, tmp_path):
    """Also a path that was counted and costs that were gathered since the last projection."""
    world = oracles.random_world(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    agent = bl.DelayedOREPS(
        world.problem, transitions=Confidence(0.05), learning_rate=0.3, project=project
    )
    for k in range(4):
        path = world.mdp.play(agent.begin_episode().policy, rng, k)
        agent.observe([path, bl.Costs(k, world.costs.at(k))][: 1 + k % 2])
    bl.save(agent, tmp_path / "agent")
    copy = bl.load(tmp_path / "agent")
    assert repr(copy) == repr(agent)
    assert f"project={project!r}" in repr(agent)
    for _ in range(2):
        assert np.array_equal(copy.begin_episode().policy, agent.begin_episode().policy)
    if project == "on arrival":
        agent._counted = True
        with pytest.raises(ValueError, match="batch and counted must be empty"):
            thaw(freeze(agent))
    agent._batch = np.full((1, 4, 3), np.nan)
    with pytest.raises(ValueError, match="batch"):
        thaw(freeze(agent))


def test_a_restart_drops_what_waits():
    """A new phase begins at the first measure of the counts so far."""
    world = oracles.random_world(np.random.default_rng(0))
    agent, other = (
        bl.DelayedOREPS(world.problem, transitions=Confidence(0.05), learning_rate=0.3)
        for _ in range(2)
    )
    path = world.mdp.play(agent.begin_episode().policy, np.random.default_rng(1), 0)
    other.begin_episode()
    agent.observe([path, bl.Costs(0, world.costs.at(0))])
    other.observe([path])
    for one in (agent, other):
        one.restart(bl.tuning.Parameters(0.1, None, math.inf))
    assert np.array_equal(agent.begin_episode().policy, other.begin_episode().policy)


def test_when_to_project_is_asked_only_where_it_matters():
    world = oracles.random_world(np.random.default_rng(0))
    with pytest.raises(ValueError, match="project must be left out with known transitions"):
        bl.DelayedOREPS(
            world.problem,
            transitions=world.mdp.transitions,
            learning_rate=0.3,
            project="every episode",
        )
    with pytest.raises(ValueError, match="did you mean 'on arrival'"):
        bl.DelayedOREPS(world.problem, learning_rate=0.3, project="on arival")


def check_measure(agent, before):
    """Check a measure if there were new solves; returns the number of solves."""
    solves = agent.diagnostics()["solves"]
    if solves == before:
        return solves
    H, S, A = agent.problem.shape
    q = measures_of(agent)
    into, out = q[:-1].sum((1, 2)), q[1:].sum((2, 3))
    assert np.abs(into - out).max() < 1e-9
    np.testing.assert_allclose(q.sum((1, 2, 3)), 1.0, atol=1e-9)
    box, pairs = agent._model.set, q.sum(-1)
    for h, s, a in np.ndindex(H, S, A):
        t = min(h, len(box.unseen) - 1)
        low, high = np.zeros(S), np.full(S, box.unseen[t, s, a])
        n = box.counts.known[t, s, a]
        seen = box.counts.successors[t, s, a, :n]
        low[seen] = box.lower[t, s, a, :n]
        high[seen] = box.lower[t, s, a, :n] + box.width[t, s, a, :n]
        assert np.all(q[h, s, a] >= low * pairs[h, s, a] - 1e-12)
        assert np.all(q[h, s, a] <= high * pairs[h, s, a] + 1e-12)
    return solves


@pytest.mark.parametrize("paths", ["at once", "late"])
@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("project", ["every episode", "on arrival"])
def test_measures_of_unknown_transitions_stay_inside(paths, homogeneous, project):
    """T15: flow below 1e-9, the box of the counts respected to 1e-12, at every update."""
    rng = np.random.default_rng(3)
    H, S, A, K = 4, 4, 2, 30
    world = oracles.random_world(rng, H, S, A, homogeneous)
    agent = bl.DelayedOREPS(
        world.problem, transitions=Confidence(0.02), learning_rate=0.5, project=project
    )
    line, before = bl.DelayLine(), 0
    for k in range(K):
        path = world.mdp.play(agent.begin_episode().policy, rng, k)
        if project == "every episode":
            before = check_measure(agent, before)
        at_once = [path] if paths == "at once" else []
        late = (
            [bl.Costs(k, world.costs.at(k))] if at_once else [path, bl.Costs(k, world.costs.at(k))]
        )
        line.push(late, int(rng.integers(0, 5)))
        agent.observe(at_once + line.release(k))
        if project == "on arrival":
            before = check_measure(agent, before)
    assert before > 10
    assert agent.diagnostics()["unconverged"] == 0


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_batches_and_single_costs_agree(seed):
    """Known transitions: the order and the grouping of arrivals change nothing to 1e-10."""
    rng = np.random.default_rng(seed)
    world = oracles.random_world(rng, 3, 3, 2)
    one, other = (
        bl.DelayedOREPS(
            world.problem,
            transitions=world.mdp.transitions,
            learning_rate=0.7,
            tolerance=1e-22,
        )
        for _ in range(2)
    )
    records = []
    for k in range(6):
        one.begin_episode()
        other.begin_episode()
        records.append(bl.Costs(k, world.costs.at(k)))
    one.observe(records)
    for k in rng.permutation(6):
        other.observe([records[k]])
    np.testing.assert_allclose(one.begin_episode().policy, other.begin_episode().policy, atol=1e-10)


@pytest.mark.long
def test_it_learns_the_walled_grid():
    """Known transitions: the last 20 of 150 episodes are within 3 % of the optimum."""
    world = bl.environments.paper_walled_grid()
    agent = bl.DelayedOREPS(world.problem, transitions=world.mdp.transitions, learning_rate=2.0)
    run = bl.simulate(world, agent, delays=bl.delays.geometric(10), episodes=150, seed=0)
    assert run.values[:10].mean() > 49
    assert run.values[-20:].mean() < 1.03 * run.optimum / 150
    assert run.diagnostics["unconverged"] == 0


def test_unknown_transitions_are_learned_too():
    """A chain of 4 states, H = 8, paths at once: most of the way from first to best; fixed seed."""
    world = bl.environments.chain(4, 8)
    transitions = Confidence(radius_scale=0.002, episodes=200)
    agent = bl.DelayedOREPS(world.problem, transitions=transitions, learning_rate=0.5)
    run = bl.simulate(
        world, agent, delays=bl.delays.geometric(3), episodes=200, seed=2, paths="at once"
    )
    best = run.optimum / 200
    assert run.values[-20:].mean() < best + 0.1 * (run.values[0] - best)


def test_learning_rate_must_come_from_somewhere():
    problem = bl.Problem(3, 2, 4)
    with pytest.raises(ValueError, match=r"tuning.oreps.*Doubling"):
        bl.DelayedOREPS(problem)
    tuned = bl.tuning.oreps(problem, 100, 700)
    assert tuned["learning_rate"] == pytest.approx(math.sqrt(2 * math.log(6) / (100 + 2100)))
    for name in ("learning_rate", "scale", "tolerance"):
        with pytest.raises(ValueError, match=name):
            bl.DelayedOREPS(problem, **{"learning_rate": 1.0, name: -1.0})
    for name in ("delta", "radius_scale", "episodes"):
        with pytest.raises(ValueError, match=name):
            bl.DelayedOREPS(problem, transitions=Confidence(**{name: -1.0}), learning_rate=1.0)


@given(st.integers(0, 10_000), st.booleans())
def test_between_measures_policies_and_transitions(seed, homogeneous):
    rng = np.random.default_rng(seed)
    H, S, A = 3, 4, 2
    start = rng.dirichlet(np.ones(S))
    mdp = oracles.random_world(rng, H, S, A, homogeneous, tuple(start)).mdp
    policy = rng.dirichlet(np.ones(A), (H, S))
    q = bl.planning.occupancy_from(policy, mdp.transitions, start)
    assert q.shape == (H, S, A, S)
    np.testing.assert_allclose(q.sum(-1), bl.planning.occupancy(mdp, policy), atol=1e-13)
    np.testing.assert_allclose(bl.planning.policy_from(q), policy, atol=1e-9)
    np.testing.assert_allclose(bl.planning.policy_from(q.sum(-1)), policy, atol=1e-9)
    p = bl.planning.transitions_from(q).dense()
    np.testing.assert_allclose(p, oracles.dense(mdp), atol=1e-9)


def test_bad_measures():
    q = np.zeros((2, 2, 1, 2))
    q[0, 0, 0, 1] = q[1, 0, 0, 0] = 1.0
    with pytest.raises(ValueError, match=r"step 1, state [01] gets"):
        bl.planning.policy_from(q)
    with pytest.raises(ValueError, match=r"measure\[0\] sums to 0.5"):
        bl.planning.policy_from(np.full((2, 1, 1), 0.5))
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        bl.planning.policy_from(np.array([[[1.5, -0.5]]]))
    with pytest.raises(ValueError, match="shape"):
        bl.planning.transitions_from(np.full((1, 2, 2), 0.25))
    with pytest.raises(ValueError, match="shape"):
        bl.planning.policy_from(np.zeros((1, 2, 2, 3)))
    with pytest.raises(ValueError, match="transitions must be"):
        bl.planning.occupancy_from(np.ones((1, 1, 1)), None)
    with pytest.raises(ValueError, match="policy"):
        bl.planning.occupancy_from(
            np.full((2, 1, 1), 0.5), bl.Transitions.from_dense(np.ones((1, 1, 1)))
        )
    unreached = np.zeros((1, 2, 2))
    unreached[0, 0] = 0.5
    assert np.all(bl.planning.policy_from(unreached) == 0.5)
