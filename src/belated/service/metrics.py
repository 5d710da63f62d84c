"""Metrics for Prometheus, of the learners that the reader may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from belated.service.learner import Learner
from belated.service.reading import counted
from belated.service.session import Session
from belated.service.tables import StorageError
from belated.service.wire import Refusal

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
}
COUNTERS = {
    "late_used": "late records that were used, since the start",
    "decisions": "decisions since the start",
}
LABELLED = {
    "agent": (GaugeMetricFamily, "what the agent tells", "name"),
    "records": (CounterMetricFamily, "feedback by outcome, since the start", "outcome"),
    "closed": (CounterMetricFamily, "episodes closed by the deadline", "how"),
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


def _read(session: Session, diagnostics: Any) -> dict[str, Any]:
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
    }


async def _seen(learner: Learner) -> dict[str, Any]:
    """The metrics of a learner; only that it is not ready if it does not run here."""

    def look(session: Session) -> tuple[Session, Any]:
        session.expire()
        return session, session.runner.agent.diagnostics()

    try:
        session, diagnostics = await learner.ask(look)
        return await asyncio.to_thread(_read, session, diagnostics)
    except (Refusal, StorageError):
        return {"ready": 0}


async def text(learners: Iterable[Learner]) -> bytes:
    """The metrics in the text format."""
    listed = list(learners)
    found = await asyncio.gather(*(_seen(learner) for learner in listed))
    names = [learner.name for learner in listed]
    collected: Any = SimpleNamespace(
        collect=lambda: _families(dict(zip(names, found, strict=True)))
    )
    return generate_latest(collected)
