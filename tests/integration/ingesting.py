"""A pipeline on the real broker, its parts, and ways to disturb them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer

from ingest.intake import JournalIntake
from ingest.pipeline import Pipeline
from schemas.events import Event, parse_event
from shared.clock import SystemClock
from shared.embedder import Vector, Vectors
from shared.embedders.hashed import HashedEmbedder
from shared.kafka import Followed, Outgoing, Publisher, create_topics, follow
from shared.letters import LetterFilter
from shared.log import EVENTS, Appended
from shared.logs.kafka_log import KafkaLog
from shared.logs.memory import MemoryLog
from shared.settings import Settings
from shared.store import Applied, Effect, KnowledgeWriter, SearchFilter, StoredUnit
from shared.stores.sqlite import SqliteReader, SqliteWriter
from shared.text import query_terms
from tests.conftest import BROKER

WAIT_S = 120.0  # a bound for conditions, generous because the machine may be busy; nothing here measures time


async def until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    """Wait until a condition (perhaps asynchronous) holds."""
    async with asyncio.timeout(timeout_s):
        while True:
            met = condition()
            if asyncio.iscoroutine(met):
                met = await met
            if met:
                return
            await asyncio.sleep(0.01)


class SteeredEmbedder:
    """The hashed embedder, with failures and holds on demand, and a count of what it computed."""

    def __init__(self) -> None:
        self._inner = HashedEmbedder()
        self.computed: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.fault: Callable[[str], Exception | None] = lambda _: None
        self.held: dict[str, asyncio.Event] = {}

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dims(self) -> int:
        return self._inner.dims

    async def embed_query(self, text: str) -> Vector:
        return await self._inner.embed_query(text)

    async def embed_text(self, text: str) -> Vectors:
        self.asked[text] += 1
        for word, release in self.held.items():
            if word in text:
                await release.wait()
        error = self.fault(text)
        if error is not None:
            raise error
        self.computed[text] += 1
        return await self._inner.embed_text(text)

    @contextlib.contextmanager
    def holding(self, word: str) -> Iterator[asyncio.Event]:
        """Hold every text with a word until the event is set; released at the end, however a test ends."""
        release = self.held[word] = asyncio.Event()
        try:
            yield release
        finally:
            release.set()
            del self.held[word]

    async def close(self) -> None:
        await self._inner.close()


class GapWriter:
    """A writer that can stop the world right after its transaction: durable, but nobody has been told."""

    def __init__(self, inner: KnowledgeWriter) -> None:
        self._inner = inner
        self.gap = False
        self.reached = asyncio.Event()

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        applied = await self._inner.apply(tenant, effects)
        if self.gap:
            self.reached.set()
            await asyncio.Event().wait()
        return applied

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class Rig:
    """One installation: log, store and embedder outlive the pipelines that are started on them.

    On the embedded broker the log is a journal; on Kafka it is Kafka, and `prepare` must have made its topics.
    """

    def __init__(self, bootstrap: str, prefix: str, folder: Path, **settings: object) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.clock = SystemClock()
        kafka = {"kafka_bootstrap": bootstrap} if BROKER == "kafka" else {}
        given = {"topic_prefix": prefix, "retry_base_s": 0.01, "retry_attempts": 3, **kafka, **settings}
        self.settings = Settings(**given)
        self.log: Any = None if kafka else MemoryLog(self.settings.partitions, self.clock)
        self.writer = GapWriter(SqliteWriter(folder, self.clock))
        self.reader = SqliteReader(folder, threads=2, vector_memory_mb=64)
        self.embedder = SteeredEmbedder()
        self.pipeline: Any = None if kafka else self.make()

    async def prepare(self) -> "Rig":
        """Make the topics and open the log, where that is Kafka."""
        if self.log is None:
            await create_topics(self.bootstrap, self.settings.partitions, prefix=self.prefix)
            self.log = await self.open_log()
            self.pipeline = self.make()
        return self

    async def open_log(self) -> KafkaLog:
        """Open Kafka as another process would."""
        return await KafkaLog.open(self.bootstrap, self.clock, prefix=self.prefix, reader=self.reader)

    def make(self, kind: type[Pipeline] = Pipeline, **given: object) -> Pipeline:
        """Make another pipeline on the same parts."""
        parts = (self.settings, self.bootstrap, self.log, self.writer, self.reader, self.embedder, self.clock)
        return kind(*parts, **given)

    async def close(self) -> None:
        if self.pipeline is not None:
            await self.pipeline.stop()
        if self.log is not None:
            await self.log.close()
        await self.writer.close()
        await self.reader.close()

    async def say(self, *events: dict, tenant: str = "acme", topic: str = EVENTS) -> list[Appended]:
        """Journal events, as the gateway does."""
        return await self.log.append([read(event, tenant) for event in events], topic=topic)

    async def settle(self) -> None:
        """Wait until nothing is left to do."""
        await until(self._idle_or_dead)
        assert not self.pipeline.failed.is_set()

    async def _idle_or_dead(self) -> bool:
        return self.pipeline.failed.is_set() or await self.pipeline.idle()

    async def units(self, *unit_ids: str, tenant: str = "acme") -> dict[str, StoredUnit]:
        async with self.reader.snapshot(tenant) as snapshot:
            return await snapshot.units(unit_ids)

    async def search(self, question: str, tenant: str = "acme", scope: str = "team/core") -> list[str]:
        """Return unit ids by keyword, best first."""
        where = SearchFilter(scopes=frozenset({scope}), at=self.clock.now())
        async with self.reader.snapshot(tenant) as snapshot:
            hits = await snapshot.keyword(query_terms(question), where, 10)
        return [unit_id for hit in hits for unit_id in hit.unit_ids]

    async def near(self, question: str, tenant: str = "acme", scope: str = "team/core") -> list[str]:
        """Return unit ids by vector, best first."""
        where = SearchFilter(scopes=frozenset({scope}), at=self.clock.now())
        async with self.reader.snapshot(tenant) as snapshot:
            hits = await snapshot.vector(await self.embedder.embed_query(question), where, 10)
        return [unit_id for hit in hits for unit_id in hit.unit_ids]

    async def digest(self, tenant: str = "acme") -> dict[str, str]:
        return await self.writer.digest(tenant)

    async def letters(self, *, limit: int = 100, **given: object) -> list:
        """Return the dead letters; on Kafka as a process that has just been started sees them."""
        if BROKER != "kafka":
            return await self.log.dead_letters(LetterFilter(**given), limit=limit)
        async with following(await self.open_log()) as log:
            return await log.dead_letters(LetterFilter(**given), limit=limit)

    async def redeliver(self, places: Sequence[Appended], pipeline: Pipeline | None = None) -> None:
        """Publish events once more, in the given order, as a retry after a lost acknowledgement would."""
        if BROKER == "kafka":
            rows = [await self.log.at(place.position) for place in places]
            async with await Publisher.open(self.bootstrap, prefix=self.prefix) as publisher:
                for row in rows:
                    message = Outgoing(row.key.encode(), row.body)
                    await publisher.publish(row.position.topic, row.position.partition, [message])
            return
        intake = JournalIntake(self.log, (pipeline or self.pipeline).epoch, self.prefix)
        rows = {row.position: row for row in await self.log.read(0, 10_000)}
        async with await Publisher.open(self.bootstrap, prefix=self.prefix) as publisher:
            for place in places:
                row = rows[place.position]
                await publisher.publish(row.position.topic, row.position.partition, [intake.stamp(row)])

    async def produce(
        self, *records: tuple[bytes | None, bytes | None, list[tuple[str, bytes]]], partition: int
    ) -> None:
        """Speak Kafka, as any producer may: (key, value, headers) to a partition of cortex.events."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        try:
            for key, value, headers in records:
                await producer.send_and_wait(
                    f"{self.prefix}{EVENTS}", value, key=key, headers=headers, partition=partition
                )
        finally:
            await producer.stop()

    async def topic(self, name: str, **given: object) -> list[Followed]:
        """Return everything a topic holds now, by partition and offset."""
        found: list[Followed] = []
        async with (
            asyncio.timeout(WAIT_S),
            aclosing(follow(self.bootstrap, name, prefix=self.prefix, **given)) as batches,
        ):
            async for batch in batches:
                found.extend(batch.records)
                if batch.caught_up:
                    break
        return sorted(found, key=lambda record: (record.partition, record.offset))


@asynccontextmanager
async def running(rig: Rig) -> AsyncIterator[Rig]:
    """Start the rig's pipeline, and stop everything at the end."""
    try:
        await rig.prepare()
        await rig.pipeline.start()
        yield rig
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await rig.close()


@asynccontextmanager
async def following(log: KafkaLog) -> AsyncIterator[KafkaLog]:
    """Let a log read what stands on Kafka, and wait until it has."""
    following = asyncio.create_task(log.follow())
    try:
        await until(lambda: log.caught_up)
        yield log
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await log.close()


def read(event: dict, tenant: str = "acme") -> Event:
    return parse_event(envelope(event, tenant))


_numbers = iter(range(10**9))


def envelope(event: dict, tenant: str = "acme") -> dict:
    """Complete an event: id, source and tenant where it has none."""
    return {"specversion": "1.0", "id": f"n{next(_numbers)}", "source": "tests", "tenant": tenant, **event}


def asserted(unit_id: str, text: str, scope: str = "core", event: dict | None = None, **given: object) -> dict:
    data = {"id": unit_id, "text": text, "type": "context", "scope": {"level": "team", "entity_id": scope}, **given}
    return {"type": "unit.asserted", "data": data, **(event or {})}


def retracted(unit_id: str, **given: object) -> dict:
    return {"type": "unit.retracted", "data": {"id": unit_id, **given}}


def as_bytes(event: dict, tenant: str = "acme") -> bytes:
    return orjson.dumps(envelope(event, tenant))
