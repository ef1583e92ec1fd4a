"""What a live unit's objects hold: their ids, what they are found by, and what is read back of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from schemas.units import Unit
from shared.contributions import found_by
from shared.effects import Statement
from shared.passages import passage_id, passage_key
from shared.stores.weaviate.records import object_id
from shared.stores.weaviate.schema import UNKNOWN_FUTURE, UNKNOWN_PAST
from shared.stores.weaviate.table import Pair, Stored
from shared.validity import held

NUDGE = 2**10
"""Microseconds, or the least that makes another number of UNKNOWN_FUTURE, which travels as a double."""


ROW = (
    *("unit_id", "version", "chunk", "chunks", "superseded_from", "superseded_by", "leads", "words_digest"),
    *("document_id", "supersedes", "pid", "place"),
)


@dataclass(frozen=True)
class Row:
    """An object as it is there."""

    id: UUID
    unit_id: str
    version: str
    chunk: int
    chunks: int
    superseded: tuple[int | None, str | None]
    words: tuple[str, bool]
    found_by: frozenset[Pair]


def live_id(tenant: str, unit_id: str, chunk: int) -> UUID:
    """Return the id of a chunk's object."""
    return object_id("live", tenant, unit_id, chunk)


def place_of(unit: Unit, step: int = 0) -> tuple[str, ...]:
    """Return the place of a turn, or of the one so many steps on; nothing for what is no turn. Ids hold no white space."""
    if unit.turn is None:
        return ()
    return (f"{unit.scope.key} {unit.session_id} {unit.turn + step}",)


def pairs_of(unit: Unit, content_key: str | None) -> Iterable[Pair]:
    """Yield what finds a unit's objects and those that it has to do with: what either supersedes, equal texts, turns around."""
    yield "unit_id", unit.id
    yield "supersedes", unit.id
    if unit.supersedes is not None:
        yield "supersedes", unit.supersedes
        yield "unit_id", unit.supersedes
    yield "pid", passage_id(passage_key(unit, content_key or ""))
    for step in range(-2, 3):
        yield from (("place", place) for place in place_of(unit, step))


def passage_of(said: Statement) -> int:
    """Return the number of the passage that a live unit states."""
    assert said.unit is not None  # what is live has a body
    return passage_id(passage_key(said.unit, said.content_key or ""))


def row_of(one: Stored) -> Row:
    """Read an object with the properties `ROW`."""
    said = one.properties
    since = int(said["superseded_from"])
    return Row(
        id=one.id,
        unit_id=said["unit_id"],
        version=said["version"],
        chunk=int(said["chunk"]),
        chunks=int(said["chunks"]),
        superseded=(None if since == UNKNOWN_FUTURE else since, said["superseded_by"] or None),
        words=(said["words_digest"] or "", bool(said["leads"])),
        found_by=frozenset(
            (name, int(said[name]) if name == "pid" else said[name])
            for name in ("unit_id", "document_id", "supersedes", "pid", "place")
            if said[name] not in {"", None}
        ),
    )


def properties_of(said: Statement, unit: Unit, version: str) -> dict[str, Any]:
    """Return what is filtered by, the same on every chunk."""
    times = held(unit, said.recorded_at)
    keys = found_by(unit, said.mentions)
    return {
        "unit_id": unit.id,
        "version": version,
        "document_id": unit.document_id or "",
        "scope": unit.scope.key,
        "type": unit.type.value,
        "sensitivity": unit.sensitivity.value if unit.sensitivity else "",
        "source": said.rank.source,
        "supersedes": unit.supersedes or "",
        "place": "".join(place_of(unit)),
        "subjects": [key for key, is_subject in keys.items() if is_subject],
        "keys": list(keys),
        "pid": passage_of(said),
        "revision": said.rank.revision,
        "begins": UNKNOWN_PAST if times.begins is None else times.begins,
        "ends": UNKNOWN_FUTURE if times.ends is None else times.ends,
        "occurred_start": UNKNOWN_PAST if times.occurred_start is None else times.occurred_start,
        "occurred_end": UNKNOWN_PAST if times.occurred_end is None else times.occurred_end,
        "recorded": times.recorded,
        "moment": times.moment,
    }


def unlike(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return other values for a moment, so that the right ones are a difference and are indexed; a reader hardly sees it."""
    other = dict(changes)
    if "words" in changes:
        other |= {"words": f"{changes['words']} {changes['words']}", "leads": not changes["leads"], "words_digest": ""}
    if "superseded_from" in changes:
        other["superseded_from"] = changes["superseded_from"] - NUDGE
    return other
