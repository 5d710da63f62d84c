"""Which line wins: the verdict, its sentence, and plans for a proof."""

import math

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated import sequences
from belated.evaluation import Contest
from belated.linear.life import ActionRow, Z
from belated.linear.verdict import at_stake, verdict


def row(name, mean, error, leads, plays=1000, reports=50, retired=False):
    low, high = mean - Z * error, mean + Z * error
    return ActionRow(name, plays, reports, float(plays), mean, low, high, leads, retired)


ROWS = [row("plain", 0.05, 0.01, 0.28), row("question", 0.06, 0.01, 0.72)]


def played(n=2000, rates=(0.05, 0.06), seed=0, bounds=(0.0, 1.0)):
    """A contest of lines with equal shares."""
    rng = np.random.default_rng(seed)
    K = len(rates)
    contest = Contest(K, bounds=bounds)
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


def test_what_is_still_needed_is_what_a_simulation_needs():
    """5 % against 8 %: the expected number is within a third of the median of 20 contests."""
    expected = sequences.needed(0.03, 0.06, (0.5, 0.5), 0.025)
    ends = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        contest = Contest(2, bounds=(0.0, 1.0))
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
