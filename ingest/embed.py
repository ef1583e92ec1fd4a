"""embed: an event gets its position and its vectors. The first stage; it also journals what came in over Kafka."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingest.delivery import Hopeless, doomed
from ingest.hop import Hop, Hopped, dead, moved
from ingest.intake import Foreign, Intake, Place, read_event, read_record
from ingest.lanes import Draining
from ingest.letters import identity_in, replayed_letter
from ingest.models import TenantModels, embed, is_well
from ingest.turns import Turns
from schemas.events import Event, UnitAsserted
from schemas.messages import Embedding, StageMessage
from schemas.units import Unit
from shared.embedder import Embedder, Vectors
from shared.identity import content_key
from shared.kafka import EMBEDDED, Record
from shared.log import BULK
from shared.passages import stated_text
from shared.store import KnowledgeWriter

RECENT = 1_024  # texts on their way to the store, whose vectors need not be computed again
WINDOW_S = (
    2.0  # four lanes' windows of short texts take 1 s, of the longest a minute: what is embedded goes on before that
)
AHEAD = 2  # texts of one lane that are on their way: while one is handed back, the embedder has the next


@dataclass(frozen=True)
class _Read:
    """An event in hand: where it stands, its JSON as it came, and, for a unit, the key of its vectors."""

    place: Place
    message: StageMessage
    unit: Unit | None = None
    tenant: str = ""
    key: str = ""


_Key = tuple[str, str, str]
"""A model, a tenant, and a content key."""


@dataclass
class _Known:
    """By tenant the embedder of its active model, and vectors that are there already."""

    embedders: dict[str, Embedder] = field(default_factory=dict)
    vectors: dict[_Key, Vectors] = field(default_factory=dict)


def embedding_key(tenant: str, unit: Unit) -> str:
    """Return the key of the unit's vectors: over exactly what is embedded."""
    return content_key(tenant, unit.scope.key, stated_text(unit))


class EmbedStage:
    """From ``cortex.events`` and ``cortex.bulk`` to ``cortex.embedded``."""

    def __init__(
        self,
        hop: Hop,
        intake: Intake,
        writer: KnowledgeWriter,
        models: TenantModels,
        turns: Turns,
        *,
        window_s: float = WINDOW_S,
    ) -> None:
        self._hop = hop
        self._intake = intake
        self._writer = writer
        self._models = models
        self._turns = turns
        self._window_s = window_s
        self._recent: OrderedDict[_Key, Vectors] = OrderedDict()

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Journal foreign records, embed the others, hand them on; stop between two when draining or out of time."""
        bulk = records[0].topic.endswith(BULK)
        read, foreign = await self._read(records)
        known = await self._known(read)
        await self._accept(read, foreign)
        outputs, done = await self._embed_all(read, known, draining, bulk=bulk)
        await self._hop.publish(EMBEDDED, records[0].partition, [output.record() for output in outputs])
        return done

    async def _read(self, records: Sequence[Record]) -> tuple[list[_Read | None], dict[int, Foreign]]:
        """Read each record: None stands for one without a position, foreign or buried. Foreign events by where they are
        in the list; of one that has a position here, a marker goes on, so that what is counted as waiting here ends.
        """
        read: list[_Read | None] = []
        foreign: dict[int, Foreign] = {}
        for record in records:
            event: Event | None = None
            value: Any = None
            try:
                value = read_record(record)
                event = read_event(value)
                place = self._intake.place(record, value, event.key)
            except Exception as error:  # noqa: BLE001 - one event that nobody can read stops no others
                place = self._intake.place(record, value, None)
                reason = doomed(error)
                await self._bury(record, place, reason, value)
                if place is not None:
                    read.append(_Read(place, dead(_message(place, record, None), "embed", reason.cause)))
                    continue
            if (place is None or place.stray) and event is not None:
                foreign[len(read)] = (record, event)
            if place is None:
                read.append(None)
            elif place.stray:
                read.append(_Read(place, moved(_message(place, record, None, event), "embed")))
            else:
                read.append(_with_unit(place, _message(place, record, value, event), event))
        return read, foreign

    async def _accept(self, read: list[_Read | None], foreign: Mapping[int, Foreign]) -> None:
        """Keep foreign events, all at once; where the log refuses, each alone, and the one to blame is buried."""
        try:
            await self._keep(list(foreign.values()))
        except Exception:  # noqa: BLE001 - told for the one to blame
            for index, (record, event) in foreign.items():
                try:
                    await self._keep([(record, event)])
                except Exception as error:  # noqa: BLE001 - one event that cannot be kept stops no others
                    reason, stood = doomed(error), read[index]
                    place = None if stood is None else stood.place
                    await self._bury(record, place, reason, event.model_dump(include={"tenant", "source", "id"}))
                    if place is not None:
                        read[index] = _Read(place, dead(_message(place, record, None, event), "embed", reason.cause))

    async def _keep(self, foreign: Sequence[Foreign]) -> None:
        if foreign:
            topic = foreign[0][0].topic
            await self._hop.delivery.insist(lambda: self._intake.accept(foreign, topic))

    async def _bury(self, record: Record, place: Place | None, reason: Hopeless, value: Any) -> None:
        if place is None:
            await self._hop.letters.bury_record(self._hop.delivery, record, reason, identity=identity_in(value))
            return
        await self._hop.letters.bury_record(
            self._hop.delivery,
            record,
            reason,
            identity=(place.tenant, place.source, place.event_id),
            place=place.position,
            revision=place.revision,
        )

    async def _known(self, read: Sequence[_Read | None]) -> _Known:
        """Look up whose model is which, and which texts were embedded by it before: nothing is computed twice."""
        wanted: dict[str, set[str]] = {}
        for item in read:
            if item is not None and item.unit is not None:
                wanted.setdefault(item.tenant, set()).add(item.key)
        known = _Known()
        for tenant, keys in wanted.items():
            embedder = await self._hop.delivery.insist(lambda tenant=tenant: self._models.active(tenant))  # type: ignore[misc] # bound now
            found = await self._hop.delivery.insist(
                lambda tenant=tenant, keys=keys, model=embedder.model: self._writer.known_vectors(model, tenant, keys)  # type: ignore[misc] # bound now
            )
            known.embedders[tenant] = embedder
            known.vectors.update({(embedder.model, tenant, key): vectors for key, vectors in found.items()})
        return known

    async def _embed_all(
        self, read: Sequence[_Read | None], known: _Known, draining: Draining, *, bulk: bool
    ) -> tuple[list[Hopped], int]:
        """Embed in order, `AHEAD` at a time; return what goes on, and how many records from the start are done.

        Equal texts wait for each other, so that the later finds the earlier's vectors.
        """
        outputs: list[Hopped] = []
        running: deque[tuple[tuple[str, str], asyncio.Task[Hopped]]] = deque()
        done = 0
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for item in read:
                if len(running) >= AHEAD:
                    outputs.append(await running.popleft()[1])
                if done and (draining() or time.monotonic() - began >= self._window_s):
                    break
                done += 1
                if item is None:
                    continue
                place = (item.tenant, item.key)
                while any(place == before for before, _ in running):
                    outputs.append(await running.popleft()[1])
                running.append((place, tasks.create_task(self._traced(item, known, bulk=bulk))))
            outputs += [await task for _, task in running]
        return outputs, done

    async def _traced(self, item: _Read, known: _Known, *, bulk: bool) -> Hopped:
        with self._hop.trace([item.message]):
            return await self._embed(item, known, bulk=bulk)

    async def _embed(self, item: _Read, known: _Known, *, bulk: bool) -> Hopped:
        """Give a unit its vectors. Each record takes a turn, and each attempt one: nobody waits for another's backoff."""
        if item.unit is None:
            return Hopped(item.message)
        embedder = known.embedders[item.tenant]
        place = (embedder.model, item.tenant, item.key)
        async with self._turns.turn(item.tenant, bulk=bulk):
            vectors = known.vectors.get(place, self._recent.get(place))
        if vectors is None:
            text = stated_text(item.unit)
            try:
                vectors = await self._hop.delivery.attempt(
                    lambda: self._run(text, item, embedder, bulk=bulk),
                    healthy=lambda: self._is_well(item.tenant, embedder, bulk=bulk),
                    watch=self._hop.watch(item.message),
                )
            except Hopeless as reason:
                return await self._hop.bury(item.message, reason)
            self._remember(place, vectors)
        rows, dims = vectors.shape
        embedding = Embedding(model=embedder.model, content_key=item.key, rows=rows, dims=dims)
        message = item.message.model_copy(update={"embedding": embedding})
        return Hopped(message, np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    async def _run(self, text: str, item: _Read, embedder: Embedder, *, bulk: bool) -> Vectors:
        async with self._turns.turn(item.tenant, bulk=bulk):
            with self._hop.hold([item.message]):  # its own time: not what it waited for its turn
                return await embed(embedder, text)

    async def _is_well(self, tenant: str, embedder: Embedder, *, bulk: bool) -> bool:
        async with self._turns.turn(tenant, bulk=bulk):
            return await is_well(embedder)

    def _remember(self, place: _Key, vectors: Vectors) -> None:
        self._recent[place] = vectors
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)


def _message(place: Place, record: Record, value: dict[str, Any] | None, event: Event | None = None) -> StageMessage:
    return StageMessage(
        position=place.position,
        recorded_at=place.recorded_at,
        revision=place.revision,
        key=(record.key or b"").decode("utf-8", "replace") if event is None else event.key,
        event=value,
        tenant=place.tenant,
        event_id=place.event_id,
        event_source=place.source,
        replays=replayed_letter(record),
    )


def _with_unit(place: Place, message: StageMessage, event: Event | None) -> _Read:
    if not isinstance(event, UnitAsserted):
        return _Read(place, message)
    return _Read(place, message, event.data, event.tenant, embedding_key(event.tenant, event.data))
