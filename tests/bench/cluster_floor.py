"""The cluster's floor: one query embedding, then Weaviate's two searches by its bare client, side by side, same filter."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import weaviate

from query.search import DEPTH
from shared.clock import SystemClock
from shared.embedder import Embedder, Vector
from shared.settings import Settings
from shared.store import SearchFilter
from shared.stores.opening import open_reader
from shared.stores.weaviate.filters import passing
from shared.stores.weaviate.schema import PREFIX, unit_collection
from shared.text import query_terms
from tests.bench.figures import percentiles
from tests.bench.measuring import WARM
from tests.bench.population import TENANT

WANTED = ["pid", "unit_id"]


async def floor(settings: Settings, embedder: Embedder, questions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return milliseconds of the embedding, of each search alone, and of the embedding with both searches after it."""
    searches = await _Searches.of(settings, embedder.model)
    taken: dict[str, list[float]] = {"embed": [], "keyword": [], "vector": [], "floor": []}
    async with searches.client:
        for number, question in enumerate(questions):
            terms = " ".join(query_terms(question))
            start = time.perf_counter()
            vector = await embedder.embed_query(question)
            embedded = time.perf_counter()
            await asyncio.gather(searches.keyword(terms), searches.vector(vector))
            both = time.perf_counter()
            await searches.keyword(terms)
            keyword = time.perf_counter()
            await searches.vector(vector)
            end = time.perf_counter()
            if number >= WARM:
                taken["embed"].append((embedded - start) * 1000)
                taken["floor"].append((both - start) * 1000)
                taken["keyword"].append((keyword - both) * 1000)
                taken["vector"].append((end - keyword) * 1000)
    return {name: percentiles(values) for name, values in taken.items()}


@dataclass(frozen=True)
class _Searches:
    """``query``: the client's view of the tenant's objects; ``where``: every scope, as the product's questions have it."""

    client: Any
    query: Any
    where: Any

    @classmethod
    async def of(cls, settings: Settings, model: str) -> "_Searches":
        reader = open_reader(settings, SystemClock(), threads=1)
        try:
            async with reader.snapshot(TENANT) as view:
                scopes = frozenset(member.scope for member in await view.memberships(None))
        finally:
            await reader.close()
        http, (host, _, port) = urlsplit(settings.weaviate_url or ""), (settings.weaviate_grpc or "").rpartition(":")
        client = weaviate.use_async_with_local(host=host, port=http.port or 80, grpc_port=int(port))
        query = client.collections.use(unit_collection(PREFIX, model).name).with_tenant(TENANT).query
        return cls(client, query, passing(SearchFilter(scopes=scopes, at=datetime.now(UTC))))

    async def keyword(self, terms: str) -> None:
        found = await self.query.bm25(
            terms, query_properties=["words"], filters=self.where, limit=DEPTH, return_properties=WANTED
        )
        assert found.objects, "a floor that finds nothing is none"

    async def vector(self, vector: Vector) -> None:
        found = await self.query.near_vector(vector.tolist(), filters=self.where, limit=DEPTH, return_properties=WANTED)
        assert found.objects, "a floor that finds nothing is none"
