"""Conflicts: contradicting units that meet in an answer, each pair once, both sides shown."""

from collections.abc import Mapping, Sequence

from schemas.answers import Conflict, ConflictSide
from shared.store import Snapshot, StoredContradiction, StoredUnit

PAIRS = 50
"""Most pairs read for one answer: at most ten results each in a handful of disputes."""


async def read_contradictions(
    snapshot: Snapshot, unit_ids: Sequence[str], readable: frozenset[str]
) -> list[StoredContradiction]:
    """Return the open pairs that touch the units and lie wholly within readable scopes, by id."""
    if not unit_ids:
        return []
    return await snapshot.contradictions(unit_ids=unit_ids, scopes=readable, limit=PAIRS)


def contested_ids(pairs: Sequence[StoredContradiction]) -> frozenset[str]:
    """Return the ids of all units in open pairs."""
    return frozenset(unit_id for pair in pairs if pair.open for unit_id in pair.found.units)


async def find_conflicts(
    snapshot: Snapshot,
    pairs: Sequence[StoredContradiction],
    known: Mapping[str, StoredUnit],
    readable: frozenset[str],
) -> tuple[Conflict, ...]:
    """Show both sides of each open pair, the one that was not retrieved included where it may be read. By pair id."""
    missing = {unit_id for pair in pairs for unit_id in pair.found.units} - set(known)
    units = {**known, **(await snapshot.units(missing) if missing else {})}
    conflicts = {}
    for pair in pairs:
        sides = [units.get(unit_id) for unit_id in pair.found.units]
        if pair.open and all(side is not None and side.known.unit.scope.key in readable for side in sides):
            first, second = (_side(side) for side in sides if side is not None)
            conflicts[pair.found.id] = _conflict(pair, first, second)
    return tuple(conflicts[key] for key in sorted(conflicts))


def _conflict(pair: StoredContradiction, first: ConflictSide, second: ConflictSide) -> Conflict:
    return Conflict(
        id=pair.found.id,
        state="open",
        difference=pair.found.difference,
        detail=pair.found.detail,
        attribute=pair.found.attribute,
        similarity=pair.found.similarity,
        sides=(first, second),
        newer=newer_of(first, second),
    )


def newer_of(first: ConflictSide, second: ConflictSide) -> str | None:
    """Return the side that occurred later; None where either is undated or their days overlap.

    When we heard of it says nothing: late news about the past does not beat the present.
    """
    if first.occurred_at is None or second.occurred_at is None:
        return None
    if first.occurred_at.at >= second.occurred_at.end:
        return first.unit_id
    if second.occurred_at.at >= first.occurred_at.end:
        return second.unit_id
    return None


def _side(stored: StoredUnit) -> ConflictSide:
    unit, state = stored.known.unit, stored.known.state
    return ConflictSide(
        unit_id=unit.id,
        text=unit.text,
        scope=unit.scope.key,
        source=state.source,
        occurred_at=unit.occurred_at,
        recorded_at=state.recorded_at,
        creator=unit.origin.creator_entity_id,
    )
