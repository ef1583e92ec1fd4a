"""Folding a stream into the answer: what a client that kept every stage event knows is what the JSON says."""

from collections.abc import Iterable
from typing import Any, Final

from schemas.answers import Answer
from schemas.stream import (
    ClosingEvent,
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EntitiesEvent,
    ErrorEvent,
    FusionEvent,
    IntentEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)

_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    IntentEvent: ("question", "tenant", "principal", "budget_tokens", "as_of", "intent"),
    EntitiesEvent: ("entities",),
    WeightsEvent: ("scope_weights", "watermarks", "stale"),
    SearchEvent: ("degraded",),
    FusionEvent: ("results", "low_confidence", "notes"),
    ConflictsEvent: ("conflicts",),
    StructuredEvent: ("structured",),
    ContextEvent: ("context", "context_tokens", "citations"),
}
"""Which of the answer's fields each stage decides; early hits and the arms' counts are no part of the answer."""


def fold(events: Iterable[StreamEvent]) -> Answer:
    """Build the answer from stage events alone; a `CompleteEvent` among them is not looked into.

    Raises ValueError when the stream has no intent or no context event: it broke off, and there is no answer.
    """
    fields: dict[str, Any] = {}
    timings: dict[str, float] = {}
    lost: list[Any] = []
    for event in events:
        if isinstance(event, CompleteEvent | ErrorEvent | ClosingEvent):
            continue
        timings[event.stage] = event.took_ms
        timings["total"] = event.elapsed_ms
        lost.extend(event.lost)
        fields.update(_fields(event))
    if "question" not in fields or "context" not in fields:
        msg = "the stream broke off before its answer was complete"
        raise ValueError(msg)
    stale = bool(fields.get("stale"))
    fields["degraded"] = bool(lost) or bool(fields.get("degraded"))
    return Answer(**fields, lost=tuple(lost), complete=not lost and not stale, timings_ms=timings)


def _fields(event: StreamEvent) -> dict[str, Any]:
    names = _FIELDS.get(type(event), ())
    return {name: getattr(event, name) for name in names}
