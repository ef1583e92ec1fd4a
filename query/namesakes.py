"""Entities that may be one and the same: a proposal for people to confirm, never a merge."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from query.directory import EntityEntry, entry_of
from query.visible import visible_units
from schemas.entities import EntityDeclaration
from shared.graph import GraphSnapshot
from shared.identity import alias_candidates, fold_key
from shared.store import SearchFilter, Snapshot, StoredUnit

SCANNED_KEYS: Final = 500  # mentioned keys after one first name: more people of that name are not told apart by a list
CANDIDATES: Final = 20


async def namesakes(
    snapshot: Snapshot,
    graph: GraphSnapshot,
    surfaces: Collection[str],
    declarations: Sequence[EntityDeclaration],
    where: SearchFilter,
) -> tuple[EntityEntry, ...]:
    """Return entities whose names differ from ``surfaces`` by nothing but a middle name that one of them leaves out.

    Only names that are declared or that units within ``where`` mention; by id, at most CANDIDATES.
    """
    own = {graph.resolve(fold_key(surface)).entity_id for surface in surfaces}
    others = {name for one in declarations for name in (one.name, *one.aliases)}
    others |= await _mentioned(snapshot, _ends(surfaces), where)
    found: dict[str, str] = {}
    for pair in alias_candidates({*surfaces, *others}):
        if len(outside := [surface for surface in pair if surface not in surfaces]) == 1:
            found.setdefault(graph.resolve(fold_key(outside[0])).entity_id, outside[0])
    declared = {one.id: one for one in declarations}
    return tuple(
        entry_of(declared[entity_id]) if entity_id in declared else EntityEntry(id=entity_id, name=name, declared=False)
        for entity_id, name in sorted(found.items())
        if entity_id not in own
    )[:CANDIDATES]


def surfaces_of(units: Iterable[StoredUnit], keys: Collection[str]) -> set[str]:
    """Return how units write the names that have these keys."""
    return {mention.surface for unit in units for mention in unit.mentions if mention.key in keys}


def _ends(surfaces: Collection[str]) -> set[tuple[str, str]]:
    """Return the folded first and last word of each name of several words."""
    split = [surface.split() for surface in surfaces]
    return {(fold_key(words[0]), fold_key(words[-1])) for words in split if len(words) > 1}


async def _mentioned(snapshot: Snapshot, ends: Collection[tuple[str, str]], where: SearchFilter) -> set[str]:
    keys: set[str] = set()
    for first, last in sorted(ends):
        found = await snapshot.entity_keys(where.scopes, SCANNED_KEYS, first)
        keys |= {key for key, _ in found if key.startswith(first) and key.endswith(last)}
    if not keys:
        return set()
    hits = await snapshot.about(sorted(keys), where, 1)
    unit_ids = {hit.unit_ids[0] for found in hits.values() for hit in found}
    units = await visible_units(snapshot, unit_ids, where.scopes)
    return surfaces_of(units.values(), keys)
