"""Kafka's protocol: publishing in order, following a topic. Topics are made in shared/kafka_admin.py.

Measured on the embedded broker, and the reason for what looks odd here: the end offset it lists is the *first* offset of
the last batch plus one (the high watermark of a fetch is right), and it gives no idempotent producer.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from shared.errors import LogUnavailable
from shared.kafka_admin import create_topics, open_admin, partition_counts
from shared.kafka_closing import close_consumer, close_producer
from shared.partitioner import partition_of
from shared.topics import (
    ALL_TOPICS,
    BULK,
    COMMANDS,
    COMPACTED,
    CONTRADICTIONS,
    DEAD_LETTERS,
    EMBEDDED,
    EVENTS,
    GRAPH,
    RESOLVED,
    STORED,
    topic_name,
)

__all__ = [
    "ALL_TOPICS",
    "BULK",
    "COMMANDS",
    "COMPACTED",
    "CONTRADICTIONS",
    "DEAD_LETTERS",
    "EMBEDDED",
    "EPOCH_KEY",
    "EVENTS",
    "GRAPH",
    "RESOLVED",
    "STORED",
    "Batch",
    "Followed",
    "KafkaConsumer",
    "KafkaError",
    "Outgoing",
    "Publisher",
    "RebalanceListener",
    "Record",
    "Sent",
    "TopicPartition",
    "create_topics",
    "follow",
    "partition_of",
    "topic_name",
]

EPOCH_KEY = b"__epoch__"
"""Key of the records in a compacted topic that say where a refill begins and where it is complete."""

BATCH_BYTES = 512 * 1024  # half of the producer's and the broker's usual limit for one request
FETCH_BYTES = 4 * 1024 * 1024  # a partition's fetch: more than the largest record the embedded broker accepts
TICK_S = 0.25  # how often a follower hears something even when nothing comes
DEADLINE_S = 10.0  # an acknowledgement takes milliseconds; ten seconds are a broker that is gone

RebalanceListener = ConsumerRebalanceListener
KafkaConsumer = AIOKafkaConsumer


class Record(Protocol):
    """What a consumer hands over: bytes as they were written, and where they stood."""

    @property
    def topic(self) -> str: ...  # noqa: D102 - the names are Kafka's
    @property
    def partition(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...  # noqa: D102


@dataclass(frozen=True)
class Outgoing:
    """A message to publish. ``value`` None is a tombstone, and then it needs a key."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Sent(NamedTuple):
    """Where a message stands. ``timestamp_ms``: when the broker appended it, on a topic with LogAppendTime."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class Followed:
    """A record of a followed topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Batch:
    """What a follower got since the last one (perhaps nothing). ``caught_up``: all that was there at start has been read.

    ``partitions``: how many of the topic are read; it had no more when the follower began.
    """

    records: tuple[Followed, ...]
    caught_up: bool
    partitions: int = 0


UNACKNOWLEDGED: Final = (KafkaError, OSError, TimeoutError, AssertionError)
"""What the client raises where a message was not taken. It asserts that a partition is among those that the broker names,
and a broker that has just started may name a topic before its partitions."""


class Publisher:
    """Publishes to chosen partitions with ``acks=all``; what is published together stands together and in order."""

    def __init__(self, producer: Any, prefix: str, deadline_s: float) -> None:
        self._producer = producer
        self._prefix = prefix
        self._deadline_s = deadline_s

    @classmethod
    async def open(
        cls, bootstrap: str, *, prefix: str = "", idempotent: bool = False, deadline_s: float = DEADLINE_S
    ) -> Self:
        """Connect. ``idempotent`` is for Kafka; the embedded broker does not offer it. Raises LogUnavailable."""
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id="cortex",
            acks="all",
            enable_idempotence=idempotent,
            max_batch_size=BATCH_BYTES,
            request_timeout_ms=int(deadline_s * 1000),
            retry_backoff_ms=50,
        )
        try:
            async with asyncio.timeout(deadline_s):
                await producer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await close_producer(producer, deadline_s)
            raise LogUnavailable(f"The broker at {bootstrap} does not answer.") from error
        return cls(producer, prefix, deadline_s)

    async def publish(self, topic: str, partition: int, messages: Iterable[Outgoing]) -> None:
        """Publish in order and return when every message is acknowledged.

        The messages go in batches that the broker appends whole, one after the other: so after a failure what is missing
        is a tail, and sending all of them again cannot put a later message before an earlier one that was never there.
        Raises LogUnavailable.
        """
        name = topic_name(self._prefix, topic)
        try:
            for batch in self._batches(messages):
                async with asyncio.timeout(self._deadline_s):
                    await (await self._producer.send_batch(batch, name, partition=partition))
        except UNACKNOWLEDGED as error:
            raise LogUnavailable(f"The broker did not acknowledge a message to {name}.") from error

    async def send(self, topic: str, messages: Sequence[tuple[int, Outgoing]]) -> list[Sent]:
        """Publish each message to its partition, in order per partition; return where each stands.

        On LogUnavailable any of them may have been kept, or may yet be. Raises LogUnavailable.
        """
        name = topic_name(self._prefix, topic)
        try:
            async with asyncio.timeout(self._deadline_s):
                futures = [
                    await self._producer.send(
                        name, message.value, key=message.key, partition=partition, headers=list(message.headers)
                    )
                    for partition, message in messages
                ]
                done = await asyncio.gather(*futures, return_exceptions=True)
        except UNACKNOWLEDGED as error:
            raise LogUnavailable(f"The broker did not acknowledge a message to {name}.") from error
        failed = [one for one in done if isinstance(one, BaseException)]
        if failed:
            raise LogUnavailable(f"The broker did not acknowledge a message to {name}.") from failed[0]
        return [Sent(one.offset, one.timestamp) for one in done if not isinstance(one, BaseException)]

    async def ping(self, limit_s: float) -> None:
        """Raise LogUnavailable when no broker answers within ``limit_s``."""
        try:
            async with asyncio.timeout(limit_s):
                await self._producer.client.fetch_all_metadata()
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogUnavailable("No broker answers.") from error

    def _batches(self, messages: Iterable[Outgoing]) -> Iterable[Any]:
        batch = self._producer.create_batch()
        for message in messages:
            if not _append(batch, message):
                yield batch
                batch = self._producer.create_batch()
                _append(batch, message)
        if batch.record_count():
            yield batch

    async def close(self, limit_s: float = DEADLINE_S) -> None:
        """Disconnect; what is under way is waited for, up to the limit, and never sent after it."""
        await close_producer(self._producer, limit_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _append(batch: Any, message: Outgoing) -> bool:
    if batch.record_count() and batch.size() + len(message.key or b"") + len(message.value or b"") > BATCH_BYTES:
        batch.close()
        return False
    appended = batch.append(timestamp=None, key=message.key, value=message.value, headers=list(message.headers))
    return appended is not None


async def follow(
    bootstrap: str, topic: str, *, prefix: str = "", lives_with_broker: bool = True, deadline_s: float = DEADLINE_S
) -> AsyncIterator[Batch]:
    """Read a topic from its start, without a group, for ever; something is yielded at least every TICK_S.

    ``lives_with_broker``: the topic is lost with its broker, as the embedded one's are; then a second connection is held,
    and when the broker goes LogUnavailable is raised at once. (A client that only reconnects would go on at its old offset,
    in the middle of the new content.) The caller begins again, from nothing. Close it with ``contextlib.aclosing``.
    """
    name = topic_name(prefix, topic)
    try:
        async with AsyncExitStack() as stack:
            line = await _open_line(bootstrap, stack) if lives_with_broker else None
            async with asyncio.timeout(deadline_s):
                count = await _wait_for_topic(bootstrap, name)
                consumer = await _open_follower(bootstrap, name, count, stack)
                pending = await _unread(consumer)
            while True:
                polled = await consumer.getmany(timeout_ms=int(TICK_S * 1000), max_records=1_000)
                pending = {place for place in pending if not await _has_read(consumer, place)}
                yield Batch(_followed(polled), caught_up=not pending, partitions=count)
                if line is not None and line.at_eof():
                    raise LogUnavailable("The broker is gone.")
    except (KafkaError, OSError, TimeoutError) as error:
        raise LogUnavailable(f"The broker at {bootstrap} does not answer.") from error


async def _open_line(bootstrap: str, stack: AsyncExitStack) -> asyncio.StreamReader:
    host, _, port = bootstrap.rpartition(":")
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    stack.callback(writer.close)
    return reader


async def _wait_for_topic(bootstrap: str, name: str) -> int:
    async with AsyncExitStack() as stack:
        admin = await open_admin(bootstrap, stack)
        while True:
            counts = await partition_counts(admin, [name])
            if counts.get(name):
                return counts[name]
            await asyncio.sleep(0.05)


async def _open_follower(bootstrap: str, name: str, count: int, stack: AsyncExitStack) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id="cortex",
        group_id=None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    stack.push_async_callback(close_consumer, consumer, 1.0)
    await consumer.start()
    places = [TopicPartition(name, number) for number in range(count)]
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    return consumer


async def _unread(consumer: Any) -> set[TopicPartition]:
    places = list(consumer.assignment())
    first, last = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    return {place for place in places if last[place] > first[place]}


async def _has_read(consumer: Any, place: TopicPartition) -> bool:
    highwater = consumer.highwater(place)
    return highwater is not None and await consumer.position(place) >= highwater


def _followed(polled: Mapping[TopicPartition, Sequence[Record]]) -> tuple[Followed, ...]:
    return tuple(
        Followed(record.partition, record.offset, record.key, record.value)
        for records in polled.values()
        for record in records
    )
