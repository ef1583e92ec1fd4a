"""The product's own code as an evaluation uses it: its embed and resolve functions, its store, graph and assembly."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ingest.embed import embedding_key
from ingest.resolve import resolve_unit
from query.assembly import Assembly
from schemas.events import UnitAsserted, dump_event, parse_event
from schemas.messages import Embedding, StageMessage
from schemas.positions import Position
from schemas.questions import Question
from shared.caches.memory import MemoryCache
from shared.clock import SystemClock
from shared.embedder import Embedder, Vectors
from shared.graphs.replica import GraphReplica
from shared.log import EVENTS
from shared.passages import stated_text
from shared.settings import Settings
from shared.store import Effect, KnowledgeReader, KnowledgeWriter
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.eval.datasets import Dataset, Item, Labelled

TENANT = "eval"
BATCH = 200
PLACES = 50  # a question's largest limit: recall@20 and the like can be read from one answer
DEADLINE_MS = 20_000  # an evaluation measures quality, never a deadline that was missed on a busy machine


def assertion(item: Item) -> UnitAsserted:
    """Write an item as the event that a producer would send."""
    unit = {"id": item.id, "text": item.text, "scope": {"level": "team", "entity_id": item.where}, **item.unit}
    event = {"id": item.id, "source": "urn:eval", "tenant": TENANT, "type": "unit.asserted", "data": unit}
    parsed = parse_event(event)
    assert isinstance(parsed, UnitAsserted)
    return parsed


async def embed_all(dataset: Dataset, embedder: Embedder) -> dict[str, Vectors]:
    """Embed every item as the embed stage does."""
    return {item.id: await embedder.embed_text(stated_text(assertion(item).data)) for item in dataset.items}


@asynccontextmanager
async def indexed(
    dataset: Dataset, vectors: dict[str, Vectors], model: str, folder: Path
) -> AsyncIterator[tuple[SqliteReader, GraphReplica]]:
    """Store a set in SQLite, with ``model``'s vectors, and yield what a query process would open."""
    writer = SqliteWriter(folder, SystemClock())
    try:
        graph = await fill(writer, dataset, vectors, model)
        reader = SqliteReader(folder, threads=2, vector_memory_mb=1_024)
        try:
            yield reader, graph
        finally:
            await reader.close()
    finally:
        await writer.close()


async def fill(writer: KnowledgeWriter, dataset: Dataset, vectors: dict[str, Vectors], model: str) -> GraphReplica:
    """Store a set, and return the graph that it contributes to."""
    graph = GraphReplica()
    effects = [_effect(number, item, vectors[item.id], model) for number, item in enumerate(dataset.items, start=1)]
    for start in range(0, len(effects), BATCH):
        for applied in await writer.apply(TENANT, effects[start : start + BATCH]):
            graph.apply(applied.contributions)
    await asyncio.to_thread(graph.refresh)
    return graph


async def rank(
    reader: KnowledgeReader,
    graph: GraphReplica,
    embedder: Embedder,
    questions: Sequence[Labelled],
    arms: frozenset[str] | None = None,
) -> list[list[frozenset[str]]]:
    """Ask every question and return its places: at each the unit and those that were merged into it."""
    clock = SystemClock()
    settings = Settings(search_deadline_ms=DEADLINE_MS, answer_deadline_ms=2 * DEADLINE_MS)
    options = {} if arms is None else {"arms": arms}
    assembly = Assembly(reader, graph, embedder, MemoryCache(clock), clock, settings, **options)
    rankings = []
    for asked in questions:
        question = Question(q=asked.text, scopes=(f"team/{asked.where}",), limit=PLACES)
        answer = await assembly.answer(question, tenant=TENANT, principal=None)
        assert answer.complete, answer.lost
        rankings.append([frozenset({result.unit_id, *result.also}) for result in answer.results])
    return rankings


def _effect(number: int, item: Item, vectors: Vectors, model: str) -> Effect:
    event = assertion(item)
    rows, dims = vectors.shape
    message = StageMessage(
        position=Position(log="eval", topic=EVENTS, partition=0, number=number),
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
        key=event.key,
        event=dump_event(event),
        tenant=TENANT,
        event_id=event.id,
        event_source=event.source,
        embedding=Embedding(model=model, content_key=embedding_key(TENANT, event.data), rows=rows, dims=dims),
        resolution=resolve_unit(event.data),
    )
    return Effect(message, event, np.asarray(vectors, dtype=np.float32))
