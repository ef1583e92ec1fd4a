"""The writer: enters effects by the rules of the store in memory, and writes what came of it (commit.py)."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from schemas.commands import Job
from schemas.graph import Contribution
from schemas.positions import Position
from shared import jobs_kept
from shared.clock import Clock
from shared.embedder import Vectors
from shared.errors import InvalidInput, UnknownThing
from shared.passages import stated_text
from shared.store import (
    CONTRADICTIONS,
    Applied,
    Effect,
    FoundContradiction,
    KnownEvent,
    Resolved,
    Resolving,
    StoredContradiction,
)
from shared.stores.memory import MemoryStore
from shared.stores.weaviate import records, scan
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.commit import Commit, Memory
from shared.stores.weaviate.conditions import above, every, is_, without
from shared.stores.weaviate.fragment import Touched, begun, touched_by
from shared.stores.weaviate.live import LiveIndex
from shared.stores.weaviate.models import Models, read_models, write_models
from shared.stores.weaviate.reader import open_snapshot
from shared.stores.weaviate.records import CONTRADICTION, STANDING, STATEMENT, WATERMARK, Record
from shared.stores.weaviate.schema import PREFIX, record_collection
from shared.stores.weaviate.table import Table
from shared.together import both
from shared.validity import micros
from shared.vector_models import Coverage, KnownModel, Text

_TEXTS = every(is_("kind", STATEMENT), is_("past", STANDING), above("text", ""))
"""Statements whose texts count: what stands, and parts that wait."""


PASSED_MARKS = 32
"""Records of older watermarks that are left to be deleted together: to delete one costs as much as to write a batch."""
LATE_S = 30.0
"""A process that lost its partitions while it slept may write an older state when it wakes, and be killed before it looks
again. Three times a session (10 s), so whoever took over looks after that, at what had something older to be brought back.
"""
LATE_UNITS, LATE_AT_ONCE = 50_000, 500
"""Units a tenant that wait for that look (more: the oldest are let go), and how many a batch takes along."""


class WeaviateWriter:
    """Writes the knowledge of every tenant. Any number of processes may, each for the partitions that it was given.

    What two write at once ends as the rules want it, for what stands follows from the set of statements and not from who
    came last; see commit.py. ``prefix`` sets the collections of one installation apart.
    """

    def __init__(
        self,
        url: str,
        grpc: str,
        clock: Clock,
        *,
        prefix: str = PREFIX,
        consistency: str = "QUORUM",
        replication: int = 1,
    ) -> None:
        self._client = Client(url, grpc, consistency=consistency, replication=replication)
        self._clock = clock
        self._prefix = prefix
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pair_turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._memory: defaultdict[str, Memory] = defaultdict(Memory)
        self._ready = False
        self._late: defaultdict[str, deque[tuple[float, str]]] = defaultdict(lambda: deque(maxlen=LATE_UNITS))
        self._marks: dict[str, dict[tuple[str, str, int], int]] = {}
        self._passed: defaultdict[str, set[UUID]] = defaultdict(set)

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable, and only then the watermark; see the protocol, and commit.py for what is not atomic."""
        touched = touched_by(effects)
        async with self._turns[tenant]:
            due = self._due(tenant)
            touched.late = due - touched.units
            touched.units |= due
            touched.again |= due
            commit = await self._commit(tenant)
            fragment = await commit.load(touched)
            if fragment.models.active is None and any(effect.vectors is not None for effect in effects):
                early = await self._early(tenant)
                if early - fragment.units:
                    touched.units |= early
                    fragment = await commit.load(touched)
            state = fragment.state
            state.vectors = fragment.models.state()
            unfinished = begun(fragment, effects)
            before = dict(state.events)
            applied = await MemoryStore(self._clock, [state]).apply(tenant, effects)
            if state.vectors.dims != fragment.models.dims:
                fragment.models = Models(state.vectors.active, dict(state.vectors.dims))
                await write_models(self._client, self._prefix, tenant, fragment.models)
            await commit.write(touched, fragment, state.vectors.texts, begun=unfinished)
            await self._note(tenant, [known for key, known in state.events.items() if before.get(key) is not known])
            await self._move(tenant, state.watermarks)
            later = self._clock.monotonic() + LATE_S
            self._late[tenant].extend((later, unit_id) for one in applied for unit_id in one.receipt.before)
        return applied

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before."""
        found = await self._records(tenant).fetch_any(
            "text", content_keys, ["text", "vectors"], is_("models", model), is_("past", STANDING)
        )
        kept = {one.properties["text"]: records.vectors_of(one.properties["vectors"]) for one in found}
        return {key: vectors[model] for key, vectors in kept.items() if model in vectors}

    async def models(self, tenant: str) -> list[KnownModel]:
        """Return the tenant's models, the active one first."""
        return (await read_models(self._client, self._prefix, tenant)).state().models()

    async def add_model(self, tenant: str, model: str, dims: int) -> None:
        """Make a model known, so that its vectors are kept, and a collection for it."""
        async with self._turns[tenant]:
            await self._commit(tenant)
            state = (await read_models(self._client, self._prefix, tenant)).state()
            state.add_model(model, dims)
            await write_models(self._client, self._prefix, tenant, Models(state.active, state.dims))

    async def coverage(self, tenant: str, model: str) -> Coverage:
        """Return how many texts lack a model's vectors; a text of several units lacks them while one of its units does."""
        found = await self._records(tenant).fetch(_TEXTS, ["text", "models"])
        texts = {one.properties["text"] for one in found}
        lacking = {one.properties["text"] for one in found if model not in (one.properties["models"] or ())}
        return Coverage(len(texts), len(lacking))

    async def texts_without(self, tenant: str, model: str, limit: int, after: str = "") -> list[Text]:
        """Return texts that lack a model's vectors."""
        where = every(_TEXTS, above("text", after), without("models", model))
        found: dict[str, Text] = {}
        for one in await self._records(tenant).page(where, ["text", "body"], limit=limit, order=[("text", True)]):
            unit = records.statement_from(one.properties["body"]).unit
            if unit is not None:
                found.setdefault(one.properties["text"], Text(one.properties["text"], stated_text(unit), unit.id))
        return list(found.values())

    async def put_vectors(self, tenant: str, model: str, vectors: Mapping[str, Vectors]) -> int:
        """Keep vectors of texts in place of older ones of this model, in their statements and in what is searched."""
        async with self._turns[tenant]:
            commit = await self._commit(tenant)
            state = (await read_models(self._client, self._prefix, tenant)).state()
            found = await self._records(tenant).fetch_any("text", vectors, ["text", "body"], is_("past", STANDING))
            counted = {one.properties["text"] for one in found}
            kept = state.replace(model, vectors, counted)
            if kept:
                units = {records.statement_from(one.properties["body"]).unit_id for one in found}
                touched = Touched(units)
                await commit.write(touched, await commit.load(touched), state.texts, replacing=True)
            return kept

    async def activate_model(self, tenant: str, model: str) -> bool:
        """Let searches use a model, unless a text lacks its vectors. One record says which: snapshots read it once."""
        async with self._turns[tenant]:
            models = await read_models(self._client, self._prefix, tenant)
            if model not in models.dims:
                raise UnknownThing(f"nothing is kept of the embedding model {model}")
            if await self._records(tenant).page(every(_TEXTS, without("models", model)), ["kind"], limit=1):
                return False
            await write_models(self._client, self._prefix, tenant, Models(model, models.dims))
            return True

    async def drop_model(self, tenant: str, model: str, limit: int) -> int:
        """Forget a model, and some of its vectors."""
        async with self._turns[tenant]:
            models = await read_models(self._client, self._prefix, tenant)
            if model == models.active:
                raise InvalidInput(f"{model} is the embedding model that is searched; change to another one first")
            if model in models.dims:
                left = {name: dims for name, dims in models.dims.items() if name != model}
                await write_models(self._client, self._prefix, tenant, Models(models.active, left))
            return await self._drop_vectors(tenant, model, limit)

    async def record_contradictions(
        self,
        tenant: str,
        position: Position | None,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Replace what is kept for the checked units, and move the watermark."""
        async with self._pair_turns[tenant]:
            await self._commit(tenant)
            await self._forget_marks(tenant)
            new = await self._replace(tenant, checked, found, micros(recorded_at), keep_standing=position is not None)
            if position is not None:
                await self._move(tenant, {(CONTRADICTIONS, position.topic, position.partition): position.number})
        if not new:
            return []
        units = {unit_id for pair in found for unit_id in pair.units}
        async with open_snapshot(self._client, self._prefix, tenant, self._clock) as snapshot:
            kept = await snapshot.contradictions(unit_ids=units, open_only=False, limit=-1)
        return [pair for pair in kept if pair.found.id in new]

    async def resolve_again(self, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
        """Keep what units' texts were resolved to anew, where they have not changed since."""
        async with self._turns[tenant]:
            commit = await self._commit(tenant)
            touched = Touched({one.unit_id for one in resolving})
            fragment = await commit.load(touched)
            resolved = await MemoryStore(self._clock, [fragment.state]).resolve_again(tenant, resolving)
            await commit.write(touched, fragment, {})
            return resolved

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state; one that is over stays as it ended, and those beyond what is kept go."""
        await self._commit(tenant)
        table = self._records(tenant)
        going, over = (records.job_id(tenant, job.id, finished=finished) for finished in (False, True))
        if await table.by_ids([over], ["kind"]):
            return
        await table.put([records.job_record(tenant, job).stored()])
        if job.finished:
            await table.delete([going])
            is_over = is_("keys", records.JOB_OVER)
            excess = await table.count(is_over) - jobs_kept.KEPT
            if excess > 0:
                oldest = await table.page(is_over, ["kind"], limit=excess, order=[("number", True)])
                await table.delete([one.id for one in oldest])

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now."""
        return await scan.contributions(self._client, self._prefix, tenant)

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the digests of the tenant's state: of units and mentions as they are searched, of the rest as recorded."""
        async with open_snapshot(self._client, self._prefix, tenant, self._clock) as snapshot:
            return await scan.digest(self._client, self._prefix, tenant, snapshot)

    async def fingerprints(self, tenant: str, part: str) -> dict[str, str]:
        """Return the fingerprint of each thing of a part of the tenant's state."""
        async with open_snapshot(self._client, self._prefix, tenant, self._clock) as snapshot:
            return await scan.fingerprints(self._client, self._prefix, tenant, snapshot, part)

    async def close(self) -> None:
        """Close the connections; what was applied is durable already."""
        await self._client.close()

    def _records(self, tenant: str) -> Table:
        return Table(self._client, record_collection(self._prefix).name, tenant)

    async def _commit(self, tenant: str) -> Commit:
        if not self._ready:
            await self._client.ensure(record_collection(self._prefix))
            self._ready = True
        return Commit(self._client, self._prefix, self._records(tenant), tenant, self._memory[tenant])

    async def _note(self, tenant: str, news: Sequence[KnownEvent]) -> None:
        """Enter into the ledger what was done with events: from now on they count as handled."""
        ledger = [records.event_record(tenant, known).stamped().stored() for known in news]
        await both(partial(self._records(tenant).put, ledger), partial(self._forget_marks, tenant))

    def _due(self, tenant: str) -> set[str]:
        """Return units that were replaced or withdrawn a while ago: they are looked at once more with the next batch."""
        late, now = self._late[tenant], self._clock.monotonic()
        due: set[str] = set()
        while late and late[0][0] <= now and len(due) < LATE_AT_ONCE:
            due.add(late.popleft()[1])
        return due

    async def _early(self, tenant: str) -> set[str]:
        """Return the units that came before any vectors: no model's collection was there for them, now there is one."""
        found = await self._records(tenant).fetch(_TEXTS, ["body"])
        return {records.statement_from(one.properties["body"]).unit_id for one in found}

    async def _move(self, tenant: str, wanted: Mapping[tuple[str, str, int], int]) -> None:
        """Move watermarks up. The older records are deleted with a later batch: what is read is the highest."""
        table, marks = self._records(tenant), self._marks.get(tenant)
        if marks is None:
            found = [records.record_of(one) for one in await table.fetch(is_("kind", WATERMARK), records.NAMES)]
            marks = self._marks.setdefault(tenant, {})
            for key, number in map(records.watermark_from, found):
                marks[key] = max(number, marks.get(key, number))
            lower = [one.id for one in found for key, number in [records.watermark_from(one)] if number < marks[key]]
            self._passed[tenant].update(lower)
        higher = {key: number for key, number in wanted.items() if number > marks.get(key, -1)}
        moved = [records.watermark_record(tenant, *key, number) for key, number in higher.items()]
        await table.put([record.stamped().stored() for record in moved])
        self._passed[tenant].update(
            records.watermark_record(tenant, *key, marks[key]).id for key in higher if key in marks
        )
        marks.update(higher)

    async def _forget_marks(self, tenant: str) -> None:
        """Delete the records of watermarks that a higher one has taken the place of, many at once."""
        passed = set(self._passed[tenant])
        if len(passed) < PASSED_MARKS:
            return
        await self._records(tenant).delete(passed)
        self._passed[tenant] -= passed

    async def _replace(
        self,
        tenant: str,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
        recorded: int,
        *,
        keep_standing: bool,
    ) -> set[str]:
        """Write pairs and delete those that have fallen, or that were not found again; return the ids of the new ones."""
        table = self._records(tenant)
        there = await table.fetch_any(
            "keys", {records.pair_key(unit_id) for unit_id in checked}, ["body"], is_("kind", CONTRADICTION)
        )
        known = [(one.id, *records.contradiction_from(one.properties["body"])) for one in there]
        before = {(pair.id, pair.revisions): at for _, pair, at in known}
        kept: list[Record] = [
            records.contradiction_record(tenant, pair, min(before.get((pair.id, pair.revisions), recorded), recorded))
            for pair in found
        ]
        await table.put([record.stamped().stored() for record in kept])
        standing: set[str] = set()
        if keep_standing and known:
            async with open_snapshot(self._client, self._prefix, tenant, self._clock) as snapshot:
                standing = await snapshot.standing_pairs(checked)
        gone = {identity for identity, pair, _ in known if pair.id not in standing}
        await table.delete(gone - {record.id for record in kept})
        return {pair.id for pair in found if (pair.id, pair.revisions) not in before}

    async def _drop_vectors(self, tenant: str, model: str, limit: int) -> int:
        """Take a model's vectors out of some statements; the index goes with the last."""
        table = self._records(tenant)
        found = await table.page(
            every(is_("kind", STATEMENT), is_("models", model)), (*records.WHOLE, "vectors"), limit=limit
        )
        if not found:
            await LiveIndex(self._client, self._prefix, tenant, model).table.delete_where(above("chunk", -1))
            return 0
        await table.put(
            [
                records.record_of(one)
                .with_vectors(
                    {
                        name: kept
                        for name, kept in records.vectors_of(one.properties["vectors"]).items()
                        if name != model
                    }
                )
                .stored()
                for one in found
            ]
        )
        return len(found)
