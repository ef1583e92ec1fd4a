"""Publishing in order, making topics, and following a topic, on the real broker."""

import asyncio
from contextlib import aclosing

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from shared.errors import InvalidInput, LogUnavailable
from shared.kafka import ALL_TOPICS, BATCH_BYTES, EVENTS, GRAPH, Outgoing, Publisher, create_topics, follow
from tests.integration.conftest import BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


async def counts(bootstrap: str, prefix: str) -> dict[str, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        names = [name for name in await admin.list_topics() if name.startswith(prefix)]
        return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics(names)}
    finally:
        await admin.close()


async def read_all(bootstrap: str, topic: str, prefix: str) -> list:
    found: list = []
    async with asyncio.timeout(20), aclosing(follow(bootstrap, topic, prefix=prefix)) as batches:
        async for batch in batches:
            found += batch.records
            if batch.caught_up:
                return found
    raise AssertionError


async def test_all_topics_get_the_same_number_of_partitions_and_making_them_again_changes_nothing(
    broker: BrokerProcess, prefix: str
):
    for _ in range(2):
        await create_topics(broker.bootstrap, 3, prefix=prefix)
    assert await counts(broker.bootstrap, prefix) == {f"{prefix}{topic}": 3 for topic in ALL_TOPICS}


@pytest.mark.embedded_only("only there may a topic be replaced")
async def test_a_topic_with_another_number_of_partitions_is_refused_or_replaced(broker: BrokerProcess, prefix: str):
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(f"{prefix}{EVENTS}", 2, 1)])
    await admin.close()
    with pytest.raises(InvalidInput, match="2"):
        await create_topics(broker.bootstrap, 4, prefix=prefix)
    await create_topics(broker.bootstrap, 4, prefix=prefix, replace=True)
    assert (await counts(broker.bootstrap, prefix))[f"{prefix}{EVENTS}"] == 4


async def test_what_is_published_together_stands_in_order_however_many_batches_it_takes(
    broker: BrokerProcess, prefix: str
):
    await create_topics(broker.bootstrap, 2, prefix=prefix)
    filler = b"x" * (BATCH_BYTES // 5)
    messages = [Outgoing(b"k%d" % n, filler if n % 3 else b"", (("h", b"\xff"),)) for n in range(40)]
    async with await Publisher.open(broker.bootstrap, prefix=prefix) as publisher:
        await publisher.publish(EVENTS, 1, messages)
        await publisher.publish(EVENTS, 1, [Outgoing(b"big", b"y" * (BATCH_BYTES + 1)), Outgoing(b"gone", None)])
        await publisher.publish(EVENTS, 0, [])
    found = await read_all(broker.bootstrap, EVENTS, prefix)
    assert [(record.partition, record.key) for record in found] == [
        *((1, message.key) for message in messages),
        (1, b"big"),
        (1, b"gone"),
    ]
    assert found[-1].value is None


async def test_a_partition_that_the_broker_does_not_name_is_waited_for_like_an_outage(
    broker: BrokerProcess, prefix: str
):
    """A broker that has just started may name a topic before its partitions: no event is to blame for that."""
    await create_topics(broker.bootstrap, 2, prefix=prefix)
    async with await Publisher.open(broker.bootstrap, prefix=prefix) as publisher:
        with pytest.raises(LogUnavailable, match=EVENTS):
            await publisher.publish(EVENTS, 5, [Outgoing(b"key", b"value")])
        with pytest.raises(LogUnavailable, match=EVENTS):
            await publisher.send(EVENTS, [(5, Outgoing(b"key", b"value"))])
        await publisher.publish(EVENTS, 1, [Outgoing(b"key", b"value")])


async def test_a_follower_is_caught_up_only_when_it_has_read_what_was_there(broker: BrokerProcess, prefix: str):
    """The embedded broker lists too low an end for a batch; the follower must not believe it."""
    await create_topics(broker.bootstrap, 2, prefix=prefix)
    async with await Publisher.open(broker.bootstrap, prefix=prefix) as publisher:
        await publisher.publish(GRAPH, 0, [Outgoing(b"k", b"%d" % n) for n in range(2_500)])
        assert len(await read_all(broker.bootstrap, GRAPH, prefix)) == 2_500
        async with asyncio.timeout(20), aclosing(follow(broker.bootstrap, GRAPH, prefix=prefix)) as batches:
            seen = 0
            async for batch in batches:
                seen += len(batch.records)
                if batch.caught_up and seen == 2_500:
                    await publisher.publish(GRAPH, 1, [Outgoing(b"k", b"later")])
                if seen == 2_501:
                    break


async def test_a_follower_hears_at_once_that_its_broker_is_gone(own_broker: BrokerProcess):
    await create_topics(own_broker.bootstrap, 1)

    async def listen() -> None:
        async with asyncio.timeout(20), aclosing(follow(own_broker.bootstrap, GRAPH)) as batches:
            async for _ in batches:
                own_broker.kill()

    with pytest.raises(LogUnavailable):
        await listen()


async def test_a_broker_that_is_not_there_is_a_typed_error():
    nowhere = "127.0.0.1:1"
    with pytest.raises(LogUnavailable):
        await create_topics(nowhere, 1, deadline_s=2)
    with pytest.raises(LogUnavailable):
        await Publisher.open(nowhere, deadline_s=2)
    with pytest.raises(LogUnavailable):
        async with aclosing(follow(nowhere, GRAPH, deadline_s=2)) as batches:
            await anext(batches)
