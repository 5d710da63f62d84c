"""Which line wins: the verdict, its sentence, and plans for a proof."""

import math

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.core import saving
from belated.evaluation import Contest, follow, sequences
from belated.evaluation.verdict import ActionRow, Z, at_stake, verdict
from belated.linear import sampler
from belated.linear.model import choose


def row(name, mean, error, leads, plays=1000, reports=50, retired=False):
    low, high = mean - Z * error, mean + Z * error
    return ActionRow(name, plays, reports, float(plays), mean, low, high, leads, retired)


ROWS = [row("plain", 0.05, 0.01, 0.28), row("question", 0.06, 0.01, 0.72)]


def played(n=2000, rates=(0.05, 0.06), seed=0, bounds=(0.0, 1.0)):
    """A contest of lines with equal shares."""
    rng = np.random.default_rng(seed)
    K = len(rates)
    contest = Contest(K, range=bounds)
    actions = rng.integers(0, K, n)
    outcomes = (rng.random(n) < np.array(rates)[actions]).astype(float)
    contest.extend(actions, np.full((n, K), 1.0 / K), outcomes)
    return contest


def test_what_is_at_stake_is_the_quantile_of_two_normals():
    """Two lines: the 95 % quantile of max(b - a, 0) with b - a ~ N(-0.01, 2 x 0.01^2)."""
    expected = stats.norm.ppf(0.95, -0.01, 0.01 * math.sqrt(2.0))
    assert at_stake(ROWS, 1, 0.95) == pytest.approx(expected, abs=1.5e-3)  # 4,096 draws
    sure = [row("a", 0.0, 0.001, 0.0), row("b", 1.0, 0.001, 1.0)]
    assert at_stake(sure, 1, 0.95) == 0.0


def test_what_is_at_stake_with_features_does_not_trust_a_line():
    """The effect is a step: where the leader was not shown, a linear model is wrong.

    Action 1 is worth 0.2 for half of the visitors and 0.6 for the others; action 0 is worth 0.5.
    """
    rng = np.random.default_rng(4)
    n = 4000
    x = rng.integers(0, 2, n)
    p = np.column_stack([1 - np.where(x, 0.9, 0.1), np.where(x, 0.9, 0.1)])
    actions = (rng.random(n) < p[:, 1]).astype(int)
    outcomes = (rng.random(n) < np.where(actions, np.where(x, 0.6, 0.2), 0.5)).astype(float)
    contest = Contest(2, 1, range=(0.0, 1.0), least=0.1)
    contest.extend(actions, p, outcomes, x[:, None].astype(float))
    fooled = [row("a", 0.50, 0.01, 0.0), row("b", 0.58, 0.01, 1.0)]
    behind = contest.behind(1, [0, 1], 0.95)
    assert verdict(fooled, contest).at_stake == behind
    assert 0.1 < behind < 0.2  # the truth is 0.1
    value = contest.difference(0, 1).value
    assert behind - value == pytest.approx(1.645 * 0.027, abs=0.01)  # var 2.9 / 4,000
    assert contest.behind(0, [0, 1], 0.95) == 0.0


def test_the_sentence_is_made_from_the_numbers():
    found = verdict(ROWS, played(), pace=200.0, window=3.0, unit="euros", per="mail", time="days")
    assert (found.leader, found.leads, found.winner) == ("question", 0.72, None)
    assert found.still is not None
    assert found.difference.low <= 0.01 <= found.difference.high
    weeks = [round(t / 7.0) for t in (found.still.time, found.still.equal_time)]
    assert str(found) == (
        "question leads (72 %). Giving everybody question now costs at most "
        f"{round(found.at_stake, 3):g} euros a mail. Too early to be sure: about {weeks[0]} weeks "
        f"at this allocation, about {weeks[1]} weeks with equal shares."
    )
    seconds = verdict(ROWS, played(), pace=200.0 / 86400.0, window=3.0 * 86400.0, time="seconds")
    assert seconds.still.time == pytest.approx(86400.0 * found.still.time)
    assert f"about {weeks[0]} weeks at this allocation" in str(seconds)
    slow = verdict(ROWS, played(), pace=2.0, window=3.0, time="days")
    assert f"about {round(slow.still.time / 7.0 / 52.18):,} years at this" in str(slow)
    without = verdict(ROWS, played(), per="mail")
    assert " more mails at this allocation" in str(without)
    assert math.isnan(without.still.time)


def test_a_winner_is_named_by_the_sequence_and_not_by_the_posterior():
    eager = [row("a", 0.05, 0.001, 0.0), row("b", 0.06, 0.001, 1.0)]
    assert verdict(eager, played()).winner is None
    assert verdict(eager, None).winner is None
    named = verdict(eager, played(4000, (0.05, 0.2)))
    assert named.winner == "b"
    assert named.still is None
    assert str(named).startswith("b wins: that is sure at every look (95 %, exact).")
    assert "asymptotic" in str(verdict(eager, played(4000, (0.05, 0.2), bounds=None)))


def test_lines_that_hardly_differ():
    level = [row("a", 0.05, 0.01, 0.499), row("b", 0.050001, 0.01, 0.501)]
    found = verdict(level, played(rates=(0.05, 0.05)))
    assert found.still is None
    assert str(found).endswith("Too early to be sure, and the actions hardly differ.")


def test_verdicts_before_there_is_anything_to_say():
    silent = [row("a", 0.0, math.inf, 0.5, 3, 0), row("b", 0.0, math.inf, 0.5, 2, 0)]
    assert str(verdict(silent, None)) == "Nothing has reported yet."
    assert str(verdict(silent[:1], None)) == "a is the only action."
    one = [row("a", 0.1, math.inf, 0.5), row("b", 0.0, math.inf, 0.5, 2, 0)]
    assert str(verdict(one, None)) == "Too early to tell which action leads."
    retired = [*ROWS, row("old", 9.0, 0.1, 0.0, retired=True)]
    assert verdict(retired, played(rates=(0.05, 0.06, 0.5))).leader == "question"
    assert verdict(retired, played(rates=(0.05, 0.06, 0.5))).winner is None


def mailer(agent, days, rates, *, seed=0, a_day=100, x=None, looks=()):
    """Let an agent decide for days; purchases come one to three days later, at night."""
    rng, queue, said = np.random.default_rng(seed), {}, []
    for day in range(days):
        for _ in range(a_day):
            made = agent.decide(None if x is None else rng.standard_normal(x), now=float(day))
            if rng.random() < rates[made.action]:
                due = queue.setdefault(day + int(rng.integers(1, 4)), [])
                due.append(bl.Reward(made.number, 1.0))
        agent.observe(queue.pop(day, []), now=float(day))
        if day in looks:
            said.append(agent.verdict(3.0, (0.0, 1.0)))
    return said


@pytest.mark.parametrize("features", [0, 2])
def test_looks_of_an_agent_are_those_of_a_contest_over_its_log(features):
    """Night by night or once at the end: the same sequences, over what is final."""
    choice = bl.Choice(actions=3, features=features) if features else bl.Choice(actions=3)
    often, once = (bl.LinearSampler(choice, floor=0.3) for _ in range(2))
    said = mailer(often, 20, (0.1, 0.1, 0.3), x=features or None, looks=range(20))
    mailer(once, 20, (0.1, 0.1, 0.3), x=features or None)
    last = once.verdict(3.0, (0.0, 1.0))
    assert said[0].difference is None
    assert str(said[2]).endswith("No decision with known probabilities is final yet.")
    assert ends(said[-1]) == pytest.approx(ends(last))
    assert said[-1].winner == last.winner
    assert often._followed == (16.0, 1699)  # the last three days are not final
    log = once.log()
    contest = Contest(3, features, range=(0.0, 1.0))
    least = np.full((1700, 3), 0.1)
    if not features:
        least = np.array([*once._policies])[once._ledger.known[:1700]]
        assert (least[np.arange(1700), log.actions[:1700]] == log.probabilities[:1700]).all()
    outcomes = np.where(log.came, 1.0, 0.0)[:1700]
    contest.extend(
        log.actions[:1700], log.probabilities[:1700], outcomes, log.x[:1700], least=least
    )
    first, second = (int(name) for name in (last.leader, leader_but(once, last.leader)))
    found = contest.difference(first, second)
    assert (found.low, found.high) == pytest.approx(ends(last))
    assert last.difference.exact


def test_equal_lines_have_no_winner_on_any_night():
    """Ten tests of 25 nights: at a level of 95 % more than two are wrong in 1 of 80 cases."""
    named = 0
    for seed in range(10):
        agent = bl.recommend(bl.Choice(actions=2), silence=0.0, seed=seed)
        said = mailer(agent, 25, (0.1, 0.1), seed=seed, a_day=40, looks=range(25))
        named += any(one.winner is not None for one in said)
    assert named <= 2


@pytest.mark.parametrize(
    ("features", "silence"),
    [(0, 0.0), (2, 0.0), (2, None)],
    ids=["plain", "features", "all report"],
)
def test_a_look_takes_what_came_since_the_last_one(features, silence, monkeypatch):
    """Tables night by night are those of a first look, and sum up what is new and young alone."""
    monkeypatch.setattr(sampler, "SETTLED", 50)
    choice = bl.Choice(3, features) if features else bl.Choice(3)
    agent = bl.LinearSampler(choice, silence=silence, floor=1.0, changes=False)
    rng, due, read, whole = np.random.default_rng(3), {}, [], sampler.fit.weigh

    def counting(rows, at, past, known, *, shown=False):
        read[-1] += len(at) if shown else 0
        return whole(rows, at, past, known, shown=shown)

    for day in range(40):
        for _ in range(60):
            made = agent.decide(rng.standard_normal(features) if features else None, now=float(day))
            if silence is None or rng.random() < 0.3:
                later = due.setdefault(day + int(rng.integers(1, 4)), [])
                later.append(bl.Reward(made.number, float(rng.lognormal())))
        if day == 25:
            agent.forget(made.number)  # at an exposure below 1
        if day == 30:  # a refund of a decision that was summed up
            due[day].append(bl.Reward(int(agent.log().came.argmax()), -1.0, event="refund"))
        agent.observe(due.pop(day, []), now=float(day))
        monkeypatch.setattr(sampler.fit, "weigh", counting)
        read.append(0)
        shown = agent.table()
        monkeypatch.undo()
        monkeypatch.setattr(sampler, "SETTLED", 50)
        for row, first in zip(
            shown, saving.from_bytes(saving.to_bytes(agent), "").table(), strict=True
        ):
            assert (row.plays, row.reports) == (first.plays, first.reports)
            assert [row.mean, row.low, row.exposed] == pytest.approx(
                [first.mean, first.low, first.exposed], rel=1e-9, nan_ok=True
            )
    assert len(agent._ledger.x) >= 2400
    assert max(read[10:30]) <= 60 * 6
    assert read[30] == 60 * 31  # after the refund, once
    assert max(read[31:]) <= 60 * 6


def ends(found):
    return found.difference.low, found.difference.high


def leader_but(agent, leader):
    """The runner-up of a table."""
    rows = [row for row in agent.table() if row.action != leader]
    return max(rows, key=lambda row: (row.leads, row.mean)).action


def test_a_saved_agent_goes_on_with_its_sequences():
    """Closed decisions leave the log; the sequences have seen them, and a file keeps them."""
    agent = bl.LinearSampler(bl.Choice(2), floor=1.0, close_at=0.95)
    mailer(agent, 10, (0.2, 0.5), looks=[0])
    assert agent._ledger.base > 0
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    assert agent.verdict(3.0, (0.0, 1.0)) == again.verdict(3.0, (0.0, 1.0))
    assert again._followed[1] >= 699
    assert again.verdict(3.0, (0.0, 1.0)).winner == "1"
    assert again.verdict(2.0, (0.0, 1.0)).difference != agent.verdict(3.0, (0.0, 1.0)).difference


def test_what_an_action_that_is_not_available_would_do_is_not_guessed():
    """Action 2 is allowed on the last ten days alone; it is compared over these."""
    agent, rng = bl.LinearSampler(bl.Choice(3), floor=1.0), np.random.default_rng(0)
    for day in range(20):
        for _ in range(50):
            made = agent.decide(now=float(day), among=None if day >= 10 else [0, 1])
            won = rng.random() < (0.2, 0.2, 0.6)[made.action]
            agent.observe([bl.Reward(made.number, float(won))], now=float(day))
    found = agent.verdict(0.0, (0.0, 1.0))
    assert found.winner == found.leader == "2"
    contest = agent._follow()
    assert contest._H[0, 1] == pytest.approx(10 * 50 / 2 + 10 * 50 / 3)
    assert contest._H[0, 2] == pytest.approx(10 * 50 / 3)


def test_another_action_begins_new_sequences():
    agent = bl.LinearSampler(bl.Choice(["a", "b"]), floor=1.0)
    mailer(agent, 6, (0.2, 0.5), looks=range(6))
    agent.add_action("c")
    agent = saving.from_bytes(saving.to_bytes(agent), "")
    assert agent.verdict(3.0, (0.0, 1.0)).winner is None
    mailer_days = mailer_again(agent, 6, 40, (0.2, 0.5, 0.9))
    assert mailer_days[-1].winner == "c"


def mailer_again(agent, first, last, rates):
    rng, said = np.random.default_rng(1), []
    for day in range(first, last):
        for _ in range(50):
            made = agent.decide(now=float(day))
            won = rng.random() < rates[made.action]
            agent.observe([bl.Reward(made.number, 1.0)] if won else [], now=float(day))
        said.append(agent.verdict(3.0, (0.0, 1.0)))
    return said


def test_where_all_outcomes_report_no_window_is_needed():
    agent, rng = bl.LinearSampler(bl.Choice(2), silence=None, floor=1.0), np.random.default_rng(0)
    for k in range(400):
        made = agent.decide()
        if k != 300:
            value = float(rng.normal((1.0, 2.0)[made.action]))
            agent.observe([bl.Reward(made.number, value)])
    found = agent.verdict()
    assert found.winner == "1"
    assert not found.difference.exact
    assert agent._followed[1] == 299  # 300 is the first that has not reported
    again = saving.from_bytes(saving.to_bytes(agent), "bytes")
    assert again.verdict() == found
    agent.forget(300)
    agent.verdict()
    assert agent._followed[1] == 399


def test_bad_questions_get_one_sentence():
    agent = bl.LinearSampler(bl.Choice(2, 1), floor=0.0)
    with pytest.raises(ValueError, match="range must be None with features and a floor of 0"):
        agent.verdict(3.0, (0.0, 1.0))
    agent = bl.LinearSampler(bl.Choice(2), floor=1.0)
    mailer(agent, 5, (0.3, 0.3))
    for given, words in (
        ({"window": -1.0}, "window must be a finite number at least 0"),
        ({"window": 1.0, "range": (1.0, 1.0)}, "range must be two finite numbers that rise"),
        ({"window": 1.0, "level": 2.0}, "level must be a finite number at least 0.5"),
    ):
        with pytest.raises(ValueError, match=words):
            agent.verdict(**given)
    assert bl.LinearSampler(bl.Choice(1)).verdict(3.0).sentence == "0 is the only action."
    told = "Without a window no winner is named."
    assert str(agent.verdict()).endswith(told)


def test_an_outcome_outside_of_the_range_is_said_in_every_verdict():
    """Also once its decision has left the log, and after the learner was saved."""
    agent = bl.LinearSampler(bl.Choice(2), floor=1.0)
    mailer(agent, 5, (0.3, 0.3))
    told = "An outcome is outside of the stated range: no winner is named."
    for _ in range(2):
        found = agent.verdict(1.0, (0.0, 0.5))
        assert (found.winner, found.difference) == (None, None)
        assert str(found).endswith(told)
    assert agent.verdict(1.0, (0.0, 1.0)).difference.exact
    made = agent.decide(now=5.0)
    agent.observe([bl.Reward(made, 7.0)], now=5.0)
    last = [agent.decide(now=6.0).number for _ in range(100)][-1]
    for number in range(last + 1):
        agent.forget(number)
    assert agent._ledger.base > made.number  # it has left the log
    for one in (agent, saving.from_bytes(saving.to_bytes(agent), "bytes")):
        assert str(one.verdict(1.0, (0.0, 1.0))).endswith(told)
    assert told not in str(agent.verdict(1.0, (0.0, 9.0)))


def test_decisions_without_known_probabilities_are_not_said_to_be_young():
    """Those of a log, and those that another process made."""
    agent = bl.LinearSampler(bl.Choice(2), floor=1.0)
    agent.reserve(50)
    for number in range(50):
        agent.note(number, None, number % 2, 0.5, now=0.0)
        agent.observe([bl.Reward(number, float(number % 2))], now=9.0)
    found = agent.verdict(1.0, (0.0, 1.0))
    assert found.leader == "1"
    assert str(found).endswith("No decision with known probabilities is final yet.")


def elsewhere(learner, rates, days=20, a_day=60, blocks=(0, 10_000)):
    """Let two others decide by turns, each with numbers of its own block; returns what was taken.

    The decisions of a night are noted in the order of their numbers, which is not that of time.
    """
    rng, due, order = np.random.default_rng(5), {}, []
    learner.reserve(20_000)
    free = [iter(range(block, 20_000)) for block in blocks]
    for day in range(days):
        served = learner.model()
        tonight = []
        for k in range(a_day):
            number, now = next(free[1 - k % 2]), day + k / a_day
            x = rng.standard_normal(learner.problem.width) if learner.problem.width else None
            made = choose(served, x, learner.seed, number)
            models = np.arange(len(rates))
            known = served.foreseen(models, made.probabilities)
            tonight.append((number, x, made.action, made.probability, now, known))
            won = float(rng.random() < rates[made.action])
            order.append((x, made, known, won))
            if won:
                due.setdefault(day + 1, []).append(bl.Reward(number, 1.0, at=now + 0.5))
        for row in sorted(tonight):
            learner.note(*row)
        learner.observe(due.pop(day, []), now=day + 1.0)
    return order


@pytest.mark.parametrize("features", [0, 2])
def test_decisions_made_elsewhere_count_in_the_order_of_time(features):
    """Night by night, and as a contest that takes the same decisions as they were made."""
    choice = bl.Choice(actions=3, features=features) if features else bl.Choice(actions=3)
    learner = bl.LinearSampler(choice, floor=0.3)
    order = elsewhere(learner, (0.1, 0.1, 0.4))
    found = learner.verdict(2.0, (0.0, 1.0))
    again = saving.from_bytes(saving.to_bytes(learner), "bytes")
    assert again.verdict(2.0, (0.0, 1.0)) == found
    n = 18 * 60 + 1  # the last one is of time 18
    contest = Contest(3, features, range=(0.0, 1.0))
    contest.extend(
        [made.action for _, made, _, _ in order[:n]],
        [made.probability for _, made, _, _ in order[:n]],
        [won for *_, won in order[:n]],
        [x for x, *_ in order[:n]] if features else None,
        least=[known for _, _, known, _ in order[:n]],
    )
    assert learner._contest().decisions == contest.decisions == n
    np.testing.assert_allclose(learner._contest().state(), contest.state(), rtol=1e-9, atol=1e-12)
    assert found.difference.exact
    assert found.winner in (None, "2")


def test_an_action_that_was_added_later_could_not_be_played_elsewhere():
    agent = bl.LinearSampler(bl.Choice(["a", "b"]), floor=1.0)
    agent.reserve(2)
    agent.add_action("c")
    agent.note(0, None, 1, 0.5, now=0.0, known=[0.5, 0.5])
    assert [*agent._policies] == [(0.5, 0.5, 0.0)]


def test_with_features_and_no_floor_nothing_is_known_before_they_are_seen():
    """An action may then be played for some visitors alone: no value, and no winner."""
    agent = bl.LinearSampler(bl.Choice(2, 2), floor=0.0)
    mailer(agent, 10, (0.1, 0.5), x=2)
    found = agent.verdict(3.0)
    assert found.winner is None
    assert str(found).endswith("No decision with known probabilities is final yet.")
    assert mailer(
        bl.LinearSampler(bl.Choice(2, 2), holdout=0.2, floor=0.0), 10, (0.1, 0.5), x=2, looks=[9]
    )[0].difference.exact


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda log: follow(Contest(2), log, None), "window must be the age .*, got None"),
        (lambda log: follow(Contest(2), bl.evaluation.DecisionLog([0, 1], None, [1.0, 0.0]), 0.0),
         "log must have the propensities that were played, got estimated ones"),
        (lambda log: Contest(1), "lines must be a whole number of at least 2, got 1"),
        (lambda log: bl.evaluation.DecisionLog([0, 1], [0.5] * 2, [1.0] * 2, decided=[2.0, 1.0]),
         "decided must never fall, got 1 too late"),
        (lambda log: follow(seen_more(log), log, 0.0),
         "log must begin with the 3 decisions seen, got 2"),
    ],
    ids=["no window", "no propensities", "one action", "out of order", "another log"],
)  # fmt: skip
def test_bad_logs_get_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call(bl.evaluation.DecisionLog([0, 1], [0.5, 0.5], [1.0, 0.0]))


def seen_more(log):
    contest = Contest(2)
    contest.extend([0, 1, 0], [0.5] * 3, [1.0, 0.0, 1.0])
    return contest


def test_propensities_that_were_estimated_prove_nothing():
    log = bl.evaluation.DecisionLog([0, 1] * 50, None, [1.0, 0.0] * 50)
    agent = bl.LinearSampler(bl.Choice(2))
    agent.replay(log)
    assert len(agent.log()) == 0
    assert agent.verdict(0.0).difference is None


def test_what_is_still_needed_is_what_a_simulation_needs():
    """5 % against 8 %: the expected number is within a third of the median of 20 contests."""
    expected = sequences.needed(0.03, 0.06, (0.5, 0.5), 0.025)
    ends = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        contest = Contest(2, range=(0.0, 1.0))
        while contest.winner() is None and contest.decisions < 20_000:
            actions = rng.integers(0, 2, 100)
            outcomes = (rng.random(100) < np.array([0.05, 0.08])[actions]).astype(float)
            contest.extend(actions, np.full((100, 2), 0.5), outcomes)
        ends.append(contest.decisions)
    assert np.median(ends) == pytest.approx(expected, rel=0.33)


def test_a_recommended_learner_may_have_a_holdout():
    advice = bl.advise(bl.Choice(actions=4), holdout=0.2)
    assert "holdout=0.2" in advice.call
    agent = bl.recommend(bl.Choice(actions=4), holdout=0.2)
    assert agent.holdout == advice.make().holdout == 0.2
    with pytest.raises(ValueError, match="holdout must be"):
        bl.recommend(bl.Choice(actions=4), holdout=1.5)


def test_advice_for_a_proof_gives_a_floor_that_suffices():
    choice = bl.Choice(actions=3)
    advice = bl.advise(choice, prove_within=40_000, difference=0.02, rate=0.06)
    assert advice.make().floor == 0.21
    assert "A floor of 0.21 proves a difference of 0.02 within 40,000 decisions" in str(
        " ".join(str(advice).split())
    )
    longer = bl.advise(choice, prove_within=200_000, difference=0.02, rate=0.06)
    assert longer.make().floor < 0.21
    # euros instead of purchases change nothing
    euros = bl.advise(choice, prove_within=40_000, difference=0.6, rate=0.06, amount=30.0)
    assert euros.make().floor == 0.21


PLANS = {
    "floor": (3, {"prove_within": 40_000, "difference": 0.02, "rate": 0.06}, 0.21),
    "phase": (2, {"prove_within": 1430, "difference": 0.05, "rate": 0.05}, 1.0),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_proves_its_difference_in_time(plan):
    """Four of five come in time; fewer than 12 of 20 would in 1 of 100 cases."""
    K, asked, floor = PLANS[plan]
    advice = bl.advise(bl.Choice(actions=K), **asked)
    assert advice.make().floor == floor
    phased = "Equal shares (floor=1) prove a difference of 0.05 within about 1,429 decisions; then"
    assert (phased in " ".join(str(advice).split())) == (plan == "phase")
    rates = np.full(K, asked["rate"] - asked["difference"] / 2.0)
    rates[-1] += asked["difference"]
    n, shares, named = asked["prove_within"], np.full(K, floor / K), 0
    shares[-1] += 1.0 - floor
    for seed in range(20):
        rng, contest = np.random.default_rng(seed), Contest(K, range=(0.0, 1.0))
        actions = rng.choice(K, n, p=shares)
        outcomes = (rng.random(n) < rates[actions]).astype(float)
        contest.extend(actions, np.tile(shares, (n, 1)), outcomes)
        named += contest.winner() == K - 1
    assert named >= 12


@pytest.mark.parametrize(
    ("within", "gap", "rate", "phase"),
    [(600, 0.2, 0.2, 0), (1430, 0.05, 0.05, 1429)],
    ids=["a floor", "equal shares first"],
)
def test_a_learner_that_follows_a_plan_proves_its_difference_in_time(within, gap, rate, phase):
    """Four of five come in time, reports late; fewer than 9 of 16 would in 1 of 140 cases."""
    asked = {"prove_within": within, "difference": gap, "rate": rate}
    told = " ".join(bl.advise(bl.Choice(2), **asked).notes[0].split())
    assert (f"within about {phase:,} decisions; then agent.change(floor=0.01)" in told) == (
        phase > 0
    )
    named = 0
    for seed in range(16):
        agent = bl.recommend(bl.Choice(2), seed=seed, **asked)
        rng, due, said = np.random.default_rng(seed), {}, None
        for night in range(within // 50 + 3):
            if 0 < phase <= night * 50:
                agent.change(floor=0.01)
            for _ in range(50):
                made = agent.decide(now=float(night))
                if rng.random() < (rate - gap / 2.0, rate + gap / 2.0)[made.action]:
                    due.setdefault(night + 2, []).append(bl.Reward(made, 1.0))
            agent.observe(due.pop(night, []), now=float(night))
            said = said or agent.verdict(3.0, (0.0, 1.0)).winner
        assert said in (None, "1")
        named += said == "1"
    assert named >= 9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"prove_within": 100, "difference": 0.02, "rate": 0.06},
            "prove_within must be at least",
        ),
        ({"prove_within": 100, "rate": 0.06}, "difference must be a finite number above 0"),
        ({"prove_within": 100, "difference": 0.02}, "rate must be a finite number above 0"),
        ({"prove_within": 0, "difference": 0.02, "rate": 0.06}, "prove_within must be a whole"),
    ],
)
def test_bad_plans_are_one_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        bl.advise(bl.Choice(actions=3), **given)


@pytest.mark.parametrize("often", [True, False])
def test_what_comes_after_the_window_counts_at_no_look(often):
    """Refunds of action 1 come on the fourth day: whoever waits for them sees what others see."""
    agent, rng, due = bl.LinearSampler(bl.Choice(2), floor=1.0), np.random.default_rng(0), {}
    agent.verdict(3.0, (-1.0, 1.0))  # the terms are fixed before
    for day in range(20):
        for _ in range(50):
            made = agent.decide(now=float(day))
            if rng.random() < 0.3:
                due.setdefault(day + 2, []).append(bl.Reward(made, 1.0, event="order"))
                refund = bl.Reward(made, -1.0, event="refund")
                due.setdefault(day + 4 - made.action % 2, []).append(refund)
        agent.observe(due.pop(day, []), now=float(day))
        if often:
            agent.verdict(3.0, (-1.0, 1.0))
    found = agent.verdict(3.0, (-1.0, 1.0))
    assert found.winner == "0"  # those of action 1 come on the third day, and count
    contest = agent._contest()
    assert contest.value(1).value == 0.0
    assert contest.value(0).value == pytest.approx(0.3, abs=0.05)


def test_equal_lines_do_not_contradict_themselves():
    """Two equal lines of which one is shown to good customers: raw, it looks three times as good.

    Leader, table, what is at stake and the sentence are about all visitors alike.
    """
    agent, rng = (
        bl.LinearSampler(bl.Choice(["plain", "question"], 1), floor=0.2),
        np.random.default_rng(5),
    )
    for day in range(30):
        for _ in range(60):
            x = float(rng.integers(0, 2))
            among = None if rng.random() < 0.3 else ["plain" if x else "question"]
            made = agent.decide([x], now=float(day), among=among)
            won = rng.random() < (0.1, 0.5)[int(x)]
            agent.observe([bl.Reward(made, 1.0)] if won else [], now=float(day))
        rows, found = agent.table(), agent.verdict(0.0, (0.0, 1.0), per="mail")
        first, second = sorted(rows, key=lambda row: row.leads, reverse=True)
        assert (found.leader, found.leads) == (first.action, first.leads)
        assert first.mean >= second.mean
        assert found.winner is None
        assert found.at_stake >= second.mean - first.mean
        assert f"{first.action} leads" in str(found)
        assert second.action not in str(found).split()
    raw = [row.reports / row.plays for row in rows]
    assert raw[0] > 2.0 * raw[1]
    assert abs(rows[0].mean - rows[1].mean) < 0.1
    assert "about 1 more" not in str(found)


def test_numbers_of_the_sentence_are_on_the_safe_side():
    """What is lost at most is rounded up, and nothing is surer than it is."""
    sure = [row("a", 0.05, 0.001, 0.0004), row("b", 0.0549, 0.001, 0.9996)]
    found = verdict(sure, None)
    assert str(found).startswith("b leads (99.9 %). Giving everybody b now costs nothing (95 %).")
    for stake in (0.1149, 0.12, 3.01, 1234.0):
        level = [row("a", stake, 0.0, 0.4), row("b", 0.0, 0.0, 0.6)]
        most = float(str(verdict(level, None)).split("at most ")[1].split()[0])
        assert stake <= most < 1.1 * stake
    contest = played(4000, (0.05, 0.2))
    contest.level = 0.999
    assert "(99.9 %, exact)" in str(verdict(sure, contest))


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
def test_what_is_still_needed_with_features_knows_of_rare_lines(bounds):
    """Half of the visitors get either line in one of ten decisions; shares are 1/2 over all."""

    def extend(contest, rng, n):
        kind = rng.integers(0, 2, n)
        p = np.where(kind[:, None] == [0, 1], 0.9, 0.1)
        actions = (rng.random(n) < p[:, 1]).astype(int)
        outcomes = (rng.random(n) < np.array([0.3, 0.4])[actions]).astype(float)
        contest.extend(actions, p, outcomes, kind[:, None].astype(float))

    took, said = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        contest = Contest(2, 1, range=bounds, least=0.1)
        extend(contest, rng, 500)
        said.append(contest.still(1, np.array([0.1, 0.0]), np.array([0.5, 0.5])))
        while contest.winner() is None:
            extend(contest, rng, 100)
        took.append(contest.decisions - 500)
        assert contest.winner() == 1
    assert np.median(said) == pytest.approx(np.median(took), rel=0.5)
    contest._H *= 1e6  # as after very many decisions: no warning
    assert contest.still(1, np.array([0.1, 0.0]), np.array([0.5, 0.5])) >= 0.0
