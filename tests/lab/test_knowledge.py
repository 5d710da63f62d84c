"""The report says what each agent was told."""

from belated.lab import Case, part, report
from belated.lab.spec import Experiment, Learner

TUNED = part("oppo", update=part("softmax", learning_rate="tuned"))


def told(*agents, **others):
    """What each agent is told, as the cells of a table."""
    learners = tuple(Learner(f"agent {i}", agent) for i, agent in enumerate(agents))
    experiment = Experiment(
        name="x", environment=part("chain"), delays=part("none"), agents=learners, **others
    )
    return report.told(experiment).rows


def test_words_and_numbers_of_an_agent_and_its_parts():
    known = part("oppo", transitions="known", update=part("softmax", learning_rate=0.3))
    (_, first, sees, paths), (_, second, _, _) = told(known, part("pipeline", agent=TUNED))
    assert "transitions = known" in first
    assert "learning_rate = 0.3" in first
    assert (sees, paths) == ("full", "late")
    assert "max_delay = realised" in second
    assert "learning_rate = tuned" in second


def test_defaults_that_ask_for_something_count():
    rows = told(part("skipping", agent="oppo"), part("parallel", agent="oreps"))
    assert "threshold = tuned" in rows[0][1]
    assert "max_delay = realised" in rows[1][1]
    assert "learning_rate = tuned" in rows[1][1]


def test_information_that_depends_on_the_case():
    cases = (Case("one"), Case("two", information="bandit"))
    assert told(part("recommended"), cases=cases)[0][2] == "full or bandit"
