"""A cluster's log, store and graph topic filled as if everything had come through the pipeline."""

from collections import defaultdict
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from ingest.store import contribution_key, contribution_records
from schemas.graph import Contribution
from shared.clock import SystemClock
from shared.kafka import Outgoing, Publisher
from shared.kafka_admin import apply
from shared.log import BULK
from shared.logs.kafka_log import KafkaLog
from shared.partitioner import partition_of
from shared.settings import Settings
from shared.stores.opening import open_writer
from shared.topics import GRAPH, topic_name, wanted_topics
from tests.bench.population import keep

FIRST_GROUP = "cortex-embed"  # of the first stage: the others read what it writes, which is nothing here


async def fill(settings: Settings, units: int, model: str) -> None:
    """Publish the units to ``cortex.bulk``, store them, publish the graph, and take the events off the first stage's hands."""
    assert settings.kafka_bootstrap is not None
    bootstrap, count = settings.kafka_bootstrap, settings.partitions
    await apply(bootstrap, wanted_topics(count, prefix=settings.topic_prefix))
    clock = SystemClock()
    log = await KafkaLog.open(bootstrap, clock, prefix=settings.topic_prefix)
    writer = open_writer(settings, clock)
    publisher = await Publisher.open(bootstrap, prefix=settings.topic_prefix, idempotent=True)

    async def tell(contributions: Sequence[Contribution]) -> None:
        by_partition: dict[int, list[Outgoing]] = defaultdict(list)
        for one in contributions:
            by_partition[partition_of(contribution_key(one), count)] += contribution_records(one)
        for partition, messages in by_partition.items():
            await publisher.publish(GRAPH, partition, messages)

    try:
        await keep(log, writer, units, model, topic=BULK, tell=tell)
    finally:
        await publisher.close()
        await writer.close()
        await log.close()
    await _commit(bootstrap, settings.topic_prefix, count)


async def _commit(bootstrap: str, prefix: str, partitions: int) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=f"{prefix}{FIRST_GROUP}", enable_auto_commit=False
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic_name(prefix, BULK), number) for number in range(partitions)]
        consumer.assign(places)
        await consumer.commit(await consumer.end_offsets(places))
    finally:
        await consumer.stop()
