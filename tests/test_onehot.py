"""A table of one step is a `LinearSampler` on one-hot features, and an agent like any other."""

import numpy as np
import pytest

import belated as bl
from belated.onehot import TableSampler
from belated.testing import check_agent

TABLE = bl.Problem(3, 2, 1, start=(0.3, 0.3, 0.4))
RATES = np.array([[0.6, 0.1], [0.1, 0.5], [0.3, 0.2]])


def played(agent, sampler, visitors=250):
    """Play both with the same draws; returns the largest difference of their probabilities."""
    rng, rows = np.random.default_rng(3), np.eye(3)
    line: bl.DelayLine[bl.Costs] = bl.DelayLine()
    apart = 0.0
    for k in range(visitors):
        state, u = int(rng.integers(3)), rng.random()
        made = agent.decide(state, np.random.default_rng([1, k]))
        twin = sampler.decide(rows[state], np.random.default_rng([1, k]))
        assert made.action == twin.action
        apart = max(apart, np.abs(made.probabilities - twin.probabilities).max())
        if u < RATES[state, made.action]:
            line.push([bl.Costs(k, [0.25])], int(rng.geometric(0.1)))
        came = line.release(k)
        agent.observe(came)
        sampler.observe([bl.Reward(one.episode, -0.25) for one in came])
    return apart


def test_it_plays_as_the_sampler_does_on_one_hot_features():
    agent = TableSampler(TABLE, silence=0.75, seed=5)
    sampler = bl.LinearSampler(bl.Choice(2, 3), silence=-0.75, seed=5)
    assert played(agent, sampler) == 0.0
    assert agent.diagnostics()["reports"] > 20


@pytest.mark.parametrize("states", [1, 3])
def test_it_keeps_the_contract(states):
    check_agent(lambda: TableSampler(bl.Problem(states, 2, 1), silence=0.5))


def known(agent):
    """Numbers that show what an agent has learned."""
    agent.begin_episode()
    told = agent.diagnostics()
    return [told[name] for name in ("mean", "sigma", "rate", "exposed", "entropy")]


def test_paths_that_are_handed_in_teach_the_same_as_noted_ones(tmp_path):
    noted, told = TableSampler(TABLE), TableSampler(TABLE)
    rng = np.random.default_rng(0)
    for k in range(60):
        state = k % 3
        action = noted.decide(state, rng).action
        told.begin_episode()
        if k % 10 == 9:  # a restart keeps what was played before
            bl.save(told, tmp_path / "told")
            bl.save(noted, tmp_path / "noted")
            told, noted = bl.load(tmp_path / "told"), bl.load(tmp_path / "noted")
        told.observe([bl.Trajectory(k, [state, -1], [action])])
        noted.observe([])
        if k > 5 and action == 0:
            noted.observe([bl.Costs(k, [0.0])])
            told.observe([bl.Costs(k, [0.0])])
    assert known(noted) == known(told)


def test_a_noted_state_that_no_episode_starts_in_stops_nothing():
    agent = TableSampler(bl.Problem(4, 3, 1), silence=1.0)  # all start in state 0
    odd = agent.begin_episode()
    odd.act(0, 3, np.random.default_rng(0))
    other = agent.begin_episode()
    other.act(0, 0, np.random.default_rng(0))
    agent.observe([bl.Costs(other.number, [0.0])])
    agent.forget(odd.number)
    assert agent.begin_episode().number == 2


def test_a_failure_that_reports_says_no_more_than_silence():
    agents = [TableSampler(bl.Problem(1, 2, 1)) for _ in range(2)]
    for k in range(40):
        for agent, says in zip(agents, (True, False), strict=True):
            made = agent.decide(0, np.random.default_rng(k))
            failed = made.action == 0 or k % 3 > 0
            agent.observe([bl.Costs(k, [1.0 if failed else 0.0])] if says or not failed else [])
    first, second = (known(agent) for agent in agents)
    assert first == second


def test_it_is_recommended_where_silence_says_something():
    assert isinstance(bl.recommend(TABLE, silence=1.0), TableSampler)
    assert isinstance(bl.recommend(TABLE), bl.DelayedPlanner)
    assert not isinstance(bl.recommend(bl.Problem(3, 2, 2), silence=1.0), TableSampler)
    with pytest.raises(ValueError, match="horizon = 1, got 2"):
        TableSampler(bl.Problem(3, 2, 2))
