"""Contradictions: pairs as recorded, and what of them still stands."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.store import FoundContradiction, StoredContradiction
from shared.stores.weaviate import records
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.records import CONTRADICTION
from shared.stores.weaviate.table import Stored, Table
from shared.validity import from_micros, micros

_SIDE = ("unit_id", "scope", "revision", "ends", "superseded_by")


@dataclass(frozen=True)
class Listed:
    """A pair; ``stands``: both revisions are live, and then ``scopes`` are those of the two."""

    stored: StoredContradiction
    stands: bool
    scopes: frozenset[str]


Pairs = Sequence[tuple[FoundContradiction, int]]
"""Pairs, each with when it was first found, in microseconds."""


async def recorded(kept: Table, unit_ids: Collection[str] | None = None) -> Pairs:
    """Return what is recorded, by id: the pairs of the units, or all."""
    if unit_ids is None:
        found = await kept.fetch(is_("kind", CONTRADICTION), ["body"])
    else:
        keys = {records.pair_key(unit_id) for unit_id in unit_ids}
        found = await kept.fetch_any("keys", keys, ["body"], is_("kind", CONTRADICTION))
    return sorted((records.contradiction_from(one.properties["body"]) for one in found), key=lambda pair: pair[0].id)


async def listed(live: Table | None, now: datetime, pairs: Pairs) -> list[Listed]:
    """Tell of recorded pairs what still stands, in their order."""
    units = {unit_id for pair, _ in pairs for unit_id in pair.units}
    rows = [] if live is None else await live.fetch_any("unit_id", units, _SIDE, FIRST_CHUNK)
    sides = {row.properties["unit_id"]: row for row in rows}
    return [_listed(pair, at, sides, micros(now)) for pair, at in pairs]


def partners(pairs: Collection[Listed]) -> dict[str, tuple[str, ...]]:
    """Return, for each unit, the units in an open contradiction with it, by id."""
    found: dict[str, set[str]] = {}
    for one in pairs:
        if one.stored.open:
            first, second = one.stored.found.units
            found.setdefault(first, set()).add(second)
            found.setdefault(second, set()).add(first)
    return {unit_id: tuple(sorted(others)) for unit_id, others in found.items()}


def _listed(pair: FoundContradiction, recorded: int, sides: dict[str, Stored], now: int) -> Listed:
    rows = [sides[unit_id].properties for unit_id in pair.units if unit_id in sides]
    stands = len(rows) == len(pair.units) and all(
        int(row["revision"]) == revision for row, revision in zip(rows, pair.revisions, strict=True)
    )
    is_open = stands and all(not row["superseded_by"] and int(row["ends"]) > now for row in rows)
    scopes = frozenset(row["scope"] for row in rows) if stands else frozenset()
    return Listed(StoredContradiction(pair, from_micros(recorded), is_open), stands, scopes)
