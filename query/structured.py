"""Structured results: the shapes that were asked for, made of stored evidence alone."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from query.gate import Verdict
from schemas.answers import (
    ChartResult,
    EntityMatch,
    GraphEdge,
    GraphNode,
    GraphResult,
    LowConfidenceResult,
    Result,
    StructuredResult,
    TableResult,
    TimelineEvent,
    TimelineResult,
    UnsupportedFormatResult,
)
from schemas.intent import AnswerFormat, Intent
from shared.graph import GraphSnapshot
from shared.text import query_terms, terms

NEIGHBOURS: Final = 12
BARS: Final = 20
CELL_CHARS: Final = 300

_BY: Final[tuple[tuple[re.Pattern[str], str, Callable[[Result], str | None]], ...]] = (
    (
        re.compile(r"(?<!\w)(?:by|per|each|which|across) (?:team|scope|department)s?(?!\w)"),
        "scope",
        lambda result: result.scope,
    ),
    (
        re.compile(r"(?<!\w)(?:by|per|each|which) (?:person|people|author|creator|colleague)s?(?!\w)"),
        "creator",
        lambda result: result.creator,
    ),
    (re.compile(r"(?<!\w)(?:by|per|each|which|every) sources?(?!\w)"), "source", lambda result: result.source),
    (re.compile(r"(?<!\w)(?:by|per|each|every) (?:day|date)s?(?!\w)"), "day", lambda result: _cut(result, 10)),
    (
        re.compile(r"(?<!\w)(?:(?:by|per|each|every) months?|monthly|over time)(?!\w)"),
        "month",
        lambda result: _cut(result, 7),
    ),
    (re.compile(r"(?<!\w)(?:(?:by|per|each|every) years?|yearly)(?!\w)"), "year", lambda result: _cut(result, 4)),
)
_TIMES: Final = frozenset({"day", "month", "year"})


def structure(
    question: str,
    intent: Intent,
    results: Sequence[Result],
    *,
    verdict: Verdict,
    graph: GraphSnapshot,
    entities: Sequence[EntityMatch],
    scopes: frozenset[str],
    at: datetime,
) -> tuple[StructuredResult, ...]:
    """Return the asked-for shape, with the reason where it cannot be made, and whether the answer is weak.

    Nothing asked for and nothing weak: empty. ``scopes`` bound what the graph may show. Horizon and comparison narrow rows.
    """
    made: list[StructuredResult] = []
    if verdict.low:
        made.append(
            LowConfidenceResult(
                reason=verdict.reason, best_similarity=min(1.0, verdict.similarity), coverage=verdict.coverage
            )
        )
    rows = _within_horizon(results, intent.horizon_days, at)
    title = f"Stored knowledge on: {' '.join(question.split())[:120]}"
    match intent.format:
        case AnswerFormat.TABLE:
            made.append(_table(title, rows, intent.comparison_targets))
        case AnswerFormat.CHART:
            made.append(_chart(question, rows))
        case AnswerFormat.TIMELINE:
            made.append(_timeline(title, rows))
        case AnswerFormat.GRAPH:
            made.extend(_graph(title, entities, graph, scopes, rows))
        case AnswerFormat.UNSUPPORTED:
            made.extend(_unsupported(title, intent, question, rows))
        case AnswerFormat.DEFAULT:
            pass
    return tuple(made)


def _within_horizon(results: Sequence[Result], days: int | None, at: datetime) -> list[Result]:
    """Results that occurred in the asked-for span; all when none was asked for. Undated ones stay: they may belong."""
    if days is None:
        return list(results)
    since = at - min(timedelta(days=days), at - datetime.min.replace(tzinfo=UTC))  # the calendar begins with year 1
    return [result for result in results if result.occurred_at is None or result.occurred_at.end > since]


def _table(title: str, results: Sequence[Result], targets: Sequence[str]) -> TableResult:
    compared = bool(targets)
    head = ("about",) if compared else ()
    rows = []
    for result in results:
        told = _first_line(result.text)
        about = (", ".join(target for target in targets if _names(result, target)) or None,) if compared else ()
        rows.append((*about, _date(result), str(result.type), told, result.scope, result.source, result.unit_id))
    return TableResult(
        title=title,
        columns=(*head, "date", "type", "text", "scope", "source", "unit"),
        rows=tuple(rows),
        unit_ids=tuple(result.unit_id for result in results),
    )


def _names(result: Result, target: str) -> bool:
    wanted = set(query_terms(target))
    return bool(wanted) and wanted <= set(terms(f"{result.title or ''} {result.text}"))


def _chart(question: str, results: Sequence[Result]) -> ChartResult:
    folded = question.casefold()
    name, group = next(
        ((name, group) for pattern, name, group in _BY if pattern.search(folded)),
        ("type", lambda result: str(result.type)),
    )
    units: dict[str, list[str]] = defaultdict(list)
    for result in results:
        units[group(result) or "unknown"].append(result.unit_id)
    counts = Counter({bar: len(ids) for bar, ids in units.items()})
    by_time = name in _TIMES
    order = sorted(counts, key=lambda bar: (0 if by_time else -counts[bar], bar))[:BARS]
    return ChartResult(
        subtype="line" if by_time else "ranked-bar",
        title=f"Found units by {name}",
        series=tuple((bar, float(counts[bar])) for bar in order),
        unit_ids=tuple(tuple(units[bar]) for bar in order),
    )


def _timeline(title: str, results: Sequence[Result]) -> TimelineResult:
    dated = [
        TimelineEvent(
            at=result.occurred_at.at,
            precision=result.occurred_at.precision,
            text=_first_line(result.text),
            unit_id=result.unit_id,
        )
        for result in results
        if result.occurred_at is not None
    ]
    dated.sort(key=lambda event: (event.at, event.unit_id))
    return TimelineResult(
        title=title,
        events=tuple(dated),
        undated=tuple(result.unit_id for result in results if result.occurred_at is None),
    )


def _graph(
    title: str,
    entities: Sequence[EntityMatch],
    graph: GraphSnapshot,
    scopes: frozenset[str],
    results: Sequence[Result],
) -> tuple[StructuredResult, ...]:
    centres = sorted({entity for match in entities for entity in (match.candidates or (match.entity_id,))})
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str, str], GraphEdge] = {}
    for centre in centres:
        name, kind = graph.name_of(centre)
        nodes[centre] = GraphNode(id=centre, name=name, type=kind)
        for near in graph.neighbours(centre, scopes, NEIGHBOURS):
            nodes.setdefault(near.entity_id, GraphNode(id=near.entity_id, name=near.name, type=near.type))
            ends = (centre, near.entity_id) if near.outgoing else (near.entity_id, centre)
            edges[ends[0], near.relation, ends[1]] = GraphEdge(
                source=ends[0], relation=near.relation, target=ends[1], weight=near.weight, unit_ids=near.unit_ids
            )
    if edges:
        return (
            GraphResult(
                title=title,
                nodes=tuple(nodes[key] for key in sorted(nodes)),
                edges=tuple(edges[key] for key in sorted(edges)),
            ),
        )
    reason = "no entity of the question has known relations" if centres else "the question names no known entity"
    refusal = UnsupportedFormatResult(requested="graph", reason=reason, fallback="table")
    return refusal, _table(title, results, ())


def _unsupported(title: str, intent: Intent, question: str, results: Sequence[Result]) -> tuple[StructuredResult, ...]:
    requested = intent.requested_format or "unknown"
    if re.search(r"gantt|calendar", requested):
        reason = f"a {requested} is not made here; the dated units are a timeline"
        return UnsupportedFormatResult(requested=requested, reason=reason, fallback="timeline"), _timeline(
            title, results
        )
    if re.search(r"chart|plot|tornado|pie|histogram|funnel|gauge|heat ?map|cloud", requested):
        reason = (
            f"what is stored holds no numbers that a {requested} could show honestly; the counts are a ranked bar chart"
        )
        return UnsupportedFormatResult(requested=requested, reason=reason, fallback="chart"), _chart(question, results)
    if re.search(r"csv|tsv|excel|xlsx|sheet|json|yaml|xml|board", requested):
        reason = f"{requested} is not written here; the same rows are a table"
        return UnsupportedFormatResult(requested=requested, reason=reason, fallback="table"), _table(title, results, ())
    reason = f"{requested} is not a form that can be made from stored evidence"
    return (UnsupportedFormatResult(requested=requested, reason=reason, fallback="default"),)


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CELL_CHARS else line[: CELL_CHARS - 1].rstrip() + "…"


def _date(result: Result) -> str | None:
    return None if result.occurred_at is None else result.occurred_at.at.date().isoformat()


def _cut(result: Result, chars: int) -> str | None:
    day = _date(result)
    return None if day is None else day[:chars]
