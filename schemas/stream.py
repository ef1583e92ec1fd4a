"""The stream: one event a stage, then one terminal event. Folding a stream gives exactly the JSON answer.

The id of an SSE message is ``<request>-<sequence>``; its event name is ``name`` here, its data the event's JSON.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.answers import Answer, Citation, Conflict, EntityMatch, LostSource, Result, ScopeWeight, StructuredResult
from schemas.base import Record
from schemas.intent import Intent
from schemas.positions import PartitionWatermark
from schemas.problems import Problem

EVENT_NAMES = (
    "intent",
    "entities",
    "weights",
    "keyword",
    "search",
    "fusion",
    "conflicts",
    "structured",
    "context",
    "complete",
    "error",
    "closing",
)
TERMINAL = frozenset({"complete", "error", "closing"})


class _Stage(Record):
    elapsed_ms: float = Field(description="from the start of the request to the end of this stage")
    took_ms: float = Field(description="of this stage alone")
    lost: tuple[LostSource, ...] = ()


class IntentEvent(_Stage):
    """The question as received and what it is after."""

    name: ClassVar[str] = "intent"
    stage: Literal["intent"] = "intent"
    question: str
    tenant: str
    principal: str
    budget_tokens: int
    as_of: datetime | None = None
    intent: Intent


class EntitiesEvent(_Stage):
    """The entities named in the question."""

    name: ClassVar[str] = "entities"
    stage: Literal["entities"] = "entities"
    entities: tuple[EntityMatch, ...]


class WeightsEvent(_Stage):
    """The readable scopes and how much each counts."""

    name: ClassVar[str] = "weights"
    stage: Literal["weights"] = "weights"
    scope_weights: tuple[ScopeWeight, ...]
    watermarks: tuple[PartitionWatermark, ...] = ()
    stale: bool = False


class EarlyHit(Record):
    """A keyword hit before fusion: it may still be withdrawn."""

    unit_id: str
    title: str | None = None
    text: str


class KeywordEvent(_Stage):
    """First hits by keyword, before the other arms are in."""

    name: ClassVar[str] = "keyword"
    stage: Literal["keyword"] = "keyword"
    hits: tuple[EarlyHit, ...]


class SearchEvent(_Stage):
    """How many hits each arm brought. ``degraded``: without the cache, which costs time alone."""

    name: ClassVar[str] = "search"
    stage: Literal["search"] = "search"
    arms: dict[str, int]
    degraded: bool = False


class FusionEvent(_Stage):
    """The results, best first, and the early hits that did not survive."""

    name: ClassVar[str] = "fusion"
    stage: Literal["fusion"] = "fusion"
    results: tuple[Result, ...]
    withdrawn: tuple[str, ...] = ()
    low_confidence: bool = False
    notes: tuple[str, ...] = ()


class ConflictsEvent(_Stage):
    """Pairs that contradict each other, each once."""

    name: ClassVar[str] = "conflicts"
    stage: Literal["conflicts"] = "conflicts"
    conflicts: tuple[Conflict, ...]


class StructuredEvent(_Stage):
    """Asked-for shapes."""

    name: ClassVar[str] = "structured"
    stage: Literal["structured"] = "structured"
    structured: tuple[StructuredResult, ...]


class ContextEvent(_Stage):
    """The context block with its citations."""

    name: ClassVar[str] = "context"
    stage: Literal["context"] = "context"
    context: str
    context_tokens: int
    citations: tuple[Citation, ...]


class CompleteEvent(Record):
    """The end: the whole answer once more, so that a late subscriber needs nothing else."""

    name: ClassVar[str] = "complete"
    stage: Literal["complete"] = "complete"
    answer: Answer


class ErrorEvent(Record):
    """The end: a failure, as a problem."""

    name: ClassVar[str] = "error"
    stage: Literal["error"] = "error"
    problem: Problem


class ClosingEvent(Record):
    """The end: the server is going away; ask again after ``retry_ms``."""

    name: ClassVar[str] = "closing"
    stage: Literal["closing"] = "closing"
    retry_ms: int = 1_000


StreamEvent = Annotated[
    IntentEvent
    | EntitiesEvent
    | WeightsEvent
    | KeywordEvent
    | SearchEvent
    | FusionEvent
    | ConflictsEvent
    | StructuredEvent
    | ContextEvent
    | CompleteEvent
    | ErrorEvent
    | ClosingEvent,
    Field(discriminator="stage"),
]
