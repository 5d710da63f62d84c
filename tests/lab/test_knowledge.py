"""The report says what each agent was told."""

from belated.lab import named, part, report
from belated.lab.spec import Experiment, Learner


def told(*agents, information="full"):
    """The knowledge that each agent is also given, as text."""
    learners = tuple(Learner(f"agent {i}", agent) for i, agent in enumerate(agents))
    experiment = Experiment(
        name="x",
        environment=part("chain"),
        delays=part("none"),
        agents=learners,
        information=information,
    )
    return [text.split(" is also given ")[1] for text in report.sentences(experiment)[1:]]


def softmax(**parameters):
    return part("softmax", **parameters)


TUNED = part("oppo", update=softmax(learning_rate="tuned"))
BOTH = "the number of episodes and the total delay, from which its parameters are tuned"
LARGEST = "the largest delay of the run, which nobody knows beforehand"
COPIES = "the number of episodes, from which the parameters of its copies are tuned"
LAWS = "that costs come from fixed laws"
SEES = "It sees whole cost functions, and paths come with the costs."


def test_what_every_agent_is_told_comes_first():
    assert "Every agent is told" in report.sentences(named("paper-grid"))[0]


def test_words_are_told_and_numbers_are_set_by_hand():
    known = part("oppo", transitions="known", update=softmax(learning_rate=0.3))
    assert told(known, part("oppo"), TUNED) == [
        f"the true transitions, and update.learning_rate = 0.3, set by hand. {SEES}",
        f"nothing. {SEES}",
        f"{BOTH}. {SEES}",
    ]


def test_defaults_that_ask_for_something_count():
    pipeline, skipping, oreps = told(
        part("pipeline", agent=TUNED), part("skipping", agent="oppo"), part("oreps")
    )
    assert pipeline == f"{LARGEST}, and {BOTH}. {SEES}"
    assert skipping == f"{BOTH}. {SEES}"
    assert oreps == f"{BOTH}. {SEES}"


def test_costs_from_fixed_laws():
    radius = part("confidence", radius_scale=0.1)
    pooled = part("averaged", pooled=True)
    sees = "It sees only the costs it suffered, and paths come with the costs."
    assert told(
        part("ucbvi", transitions=radius), part("oppo", costs=pooled), information="bandit"
    ) == [
        f"{LAWS}, and transitions.radius_scale = 0.1, set by hand. {sees}",
        f"{LAWS}, and costs.pooled = true, set by hand. {sees}",
    ]


def test_numbers_that_are_the_default_are_not_set_by_hand():
    (text,) = told(
        part(
            "oppo",
            transitions=part("confidence", radius_scale=1, delta=0.1),
            update=softmax(learning_rate=1, scale=2.0),
            explore=part("few_visits", threshold=20),
        )
    )
    assert text.startswith(
        "update.learning_rate = 1 and update.scale = 2 and explore.threshold = 20, set by hand."
    )


def test_words_of_the_radius_and_of_explicit_exploration():
    radius = part("confidence", episodes="known")
    few = part("few_visits", max_delay="tuned")
    one, other = told(
        part("oppo", transitions=radius),
        part("skipping", agent=part("oppo", update=softmax(learning_rate="tuned"), explore=few)),
    )
    assert one.startswith("the number of episodes. ")
    assert other.startswith(BOTH)


def test_copies_are_tuned_as_if_undelayed():
    explore = part("few_visits", max_delay="realised")
    update = softmax(learning_rate="tuned")
    inside = part("oppo", transitions="known", update=update, explore=explore)
    bold, parallel = told(part("bold", agent=inside), part("parallel", max_delay=7, agent=inside))
    assert bold == f"the true transitions, and {COPIES}. {SEES}"
    assert parallel.startswith(f"the true transitions, {COPIES}, and max_delay = 7, set by hand.")


def test_doubling_is_told_neither_episodes_nor_delay():
    sentences = report.sentences(named("oreps-oppo"))
    assert BOTH in sentences[1]
    assert sentences[4].startswith("O-REPS, doubling is also given the true transitions. It sees")
    (text,) = told(part("doubling", agent=part("oppo", update=softmax(learning_rate=0.2))))
    assert text.startswith("nothing.")


def test_doubling_over_the_largest_delay_may_be_told_totals():
    ftrl = part("ftrl", learning_rate=1, barrier=1)
    alone, told_totals = told(
        part("doubling_ftrl", agent=ftrl),
        part("doubling_ftrl", agent=ftrl, totals="known"),
        information="bandit",
    )
    assert BOTH not in alone
    assert BOTH in told_totals


def test_knowledge_of_the_papers_agents():
    sentences = report.sentences(named("paper-grid"))[1:]
    assert [LARGEST in sentence for sentence in sentences] == [False, True, True]
    assert all("transitions" not in sentence for sentence in sentences)
