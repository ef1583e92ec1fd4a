"""A company of any size: units with Zipf words, skewed scopes and recurring entities, stored as if they had been published."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from schemas.events import UnitAsserted, dump_event, parse_event
from schemas.graph import Contribution
from schemas.messages import Embedding, Mention, Resolution, StageMessage
from shared.clock import SystemClock
from shared.embedder import Vector, Vectors
from shared.identity import content_key, fold_key
from shared.log import EVENTS, Appended, EventLog
from shared.logs.journal import Journal
from shared.store import Effect, KnowledgeWriter
from shared.stores.sqlite import SqliteWriter

TENANT = "demo"
SEED = 20_261_130
DIMS = 384
WORDS = 30_000
SCOPES = 20
CLUSTERS = 400
BATCH = 500
PARTITIONS = 4
Tell = Callable[[Sequence[Contribution]], Awaitable[None]]
SYLLABLES = [first + second for first in "bdfgklmn" for second in "aeio"]


class Words:
    """An invented vocabulary with the word frequencies of a language, and texts made of it."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = np.random.default_rng(seed)
        made = ("".join(parts) for length in (2, 3, 4) for parts in itertools.product(SYLLABLES, repeat=length))
        self.words = list(itertools.islice(made, WORDS))
        self.systems = [
            f"{first.title()}{second.title()}" for first, second in itertools.product(SYLLABLES[:30], SYLLABLES[:50])
        ]

    def text(self) -> str:
        """Return a text of about thirty words that names two systems."""
        ranks = np.minimum(self.random.zipf(1.3, 28), WORDS) - 1
        names = [self.system(), self.system()]
        words = [self.words[rank] for rank in ranks]
        return f"{names[0]} {' '.join(words[:14])} with {names[1]} {' '.join(words[14:])}."

    def system(self) -> str:
        """Return the name of a system; few are named often."""
        return self.systems[min(int(self.random.zipf(1.2)), len(self.systems)) - 1]

    def question(self) -> str:
        """Return a question of a handful of words, rare and frequent ones, that names a system."""
        ranks = [int(self.random.integers(20, 3_000)) for _ in range(4)]
        return f"why does {self.system()} {' '.join(self.words[rank] for rank in ranks)}?"

    def scope(self) -> str:
        """Return a scope; the largest holds about a sixth of everything."""
        return f"team-{min(int(self.random.zipf(1.5)), SCOPES) - 1:02d}"


def event(words: Words, unit_id: str, at: datetime) -> dict[str, Any]:
    """Build one assertion as a producer would."""
    unit = {
        "id": unit_id,
        "text": words.text(),
        "type": "context",
        "scope": {"level": "team", "entity_id": words.scope()},
        "occurred_at": at.isoformat(),
        "revision": 1,
    }
    return {
        "specversion": "1.0",
        "id": unit_id,
        "source": "urn:bench",
        "tenant": TENANT,
        "type": "unit.asserted",
        "data": unit,
    }


def batches(units: int) -> Iterator[tuple[list[UnitAsserted], Vectors]]:
    """Yield events with their units' vectors, the same for every store.

    Vectors are clustered at random: what embedding costs is measured elsewhere.
    """
    words = Words()
    random = np.random.default_rng(SEED)
    centres = random.standard_normal((CLUSTERS, DIMS), dtype=np.float32)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    for first in range(0, units, BATCH):
        count = min(BATCH, units - first)
        events = [
            parse_event(event(words, f"u-{first + n}", start + timedelta(minutes=first + n))) for n in range(count)
        ]
        noise = random.standard_normal((count, DIMS), dtype=np.float32)
        vectors = centres[random.integers(0, CLUSTERS, count)] + 0.6 * noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield [one for one in events if isinstance(one, UnitAsserted)], vectors


async def populate(folder: Path, units: int, model: str) -> None:
    """Fill a data folder with journal and store."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    clock = SystemClock()
    journal = Journal.open(folder / "journal.db", PARTITIONS, clock)
    writer = SqliteWriter(folder / "knowledge", clock)
    try:
        await keep(journal, writer, units, model)
    finally:
        await writer.close()
        await journal.close()


async def keep(
    log: EventLog, writer: KnowledgeWriter, units: int, model: str, *, topic: str = EVENTS, tell: Tell | None = None
) -> None:
    """Append events to a log and store them with all watermarks, as if the stages had; the graph's share is told to ``tell``."""
    last: dict[int, Appended] = {}
    for events, vectors in batches(units):
        places = await log.append(events, topic=topic)
        effects = [
            _effect(asserted, place, vector, model)
            for asserted, place, vector in zip(events, places, vectors, strict=True)
        ]
        applied = await writer.apply(TENANT, effects)
        if tell is not None:
            await tell([contribution for one in applied for contribution in one.contributions])
        for place in places:
            last[place.position.partition] = place
    for place in last.values():
        await writer.record_contradictions(TENANT, place.position, place.recorded_at, (), ())


def _effect(asserted: UnitAsserted, place: Appended, vector: Vector, model: str) -> Effect:
    unit = asserted.data
    message = StageMessage(
        position=place.position,
        recorded_at=place.recorded_at,
        key=asserted.key,
        event=dump_event(asserted),
        tenant=TENANT,
        event_id=asserted.id,
        event_source=asserted.source,
        embedding=Embedding(model=model, content_key=content_key(TENANT, unit.scope.key, unit.text), rows=1, dims=DIMS),
        resolution=Resolution(mentions=_mentions(unit.text)),
    )
    return Effect(message, asserted, vector[None, :])


def _mentions(text: str) -> tuple[Mention, ...]:
    found = []
    at = 0
    for word in text.split(" "):
        if word[:1].isupper():
            found.append(Mention(key=fold_key(word), surface=word, start=at, end=at + len(word)))
        at += len(word) + 1
    return tuple(found)
