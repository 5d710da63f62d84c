"""Parts are values, and combinations that cannot work are refused in one sentence."""

import copy
import pickle

import numpy as np
import pytest

import belated as bl
from belated import DelayedOPPO, DelayedOREPS, DelayedUCBVI
from belated.parts import (
    Averaged,
    Bonus,
    Confidence,
    FewVisits,
    RegretMatching,
    Revealed,
    Softmax,
    Weighted,
)

PROBLEM = bl.Problem(3, 2, 4)
ARMS = bl.Problem(1, 2, 1)
KNOWN = bl.environments.random_mdp(3, 2, 4).mdp.transitions
BANDIT = {"costs": Weighted(0.1), "update": Softmax(0.1)}


def oppo(**parts):
    return lambda: DelayedOPPO(PROBLEM, **parts)


def ucbvi(**parts):
    return lambda: DelayedUCBVI(PROBLEM, **parts)


def oreps(**settings):
    return lambda: DelayedOREPS(PROBLEM, **{"learning_rate": 0.1} | settings)


class NoRestart:
    """An agent without the methods that `Doubling` needs."""

    problem, information, uses_paths, begun = PROBLEM, "full", False, 0

    def open_episodes(self): ...
    def is_open(self, number): ...
    def begin_episode(self, now=None): ...
    def observe(self, records, now=None): ...
    def forget(self, episode): ...
    def diagnostics(self): ...


REFUSED = {
    "weights with a bonus": (
        oppo(transitions=Bonus(), **BANDIT),
        r"costs=Weighted\(...\) cannot go with transitions=Bonus\(scale=1.0\)",
    ),
    "doubling without a step size": (
        lambda: bl.wrappers.Doubling(DelayedOPPO(PROBLEM, update=RegretMatching())),
        "update=RegretMatching.* has no step size for a new phase",
    ),
    "exploring what is known": (
        oppo(transitions=KNOWN, explore=FewVisits(3)),
        r"explore=FewVisits\(...\) cannot go with .* needs unknown transitions",
    ),
    "exploring what is known, by delay": (
        oppo(transitions=KNOWN, explore=FewVisits(max_delay=3)),
        r"explore=FewVisits\(...\) cannot go with .* needs unknown transitions",
    ),
    "exploring what is known, planned": (
        ucbvi(transitions=KNOWN, explore=FewVisits(3)),
        r"explore=FewVisits\(...\) cannot go with .* needs unknown transitions",
    ),
    "few visits without a number": (FewVisits, "threshold and max_delay, got neither"),
    "few visits with both": (lambda: FewVisits(3, 4), "threshold and max_delay, got both"),
    "no exploration": (
        oppo(costs=Weighted(), update=Softmax(0.1)),
        r"^costs=Weighted\(exploration\) must be given .* horizon 4",
    ),
    "no learning rate": (
        oppo(costs=Weighted(0.1)),
        r"^update=Softmax\(learning_rate\) must be given .* horizon 4",
    ),
    "neither of them": (
        oppo(costs=Weighted()),
        r"^costs=Weighted\(exploration\) and update=Softmax\(learning_rate\) must be given",
    ),
    "neither, for one step from several states": (
        lambda: DelayedOPPO(bl.Problem(2, 2, 1, start=(0.5, 0.5)), costs=Weighted()),
        r"^costs=Weighted\(exploration\) and .* horizon 1",
    ),
    "a class of costs": (oppo(costs=Revealed), "costs must be a part such as Revealed"),
    "a class of updates": (oppo(update=Softmax), "update must be a part such as Softmax"),
    "a class of exploration": (oppo(explore=FewVisits), "explore must be a part such as FewVisits"),
    "a class of transitions": (oppo(transitions=Confidence), "transitions must be a part such as"),
    "no costs": (oppo(costs=None), "costs must be a part such as .*, got None"),
    "no update": (oppo(update=None), "update must be a part such as .*, got None"),
    "no transitions": (oppo(transitions=None), "transitions must be a part such as .*, got None"),
    "the costs of 0.1": (oppo(costs="stochastic"), "costs must be a part such as"),
    "transitions of another size": (
        lambda: DelayedOPPO(bl.Problem(4, 2, 4), transitions=KNOWN),
        "transitions must be for .* 4 states",
    ),
    "planning with weights": (ucbvi(costs=Weighted(0.1)), "costs must be .*Averaged"),
    "planning with revealed costs": (ucbvi(costs=Revealed()), "costs must be .*Averaged"),
    "planning with a class": (ucbvi(costs=Averaged), "costs must be .*Averaged"),
    "planning with a class of transitions": (ucbvi(transitions=Bonus), "transitions must be"),
    "planning with a class of exploration": (ucbvi(explore=FewVisits), "explore must be a part"),
    "measures with a bonus": (
        oreps(transitions=Bonus()),
        r"transitions must be Transitions or Confidence\(\), got Bonus",
    ),
    "measures with a class": (oreps(transitions=Confidence), r"transitions must be Transitions or"),
    "measures without a step size": (oreps(learning_rate=None), "learning_rate is required"),
    "a pipeline around a pipeline": (
        lambda: bl.wrappers.Pipeline(bl.wrappers.Pipeline(DelayedOPPO(PROBLEM), 2), 3),
        "agent must not be Pipeline itself",
    ),
    "doubling around skipping": (
        lambda: bl.wrappers.Doubling(bl.wrappers.Skipping(DelayedOPPO(PROBLEM), 3)),
        "agent must be an agent, got Skipping.* has no setting, restart$",
    ),
    "doubling around planning": (
        lambda: bl.wrappers.Doubling(DelayedUCBVI(PROBLEM)),
        "agent must be an agent, got DelayedUCBVI.* has no setting, restart$",
    ),
    "doubling around something else": (
        lambda: bl.wrappers.Doubling(NoRestart()),
        "agent must be an agent, got .*NoRestart.* has no setting, restart$",
    ),
    "doubling around a problem": (
        lambda: bl.wrappers.Doubling(PROBLEM),
        "has no problem, information, uses_paths, begun, .*setting, restart$",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("agent", [DelayedOPPO, DelayedUCBVI, DelayedOREPS])
def test_words_of_0_1_are_unknown(agent):
    """Every setting has one name, so that none can be given without effect."""
    given = {"learning_rate": 0.1} if agent is DelayedOREPS else {}
    for word in ("information", "optimism", "radius_scale", "rate_scale", "explicit_exploration"):
        with pytest.raises(TypeError, match=word):
            agent(PROBLEM, **given, **{word: 1})


@pytest.mark.parametrize(
    "parts",
    [
        {"costs": Weighted(), "update": Softmax()},
        {"costs": Weighted(0.0), "update": Softmax()},
        {"costs": Weighted(), "update": Softmax(0.1)},
    ],
)
def test_one_step_from_one_state_has_an_anytime_rule(parts):
    assert DelayedOPPO(ARMS, **parts).information == "bandit"


def test_information_follows_from_the_costs():
    for costs, information in (
        (Revealed(), "full"),
        (Averaged(), "bandit"),
        (Weighted(0.1), "bandit"),
    ):
        agent = DelayedOPPO(PROBLEM, costs=costs, update=Softmax(0.1))
        assert agent.information == information
        assert agent.uses_paths
    assert not DelayedOPPO(PROBLEM, transitions=KNOWN).uses_paths
    assert DelayedOPPO(PROBLEM, transitions=KNOWN, **BANDIT).uses_paths


PARTS = {
    "Confidence(radius_scale=1.0, delta=0.1, episodes=None, sets='newest')": Confidence(),
    "Confidence(radius_scale=0.5, delta=0.2, episodes=9, sets='newest')": Confidence(0.5, 0.2, 9),
    "Bonus(scale=1.0)": Bonus(),
    "Bonus(scale=0.3)": Bonus(0.3),
    "Revealed()": Revealed(),
    "Weighted(exploration=None)": Weighted(),
    "Weighted(exploration=0.1)": Weighted(0.1),
    "Averaged(pooled=False, scale=1.0)": Averaged(),
    "Averaged(pooled=True, scale=0.5)": Averaged(pooled=True, scale=0.5),
    "Softmax(learning_rate=None, scale=1.0)": Softmax(),
    "Softmax(learning_rate=0.1, scale=2.0)": Softmax(0.1, 2.0),
    "FewVisits(threshold=3.0, max_delay=None)": FewVisits(3),
    "FewVisits(threshold=None, max_delay=3.0)": FewVisits(max_delay=3),
    "RegretMatching(hints=True)": RegretMatching(),
    "RegretMatching(hints=False)": RegretMatching(hints=False),
}


@pytest.mark.parametrize(("text", "part"), PARTS.items(), ids=PARTS.keys())
def test_a_part_is_a_value(text, part):
    names = {type(part).__name__: type(part) for part in PARTS.values()}
    assert repr(part) == text
    for twin in (eval(text, names), pickle.loads(pickle.dumps(part)), copy.deepcopy(part)):
        assert twin == part
        assert hash(twin) == hash(part)
        assert repr(twin) == text
    assert [other for other in PARTS.values() if other == part] == [part]
    assert len({*PARTS.values(), part}) == len(PARTS)
    fields = [name for name in type(part).__dataclass_fields__ if name in repr(part)]
    for name in fields:
        with pytest.raises(AttributeError):
            setattr(part, name, 1)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (Confidence(np.float32(0.5), np.float64(0.2), np.int64(9)), Confidence(0.5, 0.2, 9)),
        (Bonus(np.int64(2)), Bonus(2.0)),
        (Weighted(np.float32(0.5)), Weighted(0.5)),
        (Averaged(np.True_, np.float32(0.5)), Averaged(True, 0.5)),
        (Softmax(np.float32(0.5), np.int32(2)), Softmax(0.5, 2.0)),
        (FewVisits(np.int64(3)), FewVisits(3.0)),
        (FewVisits(max_delay=np.uint8(3)), FewVisits(max_delay=3.0)),
        (RegretMatching(np.True_), RegretMatching(True)),
    ],
    ids=repr,
)
def test_numbers_of_numpy_become_plain(given, plain):
    assert given == plain
    assert repr(given) == repr(plain)
    for name in given.__dataclass_fields__:
        assert type(getattr(given, name)) is type(getattr(plain, name))
        assert not isinstance(getattr(given, name), np.generic)


def test_an_agent_keeps_the_parts_it_was_given():
    parts = {
        "transitions": Confidence(0.5),
        "costs": Averaged(),
        "update": Softmax(0.1),
        "explore": FewVisits(3),
    }
    agent = DelayedOPPO(PROBLEM, **parts)
    assert agent.configuration() == {"problem": PROBLEM, **parts}
    given = ", ".join(f"{name}={part!r}" for name, part in parts.items())
    assert repr(agent) == f"DelayedOPPO({PROBLEM!r}, {given})"


def test_one_part_serves_many_agents():
    """Parts hold settings only; what is learned is the agent's own."""
    update, transitions, explore = Softmax(0.5), Confidence(0.05), FewVisits(2)
    world = bl.environments.random_mdp(3, 2, 4)
    first, second = (
        DelayedOPPO(world.problem, transitions=transitions, update=update, explore=explore)
        for _ in range(2)
    )
    bl.simulate(world, first, episodes=30)
    assert np.all(second.begin_episode().policy == 0.5)
    assert not np.all(first.begin_episode().policy == 0.5)


def test_transitions_of_ones_own_may_have_methods_that_an_update_has_too():
    class Mine(Confidence):
        def policy(self): ...

        def learn(self): ...

    problem = bl.Problem(2, 2, 2)
    assert bl.DelayedOPPO(problem, transitions=Mine()).problem is problem
