"""The context block: what was found, quoted, cited and within the token budget, ready for a person or an agent.

<cortex-context purpose="debugging" results="2" sources="2" conflicts="1" as-of="2026-03-01T09:00:00Z">
[1] error fix · 2026-02-11 · ana · team/platform · wiki: The worker leaks …
[2] decision · 2025-12-02 · team/platform · git: …
Conflicts:
[1] and [2] disagree (number): …; newer: [1]
</cortex-context>
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from query.quoting import quote_field, quote_text
from schemas.answers import Citation, Conflict, ConflictSide, Result
from schemas.times import Moment
from shared.tokens import count_tokens, trim_to_tokens

CLOSE: Final = "</cortex-context>"
HEADER_SHARE: Final = 0.35
"""A heading that would take more than this of the budget is replaced by a bare one."""
CONFLICT_SHARE: Final = 0.4
"""Most of the budget that conflicts may claim before any entry is placed; what is left over is theirs as well."""
TIES_SHARE: Final = 0.2
"""Most of the budget that sentences about declared relations may claim."""
ENTRY_SHARE: Final = 0.5
"""One entry takes at most half of the room for entries while others wait: an oversized unit is trimmed, not the packing."""
LEAST_TEXT: Final = 8
"""Fewer tokens of a text than this say nothing: the entry is left out."""
CHARS_A_TOKEN: Final = 8
"""No text has more characters a token than this by `count_tokens` (words of five letters and a space have six), so that
what is longer need not be counted to be known not to fit."""
SIDE_TOKENS: Final = 60
"""Of each side of a conflict this much is quoted; the whole text is in the entry or behind the citation."""
SOURCE_CHARS: Final = 60


@dataclass(frozen=True)
class Block:
    """The context with its size by `count_tokens` and a citation for each quoted line."""

    text: str
    tokens: int
    citations: tuple[Citation, ...]


@dataclass(frozen=True)
class _Piece:
    text: str
    tokens: int
    citations: tuple[Citation, ...]
    trimmed: bool = False


def format_context(
    results: Sequence[Result],
    conflicts: Sequence[Conflict],
    *,
    budget: int,
    purpose: str,
    as_of: datetime,
    warnings: Sequence[str] = (),
    ties: Sequence[str] = (),
) -> Block:
    """Pack results (best first) and conflicts (whole or not at all) into one block of at most ``budget`` tokens.

    ``ties`` are sentences about declared relations; they stand before the results and take at most a fifth of the room.

    An oversized unit is trimmed and its citation's ``end`` says where; what does not fit at all is left out and the next
    is tried. Where not even the empty block fits, the text is empty.
    """
    header = _header(results, conflicts, budget=budget, purpose=purpose, as_of=as_of, warnings=warnings)
    room = budget - count_tokens(f"{header}\n{CLOSE}")
    if room < 0:
        return Block("", 0, ())
    declared = _fit_ties(ties, int(room * TIES_SHARE) if results else room)
    room -= sum(piece.tokens for piece in declared)
    labels = _labels(results, conflicts)
    disputes = _fit_conflicts(conflicts, labels, min(room, int(room * CONFLICT_SHARE)) if results else room)
    entries = _fit_entries(results, room - sum(piece.tokens for piece in disputes))
    left = room - sum(piece.tokens for piece in (*disputes, *entries))
    disputes += _fit_conflicts(conflicts[len(disputes) :], labels, left, heading=not disputes)
    return _assemble(header, [*declared, *entries], disputes, budget)


def _fit_ties(ties: Sequence[str], room: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for tie in ties:
        tokens = count_tokens(f"- {tie}\n")
        if tokens > room:
            break
        room -= tokens
        pieces.append(_Piece(f"- {tie}", tokens, ()))
    return pieces


def _assemble(header: str, entries: list[_Piece], disputes: list[_Piece], budget: int) -> Block:
    """Join, and drop from the end while the joined whole counts more than its parts did."""
    while True:
        parts = [header, *(piece.text for piece in entries), *(piece.text for piece in disputes), CLOSE]
        text = "\n".join(parts)
        tokens = count_tokens(text)
        if tokens <= budget or not (entries or disputes):
            break
        (entries if len(entries) > 1 or not disputes else disputes).pop()
    citations: dict[str, Citation] = {}
    for piece in (*entries, *disputes):
        for citation in piece.citations:
            citations.setdefault(citation.label, citation)
    return Block(text, tokens, tuple(citations.values()))


def _header(
    results: Sequence[Result],
    conflicts: Sequence[Conflict],
    *,
    budget: int,
    purpose: str,
    as_of: datetime,
    warnings: Sequence[str],
) -> str:
    sources = len({result.source for result in results})
    instant = as_of.replace(microsecond=0).isoformat().replace("+00:00", "Z")
    counts = f'results="{len(results)}" sources="{sources}" conflicts="{len(conflicts)}"'
    said = f' warnings="{quote_field("; ".join(warnings))}"' if warnings else ""
    full = f'<cortex-context purpose="{purpose}" {counts} as-of="{instant}"{said}>'
    for header in (full, f"<cortex-context{said}>", "<cortex-context>"):
        if count_tokens(header) <= budget * HEADER_SHARE:
            return header
    return "<cortex-context>"


def _labels(results: Sequence[Result], conflicts: Sequence[Conflict]) -> dict[str, str]:
    """Labels of results, and after them of conflict sides that are no result."""
    labels = {result.unit_id: result.citation for result in results}
    for result in results:
        for other in result.also:
            labels.setdefault(other, result.citation)
    for conflict in conflicts:
        for side in conflict.sides:
            labels.setdefault(side.unit_id, f"[{len(set(labels.values())) + 1}]")
    return labels


def _fit_entries(results: Sequence[Result], room: int) -> list[_Piece]:
    placed: list[_Piece | None] = [None] * len(results)
    left = room
    for place, result in enumerate(results):
        waiting = len(results) - place - 1
        cap = left if waiting == 0 else max(int(left * ENTRY_SHARE), left // (waiting + 1))
        piece = _entry(result, cap)
        if piece is not None:
            placed[place] = piece
            left -= piece.tokens
    for place, piece in enumerate(placed):  # what is left over goes back to whoever was cut, best first
        if piece is not None and piece.trimmed and left >= LEAST_TEXT:
            longer = _entry(results[place], piece.tokens + left)
            if longer is not None and longer.tokens > piece.tokens:
                placed[place] = longer
                left -= longer.tokens - piece.tokens
    return [piece for piece in placed if piece is not None]


def _entry(result: Result, cap: int) -> _Piece | None:
    """One result as an entry of at most ``cap`` tokens; None where too little of its text would fit."""
    heading = f"{result.citation} {_heading(result)}: "
    if len(result.text) <= cap * CHARS_A_TOKEN:
        whole = heading + quote_text(result.text)
        tokens = count_tokens(f"{whole}\n")
        if tokens <= cap:
            return _Piece(whole, tokens, (_citation(result, len(result.text)),))
    short, end = _trimmed(result.text, cap - count_tokens(f"{heading}\n"))
    if not short:
        return None
    text = heading + short
    return _Piece(text, count_tokens(f"{text}\n"), (_citation(result, end),), trimmed=True)


def _trimmed(text: str, room: int) -> tuple[str, int]:
    """Return the quoted beginning of a text within ``room`` tokens, and where in the text it ends; ("", 0): too little."""
    if room < LEAST_TEXT:
        return "", 0
    budget = room
    head = text[: room * CHARS_A_TOKEN]
    while budget >= LEAST_TEXT:
        kept = trim_to_tokens(head, budget)
        end = len(head) if kept == head else len(kept.removesuffix("…").rstrip())
        quoted = quote_text(text[:end]) + ("" if end == len(text) else "…")
        tokens = count_tokens(quoted)
        if end and tokens <= room:
            return quoted, end
        budget -= max(1, tokens - room)  # quoting adds characters: give back what they cost
    return "", 0


def _heading(result: Result) -> str:
    fields = [
        str(result.type).replace("_", " ")
        if not result.title
        else f"{str(result.type).replace('_', ' ')} “{quote_field(result.title)}”",
        *(day for day in [_day(result.occurred_at)] if day),
        *(quote_field(name) for name in [result.creator] if name),
        quote_field(result.scope),
        _source(result.source, result.source_ref),
        *([] if result.status == "current" else [_status(result)]),
        *([] if result.corroborations < 2 else [f"{result.corroborations} sources"]),
        *([] if result.trusted else ["UNTRUSTED source, quoted as data"]),
    ]
    return " · ".join(fields)


def _status(result: Result) -> str:
    return f"superseded by {quote_field(result.superseded_by)}" if result.superseded_by else result.status


def _source(source: str, ref: str | None) -> str:
    named = quote_field(source)
    return named if not ref or ref == source else f"{named} ({quote_field(ref)[:SOURCE_CHARS]})"


def _day(moment: Moment | None) -> str:
    return "" if moment is None else moment.at.date().isoformat()


def _citation(result: Result, end: int) -> Citation:
    return Citation(
        label=result.citation,
        unit_id=result.unit_id,
        scope=result.scope,
        source=result.source,
        occurred_at=result.occurred_at,
        start=0,
        end=end,
    )


def _fit_conflicts(
    conflicts: Sequence[Conflict], labels: dict[str, str], room: int, *, heading: bool = True
) -> list[_Piece]:
    placed: list[_Piece] = []
    left = room
    for conflict in conflicts:
        piece = _dispute(conflict, labels, heading=heading and not placed)
        if piece.tokens > left:
            break
        placed.append(piece)
        left -= piece.tokens
    return placed


def _dispute(conflict: Conflict, labels: dict[str, str], *, heading: bool) -> _Piece:
    first, second = conflict.sides
    newer = f"; newer: {labels[conflict.newer]}" if conflict.newer in labels and conflict.newer else ""
    about = f"{conflict.difference}: {quote_field(conflict.detail)}" if conflict.detail else conflict.difference
    quotes = [_quoted_side(side, labels[side.unit_id]) for side in (first, second)]
    lines = [
        *(["Conflicts:"] if heading else []),
        f"{labels[first.unit_id]} and {labels[second.unit_id]} disagree ({about}){newer}",
        *(line for line, _ in quotes),
    ]
    text = "\n".join(lines)
    return _Piece(text, count_tokens(f"{text}\n"), tuple(citation for _, citation in quotes))


def _quoted_side(side: ConflictSide, label: str) -> tuple[str, Citation]:
    quoted, end = _trimmed(side.text, SIDE_TOKENS)
    if not quoted:
        quoted, end = "…", 0
    day = _day(side.occurred_at) or f"recorded {side.recorded_at.date().isoformat()}"
    fields = [
        day,
        *(quote_field(name) for name in [side.creator] if name),
        quote_field(side.scope),
        quote_field(side.source),
    ]
    citation = Citation(
        label=label, unit_id=side.unit_id, scope=side.scope, source=side.source, occurred_at=side.occurred_at, end=end
    )
    return f"  {label} {' · '.join(fields)}: {quoted}", citation
