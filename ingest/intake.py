"""How a record gets its position, and how an event is read from its bytes.

Locally the journal gives positions: the pump stamps what it publishes with the journal's number and a mark, a digest over
this pipeline's epoch, the place, the stamps and the bytes. So nobody else's record is taken for a journaled one, not even
one with another's headers copied onto it. Any other record is *foreign*: it came over the Kafka protocol, and is appended
to the journal first, from where the pump publishes it. On a durable Kafka a record's own offset is its position:
ingest/kafka_intake.py stands in this one's place, and nothing else changes.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from pydantic import ValidationError

from schemas import limits
from schemas.events import SCHEMA_MAJOR, Event, extension_fault, parse_event, schema_major
from schemas.positions import Position
from shared.binary_mode import KAFKA_PREFIX, event_of_kafka, is_binary, kafka_content_type
from shared.errors import Fault, InvalidInput, TooLarge, UnsupportedVersion
from shared.faults import faults_of, nesting_fault, not_json
from shared.kafka import Outgoing, Record
from shared.log import EventLog, LogRecord
from shared.tracing import parent_of

MARK = "cortex-mark"
NUMBER = "cortex-number"
RECORDED_AT = "cortex-recorded-at"
TENANT = "cortex-tenant"
SOURCE = "cortex-source"
EVENT_ID = "cortex-id"
STAMPS = (NUMBER, RECORDED_AT, TENANT, SOURCE, EVENT_ID)
MARK_BYTES = 16
TRACEPARENT = "traceparent"

MAX_FAULTS = 20  # of one event; more would only repeat the same mistake


@dataclass(frozen=True)
class Place:
    """Where a record's event stands in the log, when it was recorded, and which event it is, as far as it can be read.

    ``revision``: as in `StageMessage`. ``stray``: it has this position, and its event belongs into another partition.
    """

    position: Position
    recorded_at: datetime
    tenant: str | None
    source: str | None
    event_id: str | None
    revision: int | None = None
    stray: bool = False


Foreign = tuple[Record, Event]
"""A record that does not stand where its event belongs, and that event."""


class Intake(Protocol):
    """Gives records their positions."""

    def place(self, record: Record, value: Any, key: str | None) -> Place | None:
        """Return where a record's event stands; None for one that has no position yet and is to be accepted.

        ``value``: its JSON as far as it could be read; ``key``: what its event is about, None where it is unreadable.
        """
        ...

    async def accept(self, foreign: Sequence[Foreign], topic: str) -> None:
        """Bring events to where they belong, from where they come again. Raises LogUnavailable, DiskFull."""
        ...


class JournalIntake:
    """Positions from the journal."""

    def __init__(self, log: EventLog, epoch: str, prefix: str = "") -> None:
        self._log = log
        self._epoch = epoch
        self._prefix = prefix

    @property
    def epoch(self) -> str:
        """The nonce that the marks of our pump's records are made with."""
        return self._epoch

    def stamp(self, row: LogRecord) -> Outgoing:
        """Write a journaled event as a record that `place` recognises."""
        place = row.position
        stamps = (
            str(place.number).encode(),
            row.recorded_at.astimezone(UTC).isoformat().encode(),
            row.tenant.encode(),
            row.source.encode(),
            row.event_id.encode(),
        )
        mark = self._mark(place.topic, place.partition, stamps, row.body)
        return Outgoing(row.key.encode(), row.body, ((MARK, mark), *zip(STAMPS, stamps, strict=True)))

    def place(self, record: Record, value: Any = None, key: str | None = None) -> Place | None:
        """Return where the record's event stands, or None for a foreign record."""
        del value, key  # the stamps say it
        headers = dict(record.headers)
        stamps = tuple(value for name in STAMPS if (value := headers.get(name)) is not None)
        topic = record.topic.removeprefix(self._prefix)
        if len(stamps) < len(STAMPS) or record.value is None:
            return None
        if headers.get(MARK) != self._mark(topic, record.partition, stamps, record.value):
            return None
        number, recorded_at, tenant, source, event_id = (stamp.decode() for stamp in stamps)
        position = Position(log=self._log.log_id, topic=topic, partition=record.partition, number=int(number))
        return Place(position, datetime.fromisoformat(recorded_at), tenant, source, event_id)

    def _mark(self, topic: str, partition: int, stamps: Sequence[bytes], body: bytes) -> bytes:
        digest = hashlib.blake2b(digest_size=MARK_BYTES)
        for part in (self._epoch.encode(), topic.encode(), str(partition).encode(), *stamps, body):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest().encode()

    async def accept(self, foreign: Sequence[Foreign], topic: str) -> None:
        """Keep foreign events; a redelivered one is there already. Raises LogUnavailable, DiskFull."""
        if foreign:
            await self._log.append([event for _, event in foreign], topic=topic.removeprefix(self._prefix))


def read_record(record: Record) -> Any:
    """Read the JSON value of a record's event; one without a ``traceparent`` of its own gets that of the record's header.

    Instrumented producers write that header. Raises as `_value_of`.
    """
    value = _value_of(record)
    if isinstance(value, dict) and value.get("traceparent") is None:
        given = next((held for name, held in record.headers if name == TRACEPARENT), None)
        traceparent = bytes(given or b"").decode("ascii", "replace")
        return {**value, TRACEPARENT: traceparent} if parent_of(traceparent) else value
    return value


def _value_of(record: Record) -> Any:
    """Read the JSON value of a record's event, in structured or in binary content mode. Raises as `read_json`, and
    InvalidInput for headers that are no attributes.
    """
    if not is_binary((name for name, _ in record.headers), kafka_content_type(record.headers), KAFKA_PREFIX):
        return read_json(record.value)
    _check_size(record.value or b"")
    return event_of_kafka(record.headers, record.value)


def read_json(body: bytes | None) -> Any:
    """Read one event's bytes. Raises TooLarge, and InvalidInput for what is not JSON."""
    if body is None or not body.strip():
        raise InvalidInput(faults=(Fault("", "the record has no content; an event is a JSON object"),))
    _check_size(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(faults=(not_json(error, bytes(body)),)) from error


def _check_size(body: bytes) -> None:
    if len(body) > limits.EVENT_BYTES:
        raise TooLarge(f"The event has {len(body)} bytes, at most {limits.EVENT_BYTES}.", limit=limits.EVENT_BYTES)


def read_event(value: Any) -> Event:
    """Read an event from its JSON value. Raises UnsupportedVersion, and InvalidInput with each wrong field."""
    major = schema_major(value)
    if major != SCHEMA_MAJOR:
        raise UnsupportedVersion(f"The schema version {major} is not known; this release reads {SCHEMA_MAJOR}.x.")
    if isinstance(value, dict):
        odd = [(name, fault) for name, item in value.items() if (fault := extension_fault(name, item)) is not None]
        if odd:
            raise InvalidInput(faults=tuple(Fault(f"/{name}", *fault) for name, fault in odd[:MAX_FAULTS]))
    try:
        return parse_event(value)
    except ValidationError as error:
        raise InvalidInput(faults=faults_of(error, value)[:MAX_FAULTS]) from error
    except RecursionError as error:
        raise InvalidInput(faults=(nesting_fault(""),)) from error
