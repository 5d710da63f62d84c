"""Metrics for Prometheus, of the learners that the reader may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from belated.service.errors import Refusal
from belated.service.learner import Learner
from belated.service.reading import counted
from belated.service.session import Session
from belated.service.tables import StorageError

RECORDS = ("taken", "duplicate", "conflict", "late", "unknown", "invalid")
GAUGES = {
    "episodes_begun": "episodes that have begun",
    "episodes_open": "episodes that are open",
    "episodes_pending": "those within their deadline of which no outcome came",
    "episodes_overdue": "those past their deadline, within the grace",
    "calls_waiting": "calls that wait for the agent",
    "log_events": "requests that changed something",
    "policies_differing": "decisions that replay gave otherwise",
}


class _Collected(Collector):
    """The metrics of learners: name, whether it is ready, and what was read of it."""

    def __init__(self, found: list[tuple[str, bool, dict[str, Any] | None]]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("belated_ready", "1 if driven here", labels=["learner"])
        gauges = {
            name: GaugeMetricFamily(f"belated_{name}", about, labels=["learner"])
            for name, about in GAUGES.items()
        }
        told = GaugeMetricFamily(
            "belated_agent", "what the agent tells", labels=["learner", "name"]
        )
        records = CounterMetricFamily(
            "belated_records", "feedback by outcome, since the start", labels=["learner", "outcome"]
        )
        closed = CounterMetricFamily(
            "belated_closed", "episodes closed by the deadline", labels=["learner", "how"]
        )
        used = CounterMetricFamily(
            "belated_late_used", "late records that were used, since the start", labels=["learner"]
        )
        decided = CounterMetricFamily(
            "belated_decisions", "decisions since the start", labels=["learner"]
        )
        for name, is_ready, found in self._found:
            ready.add_metric([name], float(is_ready))
            if found is None:
                continue
            for gauge, family in gauges.items():
                family.add_metric([name], found[gauge])
            for key, number in found["diagnostics"].items():
                told.add_metric([name, key], float(number))
            for kind in RECORDS:
                records.add_metric([name, kind], found["since"][kind])
            for how in ("forgotten", "defaulted"):
                closed.add_metric([name, how], found["closed"][how])
            used.add_metric([name], found["since"]["late_used"])
            decided.add_metric([name], found["since"]["decided"])
        yield from (ready, *gauges.values(), told, records, used, closed, decided)


def _read(session: Session, diagnostics: Any) -> dict[str, Any]:
    with session.db.reader() as db:
        counts = counted(db, session)
    return {
        "episodes_begun": counts.begun,
        "episodes_open": counts.open,
        "episodes_pending": counts.pending,
        "episodes_overdue": counts.overdue,
        "calls_waiting": session.runner.waiting,
        "log_events": session.seq,
        "policies_differing": session.runner.differing,
        "diagnostics": diagnostics,
        "since": session.counts,
        "closed": counts.closed,
    }


async def _seen(learner: Learner) -> tuple[str, bool, dict[str, Any] | None]:
    """What is known of a learner; nothing but its name if it does not run here."""

    def look(session: Session) -> tuple[Session, Any]:
        session.expire()
        return session, session.runner.agent.diagnostics()

    try:
        session, diagnostics = await learner.ask(look)
        return learner.name, True, await asyncio.to_thread(_read, session, diagnostics)
    except (Refusal, StorageError):
        return learner.name, False, None


async def text(learners: Iterable[Learner]) -> bytes:
    """The metrics in the text format."""
    found = await asyncio.gather(*(_seen(learner) for learner in learners))
    return generate_latest(_Collected(list(found)))
