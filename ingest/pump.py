"""The pump: the only one that publishes journaled events, in the order of the journal."""

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from ingest.delivery import Delivery
from ingest.intake import JournalIntake
from shared.kafka import Outgoing, Publisher
from shared.log import JournalLog, LogRecord
from shared.store import CONTRADICTIONS, STORED, KnowledgeReader

PAGE = 500
WAIT_S = 1.0  # for one look at the log; a new event ends the wait at once
POLL_WATERMARKS_S = 0.05  # how often a pump at its bound asks what has been stored since

_log = structlog.get_logger(__name__)
Place = tuple[str, str, int]
"""(tenant, topic, partition): what a watermark belongs to."""


class Pump:
    """Publishes one topic's journaled events to their partitions, each above its watermarks.

    At start it republishes exactly what is above the lower of the watermarks ``stored`` and ``contradictions``. It stays at
    most ``bound`` events ahead of those watermarks: the broker is memory, and bulk must not stand before live events.
    """

    def __init__(
        self,
        topic: str,
        *,
        log: JournalLog,
        intake: JournalIntake,
        publisher: Publisher,
        reader: KnowledgeReader,
        delivery: Delivery,
        bound: int,
    ) -> None:
        self.topic = topic
        self._event_log = log
        self._intake = intake
        self._publisher = publisher
        self._reader = reader
        self._delivery = delivery
        self._bound = bound
        self._read_to = 0
        self._at_end = False
        self._ahead: dict[Place, deque[int]] = {}
        self._marks: dict[Place, int] = {}
        self.published = 0
        self.skipped = 0

    async def run(self) -> None:
        """Pump until cancelled. Waits out a log, store or broker that is away."""
        self._marks = await self._all_watermarks()
        while True:
            rows = await self._delivery.insist(lambda: self._event_log.read(self._read_to, PAGE))
            if not rows:
                self._at_end = True
                await self._delivery.insist(lambda: self._event_log.wait(self._read_to, WAIT_S))
                continue
            self._at_end = False
            due = [row for row in rows if row.position.topic == self.topic and not self._is_stored(row)]
            for start in range(0, len(due), self._bound):
                await self._publish(due[start : start + self._bound])
            self._read_to = rows[-1].position.number

    def ahead(self) -> int:
        """Return how many published events are not known to be through yet."""
        return sum(len(numbers) for numbers in self._ahead.values())

    async def idle(self) -> bool:
        """Tell whether everything in the log is published and through all stages."""
        if not self._at_end or await self._event_log.read(self._read_to, 1):
            return False
        await self._ask_watermarks()
        return self.ahead() == 0

    async def _publish(self, rows: Sequence[LogRecord]) -> None:
        while self.ahead() and self.ahead() + len(rows) > self._bound:
            await self._ask_watermarks()
            if self.ahead() + len(rows) > self._bound:
                await asyncio.sleep(POLL_WATERMARKS_S)
        by_partition: dict[int, list[Outgoing]] = {}
        for row in rows:
            by_partition.setdefault(row.position.partition, []).append(self._intake.stamp(row))
            self._ahead.setdefault(_place(row), deque()).append(row.position.number)
        async with asyncio.TaskGroup() as group:
            for partition, messages in by_partition.items():
                group.create_task(self._send(partition, messages))
        self.published += len(rows)

    async def _send(self, partition: int, messages: list[Outgoing]) -> None:
        await self._delivery.insist(lambda: self._publisher.publish(self.topic, partition, messages))

    def _is_stored(self, row: LogRecord) -> bool:
        stored = row.position.number <= self._marks.get(_place(row), -1)
        self.skipped += stored
        return stored

    def _advance(self, place: Place, number: int) -> None:
        numbers = self._ahead.get(place)
        while numbers and numbers[0] <= number:
            numbers.popleft()
        if numbers is not None and not numbers:
            del self._ahead[place]

    async def _ask_watermarks(self) -> None:
        for tenant in sorted({tenant for tenant, _, _ in self._ahead}):
            for place, number in (await self._watermarks(tenant)).items():
                self._advance(place, number)

    async def _all_watermarks(self) -> dict[Place, int]:
        marks: dict[Place, int] = {}
        for tenant in await self._delivery.insist(self._reader.tenants):
            marks.update(await self._watermarks(tenant))
        return marks

    async def _watermarks(self, tenant: str) -> dict[Place, int]:
        """Return the lower of the two watermarks of each of the tenant's partitions."""

        async def look() -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
            async with self._reader.snapshot(tenant) as snapshot:
                return await snapshot.watermarks(STORED), await snapshot.watermarks(CONTRADICTIONS)

        stored, checked = await self._delivery.insist(look)
        return {
            (tenant, topic, partition): min(number, checked.get((topic, partition), -1))
            for (topic, partition), number in stored.items()
        }


def _place(row: LogRecord) -> Place:
    return row.tenant, row.position.topic, row.position.partition
