"""What is declared, and which scopes a principal may read by it."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from schemas.entities import ORGANISATIONAL, EntityDeclaration, EntityType, RelationDeclaration
from schemas.units import ScopeLevel
from shared.memberships import LEVELS, MAX_DEPTH, walk
from shared.store import Membership
from shared.stores.memory_state import Declared
from shared.stores.weaviate import records
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.records import ENTITY, RELATION
from shared.stores.weaviate.scopes import Scopes
from shared.stores.weaviate.table import Stored, Table


async def declared(kept: Table, kind: str, keys: set[str] | None = None) -> list[object]:
    """Return what stands declared of a kind, under some keys or all: the highest-ranked of each identity, no retraction."""
    if keys is None:
        return _standing(await kept.fetch(is_("kind", kind), ["body"]))
    return _standing(await kept.fetch_any("keys", keys, ["body"], is_("kind", kind)))


def _standing(found: Iterable[Stored]) -> list[object]:
    best: dict[str, Declared] = {}
    for identity, said in (records.declared_from(one.properties["body"]) for one in found):
        if identity not in best or said.rank > best[identity].rank:
            best[identity] = said
    return [said.data for said in best.values()]


async def memberships(kept: Table, scopes: Scopes, principal: str | None, now: datetime) -> list[Membership]:
    """Return the scopes a principal may read; None: all that are in use."""
    if principal is None:
        return [Membership(key, 0) for key in await scopes.in_use()]
    upward, types = await _upward(kept, principal)
    targets = {one.target_id for relations in upward.values() for one in relations}
    in_use = set(
        await scopes.in_use(
            {
                f"{level.value}/{one}"
                for one in targets - types.keys()
                for level in ScopeLevel
                if level is not ScopeLevel.PERSONAL
            }
        )
    )

    def levels(entity_id: str) -> list[ScopeLevel]:
        if entity_id in types:
            kind = types[entity_id]
            return [LEVELS[kind]] if kind in LEVELS else []
        return [level for level in ScopeLevel if f"{level.value}/{entity_id}" in in_use]

    return walk(principal, lambda entity_id: upward.get(entity_id, ()), levels, now)


async def _upward(kept: Table, principal: str) -> tuple[dict[str, list[RelationDeclaration]], dict[str, EntityType]]:
    """Return the relations that start at whatever the principal may belong to, and what is declared of what these are.

    A step at a time: the relations from where the last one led to, together with the declarations of it.
    """
    upward: dict[str, list[RelationDeclaration]] = defaultdict(list)
    types: dict[str, EntityType] = {}
    seen, frontier = {principal}, {principal}
    for _ in range(MAX_DEPTH + 1):
        sources = {f"source:{one}" for one in frontier}
        entities = {records.declared_key(ENTITY, one) for one in frontier}
        found = await kept.fetch_any("keys", sources | entities, ["body", "kind"])
        for data in _standing(one for one in found if one.properties["kind"] == ENTITY):
            if isinstance(data, EntityDeclaration):
                types[data.id] = data.type
        for data in _standing(one for one in found if one.properties["kind"] == RELATION):
            if isinstance(data, RelationDeclaration) and data.relation in ORGANISATIONAL:
                upward[data.source_id].append(data)
        frontier = {one.target_id for entity_id in frontier for one in upward.get(entity_id, ())} - seen
        seen |= frontier
        if not frontier:
            break
    return upward, types
