"""contradictions: each receipt's units are compared with what is known; what is found is kept and told."""

from collections.abc import Sequence
from datetime import UTC

import orjson
from pydantic import ValidationError

from ingest.contradictions import check_receipt
from ingest.delivery import Hopeless
from ingest.hop import Hop
from ingest.lanes import Draining
from schemas.messages import Receipt
from shared.clock import Clock
from shared.kafka import CONTRADICTIONS, Outgoing, Record, partition_of
from shared.store import FoundContradiction, KnowledgeReader, KnowledgeWriter, StoredContradiction

TOLD = 200  # pairs of the receipt's units whose state is published anew


class FlagStage:
    """From ``cortex.stored`` to ``cortex.contradictions``. Every receipt moves the watermark, whatever came of it."""

    def __init__(
        self, hop: Hop, reader: KnowledgeReader, writer: KnowledgeWriter, partitions: int, clock: Clock
    ) -> None:
        self._hop = hop
        self._reader = reader
        self._writer = writer
        self._partitions = partitions
        self._clock = clock

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Check each receipt; the pairs are durable before they are told."""
        done = 0
        for record in records:
            if done and draining():
                break
            receipt = await self._read(record)
            if receipt is not None and receipt.tenant is not None:
                await self._check(receipt.tenant, receipt, record)
            done += 1
        return done

    async def _read(self, record: Record) -> Receipt | None:
        try:
            return Receipt.model_validate_json(bytes(record.value or b""))
        except ValidationError as error:
            reason = Hopeless("not-a-receipt", f"{error.error_count()} wrong fields", 1)
            await self._hop.letters.bury_record(self._hop.delivery, record, reason)
            return None

    async def _check(self, tenant: str, receipt: Receipt, record: Record) -> None:
        found: list[FoundContradiction] = []
        checked = receipt.units
        try:
            if receipt.units:
                found = await self._hop.delivery.attempt(lambda: check_receipt(receipt, self._reader, self._clock))
        except Hopeless as reason:
            await self._bury(receipt, record, reason)
            checked = ()
        fresh = await self._hop.delivery.insist(
            lambda: self._writer.record_contradictions(tenant, receipt.position, receipt.recorded_at, checked, found)
        )
        await self._tell(tenant, [*fresh, *await self._closed(tenant, receipt)])

    async def _bury(self, receipt: Receipt, record: Record, reason: Hopeless) -> None:
        position = receipt.position
        await self._hop.letters.bury_record(
            self._hop.delivery,
            record,
            reason,
            identity=(receipt.tenant, receipt.event_source, receipt.event_id),
            place=(position.topic, position.partition, position.number),
        )

    async def _closed(self, tenant: str, receipt: Receipt) -> list[StoredContradiction]:
        """Return the pairs that lost a unit by this event: followers must hear that they are not open any more."""
        if not receipt.retracted:
            return []

        async def look() -> list[StoredContradiction]:
            async with self._reader.snapshot(tenant) as snapshot:
                return await snapshot.contradictions(unit_ids=receipt.retracted, open_only=False, limit=TOLD)

        return await self._hop.delivery.insist(look)

    async def _tell(self, tenant: str, pairs: Sequence[StoredContradiction]) -> None:
        for pair in pairs:
            message = contradiction_record(tenant, pair)
            await self._hop.publish(CONTRADICTIONS, partition_of(message.key or b"", self._partitions), [message])


def contradiction_record(tenant: str, pair: StoredContradiction) -> Outgoing:
    """Write a pair and its state under the key that the compacted topic keeps."""
    found = pair.found
    value = {
        "version": 1,
        "tenant": tenant,
        "id": found.id,
        "units": found.units,
        "revisions": found.revisions,
        "difference": found.difference,
        "detail": found.detail,
        "attribute": found.attribute,
        "similarity": found.similarity,
        "recorded_at": pair.recorded_at.astimezone(UTC).isoformat(),
        "open": pair.open,
    }
    return Outgoing(f"{tenant}/{found.id}".encode(), orjson.dumps(value))
