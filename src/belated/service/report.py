"""What a learner says to people and programs: counts, status, report, and metrics for Prometheus.

The counts and sums are questions to the tables that change nothing. If the agent has an `overview`,
the report uses it, because it accounts for outcomes that are still to come. For all other agents
the sums of the tables count the outcomes so far. `WORDS` defines the counts; status, report, page
and metrics use them in this sense only.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
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
BUCKETS = 32
"""The number of buckets of delays; the last has 2**30 seconds and more."""
DAYS = 400
"""The number of days that are reported."""
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(slots=True)
class Totals:
    """Sums of a learner.

    A decision and all of its outcomes count on the day of the decision, in UTC. With a holdout of
    share h, an action with probability p among n actions was drawn by the holdout with probability
    h / (n p). Every decision counts for the holdout with that weight w.

    Attributes:
        days: eleven sums of each of the newest days, by number of days since 1970: decisions,
            those that have reported, and the sums of their outcomes t in people's unit and of
            their squares; the same of the holdout; and the sums of w², w² t and w² t² over the
            holdout's weights w.
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


TOTALS = """
SELECT day, action, count(*), count(t), sum(t), sum(t * t),
    sum(w), sum(CASE WHEN t IS NOT NULL THEN w ELSE 0 END), sum(w * t), sum(w * t * t),
    sum(w * w), sum(w * w * t), sum(w * w * t * t)
FROM (SELECT {day} AS day, d.action AS action, ? + ? * e.total AS t, coalesce(d.holdout, 0) AS w
    FROM episodes e LEFT JOIN decisions d
    ON d.learner = e.learner AND d.number = e.number AND d.step = 0 WHERE e.learner = ?) AS told
GROUP BY 1, 2 ORDER BY 1
"""
"""The sums of `Totals` by day and action."""


def totals_of(db: Tables, session: Session) -> Totals:
    """The sums of a learner."""
    unit = unit_of(session)
    days: dict[int, Floats] = defaultdict(lambda: np.zeros(11))
    actions: dict[int, Floats] = defaultdict(lambda: np.zeros(11))
    plays = {}
    for day, action, *found in db.all(
        TOTALS.format(day=db.day), unit.shift, unit.factor, session.name
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


@dataclass(frozen=True, slots=True)
class Unit:
    """The conversion of an amount of the tally for people: shift + factor * amount.

    name: "reward" or "cost". sign: 1 if more is better, -1 if less is.
    """

    name: str
    shift: float = 0.0
    factor: float = 1.0
    sign: float = 1.0


def unit_of(session: Session) -> Unit:
    """The unit of a learner's outcomes for people."""
    problem, scale = session.problem, session.config.scale
    if problem.states is None or scale is None:
        return Unit("reward") if problem.states is None else Unit("cost", sign=-1.0)
    return Unit("reward", problem.horizon * scale.high, scale.low - scale.high)


def silence_of(session: Session, seen: AgentSummary, unit: Unit) -> float | None:
    """The outcome of decisions that never report, in people's unit; None if unknown."""
    if seen.overview is not None:
        return seen.overview.silence
    default = session.config.default
    return None if default is None else unit.shift + unit.factor * default


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
    agent, problem = session.runner.agent, session.problem
    seen = chances = None
    if hasattr(agent, "overview"):
        seen = agent.overview()
        chances = seen.probabilities if len(seen.probabilities) else None
    elif problem.horizon == 1 and problem.states is not None:
        twin = saving.from_bytes(saving.to_bytes(agent), "an agent")
        chances = problem.start_probabilities @ twin.begin_episode().policy[0]
    retired, share = getattr(agent, "retired", frozenset[int]()), getattr(agent, "holdout", 0.0)
    told = dict(agent.diagnostics())
    return AgentSummary(seen, judged(session), chances, retired, share, told)


def judged(session: Session) -> Any:
    """The verdict of the agent, by the terms of the learner; None if it has none."""
    agent, config = session.runner.agent, session.config
    window = config.window if config.window is not None or not config.timed else config.limit
    terms = window, config.range, config.level
    return agent.verdict(*terms, time="seconds") if hasattr(agent, "verdict") else None


def report(session: Session, seen: AgentSummary) -> dict[str, Any]:
    """The whole report."""
    with session.db.reader() as db:
        counts, totals = counted(db, session), totals_of(db, session)
    problem, now = session.problem, session.clock()
    unit = unit_of(session)
    rows = _rows(session, seen, totals, unit)
    days = list(totals.days)
    silence = None if seen.overview is None else seen.overview.silence
    answer = seen.verdict or (verdict(rows, None) if rows else None)
    warnings = _warnings(session, seen, rows, totals, counts)
    return {
        "name": session.name,
        "unit": unit.name,
        "higher_is_better": unit.sign > 0,
        "decides": problem.horizon == 1,
        "verdict": "" if answer is None else answer.sentence,
        "winner": None if answer is None else answer.winner,
        "warnings": [{"kind": kind, "text": text} for kind, text in warnings],
        "actions": _actions(seen, rows, unit, totals, days),
        "features": [asdict(weight) for weight in seen.overview.weights] if seen.overview else [],
        "days": _days(totals, seen, silence, now),
        "holdout": _holdout(totals, silence, seen.holdout),
        "delays": _delays(totals, seen),
        **{word: counts[word] for word in ("begun", "pending", "overdue", "late")},
        "words": WORDS,
        "now": now,
    }


def _rows(session: Session, seen: AgentSummary, totals: Totals, unit: Unit) -> list[ActionRow]:
    """A row per action, in units of which more is better; none for several steps."""
    if seen.overview is not None:
        return seen.overview.rows
    problem = session.problem
    if problem.horizon > 1 or problem.actions is None:
        return []
    sums = np.array([totals.actions.get(a, np.zeros(11)) for a in range(problem.actions)])
    plays, reports = sums[:, 0].astype(int), sums[:, 1]
    raw = sums[:, 2:4] * [unit.sign, 1.0]  # (A, 2)
    names = list(map(str, getattr(problem, "names", None) or range(problem.actions)))
    rows = life.table(names, plays, reports, reports, raw, 0.0, None, set(seen.retired))
    default = session.config.default
    if default is None:
        return rows
    silent = unit.sign * (unit.shift + unit.factor * default)
    return [_with_pending(row, silent) for row in rows]


def _with_pending(row: ActionRow, silent: float) -> ActionRow:
    """The row with an interval wide enough for all pending decisions to stay silent."""
    waiting = row.plays - row.reports
    if not (waiting > 0 and row.reports):
        return row
    mean = (row.reports * row.mean + waiting * silent) / row.plays
    half = (row.high - row.low) / 2.0
    return replace(row, low=min(row.low, mean - half), high=max(row.high, mean + half))


def _actions(
    seen: AgentSummary, rows: list[ActionRow], unit: Unit, totals: Totals, days: list[int]
) -> list[dict[str, Any]]:
    """The table of actions, in people's units."""
    played = sum(row.plays for row in rows)
    recent: Counter[int] = Counter()
    for (day, action), count in totals.plays.items():
        recent[action] += count if day in days[-RECENT:] else 0
    lately = recent.total()
    found = []
    for a, row in enumerate(rows):
        ends = sorted((unit.sign * row.low, unit.sign * row.high))
        now = seen.probabilities
        found.append(
            {
                "action": a,
                "name": row.action,
                "plays": row.plays,
                "reports": row.reports,
                "exposed": row.exposed,
                "mean": unit.sign * row.mean if row.reports else None,
                "low": ends[0] if row.reports else None,
                "high": ends[1] if row.reports else None,
                "leads": row.leads,
                "probability": None if now is None else float(now[a]),
                "share": row.plays / played if played else None,
                "recent_share": recent[a] / lately if lately else None,
                "retired": row.retired,
            }
        )
    return found


def _exposure(seen: AgentSummary, age: float) -> float:
    """The share of the outcomes that can have arrived at an age in seconds."""
    if seen.overview is None or seen.overview.silence is None:
        return 1.0
    return float(np.interp(age, seen.overview.ages, seen.overview.shares))


def _days(
    totals: Totals, seen: AgentSummary, silence: float | None, now: float
) -> list[dict[str, Any]]:
    """Outcomes by day of the decision, oldest first.

    so_far: per decision, from the outcomes so far. mean: corrected for outcomes to come; None if
    the exposure is too small.
    """
    found = []
    for number, day in totals.days.items():
        age = max(now - (number + 0.5) * DAY, 0.5 * (now - number * DAY))
        exposed, held = _exposure(seen, age), day.tolist()[4:8]
        began = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)
        found.append(
            {
                "day": began.date().isoformat(),
                "exposed": exposed,
                **_day(day.tolist()[:4], silence, exposed),
                "holdout": _day(held, silence, exposed) if held[0] > 0.0 else None,
            }
        )
    return found


def _day(sums: list[float], silence: float | None, exposed: float) -> dict[str, Any]:
    return {
        "decisions": sums[0],
        "reports": sums[1],
        "so_far": _mean(sums, silence, 1.0),
        "mean": _mean(sums, silence, exposed) if exposed >= LEAST_SHARE else None,
    }


def _mean(sums: list[float], silence: float | None, exposed: float) -> float | None:
    """The outcome per decision; only of those that have reported if silence has no meaning."""
    decided, reports, total, _ = sums
    if silence is None:
        return total / reports if reports > 0.0 else None
    return silence + (total - silence * reports) / (decided * exposed) if decided > 0.0 else None


def _holdout(totals: Totals, silence: float | None, share: float) -> dict[str, Any] | None:
    """The outcomes of the holdout and of all decisions, since the beginning."""
    held = totals.whole.tolist()[4:8]
    if not (share or held[0]):
        return None
    mean, error = _mean(held, silence, 1.0), math.inf
    mass = held[0] if silence is not None else held[1]
    if mean is not None and mass > 0.0:
        w, wt, wtt = totals.whole[8:].tolist()
        m = mean - (silence or 0.0)  # relative to silence, which does not change the variance
        error = math.sqrt(max(wtt - 2 * m * wt + m * m * w, 0.0)) / mass
    everyone = sum(totals.actions.values(), np.zeros(11)).tolist()[:4]
    return {
        "share": share,
        "decisions": held[0],
        "reports": held[1],
        "mean": mean,
        "low": None if mean is None else mean - Z * error,
        "high": None if mean is None else mean + Z * error,
        "all_mean": _mean(everyone, silence, 1.0),
    }


def _delays(totals: Totals, seen: AgentSummary) -> dict[str, Any]:
    """Quantiles of the delays of first reports, in days.

    corrected: whether they account for reports to come; otherwise they are of reports so far.
    """
    count, at, told = totals.reports, totals.delays, seen.overview
    corrected = told is not None and bool(told.shares.any()) and count > 0
    if told is not None and corrected:
        at = [float(np.interp(share, told.shares, told.ages)) for share in SHARES]
    found = [{"share": share, "days": t / DAY} for share, t in zip(SHARES, at, strict=False)]
    words = "" if not at else f"half within {_time(at[2])}, 9 of 10 within {_time(at[4])}"
    return {"count": count, "quantiles": found, "words": words, "corrected": corrected}


def _time(seconds: float) -> str:
    """A duration in words."""
    for size, name in ((DAY, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"


def _warnings(
    session: Session, seen: AgentSummary, rows: list[ActionRow], totals: Totals, counts: Any
) -> Iterator[tuple[str, str]]:
    """The kinds and texts of warnings, the most urgent first."""
    now, taken = session.clock(), counts["taken"]
    waited = (now - (counts["oldest"] or now)) / DAY
    # with full information feedback is a cost function, not an outcome
    heard = taken if session.config.information == "full" else totals.reports
    if taken and not heard and counts["begun"]:
        waits = "; the oldest open episode waits for more" if counts["oldest"] else ""
        text = f"{taken:,} records came and no outcome is complete{waits}."
        yield "not_learned", f"Has not learned: {text}"
    elif counts["begun"] and not heard and waited > SILENT_DAYS:
        text = f"nothing has reported, and it decides for {waited:.1f} days."
        yield "not_learned", f"Has not learned: {text}"
    silent = (now - counts["heard"]) / DAY if totals.reports else 0.0
    if silent > SILENT_DAYS:
        yield "silent", f"Nothing has reported for {silent:.1f} days."
    played = sum(row.exposed for row in rows if row.reports)
    rate = sum(row.reports for row in rows) / played if played else 0.0
    for a, row in enumerate(rows):
        expected = rate * (row.exposed or totals.actions.get(a, [0.0])[0])
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
GAUGES = {
    "ready": "1 if driven here",
    "episodes_begun": "episodes that have begun",
    "episodes_open": "episodes that are open",
    "episodes_pending": "those within their deadline of which no outcome came",
    "episodes_overdue": "those past their deadline, within the grace",
    "calls_waiting": "calls that wait for the agent",
    "log_events": "requests that changed something",
    "policies_differing": "decisions that replay gave otherwise",
    "at_stake": "most that is lost per decision if everybody gets the leader",
}
COUNTERS = {
    "late_used": "late records that were used, since the start",
    "decisions": "decisions since the start",
}
LABELLED = {
    "agent": (GaugeMetricFamily, "what the agent tells", "name"),
    "records": (CounterMetricFamily, "feedback by outcome, since the start", "outcome"),
    "closed": (CounterMetricFamily, "episodes closed by the deadline", "how"),
    "leads": (GaugeMetricFamily, "probability that the leader is the best action", "action"),
    "winner": (GaugeMetricFamily, "1 for the action that wins, sure at every look", "action"),
}
"""Metrics with one more label."""


def _families(found: dict[str, dict[str, Any]]) -> Iterator[Any]:
    """The metrics of learners by name; a mapping has a value for each of its labels."""
    plain = ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS))
    kinds: dict[str, Any] = {n: (k, about) for k, names in plain for n, about in names.items()}
    for name, (kind, about, *label) in {**kinds, **LABELLED}.items():
        family = kind(f"belated_{name}", about, labels=["learner", *label])
        for learner, values in found.items():
            value = values.get(name, {})
            for one, number in value.items() if isinstance(value, dict) else [("", value)]:
                family.add_metric([learner, one] if label else [learner], float(number))
        yield family


def _measured(session: Session, diagnostics: Any, answer: Verdict | None) -> dict[str, Any]:
    with session.db.reader() as db:
        counts = counted(db, session)
    since = session.counts
    return {
        "ready": 1,
        **{f"episodes_{word}": counts[word] for word in ("begun", "open", "pending", "overdue")},
        "calls_waiting": session.runner.waiting,
        "log_events": session.runner.seq,
        "policies_differing": session.runner.differing,
        "late_used": since["late_used"],
        "decisions": since["decided"],
        "agent": dict(diagnostics),
        "records": {kind: since[kind] for kind in RECORDS},
        "closed": {how: counts[how] for how in ("forgotten", "defaulted")},
        "at_stake": answer.at_stake if answer else {},
        "leads": {answer.leader: answer.leads} if answer and answer.leader else {},
        "winner": {answer.winner: 1} if answer and answer.winner else {},
    }


async def _metrics_of(learner: Learner) -> dict[str, Any]:
    """The metrics of a learner; only that it is not ready if it does not run here."""

    def asked(session: Session) -> tuple[Any, ...]:
        session.expire()
        return session, session.runner.agent.diagnostics(), judged(session)

    try:
        return await asyncio.to_thread(_measured, *await learner.ask(asked))
    except (Refusal, StorageError):
        return {"ready": 0}


async def metrics(learners: Iterable[Learner]) -> bytes:
    """The metrics in the text format."""
    listed = {learner.name: _metrics_of(learner) for learner in learners}
    found = dict(zip(listed, await asyncio.gather(*listed.values()), strict=True))
    collected: Any = SimpleNamespace(collect=lambda: _families(found))
    return generate_latest(collected)
