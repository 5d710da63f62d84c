"""What the tables say of a learner: questions that change nothing, for reports and programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from belated.core.arrays import Floats
from belated.service.session import Session
from belated.service.tables import Tables

HISTORY = 1000
"""The number of newest reports that the page shows."""
BUCKETS = 32
"""The number of buckets of delays; the last has 2**30 seconds and more."""
DAYS = 400
"""The number of days that are reported."""
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


class Sums(NamedTuple):
    """Decisions, those that have reported, and the sums of their outcomes and of the squares."""

    decisions: float
    reports: float
    total: float
    square: float

    @classmethod
    def of(cls, sums: Any, place: int) -> Sums:
        """Four of the sums of `Totals`, beginning at a place."""
        return cls(*map(float, sums[place : place + 4]))


@dataclass(slots=True)
class Totals:
    """Sums of a learner.

    A decision and all of its outcomes count on the day of the decision, in UTC. With a holdout of
    share h, an action with probability p among n actions was drawn by the holdout with probability
    h / (n p). Every decision counts for the holdout with that weight w.

    Attributes:
        days: eleven sums of each of the newest days, by number of days since 1970: the `Sums` of
            all decisions, those of the holdout, and the sums of w², w² t and w² t² over the
            holdout's weights w and totals t.
        plays: the number of plays by day and action.
        actions: the same sums of each action, since the beginning.
        whole: the same sums of all decisions.
        delays: quantiles of the delays of first reports, in seconds, at `SHARES`; none without any.
        reports: the number of first reports.
        heard: when the last outcome arrived; None before the first.
    """

    days: dict[int, Floats]
    plays: dict[tuple[int, int], int]
    actions: dict[int, Floats]
    whole: Floats
    delays: list[float]
    reports: int
    heard: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of a learner's episodes and records, by the words of the report.

    closed: how deadlines have closed episodes. oldest: when the oldest open episode began.
    """

    begun: int
    open: int
    pending: int
    overdue: int
    late: int
    taken: int
    closed: dict[str, int]
    oldest: tuple[int, float] | None


def counted(db: Tables, session: Session) -> Counts:
    """The numbers of episodes and records."""
    name, terms = session.name, session.terms
    past, newest = "? - began > ?", session.clock()
    if not terms.timed:
        past, newest = "? - number > ?", session.runner.agent.begun - 1
    limit = 1e300 if terms.deadline is None else terms.deadline
    ((open_, overdue, pending),) = db.all(
        f"SELECT count(*), count(CASE WHEN {past} THEN 1 END), "
        f"count(CASE WHEN NOT ({past}) AND heard IS NULL AND total IS NULL THEN 1 END) "
        "FROM episodes WHERE learner = ? AND closed IS NULL",
        newest, limit, newest, limit, name,
    )  # fmt: skip
    ((late,),) = db.all(
        "SELECT count(*) FROM (SELECT DISTINCT number, at FROM outcomes "
        "WHERE learner = ? AND status IN ('late', 'used')) AS records",
        name,
    )
    ((taken,),) = db.all(
        "SELECT count(*) FROM outcomes WHERE learner = ? AND status IN ('taken', 'used')", name
    )
    closed = dict(
        db.all(
            "SELECT why, count(*) FROM episodes WHERE learner = ? AND closed IS NOT NULL "
            "GROUP BY why",
            name,
        )
    )
    told = {"forgotten": closed.get("forgotten", 0), "defaulted": closed.get("default", 0)}
    told["overdue"] = _ever_overdue(db, session, newest) if terms.grace is not None else 0
    oldest = db.all(
        "SELECT number, began FROM episodes WHERE learner = ? AND closed IS NULL "
        "ORDER BY number LIMIT 1",
        name,
    )
    begun = session.runner.agent.begun
    first = oldest[0] if oldest else None
    return Counts(begun, open_, pending, overdue, late, taken, told, first)


def _ever_overdue(db: Tables, session: Session, newest: float) -> int:
    """The number of episodes that were open at their deadline."""
    terms = session.terms
    if terms.timed:
        statement = (
            "SELECT count(*) FROM episodes WHERE learner = ? AND coalesce(closed, ?) - began > ?"
        )
        return int(db.all(statement, session.name, newest, terms.deadline)[0][0])
    ((found,),) = db.all(
        "SELECT count(*) FROM episodes e JOIN episodes later ON later.learner = e.learner "
        "AND later.number = e.number + 1 + ? "
        "WHERE e.learner = ? AND (e.ended IS NULL OR e.ended > later.seq)",
        terms.deadline, session.name,
    )  # fmt: skip
    return int(found)


def totals(db: Tables, session: Session) -> Totals:
    """The sums of a learner."""
    days: dict[int, Floats] = defaultdict(lambda: np.zeros(11))
    actions: dict[int, Floats] = defaultdict(lambda: np.zeros(11))
    plays = {}
    w = "coalesce(d.holdout, 0)"
    told = "CASE WHEN e.total IS NOT NULL THEN 1 ELSE 0 END"
    for day, action, *found in db.all(
        f"SELECT {db.day}, d.action, count(*), count(e.total), sum(e.total), "
        f"sum(e.total * e.total), sum({w}), sum({w} * {told}), sum({w} * e.total), "
        f"sum({w} * e.total * e.total), sum({w} * {w}), sum({w} * {w} * e.total), "
        f"sum({w} * {w} * e.total * e.total) FROM episodes e LEFT JOIN decisions d "
        "ON d.learner = e.learner AND d.number = e.number AND d.step = 0 "
        "WHERE e.learner = ? GROUP BY 1, 2 ORDER BY 1",
        session.name,
    ):
        sums = np.array([value or 0.0 for value in found])
        days[day] += sums
        if action is not None:
            plays[day, action] = int(found[0])
            actions[action] += sums
    whole = sum(days.values(), np.zeros(11))
    delays = db.all(
        "SELECT heard - began FROM episodes WHERE learner = ? AND heard IS NOT NULL ORDER BY 1",
        session.name,
    )
    at = [max(0.0, delays[int(s * (len(delays) - 1))][0]) for s in SHARES] if delays else []
    ((heard,),) = db.all(
        "SELECT max(at) FROM outcomes WHERE learner = ? AND status IN ('taken', 'used')",
        session.name,
    )
    newest = {number: days[number] for number in sorted(days)[-DAYS:]}
    return Totals(newest, plays, dict(actions), whole, at, len(delays), heard if delays else None)


def described(session: Session, seen: Any) -> dict[str, Any]:
    """The status of a learner, for the page and the client."""
    terms, problem, name = session.terms, session.problem, session.name
    edges = [0.0, *(2.0**i for i in range(BUCKETS - 1)), 1e300]
    buckets = ", ".join("sum(CASE WHEN ? <= d AND d < ? THEN 1 ELSE 0 END)" for _ in edges[1:])
    bounds = [edge for i in range(BUCKETS) for edge in (edges[i], edges[i + 1])]
    bounds[0] = -1e300
    with session.db.reader() as db:
        counts = counted(db, session)
        history = db.all(
            "SELECT coalesce(heard, closed), total, heard IS NULL FROM episodes "
            "WHERE learner = ? AND total IS NOT NULL ORDER BY number DESC LIMIT ?",
            name, HISTORY,
        )  # fmt: skip
        ((*delays,),) = db.all(
            f"SELECT {buckets} FROM (SELECT heard - began AS d FROM episodes "
            "WHERE learner = ? AND heard IS NOT NULL) AS delays",
            *bounds, name,
        )  # fmt: skip
    return {
        "name": name,
        "problem": {
            key: getattr(problem, key)
            for key in ("states", "actions", "horizon", "names")
            if getattr(problem, key, None) is not None
        },
        "information": terms.information,
        "deadline": terms.deadline,
        "deadline_unit": "seconds" if terms.timed else "episodes",
        "default": terms.default,
        "grace": terms.grace,
        "begun": counts.begun,
        "open": counts.open,
        "pending": counts.pending,
        "overdue": counts.overdue,
        "late": counts.late,
        "waiting": session.runner.waiting,
        "events": session.seq,
        "differing": session.runner.differing,
        "counts": {**session.counts, **counts.closed},
        "diagnostics": seen.diagnostics,
        "history": [[at, total, bool(late)] for at, total, late in sorted(history)],
        "delays": [count or 0 for count in delays],
        "arrivals": [{"minute": minute, **told} for minute, told in session.arrivals],
        "now": session.clock(),
    }


def open_episodes(session: Session, after: int, limit: int) -> list[dict[str, Any]]:
    """The open episodes after a number, oldest first."""
    now = session.clock()
    with session.db.reader() as db:
        rows = db.all(
            "SELECT number, began FROM episodes WHERE learner = ? AND closed IS NULL "
            "AND number > ? ORDER BY number LIMIT ?",
            session.name, after, limit,
        )  # fmt: skip
        found: dict[int, tuple[float, list[int]]] = {number: (began, []) for number, began in rows}
        if rows:
            for number, step in db.all(
                "SELECT number, step FROM decisions WHERE learner = ? AND number >= ? "
                "AND number <= ? ORDER BY number, step",
                session.name, rows[0][0], rows[-1][0],
            ):  # fmt: skip
                if number in found:
                    found[number][1].append(step)
    return [
        {
            "episode": number,
            "age": now - began,
            "overdue": session.is_past(session.terms.deadline, number, began, now),
            "decided": decided,
        }
        for number, (began, decided) in found.items()
    ]
