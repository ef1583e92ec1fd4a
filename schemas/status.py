"""What became of an accepted event."""

from datetime import datetime
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


class EventStatus(Record):
    """Where an accepted event is. ``failed`` names the stage and the cause; the dead letter keeps the bytes."""

    id: str
    source: str
    tenant: str
    state: Literal["pending", "stored", "failed"]
    accepted_at: datetime
    token: str
    stage: str | None = None
    cause: str | None = None
    attempts: int | None = None


class DeadLetter(Record):
    """What could not be processed: original bytes and headers, stage, cause, attempts, position."""

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
