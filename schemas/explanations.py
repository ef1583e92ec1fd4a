"""Why a unit is, or is not, in an answer; and which way an event has gone."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from schemas.answers import LostSource, ScoreTerm
from schemas.base import Record
from schemas.positions import PartitionWatermark
from schemas.status import EventState, LetterState

ExplainedStageName = Literal[
    "question", "scope", "filter", "keyword", "vector", "graph", "fusion", "duplicates", "boosts", "limit", "context"
]


class ExplainedStage(Record):
    """One stage of the question's path, seen from one unit.

    ``passed``, ``rose`` and ``sank`` let it through, ``missed``: this arm did not bring it, another may; ``lost``: the arm
    did not answer; ``fell``: it went no further.
    """

    stage: ExplainedStageName
    outcome: Literal["passed", "rose", "sank", "missed", "lost", "fell"]
    detail: str
    rank: int | None = Field(default=None, description="its place in this stage's order, from 1")


class SuggestedChange(Record):
    """A change of the question that lets the unit in: tried, not guessed. A value null means: leave the parameter out."""

    parameters: dict[str, Any]
    rank: int = Field(description="its place in the answer to the changed question")
    detail: str


class Explanation(Record):
    """What became of one unit in one question. ``score`` is what ``terms`` spell out; ``needed`` the score to beat."""

    question: str
    unit_id: str
    tenant: str
    principal: str
    answered: bool = Field(description="whether the answer has it, by itself or merged with an equal text")
    rank: int | None = None
    merged_into: str | None = Field(default=None, description="the unit in whose place it stands in the answer")
    cited: bool = Field(default=False, description="whether the context quotes it")
    fell_at: ExplainedStageName | None = None
    reason: str
    stages: tuple[ExplainedStage, ...]
    score: float | None = None
    needed: float | None = None
    terms: tuple[ScoreTerm, ...] = ()
    changes: tuple[SuggestedChange, ...] = Field(default=(), description="the smallest first; empty: none was found")
    low_confidence: bool = False
    lost: tuple[LostSource, ...] = ()


class TraceStep(Record):
    """One step of an event's way. ``waiting``: not there yet; ``failed``: it ended here; ``withheld``: not yours to see."""

    step: Literal["log", "embed", "resolve", "store", "contradictions", "knowledge", "rights"]
    outcome: Literal["done", "waiting", "failed", "withheld"]
    detail: str
    at: datetime | None = None


class TracedLetter(Record):
    """The dead letter of an event."""

    id: str
    stage: str
    cause: str
    detail: str
    attempts: int
    failed_at: datetime
    state: LetterState = LetterState.OPEN
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    replays: int = 0


class TracedUnit(Record):
    """What the store has of the unit that the event is about, now."""

    unit_id: str
    state: Literal["current", "superseded", "ended", "replaced", "retracted", "waiting-for-document", "unknown"]
    revision: int | None = Field(default=None, description="the revision that stands now")
    by_this_event: bool = Field(default=False, description="whether what stands now is what this event said")
    scope: str | None = None
    superseded_by: str | None = None
    document_id: str | None = None


class Trace(Record):
    """An event's way: accepted, stage by stage, what it left in the store, and who may read it.

    ``readers``: entities that may read the unit's scope, by id, at most the first hundred of ``readers_count``.
    """

    id: str
    source: str
    tenant: str
    type: str
    state: EventState
    token: str
    steps: tuple[TraceStep, ...]
    watermarks: tuple[PartitionWatermark, ...] = Field(default=(), description="of the event's partition")
    letter: TracedLetter | None = None
    unit: TracedUnit | None = None
    readers: tuple[str, ...] = ()
    readers_count: int | None = None
