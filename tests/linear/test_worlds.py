"""Worlds of decisions: exact means, the same visitors for all, and the loop of `simulate`."""

import numpy as np
import pytest
from benchmarks import linear_worlds
from benchmarks.real_worlds import labelled

import belated as bl
from belated.core.contract import Decision
from belated.linear.choice import Choice
from belated.linear.reward import Reward
from belated.linear.worlds import DecisionWorld, Visits

WORLDS = {
    "conversions": bl.environments.conversions,
    "no features": lambda: bl.environments.conversions(features=0),
    "amounts": lambda: bl.environments.conversions(rate=0.3, amounts=0.5),
    "switch": lambda: bl.environments.conversions(rate=0.3, change="switch"),
    "outcomes": lambda: linear_worlds.outcomes(change="drift"),
    "items": linear_worlds.items,
    "linear items that drift": lambda: linear_worlds.items(noise=0.5, change="drift"),
    "mailer": bl.environments.mailer,
}


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS.keys())
def test_outcomes_have_the_stated_means(make):
    """The mean difference over 10,000 visitors is within 4.5 standard errors."""
    visits = make().visits(10_000, np.random.default_rng(0))
    difference = visits.outcomes - visits.means
    error = difference.std() / np.sqrt(difference.size)
    assert abs(difference.mean()) < 4.5 * error
    # and the same where the means are large
    large = visits.means > np.median(visits.means)
    error = difference[large].std() / np.sqrt(large.sum())
    assert abs(difference[large].mean()) < 4.5 * error


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS.keys())
def test_the_same_seed_gives_the_same_visitors(make):
    first, second = (make().visits(50, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first.means, second.means)
    assert np.array_equal(first.outcomes, second.outcomes)


class Uniform:
    """States equal probabilities, or plays a given action, and keeps the records it sees."""

    information, uses_paths = "bandit", False

    def __init__(self, problem, action=None):
        self.problem, self.begun, self.seen, self._action = problem, 0, [], action

    def decide(self, x=None, **given):
        n = self.problem.actions
        p = np.full(n, 1 / n) if self._action is None else np.eye(n)[self._action]
        self.begun += 1
        action = 0 if self._action is None else self._action
        return Decision(self.begun - 1, action, p[action], p)

    def observe(self, records, now=None):
        self.seen += [(self.begun - 1, record) for record in records]

    def open_episodes(self):
        return []

    def is_open(self, number):
        return True

    def begin_episode(self, now=None):
        raise ValueError("this agent decides")

    def forget(self, episode):
        pass

    def diagnostics(self):
        return {}


def listed(outcomes, silence=0.0):
    """A world whose outcomes are given, and equal their means."""
    array = np.array(outcomes, dtype=float)
    choice = Choice(actions=array.shape[1])
    return DecisionWorld(choice, lambda n, rng: Visits(None, array[:n], array[:n]), silence=silence)


def test_values_are_exact_and_uniform_play_scores_1():
    world = bl.environments.conversions(actions=3)
    run = bl.simulate(world, Uniform(world.problem), episodes=200)
    assert run.score == pytest.approx(1.0)
    assert np.allclose(run.values, run.uniform)


def test_only_what_is_not_silent_reports_and_on_time():
    world = listed([[1, 0], [0, 0], [2, 0], [3, 0]])
    agent = Uniform(world.problem, action=0)
    run = bl.simulate(world, agent, delays=np.array([2, 0, 1, 0]), episodes=4)
    assert [(k, r.episode, r.value) for k, r in agent.seen] == [(2, 0, 1), (3, 2, 2), (3, 3, 3)]
    assert run.delays.tolist() == [2, bl.NEVER, 1, 0]
    assert run.realised.tolist() == [-1, 0, -2, -3]
    every = listed([[1, 0], [0, 0]], silence=None)
    agent = Uniform(every.problem, action=0)
    bl.simulate(every, agent, episodes=2)
    assert [r.value for _, r in agent.seen] == [1, 0]
    assert isinstance(agent.seen[0][1], Reward)


def test_delays_may_depend_on_the_action():
    world = listed([[1.0, 1.0]] * 10)
    models = [bl.delays.fixed(1), bl.delays.fixed(4)]
    for action, delay in ((0, 1), (1, 4)):
        agent = Uniform(world.problem, action=action)
        run = bl.simulate(world, agent, delays=bl.delays.by_action(models), episodes=10)
        assert set(run.delays.tolist()) == {delay}


def test_a_world_may_know_its_own_delays():
    means = np.ones((5, 2))
    delays = np.tile([3, 0], (5, 1))
    world = DecisionWorld(Choice(actions=2), lambda n, rng: Visits(None, means, means, delays))
    assert bl.simulate(world, Uniform(world.problem, 0), episodes=5).delays.tolist() == [3] * 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.environments.conversions(rate=0.0), "rate must be .* got 0"),
        (lambda: bl.environments.conversions(change="often"), "change must be one of"),
        (lambda: Visits(None, np.ones((2, 2)), np.ones((2, 3))), "outcomes must have shape"),
        (
            lambda: Visits(np.ones((3, 1)), np.ones((2, 2)), np.ones((2, 2))),
            "features must have",
        ),
        (lambda: listed([[1, 2]]).visits(3, np.random.default_rng(0)), "must give 3 decisions"),
        (lambda: labelled("iris"), "name must be one of"),
        (
            lambda: bl.simulate(listed([[1, 2]]), Uniform(Choice(actions=3)), episodes=1),
            "agent must be made for",
        ),
    ],
)
def test_bad_input_gets_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_run_of_decisions_speaks_of_outcomes():
    world = bl.environments.mailer()
    text = repr(bl.simulate(world, Uniform(world.problem), episodes=100))
    assert "outcome per decision" in text
    assert "WARNING: no better than uniform play" in text
