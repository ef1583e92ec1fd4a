"""Folding a stream into the answer: what a client that kept every stage event knows is what the JSON says."""

from collections.abc import Iterable
from typing import Any

from schemas.answers import Answer
from schemas.stream import (
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EntitiesEvent,
    FusionEvent,
    IntentEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)


def fold(events: Iterable[StreamEvent]) -> Answer:
    """Build the answer from stage events alone; a `CompleteEvent` among them is not looked into.

    Raises ValueError when the stream has no intent or no context event: it broke off, and there is no answer.
    """
    fields: dict[str, Any] = {}
    timings: dict[str, float] = {}
    lost: list[Any] = []
    for event in events:
        if isinstance(event, CompleteEvent) or not hasattr(event, "took_ms"):
            continue
        timings[event.stage] = event.took_ms
        timings["total"] = event.elapsed_ms
        lost.extend(event.lost)
        fields.update(_fields(event))
    if "question" not in fields or "context" not in fields:
        msg = "the stream broke off before its answer was complete"
        raise ValueError(msg)
    stale = bool(fields.get("stale"))
    return Answer(**fields, lost=tuple(lost), degraded=bool(lost), complete=not lost and not stale, timings_ms=timings)


def _fields(event: StreamEvent) -> dict[str, Any]:
    match event:
        case IntentEvent():
            return {
                "question": event.question,
                "tenant": event.tenant,
                "principal": event.principal,
                "budget_tokens": event.budget_tokens,
                "as_of": event.as_of,
                "intent": event.intent,
            }
        case EntitiesEvent():
            return {"entities": event.entities}
        case WeightsEvent():
            return {"scope_weights": event.scope_weights, "watermarks": event.watermarks, "stale": event.stale}
        case FusionEvent():
            return {"results": event.results, "low_confidence": event.low_confidence, "notes": event.notes}
        case ConflictsEvent():
            return {"conflicts": event.conflicts}
        case StructuredEvent():
            return {"structured": event.structured}
        case ContextEvent():
            return {"context": event.context, "context_tokens": event.context_tokens, "citations": event.citations}
        case SearchEvent():
            return {}
    return {}
