"""``cortex explain`` and ``cortex trace``."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from compose.cli import exits
from compose.cli.client import Client
from schemas.explanations import Explanation, Trace

STYLES: Final[Mapping[str, str]] = {
    "passed": "green", "rose": "green", "done": "green", "sank": "yellow", "missed": "yellow", "waiting": "yellow",
    "withheld": "yellow", "lost": "red", "fell": "red", "failed": "red",
}  # fmt: skip


def run_explain(asked: Mapping[str, Any], *, url: str, token: str | None, tenant: str, as_json: bool) -> int:
    """Print the unit's way through the question; exit 0 when the answer has it, 5 when not."""
    with Client(url, token, tenant) as client:
        found = client.get("/v1/explain", {name: value for name, value in asked.items() if value is not None})
    explanation = Explanation.model_validate(found)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _show_explanation(Console(), explanation)
    return exits.OK if explanation.answered else exits.NOT_KNOWN


def run_trace(event_id: str, source: str | None, *, url: str, token: str | None, tenant: str, as_json: bool) -> int:
    """Print the event's way; exit 0 unless it failed."""
    with Client(url, token, tenant) as client:
        found = client.get(f"/v1/trace/{quote(event_id)}", {"source": source} if source else None)
    traced = Trace.model_validate(found)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _show_trace(Console(), traced)
    return exits.REFUSED if traced.state == "failed" else exits.OK


def _show_explanation(console: Console, explanation: Explanation) -> None:
    console.print(Text(f"{explanation.unit_id}: {explanation.reason}", style="bold"))
    for stage in explanation.stages:
        place = f" #{stage.rank}" if stage.rank else ""
        _line(console, stage.stage, stage.outcome, f"{stage.detail}{place}")
    if explanation.score is not None:
        terms = "  ".join(f"{term.name}={term.value:.4g}" for term in explanation.terms)
        needed = f", needed {explanation.needed:.4f}" if explanation.needed is not None else ""
        console.print(Text(f"score {explanation.score:.4f}{needed}: {terms}", style="dim"))
    for change in explanation.changes:
        parameters = ", ".join(f"{name}={_shown(value)}" for name, value in change.parameters.items())
        console.print(
            Text.assemble(
                ("it comes in with ", "bold"), (parameters, "cyan"), f"  ({change.detail}; place {change.rank})"
            )
        )
    if explanation.low_confidence:
        console.print(Text("the answer itself says that nothing good enough is known", style="yellow"))
    for lost in explanation.lost:
        console.print(
            Text(f"lost: {lost.stage} {lost.arm or ''}: {lost.reason} {lost.detail}".rstrip(), style="yellow")
        )


def _show_trace(console: Console, traced: Trace) -> None:
    console.print(Text(f"{traced.id} ({traced.type}, {traced.source}): {traced.state}", style="bold"))
    for step in traced.steps:
        at = f"{step.at.isoformat(timespec='milliseconds')}  " if step.at else ""
        _line(console, step.step, step.outcome, f"{at}{step.detail}")
    if traced.letter is not None:
        console.print(Text(f"dead letter {traced.letter.id}: cortex status shows it, its bytes are kept", style="red"))


def _line(console: Console, name: str, outcome: str, detail: str) -> None:
    console.print(Text.assemble((f"  {name:<15}", ""), (f"{outcome:<9}", STYLES[outcome]), detail))


def _shown(value: Any) -> str:
    return "(left out)" if value is None else json.dumps(value, ensure_ascii=False)
