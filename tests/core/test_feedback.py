"""Episodes step by step: actions with their probabilities, records in any order."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
from belated.onehot import TableSampler

H, S, A = 3, 2, 4


def episode(policy=None, number=5):
    if policy is None:
        policy = np.random.default_rng(0).dirichlet(np.ones(A), (H, S))
    return bl.Episode(number, policy, bl.Problem(S, A, H, start=(1 / S,) * S))


def test_actions_come_with_their_probability_and_as_often():
    """20,000 draws; 4 standard deviations of a frequency are at most 0.0142."""
    one, rng = episode(), np.random.default_rng(1)
    drawn = [one.act(1, 0, rng) for _ in range(20_000)]
    for action, probability in set(drawn):
        assert probability == one.policy[1, 0, action]
        share = np.mean([other == action for other, _ in drawn])
        assert share == pytest.approx(probability, abs=0.0142)


@pytest.mark.parametrize("row", [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0.5, 0.5, 0]])
def test_an_action_of_probability_0_is_never_drawn(row):
    policy = np.tile(np.array(row, dtype=float), (H, S, 1))

    class Edge(np.random.Generator):
        value = 0.0

        def random(self):
            return self.value

    rng = Edge(np.random.PCG64(0))
    for Edge.value in (0.0, 0.25, 0.5, 0.75, np.nextafter(1.0, 0.0)):
        action, probability = episode(policy).act(0, 1, rng)
        assert probability == row[action] > 0


@given(st.permutations(range(3 * H + 1)))
def test_steps_in_any_order_make_the_records(order):
    states, actions, costs = [1, 0, 1, 1], [3, 0, 2], [0.0, 0.25, 1.0]
    notes = [(h, {"state": states[h]}) for h in range(H + 1)]
    notes += [(h, {"action": actions[h]}) for h in range(H)]
    notes += [(h, {"cost": costs[h]}) for h in range(H)]
    one = episode()
    made = [record for i in order for record in one.record(notes[i][0], **notes[i][1])]
    assert {type(record) for record in made} == {bl.Trajectory, bl.Costs}
    assert len(made) == 2
    for record in made:
        assert record.episode == 5
        if isinstance(record, bl.Trajectory):
            assert (record.states.tolist(), record.actions.tolist()) == (states, actions)
        else:
            assert record.values.tolist() == costs
    assert one.record(0, cost=0.0) == []  # known already


def test_a_second_value_is_refused_and_changes_nothing():
    one = episode()
    assert one.record(0, state=1, action=2, cost=0.5) == []
    with pytest.raises(
        bl.FeedbackError, match="episode 5: action of step 0 is known to be 2, got 3"
    ):
        one.record(0, state=1, action=3)
    for wrong in (
        {"step": 4, "state": 0},
        {"step": H, "cost": 0.5},
        {"step": 0, "state": S},
        {"step": 0, "action": -1},
        {"step": 0, "cost": 1.5},
        {"step": 0},
    ):
        with pytest.raises(bl.FeedbackError, match="Step of episode 5"):
            one.record(**wrong)
    for step in (2, 1):
        made = one.record(step, cost=0.0)
    assert made[0].values.tolist() == [0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "name"), [((H, 0), "step"), ((0, S), "state"), ((-1, 0), "step")]
)
def test_act_refuses_what_is_out_of_range(arguments, name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 0"):
        episode().act(*arguments, np.random.default_rng(0))
    with pytest.raises(ValueError, match="rng must be a Generator"):
        episode().act(0, 0, 7)


def test_an_agent_learns_from_steps():
    problem = bl.Problem(2, 2, horizon=2)
    agent, rng = bl.recommend(problem, information="bandit"), np.random.default_rng(0)
    for _ in range(60):
        one, state = agent.begin_episode(), 0
        for h in range(2):
            action, _ = one.act(h, state, rng)
            agent.observe(one.record(h, state=state, action=action))
            state = action
            one.record(h, cost=float(action)) if h == 0 else None
        agent.observe(one.record(2, state=state))
        agent.observe(one.record(1, cost=0.0))
    assert agent.begin_episode().policy[0, 0, 0] > 0.8


def test_a_policy_is_copied_when_it_is_asked_for():
    agent = bl.DelayedOPPO(bl.Problem(3, 2, 4))
    episode = agent.begin_episode()
    shared = episode.shared
    assert not shared.flags.writeable
    episode.act(0, 0, np.random.default_rng(0))
    assert episode.plays(shared)  # no copy was needed yet
    episode.policy[:] = [1.0, 0.0]
    assert np.all(shared == 0.5)
    assert not episode.plays(shared)
    assert episode.probabilities(0, 0)[0] == 1.0  # the episode plays the caller's own array
    assert agent.begin_episode().shared is shared  # nothing was learned: one array for both


def test_a_copied_agent_passes_kernels_read_only_arrays():
    """Copies of arrays are writable in NumPy, and kernels would be compiled for them once more."""
    path, costs = bl.Trajectory(0, [0, 1], [1]), bl.Costs(0, [0.5])
    line = bl.DelayLine()
    line.push([path, costs], 0)
    for record in (*copy.deepcopy([path, costs]), *copy.deepcopy(line).release(0)):
        arrays = [getattr(record, name) for name in ("states", "values") if hasattr(record, name)]
        assert not any(array.flags.writeable for array in arrays)


@pytest.mark.parametrize("make", [
    TableSampler,
    lambda problem: bl.wrappers.Parallel(lambda: bl.ThompsonSampling(problem), 2),
    lambda problem: bl.wrappers.Bold(lambda: bl.ThompsonSampling(problem)),
    lambda problem: bl.wrappers.Pipeline(bl.ThompsonSampling(problem), 2),
    lambda problem: bl.wrappers.Lazy(bl.ThompsonSampling(problem), 2),
])  # fmt: skip
@pytest.mark.parametrize("now", ["noon", np.nan])
def test_a_batch_that_a_wrong_time_made_fail_can_be_sent_again(make, now):
    agent = make(bl.Problem(states=1, actions=2, horizon=1))
    number = agent.begin_episode().number
    batch = [bl.Trajectory(number, [0, 0], [1]), bl.Costs(number, [0.5])]
    with pytest.raises(ValueError, match="now must be"):
        agent.observe(batch, now=now)
    agent.observe(batch)
    with pytest.raises(bl.FeedbackError):
        agent.observe(batch)


def test_a_time_from_the_second_call_on_loses_nothing():
    agent = TableSampler(bl.Problem(states=1, actions=2, horizon=1))
    number = agent.begin_episode().number
    batch = [bl.Trajectory(number, [0, 0], [1]), bl.Costs(number, [0.5])]
    with pytest.raises(ValueError, match="now must be None in all calls"):
        agent.observe(batch, now=3.0)
    agent.observe(batch)
    assert agent.diagnostics()["used"] == 1


def test_a_copy_that_refuses_a_time_loses_nothing():
    agent = bl.wrappers.Parallel(lambda: bl.LinearSampler(bl.Choice(actions=2)), 1)
    batch = [bl.Reward(agent.decide().number, 1.0) for _ in range(2)]
    with pytest.raises(ValueError, match="now must be None in all calls"):
        agent.observe(batch, now=3.0)
    agent.observe(batch)
    with pytest.raises(bl.FeedbackError, match=r"was 1 before, got 2"):
        agent.observe([bl.Reward(0, 2.0)])  # the first ones were taken


def test_names_that_are_no_list_are_refused():
    with pytest.raises(ValueError, match="names must be a list of names, got 5"):
        bl.LinearSampler(bl.Choice(actions=2)).change(names=5)


def test_what_is_no_number_of_an_episode_is_named():
    agent = bl.ThompsonSampling(bl.Problem(states=1, actions=2, horizon=1))
    with pytest.raises(ValueError, match=r"episode must be a whole number, got \[\]"):
        agent.is_open([])
