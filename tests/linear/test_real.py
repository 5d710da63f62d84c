"""Data that nobody here made: two trials, the log of a shop, and a table of induction times.

The files are those of the packages scikit-survival (ACTG 320: 1,151 patients, two randomised arms),
lifelines (ACTG 175: 2,139 patients, four arms) and obp (Open Bandit sample: 10,000 decisions of two
policies in each of three campaigns); nothing of the packages is imported, and `make test-all` fails
without them. obp needs torch, so its
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
from belated.evaluation.values import METHODS
from belated.linear.exposure import UNIT_EDGES, Delays
from limits import FULL


def file_of(package, *parts):
    found = importlib.util.find_spec(package)
    if found is None and not FULL:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(found.submodule_search_locations))).joinpath(*parts)


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
    ratio, robust = (evaluation.value(log, pi, method=m, samples=20) for m in METHODS)
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
                evaluation.value(log, pi, method=method, samples=10).value for method in METHODS
            ]
            errors.append(np.array(found) - logs[other][1].mean())
    ratio, robust = np.sqrt(np.mean(np.square(errors), axis=0))
    assert robust < ratio < 0.002
    assert evaluation.value.__kwdefaults__["method"] == "doubly robust"


# Quarters from infection with HIV by transfusion to AIDS, by quarter of infection since April 1978,
# of those who had AIDS by the 32nd: the table of Lagakos, Barraj & De Gruttola, Biometrika 75
# (1988). All others are unseen, so that a delay is known only if it is short enough.
ADULTS = """
0:20 1:27 3:20,20,29 4:17,23,25,26 5:16,17,19,23 6:11,15,20,22,26 7:11,12,21,21
8:9,12,16,18,19,20,21,21,22,22,24 9:12,22 10:9,9,9,9,10,11,12,13,13,16,16,16
11:5,6,10,12,12,13,15,18,18,20,20,21,21,21,21,21 12:8,13,14,15,16,16,17,17,17,19,19,19,20
13:5,7,8,8,11,12,12,14,14,17,18 14:5,9,9,10,11,11,12,13,14,14,16,16,17,18,18
15:5,7,7,8,11,12,12,12,16,17,17 16:4,6,6,8,9,11,14,15,15,16 17:5,6,6,8,8,8,9,10,10,10,12,14,14
18:4,6,6,6,7,9,9,10,10,10,10,11,11,11,11,12,12,12,13,13
19:4,6,6,6,7,7,8,9,11,12,12,13,13,13,13,13,13 20:2,6,6,7,8,9,9,9,10,10,12,12,12
21:1,1,3,3,3,4,4,5,5,6,6,6,6,9,9,10,10,11 22:4,4,4,5,5,7,8,9,9,10 23:1,1,3,4,6,6,6,8,8,9
24:2,3,3,3,4,4,4,5,5,6,6,7,7,7,8 25:3,4,5,7,7 26:1,1,3,4,5,6 27:3,3,4,5,5,5 28:3 29:1
"""
CHILDREN = """
4:22 6:9 9:12 11:4 12:7 14:3 15:3,4,11,12,14,17 16:4 17:7 18:13 19:4,9 20:2,3,6,10 21:1,4,6
22:2,6,10 23:7 24:2,5 25:2,5 26:3 27:2,3 28:3 29:1
"""


@pytest.mark.parametrize(
    ("table", "known"),
    [(ADULTS, {4: 0.0212, 12: 0.1584, 24: 0.6060}), (CHILDREN, {4: 0.2237, 12: 0.5195})],
    ids=["adults", "children"],
)
def test_induction_times_of_aids_have_the_reverse_hazard_of_the_literature(table, known):
    """The product-limit estimator over every quarter, and what lifelines says in reversed time."""
    rows = [line.split(":") for line in table.split()]
    s, t = np.array(
        [(int(at), int(one)) for at, group in rows for one in group.split(",")], dtype=float
    ).T
    assert len(s) in (258, 37)
    limit, F = {}, 1.0
    for x in range(32, -1, -1):
        limit[x] = F
        F *= 1.0 - (t == x).sum() / max(((t <= x) & (32 - s >= x)).sum(), 1)
    assert {x: round(limit[x], 4) for x in known} == known  # KaplanMeierFitter, entry=s
    delays = Delays(1)
    delays.add(np.zeros(len(s), dtype=np.int32), t, 32 - s)
    share = dict(zip(UNIT_EDGES, delays.shares()[0], strict=True))
    for x in (1, 2, 3, 4, 6, 8):  # of those within four years: the longest are not identified
        found, truth = share[x] / share[16], limit[x] / limit[16]
        assert found == pytest.approx(truth, abs=0.04)
        assert abs(found - truth) < 0.5 * ((t <= x).sum() / (t <= 16).sum() - truth)
