"""Which scopes a principal may read: a walk up the declared relations, pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from schemas.entities import ORGANISATIONAL, EntityType, RelationDeclaration
from schemas.times import Moment
from schemas.units import Scope, ScopeLevel
from shared.store import Membership

MAX_DEPTH = 8
"""Steps up: person, team, group, department, division, company … and a bound for chains nobody meant."""

LEVELS = {
    EntityType.TEAM: ScopeLevel.TEAM,
    EntityType.DEPARTMENT: ScopeLevel.DEPARTMENT,
    EntityType.ORGANIZATION: ScopeLevel.ORGANIZATION,
}
"""The scope that an entity of a type is. Other types may lie on the way, but nothing belongs to them as a scope."""


def walk(
    principal: str,
    upward: Callable[[str], Iterable[RelationDeclaration]],
    levels: Callable[[str], Iterable[ScopeLevel]],
    now: datetime,
) -> list[Membership]:
    """Return the readable scopes, nearest first, ties by scope key; the principal's own is always among them.

    ``upward`` gives the relations that start at an entity, ``levels`` the levels at which an entity is a scope. A relation
    outside its validity at ``now`` leads nowhere. Cycles end, because each entity is entered once, by its shortest way.
    """
    personal = Scope(level=ScopeLevel.PERSONAL, entity_id=principal)
    found = [Membership(personal.key, 0)]
    seen, frontier = {principal}, [principal]
    for hops in range(1, MAX_DEPTH + 1):
        entered: dict[str, str | None] = {}
        for relation in _steps(frontier, upward, now):
            if relation.target_id not in seen:
                entered.setdefault(relation.target_id, relation.role)
        for entity_id, role in entered.items():
            found += [Membership(f"{level.value}/{entity_id}", hops, role) for level in sorted(set(levels(entity_id)))]
        seen.update(entered)
        frontier = sorted(entered)
    return sorted(found, key=lambda membership: (membership.hops, membership.scope))


def readers(scope: Scope, relations: Iterable[RelationDeclaration], now: datetime) -> frozenset[str]:
    """Return the entities whose walk leads to a scope: the other way round, and so the same as walking from each.

    ``relations``: all that are declared. Entities that are themselves scopes are among them; a personal scope has one.
    """
    if scope.level is ScopeLevel.PERSONAL:
        return frozenset({scope.entity_id})
    downward: dict[str, list[str]] = {}
    for relation in relations:
        if relation.relation in ORGANISATIONAL and _holds(relation, now):
            downward.setdefault(relation.target_id, []).append(relation.source_id)
    found: set[str] = set()
    frontier = {scope.entity_id}
    for _ in range(MAX_DEPTH):
        frontier = {source for entity_id in frontier for source in downward.get(entity_id, ())} - found
        found |= frontier
    return frozenset(found - {scope.entity_id})


def _steps(
    frontier: Sequence[str], upward: Callable[[str], Iterable[RelationDeclaration]], now: datetime
) -> list[RelationDeclaration]:
    """Return the relations that hold and lead up from the frontier, in an order that does not depend on the store."""
    steps = [
        relation
        for entity_id in frontier
        for relation in upward(entity_id)
        if relation.relation in ORGANISATIONAL and _holds(relation, now)
    ]
    return sorted(steps, key=lambda step: (step.source_id, step.relation.value, step.target_id))


def _holds(relation: RelationDeclaration, now: datetime) -> bool:
    if relation.valid_from is not None and relation.valid_from.at > now:
        return False
    return not (isinstance(relation.valid_until, Moment) and relation.valid_until.at <= now)
