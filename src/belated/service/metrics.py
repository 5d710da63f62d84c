"""Metrics for Prometheus, of the learners that the reader may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from belated.core.inbox import CLOSED, KINDS
from belated.service.supervisor import Live


class _Collected(Collector):
    def __init__(self, learners: Iterable[Live]) -> None:
        self._learners = list(learners)

    def collect(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("belated_ready", "1 if driven here", labels=["learner"])
        gauges = {
            name: GaugeMetricFamily(f"belated_{name}", about, labels=["learner"])
            for name, about in (
                ("episodes_begun", "episodes that have begun"),
                ("episodes_open", "episodes that are open"),
                ("episodes_pending", "those within their deadline of which no outcome came"),
                ("episodes_overdue", "those past their deadline, within the grace"),
                ("calls_waiting", "calls that wait for the agent"),
                ("log_events", "events in the log"),
                ("policies_differing", "policies that replay gave otherwise"),
            )
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
        for live in self._learners:
            ready.add_metric([live.name], float(live.ready))
            session = live.session
            if session is None:
                continue
            values = {
                "episodes_begun": session.books.begun,
                "episodes_open": len(session.books.open),
                "episodes_pending": session.books.pending,
                "episodes_overdue": session.books.overdue,
                "calls_waiting": session.learning.waiting,
                "log_events": session.committer.number,
                "policies_differing": session.differing,
            }
            for name, value in values.items():
                gauges[name].add_metric([live.name], value)
            for name, number in session.learning.diagnostics.items():
                told.add_metric([live.name, name], float(number))
            for kind in KINDS:
                records.add_metric([live.name, kind], session.counts[kind])
            counts = session.books.counts()
            for how in CLOSED:
                closed.add_metric([live.name, how], counts[how])
            used.add_metric([live.name], session.counts["late_used"])
            decided.add_metric([live.name], session.counts["decided"])
        yield from (ready, *gauges.values(), told, records, used, closed, decided)


def text(learners: Iterable[Live]) -> bytes:
    """The metrics in the text format."""
    return generate_latest(_Collected(learners))
