"""What became of an accepted event."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Record
from schemas.problems import FieldFault


class Accepted(Record):
    """One accepted event and the token of its position; ``duplicate``: it was accepted before, nothing was added."""

    id: str
    source: str
    token: str
    unit_id: str | None = None
    duplicate: bool = False


class AcceptedBatch(Record):
    """The answer 202: every event of the batch is on disk (or on a quorum). ``token`` covers the whole batch."""

    accepted: tuple[Accepted, ...]
    token: str = Field(description="the last event's; for several partitions wait for each event's own token")


class DryRun(Record):
    """What ``?validate=true`` says: nothing was kept."""

    valid: int
    faults: tuple[FieldFault, ...] = ()


EventState = Literal["pending", "retrying", "stored", "failed", "superseded", "retracted", "stale"]


class EventStatus(Record):
    """Where an accepted event is.

    ===============  =================================================================================================
    ``pending``      on its way; also while a dead letter that was replayed is
    ``retrying``     on its way, and a stage tries it again: ``stage``, ``cause``, ``attempts`` so far, ``at`` since when
    ``stored``       its effect is in the store. A part whose document is not complete yet is stored and not searchable:
                     then ``outcome`` is ``pending-document``
    ``superseded``   it was stored, and later knowledge stands in its place, from ``at`` on
    ``retracted``    it was stored, and what it said has been withdrawn
    ``stale``        nothing came of it: something newer was known when it came
    ``failed``       it ended at ``stage`` by ``cause``; the dead letter ``letter`` keeps its bytes
    ===============  =================================================================================================

    ``at``: since when it is in that state, as far as that is known; for what is stored the time it was recorded.
    """

    id: str
    source: str
    tenant: str
    state: EventState
    accepted_at: datetime
    token: str
    at: datetime | None = None
    stage: str | None = None
    cause: str | None = None
    attempts: int | None = None
    outcome: str | None = Field(default=None, description="what the store did with it")
    letter: str | None = Field(default=None, description="its dead letter, where it has failed")


class LetterState(StrEnum):
    """What was done about a dead letter."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class DeadLetter(Record):
    """What could not be processed: original bytes and headers, stage, cause, attempts, position; and what was done since.

    ``attempts`` counts those of every replay. ``revision``: what the event counts as, where its position's number is not
    that. ``resolved_by``, ``resolved_at``: who had it replayed or discarded, and when; ``job`` the replay's.
    """

    id: str
    stage: str
    cause: str
    detail: str
    attempts: int
    topic: str
    partition: int
    offset: int
    tenant: str | None
    event_id: str | None
    event_source: str | None
    failed_at: datetime
    body: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    key: bytes | None = None
    revision: int | None = None
    state: LetterState = LetterState.OPEN
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    job: str | None = None
    replays: int = Field(default=0, ge=0)


class LetterMark(Record):
    """What somebody has done about a dead letter. ``job``: the one that replays it."""

    state: Literal[LetterState.REPLAYED, LetterState.DISCARDED]
    by: str
    at: datetime
    job: str | None = None
