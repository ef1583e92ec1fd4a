"""The embed stage hands on what it has when a window's time is up: long texts hold nobody up for minutes."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from ingest.delivery import Backoff, Delivery
from ingest.embed import EmbedStage
from ingest.hop import Hop
from ingest.intake import JournalIntake
from ingest.letters import Letters
from ingest.metrics import IngestMetrics
from ingest.models import TenantModels
from ingest.turns import Turns
from schemas.events import parse_event
from shared.clock import ManualClock
from shared.embedder import Alone
from shared.embedders.hashed import HashedEmbedder
from shared.kafka import Outgoing
from shared.log import EVENTS
from shared.logs.memory import MemoryLog
from shared.stores.memory import MemoryStore
from tests.unit.test_lanes import Stamped

pytestmark = pytest.mark.anyio

RECORDS = 5


class Broker:
    """Counts what is published."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    async def publish(self, topic: str, partition: int, messages: Sequence[Outgoing]) -> None:
        self.sent.append(len(messages))


async def stage(window_s: float) -> tuple[EmbedStage, list[Stamped], Broker]:
    """A stage, and the records of one partition that wait for it."""
    clock, broker, metrics = ManualClock(datetime(2026, 6, 1, tzinfo=UTC)), Broker(), IngestMetrics()
    log = MemoryLog(1, clock)
    intake = JournalIntake(log, "epoch")
    data = {"type": "context", "scope": {"level": "team", "entity_id": "core"}}
    events = [
        {
            "type": "unit.asserted",
            "id": f"e{n}",
            "source": "s",
            "tenant": "acme",
            "data": {"id": f"u{n}", "text": f"Text {n}.", **data},
        }
        for n in range(RECORDS)
    ]
    await log.append([parse_event(event) for event in events], topic=EVENTS)
    stamped = [intake.stamp(row) for row in await log.read(0, RECORDS)]
    records = [Stamped(n, 0, EVENTS, one.key, one.value, one.headers) for n, one in enumerate(stamped)]
    hop = Hop(Delivery("embed", 1, Backoff(1e-6, 1e-5), metrics), Letters(log, broker, clock, metrics), broker)
    store = MemoryStore()
    models = TenantModels(store, Alone(HashedEmbedder()))
    embedding = EmbedStage(hop, intake, store, models, Turns(1), window_s=window_s)
    return embedding, records, broker


async def test_a_window_whose_time_is_up_hands_on_what_is_embedded_and_leaves_the_rest():
    embedding, records, broker = await stage(window_s=0.0)
    done = 0
    while done < RECORDS:
        now = await embedding.work(records[done:], lambda: False)
        assert now == broker.sent[-1] == 1
        done += now


async def test_a_window_within_its_time_is_worked_to_its_end():
    embedding, records, broker = await stage(window_s=60.0)
    async with asyncio.timeout(10):
        assert await embedding.work(records, lambda: False) == RECORDS
    assert broker.sent == [RECORDS]
