"""Commands: what people and webhooks ask ingest to do with what is already known, and the jobs that come of them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from schemas import limits
from schemas.base import Record, Strict
from schemas.units import Identifier, TenantId

ScopeKey = Annotated[str, StringConstraints(pattern=r"^(personal|team|department|organization)/.{1,200}$")]
CommandId = Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS, pattern=r"^[A-Za-z0-9._:-]+$")]


class Selection(Strict):
    """Which units are meant: all that every given field fits; none given: the whole tenant."""

    scope: ScopeKey | None = None
    source: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="units whose vectors are of this embedding model"
    )
    unit_ids: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=limits.SELECTED_UNITS)] | None = None


class Reindex(Strict):
    """Do a stage's work anew for what is known: ``embed`` computes vectors, ``resolve`` mentions, claims and graph."""

    kind: Literal["reindex"] = "reindex"
    stage: Literal["embed", "resolve"]
    select: Selection = Selection()


class ReplayLetters(Strict):
    """Send dead letters through the stages again, each with its original revision."""

    kind: Literal["replay-letters"] = "replay-letters"
    letters: Annotated[tuple[str, ...], Field(min_length=1, max_length=limits.SELECTED_UNITS)]


class Replay(Strict):
    """Send kept events of the log through the stages again, each with its original revision.

    ``stage`` contradictions compares the units anew and repeats nothing else.
    """

    kind: Literal["replay"] = "replay"
    stage: Literal["embed", "contradictions"] = "embed"
    scope: ScopeKey | None = None
    source: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None


class ChangeModel(Strict):
    """Build vectors of another embedding model beside the present ones, and switch when all are there."""

    kind: Literal["change-model"] = "change-model"
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class DropModel(Strict):
    """Forget the vectors of an embedding model that is not searched any more."""

    kind: Literal["drop-model"] = "drop-model"
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class CancelJob(Strict):
    """Stop a job between two pages of its work; what it has done stays. A job that is over stays as it ended."""

    kind: Literal["cancel-job"] = "cancel-job"
    job: CommandId


class JoinJob(Strict):
    """Nothing more: an equal job had been ordered and had not begun. Kept so that the same request stays the same one."""

    kind: Literal["join-job"] = "join-job"
    job: CommandId


Order = Annotated[
    Reindex | ReplayLetters | Replay | ChangeModel | DropModel | CancelJob | JoinJob, Field(discriminator="kind")
]


class Command(Strict):
    """One order with who gave it and why. The same id again is the same command: nothing more is done."""

    version: Literal[1] = 1
    id: CommandId
    tenant: TenantId
    requested_by: Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS)]
    requested_at: datetime
    reason: Annotated[str, StringConstraints(max_length=500)] = ""
    order: Order


class JobState(StrEnum):
    """How far a command is."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
"""States that a job never leaves."""


class Job(Record):
    """What became of a command. ``cursor``: up to where its work is done, so that a restart goes on from there."""

    id: str
    tenant: str
    kind: str
    order: Order | None = None
    state: JobState
    requested_by: str
    requested_at: datetime
    reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    total: int | None = Field(
        default=None, ge=0, description="how many things it is about; unknown before it has looked"
    )
    done: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    cursor: str | None = None
    detail: str = ""
    number: int | None = Field(default=None, description="its command's place: a tenant's are done in their order")

    @property
    def finished(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.state in FINISHED


def accepted(command: Command) -> Job:
    """Return a command's job as it is before ingest has taken it."""
    return Job(
        id=command.id,
        tenant=command.tenant,
        kind=command.order.kind,
        order=command.order,
        state=JobState.ACCEPTED,
        requested_by=command.requested_by,
        requested_at=command.requested_at,
        reason=command.reason,
    )
