"""Figures for Prometheus, in a registry of their own. No label ever carries a text, a principal or a tenant."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from schemas.answers import Answer
from schemas.stream import StreamEvent

CONTENT_TYPE = CONTENT_TYPE_LATEST
STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0)  # budgets: 5 to 150 ms


class Metrics:
    """What the query service counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "cortex_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self._request_seconds = Histogram(
            "cortex_request_seconds",
            "Seconds from the request to the end of its response",
            ("route",),
            registry=self.registry,
            buckets=STAGE_BUCKETS,
        )
        self.running = Gauge("cortex_running_answers", "Answers being worked on", registry=self.registry)
        self.waiting = Gauge("cortex_waiting_answers", "Questions waiting for a slot", registry=self.registry)
        self.feed_readers = Gauge("cortex_feed_readers", "Readers of the live feed", registry=self.registry)
        self._stages = Histogram(
            "cortex_stage_seconds", "Seconds a stage took", ("stage",), registry=self.registry, buckets=STAGE_BUCKETS
        )
        self._answers = Counter("cortex_answers", "Questions by how they ended", ("outcome",), registry=self.registry)
        self._degraded = Counter(
            "cortex_degraded_answers",
            "Answers without a part of their basis, or without the cache",
            registry=self.registry,
        )
        self._appended = Counter(
            "cortex_events_appended", "Events kept in the log", ("topic", "duplicate"), registry=self.registry
        )
        self._refused = Counter(
            "cortex_events_refused", "Events sent away for a while", ("reason",), registry=self.registry
        )
        self._demoted = Counter(
            "cortex_events_demoted", "Live events of tenants with many waiting, kept as bulk", registry=self.registry
        )
        self.append_seconds = Histogram(
            "cortex_append_seconds", "Seconds of one commit to the log", registry=self.registry, buckets=STAGE_BUCKETS
        )
        self.graph_caught_up = Gauge(
            "cortex_graph_caught_up", "1 once the graph replica has read what was there", registry=self.registry
        )
        self.ingest_lag = Gauge(
            "cortex_ingest_lag_events", "Accepted events that are not searchable yet", registry=self.registry
        )

    def request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count one finished request."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def stage(self, event: StreamEvent) -> None:
        """Take a stage's time."""
        took_ms = getattr(event, "took_ms", None)
        if took_ms is not None:
            self._stages.labels(event.stage).observe(took_ms / 1000)

    def answer(self, answer: Answer) -> None:
        """Count a finished answer."""
        self._answers.labels("complete").inc()
        if answer.degraded:
            self._degraded.inc()

    def unanswered(self, outcome: str) -> None:
        """Count a question that got no answer: ``gone``, ``error``, ``closing`` or ``stalled``."""
        self._answers.labels(outcome).inc()

    def appended(self, topic: str, *, fresh: int, duplicates: int) -> None:
        """Count events that the log has taken."""
        self._appended.labels(topic, "false").inc(fresh)
        self._appended.labels(topic, "true").inc(duplicates)

    def refused(self, reason: str, events: int) -> None:
        """Count events that were sent away: ``rate`` (429) or ``backlog`` (503)."""
        self._refused.labels(reason).inc(events)

    def demoted(self, events: int) -> None:
        """Count live events that were kept as bulk."""
        self._demoted.inc(events)

    def render(self) -> bytes:
        """Write the exposition format."""
        return generate_latest(self.registry)
