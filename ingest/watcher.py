"""Looks at the pipeline at work: how much waits where and for whom, what stands still, and which event takes long."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from ingest.in_hand import Held, InHand
from ingest.lanes import Lanes
from ingest.metrics import TENANTS_NAMED, IngestMetrics
from shared.backlog import largest, unstored
from shared.clock import Clock
from shared.errors import CortexError
from shared.log import EventLog
from shared.store import KnowledgeReader

LOOK_S = 1.0
COUNT_EVERY_S = 5.0  # tenants are counted one by one in the log and the store: no more often than it is scraped
COUNT_REST = 20  # … and with so many that this takes long, for a twentieth of the time at most
COUNT_DEADLINE_S = 30.0  # a store that needs longer is not there

_log = structlog.get_logger(__name__)


class Watcher:
    """Sets what the figures say of this moment, and names slow events while they are in hand."""

    def __init__(
        self,
        metrics: IngestMetrics,
        in_hand: InHand,
        lanes: Mapping[str, Lanes],
        lag: Callable[[], Mapping[str, int]],
        clock: Clock,
        *,
        slow_s: float,
    ) -> None:
        self._metrics = metrics
        self._in_hand = in_hand
        self._lanes = lanes
        self._lag = lag
        self._clock = clock
        self._slow_s = slow_s
        self._named: set[int] = set()

    async def run(self) -> None:
        """Look every second until cancelled; where an event is slow sooner, as often as that."""
        while True:
            self.look()
            await asyncio.sleep(min(LOOK_S, self._slow_s / 2))

    def look(self) -> None:
        """Set every figure of this moment."""
        self._metrics.lag(self._lag())
        for stage, lanes in self._lanes.items():
            self._metrics.oldest(stage, lanes.oldest_s())
        slow = self._in_hand.slow(self._slow_s)
        for number in slow.keys() - self._named:
            self._name(slow[number])
        self._named = set(slow)
        self._metrics.slow_events(Counter((held.stage, held.event.position.partition) for held in slow.values()))

    def _name(self, held: Held) -> None:
        self._metrics.slow_event(held.stage)
        event, position = held.event, held.event.position
        _log.warning(
            "lane.slow",
            stage=held.stage,
            topic=position.topic,
            partition=position.partition,
            offset=position.number,
            tenant=event.tenant,
            event_source=event.event_source,
            event_id=event.event_id,
            events=held.events,
            seconds=round(self._clock.monotonic() - held.since_s, 1),
        )

    async def count_tenants(self, log: EventLog, reader: KnowledgeReader) -> None:
        """Count by tenant until cancelled. What cannot be counted stays as it was.

        For a log that numbers each tenant's events by itself. On Kafka tenants share offsets: `count_keys`.
        """
        while True:
            began_s = self._clock.monotonic()
            try:
                async with asyncio.timeout(COUNT_DEADLINE_S):
                    waiting = await unstored(log, reader, await reader.tenants())
            except (TimeoutError, CortexError) as error:
                _log.warning("watcher.not_counted", error=type(error).__name__)
            else:
                self._metrics.tenant_lag(*largest(waiting, TENANTS_NAMED))
            took_s = self._clock.monotonic() - began_s
            await asyncio.sleep(max(COUNT_EVERY_S, COUNT_REST * took_s))

    async def count_keys(self) -> None:
        """Count by tenant what this process has fetched for its stages, until cancelled: whose events fill the lanes."""
        while True:
            waiting: Counter[str] = Counter()
            for lanes in self._lanes.values():
                waiting.update(key.partition(b"/")[0].decode("utf-8", "replace")[:63] for key in lanes.waiting_keys())
            self._metrics.tenant_lag(*largest(waiting, TENANTS_NAMED))
            await asyncio.sleep(COUNT_EVERY_S)
