"""The entities that a caller may know of: declared ones of the tenant, then names that readable units mention."""

from collections.abc import Sequence

from schemas.base import Record
from schemas.entities import EntityDeclaration
from shared.graph import GraphSnapshot, Resolved
from shared.identity import declared_names, fold_key
from shared.store import Snapshot

SCANNED_KEYS = 5_000  # mentioned keys looked at for one page: a rare word ends the scan, the cursor goes on from there
DECLARED, MENTIONED = "d:", "m:"


class EntityEntry(Record):
    """An entity in the directory. ``units``: readable units that mention it, counted for undeclared ones only."""

    id: str
    name: str
    type: str | None = None
    aliases: tuple[str, ...] = ()
    declared: bool
    units: int | None = None


class NameMatch(Record):
    """What a name means. With ``candidates`` several declared entities claim it, and none was preferred."""

    entity_id: str
    name: str
    type: str | None
    method: str
    confidence: float
    candidates: tuple[str, ...] = ()


class EntityPage(Record):
    """Entities by id, declared ones first. ``match``: what the whole of ``q`` means as a name."""

    match: NameMatch | None = None
    entities: tuple[EntityEntry, ...]
    next: str | None = None


def match_of(resolved: Resolved) -> NameMatch:
    """Write what a name resolves to."""
    return NameMatch(
        entity_id=resolved.entity_id,
        name=resolved.name,
        type=resolved.type,
        method=resolved.method,
        confidence=resolved.confidence,
        candidates=resolved.candidates,
    )


async def page_of_entities(
    snapshot: Snapshot, graph: GraphSnapshot, scopes: frozenset[str], *, needle: str, limit: int, after: str | None
) -> tuple[tuple[EntityEntry, ...], str | None]:
    """Return a page of entities whose folded name, alias or id contains the folded ``needle``, and the next cursor."""
    _, declarations = await snapshot.entities()
    entries: list[EntityEntry] = []
    if after is None or after.startswith(DECLARED):
        seen = "" if after is None else after.removeprefix(DECLARED)
        entries = _declared(declarations, needle, seen, limit + 1)
        if len(entries) > limit:
            return tuple(entries[:limit]), DECLARED + entries[limit - 1].id
    start = after.removeprefix(MENTIONED) if after is not None and after.startswith(MENTIONED) else None
    keys = await snapshot.entity_keys(scopes, SCANNED_KEYS, start)
    return _mentioned(keys, graph, entries, needle=needle, limit=limit)


def _declared(declarations: Sequence[EntityDeclaration], needle: str, seen: str, limit: int) -> list[EntityEntry]:
    found = []
    for declaration in sorted(declarations, key=lambda d: d.id):
        if declaration.id <= seen:
            continue
        keys = (*declared_names(declaration).keys, fold_key(declaration.id))
        if not needle or any(needle in key for key in keys):
            found.append(entry_of(declaration))
        if len(found) == limit:
            break
    return found


def entry_of(declaration: EntityDeclaration) -> EntityEntry:
    """Write a declared entity."""
    return EntityEntry(
        id=declaration.id,
        name=declaration.name,
        type=declaration.type.value,
        aliases=declaration.aliases,
        declared=True,
    )


def _mentioned(
    keys: Sequence[tuple[str, int]], graph: GraphSnapshot, entries: list[EntityEntry], *, needle: str, limit: int
) -> tuple[tuple[EntityEntry, ...], str | None]:
    """Go on with mentioned keys that no declaration claims."""
    last = ""
    for key, units in keys:
        if len(entries) == limit:
            return tuple(entries), MENTIONED + last
        last = key
        if needle and needle not in key:
            continue
        resolved = graph.resolve(key)
        if resolved.method == "unknown":
            entries.append(
                EntityEntry(id=resolved.entity_id, name=resolved.name, type=resolved.type, declared=False, units=units)
            )
    return tuple(entries), MENTIONED + last if len(keys) == SCANNED_KEYS else None
