"""Reads of everything a tenant has: what it contributes to the graph, and its fingerprints."""

from collections.abc import AsyncIterator, Iterator

import structlog
from pydantic import ValidationError

from schemas.graph import Contribution
from shared import fingerprints as prints
from shared.contributions import unit_contribution
from shared.effects import Statement, model_json
from shared.fingerprints import PARTS, Identified, fingerprints_of, part_digest
from shared.stores.memory_fingerprints import values_in
from shared.stores.memory_state import TenantState
from shared.stores.weaviate import records
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import one_of
from shared.stores.weaviate.fragment import state_of
from shared.stores.weaviate.models import read_models
from shared.stores.weaviate.records import ENTITY, NAMES, RELATION
from shared.stores.weaviate.schema import record_collection, unit_collection
from shared.stores.weaviate.snapshot import WeaviateSnapshot
from shared.stores.weaviate.table import Table

_log = structlog.get_logger(__name__)

SEARCHED = ("units", "mentions")
"""Parts that are read from what is searched: a fingerprint of what cannot be found would be of no use."""


async def contributions(client: Client, prefix: str, tenant: str) -> list[Contribution]:
    """Return everything a tenant contributes to the graph now."""
    table = Table(client, record_collection(prefix).name, tenant)
    declared = await table.fetch(one_of("kind", [ENTITY, RELATION]), NAMES)
    state = state_of(tenant, map(records.record_of, declared))
    found = [state.declared_contribution(kind, identity) for kind, identity in sorted(state.declared)]
    units = [
        unit_contribution(tenant, said.unit, said.rank.revision, said.mentions)
        async for said in _live(client, prefix, tenant)
        if said.unit is not None
    ]
    units.sort(key=lambda one: one.id)
    return [one for one in (*found, *units) if not one.removed]


async def digest(client: Client, prefix: str, tenant: str, snapshot: WeaviateSnapshot) -> dict[str, str]:
    """Return the digest of each part. Reads every record once; some 3 kB of memory a statement."""
    state = await _state(client, prefix, tenant)
    live = [said async for said in _live(client, prefix, tenant)]
    return {
        part: part_digest(fingerprints_of([one async for one in _values(part, state, live, snapshot)]))
        for part in PARTS
    }


async def fingerprints(
    client: Client, prefix: str, tenant: str, snapshot: WeaviateSnapshot, part: str
) -> dict[str, str]:
    """Return the fingerprint of each thing of a part."""
    is_searched = part in SEARCHED
    live = [said async for said in _live(client, prefix, tenant)] if is_searched else []
    state = TenantState(tenant) if is_searched else await _state(client, prefix, tenant)
    return fingerprints_of([one async for one in _values(part, state, live, snapshot)])


async def _values(
    part: str, state: TenantState, live: list[Statement], snapshot: WeaviateSnapshot
) -> AsyncIterator[Identified]:
    if part == "contradictions":
        for pair in await snapshot.standing_contradictions():
            yield prints.contradiction(pair.id, pair.difference, pair.detail, pair.attribute)
        return
    for one in _searched(part, live) if part in SEARCHED else values_in(state, part):
        yield one


def _searched(part: str, live: list[Statement]) -> Iterator[Identified]:
    for said in live:
        assert said.unit is not None  # what is live has a body
        if part == "units":
            yield prints.live_unit(said.unit_id, said.rank.source, said.rank.event_id, model_json(said.unit))
        elif said.mentions or said.claims:
            yield prints.resolved(said.unit_id, said.mentions, said.claims)


async def _live(client: Client, prefix: str, tenant: str) -> AsyncIterator[Statement]:
    models = await read_models(client, prefix, tenant)
    if models.active is None:
        return
    async for one in Table(client, unit_collection(prefix, models.active).name, tenant).walk(
        ["chunk", "unit_id", "body"]
    ):
        if int(one.properties["chunk"]) == 0:
            try:
                yield records.statement_from(one.properties["body"])
            except ValidationError as error:
                # a rule that came after it, or a damaged object: one unit must not keep all the others from starting
                unit_id, faults = one.properties["unit_id"], error.error_count()
                _log.error("store.unreadable_unit", tenant=tenant, unit=unit_id, faults=faults)


async def _state(client: Client, prefix: str, tenant: str) -> TenantState:
    table = Table(client, record_collection(prefix).name, tenant)
    return state_of(tenant, [records.record_of(one) async for one in table.walk(NAMES)])
