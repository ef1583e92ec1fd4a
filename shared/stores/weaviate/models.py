"""Which embedding models a tenant keeps vectors of: one record, read anew whenever it decides on something."""

from dataclasses import dataclass

import orjson

from shared.stores.memory_vectors import VectorState
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.records import MODEL, NAMES, Record, models_id, record_of
from shared.stores.weaviate.schema import record_collection, unit_collection
from shared.stores.weaviate.table import Table

MODELS_KEY = "model:"
"""Finds the record."""


@dataclass(frozen=True)
class Models:
    """The known models with the length of their vectors, and the one that is searched."""

    active: str | None
    dims: dict[str, int]

    def state(self) -> VectorState:
        """Return them as the state that effects are entered into."""
        return VectorState(active=self.active, dims=dict(self.dims))


async def read_models(client: Client, prefix: str, tenant: str) -> Models:
    """Return a tenant's models; none before its first vectors."""
    table = Table(client, record_collection(prefix).name, tenant)
    found = await table.by_ids([models_id(tenant)], NAMES)
    return models_from(record_of(found[0]).body if found else None)


def models_from(body: str | None) -> Models:
    """Read the record of a tenant's models; None: there is none."""
    if body is None:
        return Models(None, {})
    said = orjson.loads(body)
    return Models(said["active"], said["dims"])


async def write_models(client: Client, prefix: str, tenant: str, models: Models) -> None:
    """Keep a tenant's models, with a collection for each."""
    for model in models.dims:
        await client.ensure(unit_collection(prefix, model))
    body = orjson.dumps({"active": models.active, "dims": models.dims}).decode()
    record = Record(models_id(tenant), MODEL, (MODELS_KEY,), body)
    table = Table(client, record_collection(prefix).name, tenant)
    found = await table.fetch_any("keys", [MODELS_KEY], ["kind"])
    is_found = bool(found and await table.by_ids([record.id], ["kind"]))
    await (table.put if is_found else table.put_unfound)([record.stored()])
