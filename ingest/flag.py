"""contradictions: each receipt's units are compared with what is known; what is found is kept and told."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final

import orjson
from pydantic import ValidationError

from ingest.contradictions import DECLARING, ContradictionCheck, with_renamed
from ingest.delivery import Hopeless
from ingest.hop import Hop
from ingest.lanes import Draining
from schemas.messages import Receipt, StageMessage
from shared.faults import told
from shared.kafka import CONTRADICTIONS, Outgoing, Record, partition_of
from shared.store import CONTRADICTIONS as CHECKED
from shared.store import FoundContradiction, KnowledgeReader, KnowledgeWriter, StoredContradiction

ROUNDS: Final = 5
"""Checks for one declaration; more than two only while another lane finds pairs of the same units at the same moment."""
KEPT: Final = 100_000
"""Pairs of one receipt's units that are read back: each unit is compared with 200 others."""

_Marks = dict[tuple[str, str, int], int]
"""How far checks are, by tenant, topic and partition."""


@dataclass(frozen=True)
class _Checked:
    """A receipt, which of its units were compared, and what was found."""

    receipt: Receipt
    tenant: str
    units: tuple[str, ...] = ()
    found: tuple[FoundContradiction, ...] = ()

    @property
    def renamed(self) -> bool:
        """Whether its units were stored before, and compared again for a declaration."""
        return self.receipt.outcome in DECLARING

    @property
    def place(self) -> tuple[str, str, int]:
        """What its watermark belongs to."""
        return self.tenant, self.receipt.position.topic, self.receipt.position.partition


class FlagStage:
    """From ``cortex.stored`` to ``cortex.contradictions``. Every receipt moves the watermark, whatever came of it.

    New pairs are told; where a receipt comes once more, all of its pairs are, for whoever checked it first may have ended
    before it told. That a pair is not open any more follows from other records (a unit was retracted, replaced,
    superseded or has ended) and is derived where it is read, here as in the store.

    A declaration's receipt has the units compared again whose names it may have changed.

    Windows of several lanes and processes are checked at once. Of two units the later commit sees the earlier, whichever is
    recorded first: a record takes away no pair whose revisions stand.
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
        receipts = await self._read_all(records)
        await self._settle(receipts, await self._marks(receipts))
        return len(records)

    async def _read_all(self, records: Sequence[Record]) -> list[tuple[Receipt, str]]:
        read = [(await self._read(record), bytes(record.key or b"").decode("utf-8", "replace")) for record in records]
        wide = [(await self._widened(receipt, key), receipt.tenant) for receipt, key in read if receipt]
        return [(receipt, tenant) for receipt, tenant in wide if tenant]

    async def _widened(self, receipt: Receipt, key: str) -> Receipt:
        return await self._hop.delivery.insist(lambda: with_renamed(receipt, key, self._checker))

    async def _marks(self, receipts: Sequence[tuple[Receipt, str]]) -> _Marks:
        """Return how far the checks of these receipts' tenants are."""
        marks: _Marks = {}
        for tenant in sorted({tenant for _, tenant in receipts}):
            found = await self._hop.delivery.insist(lambda tenant=tenant: self._checked(tenant))  # type: ignore[misc]
            marks.update({(tenant, *place): number for place, number in found.items()})
        return marks

    async def _checked(self, tenant: str) -> dict[tuple[str, int], int]:
        async with self._reader.snapshot(tenant) as snapshot:
            return await snapshot.watermarks(CHECKED)

    async def _settle(self, receipts: Sequence[tuple[Receipt, str]], before: _Marks) -> None:
        """Check, record and tell. ``before``: how far the checks were."""
        held: list[_Checked] = []
        for checked in await self._check_all(receipts):
            if checked.renamed and checked.units:
                if held:
                    await self._record(held, before)
                    held = []
                await self._record_again(checked)
                continue
            if held and (checked.found or held[-1].place != checked.place):
                await self._record(held, before)
                held = []
            held.append(checked)
            if checked.found:
                await self._record(held, before)
                held = []
        if held:
            await self._record(held, before)

    async def _read(self, record: Record) -> Receipt | None:
        body = bytes(record.value or b"")
        try:
            return Receipt.model_validate_json(body)
        except ValidationError as error:
            reason = Hopeless("not-a-receipt", told(error, body), 1)
            await self._hop.letters.bury_record(self._hop.delivery, record, reason)
            return None

    async def _check_all(self, receipts: Sequence[tuple[Receipt, str]]) -> list[_Checked]:
        events = [receipt for receipt, _ in receipts]
        with self._hop.hold(events), self._hop.trace(events):
            return await self._check(receipts)

    async def _check(self, receipts: Sequence[tuple[Receipt, str]]) -> list[_Checked]:
        """Check receipts together; where that fails each alone, by the rules, for one of them is to blame."""
        try:
            found = await self._hop.delivery.insist(
                lambda: self._checker.check_all([receipt for receipt, _ in receipts])
            )
        except Exception:  # noqa: BLE001 - told for the one to blame
            return [await self._check_one(receipt, tenant) for receipt, tenant in receipts]
        return [
            _Checked(receipt, tenant, receipt.units, tuple(pairs))
            for (receipt, tenant), pairs in zip(receipts, found, strict=True)
        ]

    async def _check_one(self, receipt: Receipt, tenant: str) -> _Checked:
        event = _event_of(receipt)
        try:
            found = await self._hop.delivery.attempt(lambda: self._checker.check(receipt), watch=self._hop.watch(event))
        except Hopeless as reason:
            await self._hop.letters.bury_message(self._hop.delivery, event, reason)
            return _Checked(receipt, tenant)
        return _Checked(receipt, tenant, receipt.units, tuple(found))

    async def _record(self, checked: Sequence[_Checked], before: _Marks) -> None:
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
        again = last.receipt.position.number <= before.get(last.place, -1)
        await self._tell(last.tenant, await self._kept(last) if again and last.found else fresh)

    async def _record_again(self, checked: _Checked) -> None:
        """Let what was not found again go; and look once more, for another lane may have found a pair in between."""
        receipt, found = checked.receipt, list(checked.found)
        for _ in range(ROUNDS):
            fresh = await self._hop.delivery.insist(
                lambda found=found: self._writer.record_contradictions(  # type: ignore[misc] # bound now
                    checked.tenant, None, receipt.recorded_at, checked.units, found
                )
            )
            await self._tell(checked.tenant, fresh)
            seen, found = found, await self._hop.delivery.insist(lambda: self._checker.check(receipt))
            if found == seen:
                break
        await self._hop.delivery.insist(
            lambda: self._writer.record_contradictions(checked.tenant, receipt.position, receipt.recorded_at, (), ())
        )

    async def _kept(self, checked: _Checked) -> list[StoredContradiction]:
        """Return what is kept of the pairs that a check has found."""

        async def look() -> list[StoredContradiction]:
            async with self._reader.snapshot(checked.tenant) as snapshot:
                return await snapshot.contradictions(unit_ids=checked.units, limit=KEPT, open_only=False)

        found = {pair.id for pair in checked.found}
        return [pair for pair in await self._hop.delivery.insist(look) if pair.found.id in found]

    async def _tell(self, tenant: str, pairs: Sequence[StoredContradiction]) -> None:
        for pair in pairs:
            message = contradiction_record(tenant, pair)
            await self._hop.publish(CONTRADICTIONS, partition_of(message.key or b"", self._partitions), [message])


def _event_of(receipt: Receipt) -> StageMessage:
    """Name the event that a receipt is of: its dead letter holds what was accepted, not what the stages say of it."""
    return StageMessage(
        position=receipt.position,
        recorded_at=receipt.recorded_at,
        key="",
        tenant=receipt.tenant,
        event_id=receipt.event_id,
        event_source=receipt.event_source,
    )


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
