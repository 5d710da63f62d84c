"""Delays that depend on what happened, and nightly batches."""

import numpy as np
import pytest

import belated as bl


def happened(action=0, outcome=0.0, episode=0):
    return bl.delays.PlayedEpisode(episode, np.array([action]), np.array([outcome]))


def test_a_rule_sees_action_and_outcome():
    model = bl.delays.delay_of(lambda h, rng: 10 * h.action + int(h.outcome))
    assert model.after(happened(2, 3.0), np.random.default_rng(0)) == 23
    assert not bl.delays.is_oblivious(model)
    assert bl.delays.is_oblivious(bl.delays.fixed(3))


def test_each_action_has_its_model():
    model = bl.delays.by_action([bl.delays.fixed(1), bl.delays.fixed(7)])
    rng = np.random.default_rng(0)
    assert [model.after(happened(a), rng) for a in (0, 1, 1)] == [1, 7, 7]
    with pytest.raises(ValueError, match="one for every action, got 2 for action 2"):
        model.after(happened(2), rng)


def test_outcomes_above_a_threshold_have_their_model():
    model = bl.delays.by_outcome(bl.delays.fixed(9), bl.delays.none(), threshold=0.5)
    rng = np.random.default_rng(0)
    assert [model.after(happened(outcome=x), rng) for x in (0.5, 0.6)] == [0, 9]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.delays.delay_of(3), "rule must be a function, got 3"),
        (lambda: bl.delays.by_action([]), "models must be a list of delay models"),
        (lambda: bl.delays.by_action([3]), r"models\[0\] must be a delay model.*got 3"),
        (lambda: bl.delays.nightly(0, 1, 3), "per_day must be"),
        (lambda: bl.delays.nightly(10, 3, 1), "high must be"),
    ],
)
def test_bad_input_gets_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_rule_that_gives_no_delay_is_named():
    model = bl.delays.delay_of(lambda h, rng: -1)
    with pytest.raises(ValueError, match=r"delay must be .* got -1"):
        model.after(happened(), np.random.default_rng(0))


def test_the_simulator_asks_after_every_episode():
    world = bl.environments.gridworld(size=2, horizon=3)
    asked = []

    def rule(h, rng):
        asked.append((h.episode, h.states.tolist(), h.actions.tolist(), h.outcome))
        return 2 * (h.episode % 3)

    agent = bl.recommend(world.problem, information="bandit")
    run = bl.simulate(world, agent, delays=bl.delays.delay_of(rule), episodes=9)
    assert run.delays.tolist() == [0, 2, 4] * 3
    assert [k for k, *_ in asked] == list(range(9))
    assert all(len(states) == 4 and len(actions) == 3 for _, states, actions, _ in asked)
    assert [outcome for *_, outcome in asked] == pytest.approx(run.realised.tolist())


def test_nightly_reports_come_at_the_end_of_a_day():
    delays = bl.delays.nightly(per_day=5, low=1, high=3).draw(500, np.random.default_rng(1))
    due = np.arange(500) + delays
    assert (due % 5 == 4).all()
    days = due // 5 - np.arange(500) // 5
    assert set(days.tolist()) == {1, 2, 3}
