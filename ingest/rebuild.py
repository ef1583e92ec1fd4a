"""rebuild: the kept events once more, in the log's order, through the stages' own functions into a store of its own.

No broker takes part: what the stages hand on by messages is handed on by calls, in one process, a page at a time:

    read → vectors (borrowed, or computed) → resolve → store → contradictions

The store's watermarks say how far it is, so a rebuild that was interrupted goes on, and one that follows a store which is
being written takes up what came since. An event that cannot be used has no effect here either: its position alone is kept.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ingest.buried import Buried
from ingest.contradictions import ContradictionCheck, with_renamed
from ingest.delivery import Verdict, doomed, rule_for
from ingest.embed import embedding_key
from ingest.hop import dead, moved
from ingest.intake import read_event, read_json
from ingest.models import EMBED_DEADLINE_S, PROBE
from ingest.resolve import resolve_unit
from schemas.events import Event, UnitAsserted
from schemas.messages import Embedding, Receipt, StageMessage
from schemas.positions import Position
from shared.embedder import Embedder, Vectors
from shared.errors import EmbedderUnavailable
from shared.log import EventLog, LogRecord
from shared.partitioner import partition_of
from shared.passages import stated_text
from shared.store import (
    CONTRADICTIONS,
    STORED,
    Applied,
    Effect,
    FoundContradiction,
    KnowledgeReader,
    KnowledgeWriter,
)

TRANSACTION: Final = 256
"""Events a transaction: a quarter of a second's work, so that progress is told and a stop is quick."""
STRAYS: Final = 10_000
"""Strays that are kept back, some 20 MB; a log of which more are strays was written for another number of partitions."""

Place = tuple[str, int]
"""A topic and a partition of it."""
Watermarks = Mapping[Place, int]
OnProgress = Callable[[int], None]


@dataclass
class Tally:
    """What a rebuild has done so far. ``failed``: by cause, events that cannot be used; ``mended``: events that were buried
    in the life of the store that is compared with, and would succeed now.
    """

    events: int = 0
    borrowed: int = 0
    computed: int = 0
    contradictions: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)


class _Step(NamedTuple):
    """An event on its way to the store; ``event`` is None where only its position goes on."""

    message: StageMessage
    event: Event | None


class _Strays:
    """Events in a partition that their key does not name, in a replay that ends where another store was.

    Ingest sends them on, and they have their effect where they stand then. So one that was sent on to beyond the end has
    none; which ones those are, the last pages tell.
    """

    def __init__(self, partitions: int, until: Watermarks | None) -> None:
        self._partitions = partitions
        self._until = until
        self._kept: list[_Step] = []
        self._beyond: set[Position] = set()

    def look(self, records: Sequence[LogRecord]) -> None:
        """Note what was sent on to beyond the end."""
        if self._until is not None:
            sent_on = [record for record in records if not _is_within(record, self._until)]
            self._beyond.update(record.moved_from for record in sent_on if record.moved_from is not None)

    def kept_back(self, steps: Sequence[_Step]) -> list[_Step]:
        """Keep strays back, at most `STRAYS`; return what is to be replayed now."""
        now: list[_Step] = []
        for step in steps:
            is_kept = self._until is not None and len(self._kept) < STRAYS and self._is_stray(step)
            (self._kept if is_kept else now).append(step)
        return now

    def left(self) -> list[_Step]:
        """Return what was kept back, those that were sent on to beyond the end without their events."""
        return [
            _Step(moved(step.message, "embed"), None) if step.message.position in self._beyond else step
            for step in self._kept
        ]

    def _is_stray(self, step: _Step) -> bool:
        if step.event is None:
            return False
        return partition_of(step.event.key.encode(), self._partitions) != step.message.position.partition


class _Failed(Exception):
    """This event cannot be used: at which stage, and why."""

    def __init__(self, stage: str, cause: str) -> None:
        super().__init__(f"{stage}: {cause}")
        self.stage, self.cause = stage, cause


class Rebuild:
    """Replays a log into a store. ``lender``: a store whose vectors are borrowed, where it has this model's of a text."""

    def __init__(
        self,
        log: EventLog,
        writer: KnowledgeWriter,
        reader: KnowledgeReader,
        embedder: Embedder,
        *,
        lender: KnowledgeWriter | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self.tally = Tally()
        self._log = log
        self._writer = writer
        self._reader = reader
        self._embedder = embedder
        self._lender = lender
        self._checker = ContradictionCheck(reader)
        self._on_progress = on_progress

    async def run(self, tenant: str, buried: Buried, until: Watermarks | None = None) -> set[str]:
        """Replay the tenant's events above the store's own watermarks, up to ``until`` where it is given.

        Returns what they tell of: the ids of units, documents, entities, and of relations' sources. Raises
        StoreUnavailable, LogUnavailable, EmbedderUnavailable, DiskFull; the same again goes on.
        """
        done = await self._done(tenant)
        strays = _Strays(self._log.partitions, until)
        subjects: set[str] = set()
        async for page in self._log.scan(tenant):
            strays.look(page)
            due = [record for record in page if _is_due(record, done, until)]
            for start in range(0, len(due), TRANSACTION):
                steps = strays.kept_back([self._read(record) for record in due[start : start + TRANSACTION]])
                subjects |= await self._replay(tenant, steps, buried)
        left = strays.left()
        for start in range(0, len(left), TRANSACTION):
            subjects |= await self._replay(tenant, left[start : start + TRANSACTION], buried)
        return subjects

    async def _done(self, tenant: str) -> Watermarks:
        """Return up to where everything is done: stored, and compared with what is known."""
        async with self._reader.snapshot(tenant) as snapshot:
            stored, checked = await snapshot.watermarks(STORED), await snapshot.watermarks(CONTRADICTIONS)
        return {place: min(number, checked.get(place, -1)) for place, number in stored.items()}

    async def _replay(self, tenant: str, steps: Sequence[_Step], buried: Buried) -> set[str]:
        if not steps:
            return set()
        vectors = await self._vectors(tenant, steps)
        effects = await asyncio.to_thread(lambda: [self._prepared(step, vectors) for step in steps])
        effects = [self._as_in_life(effect, buried) for effect in effects]
        applied = await self._apply(tenant, effects)
        keyed = [(one.receipt, step.message.key) for one, step in zip(applied, steps, strict=True)]
        await self._check(tenant, [await with_renamed(*receipt, self._checker) for receipt in keyed], buried)
        self.tally.events += len(steps)
        self._on_progress(self.tally.events)
        return {subject for step in steps if step.event is not None for subject in _subjects(step.event)}

    def _read(self, record: LogRecord) -> _Step:
        message = StageMessage(
            position=record.position,
            recorded_at=record.recorded_at,
            revision=record.revision,
            key=record.key,
            tenant=record.tenant,
            event_id=record.event_id,
            event_source=record.source,
        )
        try:
            return _Step(message, read_event(read_json(record.body)))
        except Exception as error:  # noqa: BLE001 - one event that nobody can read stops no others
            return _Step(self._dead(message, _Failed("embed", doomed(error).cause)), None)

    async def _vectors(self, tenant: str, steps: Sequence[_Step]) -> dict[str, Vectors | _Failed]:
        """Return the vectors of every text by its key: the target's own, borrowed, or computed."""
        texts = {
            embedding_key(tenant, step.event.data): stated_text(step.event.data)
            for step in steps
            if isinstance(step.event, UnitAsserted)
        }
        found: dict[str, Vectors | _Failed] = {}
        found.update(await self._writer.known_vectors(self._embedder.model, tenant, texts.keys()))
        absent = texts.keys() - found.keys()
        if self._lender is not None and absent:
            lent = await self._lender.known_vectors(self._embedder.model, tenant, absent)
            self.tally.borrowed += len(lent)
            found.update(lent)
        for key in sorted(texts.keys() - found.keys()):
            found[key] = await self._embed(texts[key])
        return found

    async def _embed(self, text: str) -> Vectors | _Failed:
        """Compute a text's vectors. Where the embedder works for another text, this one is to blame."""
        try:
            vectors = await self._run(text)
        except Exception as error:  # noqa: BLE001 - this text alone is given up
            try:
                await self._run(PROBE)
            except Exception as outage:
                raise EmbedderUnavailable(f"The embedder does not work: {outage}") from outage
            return _Failed("embed", rule_for(error).cause)
        self.tally.computed += 1
        return vectors

    async def _run(self, text: str) -> Vectors:
        async with asyncio.timeout(EMBED_DEADLINE_S):
            return await self._embedder.embed_text(text)

    def _prepared(self, step: _Step, vectors: Mapping[str, Vectors | _Failed]) -> Effect:
        message, event = step
        if not isinstance(event, UnitAsserted):
            return Effect(message, event)
        key = embedding_key(event.tenant, event.data)
        mine = vectors[key]
        if isinstance(mine, _Failed):
            return Effect(self._dead(message, mine), None)
        rows, dims = mine.shape
        embedding = Embedding(model=self._embedder.model, content_key=key, rows=rows, dims=dims)
        try:
            resolution = resolve_unit(event.data)
        except Exception as error:  # noqa: BLE001 - one text that nobody can resolve stops no others
            return Effect(self._dead(message, _Failed("resolve", doomed(error).cause)), None)
        return Effect(message.model_copy(update={"embedding": embedding, "resolution": resolution}), event, mine)

    def _as_in_life(self, effect: Effect, buried: Buried) -> Effect:
        """Take away the effect of an event that had none in the life of the other store, and count it as mended."""
        message = effect.message
        letter = buried.without_effect.get((message.position, message.event_source, message.event_id))
        if letter is None or effect.event is None:
            return effect
        self.tally.mended.append(f"{effect.event.source} {effect.event.id}")
        return Effect(dead(message, letter.stage, letter.cause), None)

    async def _apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Apply effects together; where one of them is refused, each alone, and that one has no effect."""
        try:
            return await self._writer.apply(tenant, effects)
        except Exception as error:
            if rule_for(error).verdict is Verdict.WAIT:
                raise
        applied: list[Applied] = []
        for effect in effects:
            try:
                applied += await self._writer.apply(tenant, [effect])
            except Exception as error:
                if rule_for(error).verdict is Verdict.WAIT:
                    raise
                mark = Effect(self._dead(effect.message, _Failed("store", doomed(error).cause)), None)
                applied += await self._writer.apply(tenant, [mark])
        return applied

    async def _check(self, tenant: str, receipts: Sequence[Receipt], buried: Buried) -> None:
        """Compare what was stored with all that is known; then move the watermark of every partition."""
        due = [
            receipt
            for receipt in receipts
            if receipt.units and (receipt.position, receipt.event_source, receipt.event_id) not in buried.unchecked
        ]
        found = _told_last(await self._checker.check_all(due))
        # one look at the store: whatever the order of recording, each pair is kept by the last receipt that names it
        quiet = {unit for receipt, pairs in zip(due, found, strict=True) if not pairs for unit in receipt.units}
        if quiet:
            await self._writer.record_contradictions(tenant, None, due[-1].recorded_at, sorted(quiet), ())
        for receipt, pairs in zip(due, found, strict=True):
            if pairs:
                fresh = await self._writer.record_contradictions(
                    tenant, None, receipt.recorded_at, receipt.units, pairs
                )
                self.tally.contradictions += len(fresh)
        for receipt in {(one.position.topic, one.position.partition): one for one in receipts}.values():
            await self._writer.record_contradictions(tenant, receipt.position, receipt.recorded_at, (), ())

    def _dead(self, message: StageMessage, failed: _Failed) -> StageMessage:
        self.tally.failed[failed.cause] += 1
        return dead(message, failed.stage, failed.cause)


def _subjects(event: Event) -> set[str]:
    return {event.about(), event.data.id} if isinstance(event, UnitAsserted) else {event.about()}


def _is_due(record: LogRecord, done: Watermarks, until: Watermarks | None) -> bool:
    return not _is_within(record, done) and (until is None or _is_within(record, until))


def _is_within(record: LogRecord, marks: Watermarks) -> bool:
    place = (record.position.topic, record.position.partition)
    return record.position.number <= marks.get(place, -1)


def _told_last(found: Sequence[Sequence[FoundContradiction]]) -> list[list[FoundContradiction]]:
    """Leave each pair to the last that names it: as in life, where of two units the later sees the earlier."""
    seen: set[str] = set()
    told: list[list[FoundContradiction]] = []
    for pairs in reversed(found):
        told.append([pair for pair in pairs if pair.id not in seen])
        seen.update(pair.id for pair in pairs)
    return told[::-1]
