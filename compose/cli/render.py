"""What the terminal shows: answers, conflicts and problems."""

import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from schemas.answers import (
    Answer,
    ChartResult,
    Conflict,
    GraphResult,
    Result,
    StructuredResult,
    TableResult,
    TimelineResult,
    UnsupportedFormatResult,
)
from schemas.problems import Problem
from schemas.times import Moment


def tell_problem(problem: Problem) -> None:
    """Write a problem to standard error: what, why, and each field with the limit that it met."""
    sys.stderr.write(f"{problem.title}: {problem.detail}\n")
    for fault in problem.errors:
        limit = f" (limit: {fault.limit})" if fault.limit else ""
        sys.stderr.write(f"  {fault.field}: {fault.message}{limit}\n")


def day(moment: Moment | None) -> str:
    """Write a moment as its UTC day, or say that it is not known."""
    return moment.at.date().isoformat() if moment else "undated"


def show_answer(console: Console, answer: Answer, *, explain: bool) -> None:
    """Print results with citations, then conflicts side by side, then what qualifies the answer."""
    console.print()
    if not answer.results:
        console.print("[bold]Nothing is known about this.[/bold]" if answer.complete else "[bold]No result.[/bold]")
    elif answer.low_confidence:
        console.print("[bold yellow]Nothing here is a good answer; this came nearest:[/bold yellow]")
    for result in answer.results:
        _show_result(console, result, explain=explain)
    for shape in answer.structured:
        _show_shape(console, shape)
    if answer.conflicts:
        many = "s" if len(answer.conflicts) > 1 else ""
        console.print(f"\n[bold red]{len(answer.conflicts)} contradiction{many}[/bold red]")
        for conflict in answer.conflicts:
            _show_conflict(console, conflict)
    for line in qualifications(answer):
        console.print(f"[yellow]{escape(line)}[/yellow]")


def qualifications(answer: Answer) -> list[str]:
    """Say everything that limits the answer, a line each."""
    lines = [f"note: {note}" for note in answer.notes]
    for lost in answer.lost:
        where = " ".join(part for part in (lost.arm, lost.scope) if part)
        lines.append(f"lost: {lost.stage} {where}: {lost.reason} {lost.detail}".rstrip())
    if answer.stale:
        lines.append("stale: the write that you waited for is not searchable yet")
    if answer.degraded and not answer.lost:
        lines.append("degraded: a part that only speeds things up is missing")
    return lines


def _show_result(console: Console, result: Result, *, explain: bool) -> None:
    head = Text(f"{result.citation} ", style="bold cyan")
    head.append(result.title or result.type.value.replace("_", " "), style="bold")
    who = f" · {result.creator}" if result.creator else ""
    head.append(f"  {day(result.occurred_at)}{who} · {result.scope} · {result.unit_id}", style="dim")
    console.print(head)
    console.print(Text(f"    {result.text}"))
    marks = []
    if result.corroborations > 1:
        marks.append(f"{result.corroborations} sources")
    if result.status != "current":
        marks.append(result.status)
    if not result.trusted:
        marks.append("untrusted source: read as data")
    if marks:
        console.print(Text(f"    ({', '.join(marks)})", style="yellow"))
    if explain:
        terms = "  ".join(f"{term.name}={term.value:.4g}" for term in result.terms)
        arms = "  ".join(f"{arm} #{rank}" for arm, rank in sorted(result.arms.items()))
        console.print(Text(f"    score {result.score:.4f}: {terms}   [{arms}]", style="dim"))


def _show_shape(console: Console, shape: StructuredResult) -> None:
    """Print what was asked for as a table, chart, timeline or graph, as far as a terminal can."""
    if isinstance(shape, TableResult):
        table = Table(*(escape(column) for column in shape.columns), title=Text(shape.title))
        for row in shape.rows:
            table.add_row(*(Text(cell or "") for cell in row))
        console.print(table)
    elif isinstance(shape, ChartResult):
        largest = max((value for _, value in shape.series), default=0) or 1
        for label, value in shape.series:
            console.print(Text(f"  {label:<24.24} {'█' * round(32 * value / largest)} {value:g}"))
    elif isinstance(shape, TimelineResult):
        for event in shape.events:
            console.print(Text(f"  {event.at.date().isoformat()}  {event.text}  {event.unit_id}"))
    elif isinstance(shape, GraphResult):
        names = {node.id: node.name for node in shape.nodes}
        console.print(f"\n[bold]{escape(shape.title)}[/bold]")
        for edge in shape.edges:
            relation = edge.relation.replace("_", " ")
            console.print(Text(f"  {names[edge.source]} · {relation} · {names[edge.target]}"))
    elif isinstance(shape, UnsupportedFormatResult):
        console.print(f"[yellow]{escape(shape.requested)}: {escape(shape.reason)}; shown as {shape.fallback}[/yellow]")


def _show_conflict(console: Console, conflict: Conflict) -> None:
    table = Table(show_header=False, expand=True, padding=(0, 1))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    cells = []
    for side in conflict.sides:
        newer = " (newer)" if side.unit_id == conflict.newer else ""
        cells.append(Text(f"{side.text}\n{day(side.occurred_at)}{newer} · {side.scope} · {side.unit_id}"))
    table.add_row(*cells)
    console.print(table)
    console.print(Text(f"  differs in {conflict.difference}: {conflict.detail} · {conflict.state}", style="red"))
