import itertools

import numpy as np
import pytest

import belated as bl
import oracles

WORLD = oracles.random_world(np.random.default_rng(0), 3, 3, 2)
ARMS = bl.environments.bandit(np.linspace(0.2, 0.8, 40))


def advise(problem, **about):
    return bl.advise(problem, **{"information": "full", **about})


def recommend(problem, **about):
    return bl.recommend(problem, **{"information": "full", **about})


def test_by_default_only_suffered_costs_come_back():
    assert bl.recommend(WORLD.problem).information == "bandit"


def known(world, transitions, amount):
    facts = {}
    if transitions:
        facts["transitions"] = world.mdp.transitions
    if amount >= 1:
        facts |= {"episodes": 40, "total_delay": 200.0}
    if amount >= 2:
        facts["max_delay"] = 12
    return facts


@pytest.mark.parametrize(
    "world",
    [pytest.param(WORLD, id="mdp"), pytest.param(ARMS, id="arms", marks=pytest.mark.long)],
)
@pytest.mark.slow
def test_every_setting_gets_an_agent_that_runs(world):
    for information, transitions, paths, costs, amount, aim in itertools.product(
        ("full", "bandit"),
        (True, False),
        ("late", "at once"),
        ("adversarial", "stochastic"),
        (0, 1, 2),
        ("guarantee", "practice"),
    ):
        facts = known(world, transitions, amount)
        about = {"information": information, "paths": paths, "costs": costs, "aim": aim}
        advice = advise(world.problem, **about, **facts)
        agent = recommend(world.problem, **about, **facts)
        assert type(agent).__name__ == advice.name.split("(")[0]
        assert repr(agent) == advice.call == repr(advice.make())
        assert agent.information == information
        delays = bl.delays.geometric(3)
        run = bl.simulate(world, agent, delays=delays, episodes=40, paths=paths)
        assert np.all(np.isfinite(run.values))


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"transitions": True}, "DelayedOPPO"),
        ({"paths": "at once"}, "DelayedOPPO"),
        ({"in_order": True}, "DelayedOPPO"),
        ({}, "Doubling(DelayedOPPO)"),
        ({"episodes": 400, "total_delay": 200.0}, "Skipping(DelayedOPPO)"),
        ({"episodes": 40, "total_delay": 200.0}, "DelayedOPPO"),  # beta K is below D
        ({"information": "bandit"}, "Doubling(DelayedOPPO)"),
        ({"information": "bandit", "episodes": 40, "total_delay": 9}, "Skipping(DelayedOPPO)"),
        (
            {"information": "bandit", "episodes": 40, "total_delay": 9, "max_delay": 1},
            "DelayedOPPO",
        ),
        ({"information": "bandit", "costs": "stochastic"}, "DelayedUCBVI"),
        ({"information": "bandit", "costs": "stochastic", "transitions": True}, "DelayedUCBVI"),
    ],
)
def test_the_decision_table(about, name):
    if about.get("transitions"):
        about = {**about, "transitions": WORLD.mdp.transitions}
    assert advise(WORLD.problem, aim="guarantee", **about).name == name
    practice = advise(WORLD.problem, **about)
    if about.get("information") == "bandit":
        changing = about.get("costs") != "stochastic"
        assert practice.name == "DelayedPlanner"
        assert practice.call.endswith(f"changing={changing}, seed=0)")
    else:
        assert practice.name == "InformedPlanner"
        assert practice.call.endswith("changing=True, seed=0)") or "stochastic" in about.values()


def test_order_helps_under_full_information_only():
    about = {"aim": "guarantee", "in_order": True}
    full = advise(WORLD.problem, **about)
    assert "needs no explicit exploration" in str(full.notes)
    bandit = advise(WORLD.problem, information="bandit", **about)
    assert "does not help under bandit feedback" in str(bandit.notes)
    plain = advise(WORLD.problem, information="bandit", aim="guarantee")
    assert bandit.call == plain.call  # and its phases are those of late paths
    assert "paths='late'" in bandit.call
    for known in ({"transitions": WORLD.mdp.transitions}, {"paths": "at once"}):
        assert "order" not in str(advise(WORLD.problem, **about, **known).notes)
    K = 10**6
    late, order = (
        advise(
            bl.Problem(50, 3, 4), aim="guarantee", episodes=K, total_delay=1e7, in_order=in_order
        )
        for in_order in (False, True)
    )
    assert "Skipping" in late.name
    assert order.name == "DelayedOPPO"
    useful = [
        int(a.reason.split("K = ")[1].split(" on")[0].replace(",", "")) for a in (late, order)
    ]
    assert useful[1] < useful[0]


def test_a_guarantee_says_what_it_assumes():
    """It names D = 0 where no delay is given, the phases the bound is for, and overdue episodes."""
    known, totals = {"transitions": WORLD.mdp.transitions}, {"episodes": 400, "total_delay": 800.0}

    def advice(problem=WORLD.problem, **said):
        return advise(problem, aim="guarantee", **said)

    bandit = {"information": "bandit"}
    for said in ({}, known, bandit, {**bandit, "costs": "stochastic"}, {"episodes": 400}):
        assert "if nothing is late" in advice(**said).reason
    for said in ({}, known, bandit):
        assert "(at a mean delay of 2)" in advice(**said, **totals).reason
        told = str(advice(**said, **totals).notes)
        assert "overdue" not in told
    assert "(at a mean delay of 0)" in advice(episodes=400, total_delay=0).reason
    for said in ({}, bandit, {**bandit, **known}):
        assert "Doubling(literal=True)" in advice(**said).notes[0]
    assert "adds at most H, and H (H + 1) / 2 more" in advice(**known).notes[0]
    assert "no episode becomes overdue" in advice(ARMS.problem, **bandit).notes[0]
    small = bl.Problem(6, 3, 5)
    text = advice(small, **bandit, episodes=2000, total_delay=20_000).reason
    assert "from K = 114,794 on (at a mean delay of 10)" in text


def test_explicit_exploration_only_where_it_can_help():
    stochastic = {"information": "bandit", "costs": "stochastic", "max_delay": 100}
    stochastic["aim"] = "guarantee"
    many = advise(ARMS.problem, **stochastic)
    few = advise(bl.Problem(1, 5, 1), **stochastic)
    assert "explore=FewVisits(threshold=None, max_delay=100.0)" in many.call
    assert "explore=None" in few.call


def test_wrong_words():
    with pytest.raises(ValueError, match="did you mean 'practice'"):
        advise(WORLD.problem, aim="practise")


def test_later_algorithms_are_mentioned():
    arms, more = bl.Problem(1, 3, 1), bl.Problem(4, 3, 2)

    def last(problem, **known):
        return advise(problem, information="bandit", aim="guarantee", **known).notes[-1]

    assert "ZimmertSeldin" in last(arms)
    assert "DAPO" in last(more)
    assert "UOBREPS, whose form for delays is a reconstruction" in last(more)
    known = bl.Transitions.from_dense(np.full((4, 3, 4), 0.25))
    assert "DelayedFTRL" in last(more, transitions=known)
    assert "Lazy" in last(more, costs="stochastic")
    assert "belated." not in str(advise(more, aim="guarantee").notes)


def test_silence_is_said_with_its_cost():
    problem = bl.Problem(3, 2, 4)
    assert bl.advise(problem).notes == ()
    (note,) = bl.advise(problem, silence=0.75).notes
    assert "bl.Inbox(agent, deadline=W, default=0.75, hold=True)" in note
    (note,) = bl.advise(problem, information="full", silence=1.0).notes
    assert "the cost function that stands for a failure" in note
    advice = bl.advise(bl.Problem(3, 2, 1, start=(0.5, 0.5, 0.0)), silence=0.75)
    assert advice.name == "TableSampler"
    assert "does not report costs 0.75" in advice.reason
    assert 'costs="stochastic"' in advice.notes[-1]
    stays = bl.advise(bl.Problem(3, 2, 1), silence=0.75, costs="stochastic")
    assert "changes=False" in stays.call
    for wrong in (-0.1, 1.5, "yes"):
        with pytest.raises(ValueError, match="silence must be"):
            bl.advise(problem, silence=wrong)


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match=r"keyword must be one of .* got 'only_successes'"):
        bl.recommend(bl.Problem(1, 2, 1), only_successes=True)
