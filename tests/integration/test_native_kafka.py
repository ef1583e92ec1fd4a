"""Apache Kafka as a server of one's own: what it acknowledged is kept, and nothing of it is left behind."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from compose.native.kafka import KafkaPorts, start_kafka
from shared.errors import FolderInUse
from shared.kafka_admin import apply, cluster_id, plan
from shared.topics import EVENTS, wanted_topics

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(300)]
LOG_APPEND_TIME = 1


async def send(bootstrap: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for value in values:
            await producer.send_and_wait(EVENTS, value, partition=0, timestamp_ms=1)


async def received(bootstrap: str, count: int) -> list[tuple[bytes, int]]:
    async with AIOKafkaConsumer(EVENTS, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records = [await consumer.getone() for _ in range(count)]
    return [(record.value, record.timestamp_type) for record in records]


async def test_what_was_acknowledged_is_there_after_a_kill_and_on_other_ports(tmp_path):
    table = wanted_topics(1)
    server = await start_kafka(tmp_path / "kafka", KafkaPorts.free())
    try:
        log_id = await cluster_id(server.bootstrap)
        await apply(server.bootstrap, table)
        await send(server.bootstrap, [b"one", b"two"])
        await server.kill()
        await server.start()
        await send(server.bootstrap, [b"three"])
    finally:
        await server.stop()
    server = await start_kafka(tmp_path / "kafka", KafkaPorts.free())
    try:
        assert await cluster_id(server.bootstrap) == log_id
        assert await plan(server.bootstrap, table) == []
        # the time is the broker's, whatever the producer said
        assert await received(server.bootstrap, 3) == [(value, LOG_APPEND_TIME) for value in (b"one", b"two", b"three")]
    finally:
        await server.stop()


async def test_one_whose_data_another_uses_says_so_and_leaves_the_other_alone(tmp_path):
    server = await start_kafka(tmp_path / "kafka", KafkaPorts.free())
    settings = (tmp_path / "kafka" / "server.properties").read_text()
    try:
        with pytest.raises(FolderInUse, match="stop it first"):
            await start_kafka(tmp_path / "kafka", KafkaPorts.free())
        assert (tmp_path / "kafka" / "server.properties").read_text() == settings
        assert server.running
        assert await cluster_id(server.bootstrap)
    finally:
        await server.stop()
