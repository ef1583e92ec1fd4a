"""A tenant's knowledge as Weaviate has it now: it keeps no older states, so calls see what was written meanwhile too.

All calls see at least what was durable when the snapshot was opened, and all search the model that was active then.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import partial

import numpy as np

from schemas.answers import KnownUnit
from schemas.commands import Job, Selection
from schemas.entities import EntityDeclaration, RelationDeclaration
from shared.embedder import Vector, Vectors
from shared.errors import InvalidInput
from shared.known_units import known_unit
from shared.store import (
    STORED,
    FoundContradiction,
    KnownEvent,
    Membership,
    PassageHit,
    SearchFilter,
    SelectedUnit,
    StoreCounts,
    StoredContradiction,
    StoredUnit,
    UnitVersion,
)
from shared.stores.memory_again import version_of
from shared.stores.weaviate import contradictions, records, search
from shared.stores.weaviate.about import about
from shared.stores.weaviate.conditions import Condition, above, every, is_, one_of, true
from shared.stores.weaviate.contradictions import Listed
from shared.stores.weaviate.declared import declared, memberships
from shared.stores.weaviate.filters import passing
from shared.stores.weaviate.floors import Floors
from shared.stores.weaviate.known_units import stored_units
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.models import Models
from shared.stores.weaviate.records import DOCUMENT, ENTITY, JOB, PAST, RELATION, STATEMENT, WATERMARK
from shared.stores.weaviate.scopes import Scopes, Witnesses
from shared.stores.weaviate.sharing import Sharing
from shared.stores.weaviate.table import Table
from shared.together import both, together
from shared.vector_models import KnownModel


class WeaviateSnapshot:
    """Reads of one tenant. ``live``: its collection of each known model; nothing is live before the first vectors."""

    def __init__(
        self,
        kept: Table,
        live: dict[str, Table],
        *,
        tenant: str,
        models: Models,
        now: datetime,
        counts: search.TermCounts,
        floors: Floors,
        witnesses: Witnesses,
    ) -> None:
        self._records = kept
        self._tables = live
        self._live = live.get(models.active or "")
        self._sharing = None if self._live is None else Sharing(self._live, tenant, floors)
        self._floors = floors
        self._scopes = Scopes(kept, self._live, tenant, witnesses)
        self._tenant = tenant
        self._models = models
        self._now = now
        self._counts = counts

    async def memberships(self, principal: str | None) -> list[Membership]:
        """Return the scopes a principal may read."""
        return await memberships(self._records, self._scopes, principal, self._now)

    async def watermarks(self, stage: str = STORED) -> dict[tuple[str, int], int]:
        """Return the highest number whose effect is durable, per (topic, partition)."""
        found = await self._records.fetch(every(is_("kind", WATERMARK), is_("keys", f"stage:{stage}")), records.NAMES)
        highest: dict[tuple[str, int], int] = {}
        for (_, topic, partition), number in map(records.watermark_from, map(records.record_of, found)):
            highest[topic, partition] = max(number, highest.get((topic, partition), number))
        return highest

    async def model(self) -> str | None:
        """Return the name of the model whose vectors are searched."""
        return self._models.active

    async def models(self) -> list[KnownModel]:
        """Return the models whose vectors are kept."""
        return self._models.state().models()

    async def keyword(self, terms: Sequence[str], where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by Weaviate's BM25, which counts units and not passages; higher is better."""
        condition = passing(where)
        if self._live is None or condition is None:
            return []
        telling = await self._counts.telling(self._live, self._tenant, terms)
        return await search.by_words(self._live, telling, condition, limit)

    async def vector(self, query: Vector, where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by cosine similarity: exact where the filter leaves no more than 40,000 objects, else by HNSW."""
        condition = passing(where)
        if self._live is None or condition is None:
            return []
        self._require_fitting(query)
        return await search.by_nearness(self._live, query, condition, limit)

    async def similarities(self, query: Vector, passage_ids: Collection[int]) -> dict[int, float]:
        """Return the cosine similarity of each passage."""
        if self._live is None:
            return {}
        self._require_fitting(query)
        return await search.similarities(self._live, query, passage_ids)

    async def passage_vectors(self, passage_ids: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors of each passage."""
        if self._live is None or not passage_ids:
            return {}
        units: dict[int, str] = {}
        rows: dict[str, dict[int, Sequence[float]]] = {}
        where = every(one_of("pid", sorted(passage_ids)), above("chunks", 0))
        for one in await self._live.fetch(where, ("pid", "unit_id", "chunk"), vectors=True):
            pid, unit_id = int(one.properties["pid"]), one.properties["unit_id"]
            units[pid] = min(unit_id, units.get(pid, unit_id))
            if one.vector is not None:
                rows.setdefault(unit_id, {})[int(one.properties["chunk"])] = one.vector
        return {
            pid: np.array([rows[unit_id][chunk] for chunk in sorted(rows[unit_id])], dtype=np.float32)
            for pid, unit_id in sorted(units.items())
            if unit_id in rows
        }

    async def about(self, keys: Collection[str], where: SearchFilter, limit: int) -> dict[str, list[PassageHit]]:
        """Return passages about each key."""
        condition = passing(where)
        if self._live is None or condition is None:
            return {key: [] for key in keys}
        named = await about(self._live, keys, condition, limit, tenant=self._tenant, floors=self._floors)
        units = await search.passing_units(self._live, {pid for scores in named.values() for pid in scores}, condition)
        return {
            key: [PassageHit(pid, score, units[pid]) for pid, score in scores.items() if pid in units]
            for key, scores in named.items()
        }

    async def sharing(self, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
        """Return, for each set of keys, the newest units of any."""
        if self._sharing is None or limit < 1:
            return [[] for _ in wanted]
        return await self._sharing.newest(wanted, limit)

    async def latest(self, where: SearchFilter, limit: int, *, oldest_first: bool = False) -> list[PassageHit]:
        """Return passages by time."""
        condition = passing(where)
        if self._live is None or condition is None or limit < 1:
            return []
        return await search.by_time(self._live, condition, limit, oldest_first=oldest_first)

    async def units(self, unit_ids: Collection[str]) -> dict[str, StoredUnit]:
        """Return the live units among the ids."""
        if self._live is None:
            return {}
        return await stored_units(self._records, self._live, self._now, unit_ids)

    async def history(self, unit_id: str) -> list[KnownUnit]:
        """Return older revisions, newest first."""
        where = every(is_("keys", records.unit_key(unit_id)), is_("past", PAST), is_("kind", STATEMENT))
        said = [records.statement_from(one.properties["body"]) for one in await self._records.fetch(where, ["body"])]
        said.sort(key=lambda one: one.rank, reverse=True)
        return [known_unit(one) for one in said if one.unit is not None]

    async def contradictions(
        self,
        *,
        unit_ids: Collection[str] | None = None,
        scopes: frozenset[str] | None = None,
        limit: int = 100,
        after: str | None = None,
        open_only: bool = True,
    ) -> list[StoredContradiction]:
        """Return contradictions by id."""
        found = await self._pairs(unit_ids)
        kept = [
            one.stored
            for one in found
            if (after is None or one.stored.found.id > after)
            and (scopes is None or (one.scopes and one.scopes <= scopes))
            and (one.stored.open or not open_only)
        ]
        return kept if limit < 0 else kept[:limit]

    async def standing_pairs(self, unit_ids: Collection[str]) -> set[str]:
        """Return the ids of the units' pairs whose two revisions are both live."""
        found = await self._pairs(unit_ids)
        return {one.stored.found.id for one in found if one.stands}

    async def standing_contradictions(self) -> list[FoundContradiction]:
        """Return the pairs whose two revisions are both live."""
        found = await self._pairs()
        return [one.stored.found for one in found if one.stands]

    async def entities(self) -> tuple[int, list[EntityDeclaration]]:
        """Return a version, and the declared entities by id."""
        version = await self.entities_version()
        found = [data for data in await declared(self._records, ENTITY) if isinstance(data, EntityDeclaration)]
        return version, sorted(found, key=lambda one: one.id)

    async def entities_version(self) -> int:
        """Return the version alone."""
        found = await self._records.by_ids([records.version_id(self._tenant, ENTITY)], ["number"])
        return int(found[0].properties["number"]) if found else 0

    async def relations(self, entity_id: str | None = None) -> list[RelationDeclaration]:
        """Return declared relations by identity."""
        keys = None if entity_id is None else {f"source:{entity_id}", f"target:{entity_id}"}
        found = [
            data for data in await declared(self._records, RELATION, keys) if isinstance(data, RelationDeclaration)
        ]
        return sorted(found, key=lambda one: f"{one.source_id} {one.relation.value} {one.target_id}")

    async def entity_keys(self, scopes: frozenset[str], limit: int, after: str | None = None) -> list[tuple[str, int]]:
        """Return mentioned keys with their unit counts. Reads the keys of all units of the scopes, whatever the page."""
        if self._live is None or not scopes:
            return []
        found = await self._live.fetch(every(one_of("scope", sorted(scopes)), FIRST_CHUNK), ["keys"])
        counts = Counter(key for one in found for key in one.properties["keys"] or () if not key.startswith("="))
        return sorted((key, count) for key, count in counts.items() if key > (after or ""))[:limit]

    async def counts(self) -> StoreCounts:
        """Return totals."""
        numbers: list[Callable[[], Awaitable[int]]] = [
            self._passages,
            partial(self._records.count, every(is_("kind", DOCUMENT), above("number", 0))),
            partial(self._records.count, every(is_("kind", ENTITY), is_("number", 0))),
            partial(self._records.count, every(is_("kind", RELATION), is_("number", 0))),
        ]
        (passages, documents, entities, relations), (by_scope, pairs) = await both(
            lambda: together(numbers), lambda: both(self._scopes.counts, self._pairs)
        )
        return StoreCounts(
            units=sum(by_scope.values()),
            passages=passages,
            documents=documents,
            entities=entities,
            relations=relations,
            contradictions_open=sum(pair.stored.open for pair in pairs),
            by_scope=by_scope,
        )

    async def _passages(self) -> int:
        return 0 if self._live is None else await self._live.count(every(true("leads"), FIRST_CHUNK))

    async def events(self, event_id: str, source: str | None = None) -> list[KnownEvent]:
        """Return what the store did with the events of an id, by source."""
        found = await self._records.fetch(is_("keys", f"event:{event_id}"), ["body"])
        known = [records.event_from(one.properties["body"]) for one in found]
        return sorted((one for one in known if source in (None, one.source)), key=lambda one: one.source)

    async def jobs(self, limit: int = 100, job_id: str | None = None) -> list[Job]:
        """Return background jobs, newest first, or the one of an id."""
        where = every(is_("kind", JOB), *(() if job_id is None else (is_("keys", f"job:{job_id}"),)))
        found = await self._records.page(where, ["body"], limit=2 * limit, order=[("number", False)])
        jobs = [Job.model_validate_json(one.properties["body"]) for one in found]
        # of a job that ended just now there may be both records: the last one counts
        latest = {job.id: job for job in sorted(jobs, key=lambda job: job.finished)}
        return sorted(latest.values(), key=lambda job: (job.requested_at, job.id), reverse=True)[:limit]

    async def select(self, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
        """Return live units that fit, by unit id, those beyond ``after``."""
        table, where = self._selected(selection)
        if table is None:
            return []
        beyond = every(where, above("unit_id", after))
        found = await table.page(beyond, ["body"], limit=limit, order=[("unit_id", True)])
        said = [records.statement_from(one.properties["body"]) for one in found]
        return [
            SelectedUnit(one.unit, version_of(one), one.rank.revision, one.content_key or "", one.recorded_at)
            for one in said
            if one.unit is not None
        ]

    async def count_selected(self, selection: Selection) -> int:
        """Return how many live units fit."""
        table, where = self._selected(selection)
        return 0 if table is None else await table.count(where)

    async def _pairs(self, unit_ids: Collection[str] | None = None) -> list[Listed]:
        pairs = await contradictions.recorded(self._records, unit_ids)
        return await contradictions.listed(self._live, self._now, pairs)

    def _selected(self, selection: Selection) -> tuple[Table | None, Condition]:
        conditions = [FIRST_CHUNK]
        if selection.scope is not None:
            conditions.append(is_("scope", selection.scope))
        if selection.source is not None:
            conditions.append(is_("source", selection.source))
        if selection.unit_ids is not None:
            conditions.append(one_of("unit_id", selection.unit_ids))
        if selection.model is not None:
            conditions.append(above("chunks", 0))
        table = self._live if selection.model is None else self._tables.get(selection.model)
        return table, every(*conditions)

    def _require_fitting(self, query: Vector) -> None:
        dims = self._models.dims[self._models.active or ""]
        if len(query) != dims:
            raise InvalidInput(f"the question's vector has {len(query)} dimensions, and the index {dims}")
