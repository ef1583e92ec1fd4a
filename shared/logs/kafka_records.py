"""How an event stands on Kafka: its position, its time, and the revision it counts as where its producer gave none."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from schemas.positions import Position
from schemas.units import TENANT
from shared.binary_mode import KAFKA_PREFIX, event_of_kafka, is_binary, kafka_content_type
from shared.errors import InvalidInput
from shared.kafka_reading import Kept
from shared.log import LogRecord

ORIGIN = "cortex-origin"
"""Header of an event that goes through the stages again: the token of the place where it was first kept."""
ORIGIN_REVISION = "cortex-origin-revision"
"""Header beside it: what the event counted as there, where it has no revision of its own."""
MOVED_FROM = "cortex-moved-from"
"""Header of an event that was sent on to the partition of its key: the token of the place that it was sent from."""

NAMES = ("tenant", "source", "id")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_BITS = 10
_DIGITS = 17  # of a revision: 2**53 has 16


def recorded_at(timestamp_ms: int) -> datetime:
    """Return when the broker appended a record."""
    return _EPOCH + timedelta(milliseconds=max(timestamp_ms, 0))


def implied_revision(timestamp_ms: int, offset: int) -> int:
    """Return what an event without a revision counts as, below 2**53 until the year 2248.

    Offsets of two topics do not compare, times of the brokers do; within one millisecond of a partition the offset decides.
    """
    return (max(timestamp_ms, 0) << _OFFSET_BITS) | (offset & ((1 << _OFFSET_BITS) - 1))


def recorded_in(headers: dict[str, bytes], timestamp_ms: int) -> datetime:
    """Return when a record's event was recorded: when it was first, for one that comes again."""
    first = _first_revision(headers)
    if first is None or ORIGIN not in headers:
        return recorded_at(timestamp_ms)
    return recorded_at(min(first >> _OFFSET_BITS, timestamp_ms))


def revision_in(headers: dict[str, bytes], timestamp_ms: int, offset: int) -> int:
    """Return what a record's event counts as: what it was first, for one that comes again."""
    first = _first_revision(headers)
    return implied_revision(timestamp_ms, offset) if first is None else first


def origin_headers(place: Position, revision: int | None) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of an event that comes again: where it stood first, and what it counted as there."""
    counts_as = () if revision is None else ((ORIGIN_REVISION, str(revision).encode()),)
    return ((ORIGIN, place.token().encode()), *counts_as)


def _moved_from(headers: dict[str, bytes], log_id: str) -> Position | None:
    try:
        place = Position.from_token(headers.get(MOVED_FROM, b"").decode("ascii", "replace"))
    except ValueError:
        return None
    return place if place.log == log_id else None


def _first_revision(headers: dict[str, bytes]) -> int | None:
    first = headers.get(ORIGIN_REVISION, b"")
    return int(first) if first.isdigit() and len(first) <= _DIGITS else None


def as_log_record(record: Kept, log_id: str, prefix: str) -> LogRecord | None:
    """Read what a kept record says of its event; None where it cannot be read as one, or names no possible tenant."""
    headers = dict(record.headers)
    names = names_in(record.value, headers).values()
    if not all(isinstance(name, str) and name for name in names):
        return None
    tenant, source, event_id = (str(name) for name in names)
    if not re.fullmatch(TENANT, tenant):
        return None
    topic = record.topic.removeprefix(prefix)
    return LogRecord(
        position=Position(log=log_id, topic=topic, partition=record.partition, number=record.offset),
        recorded_at=recorded_in(headers, record.timestamp_ms),
        tenant=tenant,
        source=source,
        event_id=event_id,
        key=(record.key or b"").decode("utf-8", "replace"),
        body=_structured(record),
        revision=revision_in(headers, record.timestamp_ms, record.offset),
        moved_from=_moved_from(headers, log_id),
    )


def names_in(body: bytes | None, headers: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the ``tenant``, ``source`` and ``id`` that a record gives, however unusable it is otherwise.

    The log and the first stage must read the same: what one takes for a tenant's event, and the other for nobody's, would
    count as waiting for ever. In the binary mode the headers count; otherwise the body, and headers where that says nothing.
    """
    try:
        value: Any = orjson.loads(body or b"")
    except orjson.JSONDecodeError:
        value = None
    names = {name: value.get(name) if isinstance(value, dict) else None for name in NAMES}
    binary = {name: headers.get(f"{KAFKA_PREFIX}{name}") for name in NAMES}
    told = {name: given.decode("utf-8", "replace") for name, given in binary.items() if given is not None}
    if not is_binary(headers, kafka_content_type(headers.items()), KAFKA_PREFIX):
        told |= {name: given for name, given in names.items() if given is not None}
    return {**names, **told}


def _structured(record: Kept) -> bytes:
    """Return the event's JSON, put together where it came in the binary content mode; unusable bytes stay as they are."""
    value = record.value or b""
    if not is_binary((name for name, _ in record.headers), kafka_content_type(record.headers), KAFKA_PREFIX):
        return value
    try:
        return orjson.dumps(event_of_kafka(record.headers, value))
    except InvalidInput:
        return value
