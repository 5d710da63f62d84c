"""What a learner says to people and programs: counts, status, report, and metrics for Prometheus.

The counts and sums are questions to the tables that change nothing. If the agent has an `overview`,
the report uses it, because it accounts for outcomes that are still to come. For all other agents
the sums of the tables count the outcomes so far. `WORDS` defines the counts; status, report, page
and metrics use them in this sense only.
"""

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from belated.core import saving
from belated.evaluation.verdict import ActionRow, Verdict, Z, verdict
from belated.linear import life
from belated.linear.life import Overview
from belated.service.session import Session
from belated.service.tables import Tables
from belated.service.wire import LARGEST_WHOLE, STATUS, Table

Seen = tuple[Overview, Verdict | None, dict[str, float]]
"""An agent at the time of a report: its overview, verdict and diagnostics.

The overview of an agent that has none is without rows; its verdict is None.
"""
HISTORY = 1000
"""The number of newest reports that the page shows."""
BUCKETS = [0.0, *(2.0**i for i in range(31)), 1e300]
"""The edges of the buckets of delays, in seconds."""
DAYS = 400
"""The number of days that are reported."""
RECENT = 7
"""The number of days for the recent share of traffic."""
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


COUNTS = """
SELECT * FROM (SELECT count(*) - count(closed),
    count(CASE WHEN closed IS NULL AND {past} THEN 1 END),
    count(CASE WHEN closed IS NULL AND NOT {past} AND heard IS NULL AND total IS NULL THEN 1 END),
    count(CASE WHEN why = 'forgotten' THEN 1 END), count(CASE WHEN why = 'default' THEN 1 END),
    count(CASE WHEN {ever} THEN 1 END), min(CASE WHEN closed IS NULL THEN began END)
    FROM episodes AS e WHERE learner = ?) AS begun,
(SELECT count(DISTINCT CASE WHEN status IN ('late', 'used') THEN number || ' ' || at END),
    count(CASE WHEN status IN ('taken', 'used') THEN 1 END),
    max(CASE WHEN status IN ('taken', 'used') THEN at END) FROM outcomes WHERE learner = ?) AS came
"""
COUNTED = (
    "open", "overdue", "pending", "forgotten", "defaulted", "ever_overdue", "oldest",
    "late", "taken", "heard",
)  # fmt: skip
"""What is counted; oldest: when the oldest open episode began; heard: when a fact last arrived."""
OVERDUE = {
    True: ("({now} - began > {limit})", "coalesce(closed, {now}) - began > {limit}"),
    False: (
        "({newest} - number > {limit})",
        "EXISTS (SELECT 1 FROM episodes AS later WHERE later.learner = e.learner AND later.number "
        "= e.number + 1 + {limit} AND (e.ended IS NULL OR e.ended > later.seq))",
    ),
}
"""Whether an episode is past its deadline, and whether it was open then, by whether it is timed."""


def counted(db: Tables, session: Session) -> Table:
    """The numbers of episodes and records, by the words of the report."""
    config, agent = session.config, session.runner.agent
    limit = 1e300 if config.deadline is None else config.deadline
    values = {"now": repr(session.clock()), "newest": agent.begun - 1, "limit": repr(limit)}
    past, ever = (text.format(**values) for text in OVERDUE[config.timed])
    statement = COUNTS.format(past=past, ever="FALSE" if config.grace is None else ever)
    (row,) = db.all(statement, session.name, session.name)
    return dict(zip(COUNTED, row, strict=True), begun=getattr(agent, "made", agent.begun))


TOTALS = """
WITH known AS (SELECT {day} AS day, d.action, ? + ? * e.total AS t,
    coalesce(? + ? * e.total, ?) AS u, coalesce(d.holdout, 0) AS w
    FROM episodes e LEFT JOIN decisions d
    ON d.learner = e.learner AND d.number = e.number AND d.step = 0 WHERE e.learner = ?),
weighted AS (SELECT day, action, t, u, w, CASE WHEN u IS NULL THEN 0 ELSE w END AS v FROM known),
sums AS (SELECT day, action, CAST(count(*) AS DOUBLE PRECISION) AS n,
    CAST(count(t) AS DOUBLE PRECISION) AS m, CAST(count(u) AS DOUBLE PRECISION) AS k,
    sum(coalesce(u, 0)) AS s, sum(w) AS held, sum(CASE WHEN t IS NULL THEN 0 ELSE w END) AS came,
    sum(v) AS v, sum(v * coalesce(u, 0)) AS vu, sum(coalesce(t * t, 0)) AS tt, sum(v * v) AS vv,
    sum(v * v * coalesce(u, 0)) AS vvu, sum(v * v * coalesce(u * u, 0)) AS vvuu
    FROM weighted GROUP BY day, action)
SELECT 'day', day, {sums} FROM sums GROUP BY day
UNION ALL SELECT 'action', action, {sums} FROM sums WHERE action IS NOT NULL GROUP BY action
UNION ALL SELECT 'recent', action, {sums} FROM sums WHERE action IS NOT NULL
    AND day IN (SELECT DISTINCT day FROM sums ORDER BY day DESC LIMIT {recent}) GROUP BY action
UNION ALL SELECT 'all', 0, {sums} FROM sums WHERE action IS NOT NULL GROUP BY 1
"""
"""Sums by day, by action, by action in the newest days, and of all decisions.

A decision and all of its outcomes count on the day of the decision, in UTC, which is numbered from
1970. An outcome t is in people's unit; u is the outcome where it is known, which is that of silence
without a report. With a holdout of share h, an action with probability p among n actions was drawn
by the holdout with probability w = h / (n p). Every decision counts for the holdout with that
weight w, and with v for the mean of the known outcomes.
"""
SUMS = (
    "sum(n), sum(m), sum(s) / nullif(sum(k), 0), sum(tt), "
    "sum(held), sum(came), sum(vu) / nullif(sum(v), 0), sum(v), sum(vv), sum(vvu), sum(vvuu)"
)
"""Decisions, those that have reported, the mean of the known outcomes, and the sum of t²; then the
same of the holdout, with what the error of its mean needs."""
NOTHING = (0.0, 0.0, None, 0.0, 0.0, 0.0, None, 0.0, 0.0, 0.0, 0.0)
Sums = dict[str, dict[int, Any]]


def totals(db: Tables, session: Session, silence: float | None) -> Sums:
    """The sums of a learner, by what they are of."""
    _, *unit = unit_of(session)
    statement = TOTALS.format(day=db.day, sums=SUMS, recent=RECENT)
    found: Sums = {"day": {}, "action": {}, "recent": {}, "all": {0: NOTHING}}
    for kind, place, *sums in db.all(statement, *unit, *unit, silence, session.name):
        found[kind][place] = sums
    return found


DELAYS = """
WITH found AS (SELECT CASE WHEN heard > began THEN heard - began ELSE 0 END AS delay
    FROM episodes WHERE learner = ? AND heard IS NOT NULL),
placed AS (SELECT delay, count(*) OVER () - 1 AS last,
    row_number() OVER (ORDER BY delay) - 1 AS place FROM found)
SELECT {} FROM placed
"""
"""Questions to the delays of first reports, in seconds."""
QUANTILES = ", ".join(f"max(CASE WHEN place <= {s} * last THEN delay END)" for s in SHARES)
HISTOGRAM = ", ".join(
    f"count(CASE WHEN delay >= {low!r} AND delay < {high!r} THEN 1 END)"
    for low, high in itertools.pairwise(BUCKETS)
)


def status(session: Session, seen: Seen) -> Any:
    """The status of a learner: counts, diagnostics, and recent episodes."""
    config, problem, name = session.config, session.problem, session.name
    with session.db.reader() as db:
        counts = counted(db, session)
        history = db.all(
            "SELECT coalesce(heard, closed), total, heard IS NULL FROM episodes "
            "WHERE learner = ? AND total IS NOT NULL ORDER BY number DESC LIMIT ?",
            name, HISTORY,
        )  # fmt: skip
        (delays,) = db.all(DELAYS.format(HISTOGRAM), name)
    return {
        "name": name,
        "problem": {
            key: value
            for key in ("states", "actions", "horizon", "names")
            if (value := getattr(problem, key, None)) is not None
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
        "diagnostics": seen[2],
        "history": [[at, total, bool(late)] for at, total, late in sorted(history)],
        "delays": delays,
        "arrivals": [dict(minute) for minute in session.arrivals],
        "now": session.clock(),
        "note": config.note,
    }


def episodes(
    session: Session,
    after: Annotated[int, Meta(ge=-1, le=LARGEST_WHOLE)] = -1,
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100,
) -> Any:
    """The open episodes, oldest first: age in seconds, whether overdue, decided steps."""
    now = session.clock()
    with session.db.reader() as db:
        rows = db.all(
            "SELECT e.number, e.began, d.step FROM (SELECT learner, number, began FROM episodes "
            "WHERE learner = ? AND closed IS NULL AND number > ? ORDER BY number LIMIT ?) AS e "
            "LEFT JOIN decisions AS d ON d.learner = e.learner AND d.number = e.number "
            "ORDER BY e.number, d.step",
            session.name, after, limit,
        )  # fmt: skip
    found = [
        {
            "episode": number,
            "age": now - began,
            "overdue": session.is_past(number, began, now),
            "decided": [step for _, _, step in some if step is not None],
        }
        for (number, began), some in itertools.groupby(rows, key=operator.itemgetter(0, 1))
    ]
    return {"episodes": found}


WORDS = {
    "pending": "decided, within the deadline, and no outcome has come",
    "overdue": "past the deadline and still open, for as long as the grace lasts",
    "late": "records that came after the deadline of their episode, since the beginning",
}
DAY = 86_400.0
"""Seconds."""
SILENT_DAYS = 2.0
"""The number of days without a report that causes a warning."""
EXPECTED = 7.0
"""The expected number of reports from which an action without any causes a warning."""
LEAST_SHARE = 0.05
"""The smallest exposure at which a day's outcome is estimated."""
UNLISTED = "no listed value: "
"""The beginning of the diagnostics of a category of which no listed value has come."""
UNKNOWN_SHARE = 0.05
"""The share of records with unknown episodes that causes a warning."""


def unit_of(session: Session) -> tuple[str, float, float]:
    """People's unit, "reward" or "cost"; an amount is shift + factor * amount in it."""
    problem, scale = session.problem, session.config.scale
    if problem.states is None or scale is None:
        return "reward" if problem.states is None else "cost", 0.0, 1.0
    return "reward", problem.horizon * scale.high, scale.low - scale.high


def silence_of(session: Session, overview: Overview) -> float | None:
    """The outcome of decisions that never report, in people's unit; None if unknown."""
    _, shift, factor = unit_of(session)
    default = session.config.default
    if overview.rows or default is None:
        return overview.silence
    return shift + factor * default


def look(session: Session) -> Seen:
    """Look at the agent."""
    agent, problem, config = session.runner.agent, session.problem, session.config
    if hasattr(agent, "verdict"):
        window = config.limit if config.window is None and config.timed else config.window
        judged = agent.verdict(window, config.range, config.level, unit=config.unit, time="seconds")
        return agent.overview(), judged, dict(agent.diagnostics())
    nothing = chances = np.zeros(0)
    if problem.horizon == 1 and problem.states is not None:
        twin = saving.from_bytes(saving.to_bytes(agent), "an agent")
        chances = problem.start_probabilities @ twin.begin_episode().policy[0]
    return Overview([], chances, [], nothing, nothing, None), None, dict(agent.diagnostics())


def report(session: Session, seen: Seen) -> Any:
    """The leading action, outcomes per day, delays, important features, and warnings."""
    overview, answer, _ = seen
    with session.db.reader() as db:
        counts, sums = counted(db, session), totals(db, session, overview.silence)
        ((count, *delays),) = db.all(DELAYS.format(f"count(*), {QUANTILES}"), session.name)
    now, (unit, *_) = session.clock(), unit_of(session)
    sign = 1.0 if unit == "reward" else -1.0
    rows = overview.rows or _rows(session, sums, sign, silence_of(session, overview))
    if answer is None:
        answer = verdict(rows, None, unit=session.config.unit) if rows else Verdict()
    warnings = _warnings(session, seen, rows, count, counts)
    return {
        "name": session.name,
        "unit": session.config.unit or unit,
        "higher_is_better": unit == "reward",
        "decides": session.problem.horizon == 1,
        "verdict": answer.sentence,
        "winner": answer.winner,
        "warnings": [{"kind": kind, "text": text} for kind, text in warnings],
        "actions": _actions(overview, rows, sign, sums),
        "features": overview.weights,
        "days": _days(sums, overview, now),
        "holdout": _holdout(sums, getattr(session.runner.agent, "holdout", 0.0)),
        "delays": _delays(count, delays, overview),
        **{word: counts[word] for word in ("begun", "pending", "overdue", "late")},
        "words": WORDS,
        "now": now,
    }


def _rows(session: Session, sums: Sums, sign: float, silence: float | None) -> list[ActionRow]:
    """A row per action, in units of which more is better; none for several steps."""
    problem = session.problem
    if problem.horizon > 1 or problem.actions is None:
        return []
    found = [sums["action"].get(a, NOTHING)[:4] for a in range(problem.actions)]
    plays, reports, mean, squares = np.nan_to_num(np.array(found, dtype=np.float64).T)
    names = list(map(str, getattr(problem, "names", None) or range(problem.actions)))
    raw = np.stack([sign * mean * reports, squares], axis=1)  # (A, 2)
    rows = life.table(names, (plays, reports, reports), life.means(reports, raw, reports))
    return rows if silence is None else [_with_pending(row, sign * silence) for row in rows]


def _with_pending(row: ActionRow, silent: float) -> ActionRow:
    """The row with an interval wide enough for all pending decisions to stay silent."""
    waiting = row.plays - row.reports
    if not (waiting > 0 and row.reports):
        return row
    mean = (row.reports * row.mean + waiting * silent) / row.plays
    half = (row.high - row.low) / 2.0
    return replace(row, low=min(row.low, mean - half), high=max(row.high, mean + half))


def _actions(overview: Overview, rows: list[ActionRow], sign: float, sums: Sums) -> list[Table]:
    """The table of actions, in people's units."""
    played = sum(row.plays for row in rows)
    lately = sum(newest[0] for newest in sums["recent"].values())
    chances = overview.probabilities.tolist() or [None] * len(rows)
    found = []
    for a, row in enumerate(rows):
        known = sign if row.reports else math.nan  # NaN is written as null
        low, high = sorted((known * row.low, known * row.high))
        found.append(
            {
                **asdict(row),
                "mean": known * row.mean,
                "low": low,
                "high": high,
                "probability": chances[a],
                "share": row.plays / played if played else None,
                "recent_share": sums["recent"].get(a, NOTHING)[0] / lately if lately else None,
                "action": a,
                "name": row.action,
            }
        )
    return found


def _days(sums: Sums, overview: Overview, now: float) -> list[Table]:
    """Outcomes by day of the decision, oldest first.

    so_far: per decision, from the outcomes so far. mean: corrected for outcomes to come; None if
    the exposure is too small.
    """
    found, silence = [], overview.silence
    for number, day in sorted(sums["day"].items())[-DAYS:]:
        waited, exposed = now - number * DAY, 1.0
        if silence is not None:
            age = max(waited - 0.5 * DAY, 0.5 * waited)
            exposed = float(np.interp(age, overview.ages, overview.shares))
        found.append(
            {
                "day": str(np.datetime64(int(number), "D")),
                "exposed": exposed,
                **_day(silence, exposed, *day[:3]),
                "holdout": _day(silence, exposed, *day[4:7]) if day[4] > 0.0 else None,
            }
        )
    return found


def _day(
    silence: float | None, exposed: float, decisions: float, reports: float, so_far: float | None
) -> Table:
    mean = so_far
    if so_far is not None and silence is not None:
        mean = silence + (so_far - silence) / exposed if exposed >= LEAST_SHARE else None
    return {"decisions": decisions, "reports": reports, "so_far": so_far, "mean": mean}


def _holdout(sums: Sums, share: float) -> Table | None:
    """The outcomes of the holdout and of all decisions, since the beginning."""
    _, _, everybody, _, decisions, reports, mean, v, vv, vvu, vvuu = sums["all"][0]
    if not (share or decisions):
        return None
    mean = math.nan if mean is None else mean  # NaN is written as null
    half = Z * math.sqrt(max(vvuu - 2.0 * mean * vvu + mean * mean * vv, 0.0)) / (v or 1.0)
    told = {"share": share, "decisions": decisions, "reports": reports, "all_mean": everybody}
    return {**told, "mean": mean, "low": mean - half, "high": mean + half}


def _delays(count: int, delays: list[float], overview: Overview) -> Table:
    """Quantiles of the delays of first reports, in days.

    corrected: whether they account for reports to come; otherwise they are of reports so far.
    """
    if not count:
        return {"count": 0, "quantiles": [], "words": "", "corrected": False}
    corrected = bool(overview.shares.any())
    if corrected:
        delays = np.interp(SHARES, overview.shares, overview.ages).tolist()
    found = [{"share": s, "days": t / DAY} for s, t in zip(SHARES, delays, strict=True)]
    words = f"half within {_time(delays[2])}, 9 of 10 within {_time(delays[4])}"
    return {"count": count, "quantiles": found, "words": words, "corrected": corrected}


def _time(seconds: float) -> str:
    """A duration in words."""
    for size, name in ((DAY, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"


def _warnings(
    session: Session, seen: Seen, rows: list[ActionRow], reports: int, counts: Any
) -> Iterator[tuple[str, str]]:
    """The kinds and texts of warnings, the most urgent first. reports: the number of first ones."""
    now, taken, since = session.clock(), counts["taken"], session.counts
    # with full information feedback is a cost function, not an outcome
    heard = taken if session.config.information == "full" else reports
    waited = (now - (counts["oldest"] or now)) / DAY
    if not heard and (taken or waited > SILENT_DAYS):
        came = f"{taken:,} records came and no outcome is complete" if taken else "nothing reported"
        waits = f"; the oldest open episode waits for {waited:.1f} days" if counts["oldest"] else ""
        yield "not_learned", f"Has not learned: {came}{waits}."
    silent = (now - counts["heard"]) / DAY if reports else 0.0
    if silent > SILENT_DAYS:
        yield "silent", f"Nothing has reported for {silent:.1f} days."
    played = sum(row.exposed for row in rows if row.reports)
    rate = sum(row.reports for row in rows) / played if played else 0.0
    for row in rows:
        expected = rate * (row.exposed or row.plays)
        if not row.reports and expected >= EXPECTED:
            yield (
                "never_reports",
                f"{row.action} never reports: {row.plays:,} plays, about {expected:.0f} reports "
                "were to be expected.",
            )
    for name, plays in seen[2].items():
        if name.startswith(UNLISTED):
            yield (
                "unlisted",
                f"No value of {name.removeprefix(UNLISTED)} was a listed one, in {plays:,.0f} "
                "decisions: compare the list with what is sent.",
            )
    known = sum(since[kind] for kind in ("taken", "duplicate", "late", "conflict"))
    unknown, differing = since["unknown"], session.runner.differing
    if unknown > UNKNOWN_SHARE * (known + unknown):
        yield "unknown", f"{unknown:,} records were of decisions that are not known."
    if differing:
        yield (
            "differing",
            f"{differing:,} decisions came out otherwise when the log was read again: another "
            "machine or other versions.",
        )


def measured(session: Session, seen: Seen) -> Table:
    """The metrics of a learner, which `metrics.json` explains; those with a label by its values."""
    with session.db.reader() as db:
        counts = counted(db, session)
    since, (_, answer, diagnostics) = session.counts, seen
    leader = {answer.leader: answer.leads} if answer and answer.leader else {}
    return {
        "ready": 1,
        **{f"episodes_{word}": counts[word] for word in ("begun", "open", "pending", "overdue")},
        "calls_waiting": session.runner.waiting,
        "log_events": session.runner.seq,
        "policies_differing": session.runner.differing,
        "late_used": since["late_used"],
        "decisions": since["decided"],
        "agent": diagnostics,
        "records": {kind: since[kind] for kind in STATUS},
        "closed": {how: counts[how] for how in ("forgotten", "defaulted")},
        "at_stake": answer.at_stake if answer else {},
        "leads": leader,
        "winner": {answer.winner: 1} if answer and answer.winner else {},
    }
