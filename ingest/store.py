"""store: effects become durable, with their watermark; then receipts and graph contributions go out."""

from collections.abc import Collection, Sequence
from datetime import UTC
from typing import Final

import numpy as np

from ingest.batcher import Batcher
from ingest.delivery import Hopeless
from ingest.hop import Hop, Hopped, traceparent_of
from ingest.intake import read_event
from ingest.lanes import Draining
from ingest.metrics import IngestMetrics
from ingest.models import TenantModels
from schemas.graph import Contribution
from schemas.messages import Receipt, ReceiptOutcome
from shared.clock import Clock
from shared.contributions import unit_contribution, unit_id_of
from shared.embedder import Vectors
from shared.errors import ModelChanged
from shared.kafka import GRAPH, STORED, Outgoing, Record, partition_of
from shared.store import Applied, Effect, KnowledgeReader, KnowledgeWriter

UNIT: Final = unit_id_of("")
LATE_S: Final = 2.0
"""From the look at the store to the last acknowledgement it takes milliseconds. After longer another process may have this
one's partition, and have told of newer revisions: a drain takes 3 s, and a silent member is given up after 10."""
WITHOUT_EFFECT = frozenset({ReceiptOutcome.UNCHANGED, ReceiptOutcome.STALE, ReceiptOutcome.DEAD, ReceiptOutcome.MOVED})


class StoreStage:
    """From ``cortex.resolved`` to ``cortex.stored`` and ``cortex.graph``.

    The store refuses what is older than what it has; a compacted topic keeps what was written last. So where telling the
    graph took long, what was told is compared with what stands by then, and told anew where it differs.
    """

    def __init__(  # noqa: PLR0917 - its parts
        self,
        hop: Hop,
        batcher: Batcher,
        writer: KnowledgeWriter,
        reader: KnowledgeReader,
        models: TenantModels,
        partitions: int,
        clock: Clock,
        metrics: IngestMetrics,
    ) -> None:
        self._hop = hop
        self._batcher = batcher
        self._writer = writer
        self._reader = reader
        self._models = models
        self._partitions = partitions
        self._clock = clock
        self._metrics = metrics

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Make a window durable, all of it: it is one transaction a tenant, so there is no stopping in between."""
        del draining
        effects = [effect for record in records if (effect := await self._read(record)) is not None]
        messages = [effect.message for effect in effects]
        began_s = self._clock.monotonic()
        with self._hop.hold(messages), self._hop.trace(messages):
            applied = await self._apply(effects)
        self._count(effects, applied)
        told = [contribution for one in applied for contribution in one.contributions]
        await contribute(self._hop, self._partitions, told)
        while told and self._clock.monotonic() - began_s > LATE_S:
            began_s = self._clock.monotonic()
            told = await self._outdated(told)
            await contribute(self._hop, self._partitions, told)
        receipts = [_receipt(effect, one) for effect, one in zip(effects, applied, strict=True)]
        await self._hop.publish(STORED, records[0].partition, receipts)
        return len(records)

    async def _outdated(self, told: Sequence[Contribution]) -> list[Contribution]:
        """Return what stands now of the contributions that were told, where it differs from the last that was told."""
        last = {(one.tenant, one.id): one for one in told}
        stands: dict[tuple[str, str], Contribution] = {}
        for tenant in sorted({tenant for tenant, _ in last}):
            wanted = {identity for owner, identity in last if owner == tenant}
            kept = await self._hop.delivery.insist(lambda tenant=tenant, wanted=wanted: self._standing(tenant, wanted))  # type: ignore[misc] # bound now
            stands.update({(tenant, one.id): one for one in kept})
        found = []
        for place, one in last.items():
            now = stands.get(place) or Contribution(tenant=one.tenant, id=one.id, revision=one.revision, removed=True)
            if now != one and not (now.removed and one.removed):
                found.append(now)
        return found

    async def _standing(self, tenant: str, wanted: Collection[str]) -> list[Contribution]:
        """Return what units and declared things contribute now."""
        units = {identity.removeprefix(UNIT) for identity in wanted if identity.startswith(UNIT)}
        async with self._reader.snapshot(tenant) as snapshot:
            stored = await snapshot.units(units)
        found = [
            unit_contribution(tenant, one.known.unit, one.known.state.revision, one.mentions) for one in stored.values()
        ]
        if len(units) < len(wanted):  # declarations are few, and the store has no other way to ask for them
            found += [
                one
                for one in await self._writer.contributions(tenant)
                if one.id in wanted and not one.id.startswith(UNIT)
            ]
        return found

    def _count(self, effects: Sequence[Effect], applied: Sequence[Applied]) -> None:
        """Note how long each event took from its acceptance to the commit just made; what changed nothing took none."""
        now = self._clock.now()
        for effect, one in zip(effects, applied, strict=True):
            if one.receipt.outcome not in WITHOUT_EFFECT:
                self._metrics.searchable((now - effect.message.recorded_at).total_seconds())

    async def _read(self, record: Record) -> Effect | None:
        hopped = await self._hop.read(record)
        if hopped is None:
            return None
        if hopped.idle:
            return Effect(hopped.message, None)

        async def work() -> Effect:
            return Effect(hopped.message, read_event(hopped.message.event), _vectors(hopped))

        read = await self._hop.attempt(hopped, work)
        return Effect(read.message, None) if isinstance(read, Hopped) else read

    async def _apply(self, effects: Sequence[Effect]) -> list[Applied]:
        """Apply tenant by tenant, each in order, and answer in the order of the effects."""
        places: dict[str | None, list[int]] = {}
        for place, effect in enumerate(effects):
            places.setdefault(effect.message.tenant, []).append(place)
        answers: dict[int, Applied] = {}
        for tenant, mine in places.items():
            chosen = [effects[place] for place in mine]
            applied = [_nowhere(effect) for effect in chosen] if tenant is None else await self._write(tenant, chosen)
            answers.update(zip(mine, applied, strict=True))
        return [answers[place] for place in range(len(effects))]

    async def _write(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        try:
            return await self._hop.delivery.insist(lambda: self._complete_and_apply(tenant, effects))
        except Exception:  # noqa: BLE001 - one of them is to blame: each alone, by the rules
            return [await self._write_one(tenant, effect) for effect in effects]

    async def _complete_and_apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable with vectors of every model of the tenant, whatever is changed to meanwhile."""
        while True:
            complete = await self._models.complete(tenant, effects, self._hop.delivery)
            try:
                return await self._batcher.apply(tenant, complete)
            except ModelChanged:
                continue  # a switch came between: now that model's vectors are made up for

    async def _write_one(self, tenant: str, effect: Effect) -> Applied:
        try:
            work = self._hop.delivery.attempt(
                lambda: self._complete_and_apply(tenant, [effect]), watch=self._hop.watch(effect.message)
            )
            return (await work)[0]
        except Hopeless as reason:
            marker = await self._hop.bury(effect.message, reason)
            mark = Effect(marker.message, None)
            return (await self._hop.delivery.insist(lambda: self._batcher.apply(tenant, [mark])))[0]


async def contribute(hop: Hop, partitions: int, contributions: Sequence[Contribution]) -> None:
    """Tell the graph, however long the broker is away."""
    by_partition: dict[int, list[Outgoing]] = {}
    for contribution in contributions:
        key = contribution_key(contribution)
        by_partition.setdefault(partition_of(key, partitions), []).extend(contribution_records(contribution))
    for partition, messages in by_partition.items():
        await hop.publish(GRAPH, partition, messages)


def contribution_key(contribution: Contribution) -> bytes:
    """Return the key under which the compacted topic keeps the newest."""
    return f"{contribution.tenant}/{contribution.id}".encode()


def contribution_records(contribution: Contribution) -> list[Outgoing]:
    """Write a contribution; a removal is said, and then a tombstone lets compaction forget it."""
    key = contribution_key(contribution)
    said = Outgoing(key, contribution.model_dump_json(exclude_none=True).encode())
    return [said, Outgoing(key, None)] if contribution.removed else [said]


def _vectors(hopped: Hopped) -> Vectors | None:
    embedding = hopped.message.embedding
    if embedding is None:
        return None
    flat = np.frombuffer(hopped.vectors, dtype="<f4").astype(np.float32, copy=False)
    return flat.reshape(embedding.rows, embedding.dims)


def _receipt(effect: Effect, applied: Applied) -> Outgoing:
    traceparent = traceparent_of(effect.message)
    receipt = applied.receipt.model_copy(update={"traceparent": traceparent}) if traceparent else applied.receipt
    return Outgoing(effect.message.key.encode(), receipt.model_dump_json(exclude_none=True).encode())


def _nowhere(effect: Effect) -> Applied:
    """The receipt of a dead event whose tenant nobody knows: there is no store to write a watermark in."""
    message = effect.message
    receipt = Receipt(
        position=message.position,
        recorded_at=message.recorded_at.astimezone(UTC),
        tenant=None,
        event_id=message.event_id,
        event_source=message.event_source,
        outcome=ReceiptOutcome.DEAD,
    )
    return Applied(receipt)
