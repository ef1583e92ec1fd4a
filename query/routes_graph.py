"""The graph and its disputes: entities, what stands next to them, and contradictions."""

from datetime import datetime
from typing import Annotated

import structlog
from pydantic import Field, StringConstraints
from starlette.responses import Response

from query.access import Right
from query.conflicts import find_conflicts
from query.directory import EntityEntry, EntityPage, entry_of, match_of, page_of_entities
from query.endpoint import JSON_TYPE, PAGE_DEFAULT, Call, Cursor, Endpoint, PageSize, Reply, json_response
from query.namesakes import namesakes, surfaces_of
from query.routes_context import TenantOnly
from query.visible import readable_scopes, visible_units
from schemas import limits
from schemas.answers import Conflict
from schemas.base import Record
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.times import Moment
from schemas.units import Identifier
from shared.errors import UnknownThing
from shared.graph import GraphSnapshot
from shared.identity import fold_key
from shared.store import SearchFilter, Snapshot, StoredUnit

NEIGHBOURS = 100
UNITS = 50
EXCERPT_CHARS = 300

_log = structlog.get_logger("cortex.query")


class PageParameters(TenantOnly):
    """Who looks, and which page."""

    principal: Identifier | None = None
    limit: PageSize = PAGE_DEFAULT
    after: Cursor | None = None


class EntitiesParameters(PageParameters):
    """Which entities."""

    q: Annotated[str, StringConstraints(max_length=limits.NAME_CHARS)] = Field(
        default="", description="part of a name, alias or id; without it all"
    )


class EntityParameters(TenantOnly):
    """Who looks."""

    principal: Identifier | None = None


class NeighbourEntry(Record):
    """An entity next to another, supported by that many readable units."""

    id: str
    name: str
    type: str | None
    relation: str
    outgoing: bool
    weight: float
    support: int
    unit_ids: tuple[str, ...] = ()


class UnitExcerpt(Record):
    """A unit about the entity; ``text`` is its beginning."""

    unit_id: str
    title: str | None = None
    text: str
    scope: str
    occurred_at: Moment | None = None
    recorded_at: datetime


class EntityDetail(Record):
    """An entity: its declaration where there is one, what is declared about it, its neighbours, and units about it.

    ``alias_candidates``: others that may be the same, since only a middle name tells them apart; nobody merged them.
    """

    entity: EntityEntry
    declaration: EntityDeclaration | None = None
    relations: tuple[RelationDeclaration, ...] = ()
    neighbours: tuple[NeighbourEntry, ...] = ()
    units: tuple[UnitExcerpt, ...] = ()
    alias_candidates: tuple[EntityEntry, ...] = ()


class Contradictions(Record):
    """A page of open contradictions, by the pair's id; both sides of each may be read."""

    contradictions: tuple[Conflict, ...]
    next: str | None = None


async def list_entities(call: Call) -> Response:
    """List entities; with ``q``, those whose names contain it, and what it means as a whole name."""
    parameters: EntitiesParameters = call.parameters
    needle = fold_key(parameters.q) if parameters.q.strip() else ""
    graph = call.parts.graph.snapshot(call.who.tenant)
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        scopes = await readable_scopes(snapshot, call.who.asks_as(parameters.principal))
        entities, more = await page_of_entities(
            snapshot, graph, scopes, needle=needle, limit=parameters.limit, after=parameters.after
        )
    match = match_of(graph.resolve(needle)) if needle and graph.knows(needle, scopes) else None
    return json_response(EntityPage(match=match, entities=entities, next=more))


async def get_entity(call: Call) -> Response:
    """Give one entity; one that nobody declared and no readable unit mentions is unknown."""
    entity_id: str = call.request.path_params["id"]
    principal = call.who.asks_as(call.parameters.principal)
    graph = call.parts.graph.snapshot(call.who.tenant)
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        scopes = await readable_scopes(snapshot, principal)
        _, declarations = await snapshot.entities()
        declaration = next((one for one in declarations if one.id == entity_id), None)
        where = SearchFilter(scopes=scopes, at=call.parts.clock.now())
        keys = graph.keys_of(entity_id)
        units = await _units_about(snapshot, keys, where)
        surfaces = surfaces_of(units, keys) | ({declaration.name, *declaration.aliases} if declaration else set())
        candidates = await namesakes(snapshot, graph, surfaces, declarations, where)
        relations = await snapshot.relations(entity_id) if declaration else []
    if declaration is None and not units:
        _log.warning("access.unknown", request_id=call.request_id, what="entity", principal=principal)
        raise UnknownThing("there is no such entity, or you may not see it")
    name, kind = graph.name_of(entity_id)
    entry = entry_of(declaration) if declaration else EntityEntry(id=entity_id, name=name, type=kind, declared=False)
    return json_response(
        EntityDetail(
            entity=entry,
            declaration=declaration,
            relations=tuple(relations),
            neighbours=_neighbours(graph, entity_id, scopes),
            units=tuple(_excerpt(unit) for unit in units),
            alias_candidates=candidates,
        )
    )


async def _units_about(snapshot: Snapshot, keys: tuple[str, ...], where: SearchFilter) -> list[StoredUnit]:
    found = await snapshot.about(keys, where, UNITS) if keys else {}
    best = {
        unit_id: hit.score
        for hits in found.values()
        for hit in sorted(hits, key=lambda h: h.score)
        for unit_id in hit.unit_ids
    }
    stored = await visible_units(snapshot, best, where.scopes)
    ordered = sorted(stored, key=lambda unit_id: (-best[unit_id], unit_id))[:UNITS]
    return [stored[unit_id] for unit_id in ordered]


def _excerpt(stored: StoredUnit) -> UnitExcerpt:
    unit = stored.known.unit
    return UnitExcerpt(
        unit_id=unit.id,
        title=unit.title,
        text=unit.text[:EXCERPT_CHARS],
        scope=unit.scope.key,
        occurred_at=unit.occurred_at,
        recorded_at=stored.known.state.recorded_at,
    )


def _neighbours(graph: GraphSnapshot, entity_id: str, scopes: frozenset[str]) -> tuple[NeighbourEntry, ...]:
    return tuple(
        NeighbourEntry(
            id=one.entity_id,
            name=one.name,
            type=one.type,
            relation=one.relation,
            outgoing=one.outgoing,
            weight=one.weight,
            support=one.support,
            unit_ids=one.unit_ids,
        )
        for one in graph.neighbours(entity_id, scopes, NEIGHBOURS)
    )


async def list_contradictions(call: Call) -> Response:
    """List open contradictions whose both sides may be read."""
    parameters: PageParameters = call.parameters
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        scopes = await readable_scopes(snapshot, call.who.asks_as(parameters.principal))
        pairs = await snapshot.contradictions(scopes=scopes, limit=parameters.limit, after=parameters.after)
        conflicts = await find_conflicts(snapshot, pairs, {}, scopes)
    more = pairs[-1].found.id if len(pairs) == parameters.limit else None
    return json_response(Contradictions(contradictions=conflicts, next=more))


GRAPH = (
    Endpoint(
        "GET", "/v1/entities", list_entities, "Entities by id, and what a name means",
        (Reply(200, "a page of entities", {JSON_TYPE: EntityPage}),),
        Right.ASK, EntitiesParameters, None, (400, 503), "graph",
    ),
    Endpoint(
        "GET", "/v1/entities/{id:path}", get_entity, "An entity with its neighbours and units",
        (Reply(200, "the entity", {JSON_TYPE: EntityDetail}),),
        Right.ASK, EntityParameters, None, (400, 404, 503), "graph",
    ),
    Endpoint(
        "GET", "/v1/contradictions", list_contradictions, "Open contradictions",
        (Reply(200, "a page of contradictions", {JSON_TYPE: Contradictions}),),
        Right.ASK, PageParameters, None, (400, 503), "graph",
    ),
)  # fmt: skip
