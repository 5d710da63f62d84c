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
    """

    days: dict[int, Floats]
    plays: dict[tuple[int, int], int]
    actions: dict[int, Floats]
    whole: Floats
    delays: list[float]
    reports: int


EPISODES = {
    "open": "count(*) - count(closed)",
    "overdue": "count(CASE WHEN closed IS NULL AND {past} THEN 1 END)",
    "pending": "count(CASE WHEN closed IS NULL AND NOT {past} AND heard IS NULL "
    "AND total IS NULL THEN 1 END)",
    "forgotten": "count(CASE WHEN why = 'forgotten' THEN 1 END)",
    "defaulted": "count(CASE WHEN why = 'default' THEN 1 END)",
    "ever_overdue": "count(CASE WHEN {ever} THEN 1 END)",
    "oldest": "min(CASE WHEN closed IS NULL THEN began END)",
}
"""Counts of episodes; oldest: when the oldest open one began."""
OUTCOMES = {
    "late": "count(DISTINCT CASE WHEN status IN ('late', 'used') THEN number || ' ' || at END)",
    "taken": "count(CASE WHEN status IN ('taken', 'used') THEN 1 END)",
    "heard": "max(CASE WHEN status IN ('taken', 'used') THEN at END)",
}
"""Counts of records and of facts; heard: when the last one arrived."""


OVERDUE = {
    True: ("({now} - began > {limit})", "coalesce(closed, {now}) - began > {limit}"),
    False: (
        "({newest} - number > {limit})",
        "EXISTS (SELECT 1 FROM episodes AS later WHERE later.learner = e.learner AND later.number "
        "= e.number + 1 + {limit} AND (e.ended IS NULL OR e.ended > later.seq))",
    ),
}
"""Whether an episode is past its deadline, and whether it was open then, by whether it is timed."""


def counted(db: Tables, session: Session) -> dict[str, Any]:
    """The numbers of episodes and records, by the words of the report."""
    config, agent = session.config, session.runner.agent
    begun = getattr(agent, "made", agent.begun)
    limit = 1e300 if config.deadline is None else config.deadline
    values = {"now": repr(session.clock()), "newest": agent.begun - 1, "limit": repr(limit)}
    past, ever = (text.format(**values) for text in OVERDUE[config.timed])
    told = {"past": past, "ever": "FALSE" if config.grace is None else ever}
    found = {"begun": begun}
    for table, columns in (("episodes AS e", EPISODES), ("outcomes", OUTCOMES)):
        asked = ", ".join(columns.values()).format(**told)
        (row,) = db.all(f"SELECT {asked} FROM {table} WHERE learner = ?", session.name)
        found |= zip(columns, row, strict=True)
    return found


def totals_of(db: Tables, session: Session) -> Totals:
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
    newest = {number: days[number] for number in sorted(days)[-DAYS:]}
    return Totals(newest, plays, dict(actions), whole, at, len(delays))


def described(session: Session, seen: Any) -> dict[str, Any]:
    """The status of a learner, for the page and the client."""
    config, problem, name = session.config, session.problem, session.name
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
        "information": config.information,
        "deadline": config.deadline,
        "deadline_unit": "seconds" if config.timed else "episodes",
        "default": config.default,
        "grace": config.grace,
        **{word: counts[word] for word in ("begun", "open", "pending", "overdue", "late")},
        "waiting": session.runner.waiting,
        "events": session.runner.seq,
        "differing": session.runner.differing,
        "counts": {
            **session.counts,
            "forgotten": counts["forgotten"],
            "defaulted": counts["defaulted"],
            "overdue": counts["ever_overdue"],
        },
        "diagnostics": seen.diagnostics,
        "history": [[at, total, bool(late)] for at, total, late in sorted(history)],
        "delays": [count or 0 for count in delays],
        "arrivals": [{"minute": minute, **told} for minute, told in session.arrivals],
        "now": session.clock(),
        "note": config.note,
    }


def open_episodes(session: Session, after: int, limit: int) -> list[dict[str, Any]]:
    """The open episodes after a number, oldest first."""
    now = session.clock()
    found: dict[int, dict[str, Any]] = {}
    with session.db.reader() as db:
        rows = db.all(
            "SELECT e.number, e.began, d.step FROM (SELECT learner, number, began FROM episodes "
            "WHERE learner = ? AND closed IS NULL AND number > ? ORDER BY number LIMIT ?) AS e "
            "LEFT JOIN decisions AS d ON d.learner = e.learner AND d.number = e.number "
            "ORDER BY e.number, d.step",
            session.name, after, limit,
        )  # fmt: skip
    for number, began, step in rows:
        overdue = session.is_past(session.config.deadline, number, began, now)
        told = {"episode": number, "age": now - began, "overdue": overdue, "decided": []}
        decided = found.setdefault(number, told)["decided"]
        if step is not None:
            decided.append(step)
    return list(found.values())
