"""How a record gets its position where Kafka is the log: it has one, its offset."""

from collections.abc import Sequence
from typing import Any

from ingest.intake import Foreign, Place
from ingest.letters import identity_in
from schemas.positions import Position
from shared.kafka import Outgoing, Publisher, Record
from shared.logs.kafka_records import (
    MOVED_FROM,
    ORIGIN,
    ORIGIN_REVISION,
    names_in,
    origin_headers,
    recorded_in,
    revision_in,
)
from shared.partitioner import partition_of


class KafkaIntake:
    """Positions are offsets; a *stray*, a record in a partition that its key does not name, is sent on to the right one.

    A producer whose partitioner is not murmur2 makes strays: without this, two events about one unit could stand in two
    partitions, and nothing would keep their order. It counts as what it was where it came first, for a replay of the log
    meets it there.
    """

    def __init__(self, log_id: str, partitions: int, publisher: Publisher, prefix: str = "") -> None:
        self._log_id = log_id
        self._partitions = partitions
        self._publisher = publisher
        self._prefix = prefix

    def place(self, record: Record, value: Any, key: str | None) -> Place:
        """Return where the record's event stands. ``key`` None: it is unreadable, and stays here.

        ``value`` None: its bytes are. Whose event it is, is what the log takes it for (`names_in`).
        """
        timestamp_ms, headers = int(getattr(record, "timestamp", 0) or 0), dict(record.headers)
        tenant, source, event_id = identity_in(value)
        if tenant is None:
            tenant, source, event_id = identity_in(names_in(record.value, headers))
        return Place(
            self._position(record),
            recorded_in(headers, timestamp_ms),
            tenant,
            source,
            event_id,
            revision_in(headers, timestamp_ms, record.offset),
            stray=key is not None and partition_of(key.encode(), self._partitions) != record.partition,
        )

    async def accept(self, foreign: Sequence[Foreign], topic: str) -> None:
        """Send strays to the partition of their key, with their bytes and headers. Raises LogUnavailable."""
        messages = []
        for record, event in foreign:
            key = event.key.encode()
            theirs = ((name, bytes(value or b"")) for name, value in record.headers if name != MOVED_FROM)
            moved_from = (MOVED_FROM, self._position(record).token().encode())
            headers = (*theirs, *self._first(record), moved_from)
            body = bytes(record.value or b"")
            messages.append((partition_of(key, self._partitions), Outgoing(key, body, headers)))
        await self._publisher.send(topic.removeprefix(self._prefix), messages)

    def _first(self, record: Record) -> tuple[tuple[str, bytes], ...]:
        """Return headers that say where a stray stood and what it counts as, unless it comes again and has them."""
        headers = dict(record.headers)
        if ORIGIN in headers or ORIGIN_REVISION in headers:
            return ()
        timestamp_ms = int(getattr(record, "timestamp", 0) or 0)
        return origin_headers(self._position(record), revision_in(headers, timestamp_ms, record.offset))

    def _position(self, record: Record) -> Position:
        topic = record.topic.removeprefix(self._prefix)
        return Position(log=self._log_id, topic=topic, partition=record.partition, number=record.offset)
