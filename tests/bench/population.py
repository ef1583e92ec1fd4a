"""A company of any size: units with Zipf words, skewed scopes and recurring entities, stored as if they had been published."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from schemas.events import UnitAsserted, dump_event, parse_event
from schemas.messages import Embedding, Mention, Resolution, StageMessage
from shared.clock import SystemClock
from shared.identity import content_key, fold_key
from shared.logs.journal import Journal
from shared.store import Effect
from shared.stores.sqlite import SqliteWriter

TENANT = "demo"
SEED = 20_261_130
DIMS = 384
WORDS = 30_000
SCOPES = 20
CLUSTERS = 400
BATCH = 500
PARTITIONS = 4
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


async def populate(folder: Path, units: int, model: str) -> None:
    """Fill a data folder with journal and store; vectors are clustered at random, for embedding is measured elsewhere."""
    words = Words()
    random = np.random.default_rng(SEED)
    centres = random.standard_normal((CLUSTERS, DIMS), dtype=np.float32)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    clock = SystemClock()
    journal = Journal.open(folder / "journal.db", PARTITIONS, clock)
    writer = SqliteWriter(folder / "knowledge", clock)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    try:
        for first in range(0, units, BATCH):
            count = min(BATCH, units - first)
            events = [
                parse_event(event(words, f"u-{first + n}", start + timedelta(minutes=first + n))) for n in range(count)
            ]
            noise = random.standard_normal((count, DIMS), dtype=np.float32)
            vectors = centres[random.integers(0, CLUSTERS, count)] + 0.6 * noise
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            places = await journal.append(events)
            effects = []
            for asserted, place, vector in zip(events, places, vectors, strict=True):
                assert isinstance(asserted, UnitAsserted)
                message = StageMessage(
                    position=place.position,
                    recorded_at=place.recorded_at,
                    key=asserted.key,
                    event=dump_event(asserted),
                    tenant=TENANT,
                    event_id=asserted.id,
                    event_source=asserted.source,
                    embedding=Embedding(
                        model=model,
                        content_key=content_key(TENANT, asserted.data.scope.key, asserted.data.text),
                        rows=1,
                        dims=DIMS,
                    ),
                    resolution=Resolution(mentions=_mentions(asserted.data.text)),
                )
                effects.append(Effect(message, asserted, vector[None, :]))
            await writer.apply(TENANT, effects)
        last: dict[int, Any] = {}
        for place in places:
            last[place.position.partition] = place
        for place in last.values():
            await writer.record_contradictions(TENANT, place.position, place.recorded_at, (), ())
    finally:
        await writer.close()
        await journal.close()


def _mentions(text: str) -> tuple[Mention, ...]:
    found = []
    at = 0
    for word in text.split(" "):
        if word[:1].isupper():
            found.append(Mention(key=fold_key(word), surface=word, start=at, end=at + len(word)))
        at += len(word) + 1
    return tuple(found)
