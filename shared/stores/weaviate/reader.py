"""The reader: snapshots over one connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.clock import Clock, SystemClock
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.floors import Floors
from shared.stores.weaviate.models import read_models
from shared.stores.weaviate.schema import PREFIX, record_collection, unit_collection
from shared.stores.weaviate.scopes import Witnesses
from shared.stores.weaviate.search import TermCounts
from shared.stores.weaviate.snapshot import WeaviateSnapshot
from shared.stores.weaviate.table import Table

ANSWER_S = 5.0
"""Longest wait for one read. Refused connections are tried again by the client within it, 1 s and 2 s apart."""


class WeaviateReader:
    """Reads what `WeaviateWriter`s wrote. ``clock`` tells which relations and pairs still hold."""

    def __init__(
        self,
        url: str,
        grpc: str,
        *,
        clock: Clock | None = None,
        prefix: str = PREFIX,
        consistency: str = "QUORUM",
        answer_s: float = ANSWER_S,
    ) -> None:
        self._client = Client(url, grpc, consistency=consistency, answer_s=answer_s)
        self._clock = clock or SystemClock()
        self._prefix = prefix
        self._counts = TermCounts(self._clock)
        self._floors = Floors()
        self._witnesses = Witnesses()

    @asynccontextmanager
    async def snapshot(self, tenant: str) -> AsyncIterator[WeaviateSnapshot]:
        """Open a view of a tenant; see `WeaviateSnapshot` for how consistent it is."""
        opened = open_snapshot(
            self._client,
            self._prefix,
            tenant,
            self._clock,
            counts=self._counts,
            floors=self._floors,
            witnesses=self._witnesses,
        )
        async with opened as snapshot:
            yield snapshot

    async def tenants(self) -> list[str]:
        """Return the tenants that have something, by name."""
        return await self._client.tenants(record_collection(self._prefix).name)

    async def ping(self) -> None:
        """Raise StoreUnavailable unless Weaviate answers."""
        await self._client.ping()

    async def close(self) -> None:
        """Close the connections."""
        await self._counts.close()
        await self._client.close()


@asynccontextmanager
async def open_snapshot(
    client: Client,
    prefix: str,
    tenant: str,
    clock: Clock,
    *,
    counts: TermCounts | None = None,
    floors: Floors | None = None,
    witnesses: Witnesses | None = None,
) -> AsyncIterator[WeaviateSnapshot]:
    """Open a view with the model that is active now."""
    models = await read_models(client, prefix, tenant)
    yield WeaviateSnapshot(
        Table(client, record_collection(prefix).name, tenant),
        {model: Table(client, unit_collection(prefix, model).name, tenant) for model in models.dims},
        tenant=tenant,
        models=models,
        now=clock.now(),
        counts=counts or TermCounts(clock),
        floors=floors or Floors(),
        witnesses=witnesses or Witnesses(),
    )
