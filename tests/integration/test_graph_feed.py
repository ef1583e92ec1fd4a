"""A graph that is fed from cortex.graph: epochs, broken records, and a broker that comes back empty."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from schemas.graph import Contribution, KeyWeight
from shared.graph_feed import GraphFeed
from shared.graphs.memory import MemoryGraph
from shared.kafka import EPOCH_KEY, GRAPH, Outgoing, Publisher, create_topics, partition_of
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

PARTITIONS = 3


def unit(name: str, *keys: str, revision: int = 1, removed: bool = False) -> Contribution:
    weights = tuple(KeyWeight(key=key, weight=1.0) for key in keys)
    return Contribution(
        tenant="acme", id=f"unit:{name}", revision=revision, scope="team/core", keys=weights, removed=removed
    )


class Topic:
    """Writes to cortex.graph as the pipeline does."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher

    async def tell(self, *contributions: Contribution) -> None:
        for contribution in contributions:
            key = f"acme/{contribution.id}".encode()
            await self.raw(partition_of(key, PARTITIONS), Outgoing(key, contribution.model_dump_json().encode()))

    async def mark(self, epoch: str, phase: str, *partitions: int) -> None:
        value = orjson.dumps({"epoch": epoch, "phase": phase, "partitions": PARTITIONS})
        for partition in partitions or range(PARTITIONS):
            await self.raw(partition, Outgoing(EPOCH_KEY, value))

    async def raw(self, partition: int, message: Outgoing) -> None:
        await self.publisher.publish(GRAPH, partition, [message])


@asynccontextmanager
async def topic(bootstrap: str, prefix: str = "") -> AsyncIterator[Topic]:
    await create_topics(bootstrap, PARTITIONS, prefix=prefix, replace=True)
    async with await Publisher.open(bootstrap, prefix=prefix) as publisher:
        yield Topic(publisher)


@asynccontextmanager
async def fed(bootstrap: str, prefix: str = "", **given) -> AsyncIterator[tuple[MemoryGraph, GraphFeed]]:
    graph = MemoryGraph()
    feed = GraphFeed(bootstrap, graph, prefix=prefix, **given)
    task = asyncio.create_task(feed.run())
    try:
        yield graph, feed
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def entities(graph: MemoryGraph) -> int:
    return graph.snapshot("acme").counts()[0]


async def test_a_graph_is_ready_when_the_refill_is_complete_in_every_partition(broker: BrokerProcess, prefix: str):
    async with topic(broker.bootstrap, prefix) as writer, fed(broker.bootstrap, prefix) as (graph, feed):
        await writer.mark("e1", "begin")
        await writer.tell(unit("u1", "orion"), unit("u2", "ledger"))
        await writer.mark("e1", "complete", 0, 1)
        assert not await feed.wait_until_caught_up(0.8)
        assert entities(graph) == 0
        await writer.mark("e1", "complete", 2)
        assert await feed.wait_until_caught_up(20)
        assert entities(graph) == 2
        await writer.raw(0, Outgoing(b"acme/unit:bad", b"not json"))
        await writer.raw(0, Outgoing(b"acme/unit:gone", None))
        await writer.raw(0, Outgoing(EPOCH_KEY, b"not json"))
        await writer.tell(unit("u3", "lynx"), unit("u1", removed=True))
        await until(lambda: graph.snapshot("acme").resolve("lynx").entity_id and entities(graph) == 2)


async def test_a_new_epoch_replaces_the_graph_in_one_step(broker: BrokerProcess, prefix: str):
    async with topic(broker.bootstrap, prefix) as writer, fed(broker.bootstrap, prefix) as (graph, feed):
        await writer.mark("e1", "begin")
        await writer.tell(*[unit(f"u{n}", f"old{n}") for n in range(9)])
        await writer.mark("e1", "complete")
        assert await feed.wait_until_caught_up(20)
        await writer.mark("e2", "begin")
        await writer.tell(*[unit(f"u{n}", f"new{n}") for n in range(4)])
        await writer.mark("e2", "complete", 0, 1)
        assert feed.caught_up
        assert entities(graph) == 9, "the old graph answers until the new one is whole"
        await writer.mark("e2", "complete", 2)
        await until(lambda: entities(graph) == 4)


async def test_one_who_comes_late_reads_the_newest_epoch_only(broker: BrokerProcess, prefix: str):
    async with topic(broker.bootstrap, prefix) as writer:
        for epoch, names in (("e1", ["a", "b", "c"]), ("e2", ["d"])):
            await writer.mark(epoch, "begin")
            await writer.tell(*[unit(name, name) for name in names])
            await writer.mark(epoch, "complete")
        async with fed(broker.bootstrap, prefix) as (graph, feed):
            assert await feed.wait_until_caught_up(20)
            assert entities(graph) == 1


async def test_on_a_broker_that_keeps_its_topics_no_epoch_is_needed(broker: BrokerProcess, prefix: str):
    async with topic(broker.bootstrap, prefix) as writer:
        await writer.tell(unit("u1", "orion"))
        async with fed(broker.bootstrap, prefix, needs_epoch=False) as (graph, feed):
            assert await feed.wait_until_caught_up(20)
            assert entities(graph) == 1


@pytest.mark.embedded_only("Kafka comes back with its data")
async def test_a_broker_that_comes_back_empty_is_read_from_its_start(own_broker: BrokerProcess):
    async with fed(own_broker.bootstrap) as (graph, feed):
        async with topic(own_broker.bootstrap) as writer:
            await writer.mark("e1", "begin")
            await writer.tell(*[unit(f"u{n}", f"old{n}") for n in range(9)])
            await writer.mark("e1", "complete")
            assert await feed.wait_until_caught_up(20)
        own_broker.kill()
        own_broker.start()
        async with topic(own_broker.bootstrap) as writer:
            await writer.tell(*[unit(f"x{n}", f"never{n}") for n in range(20)])
            assert entities(graph) == 9
            await writer.mark("e2", "begin")
            await writer.tell(unit("u1", "new"))
            await writer.mark("e2", "complete")
            await until(lambda: entities(graph) == 1)
            assert feed.caught_up
