"""What every agent must do, whatever it is; run over the registry."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from registry import AGENTS

agents = pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())

WORLDS = {
    "per step": oracles.random_world(np.random.default_rng(0), 3, 4, 2, start=(0.5, 0.5, 0, 0)),
    "homogeneous": oracles.random_world(np.random.default_rng(1), 4, 3, 3, homogeneous=True),
}
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())


def check_policy(world, policy):
    assert policy.shape == world.problem.shape
    assert np.all(policy >= 0)
    np.testing.assert_allclose(policy.sum(-1), 1.0, atol=1e-12)


def feedback(world, agent, episode, rng):
    """The two records of an episode that is played now."""
    path = world.mdp.play(episode.policy, rng, episode.number)
    costs = world.costs.at(episode.number % 40)
    if agent.information == "bandit":
        H = world.problem.horizon
        costs = costs[np.minimum(np.arange(H), len(costs) - 1), path.states[:-1], path.actions]
    return path, bl.Costs(episode.number, costs)


def drive(world, agent, schedule, seed, *, vandal=False):
    """Play by a script and return the policies.

    schedule: per episode, (delay of the path, delay of the costs, whether to observe before the
    next one begins, whether to forget it).
    """
    rng = np.random.default_rng(seed)
    line, waiting, policies = bl.DelayLine(), [], []
    for k, (path_delay, costs_delay, pause, forget) in enumerate(schedule):
        agent.observe([])
        episode = agent.begin_episode()
        assert episode.number == k
        check_policy(world, episode.policy)
        policies.append(episode.policy.copy())
        path, costs = feedback(world, agent, episode, rng)
        if vandal:
            episode.policy[:] = np.nan
        if forget:
            agent.forget(k)
        else:
            line.push([path], path_delay)
            line.push([costs], costs_delay)
        waiting += line.release(k)
        if pause:  # else episodes overlap: the next one begins before anything is observed
            agent.observe(waiting)
            waiting = []
    diagnostics = agent.diagnostics()
    assert all(isinstance(v, int | float) for v in diagnostics.values())
    return policies


delay = st.one_of(st.integers(0, 6), st.just(bl.NEVER))
late = st.tuples(delay, delay, st.booleans(), st.integers(0, 9).map(lambda x: x == 0))


def together(step):
    return (step[1], step[1], True, False)


SHAPES = {
    "at once": lambda step: (0, 0, True, False),
    "late": together,
    "paths at once": lambda step: (0, step[1], True, False),
    "overlapping": lambda step: (step[1], step[1], step[2], False),
    "apart, lost, forgotten": lambda step: step,
    "all lost": lambda step: (bl.NEVER, bl.NEVER, True, False),
}


@agents
@worlds
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@settings(max_examples=8)
@given(st.lists(late, min_size=1, max_size=25), st.integers(0, 1000))
def test_any_feedback_gives_distributions_and_the_same_calls_the_same_policies(
    world, make, shape, schedule, seed
):
    script = [shape(step) for step in schedule]
    first = drive(world, make(world), script, seed)
    again = drive(world, make(world), script, seed, vandal=True)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@agents
@worlds
def test_agents_learn_something_from_feedback(world, make):
    policies = drive(world, make(world), [(2, 2, True, False)] * 40, 0)
    assert not np.array_equal(policies[0], policies[-1])


def bad_records(world, agent, path, costs):
    """Records that cannot be right, beside a good pair (path, costs) of an open episode."""
    H, S, A = world.problem.shape
    n = path.episode
    states, actions, values = path.states.copy(), path.actions.copy(), costs.values
    wrong_shape = (H + 1,) if agent.information == "bandit" else (H, S + 1, A)
    other_kind = np.zeros((H, S, A) if agent.information == "bandit" else (H,))
    elsewhere = states.copy()
    elsewhere[0] = S - 1  # both worlds never start there
    beyond = states.copy()
    beyond[-1] = S
    return {
        "costs of an episode never begun": [bl.Costs(n + 100, values)],
        "path of an episode never begun": [bl.Trajectory(n + 100, states, actions)],
        "costs twice": [costs, bl.Costs(n, values)],
        "costs of a wrong shape": [bl.Costs(n, np.zeros(wrong_shape))],
        "costs of the other information": [bl.Costs(n, other_kind)],
        "path too short": [bl.Trajectory(n, states[:-1], actions[:-1])],
        "state out of range": [bl.Trajectory(n, beyond, actions)],
        "action out of range": [bl.Trajectory(n, states, np.full(H, A))],
        "wrong start": [bl.Trajectory(n, elsewhere, actions)],
        "no record": [None],
        "no list": 7,
        "good then bad": [path, costs, bl.Costs(n + 100, values)],
    }


KINDS = [
    "costs of an episode never begun", "path of an episode never begun", "costs twice",
    "costs of a wrong shape", "costs of the other information", "path too short",
    "state out of range", "action out of range", "wrong start", "no record", "no list",
    "good then bad",
]  # fmt: skip


@agents
@worlds
@pytest.mark.parametrize("kind", KINDS)
def test_bad_records_are_refused_and_change_nothing(world, make, kind):
    agent, twin = make(world), make(world)
    for one in (agent, twin):
        drive(world, one, [(1, 2, True, False)] * 6, 3)
    rng, twin_rng = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        path, costs = feedback(world, agent, agent.begin_episode(), rng)
        twin_path, twin_costs = feedback(world, twin, twin.begin_episode(), twin_rng)
        bad = bad_records(world, agent, path, costs)
        assert sorted(bad) == sorted(KINDS)
        with pytest.raises(bl.FeedbackError) as refusal:
            agent.observe(bad[kind])
        assert "\n" not in str(refusal.value)
        assert agent.diagnostics() == twin.diagnostics()
        agent.observe([path, costs])
        twin.observe([twin_path, twin_costs])
        after, expected = agent.begin_episode().policy, twin.begin_episode().policy
        assert np.array_equal(after, expected)


@agents
@worlds
def test_second_feedback_after_the_first_is_refused(world, make):
    agent = make(world)
    path, costs = feedback(world, agent, agent.begin_episode(), np.random.default_rng(0))
    agent.observe([path, costs])
    with pytest.raises(bl.FeedbackError, match="episode 0"):
        agent.observe([costs])


@agents
@worlds
def test_records_may_be_overwritten_by_the_caller(world, make):
    agents_, rng = (make(world), make(world)), np.random.default_rng(0)
    for _ in range(5):
        first, second = (agent.begin_episode() for agent in agents_)
        assert np.array_equal(first.policy, second.policy)
        path, costs = feedback(world, agents_[0], first, rng)
        agents_[0].observe([path, costs])
        states, actions, values = path.states.copy(), path.actions.copy(), costs.values.copy()
        mine = [bl.Trajectory(path.episode, states, actions), bl.Costs(path.episode, values)]
        states[:], actions[:], values[:] = 0, 0, 0.5
        agents_[1].observe(mine)


@agents
@worlds
def test_forgetting(world, make):
    agent = make(world)
    with pytest.raises(bl.FeedbackError, match="none has been begun"):
        agent.forget(0)
    _, costs = feedback(world, agent, agent.begin_episode(), np.random.default_rng(0))
    agent.forget(0)
    agent.forget(0)  # letting go twice is no error
    for wrong in (1, -1, None, "0"):
        with pytest.raises(bl.FeedbackError):
            agent.forget(wrong)
    with pytest.raises(bl.FeedbackError, match="episode 0"):
        agent.observe([costs])
    check_policy(world, agent.begin_episode().policy)


@agents
@worlds
def test_second_records_are_refused_before_the_first_is_complete(world, make):
    """A second path, in one batch or later, and second costs while the path is still awaited."""
    agent = make(world)
    path, costs = feedback(world, agent, agent.begin_episode(), np.random.default_rng(0))
    if not agent.uses_paths:
        return
    with pytest.raises(bl.FeedbackError, match="second"):
        agent.observe([path, path])
    agent.observe([path])
    with pytest.raises(bl.FeedbackError, match="second"):
        agent.observe([path])
    agent.observe([costs])
    agent.begin_episode()
    _, costs = feedback(world, agent, agent.begin_episode(), np.random.default_rng(0))
    agent.observe([costs])
    with pytest.raises(bl.FeedbackError, match=r"second|came before"):
        agent.observe([costs])


@agents
@worlds
def test_closed_and_forgotten_episodes_leave_nothing_open(world, make):
    agent, rng = make(world), np.random.default_rng(0)
    for k in range(12):
        path, costs = feedback(world, agent, agent.begin_episode(), rng)
        if k % 3 == 0:
            agent.observe([costs])  # the path comes in a batch of its own
            agent.observe([path])
        elif k % 3 == 1:
            agent.observe([path])
            agent.forget(k)  # half of it has come
        else:
            agent.observe([path, costs])
    for _ in range(8):  # what waits in a pipeline is used or let go by now
        agent.begin_episode()
        agent.forget(agent.diagnostics()["begun"] - 1)
    assert agent.diagnostics()["open"] == 0
