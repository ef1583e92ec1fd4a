"""The connection to Weaviate: deadlines, typed errors, and collections that are as this release needs them."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import weaviate
from pydantic import ValidationError
from weaviate.classes.config import (
    Configure,
    ConsistencyLevel,
    DataType,
    Property,
    StopwordsPreset,
    Tokenization,
    VectorDistances,
)
from weaviate.classes.init import AdditionalConfig, Timeout
from weaviate.exceptions import WeaviateBaseError, WeaviateConnectionError

from shared.errors import FolderNewer, InvalidInput, StoreUnavailable
from shared.stores.weaviate import schema
from shared.stores.weaviate.schema import Index

Value = TypeVar("Value")

ANSWER_S = 10.0
"""Longest wait for a read of the writer: a page of the largest units takes a tenth of it."""
WRITE_S = 60.0
"""Longest wait for a batch, whose vectors are indexed before it is answered."""

LOOKS, LOOK_S = 40, 0.05
"""Looks for a collection that is being made, and seconds between two: it takes some 100 ms."""
NOBODY = "nobody"
"""A tenant to ask about where only the answer counts."""
_NOT_YET = "non-existing index"
_ABSENT = ("tenant not found", "could not find class", "class not found", "no such class")
_INDEXED: dict[Index, dict[str, Any]] = {
    Index.NONE: {"data_type": DataType.TEXT, "index_filterable": False, "index_searchable": False},
    Index.WHOLE: {"data_type": DataType.TEXT, "tokenization": Tokenization.FIELD, "index_searchable": False},
    Index.MANY: {"data_type": DataType.TEXT_ARRAY, "tokenization": Tokenization.FIELD, "index_searchable": False},
    Index.TERMS: {"data_type": DataType.TEXT, "tokenization": Tokenization.WHITESPACE, "index_searchable": True},
    Index.AMOUNT: {"data_type": DataType.INT, "index_filterable": False},
    Index.VALUE: {"data_type": DataType.INT},
    Index.RANGE: {"data_type": DataType.INT, "index_filterable": False, "index_range_filters": True},
    Index.ORDER: {"data_type": DataType.INT, "index_range_filters": True},
    Index.FLAG: {"data_type": DataType.BOOL},
}


class Absent(Exception):
    """The tenant or the collection is not there (yet)."""


class Client:
    """The calls of one process to one Weaviate. Connects when it is first needed, and again after a failure.

    ``url``: its HTTP address; ``grpc``: host and port. ``consistency``: ONE, QUORUM or ALL of the ``replication`` copies
    answer each call; the factor counts for collections that are made anew. ``half_deleted``: by collection and tenant, what
    a delete that failed may have left without its indexes.

    Raises InvalidInput where the addresses cannot be right.
    """

    def __init__(
        self,
        url: str,
        grpc: str,
        *,
        consistency: str = "QUORUM",
        replication: int = 1,
        answer_s: float = ANSWER_S,
        write_s: float = WRITE_S,
    ) -> None:
        http, (host, _, port) = urlsplit(url), grpc.rpartition(":")
        secure = http.scheme == "https"
        self._addresses = f"{url} and {grpc}"
        try:
            self._weaviate = weaviate.use_async_with_custom(
                http_host=http.hostname or "",
                http_port=http.port or (443 if secure else 80),
                http_secure=secure,
                grpc_host=host,
                grpc_port=int(port),
                grpc_secure=secure,
                additional_config=AdditionalConfig(timeout=Timeout(init=answer_s, query=answer_s, insert=write_s)),
                skip_init_checks=True,  # the first call tells as much
            )
        except ValidationError as error:
            reasons = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors(include_url=False))
            raise InvalidInput(f"{url} and {grpc} cannot be Weaviate's HTTP and gRPC addresses: {reasons}") from error
        self._consistency = ConsistencyLevel[consistency.upper()]
        self._replication = replication
        self.answer_s, self.write_s = answer_s, write_s
        self.half_deleted: defaultdict[tuple[str, str], set[UUID]] = defaultdict(set)
        self._connecting = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """Close connections."""
        self._closed = True
        await self._weaviate.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless it is ready."""
        if not await self.within(self._weaviate.is_ready, self.answer_s):
            raise StoreUnavailable("Weaviate is not ready")

    async def ensure(self, wanted: schema.Collection) -> None:
        """Create a collection, or add the properties that an older release did not have.

        Raises FolderNewer where one is there and is indexed otherwise: then nothing of it can be trusted or mended here.
        """
        exists = await self.within(lambda: self._weaviate.collections.exists(wanted.name), self.answer_s)
        if not exists:
            with contextlib.suppress(StoreUnavailable):  # another process may have made it just now: looked at below
                await self.within(lambda: self._create(wanted), self.write_s)
        config = self._weaviate.collections.use(wanted.name).config
        found = await self.within(lambda: config.get(simple=False), self.answer_s)
        there = {each.name: each for each in found.properties}
        for name in wanted.properties.keys() - there.keys():
            new = Property(name=name, **_INDEXED[wanted.properties[name]])
            await self.within(partial(config.add_property, new), self.write_s)
        for name in wanted.properties.keys() & there.keys():
            expected = _INDEXED[wanted.properties[name]]
            is_same = there[name].data_type == expected["data_type"]
            if not is_same or there[name].tokenization != expected.get("tokenization", there[name].tokenization):
                raise FolderNewer(f"{wanted.name} in Weaviate has a property {name!r} that is not of this release")
        if not found.multi_tenancy_config.enabled:
            raise FolderNewer(f"{wanted.name} in Weaviate has no tenants")
        await self._serving(wanted.name)

    async def _serving(self, name: str) -> None:
        """Wait until a collection can be read: one that another process makes just now is known before it is there."""
        count = self.handle(name, NOBODY).aggregate.over_all
        for _ in range(LOOKS):
            try:
                await self.within(lambda: count(total_count=True), self.answer_s)
            except Absent:  # there is no such tenant, and that is known
                return
            except StoreUnavailable as error:
                if _NOT_YET not in str(error):
                    raise
            else:
                return
            await asyncio.sleep(LOOK_S)
        raise StoreUnavailable(f"Weaviate does not serve {name} yet")

    async def collections(self) -> list[str]:
        """Return the names of all collections."""
        return sorted(await self.within(self._weaviate.collections.list_all, self.answer_s))

    async def drop(self, name: str) -> None:
        """Delete a collection and all that is in it."""
        await self.within(lambda: self._weaviate.collections.delete(name), self.write_s)

    async def tenants(self, collection: str) -> list[str]:
        """Return the tenants of a collection, by name; none where there is no such collection."""
        try:
            found = await self.within(self._weaviate.collections.use(collection).tenants.get, self.answer_s)
        except Absent:
            return []
        return sorted(found)

    def handle(self, collection: str, tenant: str) -> Any:
        """Return the client's own view of a tenant's objects."""
        return self._weaviate.collections.use(collection).with_tenant(tenant).with_consistency_level(self._consistency)

    async def within(self, call: Callable[[], Awaitable[Value]], seconds: float) -> Value:
        """Make a call with a deadline, connecting first. Raises StoreUnavailable, or Absent.

        A server that starts answers before it has read which collections and tenants it has: then none is there. So what is
        absent must be so still once the server is ready.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._connect()
                with contextlib.suppress(Absent):
                    return await _found(call)
                if not await _awaited(self._weaviate.is_ready()):
                    raise StoreUnavailable("Weaviate is starting")
                return await _found(call)
        except TimeoutError as error:
            raise StoreUnavailable(f"Weaviate did not answer within {seconds:g} s") from error
        except (WeaviateConnectionError, httpx.HTTPError, OSError) as error:
            raise StoreUnavailable(f"Weaviate cannot be reached at {self._addresses}") from error
        except WeaviateBaseError as error:
            raise StoreUnavailable(f"Weaviate: {error}") from error

    async def _connect(self) -> None:
        if self._closed:
            raise StoreUnavailable("the client of Weaviate was closed")
        if not self._weaviate.is_connected():
            async with self._connecting:
                if not self._weaviate.is_connected():
                    await self._weaviate.connect()

    async def _create(self, wanted: schema.Collection) -> None:
        hnsw = Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)
        await self._weaviate.collections.create(
            wanted.name,
            properties=[Property(name=name, **_INDEXED[index]) for name, index in wanted.properties.items()],
            vector_config=Configure.Vectors.self_provided(
                vector_index_config=hnsw if wanted.vectors else Configure.VectorIndex.none()
            ),
            inverted_index_config=Configure.inverted_index(stopwords_preset=StopwordsPreset.NONE),
            multi_tenancy_config=Configure.multi_tenancy(enabled=True, auto_tenant_creation=True),
            replication_config=Configure.replication(factor=self._replication),
        )


async def _found(call: Callable[[], Awaitable[Value]]) -> Value:
    """Make a call. Raises Absent where the client says so."""
    try:
        return await _awaited(call())
    except WeaviateBaseError as error:
        if any(sign in str(error) for sign in _ABSENT):
            raise Absent from error
        raise


async def _awaited(call: Awaitable[Value]) -> Value:
    """Await a call of the client; a cancellation is raised as it came.

    gRPC answers one by a CancelledError of its own making, by which whoever gave up waiting (a deadline or a task group of
    anyio) does not know that it was his: it passed on as the end of the request.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task.result()
