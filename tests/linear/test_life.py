"""Actions that come and go, tables, verdicts, warm starts and named features."""

import math
from datetime import datetime

import numpy as np
import pytest

import belated as bl
from belated.core import checks, saving
from belated.core.tree import freeze, thaw
from belated.evaluation import DecisionLog
from belated.linear import life
from belated.linear.features import noted, standardised, unscaled
from belated.linear.model import Known, uniform
from belated.testing import check_agent
from linear.playing import play, world


def test_an_action_is_added_in_the_middle():
    x, outcomes, delays = world(seed=1, T=200, A=3)
    agent = bl.LinearSampler(bl.Choice(["a", "b"], 2))
    agent, _ = play(agent, (x, outcomes[:, :2], delays[:, :2]), stop=100)
    assert agent.add_action("c") == 2
    assert agent.problem == bl.Choice(["a", "b", "c"], 2)
    agent, done = play(agent, (x, outcomes, delays), start=100)
    assert {action for action, _ in done} == {0, 1, 2}
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    assert again.decide(x[0]).probabilities.tolist() == agent.decide(x[0]).probabilities.tolist()
    with pytest.raises(ValueError, match="differ"):
        agent.add_action("a")


def test_an_action_for_which_there_is_no_room_changes_nothing(monkeypatch):
    agent = bl.LinearSampler(bl.Choice(["a", "b"], 2), holdout=0.1, reference=[0.5, 0.5])
    agent.decide([1.0, 2.0])
    agent.observe([bl.Reward(0, 1.0)])
    before = saving.to_bytes(agent)
    with monkeypatch.context() as patched:
        patched.setattr(checks, "ROOM", 100)
        with pytest.raises(ValueError, match="must make arrays of at most 100 numbers"):
            agent.add_action("c")
    assert saving.to_bytes(agent) == before
    assert agent.add_action("c") == 2
    assert agent.configuration()["reference"] == [0.5, 0.5, 0.0]
    assert agent.decide([1.0, 2.0]).probabilities.sum() == pytest.approx(1.0)


def test_a_retired_action_is_not_played_and_still_learns():
    agent = bl.LinearSampler(bl.Choice(["a", "b"]))
    first = next(d for d in (agent.decide() for _ in range(50)) if d.action == 0)
    agent.retire("a")
    assert agent.decide().probabilities.tolist() == [0.0, 1.0]
    agent.observe([bl.Reward(first.number, 4.0)])
    rows = agent.table()
    assert rows[0].reports == 1
    assert rows[0].retired
    with pytest.raises(ValueError, match="the last one"):
        agent.retire("b")
    with pytest.raises(ValueError, match="at least one action"):
        agent.decide(among=["a"])


def test_the_table_and_the_verdict():
    agent = bl.LinearSampler(bl.Choice(["plain", "question"]), floor=0.5)
    assert str(agent.verdict()) == "Nothing has reported yet."
    rng = np.random.default_rng(0)
    before = None
    for k in range(3000):
        decision = agent.decide()
        won = rng.random() < (0.1, 0.3)[decision.action]
        agent.observe([bl.Reward(k, 2.0)] if won else [])
        if k == 30:
            before = agent.verdict()
    rows = {row.action: row for row in agent.table()}
    assert rows["plain"].low < 0.2 < rows["plain"].high
    assert rows["question"].low < 0.6 < rows["question"].high
    assert sum(row.leads for row in rows.values()) == pytest.approx(1.0)
    assert before is not None
    assert "leads" in str(before)
    named = agent.verdict(window=0.0, range=(0.0, 2.0))
    assert named.winner == "question"
    assert str(named).startswith("question wins: that is sure at every look (95 %, exact).")
    assert named.difference.low <= 0.4 <= named.difference.high
    assert agent.verdict().winner is None


def test_where_actions_vary_none_leads():
    agent = bl.LinearSampler(bl.Choice(features=1))
    assert str(agent.verdict()) == "Nothing has reported yet."
    for k in range(5):
        agent.decide([[1.0], [2.0]])
        agent.observe([bl.Reward(k, 1.0)])
    assert str(agent.verdict()) == (
        "The actions vary, so none of them leads; the mean outcome of a decision is 1, "
        "from 0.608 to 1.39."
    )
    with pytest.raises(ValueError, match="an action can be retired only where actions are listed"):
        agent.retire(0)


def test_a_report_before_any_exposure_gives_a_mean_of_its_size():
    agent = bl.LinearSampler(bl.Choice(["a", "b"]))
    for _ in range(10):
        agent.decide()
        agent.observe([])
    agent.observe([bl.Reward(0, 10.0)])
    row = next(row for row in agent.table() if row.reports)
    assert row.exposed <= 1.0
    assert row.mean == 10.0
    assert row.low < 0.0
    assert 20.0 < row.high < 40.0
    agent.decide()
    assert agent.diagnostics()["rate"] == 1.0


def test_a_table_changes_nothing():
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), world(T=60))
    agent.observe([])
    before = saving.to_bytes(agent)
    agent.table()
    agent.verdict()
    agent.diagnostics()
    assert saving.to_bytes(agent) == before


def test_a_warm_start_is_what_the_learner_would_have_learned():
    x, outcomes, delays = world(seed=2, T=120)
    agent, done = play(bl.LinearSampler(bl.Choice(3, 2)), (x, outcomes, delays))
    actions = [action for action, _ in done]
    rewards, reported = np.full(120, np.nan), np.full(120, np.nan)
    for k, a in enumerate(actions):
        when = k + int(delays[k, a])
        if outcomes[k, a] and when < 120:
            rewards[k], reported[k] = 1.0, when
    log = DecisionLog(actions, [p for _, p in done], rewards, x=x, reported=reported, until=119.0)
    warm = bl.LinearSampler(bl.Choice(3, 2))
    warm.replay(log)
    assert warm.decide(x[0]).probabilities.tolist() == agent.decide(x[0]).probabilities.tolist()
    with pytest.raises(ValueError, match="fresh"):
        warm.replay(log)


def test_a_log_is_replayed_whole_or_not_at_all():
    features = bl.Features(age="number")
    log = DecisionLog([0, 1, 0], [0.5] * 3, [1.0, None, 2.0])
    agent = bl.LinearSampler(bl.Choice(2, features))
    before = saving.to_bytes(agent)
    with pytest.raises(ValueError, match="age must be"):
        agent.replay(log, [{"age": 3}, {"age": "old"}, {"age": 4}])
    assert saving.to_bytes(agent) == before
    agent.replay(log, [{"age": 3}, {"age": 5}, {"age": 4}])
    assert agent.begun == 3
    assert agent.decide({"age": 3}).number == 3


def test_a_holdout_is_in_the_probabilities():
    agent, _ = play(bl.LinearSampler(bl.Choice(4, 2), floor=0.0, holdout=0.2), world(T=100, A=4))
    assert agent.decide([0.0, 0.0]).probabilities.min() >= 0.05 - 1e-12


def test_a_holdout_may_play_a_policy():
    share = [0.5, 0.5, 0.0]
    agent = bl.LinearSampler(bl.Choice(3), floor=0.0, holdout=0.4, reference=share)
    for k in range(60):
        probabilities = agent.decide().probabilities
        assert (probabilities >= 0.4 * np.array(share) - 1e-12).all()
        assert probabilities.sum() == pytest.approx(1.0)
        agent.observe([bl.Reward(k, 1.0)] if k % 2 else [])
    allowed = agent.decide(among=[1, 2]).probabilities  # the policy, restricted to these
    assert allowed[1] >= 0.4 - 1e-12
    agent.add_action()
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    assert again.decide().probabilities.tolist() == agent.decide().probabilities.tolist()
    for wrong in ([0.5, 0.5], [0.5, 0.6, 0.0], "ab"):
        with pytest.raises(ValueError, match="reference must"):
            bl.LinearSampler(bl.Choice(3), holdout=0.4, reference=wrong)
    with pytest.raises(ValueError, match="where the actions vary"):
        bl.LinearSampler(bl.Choice(features=2), reference=[1.0])


def test_features_become_a_vector():
    features = bl.Features(age="number", device=["phone", "desktop"], country="category:8")
    assert features.width == len(features.labels()) == 2 + 4 + 9
    assert features.groups() == [range(2, 6), range(6, 15)]
    scaling = unscaled(features)
    vector, raw = features.vector({"age": 30, "device": "phone", "country": "fr"}, scaling)
    assert raw.tolist() == [30.0]
    assert vector[:6].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert vector[6:].sum() == 1.0
    other, _ = features.vector({"device": "watch"}, scaling)
    assert other[:6].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert other[-1] == 1.0
    for absent in ({}, {"device": None}, {"device": math.nan}):
        missing, _ = features.vector(absent, scaling)
        named = {name for name, on in zip(features.labels(), missing, strict=True) if on}
        assert named == {"age missing", "device missing", "country missing"}
    for wrong in ({"agee": 3}, {"age": "old"}, {"country": 1.5}, [1.0]):
        with pytest.raises(ValueError, match=r"age|country|x must"):
            features.vector(wrong, scaling)


def test_a_feature_may_be_called_self():
    features = bl.Features(**{"self": "number"})
    assert features.vector({"self": 3.0}, unscaled(features))[1].tolist() == [3.0]


def test_numbers_that_hardly_differed_at_first_may_be_large_later():
    rng = np.random.default_rng(0)
    agent = bl.LinearSampler(bl.Choice(3, bl.Features(price="number", age="number")))
    for k in range(300):
        price = 5.0 + 1e-9 * rng.normal() if k < 100 else float(rng.choice([5.0, 1e12, -1e12]))
        decision = agent.decide({"price": price, "age": k})
        assert decision.probabilities.sum() == pytest.approx(1.0)
        agent.observe([bl.Reward(k, 1.0)] if k % 3 == decision.action else [])


def test_the_scale_of_numbers_stays_after_the_first():
    scaling = unscaled(bl.Features(a="number"))
    rng = np.random.default_rng(0)
    for value in rng.normal(40.0, 10.0, 100):
        scaling = noted(scaling, [np.array([value])])
    before = standardised(np.array([50.0]), scaling)
    for value in rng.normal(400.0, 10.0, 100):
        scaling = noted(scaling, [np.array([value])])
    assert standardised(np.array([50.0]), scaling).tolist() == before.tolist()
    assert before[0] == pytest.approx(1.0, abs=0.3)


def test_named_features_are_saved_with_the_learner():
    features = bl.Features(age="number", country="category")
    agent = bl.LinearSampler(bl.Choice(2, features))
    for k in range(20):
        agent.decide({"age": 20 + k, "country": "fr" if k % 2 else "de"})
        agent.observe([bl.Reward(k, 1.0)])
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    x = {"age": 31, "country": "it"}
    assert again.decide(x).probabilities.tolist() == agent.decide(x).probabilities.tolist()
    assert again.problem == agent.problem


def test_a_decision_closes_itself_when_its_outcome_has_all_but_come():
    agent = bl.LinearSampler(bl.Choice(1), close_at=0.999)
    for k in range(400):
        agent.decide()
        agent.observe([bl.Reward(k - 3, 1.0)] if k % 5 == 4 else [])
    assert len(agent.open_episodes()) < 60
    assert agent.table()[0].mean == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("close_at", [None, 0.99])
def test_the_time_of_a_verdict_counts_all_decisions(close_at):
    agent = bl.LinearSampler(bl.Choice(2), floor=1.0, close_at=close_at)
    for k in range(600):
        made = agent.decide(now=1000.0 + 2.0 * k)
        good = made.action == 1 if k % 10 == 0 else k % 5 == 0
        agent.observe([bl.Reward(k, 1.0)] if good else [], now=1001.0 + 2.0 * k)
    assert agent.is_open(0) == (close_at is None)
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    still = again.verdict(window=1.0, range=(0.0, 1.0)).still
    assert still.time == pytest.approx(2.0 * still.decisions + 1.0, rel=0.01)
    assert still.equal_time == pytest.approx(2.0 * still.equal + 1.0, rel=0.01)


@pytest.mark.parametrize(("changed_at", "told"), [(1200, 1.0), (5000, 0.0)])
def test_a_change_is_too_fast_if_few_decisions_count_since_then(changed_at, told):
    agent = bl.LinearSampler(bl.Choice(2), floor=0.2)
    rng = np.random.default_rng(0)
    due = {}
    for k in range(1460):
        decision = agent.decide()
        good = decision.action == (k >= changed_at)
        if rng.random() < (0.8 if good else 0.05):
            when = k + int(rng.geometric(1 / 150)) - 1
            due.setdefault(when, []).append(bl.Reward(k, 1.0))
        agent.observe(due.pop(k, []))
    found = agent.diagnostics()
    assert found["too_fast"] == told
    assert (found["changed_at"] > 1000) == bool(told)
    assert found["memory"] == 1460 - max(found["changed_at"], 0)


class Fixed(np.random.Generator):
    """Draws one number."""

    def __init__(self, u):
        super().__init__(np.random.PCG64(0))
        self._u = u

    def random(self):
        return self._u


def test_an_episode_decides_like_decide():
    x, _, _ = world()
    one, two = bl.LinearSampler(bl.Choice(3, 2)), bl.LinearSampler(bl.Choice(3, 2))
    for k in range(20):
        decision = one.decide(x[k])
        episode = two.begin_episode()
        probabilities = episode.probabilities(0, x[k])
        assert probabilities.tolist() == decision.probabilities.tolist()
        drawn = episode.act(0, x[k], Fixed(uniform(0, k)))
        assert drawn == (decision.action, decision.probability)
    one.observe([bl.Reward(k, 1.0) for k in range(20)])
    two.observe([bl.Reward(k, 1.0) for k in range(20)])
    two._ledger.known, two._policies = one._ledger.known, one._policies  # only `decide` notes these
    assert saving.to_bytes(one) == saving.to_bytes(two)
    two.begin_episode()
    with pytest.raises(bl.FeedbackError, match="has acted"):
        two.observe([bl.Reward(20, 1.0)])


@pytest.mark.parametrize(
    "choice", [bl.Choice(3, 2), bl.Choice(features=2), bl.Choice(2)], ids=["own", "shared", "none"]
)
def test_it_keeps_the_contract(choice):
    check_agent(lambda: bl.LinearSampler(choice))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda agent: bl.Inbox(agent, deadline=30),
        lambda agent: bl.wrappers.Skipping(agent, 50),
        bl.wrappers.Locked,
    ],
    ids=["inbox", "skipping", "locked"],
)
def test_it_decides_inside_of_wrappers(wrap):
    x, outcomes, _ = world()
    agent = wrap(bl.LinearSampler(bl.Choice(3, 2)))
    for k in range(60):
        decision = agent.decide(x[k])
        assert decision.number == k
        agent.observe([bl.Reward(k, 1.0)] if outcomes[k, decision.action] else [])


def forged(agent, change):
    """The agent from a tree in which something was changed."""
    tree = freeze(agent)
    change(tree["learned"])
    return thaw(tree)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t["retired"]["list"].extend([0, 1, 2]), "retired must leave one action"),
        (lambda t: t["retired"]["list"].append(7), "retired must be a whole number from 0 to 2"),
        (lambda t: t["_ledger"]["learned"].update(count=10**6), "the log must hold its rows"),
        (
            lambda t: t["_ledger"]["learned"]["model"].__setitem__(3, 9),
            "model must be from -1 to 2",
        ),
        (lambda t: t["_ledger"]["learned"]["x"].__setitem__(3, 1e13), "x must be from -1e"),
        (
            lambda t: t["_ledger"]["learned"]["outcome"].__setitem__(3, np.nan),
            "outcome must be from",
        ),
        (
            lambda t: t["_ledger"]["learned"]["until"].__setitem__(3, np.nan),
            "until must be from -1",
        ),
        (lambda t: t["_ledger"]["learned"].update(seen=10**6), "must be of ones that have begun"),
        (lambda t: t["_ledger"]["learned"].update(heard=1e200), "heard must be"),
        (lambda t: t["_past"]["learned"]["plays"].__setitem__(0, -1.0), "plays must be from 0"),
    ],
)
def test_impossible_states_are_refused(change, sentence):
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), world(T=40))
    with pytest.raises(ValueError, match=sentence):
        forged(agent, change)


@pytest.mark.parametrize("silence", [0.0, None])
def test_a_learner_that_forgets_can_be_loaded_whatever_rounding_left(silence):
    rng = np.random.default_rng(0)
    agent = bl.LinearSampler(bl.Choice(2, 3), silence=silence)
    for k in range(200):
        agent.decide(10.0 ** rng.uniform(-12, 12, 3) * rng.choice([-1.0, 1.0], 3))
        value = float(rng.choice([0.1, 0.3, 1e6]))
        agent.observe([bl.Reward(k, value, "sold"), bl.Reward(k, -value, "back")])
        if k % 3:
            agent.forget(int(rng.integers(0, k + 1)))
        if k % 20 == 0:
            saving.from_bytes(saving.to_bytes(agent), "bytes")
            agent.table()


def test_a_reported_decision_may_be_forgotten_before_the_unit_of_ages_is_fixed():
    agent = bl.LinearSampler(bl.Choice(actions=2))
    for n in range(3):
        agent.decide(now=float(n))
    agent.observe([bl.Reward(0, 1.0)], now=3.0)
    agent.decide(now=4.0)
    agent.forget(0)
    assert thaw(freeze(agent)).open_episodes() == [1, 2, 3]


def test_names_floor_and_holdout_may_change_while_a_learner_learns():
    agent = bl.LinearSampler(bl.Choice(actions=["a", "b"]), floor=0.0)
    agent.change(names=["a", "c"], floor=0.5, holdout=0.25)
    assert (agent.problem.names, agent.floor, agent.holdout) == (("a", "c"), 0.5, 0.25)
    assert min(agent.decide().probabilities) >= 0.3
    with pytest.raises(ValueError, match="names must be 2"):
        agent.change(names=["a", "c", "d"], floor=0.0)
    with pytest.raises(ValueError, match="keep their places"):
        agent.change(names=["c", "a"])
    assert agent.floor == 0.5


def test_one_report_leaves_the_outcome_open():
    """The first outcomes of a learner may all be equal: they say little of the next one."""
    agent = bl.LinearSampler(bl.Choice(actions=["a", "b"], features=1))
    agent.observe([bl.Reward(agent.decide([1.0]), 12.5)])
    for row in agent.table():
        assert row.low < 12.5 - 5.0
        assert row.high > 12.5 + 5.0
    assert agent.verdict().at_stake > 5.0


def test_an_overview_has_the_table_the_probabilities_and_the_weights():
    rng = np.random.default_rng(0)
    features = bl.Features(age="number", country=["dk", "se"])
    agent = bl.LinearSampler(bl.Choice(actions=["a", "b"], features=features), silence=None)
    for _ in range(300):
        age = float(rng.normal())
        made = agent.decide({"age": age, "country": "dk"})
        agent.observe([bl.Reward(made.number, (age if made.action else 0.0) + rng.normal() / 10)])
    seen = agent.overview(most=3)
    assert seen.rows == agent.table()
    assert seen.probabilities.sum() == pytest.approx(1.0)
    assert len(seen.weights) == 3
    first = seen.weights[0]
    assert (first.action, first.feature) == ("b", "age")
    assert first.low < first.weight < first.high
    assert first.weight == pytest.approx(1.0, abs=0.2)  # of a standard deviation, about 1 here


def test_the_values_of_a_category_are_compared_with_the_average_visitor():
    """The weights are differences of group means, where nothing else matters."""
    rng = np.random.default_rng(0)
    features = bl.Features(customer=["new", "loyal"])
    agent = bl.LinearSampler(bl.Choice(["plain"], features), silence=None)
    kinds, outcomes = [], []
    for _ in range(600):
        kind = "new" if rng.random() < 0.3 else "loyal"
        outcome = rng.normal(2.0 if kind == "new" else 1.0, 0.5)
        d = agent.decide({"customer": kind})
        agent.observe([bl.Reward(d.number, outcome)])
        kinds.append(kind)
        outcomes.append(outcome)
    kinds, outcomes = np.array(kinds), np.array(outcomes)
    found = {one.feature: one for one in agent.overview().weights}
    for kind in ("new", "loyal"):
        expected = outcomes[kinds == kind].mean() - outcomes.mean()
        one = found[f"customer = {kind}"]
        assert abs(one.weight - expected) < 0.03
        assert one.low < expected < one.high
        assert one.high - one.low < 0.2


def test_contrasts_are_those_of_brute_force():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(2, 5, 5))
    theta, spread = rng.normal(size=(2, 5)), root @ root.transpose(0, 2, 1)
    average = np.array([0.4, 0.2, 0.5, 0.3, 1.0])
    known = Known(theta, spread, 0.3, 2.0, 0.5, 2.0, 9, 5)
    rows = life.changes(average, [range(1, 4)])
    means, errors = life.effects(known, rows)
    for a in range(2):
        for u in range(5):
            x = np.zeros(5)
            x[u] = 1.0
            if u in (1, 2, 3):
                x[1:4] -= average[1:4]
            assert means[a, u] == pytest.approx(theta[a] @ x)
            assert errors[a, u] ** 2 == pytest.approx(4.0 * x @ spread[a] @ x)


def test_a_change_does_not_move_an_action_that_it_says_nothing_about():
    rng = np.random.default_rng(0)
    actions = np.arange(800) % 2 * (np.arange(800) < 560)  # the change is dated to about 600
    rates = np.where(np.arange(800) < 600, 0.5, 0.05)
    rewards = (rng.random(800) < rates).astype(float)
    agent = bl.LinearSampler(bl.Choice(2), silence=None)
    agent.replay(DecisionLog(actions, np.full(800, 0.5), rewards))
    assert abs(agent.diagnostics()["changed_at"] - 600) <= 60
    known = agent.model().known
    first, second = known.constant + known.theta[:, -1]
    assert first == pytest.approx(0.05, abs=0.1)
    assert second == pytest.approx(rewards[:600][actions[:600] == 1].mean(), abs=0.05)


def test_a_log_is_made_from_columns_of_a_frame():
    pl = pytest.importorskip("polars")
    day = [datetime(2026, 1, d) for d in (1, 1, 2)]
    frame = pl.DataFrame(
        {
            "line": ["b", "a", "b"],
            "p": [0.5, 0.5, 0.25],
            "euros": [3.0, None, None],
            "sent": day,
            "bought": [datetime(2026, 1, 3), None, None],
        }
    )
    log = DecisionLog(
        frame["line"],
        frame["p"],
        frame["euros"],
        decided=frame["sent"],
        reported=frame["bought"],
        names=["a", "b"],
    )
    assert log.actions.tolist() == [1, 0, 1]
    assert (log.decided - log.decided[0]).tolist() == [0.0, 0.0, 86400.0]
    assert log.reported[0] - log.decided[0] == 2 * 86400.0
    assert log.came.tolist() == [True, False, False]
    bl.LinearSampler(bl.Choice(["a", "b"])).replay(log)
    with pytest.raises(ValueError, match="actions must be"):
        DecisionLog(["c"], [0.5], [1.0], names=["a", "b"])
    with pytest.raises(ValueError, match="names must be a Sequence of the names"):
        DecisionLog([0], [0.5], [1.0], names=5)
    with pytest.raises(ValueError, match="observations must be an Iterable such as a list"):
        bl.recommend(bl.Choice(2, 1)).decide_many(5)


def test_the_log_of_a_learner_can_be_replayed():
    agent, _ = play(bl.LinearSampler(bl.Choice(3, 2)), world(T=80))
    log = agent.log()
    assert len(log) == 80
    assert log.came.sum() == agent.diagnostics()["reports"]
    fresh = bl.LinearSampler(bl.Choice(3, 2))
    fresh.replay(log)
    assert fresh.begun == 80


@pytest.mark.parametrize("listed", [[True, False], ["True", "False"], ["true", "false"]])
def test_true_and_false_are_values_of_a_category(listed):
    features = bl.Features(loyal=listed)
    for value, place in ((True, 0), (False, 1), (np.bool_(True), 0)):
        vector, _ = features.vector({"loyal": value}, unscaled(features))
        assert vector.tolist() == np.eye(4)[place].tolist()


def test_a_value_that_is_never_listed_is_a_warning():
    agent = bl.LinearSampler(bl.Choice(2, bl.Features(device=["phone", "desktop"], age="number")))
    for k in range(30):
        agent.decide({"device": "Phone", "age": k})
    assert agent.diagnostics()["no listed value: device"] == 30.0
    agent.decide({"device": "phone", "age": 1})
    assert "no listed value: device" not in agent.diagnostics()


def test_it_learns_with_400_features():
    x, outcomes, delays = world(seed=3, T=1500, A=2, d=12)
    more = np.random.default_rng(0).normal(size=(1500, 388))
    given = (np.hstack([x, 0.1 * more]), outcomes, delays)
    agent, done = play(bl.LinearSampler(bl.Choice(2, 400)), given)
    assert agent.diagnostics()["changed_at"] == -1
    won = outcomes[np.arange(1500), [action for action, _ in done]]
    assert won[750:].mean() > outcomes[750:].mean() + 0.05


def test_a_reward_that_is_repeated_is_known_whatever_silence_is():
    agent = bl.LinearSampler(bl.Choice(2), silence=-1.0)
    agent.decide()
    for _ in range(2):
        agent.observe([bl.Reward(0, 0.1)])
    assert agent.log().rewards.tolist() == [0.1]
    with pytest.raises(bl.FeedbackError, match=r"value is known to be 0\.1, got 0\.2"):
        agent.observe([bl.Reward(0, 0.2)])
