"""Paths that `act` notes, decisions in one call, and how an inbox reports missing paths."""

import numpy as np
import pytest

import belated as bl
from belated.core.tree import freeze, thaw

ARMS = bl.Problem(1, 3, 1)
TWO = bl.Problem(2, 2, 2, start=(0.5, 0.5))


def agent(problem=ARMS):
    if problem is ARMS:
        return bl.ZimmertSeldin(ARMS)
    return bl.recommend(problem, information="bandit")


def test_a_noted_path_joins_when_the_costs_arrive():
    """The policies are those of an agent that gets the path without its end, bit for bit."""
    noting, told = agent(TWO), agent(TWO)
    rng = np.random.default_rng(0)
    for k in range(30):
        episode, other = noting.begin_episode(), told.begin_episode()
        assert np.array_equal(episode.policy, other.policy)
        states = rng.integers(0, 2, 2)
        actions = [episode.act(h, states[h], rng)[0] for h in range(2)]
        costs = bl.Costs(k, rng.random(2))
        noting.observe([costs])
        told.observe([bl.Trajectory(k, [*states, -1], actions), costs])
        assert not noting.is_open(k)
    assert noting.diagnostics()["used"] == 30


def test_an_equal_path_is_ignored_and_another_is_a_conflict():
    learner, rng = agent(TWO), np.random.default_rng(0)
    action = [learner.begin_episode().act(0, 1, rng)[0], None]
    episode = learner.begin_episode()
    actions = [episode.act(h, 1, rng)[0] for h in range(2)]
    with pytest.raises(bl.FeedbackError, match="it must be what act has drawn"):
        learner.observe([bl.Trajectory(1, [1, 1, 0], [1 - actions[0], actions[1]])])
    learner.observe([bl.Costs(1, [0.5, 0.5])])
    assert not learner.is_open(1)
    learner.observe([bl.Trajectory(1, [1, 1, 0], actions)])  # it came before
    with pytest.raises(bl.FeedbackError, match="it must be what act has drawn"):
        learner.observe([bl.Trajectory(1, [0, 1, 0], actions)])
    learner.observe([bl.Costs(0, [0.5, 0.5])])  # act was not called for one step
    assert learner.is_open(0)
    learner.observe([bl.Trajectory(0, [1, 0, 0], [action[0], 0])])
    assert not learner.is_open(0)


def test_a_step_that_act_drew_twice_is_not_noted():
    learner, rng = agent(), np.random.default_rng(0)
    episode = learner.begin_episode()
    assert {episode.act(0, state=0, rng=rng)[0] for _ in range(60)} == {0, 1, 2}
    learner.observe([bl.Costs(0, [0.5])])
    assert learner.is_open(0)
    learner.observe([bl.Trajectory(0, [0, 0], [1])])
    assert not learner.is_open(0)


def test_notes_are_saved(tmp_path):
    learner, rng = agent(TWO), np.random.default_rng(0)
    episode = learner.begin_episode()
    for h in range(2):
        episode.act(h, h, rng)
    bl.save(learner, tmp_path / "agent")
    again = bl.load(tmp_path / "agent")
    for one in (learner, again):
        one.observe([bl.Costs(0, [0.2, 0.4])])
        assert not one.is_open(0)
    assert np.array_equal(learner.begin_episode().policy, again.begin_episode().policy)


def test_a_noted_path_joins_single_costs_of_an_inbox():
    inbox, told, rng = bl.Inbox(agent(TWO)), agent(TWO), np.random.default_rng(0)
    for k in range(10):
        episode, other = inbox.begin_episode(), told.begin_episode()
        assert np.array_equal(episode.policy, other.policy)
        states, costs = rng.integers(0, 2, 2), rng.random(2)
        actions = [episode.act(h, states[h], rng)[0] for h in range(2)]
        assert inbox.take([bl.StepCost(k, 1, costs[1])]).pathless == ()
        assert inbox.is_open(k)
        assert inbox.take([bl.StepCost(k, 0, costs[0])]).pathless == ()
        assert not inbox.is_open(k)
        told.observe([bl.Trajectory(k, [*states, -1], actions), bl.Costs(k, costs)])


def test_a_seed_decides_the_draws_and_is_saved(tmp_path):
    learner, other = bl.ZimmertSeldin(ARMS), bl.ZimmertSeldin(ARMS)
    learner.seed = 7
    assert [learner.decide().action for _ in range(9)] != [other.decide().action for _ in range(9)]
    bl.save(learner, tmp_path / "agent")
    again = bl.load(tmp_path / "agent")
    assert again.seed == 7
    assert [learner.decide().action for _ in range(9)] == [again.decide().action for _ in range(9)]


def test_decide_is_begin_act_and_path():
    learner = agent()
    first = learner.decide()
    assert (first.number, first.probabilities.shape) == (0, (3,))
    assert first.probability == first.probabilities[first.action]
    learner.observe([bl.Costs(0, [0.3])])
    assert learner.diagnostics()["used"] == 1
    again = agent()
    assert [again.decide().action for _ in range(20)] == [other.action for other in draws(20)]
    begun = again.begun
    for bad, message in (
        ({"rng": 0}, r"rng must be a Generator such as numpy.random.default_rng\(0\), got 0"),
        ({"observation": 3}, "state must be a whole number from 0 to 0"),
        ({"among": [0]}, "use belated.Choice"),
    ):
        with pytest.raises(ValueError, match=message):
            again.decide(**bad)
    assert again.begun == begun
    with pytest.raises(ValueError, match="decide is for problems of one step, got horizon = 2"):
        agent(TWO).decide()


def draws(count):
    other = agent()
    return [other.decide() for _ in range(count)]


def test_the_inbox_says_when_a_path_is_missing():
    inbox = bl.Inbox(agent())
    inbox.begin_episode()
    report = inbox.take([bl.StepCost(0, 0, 0.5)])
    assert report.pathless == (0,)
    assert "waits for its path" in report.outcomes[0].why
    assert inbox.diagnostics()["inbox_pathless"] == 1
    assert inbox.take([bl.Trajectory(0, [0, 0], [1])]).pathless == ()
    assert inbox.diagnostics()["inbox_pathless"] == 0
    decision = inbox.decide()
    report = inbox.take([bl.StepCost(decision.number, 0, 0.5)])
    assert report.pathless == ()
    assert report.outcomes[0].why == ""


def test_a_bad_row_is_invalid_and_the_others_are_taken():
    inbox = bl.Inbox(agent())
    for _ in range(3):
        inbox.decide()
    rows = [bl.StepCost(0, 0, 0.5), bl.StepCost(1, 0, 25.0), bl.StepCost(2.0, 0, 0.5)]
    good, reward, number = inbox.take(rows).outcomes
    assert (good.kind, reward.kind, number.kind) == ("taken", "invalid", "invalid")
    assert "a reward?" in reward.why
    assert "episode must be a whole number of at least 0, got 2.0" in number.why
    with pytest.raises(bl.FeedbackError, match=r"a reward\? Inbox\(agent, rewards=\(low, high\)\)"):
        bl.Costs(0, [25.0])
    with pytest.raises(bl.FeedbackError, match='this agent was made for information="bandit"'):
        inbox.observe([bl.Costs(1, np.zeros((1, 1, 3)))])


def test_rewards_become_costs_and_are_clipped():
    inbox, plain = bl.Inbox(agent(), rewards=(0, 50), clip=True), agent()
    strict = bl.Inbox(agent(), rewards=(0, 50))
    for reward, cost in ((10.0, 0.8), (5000.0, 0.0), (-3.0, 1.0)):
        for one in (inbox, plain, strict):
            number = one.decide(rng=np.random.default_rng(1)).number
        inbox.take([bl.StepCost(number, 0, reward)])
        plain.observe([bl.Costs(number, [cost])])
    assert np.array_equal(inbox.begin_episode().policy, plain.begin_episode().policy)
    outcome = strict.take([bl.StepCost(0, 0, 5000.0)]).outcomes[0]
    assert outcome.kind == "invalid"
    assert "reward must lie in [0, 50], got 5000" in outcome.why


def test_outcomes_are_held_to_their_deadline():
    inbox = bl.Inbox(agent(), deadline=2, default=1.0, hold=True)
    inbox.decide()
    inbox.take([bl.StepCost(0, 0, 0.0)])
    for _ in range(2):
        inbox.decide()
        assert inbox.agent.diagnostics()["used"] == 0
    assert inbox.diagnostics()["inbox_held"] == 1
    inbox = thaw(freeze(inbox))
    inbox.decide()
    assert inbox.agent.diagnostics()["used"] == 1
    assert inbox.diagnostics()["inbox_held"] == 0
    inbox.decide()
    assert inbox.counts()["defaulted"] == 1
    with pytest.raises(ValueError, match="hold needs a deadline"):
        bl.Inbox(agent(), hold=True)
    with pytest.raises(ValueError, match="grace must be None beside hold=True"):
        bl.Inbox(agent(), deadline=2, grace=2, hold=True)


def test_clocks():
    import datetime

    with pytest.raises(ValueError, match=r"clock\(\) must be a finite number, got datetime"):
        bl.Inbox(agent(), deadline=3, clock=datetime.datetime.now)
    inbox = bl.Inbox(agent(), deadline=5.0, clock="now")
    inbox.decide(now=1.0)
    with pytest.raises(ValueError, match="now must be given with every call"):
        inbox.decide()
    inbox.decide(now=0.0)  # a clock that is set back does not change the time
    assert inbox.expire(now=6.5).forgotten == (0, 1)


def test_one_reading_of_the_clock_per_event():
    readings = []

    def clock():
        readings.append(None)
        return float(len(readings))

    inbox = bl.Inbox(agent(), deadline=2.5, clock=clock)
    before = len(readings)
    inbox.decide()
    inbox.take([bl.StepCost(0, 0, 0.5)])
    inbox.expire()
    assert len(readings) == before + 3
