"""Regret matching+, planning and blends: special cases, other packages, and odd inputs."""

import importlib.util

import numpy as np
import pytest
from benchmarks.rivals.poold import imported

import belated as bl
import oracles


def dorm_plus(losses, delay):
    """DORM+ of Flaspohler et al. (2021) under a fixed delay, from the formula."""
    T, A = losses.shape
    played, regret = np.zeros((T, A)), np.zeros(A)
    for t in range(T):
        known = t - delay - 1
        if known >= 0:
            regret = np.maximum(regret + (losses[known] @ played[known] - losses[known]), 0.0)
        played[t] = regret / regret.sum() if regret.sum() > 0 else 1 / A
    return played


def plays_of(losses, delay, update):
    T, A = losses.shape
    world = bl.World(
        bl.environments.bandit(np.zeros(A)).mdp, bl.costs.sequence(losses[:, None, None, :])
    )
    agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, update=update)
    line, played = bl.DelayLine(), []
    for t in range(T):
        played.append(agent.begin_episode().policy[0, 0])
        line.push([bl.Costs(t, losses[t].reshape(1, 1, A))], delay)
        agent.observe(line.release(t))
    return np.array(played)


@pytest.mark.parametrize("delay", [0, 3, 17])
def test_without_hints_one_state_is_dorm_plus(delay):
    losses = np.random.default_rng(delay).random((80, 5))
    found = plays_of(losses, delay, bl.parts.RegretMatching(hints=False))
    np.testing.assert_allclose(found, dorm_plus(losses, delay), atol=1e-13)


@pytest.mark.parametrize("delay", [0, 3, 17])
def test_without_hints_it_plays_as_poold_does(delay):
    if importlib.util.find_spec("poold") is None:
        pytest.skip("poold is not installed")
    poold = imported()
    losses = np.random.default_rng(delay).random((80, 5))
    learner = poold.create("dormplus", model_list=[str(a) for a in range(5)])
    expected = []
    for t in range(80):
        known = t - delay - 1
        arrived = []
        if known >= 0:
            c = losses[known]
            arrived = [(known, {"fun": lambda w, c=c: float(c @ w), "grad": lambda w, c=c: c})]
        expected.append(np.array(learner.update_and_play(arrived, hint=None)))
    found = plays_of(losses, delay, bl.parts.RegretMatching(hints=False))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_hints_react_sooner_to_a_change_under_delay():
    losses = np.tile([0.2, 0.8], (300, 1))
    losses[150:] = [0.8, 0.2]
    without, with_hints = (
        plays_of(losses, 30, bl.parts.RegretMatching(hints=hints)) for hints in (False, True)
    )
    cost = [(losses * played).sum() for played in (without, with_hints)]
    assert cost[1] < cost[0] - 5


def test_a_blend_follows_its_better_member():
    losses = np.tile([0.2, 0.8], (300, 1))
    good, bad = bl.parts.Softmax(1.0), bl.parts.Softmax(0.0)
    A = 2
    world = bl.World(
        bl.environments.bandit(np.zeros(A)).mdp, bl.costs.sequence(losses[:, None, None, :])
    )
    agent = bl.DelayedOPPO(
        world.problem, transitions=world.mdp.transitions, update=bl.parts.Blend(bad, good)
    )
    run = bl.simulate(world, agent, delays=bl.delays.fixed(5), episodes=300)
    assert run.diagnostics["weight_1"] > 0.99
    assert run.values[-1] < 0.21


def test_a_blend_of_equals_plays_as_each_of_them():
    rng = np.random.default_rng(5)
    world = oracles.random_world(rng, 3, 3, 2)
    agents = [
        bl.DelayedOPPO(world.problem, transitions=bl.parts.Observed(), update=update)
        for update in (
            bl.parts.RegretMatching(),
            bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.RegretMatching()),
        )
    ]
    runs = [bl.simulate(world, a, delays=bl.delays.fixed(3), episodes=40) for a in agents]
    np.testing.assert_allclose(runs[0].values, runs[1].values, atol=1e-12)


@pytest.mark.parametrize(
    "update",
    [bl.parts.RegretMatching(), bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.Softmax(1))],
)
@pytest.mark.parametrize("values", [0.0, 1.0, 1e-300, 5e-324])
def test_equal_and_tiny_costs_leave_distributions(update, values):
    problem = bl.Problem(2, 3, 2)
    agent = bl.DelayedOPPO(problem, transitions=bl.parts.Observed(), update=update)
    for k in range(30):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy.sum(-1), 1.0, atol=1e-12)
        costs = np.zeros((2, 2, 3))
        costs[..., k % 3] = values
        agent.observe([bl.Trajectory(k, [0, 1, 0], [0, k % 3]), bl.Costs(k, costs)])


def test_planning_finds_the_best_policy_of_what_it_saw():
    rng = np.random.default_rng(2)
    world = oracles.random_world(rng, 3, 3, 2)
    agent = bl.DelayedOPPO(
        world.problem, transitions=world.mdp.transitions, update=bl.parts.Planned(bonus=0.0)
    )
    functions = rng.random((10, 3, 3, 2))
    for k in range(10):
        agent.begin_episode()
        agent.observe([bl.Costs(k, functions[k])])
    best, _ = bl.planning.best_policy(world.mdp, functions.mean(0))
    np.testing.assert_array_equal(agent.begin_episode().policy, best)


def test_blends_are_values():
    one, two = (bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.Softmax(0.5)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert repr(one) == ("Blend(RegretMatching(hints=True), Softmax(learning_rate=0.5, scale=1.0))")
    with pytest.raises(ValueError, match="at least two"):
        bl.parts.Blend(bl.parts.Softmax())
    with pytest.raises(ValueError, match=r"updates\[1\] must be a part such as"):
        bl.parts.Blend(bl.parts.Softmax(), bl.parts.Softmax)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"transitions": bl.parts.Confidence()}, "Planned.*Confidence"),
        (
            {"transitions": bl.parts.Observed(), "costs": bl.parts.Averaged()},
            "cannot go with costs=Averaged",
        ),
    ],
)
def test_planning_refuses_what_it_cannot_plan_with(parts, words):
    for update in (
        bl.parts.Planned(),
        bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.Planned()),
    ):
        with pytest.raises(ValueError, match=words):
            bl.DelayedOPPO(bl.Problem(2, 2, 2), update=update, **parts)


def test_the_uniform_share_is_played():
    problem = bl.Problem(2, 4, 2)
    agent = bl.DelayedOPPO(
        problem,
        transitions=bl.parts.Observed(),
        update=bl.parts.Planned(),
        explore=bl.parts.UniformShare(0.2),
    )
    agent.begin_episode()
    agent.observe([bl.Trajectory(0, [0, 1, 0], [0, 0]), bl.Costs(0, np.ones((2, 2, 4)))])
    policy = agent.begin_episode().policy
    np.testing.assert_allclose(policy.min(-1), 0.05)
    np.testing.assert_allclose(policy.max(-1), 0.85)


def test_doubling_is_refused_where_no_parameter_follows_the_phases():
    problem = bl.Problem(2, 2, 2)
    for update in (
        bl.parts.RegretMatching(),
        bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.Planned()),
    ):
        agent = bl.DelayedOPPO(problem, transitions=bl.parts.Observed(), update=update)
        with pytest.raises(ValueError, match="no step size for a new phase"):
            bl.wrappers.Doubling(agent)


def test_plans_have_the_speeds_of_the_memories():
    problem = bl.Problem(2, 2, 2)
    with pytest.raises(ValueError, match=r"Planned\(keep\) must be one of 1.0, 0.98, 0.9 or None"):
        bl.DelayedOPPO(
            problem,
            transitions=bl.parts.Observed(),
            costs=bl.parts.Predicted(),
            update=bl.parts.Planned(keep=0.5),
        )
    bl.DelayedOPPO(problem, transitions=bl.parts.Observed(), update=bl.parts.Planned(keep=0.5))
    with pytest.raises(ValueError, match=r"updates\[1\] must not be a Blend"):
        bl.parts.Blend(
            bl.parts.Softmax(), bl.parts.Blend(bl.parts.Softmax(), bl.parts.RegretMatching())
        )
