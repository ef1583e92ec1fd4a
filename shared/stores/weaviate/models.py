"""Which embedding models a tenant keeps vectors of: one record, read anew whenever it decides on something."""

from dataclasses import dataclass

import orjson

from shared.stores.memory_vectors import VectorState
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.records import MODEL, NAMES, Record, object_id, record_of
from shared.stores.weaviate.schema import record_collection, unit_collection
from shared.stores.weaviate.table import Table


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
    found = await table.by_ids([object_id(MODEL, tenant)], NAMES)
    if not found:
        return Models(None, {})
    said = orjson.loads(record_of(found[0]).body)
    return Models(said["active"], said["dims"])


async def write_models(client: Client, prefix: str, tenant: str, models: Models) -> None:
    """Keep a tenant's models, with a collection for each."""
    for model in models.dims:
        await client.ensure(unit_collection(prefix, model))
    body = orjson.dumps({"active": models.active, "dims": models.dims}).decode()
    record = Record(object_id(MODEL, tenant), MODEL, ("model:",), body)
    await Table(client, record_collection(prefix).name, tenant).put([record.stored()])
