"""What is answered: units as we know them, citations, conflicts, explanations, and what was lost on the way."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.intent import Intent
from schemas.positions import PartitionWatermark
from schemas.times import Moment
from schemas.units import Sensitivity, Unit, UnitType


class UnitState(Record):
    """What is derived about a unit: never written by a producer."""

    recorded_at: datetime
    position: str = Field(description="token of the event that set this revision")
    revision: int
    source: str = Field(description="the CloudEvents source that stated it")
    event_id: str
    content_key: str
    corroborations: int = Field(ge=1, description="distinct sources among live units of the same title, text and scope")
    contradiction_refs: tuple[str, ...] = Field(default=(), description="ids of units in an open contradiction with it")
    superseded_by: str | None = None
    held_until: datetime | None = Field(default=None, description="when it ceased to hold, as far as we know")


class KnownUnit(Record):
    """A unit together with what the service knows about it."""

    unit: Unit
    state: UnitState
    history: tuple[dict[str, Any], ...] = ()


class EntityMatch(Record):
    """An entity found in the question: the words, where they stand, how it was found and how sure that is."""

    surface: str
    start: int
    end: int
    key: str
    entity_id: str
    name: str
    type: str | None = None
    method: Literal["exact", "fuzzy", "embedding", "unknown"]
    confidence: float = Field(ge=0, le=1)
    candidates: tuple[str, ...] = Field(default=(), description="other entities of that name; then none was preferred")


class ScopeWeight(Record):
    """How much one readable scope counts: weight = proximity × bias × authority; slots in proportion, at least 3."""

    scope: str
    distance: float | None = Field(default=None, description="weighted hops from the principal; none: not connected")
    proximity: float
    bias: float
    authority: float
    weight: float
    slots: int = Field(ge=0)


class LostSource(Record):
    """A part of the answer's basis that is missing: an arm of the search in a scope (or all), and why."""

    stage: str
    arm: str | None = None
    scope: str | None = None
    reason: Literal["error", "timeout", "unavailable", "stale"]
    detail: str = ""


class ScoreTerm(Record):
    """One named factor or summand of a score."""

    name: str
    value: float
    detail: str = ""


class Result(Record):
    """One unit of the answer, best first. ``score`` is the product and sum that ``terms`` spell out."""

    rank: int = Field(ge=1)
    citation: str = Field(description="how the context cites it, e.g. [1]")
    unit_id: str
    text: str
    title: str | None = None
    type: UnitType
    scope: str
    sensitivity: Sensitivity
    trusted: bool
    score: float
    arms: dict[str, int] = Field(default_factory=dict, description="rank in each arm that found it")
    terms: tuple[ScoreTerm, ...] = ()
    occurred_at: Moment | None = None
    recorded_at: datetime
    valid_from: Moment | None = None
    valid_until: Moment | Literal["open"] | None = None
    status: Literal["current", "superseded", "contested", "ended"] = "current"
    superseded_by: str | None = None
    creator: str | None = None
    source: str
    source_ref: str | None = None
    document_id: str | None = None
    part: int | None = None
    corroborations: int = 1
    also: tuple[str, ...] = Field(default=(), description="ids of units with the same or nearly the same text")


class Citation(Record):
    """A line of the context and where it comes from. ``start`` and ``end``: the quoted span of the unit's text."""

    label: str
    unit_id: str
    scope: str
    source: str
    occurred_at: Moment | None = None
    start: int = 0
    end: int


class ConflictSide(Record):
    """One of two units that cannot both hold."""

    unit_id: str
    text: str
    scope: str
    source: str
    occurred_at: Moment | None = None
    recorded_at: datetime
    creator: str | None = None


class Conflict(Record):
    """Two contradicting units that meet in an answer: both sides, what differs, and the state."""

    id: str
    state: Literal["open", "resolved", "contextual"] = "open"
    difference: str = Field(description="number, date, name, negation, antonym or claim")
    detail: str
    attribute: str = ""
    similarity: float
    sides: tuple[ConflictSide, ConflictSide]
    newer: str | None = Field(default=None, description="unit id of the side that occurred later, where that is known")


class TableResult(Record):
    """Rows from stored evidence; the last column cites the unit."""

    kind: Literal["table"] = "table"
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    unit_ids: tuple[str, ...] = Field(description="the unit behind each row")


class ChartResult(Record):
    """Counts or numbers from stored evidence, largest first."""

    kind: Literal["chart"] = "chart"
    subtype: Literal["bar", "ranked-bar", "line"]
    title: str
    series: tuple[tuple[str, float], ...]
    unit_ids: tuple[tuple[str, ...], ...] = Field(description="the units behind each bar")


class TimelineEvent(Record):
    """One dated unit."""

    at: datetime
    precision: Literal["instant", "day"]
    text: str
    unit_id: str


class TimelineResult(Record):
    """Dated units, oldest first; ``undated`` were left out."""

    kind: Literal["timeline"] = "timeline"
    title: str
    events: tuple[TimelineEvent, ...]
    undated: tuple[str, ...] = ()


class GraphNode(Record):
    """An entity."""

    id: str
    name: str
    type: str | None = None


class GraphEdge(Record):
    """A typed edge with the units that support it."""

    source: str
    relation: str
    target: str
    weight: float
    unit_ids: tuple[str, ...] = ()


class GraphResult(Record):
    """The entities of the answer and what ties them."""

    kind: Literal["graph"] = "graph"
    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


class UnsupportedFormatResult(Record):
    """A format that cannot be made from what is known, the reason, and what is given in its place."""

    kind: Literal["unsupported-format"] = "unsupported-format"
    requested: str
    reason: str
    fallback: Literal["table", "chart", "timeline", "graph", "default"]


class LowConfidenceResult(Record):
    """Nothing found is good enough to stand as an answer; what came nearest is still listed."""

    kind: Literal["low-confidence"] = "low-confidence"
    reason: str
    best_similarity: float
    coverage: float


StructuredResult = (
    TableResult | ChartResult | TimelineResult | GraphResult | UnsupportedFormatResult | LowConfidenceResult
)


class Answer(Record):
    """The assembled answer. ``complete`` is false when anything in ``lost`` or ``stale`` qualifies it.

    ``degraded``: a part was away, be it one in ``lost`` or the cache, without which it only takes longer.
    """

    version: Literal[1] = 1
    question: str
    tenant: str
    principal: str
    intent: Intent
    entities: tuple[EntityMatch, ...] = ()
    scope_weights: tuple[ScopeWeight, ...] = ()
    results: tuple[Result, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    structured: tuple[StructuredResult, ...] = ()
    context: str = ""
    context_tokens: int = 0
    budget_tokens: int
    citations: tuple[Citation, ...] = ()
    complete: bool = True
    degraded: bool = False
    lost: tuple[LostSource, ...] = ()
    stale: bool = False
    low_confidence: bool = False
    notes: tuple[str, ...] = ()
    watermarks: tuple[PartitionWatermark, ...] = ()
    as_of: datetime | None = None
    timings_ms: dict[str, float] = Field(default_factory=dict)
