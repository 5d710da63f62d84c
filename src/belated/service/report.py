"""What a learner says to people and programs: counts, status, report, and metrics for Prometheus.

The counts and sums are questions to the tables that change nothing. If the agent has an `overview`,
the report uses it, because it accounts for outcomes that are still to come. For all other agents
the sums of the tables count the outcomes so far. `WORDS` defines the counts; status, report, page
and metrics use them in this sense only.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from belated.core import saving
from belated.core.arrays import Floats
from belated.linear import life
from belated.linear.life import Overview
from belated.service.learner import Learner
from belated.service.session import Session
from belated.service.tables import StorageError, Tables
from belated.service.wire import Refusal
from belated.verdict import ActionRow, Verdict, Z, verdict

HISTORY = 1000
"""The number of newest reports that the page shows."""
BUCKETS = [0.0, *(2.0**i for i in range(31)), np.inf]
"""The edges of the buckets of delays, in seconds."""
DAYS = 400
"""The number of days that are reported."""
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


def counted(db: Tables, session: Session) -> dict[str, Any]:
    """The numbers of episodes and records, by the words of the report."""
    config, agent = session.config, session.runner.agent
    begun = getattr(agent, "made", agent.begun)
    limit = 1e300 if config.deadline is None else config.deadline
    values = {"now": repr(session.clock()), "newest": agent.begun - 1, "limit": repr(limit)}
    past, ever = (text.format(**values) for text in OVERDUE[config.timed])
    statement = COUNTS.format(past=past, ever="FALSE" if config.grace is None else ever)
    (row,) = db.all(statement, session.name, session.name)
    return {"begun": begun, **dict(zip(COUNTED, row, strict=True))}


TOTALS = """
WITH came AS (SELECT {day} AS day, coalesce(d.action, -1) AS action, ? + ? * e.total AS t,
    coalesce(d.holdout, 0) AS w FROM episodes e LEFT JOIN decisions d
    ON d.learner = e.learner AND d.number = e.number AND d.step = 0 WHERE e.learner = ?),
known AS (SELECT day, action, t, w, coalesce(t, ?) AS u FROM came),
weighted AS (SELECT day, action, t, w, u, CASE WHEN u IS NOT NULL THEN w END AS v FROM known)
SELECT day, action, count(*), count(t), count(u), sum(u),
    sum(w), sum(CASE WHEN t IS NOT NULL THEN w END), sum(v), sum(v * u),
    sum(t * t), sum(v * v), sum(v * v * u), sum(v * v * u * u)
FROM weighted GROUP BY 1, 2 ORDER BY 1
"""
"""Sums by day and action, -1 without a decision.

A decision and all of its outcomes count on the day of the decision, in UTC. An outcome t is in
people's unit; u is the outcome where it is known, which is that of silence without a report. With a
holdout of share h, an action with probability p among n actions was drawn by the holdout with
probability w = h / (n p). Every decision counts for the holdout with that weight w.
"""
DAYS_OF, ACTIONS_OF, ALL, HELD, SQUARES, SPREAD = 0, 1, slice(2, 6), slice(6, 10), 10, slice(11, 14)
"""The columns: the number of the day since 1970; the action; decisions, those that have reported,
those with a known outcome, and its sum; the same of the holdout; the sum of t²; those of w², w² u
and w² u² where u is known."""


def totals_of(db: Tables, session: Session, silence: float | None) -> Floats:
    """The sums of a learner, (N, 14)."""
    _, shift, factor = unit_of(session)
    found = db.all(TOTALS.format(day=db.day), shift, factor, session.name, silence)
    return np.nan_to_num(np.array(found, dtype=np.float64).reshape(-1, SPREAD.stop))


def delays_of(db: Tables, session: Session) -> Floats:
    """The delays of first reports, in seconds."""
    found = db.all(
        "SELECT heard - began FROM episodes WHERE learner = ? AND heard IS NOT NULL", session.name
    )
    return np.maximum(np.array(found, dtype=np.float64).ravel(), 0.0)


def described(session: Session, seen: Any) -> dict[str, Any]:
    """The status of a learner, for the page and the client."""
    config, problem, name = session.config, session.problem, session.name
    with session.db.reader() as db:
        counts = counted(db, session)
        history = db.all(
            "SELECT coalesce(heard, closed), total, heard IS NULL FROM episodes "
            "WHERE learner = ? AND total IS NOT NULL ORDER BY number DESC LIMIT ?",
            name, HISTORY,
        )  # fmt: skip
        delays, _ = np.histogram(delays_of(db, session), BUCKETS)
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
        "delays": delays.tolist(),
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
RECENT = 7
"""The number of days for the recent share of traffic."""
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


def silence_of(session: Session, seen: AgentSummary) -> float | None:
    """The outcome of decisions that never report, in people's unit; None if unknown."""
    if seen.overview is not None:
        return seen.overview.silence
    _, shift, factor = unit_of(session)
    default = session.config.default
    return None if default is None else shift + factor * default


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """The state of an agent at the time of a report. overview, verdict: None if it has none."""

    overview: Overview | None
    verdict: Verdict | None
    probabilities: Floats | None
    retired: frozenset[int]
    holdout: float
    diagnostics: dict[str, float]


def look(session: Session) -> AgentSummary:
    """Look at the agent, after deadlines have been applied; nothing else changes."""
    session.expire()
    agent, problem, config = session.runner.agent, session.problem, session.config
    seen = chances = judged = None
    if hasattr(agent, "overview"):
        seen = agent.overview()
        chances = seen.probabilities if len(seen.probabilities) else None
    elif problem.horizon == 1 and problem.states is not None:
        twin = saving.from_bytes(saving.to_bytes(agent), "an agent")
        chances = problem.start_probabilities @ twin.begin_episode().policy[0]
    if hasattr(agent, "verdict"):
        window = config.limit if config.window is None and config.timed else config.window
        judged = agent.verdict(
            window, config.range, config.level, unit=config.unit or "", time="seconds"
        )
    retired, share = getattr(agent, "retired", frozenset[int]()), getattr(agent, "holdout", 0.0)
    return AgentSummary(seen, judged, chances, retired, share, dict(agent.diagnostics()))


def report(session: Session, seen: AgentSummary) -> dict[str, Any]:
    """The whole report."""
    silence = None if seen.overview is None else seen.overview.silence
    with session.db.reader() as db:
        counts, delays = counted(db, session), delays_of(db, session)
        totals = totals_of(db, session, silence)
    now, (unit, *_) = session.clock(), unit_of(session)
    sign = 1.0 if unit == "reward" else -1.0
    rows = _rows(session, seen, totals, sign)
    answer = seen.verdict or (verdict(rows, None, unit=session.config.unit or "") if rows else None)
    warnings = _warnings(session, seen, rows, len(delays), counts)
    return {
        "name": session.name,
        "unit": session.config.unit or unit,
        "higher_is_better": unit == "reward",
        "decides": session.problem.horizon == 1,
        "verdict": "" if answer is None else answer.sentence,
        "winner": None if answer is None else answer.winner,
        "warnings": [{"kind": kind, "text": text} for kind, text in warnings],
        "actions": _actions(seen, rows, sign, totals),
        "features": [asdict(weight) for weight in seen.overview.weights] if seen.overview else [],
        "days": _days(totals, seen, silence, now),
        "holdout": _holdout(totals, seen.holdout),
        "delays": _delays(delays, seen),
        **{word: counts[word] for word in ("begun", "pending", "overdue", "late")},
        "words": WORDS,
        "now": now,
    }


def _rows(session: Session, seen: AgentSummary, totals: Floats, sign: float) -> list[ActionRow]:
    """A row per action, in units of which more is better; none for several steps."""
    if seen.overview is not None:
        return seen.overview.rows
    problem = session.problem
    if problem.horizon > 1 or problem.actions is None:
        return []
    played = (totals[totals[:, ACTIONS_OF] == a] for a in range(problem.actions))
    sums = np.array([one.sum(axis=0) for one in played])
    plays, reports, _, total = sums[:, ALL].T
    names = list(map(str, getattr(problem, "names", None) or range(problem.actions)))
    raw = np.stack([sign * total, sums[:, SQUARES]], axis=1)  # (A, 2)
    rows = life.table(names, plays, reports, reports, raw, 0.0, None, set(seen.retired))
    silence = silence_of(session, seen)
    return rows if silence is None else [_with_pending(row, sign * silence) for row in rows]


def _with_pending(row: ActionRow, silent: float) -> ActionRow:
    """The row with an interval wide enough for all pending decisions to stay silent."""
    waiting = row.plays - row.reports
    if not (waiting > 0 and row.reports):
        return row
    mean = (row.reports * row.mean + waiting * silent) / row.plays
    half = (row.high - row.low) / 2.0
    return replace(row, low=min(row.low, mean - half), high=max(row.high, mean + half))


def _actions(
    seen: AgentSummary, rows: list[ActionRow], sign: float, totals: Floats
) -> list[dict[str, Any]]:
    """The table of actions, in people's units."""
    days = np.unique(totals[:, DAYS_OF])[-RECENT:]
    recent = totals[np.isin(totals[:, DAYS_OF], days) & (totals[:, ACTIONS_OF] >= 0)]
    played, lately = sum(row.plays for row in rows), recent[:, ALL.start].sum()
    found = []
    for a, row in enumerate(rows):
        low, high = sorted((sign * row.low, sign * row.high))
        values = {"mean": sign * row.mean, "low": low, "high": high}
        newest = recent[recent[:, ACTIONS_OF] == a, ALL.start].sum()
        shares = {
            "probability": None if seen.probabilities is None else float(seen.probabilities[a]),
            "share": row.plays / played if played else None,
            "recent_share": float(newest / lately) if lately else None,
        }
        told = {**asdict(row), **(values if row.reports else dict.fromkeys(values)), **shares}
        found.append({**told, "action": a, "name": row.action})
    return found


def _days(
    totals: Floats, seen: AgentSummary, silence: float | None, now: float
) -> list[dict[str, Any]]:
    """Outcomes by day of the decision, oldest first.

    so_far: per decision, from the outcomes so far. mean: corrected for outcomes to come; None if
    the exposure is too small.
    """
    found = []
    for number in np.unique(totals[:, DAYS_OF])[-DAYS:].tolist():
        sums = totals[totals[:, DAYS_OF] == number].sum(axis=0)
        age = max(now - (number + 0.5) * DAY, 0.5 * (now - number * DAY))
        exposed = 1.0
        if seen.overview is not None and silence is not None:
            exposed = float(np.interp(age, seen.overview.ages, seen.overview.shares))
        everybody, held = (_day(sums[kind].tolist(), silence, exposed) for kind in (ALL, HELD))
        day = datetime.fromtimestamp(number * DAY, UTC).date().isoformat()
        holdout = held if held["decisions"] > 0.0 else None
        found.append({"day": day, "exposed": exposed, **everybody, "holdout": holdout})
    return found


def _day(sums: list[float], silence: float | None, exposed: float) -> dict[str, Any]:
    decided, reports, known, total = sums
    so_far = mean = total / known if known > 0.0 else None
    if so_far is not None and silence is not None:
        mean = silence + (so_far - silence) / exposed if exposed >= LEAST_SHARE else None
    return {"decisions": decided, "reports": reports, "so_far": so_far, "mean": mean}


def _holdout(totals: Floats, share: float) -> dict[str, Any] | None:
    """The outcomes of the holdout and of all decisions, since the beginning."""
    whole = totals[totals[:, ACTIONS_OF] >= 0].sum(axis=0)
    everybody, held = (_day(whole[kind].tolist(), None, 1.0) for kind in (ALL, HELD))
    if not (share or held["decisions"]):
        return None
    mean, ends = held["so_far"], dict.fromkeys(("low", "high"))
    if mean is not None:
        variance = whole[SPREAD] @ [mean * mean, -2.0 * mean, 1.0]
        half = Z * math.sqrt(max(variance, 0.0)) / float(whole[HELD][2])
        ends = {"low": mean - half, "high": mean + half}
    told = {word: held[word] for word in ("decisions", "reports", "mean")}
    return {"share": share, **told, **ends, "all_mean": everybody["mean"]}


def _delays(delays: Floats, seen: AgentSummary) -> dict[str, Any]:
    """Quantiles of the delays of first reports, in days.

    corrected: whether they account for reports to come; otherwise they are of reports so far.
    """
    count, told = len(delays), seen.overview
    corrected = told is not None and bool(told.shares.any()) and count > 0
    if told is not None and corrected:
        at = np.interp(SHARES, told.shares, told.ages).tolist()
    else:
        at = np.quantile(delays, SHARES, method="lower").tolist() if count else []
    found = [{"share": share, "days": t / DAY} for share, t in zip(SHARES, at, strict=False)]
    words = f"half within {_time(at[2])}, 9 of 10 within {_time(at[4])}" if count else ""
    return {"count": count, "quantiles": found, "words": words, "corrected": corrected}


def _time(seconds: float) -> str:
    """A duration in words."""
    for size, name in ((DAY, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"


def _warnings(
    session: Session, seen: AgentSummary, rows: list[ActionRow], reports: int, counts: Any
) -> Iterator[tuple[str, str]]:
    """The kinds and texts of warnings, the most urgent first. reports: the number of first ones."""
    now, taken = session.clock(), counts["taken"]
    waited = (now - (counts["oldest"] or now)) / DAY
    # with full information feedback is a cost function, not an outcome
    heard = taken if session.config.information == "full" else reports
    if taken and not heard and counts["begun"]:
        waits = "; the oldest open episode waits for more" if counts["oldest"] else ""
        text = f"{taken:,} records came and no outcome is complete{waits}."
        yield "not_learned", f"Has not learned: {text}"
    elif counts["begun"] and not heard and waited > SILENT_DAYS:
        text = f"nothing has reported, and it decides for {waited:.1f} days."
        yield "not_learned", f"Has not learned: {text}"
    silent = (now - counts["heard"]) / DAY if reports else 0.0
    if silent > SILENT_DAYS:
        yield "silent", f"Nothing has reported for {silent:.1f} days."
    played = sum(row.exposed for row in rows if row.reports)
    rate = sum(row.reports for row in rows) / played if played else 0.0
    for row in rows:
        expected = rate * (row.exposed or row.plays)
        if not row.reports and expected >= EXPECTED:
            text = f"{row.plays:,} plays, about {expected:.0f} reports were to be expected."
            yield "never_reports", f"{row.action} never reports: {text}"
    for name, plays in seen.diagnostics.items():
        if name.startswith(UNLISTED):
            text = f"No value of {name.removeprefix(UNLISTED)} was a listed one, in "
            yield "unlisted", f"{text}{plays:,.0f} decisions: compare the list with what is sent."
    since = session.counts
    known = sum(since[kind] for kind in ("taken", "duplicate", "late", "conflict"))
    unknown, differing = since["unknown"], session.runner.differing
    if unknown > UNKNOWN_SHARE * (known + unknown):
        yield "unknown", f"{unknown:,} records were of decisions that are not known."
    if differing:
        text = "came out otherwise when the log was read again: another machine or other versions."
        yield "differing", f"{differing:,} decisions {text}"


RECORDS = ("taken", "duplicate", "conflict", "late", "unknown", "invalid")
METRICS = {
    "ready": "1 if driven here",
    "episodes_begun": "episodes that have begun",
    "episodes_open": "episodes that are open",
    "episodes_pending": "those within their deadline of which no outcome came",
    "episodes_overdue": "those past their deadline, within the grace",
    "calls_waiting": "calls that wait for the agent",
    "log_events": "requests that changed something",
    "policies_differing": "decisions that replay gave otherwise",
    "at_stake": "most that is lost per decision if everybody gets the leader",
    "late_used": "late records that were used, since the start",
    "decisions": "decisions since the start",
    "agent": "what the agent tells",
    "records": "feedback by outcome, since the start",
    "closed": "episodes closed by the deadline",
    "leads": "probability that the leader is the best action",
    "winner": "1 for the action that wins, sure at every look",
}
COUNTERS = ("late_used", "decisions", "records", "closed")
"""The metrics that only grow; the others are gauges."""
LABELS = {
    "agent": "name",
    "records": "outcome",
    "closed": "how",
    "leads": "action",
    "winner": "action",
}
"""Metrics with a value for each of these, by one more label."""


def _families(found: dict[str, dict[str, Any]]) -> Iterator[Any]:
    """The metrics of learners by name."""
    for name, about in METRICS.items():
        kind = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
        more = [LABELS[name]] if name in LABELS else []
        family = kind(f"belated_{name}", about, labels=["learner", *more])
        for learner, values in found.items():
            value = values.get(name, {})
            for one, number in value.items() if isinstance(value, dict) else [("", value)]:
                family.add_metric([learner, one] if more else [learner], float(number))
        yield family


def _measured(session: Session, seen: AgentSummary) -> dict[str, Any]:
    """The metrics of a learner; those with a label are a value by label."""
    with session.db.reader() as db:
        counts = counted(db, session)
    since, answer = session.counts, seen.verdict
    leader = {answer.leader: answer.leads} if answer and answer.leader else {}
    return {
        "ready": 1,
        **{f"episodes_{word}": counts[word] for word in ("begun", "open", "pending", "overdue")},
        "calls_waiting": session.runner.waiting,
        "log_events": session.runner.seq,
        "policies_differing": session.runner.differing,
        "late_used": since["late_used"],
        "decisions": since["decided"],
        "agent": seen.diagnostics,
        "records": {kind: since[kind] for kind in RECORDS},
        "closed": {how: counts[how] for how in ("forgotten", "defaulted")},
        "at_stake": answer.at_stake if answer else {},
        "leads": leader,
        "winner": {answer.winner: 1} if answer and answer.winner else {},
    }


async def metrics(learners: Iterable[Learner]) -> bytes:
    """The metrics in the text format; of a learner that does not run here, only that."""
    found: dict[str, dict[str, Any]] = {}
    for learner in learners:
        found[learner.name] = {"ready": 0}
        with suppress(Refusal, StorageError):
            seen = await learner.ask(look)
            found[learner.name] = await asyncio.to_thread(_measured, learner.opened(), seen)
    collected: Any = SimpleNamespace(collect=lambda: _families(found))
    return generate_latest(collected)
