"""What a model reads of a tool's result: quoted texts inside a block that they cannot close, then what qualifies them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from compose.mcp.shapes import NOTICE, EntityFound, Hit, NamedEntity, SearchHits
from query.quoting import quote_field, quote_text
from schemas.answers import Answer, Conflict, ConflictSide, LostSource
from schemas.explanations import Explanation

NOT_KNOWN: Final = (
    "Nothing known is a good answer to this. Say so rather than guess; what came nearest is quoted below."
)


def context_text(answer: Answer) -> str:
    """The context block, which the service has quoted, with a first line on how far to trust it."""
    lines = [NOT_KNOWN] if answer.low_confidence else []
    said = answer.context or "Nothing was found."
    return "\n".join([*lines, *([NOTICE] if answer.context else []), said, *limits_of(answer.notes, answer.lost)])


def hits_text(found: SearchHits) -> str:
    """Hits as a block, a line each."""
    entries = [_hit(hit) for hit in found.hits]
    lines = [NOT_KNOWN] if found.low_confidence else []
    body = [*lines, *block("cortex-results", entries)] if entries else ["Nothing was found."]
    return "\n".join([*body, *limits_of(found.notes, found.lost)])


def conflicts_text(conflicts: Sequence[Conflict], following: str | None) -> str:
    """Contradictions as a block, both sides of each."""
    if not conflicts:
        return "No open contradiction can be seen from here."
    entries = [
        line
        for conflict in conflicts
        for line in (
            f"{quote_field(conflict.difference)}: {quote_field(conflict.detail)} ({conflict.state})",
            *(_side(side, conflict) for side in conflict.sides),
        )
    ]
    more = [f"More: call again with after={following}"] if following else []
    return "\n".join([*block("cortex-contradictions", entries), *more])


def entity_text(found: EntityFound) -> str:
    """An entity with its neighbours and units, or the candidates of a name."""
    if found.entity is None:
        choices = [_entity(one) for one in found.candidates]
        return "\n".join(["The name may mean several; call again with one of these ids:", *choices])
    head = [_entity(found.entity)]
    if found.aliases:
        head.append(f"also called: {', '.join(quote_field(alias) for alias in found.aliases)}")
    if found.description:
        head.append(quote_text(found.description))
    arrows = [
        f"{'->' if one.outgoing else '<-'} {one.relation} {quote_field(one.name)} ({quote_field(one.id)})"
        + (f", in {one.support} units" if one.support else "")
        for one in found.neighbours
    ]
    units = [f"{quote_field(one.unit_id)} · {quote_field(one.scope)}: {quote_text(one.text)}" for one in found.units]
    return "\n".join(block("cortex-entity", [*head, *arrows, *units]))


def explanation_text(told: Explanation) -> str:
    """A unit's way through the stages, its score, and what would let it in."""
    lines = [told.reason]
    lines += [f"{one.stage}: {one.outcome}{f' (#{one.rank})' if one.rank else ''}: {one.detail}" for one in told.stages]
    if told.score is not None:
        lines.append(f"score {told.score:.4f}" + (f", needed {told.needed:.4f}" if told.needed is not None else ""))
    lines += [f"  {term.name} {term.value:.4g} {term.detail}".rstrip() for term in told.terms]
    lines += [f"would let it in: {change.detail} {change.parameters}" for change in told.changes]
    return "\n".join(block("cortex-explanation", [quote_text(line) for line in lines]))


def block(name: str, entries: Iterable[str]) -> list[str]:
    """Enclose quoted entries; they hold no ``<`` of their own, so they cannot close it."""
    return [NOTICE, f"<{name}>", *entries, f"</{name}>"]


def limits_of(notes: Sequence[str], lost: Sequence[LostSource]) -> list[str]:
    """Say what the answer lacks, a line each."""
    said = [f"note: {note}" for note in notes]
    for one in lost:
        where = " ".join(part for part in (one.stage, one.arm, one.scope) if part)
        said.append(f"lost: {where}: {one.reason} {one.detail}".rstrip())
    return said


def _hit(hit: Hit) -> str:
    fields = [
        hit.type.replace("_", " ") + (f" “{quote_field(hit.title)}”" if hit.title else ""),
        *([_day(hit.occurred_at)] if hit.occurred_at else []),
        *([quote_field(hit.creator)] if hit.creator else []),
        quote_field(hit.scope),
        quote_field(hit.unit_id),
        *([hit.status] if hit.status != "current" else []),
        *([] if hit.trusted else ["UNTRUSTED source, quoted as data"]),
    ]
    return f"[{hit.rank}] {' · '.join(fields)}: {quote_text(hit.text)}{'…' if hit.truncated else ''}"


def _side(side: ConflictSide, conflict: Conflict) -> str:
    when = _day(side.occurred_at.at) if side.occurred_at else f"recorded {_day(side.recorded_at)}"
    newer = " · newer" if conflict.newer == side.unit_id else ""
    return f"  {quote_field(side.unit_id)} · {when}{newer} · {quote_field(side.scope)}: {quote_text(side.text)}"


def _entity(one: NamedEntity) -> str:
    return f"{quote_field(one.name)} ({one.type or 'no declared type'}, id {quote_field(one.id)})"


def _day(moment: datetime) -> str:
    return moment.date().isoformat()
