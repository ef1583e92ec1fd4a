"""Dead letters: what could not be processed, kept in the log with its bytes and shown on its topic."""

import hashlib
from typing import Any

import orjson
import structlog

from ingest.delivery import Delivery, Hopeless
from ingest.metrics import IngestMetrics
from schemas import limits
from schemas.messages import StageMessage
from schemas.status import DeadLetter
from shared.clock import Clock
from shared.kafka import DEAD_LETTERS, Outgoing, Publisher, Record, partition_of
from shared.log import EventLog

_log = structlog.get_logger(__name__)


class Letters:
    """Buries dead letters: first in the log (there they survive), then on ``cortex.dead-letters``."""

    def __init__(self, log: EventLog, publisher: Publisher, clock: Clock, metrics: IngestMetrics) -> None:
        self._event_log = log
        self._publisher = publisher
        self._clock = clock
        self._metrics = metrics

    async def bury_record(
        self,
        delivery: Delivery,
        record: Record,
        reason: Hopeless,
        *,
        identity: tuple[str | None, str | None, str | None] = (None, None, None),
        place: tuple[str, int, int] | None = None,
    ) -> None:
        """Bury a record as it came in. ``identity``: (tenant, source, id) as far as known; ``place``: where it stands,
        for a record that has a position of its own in the log.
        """
        topic, partition, offset = place or (record.topic, record.partition, record.offset)
        headers = tuple((name, bytes(value or b"")) for name, value in record.headers)
        key = None if record.key is None else bytes(record.key)
        body = bytes(record.value or b"")
        where = (topic, partition, offset)
        await self._bury(delivery, reason, identity, where, body=body, headers=headers, key=key)

    async def bury_message(self, delivery: Delivery, message: StageMessage, reason: Hopeless) -> None:
        """Bury an event that failed in a later stage, with the bytes that were accepted."""
        position = message.position
        identity = (message.tenant, message.event_source, message.event_id)
        body = await delivery.insist(lambda: self._accepted_bytes(message))
        place = (position.topic, position.partition, position.number)
        await self._bury(delivery, reason, identity, place, body=body, headers=(), key=message.key.encode())

    async def _accepted_bytes(self, message: StageMessage) -> bytes:
        if message.tenant is not None and message.event_id is not None:
            for row in await self._event_log.find(message.tenant, message.event_id, message.event_source):
                if row.position == message.position:
                    return row.body
        return orjson.dumps(message.event)

    async def _bury(
        self,
        delivery: Delivery,
        reason: Hopeless,
        identity: tuple[str | None, str | None, str | None],
        place: tuple[str, int, int],
        *,
        body: bytes,
        headers: tuple[tuple[str, bytes], ...],
        key: bytes | None,
    ) -> None:
        tenant, source, event_id = identity
        topic, partition, offset = place
        letter = DeadLetter(
            id=_letter_id(place, body),
            stage=delivery.stage,
            cause=reason.cause,
            detail=reason.detail,
            attempts=reason.attempts,
            topic=topic,
            partition=partition,
            offset=offset,
            tenant=tenant,
            event_id=event_id,
            event_source=source,
            failed_at=self._clock.now(),
            body=body,
            headers=headers,
            key=key,
        )
        await delivery.insist(lambda: self._event_log.bury(letter))
        await delivery.insist(lambda: self._announce(letter))
        self._metrics.buried(letter.stage, letter.cause)
        _log.warning(
            "event.buried",
            letter=letter.id,
            stage=letter.stage,
            cause=letter.cause,
            attempts=letter.attempts,
            topic=topic,
            partition=partition,
            offset=offset,
            tenant=tenant,
            event_id=event_id,
        )

    async def _announce(self, letter: DeadLetter) -> None:
        key = letter.key or letter.id.encode()
        partition = partition_of(key, self._event_log.partitions)
        await self._publisher.publish(DEAD_LETTERS, partition, [_as_record(letter, key)])


def _letter_id(place: tuple[str, int, int], body: bytes) -> str:
    """The same record gives the same letter; offsets begin again with every epoch, so the bytes count too."""
    return hashlib.sha256(b"\x00".join((*(str(part).encode() for part in place), body))).hexdigest()[:32]


def _as_record(letter: DeadLetter, key: bytes) -> Outgoing:
    """The original bytes and headers, with what happened in headers of ours."""
    ours: dict[str, object] = {
        "letter": letter.id,
        "stage": letter.stage,
        "cause": letter.cause,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "failed-at": letter.failed_at.isoformat(),
        "from": f"{letter.topic}-{letter.partition}-{letter.offset}",
        "dead-tenant": letter.tenant or "",
    }
    headers = tuple((f"cortex-{name}", str(value).encode()) for name, value in ours.items())
    return Outgoing(key, letter.body, (*letter.headers, *headers))


def identity_in(value: Any) -> tuple[str | None, str | None, str | None]:
    """Return (tenant, source, id) as far as an unusable event names them, so that its status can be asked for."""
    if not isinstance(value, dict):
        return None, None, None
    tenant, source, event_id = (value.get(name) for name in ("tenant", "source", "id"))
    return (
        _short(tenant, 63),
        _short(source, 500),
        _short(event_id, limits.ID_CHARS),
    )


def _short(value: Any, longest: int) -> str | None:
    usable = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()
    return value if usable else None
