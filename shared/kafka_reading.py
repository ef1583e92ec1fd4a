"""Reading chosen partitions from chosen offsets, without a group: for a log that is Kafka itself."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shared.errors import LogUnavailable
from shared.kafka import DEADLINE_S, FETCH_BYTES
from shared.kafka_closing import close_consumer

Place = tuple[str, int]
"""(topic as the broker calls it, partition)."""
CLOSE_S = 1.0
LOOKS, LOOK_S = 20, 0.1  # a topic that was just made is known to every broker within some 100 ms


@dataclass(frozen=True)
class Kept:
    """A record where it stands. ``timestamp_ms``: when the broker appended it, on a topic with LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class PartitionReader:
    """Reads all partitions of some topics. One task at a time uses it; every call raises LogUnavailable in its deadline."""

    def __init__(self, consumer: Any, places: Sequence[Any], deadline_s: float) -> None:
        self._consumer = consumer
        self._places = list(places)
        self._deadline_s = deadline_s
        self._paused = False

    @classmethod
    async def open(cls, bootstrap: str, topics: Iterable[str], *, deadline_s: float = DEADLINE_S) -> Self:
        """Connect and take every partition, at its start. Raises LogUnavailable, also where a topic is missing."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id="cortex-reader",
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=FETCH_BYTES,
            isolation_level="read_committed",  # a producer may use transactions
            request_timeout_ms=int(deadline_s * 1000),
        )
        names = list(topics)
        try:
            async with asyncio.timeout(deadline_s):
                await consumer.start()
                places = [place for name in names for place in await _places(consumer, name)]
                consumer.assign(places)
                await consumer.seek_to_beginning(*places)
        except (KafkaError, OSError, TimeoutError) as error:
            await close_consumer(consumer, CLOSE_S)
            raise LogUnavailable(f"The broker at {bootstrap} does not answer.") from error
        except BaseException:
            await close_consumer(consumer, CLOSE_S)
            raise
        return cls(consumer, places, deadline_s)

    async def bounds(self) -> dict[Place, tuple[int, int]]:
        """Return the first offset and the one after the last, of each partition."""
        async with _translated(self._deadline_s):
            first = await self._consumer.beginning_offsets(self._places)
            after = await self._consumer.end_offsets(self._places)
        return {(place.topic, place.partition): (first[place], after[place]) for place in self._places}

    def seek(self, offsets: Mapping[Place, int]) -> None:
        """Read on from these offsets."""
        for (topic, partition), offset in offsets.items():
            self._consumer.seek(TopicPartition(topic, partition), offset)

    async def poll(self, limit: int, wait_s: float, places: Iterable[Place] = ()) -> list[Kept]:
        """Return the next records, none when there are none within ``wait_s``; only of these places, where some are given."""
        if self._paused:
            self._consumer.resume(*self._places)
            self._paused = False
        async with _translated(self._deadline_s + wait_s):
            wanted = [TopicPartition(*place) for place in places]
            polled = await self._consumer.getmany(*wanted, timeout_ms=int(wait_s * 1000), max_records=limit)
        return [_kept(record) for records in polled.values() for record in records]

    async def position(self, place: Place) -> int:
        """Return the offset that is read next; control records of transactions are passed over without being returned."""
        async with _translated(self._deadline_s):
            return int(await self._consumer.position(TopicPartition(*place)))

    async def at(self, place: Place, offset: int) -> Kept | None:
        """Return the record of an offset; None where it is not there (any more). `poll` goes on behind it there.

        In between nothing is fetched: a fetch that waits for records to come (half a second) holds up what is asked next on
        the same connection.
        """
        wanted = TopicPartition(*place)
        if wanted not in self._places:
            return None
        self._pause()
        try:
            async with _translated(self._deadline_s):
                first = (await self._consumer.beginning_offsets([wanted]))[wanted]
                after = (await self._consumer.end_offsets([wanted]))[wanted]
                if not first <= offset < after:
                    return None
                self._consumer.seek(wanted, offset)
                self._consumer.resume(wanted)
                record = await self._consumer.getone(wanted)
        finally:
            self._pause()
        return _kept(record) if record.offset == offset else None

    def _pause(self) -> None:
        self._consumer.pause(*self._places)
        self._paused = True

    async def close(self) -> None:
        """Disconnect."""
        await close_consumer(self._consumer, CLOSE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _places(consumer: Any, topic: str) -> list[Any]:
    numbers = consumer.partitions_for_topic(topic)
    for _ in range(LOOKS):
        if numbers:
            break
        await consumer._client.add_topic(topic)  # noqa: SLF001 - the consumer has no call that asks for a topic
        await consumer._client.force_metadata_update()  # noqa: SLF001 - as above
        numbers = consumer.partitions_for_topic(topic)
        await asyncio.sleep(LOOK_S)
    if not numbers:
        raise LogUnavailable(f"The topic {topic} is not there: `cortex topics apply` makes it.")
    return [TopicPartition(topic, number) for number in sorted(numbers)]


class _translated:  # noqa: N801 - reads as a function where it is used
    """A deadline, and Kafka's errors as ours."""

    def __init__(self, deadline_s: float) -> None:
        self._timeout = asyncio.timeout(deadline_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise LogUnavailable("The broker did not answer in time.") from late
        if isinstance(error, KafkaError | OSError):
            raise LogUnavailable("The broker does not answer.") from error


def _kept(record: Any) -> Kept:
    return Kept(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=None if record.key is None else bytes(record.key),
        value=None if record.value is None else bytes(record.value),
        headers=tuple((name, bytes(value or b"")) for name, value in record.headers),
    )
