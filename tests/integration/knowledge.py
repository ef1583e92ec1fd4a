"""A small knowledge base for the tests of the question's path: what is taught is stored as the pipeline would store it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from query.assembly import Assembly
from query.inquiry import TokenLog
from schemas.events import Event, parse_event
from schemas.messages import Embedding, Resolution, StageMessage
from schemas.positions import Position
from shared.caches.memory import MemoryCache
from shared.clock import ManualClock
from shared.embedder import Embedder
from shared.embedders.hashed import HashedEmbedder
from shared.graphs.replica import GraphReplica
from shared.identity import content_key
from shared.log import EVENTS
from shared.mentions import find_mentions
from shared.passages import stated_text
from shared.settings import Settings
from shared.store import Effect, FoundContradiction
from shared.stores.sqlite import SqliteReader, SqliteWriter

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
LOG = "log-1"


class Knowledge:
    """Writer, reader, graph and clock of one folder; ``teach`` takes events as JSON objects."""

    def __init__(self, folder: Path, embedder: Embedder | None = None) -> None:
        self.clock = ManualClock(NOW)
        self.embedder = embedder or HashedEmbedder(256)
        self.cache = MemoryCache(self.clock)
        self.graph = GraphReplica()
        self.writer = SqliteWriter(folder, self.clock)
        self.reader = SqliteReader(folder, threads=2, vector_memory_mb=64, clock=self.clock)
        self.number = 0

    def assembly(self, **given) -> Assembly:
        """Return an assembly over it; keywords replace its parts."""
        settings = given.pop("settings", Settings(search_deadline_ms=5_000, answer_deadline_ms=20_000))
        parts = {
            "reader": self.reader,
            "graph": self.graph,
            "embedder": self.embedder,
            "cache": self.cache,
            "clock": self.clock,
            "settings": settings,
            "tokens": TokenLog(LOG, 1),
            **given,
        }
        return Assembly(**parts)

    async def teach(self, *events: dict, tenant: str = "demo") -> Position:
        """Store events and return the position of the last."""
        effects = [await self._effect(parse_event({"tenant": tenant, **event})) for event in events]
        for applied in await self.writer.apply(tenant, effects):
            self.graph.apply(applied.contributions)
        self.graph.refresh()
        return effects[-1].message.position

    async def dispute(self, one: str, other: str, *, tenant: str = "demo") -> None:
        """Record that two units contradict each other."""
        units = tuple(sorted((one, other)))
        async with self.reader.snapshot(tenant) as snapshot:
            stored = await snapshot.units(units)
        revisions = tuple(stored[unit].known.state.revision for unit in units)
        found = FoundContradiction(units, revisions, "number", "50 against 20", "connections", 0.93)
        position = Position(log=LOG, topic=EVENTS, partition=0, number=self.number)
        await self.writer.record_contradictions(tenant, position, NOW, [one], [found])

    async def close(self) -> None:
        """Close its files."""
        await self.reader.close()
        await self.writer.close()

    async def _effect(self, event: Event) -> Effect:
        self.number += 1
        position = Position(log=LOG, topic=EVENTS, partition=0, number=self.number)
        message = StageMessage(
            position=position,
            recorded_at=NOW + timedelta(milliseconds=self.number),
            key=event.key,
            event=event.model_dump(mode="json", exclude_none=True),
            tenant=event.tenant,
            event_id=event.id,
            event_source=event.source,
        )
        if event.type != "unit.asserted":
            return Effect(message, event)
        unit = event.data
        vectors = await self.embedder.embed_text(stated_text(unit))
        key = content_key(event.tenant, unit.scope.key, stated_text(unit))
        embedding = Embedding(model=self.embedder.model, content_key=key, rows=vectors.shape[0], dims=vectors.shape[1])
        resolution = Resolution(mentions=find_mentions(unit.text, unit.title))
        return Effect(message.model_copy(update={"embedding": embedding, "resolution": resolution}), event, vectors)


def unit(unit_id: str, text: str, scope: str = "team/platform", *, source: str = "test://wiki", **data) -> dict:
    """Return an event that asserts a unit."""
    level, _, entity = scope.partition("/")
    return {
        "specversion": "1.0",
        "id": f"e-{unit_id}-{data.get('revision', 0)}",
        "source": source,
        "type": "unit.asserted",
        "data": {
            "id": unit_id,
            "text": text,
            "type": "context",
            "scope": {"level": level, "entity_id": entity},
            **data,
        },
    }


def declared(kind: str, data: dict) -> dict:
    """Return an event that declares an entity or a relation."""
    return {
        "specversion": "1.0",
        "id": f"e-{kind}-{sorted(data.items())}",
        "source": "test://org",
        "type": kind,
        "data": data,
    }


def entity(entity_id: str, kind: str, name: str, aliases: Sequence[str] = ()) -> dict:
    """Return an event that declares an entity."""
    return declared("entity.declared", {"id": entity_id, "type": kind, "name": name, "aliases": list(aliases)})


def relation(source: str, kind: str, target: str, **data) -> dict:
    """Return an event that declares a relation."""
    return declared("relation.declared", {"source_id": source, "relation": kind, "target_id": target, **data})
