"""What ingest counts: per stage how many, how long, how often again, and how far behind."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

STAGES = ("embed", "resolve", "store", "contradictions")
TENANTS_NAMED = 50  # a label value a tenant: the largest are told apart, all others share one
OTHERS = "(other)"  # no tenant can be called that
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class IngestMetrics:
    """The counters of one pipeline, in a registry of their own or a given one."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._records = Counter(
            "cortex_ingest_records", "Records that a stage has finished.", ["stage"], registry=self.registry
        )
        self._seconds = Histogram(
            "cortex_ingest_window_seconds",
            "From taking a lane's window of records to the acknowledgement of its outputs.",
            ["stage"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._retries = Counter(
            "cortex_ingest_retries",
            "Attempts that failed and are repeated.",
            ["stage", "cause"],
            registry=self.registry,
        )
        self._letters = Counter(
            "cortex_ingest_dead_letters", "Events that cannot succeed.", ["stage", "cause"], registry=self.registry
        )
        self._commits = Counter(
            "cortex_ingest_commits", "Commits of offsets, by outcome.", ["stage", "outcome"], registry=self.registry
        )
        self._news_dropped = Counter(
            "cortex_news_dropped", "News that the live feed did not get.", registry=self.registry
        )
        self._lag = Gauge(
            "cortex_ingest_lag", "Records that are known to wait for a stage.", ["stage"], registry=self.registry
        )
        self._tenant_lag = Gauge(
            "cortex_ingest_tenant_lag",
            f"Accepted events that are not stored: the {TENANTS_NAMED} tenants with most, and all others together.",
            ["tenant"],
            registry=self.registry,
        )
        self._oldest = Gauge(
            "cortex_ingest_oldest_seconds",
            "For how long the lane of a stage that moved longest ago has stood at its first record.",
            ["stage"],
            registry=self.registry,
        )
        self._slow = Gauge(
            "cortex_ingest_slow_events",
            "Events that a stage has in hand for longer than slow_event_s, by the log's partition; the log names them.",
            ["stage", "partition"],
            registry=self.registry,
        )
        self._slow_begun = Counter(
            "cortex_ingest_slow_events_seen", "Events that became slow.", ["stage"], registry=self.registry
        )
        self._searchable = Histogram(
            "cortex_ingest_searchable_seconds",
            "From an event's acceptance to the commit that makes it searchable.",
            buckets=SECONDS,
            registry=self.registry,
        )

    def finished(self, stage: str, records: int, seconds: float) -> None:
        """Count a window of records and its time."""
        self._records.labels(stage).inc(records)
        self._seconds.labels(stage).observe(seconds)

    def retried(self, stage: str, cause: str) -> None:
        """Count an attempt that failed and comes again."""
        self._retries.labels(stage, cause).inc()

    def buried(self, stage: str, cause: str) -> None:
        """Count a dead letter."""
        self._letters.labels(stage, cause).inc()

    def committed(self, stage: str, outcome: str) -> None:
        """Count a commit: ``done`` or ``failed``."""
        self._commits.labels(stage, outcome).inc()

    def news_dropped(self, items: int) -> None:
        """Count news that could not be posted."""
        self._news_dropped.inc(items)

    def searchable(self, seconds: float) -> None:
        """Note how long an event took from acceptance to searchable."""
        self._searchable.observe(max(seconds, 0.0))

    def slow_event(self, stage: str) -> None:
        """Count an event that has just become slow."""
        self._slow_begun.labels(stage).inc()

    def slow_events(self, now: Mapping[tuple[str, int], int]) -> None:
        """Set how many events are slow at this moment, by stage and partition; all others are not."""
        self._slow.clear()
        for (stage, partition), events in now.items():
            self._slow.labels(stage, str(partition)).set(events)

    def oldest(self, stage: str, seconds: float) -> None:
        """Set for how long a stage has not moved where it stands longest."""
        self._oldest.labels(stage).set(seconds)

    def tenant_lag(self, largest: Mapping[str, int], others: int) -> None:
        """Set how many accepted events of which tenants are not stored."""
        self._tenant_lag.clear()
        for tenant, events in largest.items():
            self._tenant_lag.labels(tenant).set(events)
        self._tenant_lag.labels(OTHERS).set(others)

    def lag(self, lags: Mapping[str, int]) -> None:
        """Set how many records wait for each stage."""
        for stage, waiting in lags.items():
            self._lag.labels(stage).set(waiting)
