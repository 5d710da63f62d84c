"""Learning rates of 100, degenerate sizes, degenerate costs: no NaN, sensible results."""

import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Bonus, Confidence, Revealed, Softmax, Weighted
from belated.tabular.kernels.weights import softmax
from belated.tabular.parts.costs import importance_weighted
from belated.tabular.trial import check_policy, feedback
from limits import FULL
from registry import AGENTS

SIZES = [(1, 1, 1), (1, 1, 3), (3, 1, 2), (1, 3, 2), (3, 3, 1), (3, 4, 2)]


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())
@pytest.mark.parametrize("size", SIZES if FULL else SIZES[::4], ids=str)
@pytest.mark.slow
def test_degenerate_worlds(make, size):
    H, S, A = size
    mdp = oracles.random_world(np.random.default_rng(0), H, S, A).mdp
    for level, episodes, delays in itertools.product(
        (0.0, 1.0), (1, 30), (bl.delays.geometric(3), bl.delays.fixed(bl.NEVER))
    ):
        world = bl.World(mdp, np.full((1, S, A), level))
        run = bl.simulate(world, make(world), delays=delays, episodes=episodes)
        np.testing.assert_allclose(run.values, level * H, atol=1e-12)
        np.testing.assert_allclose(run.regret, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("transitions", "costs"),
    [
        (None, Revealed()),
        (Confidence(radius_scale=0.01), Revealed()),
        (Bonus(), Revealed()),
        (None, Weighted(1e-9)),
        (Confidence(radius_scale=0.01), Weighted(1e-9)),
    ],
)
def test_a_learning_rate_of_100(transitions, costs):
    world = oracles.random_world(np.random.default_rng(4), 4, 5, 3)
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=transitions or world.mdp.transitions,
        costs=costs,
        update=Softmax(100.0),
    )
    rng = np.random.default_rng(0)
    for k in range(300):
        policy = agent.begin_episode().policy
        assert np.all(np.isfinite(policy))
        np.testing.assert_allclose(policy.sum(-1), 1, atol=1e-12)
        path = world.mdp.play(policy, rng, k)
        function = world.costs.at(k % 40)
        met = function[np.arange(4), path.states[:-1], path.actions]
        agent.observe([path, bl.Costs(k, function if agent.information == "full" else met)])


def test_bandit_without_exploration_survives_impossible_actions():
    """An action of probability 0 may still be reported; the estimate must stay finite."""
    agent = bl.DelayedOPPO(bl.Problem(1, 2, 1), costs=Weighted(), update=Softmax(100.0))
    for k in range(100):
        policy = agent.begin_episode().policy
        assert np.all(np.isfinite(policy))
        assert policy.sum() == pytest.approx(1)
        agent.observe([bl.Trajectory(k, [0, 0], [1]), bl.Costs(k, [1.0])])


def test_many_updates_keep_small_differences_exact():
    """5,000 updates that cancel but for a millionth (a million episodes: `make bench`)."""
    mdp = bl.MDP(bl.Transitions.from_dense(np.ones((1, 3, 1))), 1)
    agent = bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=Softmax(1e-3))
    costs = [np.array([[[0.1, 0.100001, 0.9]]]), np.array([[[0.9, 0.900001, 0.1]]])]
    for k in range(5_000):
        policy = agent.begin_episode().policy
        agent.observe([bl.Costs(k, costs[k % 2])])
    ratio = policy[0, 0, 1] / policy[0, 0, 0]
    assert ratio == pytest.approx(np.exp(-1e-3 * 4_999 * 1e-6), rel=1e-9)


def test_small_weights_are_not_cut_off():
    policy = np.zeros((1, 1, 3))
    softmax(np.array([[[5.0, 705.0, 805.0]]]), np.ones(1), policy)
    assert policy[0, 0, 1] == math.exp(-700.0)
    assert policy[0, 0, 2] == 0.0


def test_rare_costs_get_their_whole_weight():
    path, policy = bl.Trajectory(0, [0, 0], [0]), np.array([[[1e-200, 1.0]]])
    costs = importance_weighted(np.array([0.5]), path, policy, np.array([1e-40]), 0.0)
    assert costs[0, 0, 0] == pytest.approx(0.5e240)


EXTREMES = (1e308, 10**400, 5e-324, math.inf, math.nan)
TINY = oracles.random_world(np.random.default_rng(0), 2, 3, 2)


def arguments(item):
    """The arguments of an agent or a part, or the items of a list, by name."""
    if isinstance(item, list | tuple):
        return dict(enumerate(item))
    if hasattr(item, "configuration"):
        return item.configuration()
    if dataclasses.is_dataclass(item) and not isinstance(item, bl.Problem | bl.Transitions):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    return {}


def numeric(item, *path):
    """The places of all arguments that are, or may be, numbers."""
    for name, value in arguments(item).items():
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            yield (*path, name)
        yield from numeric(value, *path, name)


def remade(item, path, value):
    """The same agent, part or list with another value in one place."""
    if not path:
        return value
    given = dict(arguments(item))
    given[path[0]] = remade(given[path[0]], path[1:], value)
    if isinstance(item, list | tuple):
        return [*given.values()]
    if "agent" in given:
        return type(item)(given.pop("agent"), **given)
    return type(item)(**given)


def places():
    """Every numeric argument of every registered agent, and the function that makes the agent."""
    found = {}
    for name, make in AGENTS.items():
        for path in numeric(make(TINY)):
            found[name, path] = make
    return found


@pytest.mark.slow
def test_extreme_arguments_give_one_sentence_or_a_sane_agent():
    """Every numeric argument of every registered agent; 0.1.0 raised OverflowError or gave NaN."""
    refused = sane = 0
    for (name, path), make in places().items():
        for value in EXTREMES:
            try:
                agent = remade(make(TINY), path, value)
                short_run(agent)
                sane += 1
            except ValueError as error:
                text = str(error)
                assert "got" in text, (name, path, value, text)
                assert "\n" not in text
                assert len(text) < 400
                refused += 1
    assert refused > 300
    assert sane > 100


@pytest.mark.parametrize("huge", [10**400, 2**60])
@pytest.mark.parametrize(
    "ask",
    [
        lambda n: bl.Problem(n, 2, 2),
        lambda n: bl.Problem(2, 2, n),
        lambda n: bl.tuning.FullInformation().at(TINY.problem, n, 0),
        lambda n: bl.advise(TINY.problem, information="full", episodes=n, aim="guarantee"),
        lambda n: bl.simulate(TINY, bl.recommend(TINY.problem, information="full"), episodes=n),
        lambda n: bl.delays.geometric(2).draw(n, np.random.default_rng(0)),
        bl.environments.bandit_lower_bound,
        bl.environments.dynamics_lower_bound,
    ],
)
def test_absurd_sizes_are_refused_in_one_sentence(ask, huge):
    with pytest.raises(ValueError, match=r"^\w+ must be a whole number from \d to \d+, got \d+"):
        ask(huge)


def short_run(agent):
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # costs that overflow to infinity
        for k in range(4):
            policy = agent.begin_episode().policy
            check_policy(agent.problem, policy)
            agent.observe(feedback(TINY, agent, k, policy, rng))
        assert not any(math.isnan(value) for value in agent.diagnostics().values())
