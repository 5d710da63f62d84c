"""What people ask about a learner, counted as events happen: per action, per day, by delay.

Amounts are what the records say: rewards for decisions, costs for learners with states. A decision
counts on the day on which it was made, and so does everything that comes of it later. Days are
those of UTC.

With a holdout of share h, an action that has probability p among n at hand was drawn by the holdout
with probability h / (n p). Every decision counts for the holdout with that weight, so that no
decision needs a label, and the mean is the one of uniform play.
"""

from __future__ import annotations

import copy
from dataclasses import astuple, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from belated.core import checks, stored
from belated.core.quantiles import Quantiles

DAYS = 400
"""Days that are kept."""
DAY = 86_400.0
"""Seconds."""
LARGEST = 1e100
"""What is larger counts as this, so that squares stay finite."""
NOBODY = -1
"""Stands for an action that is not known."""


class Entry(NamedTuple):
    """An open episode. holdout: its weight there. total: of what came. reports: how many came.

    It never changes, so that copies of the tally can share it.
    """

    day: int
    action: int = NOBODY
    holdout: float = 0.0
    total: float = 0.0
    reports: int = 0


@dataclass(slots=True)
class Sums:
    """Decisions, those that have reported, and the sums of their outcomes and of the squares."""

    decisions: float = 0.0
    reports: float = 0.0
    total: float = 0.0
    square: float = 0.0

    def change(self, weight: float, before: Entry, after: Entry) -> None:
        """Count an episode as it is after a report instead of before."""
        self.reports += weight * ((after.reports > 0) - (before.reports > 0))
        self.total += weight * (after.total - before.total)
        self.square += weight * (after.total**2 - before.total**2)


@dataclass(slots=True)
class Day:
    """One day: all decisions, the holdout's part of them, and how often each action was played."""

    all: Sums = field(default_factory=Sums)
    holdout: Sums = field(default_factory=Sums)
    plays: dict[int, int] = field(default_factory=dict)


class Tally:
    """Sums of a learner.

    Attributes:
        open: what is known of the open episodes.
        days: by number of days since 1970, the newest.
        actions: sums of each action; outcomes count once both the action and they are known.
        holdout: sums of the holdout, since the beginning.
        squares: of the holdout's weights w and totals t: the sums of w², w² t and w² t².
        delays: of first reports, in seconds.
        heard_at: when an outcome came last, in seconds; None before the first.
        late: records that came too late.
    """

    def __init__(self) -> None:
        self.open: dict[int, Entry] = {}
        self.days: dict[int, Day] = {}
        self.actions: dict[int, Sums] = {}
        self.holdout = Sums()
        self.squares = [0.0, 0.0, 0.0]
        self.delays = Quantiles()
        self.heard_at: float | None = None
        self.late = 0

    def __copy__(self) -> Tally:
        """A tally that says the same and stays as it is."""
        made = Tally()
        made.__dict__.update(self.__dict__)
        made.open = self.open.copy()
        made.days = {
            number: Day(copy.copy(day.all), copy.copy(day.holdout), day.plays.copy())
            for number, day in self.days.items()
        }
        made.actions = {action: copy.copy(sums) for action, sums in self.actions.items()}
        made.holdout, made.squares = copy.copy(self.holdout), self.squares.copy()
        made.delays = copy.copy(self.delays)
        return made

    def begin(self, number: int, now: float) -> None:
        """An episode begins."""
        day = int(now // DAY)
        self.open[number] = Entry(day)
        if day not in self.days:
            self.days[day] = Day()
            while len(self.days) > DAYS:
                del self.days[min(self.days)]
        if day in self.days:
            self.days[day].all.decisions += 1.0

    def act(self, number: int, action: int, holdout: float = 0.0) -> None:
        """The first action of an open episode is known."""
        entry = self.open.get(number)
        if entry is None or entry.action != NOBODY:
            return
        sums = self.actions.setdefault(action, Sums())
        sums.decisions += 1.0
        sums.change(1.0, Entry(0), entry)
        self.open[number] = entry._replace(action=action, holdout=holdout)
        self.holdout.decisions += holdout
        self.squares[0] += holdout**2
        day = self.days.get(entry.day)
        if day is not None:
            day.plays[action] = day.plays.get(action, 0) + 1
            day.holdout.decisions += holdout

    def hear(self, number: int, amount: float, now: float, waited: float | None) -> None:
        """An outcome came. waited: seconds since the episode began; None if a deadline spoke."""
        before = self.open.get(number)
        if before is None:
            return
        total = before.total + min(max(amount, -LARGEST), LARGEST)
        entry = before._replace(total=total, reports=before.reports + 1)
        self.open[number] = entry
        if waited is not None:
            self.heard_at = now
            if before.reports == 0:
                self.delays.add(int(max(0.0, waited)))
        if entry.action != NOBODY:
            self.actions[entry.action].change(1.0, before, entry)
        w = entry.holdout
        self.holdout.change(w, before, entry)
        self.squares[1] += w * w * (entry.total - before.total)
        self.squares[2] += w * w * (entry.total**2 - before.total**2)
        day = self.days.get(entry.day)
        if day is not None:
            day.all.change(1.0, before, entry)
            day.holdout.change(w, before, entry)

    def close(self, number: int) -> None:
        """An episode is closed: nothing more comes of it."""
        self.open.pop(number, None)

    def state(self) -> stored.State:
        """Everything, as plain data."""
        days = sorted(self.days.items())
        return {
            "open": np.array([(n, *e) for n, e in self.open.items()]).reshape(-1, 6),
            "days": np.array(
                [(n, *astuple(day.all), *astuple(day.holdout)) for n, day in days]
            ).reshape(-1, 9),
            "plays": np.array(
                [(n, action, count) for n, day in days for action, count in day.plays.items()],
                dtype=np.int64,
            ).reshape(-1, 3),
            "actions": np.array(
                [(action, *astuple(sums)) for action, sums in self.actions.items()]
            ).reshape(-1, 5),
            "holdout": np.array(astuple(self.holdout)),
            "squares": np.array(self.squares),
            "delays": self.delays.state(),
            "heard_at": self.heard_at,
            "late": self.late,
        }

    @classmethod
    def from_state(cls, saved: object) -> Tally:
        """The tally that wrote the state."""
        names = ("open", "days", "plays", "actions", "holdout", "squares", "delays")
        read = stored.exact(saved, *names, "heard_at", "late")
        made = cls()
        for number, day, action, holdout, total, reports in _rows("open", read["open"], 6):
            made.open[int(number)] = Entry(int(day), int(action), holdout, total, int(reports))
        for number, *sums in _rows("days", read["days"], 9):
            made.days[int(number)] = Day(Sums(*sums[:4]), Sums(*sums[4:]))
        plays = stored.array("plays", read["plays"], np.int64, (None, 3)).tolist()
        for number, action, count in plays:
            if number not in made.days:
                raise ValueError(f"plays must be of days that are kept, got {number}")
            made.days[number].plays[action] = count
        for action, *sums in _rows("actions", read["actions"], 5):
            made.actions[int(action)] = Sums(*sums)
        made.holdout = Sums(*_finite("holdout", read["holdout"], (len(fields(Sums)),)))
        made.squares = _finite("squares", read["squares"], (3,))
        made.delays.restore(read["delays"])
        made.late = checks.integer("late", read["late"], 0)
        if read["heard_at"] is not None:
            made.heard_at = checks.real("heard_at", read["heard_at"], 0.0)
        return made


def _rows(name: str, value: object, width: int) -> list[list[float]]:
    found: list[list[float]] = _finite(name, value, (None, width))
    return found


def _finite(name: str, value: object, shape: tuple[int | None, ...]) -> Any:
    array = stored.array(name, value, np.float64, shape)
    stored.finite(name, array)
    return array.tolist()
