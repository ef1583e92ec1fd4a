"""Events and effects in few words, for tests of the knowledge store."""

import hashlib
import os
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from schemas.events import dump_event, parse_event
from schemas.messages import Embedding, Marker, Resolution, StageMessage
from schemas.positions import Position
from shared.clock import Clock
from shared.effects import document_hash
from shared.identity import content_key
from shared.mentions import find_mentions
from shared.passages import stated_text
from shared.store import Applied, Effect, KnowledgeReader, KnowledgeWriter, SearchFilter
from shared.stores.memory import MemoryStore
from shared.stores.sqlite import SqliteReader, SqliteWriter
from shared.text import fold, query_terms

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
TENANT = "acme"
CORE = "team/core"
MODEL = "test-model"
DIMS = 8


def vector_of(text: str) -> np.ndarray:
    """Return a unit vector that depends on the folded text alone, as texts of one content key share theirs."""
    seed = int.from_bytes(hashlib.sha256(fold(text).encode()).digest()[:4], "big")
    vector = np.random.default_rng(seed).normal(size=DIMS).astype(np.float32)
    return vector / np.linalg.norm(vector)


def unit(unit_id: str, text: str, *, scope: str = CORE, **given) -> dict:
    """Return a unit."""
    level, _, entity_id = scope.partition("/")
    return {"id": unit_id, "text": text, "type": "context", "scope": {"level": level, "entity_id": entity_id}, **given}


def parts(document_id: str, revision: int, texts: list[str], **given) -> list[dict]:
    """Return a revision of a document: an event a part."""
    return [
        asserted(unit(f"{document_id}#{part}", text, document_id=document_id, part=part, revision=revision, **given))
        for part, text in enumerate(texts)
    ]


def completed(document_id: str, revision: int, texts: list[str], **given) -> dict:
    """Return the event that ends a revision; no texts retract the document."""
    data = {"id": document_id, "revision": revision, "parts": len(texts), "hash": document_hash(texts)}
    return {"type": "document.completed", "data": data, **given}


def asserted(data: dict, **given) -> dict:
    """Return the event that states a unit."""
    return {"type": "unit.asserted", "data": data, **given}


def retracted(unit_id: str, revision: int | None = None, **given) -> dict:
    """Return the event that withdraws a unit."""
    return {"type": "unit.retracted", "data": _said(id=unit_id, revision=revision), **given}


def entity(entity_id: str, kind: str, name: str | None = None, *, revision: int | None = None, **given) -> dict:
    """Return the event that declares an entity."""
    data = _said(id=entity_id, type=kind, name=name or entity_id, revision=revision, **given)
    return {"type": "entity.declared", "data": data}


def entity_gone(entity_id: str, revision: int | None = None) -> dict:
    """Return the event that withdraws an entity."""
    return {"type": "entity.retracted", "data": _said(id=entity_id, revision=revision)}


def relation(source_id: str, name: str, target_id: str, **given) -> dict:
    """Return the event that declares a relation."""
    data = _said(source_id=source_id, relation=name, target_id=target_id, **given)
    return {"type": "relation.declared", "data": data}


def relation_gone(source_id: str, name: str, target_id: str, revision: int | None = None) -> dict:
    """Return the event that withdraws a relation."""
    data = _said(source_id=source_id, relation=name, target_id=target_id, revision=revision)
    return {"type": "relation.retracted", "data": data}


def effect_of(event: dict, number: int, *, tenant: str = TENANT, vectors: np.ndarray | None = None) -> Effect:
    """Return what the stages before the store make of an event at a place in the log."""
    parsed = parse_event({"specversion": "1.0", "id": f"event-{number}", "source": "tests", "tenant": tenant, **event})
    data = event["data"]
    embedding, resolution = None, None
    if event["type"] == "unit.asserted":
        vectors = vector_of(data["text"])[np.newaxis] if vectors is None else vectors
        scope = f"{data['scope']['level']}/{data['scope']['entity_id']}"
        embedding = Embedding(
            model=MODEL,
            content_key=content_key(tenant, scope, stated_text(parsed.data)),
            rows=len(vectors),
            dims=vectors.shape[1],
        )
        resolution = Resolution(mentions=find_mentions(data["text"], data.get("title")))
    message = StageMessage(
        position=place(number),
        recorded_at=NOW - timedelta(days=10) + timedelta(seconds=number),
        key=parsed.key,
        event=dump_event(parsed),
        tenant=tenant,
        event_id=parsed.id,
        event_source=parsed.source,
        embedding=embedding,
        resolution=resolution,
    )
    return Effect(message, parsed, vectors)


def marker_of(kind: str, number: int) -> Effect:
    """Return the effect of an event that has none."""
    message = StageMessage(
        position=place(number), recorded_at=NOW, key="k", marker=Marker(kind=kind, stage="embed"), tenant=TENANT
    )
    return Effect(message, None)


def place(number: int, partition: int = 0) -> Position:
    """Return a place in the log."""
    return Position(log="log-1", topic="cortex.events", partition=partition, number=number)


def where(*scopes: str, **given) -> SearchFilter:
    """Return a filter for what is current now."""
    return SearchFilter(scopes=frozenset(scopes or (CORE,)), **{"at": NOW, **given})


async def nothing() -> None:
    """What is to be cleaned where the folder goes anyway."""


@dataclass
class Store:
    """Writer and reader of one store. ``apply`` numbers events as they come."""

    writer: KnowledgeWriter
    reader: KnowledgeReader
    number: int = 0
    said: list[Effect] = field(default_factory=list)
    clean: Callable[[], Awaitable[None]] = nothing

    async def apply(self, *events: dict, tenant: str = TENANT) -> list[Applied]:
        """Apply events in one transaction."""
        effects = []
        for event in events:
            self.number += 1
            effects.append(effect_of(event, self.number, tenant=tenant))
        self.said += effects
        return await self.writer.apply(tenant, effects)

    async def again(self, *numbers: int, tenant: str = TENANT) -> list[Applied]:
        """Deliver effects once more, by their numbers."""
        wanted = [effect for effect in self.said if effect.message.position.number in numbers]
        return await self.writer.apply(tenant, wanted)

    async def keyword(
        self, question: str, filter_: SearchFilter | None = None, limit: int = 10
    ) -> list[tuple[str, ...]]:
        """Return the units of each passage that a question's words find."""
        async with self.reader.snapshot(TENANT) as snapshot:
            hits = await snapshot.keyword(query_terms(question), filter_ or where(), limit)
        return [hit.unit_ids for hit in hits]

    async def vector(self, text: str, filter_: SearchFilter | None = None, limit: int = 10) -> list[tuple[str, ...]]:
        """Return the units of each passage by nearness to a text."""
        async with self.reader.snapshot(TENANT) as snapshot:
            hits = await snapshot.vector(vector_of(text), filter_ or where(), limit)
        return [hit.unit_ids for hit in hits]

    async def known(self, unit_id: str):
        """Return a live unit, or None."""
        async with self.reader.snapshot(TENANT) as snapshot:
            return (await snapshot.units([unit_id])).get(unit_id)

    async def counts(self):
        """Return totals."""
        async with self.reader.snapshot(TENANT) as snapshot:
            return await snapshot.counts()

    async def close(self) -> None:
        """Close both, and leave no server with what only this test knows of."""
        await self.reader.close()
        await self.writer.close()
        await self.clean()


def open_store(kind: str, folder: Path, clock: Clock) -> Store:
    """Open an implementation by name."""
    if kind == "memory":
        both = MemoryStore(clock)
        return Store(both, both)
    if kind == "weaviate":
        return weaviate_store(clock)
    return Store(SqliteWriter(folder, clock), SqliteReader(folder, threads=2, vector_memory_mb=16, clock=clock))


WEAVIATE = os.environ.get("CORTEX_TEST_WEAVIATE", "")
"""``http://host:port,host:grpc-port`` of a server to test with; empty: there is none."""


def weaviate_store(clock: Clock, prefix: str | None = None) -> Store:
    """Open a store on the server of `WEAVIATE`, with collections of its own that go when it is closed."""
    from shared.stores.weaviate import WeaviateReader, WeaviateWriter  # noqa: PLC0415 - an extra
    from shared.stores.weaviate.client import Client  # noqa: PLC0415 - an extra

    url, grpc = WEAVIATE.split(",")
    own = prefix or f"Test{uuid.uuid4().hex}"

    async def clean() -> None:
        client = Client(url, grpc)
        for name in await client.collections():
            if name.startswith(own):
                await client.drop(name)
        await client.close()

    return Store(
        WeaviateWriter(url, grpc, clock, prefix=own), WeaviateReader(url, grpc, clock=clock, prefix=own), clean=clean
    )


def _said(**given) -> dict:
    return {key: value for key, value in given.items() if value is not None}
