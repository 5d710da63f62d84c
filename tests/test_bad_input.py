"""Bad input gets one sentence: which argument, which value, what is allowed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl

not_counts = st.one_of(
    st.integers(max_value=0),
    st.floats(),
    st.text(max_size=3),
    st.none(),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
)
not_probabilities = st.one_of(
    st.floats(max_value=-1e-9),
    st.floats(min_value=1.0000001),
    st.just(float("nan")),
    st.text(max_size=2),
    st.none(),
)


def refuses(name, call, error=ValueError):
    with pytest.raises(error) as refusal:
        call()
    message = str(refusal.value)
    assert name in message
    assert "\n" not in message
    return message


@given(not_counts)
@pytest.mark.slow
def test_problem_sizes(value):
    for name in ("states", "actions", "horizon"):
        sizes = {"states": 3, "actions": 2, "horizon": 4, name: value}
        assert "must be a whole number" in refuses(name, lambda sizes=sizes: bl.Problem(**sizes))


@given(st.one_of(st.integers(3), st.integers(max_value=-1), st.text(max_size=2), st.none()))
def test_problem_start(value):
    refuses("start", lambda: bl.Problem(3, 2, 4, start=value))


@given(st.lists(not_probabilities, min_size=3, max_size=3))
def test_start_distributions(value):
    refuses("start", lambda: bl.Problem(3, 2, 4, start=value))
    refuses("start", lambda: bl.Problem(3, 2, 4, start=[0.5, 0.5]))
    refuses("start", lambda: bl.Problem(3, 2, 4, start=[0.5, 0.5, 0.1]))


@given(not_probabilities)
def test_costs_and_policies_with_a_bad_entry(value):
    world = bl.environments.random_mdp(3, 2, 4)
    costs = np.full((4, 3, 2), 0.5).astype(object)
    costs[1, 2, 0] = value
    refuses("values", lambda: bl.Costs(0, costs.tolist()), bl.FeedbackError)
    refuses("costs", lambda: bl.costs.fixed(costs.tolist()))
    refuses("costs", lambda: bl.World(world.mdp, costs.tolist()))
    refuses("means", lambda: bl.costs.stochastic(costs.tolist()))
    policy = costs.tolist()
    for call in (
        lambda: world.mdp.play(policy, np.random.default_rng()),
        lambda: bl.planning.occupancy(world.mdp, policy),
        lambda: bl.planning.policy_values(world.mdp, policy, np.zeros((1, 3, 2))),
    ):
        refuses("policy", call)


def test_messages_point_at_the_entry():
    costs = np.zeros((2, 3, 2))
    costs[1, 2, 0] = np.nan
    message = refuses("values", lambda: bl.Costs(7, costs), bl.FeedbackError)
    assert "episode 7" in message
    assert "values[1, 2, 0] = nan" in message
    p = np.full((3, 2, 3), 1 / 3)
    p[1, 0] = [0.4, 0.4, 0.4]
    assert "p[1, 0] sums to 1.2" in refuses("p", lambda: bl.Transitions.from_dense(p))
    p[1, 0] = [1.5, -0.5, 0]
    assert "[0, 1]" in refuses("p", lambda: bl.Transitions.from_dense(p))
    policy = np.full((4, 3, 2), 0.5)
    policy[3, 1, 1] = 0.25
    world = bl.environments.random_mdp(3, 2, 4)
    assert "policy[3, 1] sums to 0.75" in refuses(
        "policy", lambda: bl.planning.occupancy(world.mdp, policy)
    )


def test_shapes():
    world = bl.environments.random_mdp(3, 2, 4)
    refuses("p", lambda: bl.Transitions.from_dense(np.full((3, 2, 4), 0.25)))
    refuses("p", lambda: bl.Transitions.from_dense([[0.5, 0.5]]))
    refuses("p", lambda: bl.Transitions.from_dense("dense"))
    uniform = np.full((1, 3, 2, 1), 1.0)
    refuses("successors", lambda: bl.Transitions(np.full((1, 3, 2, 1), 3), uniform))
    refuses("successors", lambda: bl.Transitions(np.full((1, 3, 2, 1), -1), uniform))
    refuses("successors", lambda: bl.Transitions(np.zeros((1, 3, 2)), uniform))
    refuses("successors", lambda: bl.Transitions(np.zeros((1, 3, 2, 1)), uniform))
    refuses("transitions", lambda: bl.MDP(np.zeros(3), 4))
    per_step = bl.Transitions.from_dense(np.full((5, 3, 2, 3), 1 / 3))
    assert "1 or of horizon = 4" in refuses("transitions", lambda: bl.MDP(per_step, 4))
    refuses("costs", lambda: bl.World(world.mdp, np.zeros((2, 3, 2))))
    refuses("costs", lambda: bl.World(world.mdp, np.zeros((1, 2, 2))))
    refuses("mdp", lambda: bl.World(None, np.zeros((1, 3, 2))))
    refuses("policy", lambda: bl.planning.occupancy(world.mdp, np.full((4, 3, 3), 1 / 3)))
    refuses("costs", lambda: bl.planning.best_policy(world.mdp, np.zeros((3, 3, 2))))
    refuses("costs", lambda: bl.planning.best_policy(world.mdp, np.full((1, 3, 2), np.inf)))
    refuses("rng", lambda: world.mdp.play(np.full((4, 3, 2), 0.5), 0))
    refuses("costs[1]", lambda: bl.costs.switching([np.zeros((1, 2)), np.zeros((2, 2))], 3))
    refuses("costs", lambda: bl.costs.sequence([]))
    refuses("means", lambda: bl.environments.bandit([[0.5]]))


def test_trajectories():
    for states, actions in (([0, 1], [0, 1]), ([0], []), ([-1, 0], [0]), ([0, 1], [-1])):
        refuses("episode 3", lambda s=states, a=actions: bl.Trajectory(3, s, a), bl.FeedbackError)
    refuses("states", lambda: bl.Trajectory(3, [0.5, 1], [0]), bl.FeedbackError)
    refuses("actions", lambda: bl.Trajectory(3, [0, 1], [[0]]), bl.FeedbackError)
    for wrong in (-1, 1.5, None, "x", [1]):
        refuses("episode", lambda e=wrong: bl.Trajectory(e, [0, 1], [0]), bl.FeedbackError)
        refuses("episode", lambda e=wrong: bl.Costs(e, [0.5]), bl.FeedbackError)


@given(st.one_of(st.integers(max_value=-1), st.floats(max_value=-1e-9), st.text(max_size=2)))
def test_delay_parameters(value):
    models = bl.delays
    refuses("delay", lambda: models.fixed(value))
    refuses("mean", lambda: models.geometric(value))
    refuses("mean", lambda: models.poisson(value))
    refuses("index", lambda: models.heavy_tailed(value))
    refuses("scale", lambda: models.heavy_tailed(1.0, value))
    refuses("low", lambda: models.uniform(value, 3))
    refuses("high", lambda: models.uniform(3, value))
    refuses("probability", lambda: models.lost(value))
    refuses("size", lambda: models.bursts(value))
    if not isinstance(value, str):  # cells of a table may be text
        refuses("delays", lambda: models.trace([value]))
    refuses("otherwise", lambda: models.lost(0.1, value))
    refuses("delay", lambda: bl.DelayLine().push([], value))


def test_delay_arrays():
    refuses("delays", lambda: bl.delays.trace([]))
    refuses("delays", lambda: bl.delays.trace([[1, 2]]))
    refuses("delays", lambda: bl.delays.trace([0.5]))
    refuses("delays", lambda: bl.delays.trace(["soon"]))
    refuses("delays", lambda: bl.delays.trace([-np.inf]))
    refuses("rng", lambda: bl.delays.geometric(2).draw(5, None))
    refuses("rng", lambda: bl.delays.lost(0.5).draw(5, 3))
    refuses("records", lambda: bl.DelayLine().push([3], 2))
    refuses("model", lambda: bl.delays.monotone(3))


def test_simulate_arguments():
    world = bl.environments.random_mdp(3, 2, 4)
    agent = bl.DelayedOPPO(world.problem)
    refuses("episodes", lambda: bl.simulate(world, agent, episodes=0))
    refuses("seed", lambda: bl.simulate(world, agent, seed=-1))
    refuses("world", lambda: bl.simulate(None, agent))
    refuses("delays", lambda: bl.simulate(world, agent, delays=[1, 2], episodes=3))
    refuses("delays", lambda: bl.simulate(world, agent, delays=[1, 2, -3], episodes=3))
    hint = refuses("paths", lambda: bl.simulate(world, agent, paths="lat"))
    assert "did you mean 'late'" in hint
    other = bl.DelayedOPPO(bl.Problem(3, 3, 4))
    refuses("agent", lambda: bl.simulate(world, other))


@given(st.one_of(st.floats(max_value=-1e-9), st.just(float("inf")), st.text(max_size=2)))
def test_agent_numbers(value):
    problem = bl.Problem(3, 2, 4)
    for part, names in (
        (bl.parts.Confidence, ("radius_scale", "delta", "episodes")),
        (bl.parts.Bonus, ("scale",)),
        (bl.parts.Weighted, ("exploration",)),
        (bl.parts.Averaged, ("scale",)),
        (bl.parts.Softmax, ("learning_rate", "scale")),
        (bl.parts.FewVisits, ("threshold", "max_delay")),
    ):
        for name in names:
            refuses(name, lambda part=part, name=name: part(**{name: value}))
    for tune in (bl.tuning.oppo_full, bl.tuning.oppo_bandit):
        refuses("episodes", lambda tune=tune: tune(problem, value, 3))
        refuses("total_delay", lambda tune=tune: tune(problem, 3, value))


def test_agent_choices():
    problem = bl.Problem(3, 2, 4)
    refuses("costs", lambda: bl.DelayedOPPO(problem, costs="random"))
    refuses("update", lambda: bl.DelayedOPPO(problem, update=0.1))
    refuses("explore", lambda: bl.DelayedOPPO(problem, explore=True))
    refuses("problem", lambda: bl.DelayedOPPO(3))
    refuses("transitions", lambda: bl.DelayedOPPO(problem, transitions=np.zeros(3)))
    other = bl.environments.random_mdp(4, 2, 4).mdp.transitions
    refuses("transitions", lambda: bl.DelayedOPPO(problem, transitions=other))
    refuses("pooled", lambda: bl.parts.Averaged(pooled="no"))
    hint = refuses("paths", lambda: bl.wrappers.Doubling(bl.DelayedOPPO(problem), paths="at one"))
    assert "did you mean 'at once'" in hint
    refuses("paths", lambda: bl.wrappers.Pipeline(bl.DelayedOPPO(problem), 3, paths="immediate"))
    refuses("literal", lambda: bl.wrappers.Doubling(bl.DelayedOPPO(problem), literal=1))
    for wrong in (-1, "x", None, float("nan")):
        refuses(
            "threshold", lambda wrong=wrong: bl.wrappers.Skipping(bl.DelayedOPPO(problem), wrong)
        )
        refuses(
            "max_delay", lambda wrong=wrong: bl.wrappers.Pipeline(bl.DelayedOPPO(problem), wrong)
        )
        refuses(
            "max_delay",
            lambda wrong=wrong: bl.wrappers.Parallel(lambda: bl.DelayedOPPO(problem), wrong),
        )


def test_environment_arguments():
    make = bl.environments
    refuses("size", lambda: make.gridworld(0))
    refuses("size", lambda: make.gridworld("ten"))
    refuses("size[1]", lambda: make.gridworld((3, 0)))
    refuses("row of walls", lambda: make.gridworld(3, walls=[(3, 0)]))
    refuses("walls", lambda: make.gridworld(3, walls=[5]))
    refuses("walls", lambda: make.gridworld(3, walls=[(0, 0)]))
    refuses("walls", lambda: make.gridworld(3, walls=[(2, 2)]))
    refuses("slip", lambda: make.gridworld(3, slip=1.1))
    refuses("horizon", lambda: make.gridworld(3, horizon=0))
    refuses("absorbing_goal", lambda: make.gridworld(3, absorbing_goal="yes"))
    refuses("goal", lambda: make.goal_costs(3, (3, 3)))
    refuses("successors", lambda: make.random_mdp(3, successors=4))
    refuses("states", lambda: make.chain(1))
    refuses("delay", lambda: make.delay_lower_bound(-1))
    refuses("states must be an even number, got 3", lambda: make.dynamics_lower_bound(99, 3))
    refuses("7 H S A / 32 = 28, got 27", lambda: make.dynamics_lower_bound(27, 4, 4, 8))
    refuses("3 S A / 8, here 15, got 14", lambda: make.bandit_lower_bound(14, 4, 10))
    refuses("3 S A / 8, here 9, got 8", lambda: make.bandit_lower_bound(8, 9, 2))
    refuses("actions", lambda: make.bandit_lower_bound(9, 1, 1))
    hint = refuses("noise", lambda: make.bandit([0.5], noise="bernouli"))
    assert "did you mean 'bernoulli'" in hint


def test_things_that_are_not_what_they_should_be():
    world, problem = bl.environments.random_mdp(3, 2, 4), bl.Problem(3, 2, 4)
    policy = np.full((4, 3, 2), 0.5)
    refuses("agent", lambda: bl.simulate(world, None))
    refuses("mdp", lambda: bl.planning.policy_values(None, policy, np.zeros((1, 3, 2))))
    refuses("mdp", lambda: bl.planning.best_policy(None, np.zeros((1, 3, 2))))
    refuses("mdp", lambda: bl.planning.occupancy(3, policy))
    refuses("problem", lambda: bl.tuning.oppo_full(None, 3))
    refuses("problem", lambda: bl.tuning.exploration_threshold(None, 3))
    refuses("problem", lambda: bl.advise(None))
    refuses("max_delay", lambda: bl.advise(problem, max_delay="x"))
    refuses("weight", lambda: bl.wrappers.Doubling(bl.DelayedOPPO(problem), weight=1e308))
    refuses("mean", lambda: bl.delays.geometric(1e19))
    refuses("size", lambda: bl.delays.bursts(10**30))
    refuses("within", lambda: bl.delays.bursts(3, within=0))
    assert (
        bl.delays.bursts(7, bl.delays.fixed(bl.NEVER - 1)).draw(9, np.random.default_rng(0)).max()
        <= bl.NEVER
    )


def test_numbers_that_do_not_fit_are_not_wrapped_around():
    """Unsigned numbers beyond the signed ones would become negative states."""
    huge = np.array([0, 2**63 + 2**40, 0], dtype=np.uint64)
    refuses("states", lambda: bl.Trajectory(0, huge, [0, 1]), bl.FeedbackError)
    refuses("actions", lambda: bl.Trajectory(0, [0, 0], huge[1:2]), bl.FeedbackError)


def test_one_hot_starts_are_states():
    assert bl.Problem(3, 2, 1, start=(0.0, 1.0, 0.0)) == bl.Problem(3, 2, 1, start=1)


def test_tiny_radii_are_harmless():
    world = bl.environments.random_mdp(12, 2, 4, successors=5)
    for scale in (1e-40, 1e-300, 0.0):
        transitions = bl.parts.Confidence(radius_scale=scale)
        agent = bl.DelayedOPPO(world.problem, transitions=transitions, update=bl.parts.Softmax(0.3))
        run = bl.simulate(world, agent, episodes=40)
        assert np.all(np.isfinite(run.values))


@pytest.mark.parametrize(
    ("names", "call"),
    [
        ("size", lambda: bl.environments.gridworld(size=10**9)),
        ("size", lambda: bl.environments.gridworld(size=(1, 10**400))),
        ("size", lambda: bl.environments.goal_costs(10**6, (0, 0))),
        ("states, actions and horizon", lambda: bl.environments.random_mdp(states=10**6)),
        ("states, actions and horizon", lambda: bl.environments.random_mdp(actions=10**12)),
        ("states", lambda: bl.environments.chain(states=10**6)),
        ("states and actions", lambda: bl.environments.delay_lower_bound(1, 10**6, 10**6)),
        (
            "states, actions and horizon",
            lambda: bl.environments.dynamics_lower_bound(10**15, 2000, 100, 100),
        ),
        (
            "states, actions and horizon",
            lambda: bl.environments.bandit_lower_bound(10**15, 10**5, 100),
        ),
        ("states and actions", lambda: bl.costs.blocks(10**6, 10**6, 3)),
        ("states, actions and horizon", lambda: bl.Problem(10**6, 10**4, 10**2)),
        ("states, actions and horizon", lambda: bl.environments.gridworld(100, horizon=10**6)),
    ],
)
def test_what_no_memory_can_hold(names, call):
    assert f"{names} must make arrays of at most 1073741824 numbers" in refuses(names, call)


def test_runs_that_no_memory_can_hold():
    world = bl.environments.random_mdp(3, 2, 4)
    rng = np.random.default_rng(0)
    for call in (
        lambda: bl.simulate(world, bl.DelayedOPPO(world.problem), episodes=2**40),
        lambda: bl.delays.geometric(2).draw(2**40, rng),
    ):
        assert "to 1073741824, got 1099511627776" in refuses("episodes", call)


LIFTED = 0.2 + 0.4 + 0.3 + 0.1
"""A sum of 1 that rounding lifts above 1."""


def test_probabilities_that_rounding_lifted_above_1_are_1():
    assert LIFTED > 1.0
    t = bl.Transitions.from_dense([[[LIFTED, 0.0]], [[0.0, 1.0]]])
    np.testing.assert_array_equal(t.dense()[0, :, 0], np.eye(2))
    same = bl.Transitions([[[[0]], [[1]]]], [[[[LIFTED]], [[1.0]]]])
    np.testing.assert_array_equal(same.dense(), t.dense())
    assert bl.Problem(2, 2, 2, start=[LIFTED, 0.0]).start == 0
    sampler = bl.LinearSampler(bl.Choice(2), reference=[LIFTED, 0.0])
    assert sampler.configuration()["reference"] == [1.0, 0.0]
    for wrong in (1.0 + 1e-7, np.nan, -1e-12):
        refuses("p", lambda wrong=wrong: bl.Transitions.from_dense([[[wrong]]]))
        refuses("start", lambda wrong=wrong: bl.Problem(2, 2, 2, start=[wrong, 0.0]))


P = [[[0.5, 0.5]], [[0.0, 1.0]]]
ALIKE = {
    "dense": lambda n: bl.Transitions.from_dense(n(P)).dense().tolist(),
    "objects": lambda n: bl.Transitions.from_dense(np.array(n(P), dtype=object)).dense().tolist(),
    "sizes": lambda n: bl.Problem(n(3), n(2), n(4), n(1)),
    "start": lambda n: bl.Problem(3, 2, 4, start=n([0.5, 0.25, 0.25])),
    "choice": lambda n: bl.Choice(n(3), n(4)),
    "names": lambda n: bl.Choice(n(["plain", "question"])),
    "one name": lambda n: bl.Choice([n("plain"), n("question")]),
    "delay": lambda n: bl.delays.fixed(n(3)),
    "mean": lambda n: bl.delays.geometric(n(2.5)),
    "of steps": lambda n: bl.delays.of_episodes(n([[0, 3], [2, 1]])).tolist(),
    "models": lambda n: bl.delays.by_action(n([bl.delays.fixed(1)])),
    "total": lambda n: bl.delays.total_delay(n([1, 0, 0])),
    "run": lambda n: run_with(n([1, 0, 2])).tolist(),
    "lost": lambda n: run_with(n([1, None, 2])).tolist(),
    "threshold": lambda n: bl.wrappers.Skipping(bl.DelayedOPPO(bl.Problem(1, 2, 1)), n(np.inf)),
}


def run_with(delays):
    world = bl.environments.bandit([0.2, 0.4])
    return bl.simulate(world, bl.DelayedOPPO(world.problem), delays=delays, episodes=3).delays


def of_numpy(value):
    """The value as an array, or as a number of NumPy's shorter types."""
    if isinstance(value, float):
        return np.float32(value)
    return np.array(value)[()]


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE.keys())
def test_numbers_of_numpy_and_plain_ones_are_taken_alike(make):
    assert repr(make(of_numpy)) == repr(make(lambda value: value))
