"""``cortex ask``."""

import sys
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from compose.cli import exits
from compose.cli.client import Client, UnreachableError
from compose.cli.render import show_answer, tell_problem
from schemas.answers import Answer
from schemas.stream import (
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EntitiesEvent,
    ErrorEvent,
    FusionEvent,
    IntentEvent,
    KeywordEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)

_EVENT: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)


@dataclass(frozen=True)
class Asking:
    """The question with its options, as typed."""

    question: str
    principal: str | None = None
    scopes: tuple[str, ...] = ()
    as_of: str | None = None
    limit: int = 5
    budget: int = 1_500
    superseded: bool = False
    explain: bool = False

    def body(self) -> dict[str, Any]:
        """Return the request's JSON."""
        body: dict[str, Any] = {
            "q": self.question,
            "limit": self.limit,
            "budget_tokens": self.budget,
            "explain": self.explain,
            "include_superseded": self.superseded,
        }
        optional = {"principal": self.principal, "scopes": list(self.scopes) or None, "as_of": self.as_of}
        return body | {key: value for key, value in optional.items() if value is not None}


def run_ask(asking: Asking, *, context: bool, url: str, token: str | None, tenant: str, as_json: bool) -> int:
    """Ask, show the stages, print the answer; return the exit code."""
    console = Console()
    answer: Answer | None = None
    with Client(url, token, tenant) as client:
        for message in client.ask(asking.body()):
            event = _EVENT.validate_json(message.data)
            if isinstance(event, ErrorEvent):
                tell_problem(event.problem)
                return exits.REFUSED
            if isinstance(event, CompleteEvent):
                answer = event.answer
            elif not (as_json or context):
                _show_stage(console, event)
    if answer is None:
        msg = "the service went away before the answer was complete; ask again"
        raise UnreachableError(msg)
    if as_json:
        print(answer.model_dump_json())
    elif context:
        sys.stdout.write(answer.context + "\n")
    else:
        show_answer(console, answer, explain=asking.explain)
    return exits.NOT_KNOWN if answer.low_confidence or not answer.results else exits.OK


def _show_stage(console: Console, event: StreamEvent) -> None:
    """Print one line a stage: its time, and what it found."""
    took = getattr(event, "took_ms", None)
    if took is None:
        return
    console.print(Text.assemble((f"{took:7.1f} ms  ", "dim"), (f"{event.stage:<11}", "green"), _summary(event)))


def _summary(event: StreamEvent) -> str:  # noqa: PLR0911 - a table of what each stage says
    match event:
        case IntentEvent(intent=intent):
            return f"{intent.purpose.value} ({intent.confidence:.0%})"
        case EntitiesEvent(entities=entities):
            return ", ".join(f"{entity.name}" for entity in entities) or "none named"
        case WeightsEvent(scope_weights=weights):
            best = sorted(weights, key=lambda weight: (-weight.weight, weight.scope))[:3]
            return f"{len(weights)} scopes: " + ", ".join(f"{weight.scope} {weight.weight:.2f}" for weight in best)
        case KeywordEvent(hits=hits):
            return f"{len(hits)} early hits"
        case SearchEvent(arms=arms):
            return ", ".join(f"{arm} {count}" for arm, count in sorted(arms.items()))
        case FusionEvent(results=results):
            return f"{len(results)} results"
        case ConflictsEvent(conflicts=conflicts):
            return f"{len(conflicts)} contradictions" if conflicts else "no contradictions"
        case StructuredEvent(structured=structured):
            return ", ".join(item.kind for item in structured)
        case ContextEvent(context_tokens=tokens, citations=citations):
            return f"{tokens} tokens, {len(citations)} citations"
        case _:
            return ""
