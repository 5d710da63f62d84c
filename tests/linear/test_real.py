"""Data that nobody here made: two trials and the log of a shop.

The files are those of the packages scikit-survival (ACTG 320: 1,151 patients, two randomised arms),
lifelines (ACTG 175: 2,139 patients, four arms) and obp (Open Bandit sample: 10,000 decisions of two
policies in each of three campaigns); nothing of the packages is imported. obp needs torch, so its
self-normalised weighting is written here as it defines it.
"""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from benchmarks import real_worlds

import belated as bl
from belated import evaluation
from belated.evaluation import Contest, DecisionLog, follow


def file_of(package, *parts):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    path = Path(next(iter(found.submodule_search_locations))).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"this version of {package} has no {parts[-1]}")
    return path


@pytest.fixture(scope="module")
def trial():
    """Arms, days until AIDS or death (inf if none), and days under observation."""
    text = file_of("sksurv", "datasets", "data", "actg320.arff").read_text()
    rows = np.array([line.split(",") for line in text.split("@data\n")[1].split()], dtype=float)
    days, event, arm = rows[:, 0], rows[:, 1] == 1.0, rows[:, 4].astype(int)
    return arm, np.where(event, days, np.inf), days


def seen(trial, day, a_day=4.0):
    """The log on a day, if four patients a day enter in the order of the file."""
    arm, event, _ = trial
    entered = np.arange(len(arm)) / a_day
    there = entered <= day
    reported = entered + event
    came = reported[there] <= day
    return DecisionLog(
        arm[there],
        np.full(int(there.sum()), 0.5),
        np.where(came, 1.0, np.nan),
        decided=entered[there],
        reported=np.where(came, reported[there], np.nan),
        until=day,
    )


def test_a_trial_is_valued_before_its_events_have_come(trial):
    """Half-way, counting what has come is a third too low; exposure is within 0.03 of the end."""
    arm, event, _ = trial
    assert len(arm) == 1151
    end = [np.isfinite(event[arm == a]).mean() for a in (0, 1)]
    assert end[0] > 1.8 * end[1]
    log = seen(trial, 290.0)
    for a in (0, 1):
        found = evaluation.value(log, np.tile(np.eye(2)[a], (len(log), 1)), method="ratio")
        raw = (log.came & (log.actions == a)).sum() / (log.actions == a).sum()
        assert raw < 0.75 * end[a]
        assert found.value == pytest.approx(end[a], abs=0.03)
        assert found.low <= end[a] <= found.high


def test_a_trial_looked_at_every_week_names_no_wrong_winner(trial):
    """The board stopped it early; here events within 150 days count, patients one by one."""
    contest = Contest(2, range=(0.0, 1.0))
    named = []
    for day in range(7, 700, 7):
        log = seen(trial, float(day))
        follow(contest, log, 150.0, probabilities=np.full((len(log), 2), 0.5))
        named.append(contest.winner())
    assert contest.decisions == 1151
    difference = contest.difference(0, 1)
    assert set(named) <= {None, 0}  # the control has more events
    within = [(trial[1][trial[0] == a] <= 150.0).mean() for a in (0, 1)]
    assert difference.value == pytest.approx(within[0] - within[1], abs=0.01)
    assert difference.low <= within[0] - within[1] <= difference.high


def four_arms():
    """ACTG 175; see `benchmarks.real_worlds.trial`."""
    file_of("lifelines", "datasets", "ACTG175.csv")
    return real_worlds.trial()


def test_four_arms_are_valued_before_most_events_have_come():
    """One patient a day; on day 1,500 what has come is too low for every arm, exposure is not."""
    arms, days, _ = four_arms()
    assert (len(arms), int(np.isfinite(days).sum())) == (2139, 349)
    entered = np.arange(1500.0)
    came = entered + days[:1500] <= 1500.0
    log = DecisionLog(
        arms[:1500],
        np.full(1500, 0.25),
        np.where(came, 1.0, np.nan),
        decided=entered,
        reported=np.where(came, entered + days[:1500], np.nan),
        until=1500.0,
    )
    for a in range(4):
        end = np.isfinite(days[:1500])[arms[:1500] == a].mean()
        found = evaluation.value(log, np.tile(np.eye(4)[a], (1500, 1)), samples=50)
        raw = came[arms[:1500] == a].mean()
        assert raw < 0.9 * end
        assert abs(found.value - end) < abs(raw - end)
        assert found.low <= end <= found.high


def test_replays_of_a_trial_are_unbiased_and_learn_which_arm_harms():
    """Zidovudine alone has twice the events of the others; learners hear of them a year later."""
    arms, days, _ = four_arms()
    ends = [np.isfinite(days[arms == a]).mean() for a in range(4)]
    assert ends[0] > 1.6 * max(ends[1:])
    chance = [
        real_worlds.replayed(bl.LinearSampler(bl.Choice(4), floor=1.0), seed) for seed in (0, 1)
    ]
    had = np.concatenate([events for _, events in chance])
    assert had.mean() == pytest.approx(np.mean(ends), abs=3.0 * had.std() / np.sqrt(len(had)))
    late = []
    for seed in range(3):
        learner = bl.recommend(bl.Choice(4), silence=0.0, changes=False, seed=seed)
        played, _ = real_worlds.replayed(learner, seed)
        assert len(played) == learner.made
        late.append((played[len(played) // 2 :] == 0).mean())
    assert np.mean(late) < 0.15  # of the second half; a quarter by chance


@pytest.fixture(scope="module")
def shop():
    """Items, clicks and propensities of the random log, and the shares of the other policy."""
    rows = {}
    for policy in ("random", "bts"):
        path = file_of("obp", "dataset", "obd", policy, "all", "all.csv")
        with path.open() as lines:
            rows[policy] = sorted(csv.DictReader(lines), key=lambda row: row["timestamp"])
    items, shown = (np.array([int(row["item_id"]) for row in rows[p]]) for p in ("random", "bts"))
    clicks = np.array([float(row["click"]) for row in rows["random"]])
    p = np.array([float(row["propensity_score"]) for row in rows["random"]])
    return items, clicks, p, np.bincount(shown, minlength=80) / len(shown)


def test_the_ratio_is_snipw_on_the_open_bandit_sample(shop):
    """Self-normalised weighting as the pipeline defines it, to 8 digits; with delays nearly so."""
    items, clicks, p, policy = shop
    n = len(items)
    w = policy[items] / p
    snipw = (w * clicks).sum() / w.sum()
    assert snipw == pytest.approx(0.0048633957, rel=1e-8)
    pi = np.tile(policy, (n, 1))
    log = DecisionLog(items, p, clicks)
    ratio, robust = (evaluation.value(log, pi, method=m, samples=20) for m in evaluation.METHODS)
    assert ratio.value == pytest.approx(snipw, rel=1e-8)
    assert robust.value == pytest.approx(snipw, rel=0.05)
    rng = np.random.default_rng(0)
    reported = np.arange(n) + rng.geometric(1.0 / 1000.0, n)
    came = (clicks > 0.0) & (reported < n)
    late = DecisionLog(
        items,
        p,
        np.where(came, 1.0, np.nan),
        reported=np.where(came, reported, np.nan),
        until=n - 1.0,
    )
    found = evaluation.value(late, pi, samples=20)
    assert found.low <= snipw <= found.high


def clicks_of(policy, campaign):
    """Items, clicks and propensities of a log of the sample, in their order."""
    path = file_of("obp", "dataset", "obd", policy, campaign, f"{campaign}.csv")
    with path.open() as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: row["timestamp"])
    names = ("item_id", "click", "propensity_score")
    items, clicks, p = (np.array([float(row[name]) for row in rows]) for name in names)
    return items.astype(int), clicks, p


def test_the_default_estimator_is_the_one_nearer_to_what_the_policies_earned():
    """Each policy is valued from the log of the other one, with delays of mean 1,000 decisions."""
    errors = []
    for campaign in ("all", "men", "women"):
        logs = [clicks_of(policy, campaign) for policy in ("random", "bts")]
        A = 1 + max(int(items.max()) for items, _, _ in logs)
        shares = np.full(A, 1.0 / A), np.bincount(logs[1][0], minlength=A) / len(logs[1][0])
        for here, other in ((0, 1), (1, 0)):
            items, clicks, p = logs[here]
            n = len(items)
            reported = np.arange(n) + np.random.default_rng(0).geometric(1.0 / 1000.0, n)
            came = (clicks > 0.0) & (reported < n)
            log = DecisionLog(
                items,
                p,
                np.where(came, 1.0, np.nan),
                reported=np.where(came, reported, np.nan),
                until=n - 1.0,
            )
            pi = np.tile(shares[other], (n, 1))
            found = [
                evaluation.value(log, pi, method=method, samples=10).value
                for method in evaluation.METHODS
            ]
            errors.append(np.array(found) - logs[other][1].mean())
    ratio, robust = np.sqrt(np.mean(np.square(errors), axis=0))
    assert robust < ratio < 0.002
    assert evaluation.value.__kwdefaults__["method"] == "doubly robust"
