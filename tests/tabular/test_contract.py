"""The contract that every agent keeps, checked for all agents of the registry."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core import tree
from belated.names import SAVED
from belated.tabular.trial import Trial, check_policy
from belated.testing import RULES, Step, check_agent, drive
from limits import FULL
from registry import AGENTS

agents = pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())

WORLDS = {
    "per step": oracles.random_world(np.random.default_rng(0), 3, 4, 2, start=(0.5, 0.5, 0, 0)),
    "homogeneous": oracles.random_world(np.random.default_rng(1), 4, 3, 3, homogeneous=True),
}
worlds = pytest.mark.parametrize(
    "world",
    [
        pytest.param(WORLDS["per step"], id="per step"),
        pytest.param(WORLDS["homogeneous"], id="homogeneous", marks=pytest.mark.long),
    ],
)


EVERY = [(make, rule) for make in AGENTS for rule in range(len(RULES))]
HALF = [(make, rule) for i, make in enumerate(AGENTS) for rule in range(i % 2, len(RULES), 2)]
"""Every agent and every rule, but not every pair."""


@worlds
@pytest.mark.parametrize(("make", "rule"), EVERY if FULL else HALF)
def test_every_agent_keeps_the_contract(world, make, rule):
    make, rule = AGENTS[make], RULES[rule]
    rule(lambda: make(world), Trial(world), np.random.default_rng(1))


delay = st.one_of(st.integers(0, 6), st.just(bl.NEVER))
late = st.builds(Step, delay, delay, st.booleans(), st.integers(0, 9).map(lambda x: x == 0))


@agents
@worlds
@settings(max_examples=8)
@given(st.lists(late, min_size=1, max_size=25), st.integers(0, 1000))
def test_any_schedule_gives_distributions_and_the_same_policies_again(world, make, schedule, seed):
    first = drive(Trial(world), make(world), schedule, seed)
    again = drive(Trial(world), make(world), schedule, seed, overwrite=True)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@agents
@worlds
def test_agents_learn_something_from_feedback(world, make):
    policies = drive(Trial(world), make(world), [Step(1, 1)] * 40, 0)
    assert not np.array_equal(policies[0], policies[-1])


@agents
def test_an_agent_prints_as_the_call_that_makes_it(make):
    world = WORLDS["per step"]
    agent = make(world)
    names = {name: getattr(import_module(f"belated.{home}"), name) for name, home in SAVED.items()}
    text = repr(agent).replace(repr(world.mdp.transitions), "TRUE")
    own = {cls.__name__: cls for cls in tree._OWN.values()}  # rivals outside of the package
    again = eval(text, {**names, **own, "inf": np.inf, "TRUE": world.mdp.transitions})
    assert repr(again) == repr(agent)
    first, second = (drive(Trial(world), one, [Step(2, 2)] * 12, 0) for one in (agent, again))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


class Broken:
    """Delayed OPPO with one thing wrong."""

    def __init__(self, fault):
        self._agent, self._fault = bl.DelayedOPPO(WORLDS["per step"].problem), fault
        self.problem, self.information = self._agent.problem, self._agent.information
        self.uses_paths = True
        self._calls = 0

    @property
    def begun(self):
        return self._agent.begun + (self._fault == "begun")

    def open_episodes(self):
        early = self._fault == "early" and not self._agent.begun
        return [0] if early else self._agent.open_episodes()

    def is_open(self, number):
        return self._agent.is_open(number) or (self._fault == "open" and number == 2)

    def begin_episode(self, now=None):
        episode = self._agent.begin_episode()
        policy, number = episode.policy, episode.number
        self._calls += 1
        if self._fault == "numbers":
            number += 1
        if self._fault == "shared":
            policy = self._shared = getattr(self, "_shared", policy)
        if self._fault == "chance":
            policy = np.random.default_rng().dirichlet(np.ones(2), policy.shape[:2])
        if self._fault == "sums":
            policy = policy * (1 + 1e-6)
        return bl.Episode(number, policy)

    def observe(self, records, now=None):
        if self._fault == "swallows":
            try:
                self._agent.observe(records)
            except bl.FeedbackError:
                return
        elif self._fault == "half" and isinstance(records, list):
            for record in records:
                self._agent.observe([record])
        else:
            self._agent.observe(records)

    def forget(self, episode):
        if self._fault == "deaf" and isinstance(episode, int):
            return
        self._agent.forget(episode)

    def diagnostics(self):
        return self._agent.diagnostics()


@pytest.mark.parametrize(
    "fault",
    ["numbers", "begun", "shared", "chance", "sums", "swallows", "half", "deaf", "open", "early"],
)
def test_check_agent_finds(fault):
    with pytest.raises(AssertionError):
        check_agent(lambda: Broken(fault))


class Half:
    problem = information = begin_episode = observe = forget = None


def test_check_agent_passes_what_is_right_and_names_what_is_missing():
    check_agent(lambda: Broken(None))
    with pytest.raises(
        ValueError, match="has no uses_paths, begun, open_episodes, is_open, diagnostics"
    ):
        check_agent(Half)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3), (1, 4, 2)])
def test_check_agent_makes_a_world_for_any_problem(shape):
    states, actions, horizon = shape
    problem = bl.Problem(states, actions, horizon, homogeneous=True)
    check_agent(lambda: bl.DelayedOPPO(problem))
    check_policy(problem, bl.DelayedOPPO(problem).begin_episode().policy)


def test_check_agent_tells_every_rule_before_it_is_tried():
    told = []
    check_agent(lambda: Broken(None), progress=told.append)
    assert len(told) == len(RULES)
    assert told[0] == f"check_agent: 1 of {len(RULES)}, any feedback is taken"
