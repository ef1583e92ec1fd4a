"""contradictions: each receipt's units are compared with what is known; what is found is kept and told."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

import orjson
from pydantic import ValidationError

from ingest.contradictions import ContradictionCheck
from ingest.delivery import Hopeless
from ingest.hop import Hop
from ingest.lanes import Draining
from schemas.messages import Receipt
from shared.kafka import CONTRADICTIONS, Outgoing, Record, partition_of
from shared.store import FoundContradiction, KnowledgeReader, KnowledgeWriter, StoredContradiction


@dataclass(frozen=True)
class _Checked:
    """A receipt, which of its units were compared, and what was found."""

    receipt: Receipt
    tenant: str
    units: tuple[str, ...] = ()
    found: tuple[FoundContradiction, ...] = ()

    @property
    def place(self) -> tuple[str, str, int]:
        """What its watermark belongs to."""
        return self.tenant, self.receipt.position.topic, self.receipt.position.partition


class FlagStage:
    """From ``cortex.stored`` to ``cortex.contradictions``. Every receipt moves the watermark, whatever came of it.

    New pairs are told. That a pair is not open any more follows from other records (a unit was retracted, replaced,
    superseded or has ended) and is derived where it is read, here as in the store.
    """

    def __init__(self, hop: Hop, reader: KnowledgeReader, writer: KnowledgeWriter, partitions: int) -> None:
        self._hop = hop
        self._reader = reader
        self._checker = ContradictionCheck(reader)
        self._writer = writer
        self._partitions = partitions

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Check each receipt; what is found is durable before it is told.

        A window is checked in one look at the store, in milliseconds, so there is no stopping in between. Receipts of one
        partition that found nothing share a transaction: most do, and each alone would cost a commit.
        """
        del draining
        held: list[_Checked] = []
        for checked in await self._check(records):
            if held and (checked.found or held[-1].place != checked.place):
                await self._record(held)
                held = []
            held.append(checked)
            if checked.found:
                await self._record(held)
                held = []
        if held:
            await self._record(held)
        return len(records)

    async def _read(self, record: Record) -> Receipt | None:
        try:
            return Receipt.model_validate_json(bytes(record.value or b""))
        except ValidationError as error:
            reason = Hopeless("not-a-receipt", f"{error.error_count()} wrong fields", 1)
            await self._hop.letters.bury_record(self._hop.delivery, record, reason)
            return None

    async def _check(self, records: Sequence[Record]) -> list[_Checked]:
        """Check receipts together; where that fails each alone, by the rules, for one of them is to blame."""
        read = [(record, await self._read(record)) for record in records]
        receipts = [(record, receipt, receipt.tenant) for record, receipt in read if receipt and receipt.tenant]
        try:
            found = await self._hop.delivery.insist(
                lambda: self._checker.check_all([receipt for _, receipt, _ in receipts])
            )
        except Exception:  # noqa: BLE001 - told for the one to blame
            return [await self._check_one(record, receipt, tenant) for record, receipt, tenant in receipts]
        return [
            _Checked(receipt, tenant, receipt.units, tuple(pairs))
            for (_, receipt, tenant), pairs in zip(receipts, found, strict=True)
        ]

    async def _check_one(self, record: Record, receipt: Receipt, tenant: str) -> _Checked:
        try:
            found = await self._hop.delivery.attempt(lambda: self._checker.check(receipt))
        except Hopeless as reason:
            await self._bury(receipt, record, reason)
            return _Checked(receipt, tenant)
        return _Checked(receipt, tenant, receipt.units, tuple(found))

    async def _record(self, checked: Sequence[_Checked]) -> None:
        """Make what was found by the last of them durable, and that the others found nothing; then tell."""
        last = checked[-1]
        units = sorted({unit for one in checked for unit in one.units})
        # a redelivered receipt stands behind later ones: the watermark belongs to the highest
        highest = max((one.receipt.position for one in checked), key=lambda position: position.number)
        fresh = await self._hop.delivery.insist(
            lambda: self._writer.record_contradictions(
                last.tenant, highest, last.receipt.recorded_at, units, last.found
            )
        )
        await self._tell(last.tenant, fresh)

    async def _bury(self, receipt: Receipt, record: Record, reason: Hopeless) -> None:
        position = receipt.position
        await self._hop.letters.bury_record(
            self._hop.delivery,
            record,
            reason,
            identity=(receipt.tenant, receipt.event_source, receipt.event_id),
            place=(position.topic, position.partition, position.number),
        )

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
