"""Data that nobody here made: a trial of 1997 and the log of a shop.

The files are those of the packages scikit-survival (ACTG 320: 1,151 patients, two randomised arms)
and obp (Open Bandit sample: 10,000 decisions among 80 items); nothing of the packages is imported.
"""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from belated import evaluation
from belated.evaluation import Contest, DecisionLog, follow


def file_of(package, *parts):
    found = importlib.util.find_spec(package)
    if found is None:
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
