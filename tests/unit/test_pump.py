"""The pump publishes the journal in its order, above the watermarks, and never too far ahead."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from ingest.delivery import Backoff, Delivery
from ingest.intake import NUMBER, JournalIntake
from ingest.metrics import IngestMetrics
from ingest.pump import Pump
from schemas.events import parse_event
from schemas.messages import StageMessage
from schemas.positions import Position
from shared.clock import ManualClock
from shared.errors import LogUnavailable
from shared.kafka import Outgoing
from shared.log import BULK, EVENTS
from shared.logs.memory import MemoryLog
from shared.store import Effect
from shared.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

AT = datetime(2026, 6, 1, tzinfo=UTC)


class Broker:
    """Takes what is published, unless it is away."""

    def __init__(self) -> None:
        self.got: dict[tuple[str, int], list[int]] = {}
        self.failures = 0

    async def publish(self, topic: str, partition: int, messages: Iterable[Outgoing]) -> None:
        if self.failures:
            self.failures -= 1
            raise LogUnavailable
        numbers = [int(dict(message.headers)[NUMBER]) for message in messages]
        self.got.setdefault((topic, partition), []).extend(numbers)

    @property
    def all(self) -> list[int]:
        return sorted(number for numbers in self.got.values() for number in numbers)


class World:
    """A log, a store and a broker around a pump."""

    def __init__(self) -> None:
        clock = ManualClock(AT)
        self.log, self.store, self.broker = MemoryLog(2, clock), MemoryStore(clock), Broker()

    async def say(self, count: int, *, tenant: str = "acme", topic: str = EVENTS) -> list[Position]:
        start = len(await self.log.read(0, 10_000))
        scope = {"level": "team", "entity_id": "core"}
        events = [{"id": f"u{start + n}", "text": "Text.", "type": "context", "scope": scope} for n in range(count)]
        made = [
            parse_event(
                {
                    "specversion": "1.0", "type": "unit.asserted", "id": data["id"], "source": "s", "tenant": tenant,
                    "data": data,
                }
            )
            for data in events
        ]  # fmt: skip
        return [place.position for place in await self.log.append(made, topic=topic)]

    async def through(self, positions: Iterable[Position], tenant: str = "acme", *, checked: bool = True) -> None:
        for position in positions:
            await self.store.apply(tenant, [Effect(StageMessage(position=position, recorded_at=AT, key="k"), None)])
            if checked:
                await self.store.record_contradictions(tenant, position, AT, (), ())

    @asynccontextmanager
    async def pumping(self, topic: str = EVENTS, bound: int = 1_000) -> AsyncIterator[Pump]:
        pump = Pump(
            topic,
            log=self.log,
            intake=JournalIntake(self.log, "epoch"),
            publisher=self.broker,
            reader=self.store,
            delivery=Delivery("pump", 3, Backoff(1e-6, 1e-5), IngestMetrics()),
            bound=bound,
        )
        task = asyncio.create_task(pump.run())
        try:
            yield pump
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while True:
            met = condition()
            if asyncio.iscoroutine(met):
                met = await met
            if met:
                return
            await asyncio.sleep(0.001)


async def test_each_topic_has_its_pump_and_each_partition_keeps_the_order_of_the_journal():
    world = World()
    await world.say(30)
    await world.say(5, topic=BULK)
    await world.say(30)
    async with world.pumping():
        await until(lambda: len(world.broker.all) == 60)
    assert all(topic == EVENTS and numbers == sorted(numbers) for (topic, _), numbers in world.broker.got.items())
    assert set(range(31, 36)).isdisjoint(world.broker.all)
    async with world.pumping(BULK):
        await until(lambda: set(range(31, 36)) <= set(world.broker.all))


async def test_only_what_is_above_the_lower_watermark_is_published_again():
    world = World()
    early = await world.say(10)
    stored_only = await world.say(4)
    other = await world.say(3, tenant="other")
    late = await world.say(2)
    await world.through(early)
    await world.through(stored_only, checked=False)
    async with world.pumping() as pump:
        await until(lambda: pump._at_end)
    marks = {}
    for position in early:
        marks[position.partition] = position.number
    wanted = [
        position.number
        for position in [*stored_only, *other, *late]
        if position in other or position.number > marks.get(position.partition, -1)
    ]
    assert world.broker.all == sorted(wanted)
    assert pump.skipped == len(early)


async def test_an_event_that_is_journaled_while_it_runs_follows():
    world = World()
    async with world.pumping() as pump:
        await until(lambda: pump._at_end)
        await world.say(3)
        await until(lambda: world.broker.all == [1, 2, 3])


async def test_it_stays_within_its_bound_of_what_the_store_has_seen():
    world = World()
    positions = await world.say(50)
    async with world.pumping(bound=10) as pump:
        await until(lambda: len(world.broker.all) == 10)
        for start in range(0, 50, 10):
            await until(lambda start=start: len(world.broker.all) == start + 10)
            assert pump.ahead() <= 10
            await world.through(positions[start : start + 10])
        await until(pump.idle)
    assert world.broker.all == list(range(1, 51))


async def test_a_broker_that_is_away_is_waited_for_and_nothing_is_left_out():
    world = World()
    await world.say(20)
    world.broker.failures = 7
    async with world.pumping():
        await until(lambda: world.broker.all == list(range(1, 21)))


async def test_idle_means_published_and_through_both_watermarks():
    world = World()
    positions = await world.say(4)
    async with world.pumping() as pump:
        await until(lambda: len(world.broker.all) == 4)
        await until(lambda: pump._at_end)
        assert not await pump.idle()
        await world.through(positions, checked=False)
        assert not await pump.idle()
        await world.through(positions)
        assert await pump.idle()
        await world.say(1)
        assert not await pump.idle()
