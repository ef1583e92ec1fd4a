"""An event's state: what the store's ledger, its dead letter, the stages and what stands now say of it together."""

from dataclasses import dataclass
from datetime import datetime

import orjson

from schemas.answers import KnownUnit
from schemas.events import (
    EntityDeclared,
    Event,
    RelationDeclared,
    UnitAsserted,
    UnitRetracted,
    parse_event,
)
from schemas.messages import ReceiptOutcome
from schemas.positions import Position
from schemas.status import DeadLetter, EventState, EventStatus, LetterState
from shared.errors import CacheUnavailable
from shared.letters import LetterFilter
from shared.log import EventLog, LogRecord
from shared.retrying import RetryBoard, Retrying
from shared.store import CONTRADICTIONS, STORED, KnownEvent, Snapshot


@dataclass(frozen=True)
class Standing:
    """What has become of what a stored event said, and since when."""

    state: EventState
    at: datetime


@dataclass(frozen=True)
class Evidence:
    """What is known of an accepted event. ``known``: by the ledger, which older stores have not of every event.

    ``standing``: where the store has had it; ``is_checked``: whether it was compared with others too.
    """

    record: LogRecord
    known: KnownEvent | None = None
    standing: Standing | None = None
    is_checked: bool = False
    letter: DeadLetter | None = None
    retrying: Retrying | None = None


async def gather(
    record: LogRecord, snapshot: Snapshot, log: EventLog, board: RetryBoard | None, now: datetime
) -> Evidence:
    """Ask everybody. The store before the letters: a letter is written first, so no failure can pass for stored."""
    known = next(iter(await snapshot.events(record.event_id, record.source)), None)
    stored, checked = await snapshot.watermarks(STORED), await snapshot.watermarks(CONTRADICTIONS)
    place = record.position
    has_effect = known is not None and known.outcome is not ReceiptOutcome.DEAD
    is_past = known is None and stored.get((place.topic, place.partition), -1) >= place.number
    standing = await _standing(record, known, snapshot, now) if has_effect or is_past else None
    letter = await letter_of(record, log)
    evidence = Evidence(
        record=record,
        known=known,
        standing=standing,
        is_checked=checked.get((place.topic, place.partition), -1) >= place.number,
        letter=letter,
    )
    if board is None or status_of(evidence).state != "pending":
        return evidence
    return Evidence(record, known, standing, letter=letter, retrying=await _look(board, record))


def status_of(evidence: Evidence) -> EventStatus:
    """Say where an event is: an unresolved failure before everything, then what the store has, then who tries it."""
    record, known, letter = evidence.record, evidence.known, evidence.letter
    status = EventStatus(
        id=record.event_id,
        source=record.source,
        tenant=record.tenant,
        state="pending",
        accepted_at=record.recorded_at,
        at=record.recorded_at,
        token=record.position.token(),
        outcome=known.outcome.value if known else None,
    )
    died = letter is not None and letter.state is not LetterState.REPLAYED
    if letter is not None and died and _counts(letter, known):
        return status.model_copy(
            update={
                "state": "failed",
                "at": letter.failed_at,
                "stage": letter.stage,
                "cause": letter.cause,
                "attempts": letter.attempts,
                "letter": letter.id,
            }
        )
    if evidence.standing is not None and (known is not None or letter is None):
        stage = CONTRADICTIONS if evidence.is_checked else "store"
        standing = evidence.standing
        return status.model_copy(update={"state": standing.state, "at": standing.at, "stage": stage})
    if known is not None and letter is None:  # dead, and its letter was let go
        return status.model_copy(update={"state": "failed", "at": known.recorded_at})
    if evidence.retrying is not None:
        retrying = evidence.retrying
        return status.model_copy(
            update={
                "state": "retrying",
                "at": retrying.since,
                "stage": retrying.stage,
                "cause": retrying.cause,
                "attempts": retrying.attempts,
            }
        )
    return status if letter is None else status.model_copy(update={"at": letter.resolved_at or record.recorded_at})


def _counts(letter: DeadLetter, known: KnownEvent | None) -> bool:
    """Whether a failure is the last word: what was stored before stays stored when doing it again fails.

    Only a failed comparison comes after the store.
    """
    return known is None or known.outcome is ReceiptOutcome.DEAD or letter.stage == CONTRADICTIONS


async def letter_of(record: LogRecord, log: EventLog) -> DeadLetter | None:
    """Return the dead letter of a kept event; on Kafka what is replayed has another place than its letter.

    Letters of the same id that were never accepted are not its own.
    """
    for letter in await log.dead_letters(LetterFilter(tenant=record.tenant, event_id=record.event_id)):
        if letter.event_source == record.source and (_is_at(letter, record.position) or letter.replays):
            return letter
    return None


def _is_at(letter: DeadLetter, position: Position) -> bool:
    place = (position.topic, position.partition, position.number)
    return (letter.topic, letter.partition, letter.offset) == place


async def _look(board: RetryBoard, record: LogRecord) -> Retrying | None:
    try:
        return await board.look(record.tenant, record.source, record.event_id)
    except CacheUnavailable:  # it is pending, as far as can be said
        return None


def event_in(record: LogRecord) -> Event | None:
    """Read a kept event; None for one that this release cannot read, which failed for that."""
    try:
        return parse_event(orjson.loads(record.body))
    except ValueError:
        return None


async def _standing(record: LogRecord, known: KnownEvent | None, snapshot: Snapshot, now: datetime) -> Standing:
    """Say what stands now of what the event said."""
    recorded_at = record.recorded_at if known is None else known.recorded_at
    if known is not None and known.outcome is ReceiptOutcome.STALE:
        return Standing("stale", recorded_at)
    event = event_in(record)
    stored = Standing("stored", recorded_at)
    if isinstance(event, UnitAsserted | UnitRetracted):
        live = (await snapshot.units([event.data.id])).get(event.data.id)
        if isinstance(event, UnitRetracted):
            return stored if live is None else Standing("superseded", live.known.state.recorded_at)
        return _of_unit(event, known, None if live is None else live.known, now) or stored
    if known is not None and not await _is_declared(event, snapshot):
        return Standing("retracted", recorded_at)
    return stored


def _of_unit(event: UnitAsserted, known: KnownEvent | None, live: KnownUnit | None, now: datetime) -> Standing | None:
    """Say what stands of a unit's statement; None: the statement itself, or a part that waits for its document."""
    waits = known is not None and known.outcome is ReceiptOutcome.PENDING_DOCUMENT
    if live is None:
        if known is None or waits:
            return None
        return Standing("superseded" if event.data.document_id else "retracted", known.recorded_at)
    state = live.state
    if (state.event_id, state.source) == (event.id, event.source):
        has_ended = state.held_until is not None and state.held_until <= now and state.superseded_by is not None
        return Standing("superseded", state.held_until) if has_ended and state.held_until else None
    if waits and event.data.revision is not None and event.data.revision > state.revision:
        return None
    return Standing("superseded", state.recorded_at)


async def _is_declared(event: Event | None, snapshot: Snapshot) -> bool:
    """Whether what a declaration said is declared now, by it or by another; true for other events."""
    if isinstance(event, EntityDeclared):
        _, entities = await snapshot.entities()
        return any(entity.id == event.data.id for entity in entities)
    if isinstance(event, RelationDeclared):
        said = event.data
        found = await snapshot.relations(said.source_id)
        return any(
            (one.source_id, str(one.relation), one.target_id) == (said.source_id, str(said.relation), said.target_id)
            for one in found
        )
    return True
