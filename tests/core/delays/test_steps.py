"""Delays of single steps, checked by hand, in the simulator and in the lab."""

import dataclasses
import json

import numpy as np
import pytest

import belated as bl
from belated.lab import experiment, part, run

NEVER = bl.NEVER


def test_an_episode_is_known_with_its_last_cost():
    given = np.array([[0, 3], [2, 1], [NEVER, 1], [NEVER, NEVER]])
    assert bl.delays.of_episodes(given).tolist() == [3, 2, NEVER, NEVER]
    assert bl.delays.of_episodes(given[:, 0]).tolist() == [0, 2, NEVER, NEVER]


def test_a_model_draws_one_column_per_step():
    model = bl.delays.per_step([bl.delays.fixed(2), bl.delays.none(), bl.delays.uniform(0, 4)])
    drawn = model.draw(50, np.random.default_rng(0))
    assert drawn.shape == (50, 3)
    assert set(drawn[:, 0]) == {2}
    assert set(drawn[:, 1]) == {0}
    assert set(drawn[:, 2]) == {0, 1, 2, 3, 4}
    same = bl.delays.per_step(bl.delays.fixed(2), steps=3)
    assert same == bl.delays.per_step([bl.delays.fixed(2)] * 3)
    assert eval(repr(model), vars(bl.delays)) == model


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (([],), "models must be a list of delay models"),
        (([1, 2],), r"models\[0\] must be a delay model"),
        ((bl.delays.fixed(2),), "one model with steps"),
        (([bl.delays.fixed(2)], 2), "steps needs one delay model"),
        ((bl.delays.fixed(2), 0), "steps must be"),
    ],
)
def test_what_is_no_model_is_refused(given, why):
    with pytest.raises(ValueError, match=why):
        bl.delays.per_step(*given)


WORLD = bl.environments.random_mdp(states=3, actions=2, horizon=4, seed=1)


class Seen:
    """Notes when each record arrives and passes it on."""

    def __init__(self, agent):
        self.agent, self.came = agent, []

    def __getattr__(self, name):
        return getattr(self.agent, name)

    def observe(self, records, now=None):
        self.came += [(self.agent.begun - 1, type(r).__name__, r.episode) for r in records]
        self.agent.observe(records, now)


def agent():
    return bl.recommend(WORLD.problem, information="bandit")


DELAYS = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, NEVER], [0, 0, 1, 0], [0] * 4, [1] * 4])


def test_the_agent_gets_costs_when_the_last_of_them_has_come():
    """By hand: episode 0 is known after 2, 1 after 1, 2 never, 3 and 4 after 4, 5 after the end."""
    seen = Seen(agent())
    run = bl.simulate(WORLD, seen, delays=DELAYS, episodes=6)
    costs = [(k, number) for k, kind, number in seen.came if kind == "Costs"]
    assert costs == [(1, 1), (2, 0), (4, 3), (4, 4)]
    paths = [(k, number) for k, kind, number in seen.came if kind == "Trajectory"]
    assert paths == [(1, 1), (2, 0), (4, 3), (4, 4)]  # the path of 2 is due after the end
    assert run.delays.tolist() == [2, 0, NEVER, 1, 0, 1]
    assert run.missing.tolist() == [1, 1, 1, 2, 1, 2]
    np.testing.assert_array_equal(run.step_delays, DELAYS)


def test_a_path_comes_with_the_last_cost_that_is_not_lost():
    seen = Seen(agent())
    delays = np.zeros((9, 4), dtype=np.int64)
    delays[1:3] = [[5, 0, 2, NEVER], [NEVER] * 4]
    bl.simulate(WORLD, seen, delays=delays, episodes=9)
    paths = [(k, number) for k, kind, number in seen.came if kind == "Trajectory"]
    assert paths == [(0, 0), (3, 3), (4, 4), (5, 5), (6, 1), (6, 6), (7, 7), (8, 8)]


def test_paths_at_once_do_not_wait_for_costs():
    seen = Seen(agent())
    bl.simulate(WORLD, seen, delays=DELAYS, episodes=6, paths="at once")
    paths = [(k, number) for k, kind, number in seen.came if kind == "Trajectory"]
    assert paths == [(k, k) for k in range(6)]


def test_pieces_teach_what_the_whole_teaches_when_the_last_has_come():
    """The run equals, bit for bit, one whose episodes have the delay of their last piece."""
    drawn = np.random.default_rng(3).integers(0, 6, (60, 4))
    pieces = bl.simulate(WORLD, agent(), delays=drawn, episodes=60, seed=4)
    whole = bl.simulate(WORLD, agent(), delays=drawn.max(axis=1), episodes=60, seed=4)
    assert pieces.values.tobytes() == whole.values.tobytes()
    assert whole.step_delays is None


def test_under_full_information_the_last_step_completes_the_cost_function():
    """The run equals, bit for bit, one with the delay of the last step.

    The delays are drawn in advance, or given by a rule that sees what happened.
    """

    def full():
        return bl.recommend(WORLD.problem, information="full")

    drawn = np.random.default_rng(3).integers(0, 6, (60, 4))
    drawn[7, 2] = NEVER
    whole = bl.simulate(WORLD, full(), delays=drawn.max(axis=1), episodes=60, seed=4)
    rule = bl.delays.per_step(lambda happened, rng: drawn[happened.episode])
    for given in (drawn, rule):
        steps = bl.simulate(WORLD, full(), delays=given, episodes=60, seed=4)
        assert steps.values.tobytes() == whole.values.tobytes()
        np.testing.assert_array_equal(steps.step_delays, drawn)
        np.testing.assert_array_equal(steps.missing, whole.missing)


def test_an_inbox_with_a_default_learns_from_what_has_come():
    """The lost cost of a step counts as the default once the deadline has passed."""
    inbox = bl.Inbox(agent(), deadline=3, default=1.0)
    delays = bl.delays.per_step([bl.delays.none(), *[bl.delays.fixed(NEVER)] * 3])
    run = bl.simulate(WORLD, inbox, delays=delays, episodes=20, paths="at once")
    assert inbox.counts()["defaulted"] == 16
    assert run.diagnostics["used"] == 16
    assert set(run.delays) == {NEVER}


def test_a_rule_sees_what_happened():
    def rule(happened, rng):
        return happened.actions * 2  # action 1 reports two episodes later

    run = bl.simulate(WORLD, agent(), delays=bl.delays.per_step(rule), episodes=15)
    assert set(np.unique(run.step_delays)) == {0, 2}
    np.testing.assert_array_equal(run.delays, run.step_delays.max(axis=1))
    wrong = bl.delays.per_step(lambda happened, rng: [1, 2])
    with pytest.raises(ValueError, match="must be 4, one per step, got 2"):
        bl.simulate(WORLD, agent(), delays=wrong, episodes=5)


def test_what_cannot_come_in_pieces_is_refused():
    steps = bl.delays.per_step(bl.delays.fixed(1), steps=4)
    with pytest.raises(ValueError, match="delays must be 4 per episode, one for every step, got 3"):
        bl.simulate(WORLD, agent(), delays=np.zeros((5, 3), dtype=int), episodes=5)
    shop = bl.environments.conversions()
    with pytest.raises(ValueError, match="one per decision"):
        bl.simulate(shop, bl.recommend(shop.problem), delays=steps, episodes=5)


def test_an_experiment_keeps_the_delays_of_single_steps(tmp_path):
    """A file holds one model per step; the rows hold the delays of the steps and the episode."""
    planned = experiment(
        environment={"kind": "gridworld", "size": 3, "horizon": 2},
        agents={"recommended": {"kind": "recommended"}},
        delays=part("per_step", models=[part("none"), part("uniform", low=0, high=3)]),
        information="bandit",
        episodes=12,
        seeds=1,
    )
    rows = run(planned, tmp_path / "out", engine="here").rows
    pairs = [json.loads(row) for row in rows["step_delays"]]
    assert {first for first, _ in pairs} == {0}
    assert [max(pair) for pair in pairs] == rows["delay"].to_list()
    again = dataclasses.replace(
        planned, delays=part("per_step", models=part("fixed", delay=2), steps=2)
    )
    assert set(run(again, tmp_path / "more", engine="here").rows["step_delays"]) == {"[2, 2]"}
