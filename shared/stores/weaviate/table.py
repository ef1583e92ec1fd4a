"""A tenant's objects in one collection: reads page by page, and writes that are checked.

Reads of a tenant or a collection that is not there (yet) find nothing.

A Weaviate that is killed within a write may keep the object without some of its indexes, or the other way round: each of
them has a log of its own. Then no filter finds it, although it is there; and of what is written again only the difference is
indexed, as long as the vector is the same. So whoever repeats a write has all of it indexed anew (`Table.rewrite`, and the
stamp of a record), but only where the repetition would be repeated: a kill in between hides the object from filters. A delete
that failed is repeated by id, which needs no index.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

from weaviate.classes.data import DataObject
from weaviate.classes.query import MetadataQuery, Sort
from weaviate.exceptions import UnexpectedStatusCodeError

from shared.errors import StoreUnavailable
from shared.stores.weaviate.client import Absent, Client
from shared.stores.weaviate.conditions import Condition, above, among, below, either, every, one_of
from shared.stores.weaviate.schema import SLOTS
from shared.together import together

Value = TypeVar("Value")
Pair = tuple[str, str | int]
"""A property and a value of it."""

PAGE = 500
"""Objects a page: at the largest unit some 50 MB, half of what an answer may hold."""
VALUES = 250
"""Values a filter compares with at once: half a page, so that one object each, or two, fit into it."""
PAIRS = 1_000
"""Pairs of a property and a value that a filter compares with at once: of a window of new units, which has some four each."""
BATCH, BATCH_BYTES = 500, 4 * 1024 * 1024
MOST = 10_000
"""What Weaviate returns or deletes in one call, unless it is configured otherwise."""
DELETE_ROUNDS = 10_000


@dataclass(frozen=True)
class Stored:
    """An object to write, or as read. ``vector`` None: none. ``score``: what a search gave it."""

    id: UUID
    properties: dict[str, Any]
    vector: Sequence[float] | None = None
    score: float = 0.0


class Table:
    """One collection's objects of one tenant."""

    def __init__(self, client: Client, collection: str, tenant: str) -> None:
        self._client = client
        self._handle = client.handle(collection, tenant)
        self._half_deleted = client.half_deleted[collection, tenant]

    async def put(self, objects: Sequence[Stored]) -> None:
        """Write objects, each in place of what has its id. Raises StoreUnavailable where any was refused."""
        await self._finish_deletes()
        for batch in (*_batches(objects), *_batches(_last_searched(objects))):
            data = [
                DataObject(
                    uuid=one.id,
                    # an empty text would be a term of the index like any other
                    properties={name: value for name, value in one.properties.items() if value not in ("", [], None)},
                    vector=None if one.vector is None else list(one.vector),
                )
                for one in batch
            ]
            done = await self._client.within(partial(self._handle.data.insert_many, data), self._client.write_s)
            if done.has_errors:
                first = next(iter(done.errors.values())).message
                raise StoreUnavailable(f"Weaviate refused {len(done.errors)} of {len(batch)} objects: {first}")

    async def rewrite(self, objects: Sequence[Stored]) -> None:
        """Write objects so that each is indexed in full, whatever is there of it.

        With another vector than before all its indexes are made anew: so each is written without its own first.
        """
        bare = [replace(one, vector=None) for one in objects if one.vector is not None]
        await self.delete_unfound([one.id for one in objects if one.vector is None])
        await self.put(bare)
        await self.put(objects)

    async def put_unfound(self, objects: Sequence[Stored]) -> None:
        """Write objects that no filter found, and that may be there all the same."""
        await self.delete_unfound([one.id for one in objects])
        await self.put(objects)

    async def patch(self, object_id: UUID, properties: dict[str, Any]) -> None:
        """Change some properties of an object. One that went since it was read stays away: a further look tells."""
        update = self._handle.data.update
        try:
            await self._client.within(lambda: update(uuid=object_id, properties=properties), self._client.write_s)
        except StoreUnavailable as error:
            cause = error.__cause__
            if not isinstance(cause, UnexpectedStatusCodeError) or cause.status_code != HTTPStatus.NOT_FOUND:
                raise

    async def delete(self, ids: Collection[UUID]) -> int:
        """Delete objects by id and see that they are gone; return how many were there.

        Weaviate takes an unknown id for deleted: the count is of what matched, and afterwards none may match.
        """
        await self._finish_deletes()
        try:
            return sum([await self.delete_where(among(some)) for some in _slices(sorted(ids))])
        except (StoreUnavailable, asyncio.CancelledError):
            self._half_deleted.update(ids)
            raise

    async def delete_unfound(self, ids: Collection[UUID]) -> None:
        """Delete objects that may be there although no filter finds them."""
        await together(partial(self._delete_one, identity) for identity in sorted(ids))

    async def _finish_deletes(self) -> None:
        """Delete what an earlier delete may have left, before anything of the same id is written."""
        waiting = sorted(self._half_deleted)
        await self.delete_unfound(waiting)
        self._half_deleted.difference_update(waiting)

    async def _delete_one(self, identity: UUID) -> None:
        with contextlib.suppress(Absent):
            await self._client.within(lambda: self._handle.data.delete_by_id(identity), self._client.write_s)

    async def delete_where(self, where: Condition) -> int:
        """Delete what meets a condition until nothing does; return how many objects that were."""
        total = 0
        for _ in range(DELETE_ROUNDS):
            try:
                done = await self._client.within(lambda: self._handle.data.delete_many(where), self._client.write_s)
            except Absent:
                return total
            if done.failed:
                raise StoreUnavailable(f"Weaviate could not delete {done.failed} of {done.matches} objects")
            total += int(done.successful)
            if done.matches == 0:
                return total
        raise StoreUnavailable("Weaviate goes on finding what was deleted")

    async def fetch(self, where: Condition, names: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """Return all objects that meet a condition, in no order. More than a page are read slot by slot: no page is sorted."""
        first = await self.page(where, names, limit=PAGE, vectors=vectors)
        if len(first) < PAGE:
            return first
        width = SLOTS // (await self.count(where) // (PAGE // 2) + 1) + 1
        waiting = [(start, min(start + width, SLOTS)) for start in reversed(range(0, SLOTS, width))]
        found: list[Stored] = []
        while waiting:
            start, end = waiting.pop()
            page = await self.page(
                every(where, above("slot", start - 1), below("slot", end)), names, limit=PAGE, vectors=vectors
            )
            if len(page) < PAGE or end - start < 2:
                found += page
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
        return found

    async def fetch_any(
        self, name: str, values: Collection[str | int], names: Sequence[str], *more: Condition
    ) -> list[Stored]:
        """Return all objects of which a property is one of the values, whatever their number, each once."""
        conditions = [every(one_of(name, some), *more) for some in _slices(sorted(values, key=str))]
        return await self._fetch_each(conditions, names)

    async def fetch_either(self, values: Sequence[Pair], names: Sequence[str]) -> list[Stored]:
        """Return all objects that have any of the values, whatever their number, each once.

        ``values``: pairs of a property and a value; those that follow each other are asked for in the same query.
        """
        return await self._fetch_each([either(some) for some in _slices(values, PAIRS)], names)

    async def _fetch_each(self, conditions: Sequence[Condition], names: Sequence[str]) -> list[Stored]:
        pages = await together(partial(self.fetch, condition, names) for condition in conditions)
        return list({one.id: one for page in pages for one in page}.values())

    async def by_ids(self, ids: Collection[UUID], names: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """Return the objects among the ids."""
        pages = await together(
            partial(self.page, among(some), names, limit=len(some), vectors=vectors) for some in _slices(sorted(ids))
        )
        return [one for page in pages for one in page]

    async def page(
        self,
        where: Condition | None,
        names: Sequence[str],
        *,
        limit: int,
        order: Sequence[tuple[str, bool]] = (),
        vectors: bool = False,
    ) -> list[Stored]:
        """Return up to ``limit`` objects; ``order``: properties to sort by, true for ascending."""
        sort = None
        for name, ascending in order:
            sort = sort.by_property(name, ascending) if sort else Sort.by_property(name, ascending)
        return _objects(
            await self._read(
                lambda: self._handle.query.fetch_objects(
                    filters=where,
                    limit=min(limit, MOST),
                    sort=sort,
                    return_properties=list(names),
                    include_vector=vectors,
                )
            )
        )

    async def walk(self, names: Sequence[str]) -> AsyncIterator[Stored]:
        """Yield every object of the tenant, by id."""
        query = self._handle.query.fetch_objects
        last: UUID | None = None
        while True:
            page = _objects(await self._read(partial(query, limit=PAGE, after=last, return_properties=list(names))))
            for one in page:
                yield one
            if len(page) < PAGE:
                return
            last = page[-1].id

    async def near(
        self, vector: Sequence[float], where: Condition, names: Sequence[str], *, limit: int
    ) -> list[Stored]:
        """Return objects by cosine similarity, which is their score in [-1, 1], nearest first."""
        answer = await self._read(
            lambda: self._handle.query.near_vector(
                list(vector),
                filters=where,
                limit=min(limit, MOST),
                return_properties=list(names),
                return_metadata=MetadataQuery(distance=True),
            )
        )
        return _objects(answer, lambda metadata: 1.0 - float(metadata.distance))

    async def bm25(self, terms: Sequence[str], where: Condition, names: Sequence[str], *, limit: int) -> list[Stored]:
        """Return objects by BM25 over their words, best first."""
        answer = await self._read(
            lambda: self._handle.query.bm25(
                " ".join(terms),
                query_properties=["words"],
                filters=where,
                limit=min(limit, MOST),
                return_properties=list(names),
                return_metadata=MetadataQuery(score=True),
            )
        )
        return _objects(answer, lambda metadata: float(metadata.score))

    async def count(self, where: Condition) -> int:
        """Count what meets a condition."""
        answer = await self._read(lambda: self._handle.aggregate.over_all(filters=where, total_count=True))
        return 0 if answer is None else int(answer.total_count or 0)

    async def _read(self, call: Callable[[], Awaitable[Value]]) -> Value | None:
        with contextlib.suppress(Absent):
            return await self._client.within(call, self._client.answer_s)
        return None


def _last_searched(objects: Sequence[Stored]) -> list[Stored]:
    """Return the last object whose vector is searched, to be written twice.

    Weaviate (1.35) writes the log of the vector index out before the vectors of a batch are in it: killed after it has
    answered, it has the objects and finds none of them by nearness. A further batch, even of what is known, writes it out.
    """
    return [one for one in objects if one.vector is not None and len(one.vector) > 1][-1:]


def _objects(answer: Any, score: Callable[[Any], float] | None = None) -> list[Stored]:
    if answer is None:
        return []
    return [
        Stored(
            id=one.uuid,
            properties=dict(one.properties),
            vector=one.vector.get("default") if one.vector else None,
            score=score(one.metadata) if score else 0.0,
        )
        for one in answer.objects
    ]


def _batches(objects: Sequence[Stored]) -> Iterable[list[Stored]]:
    batch: list[Stored] = []
    size = 0
    for one in objects:
        texts = sum(len(value) for value in one.properties.values() if isinstance(value, str))
        weight = texts + 4 * len(one.vector or ())
        if batch and (len(batch) == BATCH or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += weight
    if batch:
        yield batch


def _slices(values: Sequence[Value], most: int = VALUES) -> Iterable[Sequence[Value]]:
    return (values[start : start + most] for start in range(0, len(values), most))
