"""Refill: the compacted topics get back what the store holds, between two epoch records in every partition."""

from collections.abc import AsyncIterator
from dataclasses import replace

import orjson

from ingest.flag import contradiction_record
from ingest.hop import Hop
from ingest.news import REFILLED
from ingest.store import contribution_records
from schemas.graph import Contribution
from shared.kafka import CONTRADICTIONS, EPOCH_KEY, GRAPH, Outgoing, partition_of
from shared.store import KnowledgeReader, KnowledgeWriter, StoredContradiction

PAGE = 500


class Refill:
    """Publishes what a compacted topic would hold, for a broker that keeps nothing."""

    def __init__(self, hop: Hop, reader: KnowledgeReader, writer: KnowledgeWriter, partitions: int) -> None:
        self._hop = hop
        self._reader = reader
        self._writer = writer
        self._partitions = partitions

    async def run(self, epoch: str) -> None:
        """Publish every tenant's contributions and open contradictions. Waits out a store or broker that is away."""
        for topic in (GRAPH, CONTRADICTIONS):
            await self._mark(topic, epoch, "begin")
        for tenant in await self._hop.delivery.insist(self._reader.tenants):
            await self._contributions(tenant)
            async for page in self._open_pairs(tenant):
                await self._spread(CONTRADICTIONS, [_told_again(contradiction_record(tenant, pair)) for pair in page])
        for topic in (GRAPH, CONTRADICTIONS):
            await self._mark(topic, epoch, "complete")

    async def _contributions(self, tenant: str) -> None:
        async def held() -> list[Contribution]:
            return await self._writer.contributions(tenant)

        messages = [
            message
            for contribution in await self._hop.delivery.insist(held)
            for message in contribution_records(contribution)
        ]
        await self._spread(GRAPH, messages)

    async def _open_pairs(self, tenant: str) -> AsyncIterator[list[StoredContradiction]]:
        after: str | None = None
        while True:

            async def look(after: str | None = after) -> list[StoredContradiction]:
                async with self._reader.snapshot(tenant) as snapshot:
                    return await snapshot.contradictions(limit=PAGE, after=after)

            page = await self._hop.delivery.insist(look)
            if not page:
                return
            yield page
            after = page[-1].found.id

    async def _spread(self, topic: str, messages: list[Outgoing]) -> None:
        by_partition: dict[int, list[Outgoing]] = {}
        for message in messages:
            by_partition.setdefault(partition_of(message.key or b"", self._partitions), []).append(message)
        for partition, mine in by_partition.items():
            await self._hop.publish(topic, partition, mine)

    async def _mark(self, topic: str, epoch: str, phase: str) -> None:
        marker = orjson.dumps({"epoch": epoch, "phase": phase, "partitions": self._partitions})
        for partition in range(self._partitions):
            await self._hop.publish(topic, partition, [Outgoing(EPOCH_KEY, marker)])


def _told_again(message: Outgoing) -> Outgoing:
    return replace(message, headers=((REFILLED, b"1"),))
