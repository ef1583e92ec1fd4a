"""Dead letters: what could not be processed, kept in the log with its bytes and shown on its topic."""

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final

import orjson
import structlog

from ingest.delivery import Delivery, Hopeless
from ingest.metrics import IngestMetrics
from schemas import limits
from schemas.messages import StageMessage
from schemas.positions import Position
from schemas.status import DeadLetter
from schemas.units import TENANT
from shared.clock import Clock
from shared.kafka import DEAD_LETTERS, Publisher, Record, partition_of
from shared.letter_records import letter_record
from shared.log import EventLog

REPLAYS: Final = "cortex-replays"
"""Header with the id of the dead letter that a record is the replay of, where its place is not the first one."""

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
        place: Position | None = None,
        revision: int | None = None,
    ) -> None:
        """Bury a record as it came in. ``identity``: (tenant, source, id) as far as known; ``place``: where it stands,
        for a record that has a position of its own in the log, and ``revision``: what it counts as there.

        A replayed record without a position is known by its header, if it is that letter's: its bytes tell.
        """
        headers = tuple((name, bytes(value or b"")) for name, value in record.headers)
        body = bytes(record.value or b"")
        replayed = await self._known(delivery, replayed_letter(record), lambda known: known.body == body)
        tenant, source, event_id = identity
        letter = DeadLetter(
            id=_placed_id(place) if place else _unplaced_id(record, body),
            stage=delivery.stage,
            cause=reason.cause,
            detail=reason.detail,
            attempts=reason.attempts,
            topic=place.topic if place else record.topic,
            partition=place.partition if place else record.partition,
            offset=place.number if place else record.offset,
            tenant=tenant,
            event_id=event_id,
            event_source=source,
            failed_at=self._clock.now(),
            body=body,
            headers=headers,
            key=None if record.key is None else bytes(record.key),
            revision=revision,
        )
        await self._bury(delivery, _again(replayed, letter))

    async def bury_message(self, delivery: Delivery, message: StageMessage, reason: Hopeless) -> None:
        """Bury an event that failed in a later stage, with the bytes that were accepted.

        As its stages have read it, where it was written in another way: in the binary content mode.
        """
        position = message.position
        row = await delivery.insist(lambda: self._event_log.at(position))
        is_as_read = row is not None and (message.event is None or _reads_as(row.body, message.event))
        key = message.key or (row.key if row else "")
        letter = DeadLetter(
            id=_placed_id(position),
            stage=delivery.stage,
            cause=reason.cause,
            detail=reason.detail,
            attempts=reason.attempts,
            topic=position.topic,
            partition=position.partition,
            offset=position.number,
            tenant=message.tenant,
            event_id=message.event_id,
            event_source=message.event_source,
            failed_at=self._clock.now(),
            body=row.body if row is not None and is_as_read else orjson.dumps(message.event),
            key=key.encode(),
            revision=row.revision if row is not None and message.revision is None else message.revision,
        )
        replayed = await self._known(delivery, message.replays, lambda known: _event_of(known) == _event_of(letter))
        await self._bury(delivery, _again(replayed, letter))

    async def _known(
        self, delivery: Delivery, letter_id: str | None, is_it: Callable[[DeadLetter], bool]
    ) -> DeadLetter | None:
        """Return the letter that is replayed. Anybody may name one in a header: ``is_it`` says whether that can be true."""
        known = await delivery.insist(lambda: self._event_log.dead_letter(letter_id)) if letter_id else None
        return known if known is not None and is_it(known) else None

    async def _bury(self, delivery: Delivery, fresh: DeadLetter) -> None:
        letter = await delivery.insist(lambda: self._event_log.bury(fresh))
        await delivery.insist(lambda: self._announce(fresh))  # whoever reads the topic adds up for himself
        self._metrics.buried(letter.stage, letter.cause)
        _log.warning(
            "event.buried",
            letter=letter.id,
            stage=letter.stage,
            cause=letter.cause,
            attempts=letter.attempts,
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
            tenant=letter.tenant,
            event_id=letter.event_id,
        )

    async def _announce(self, letter: DeadLetter) -> None:
        key = letter.key or letter.id.encode()
        partition = partition_of(key, self._event_log.partitions)
        await self._publisher.publish(DEAD_LETTERS, partition, [letter_record(letter)])


def replayed_letter(record: Record) -> str | None:
    """Return the id of the dead letter that a record says to be the replay of."""
    named = dict(record.headers).get(REPLAYS)
    return bytes(named).decode("utf-8", "replace") if named else None


def _again(known: DeadLetter | None, letter: DeadLetter) -> DeadLetter:
    """Return the failure of a replay as one of the letter that was replayed: what came first stays with it."""
    if known is None:
        return letter
    names = ("id", "topic", "partition", "offset", "body", "headers", "key", "revision")
    return letter.model_copy(update={name: getattr(known, name) for name in names})


def _event_of(letter: DeadLetter) -> tuple[str | None, str | None, str | None]:
    return letter.tenant, letter.event_source, letter.event_id


def _unplaced_id(record: Record, body: bytes) -> str:
    """The same record gives the same letter; a broker's offsets may begin again, so the bytes count too."""
    where = (str(part).encode() for part in (record.topic, record.partition, record.offset))
    return hashlib.sha256(b"\x00".join((*where, body))).hexdigest()[:32]


def _placed_id(place: Position) -> str:
    """An event has one letter, whichever stage it fails in."""
    return hashlib.sha256(place.token().encode()).hexdigest()[:32]


def _reads_as(body: bytes, event: Any) -> bool:
    try:
        return bool(orjson.loads(body) == event)
    except orjson.JSONDecodeError:
        return False


def identity_in(value: Any) -> tuple[str | None, str | None, str | None]:
    """Return (tenant, source, id) as far as an unusable event names them, so that its status can be asked for.

    A tenant that cannot be one is nobody's: there is no store to keep its position in.
    """
    if not isinstance(value, dict):
        return None, None, None
    tenant, source, event_id = (value.get(name) for name in ("tenant", "source", "id"))
    return (
        tenant if isinstance(tenant, str) and re.fullmatch(TENANT, tenant) else None,
        _short(source, 500),
        _short(event_id, limits.ID_CHARS),
    )


def _short(value: Any, longest: int) -> str | None:
    usable = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()
    return value if usable else None
