"""One consistent view of a tenant in memory: plain loops over the live units, and the definition of each search."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from schemas.answers import KnownUnit
from schemas.commands import Job, Selection
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.units import ScopeLevel, Unit
from shared.contributions import found_by
from shared.effects import Statement
from shared.embedder import Vector, Vectors
from shared.known_units import known_unit
from shared.memberships import LEVELS, walk
from shared.mentions import subject_key
from shared.passages import index_terms, passage_id, passage_key, telling_terms
from shared.similarity import cosines, fitting
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
from shared.stores.memory_again import select, version_of
from shared.validity import Held, Successor, from_micros, held, micros, passes, supersession
from shared.vector_models import KnownModel

BM25_K1, BM25_B = 1.2, 0.75
BM25_IDF_FLOOR = 1e-6
"""The constants of SQLite's FTS5, so that both stores rank alike."""


@dataclass(frozen=True)
class Live:
    """A live unit with what is derived about it."""

    statement: Statement
    unit: Unit
    pid: int
    times: Held
    superseded_from: int | None
    superseded_by: str | None


@dataclass(frozen=True)
class Contents:
    """What a view is made of: copies, so that later writes do not show."""

    live: dict[str, Statement]
    history: dict[str, tuple[Statement, ...]]
    model: str | None
    models: tuple[KnownModel, ...]
    vectors: dict[str, Vectors]
    embedded: frozenset[tuple[str, str]]
    declared: tuple[EntityDeclaration | RelationDeclaration, ...]
    entities_version: int
    documents: int
    contradictions: dict[str, tuple[FoundContradiction, datetime]]
    watermarks: dict[tuple[str, str, int], int]
    events: dict[tuple[str, str], KnownEvent]
    jobs: dict[str, Job]


class MemorySnapshot:
    """A tenant as one commit left it."""

    def __init__(self, contents: Contents, now: datetime) -> None:
        self._contents = contents
        self._now = now

    @cached_property
    def _live(self) -> dict[str, Live]:
        units = {unit_id: said.unit for unit_id, said in self._contents.live.items() if said.unit is not None}
        times = {unit_id: held(unit, self._contents.live[unit_id].recorded_at) for unit_id, unit in units.items()}
        successors: dict[str, list[Successor]] = {}
        for unit_id, unit in units.items():
            if unit.supersedes is not None:
                successors.setdefault(unit.supersedes, []).append(Successor(unit_id, unit.scope, times[unit_id].start))
        found = {}
        for unit_id, unit in units.items():
            own = Successor(unit_id, unit.scope, times[unit_id].start, unit.supersedes)
            since, by = supersession(own, successors.get(unit_id, ()))
            statement = self._contents.live[unit_id]
            pid = passage_id(passage_key(unit, statement.content_key or ""))
            found[unit_id] = Live(statement, unit, pid, times[unit_id], since, by)
        return found

    @cached_property
    def _passages(self) -> dict[int, list[Live]]:
        found: dict[int, list[Live]] = {}
        for live in self._live.values():
            found.setdefault(live.pid, []).append(live)
        return found

    @cached_property
    def _words(self) -> dict[int, list[str]]:
        turns: dict[tuple[str | None, int, str], Unit] = {}
        for live in sorted(self._live.values(), key=lambda live: live.unit.id):
            if live.unit.turn is not None:
                turns.setdefault((live.unit.session_id, live.unit.turn, live.unit.scope.key), live.unit)
        found = {}
        for pid, members in self._passages.items():
            first = min((live.unit for live in members), key=lambda unit: unit.id)
            before, after = (
                turns.get((first.session_id, first.turn + step, first.scope.key)) if first.turn is not None else None
                for step in (-1, 1)
            )
            titles = [live.unit.title for live in members if live.unit.title is not None]
            found[pid] = index_terms(first, titles, before, after)
        return found

    async def memberships(self, principal: str | None) -> list[Membership]:
        """Return the scopes a principal may read."""
        in_use = sorted({live.unit.scope.key for live in self._live.values()})
        if principal is None:
            return [Membership(key, 0) for key in in_use]
        entities = {entity.id: entity for entity in (await self.entities())[1]}
        relations = await self.relations()

        def levels(entity_id: str) -> list[ScopeLevel]:
            if entity_id in entities:
                kind = entities[entity_id].type
                return [LEVELS[kind]] if kind in LEVELS else []
            scopes = {live.unit.scope for live in self._live.values() if live.unit.scope.entity_id == entity_id}
            return [scope.level for scope in scopes if scope.level is not ScopeLevel.PERSONAL]

        def upward(entity_id: str) -> list[RelationDeclaration]:
            return [relation for relation in relations if relation.source_id == entity_id]

        return walk(principal, upward, levels, self._now)

    async def watermarks(self, stage: str = STORED) -> dict[tuple[str, int], int]:
        """Return the highest number whose effect is durable."""
        found = self._contents.watermarks.items()
        return {(topic, partition): number for (name, topic, partition), number in found if name == stage}

    async def keyword(self, terms: Sequence[str], where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by BM25."""
        counted = {pid: Counter(words) for pid, words in self._words.items()}
        frequency = {term: sum(term in words for words in counted.values()) for term in terms}
        telling = telling_terms(frequency, len(counted))
        # Each passage has one word more than its text: FTS5 keeps the scope in a column of its own and counts it.
        sizes = {pid: len(words) + 1 for pid, words in self._words.items()}
        average = sum(sizes.values()) / len(sizes) if sizes else 1.0
        scores: dict[int, float] = {}
        for pid, words in counted.items():
            if any(words[term] for term in telling):
                norm = BM25_K1 * (1 - BM25_B + BM25_B * sizes[pid] / average)
                scores[pid] = sum(
                    _idf(frequency[term], len(counted)) * words[term] * (BM25_K1 + 1) / (words[term] + norm)
                    for term in telling
                )
        return self._hits(sorted(scores.items(), key=lambda item: (-item[1], item[0])), where, limit)

    async def model(self) -> str | None:
        """Return the name of the model whose vectors are searched."""
        return self._contents.model

    async def models(self) -> list[KnownModel]:
        """Return the models whose vectors are kept."""
        return list(self._contents.models)

    async def vector(self, query: Vector, where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by cosine similarity."""
        scores = await self.similarities(query, self._passages)
        return self._hits(sorted(scores.items(), key=lambda item: (-item[1], item[0])), where, limit)

    async def similarities(self, query: Vector, passage_ids: Collection[int]) -> dict[int, float]:
        """Return the cosine similarity of each passage."""
        found = await self.passage_vectors(passage_ids)
        return {pid: float(cosines(fitting(vectors, query), query).max()) for pid, vectors in found.items()}

    async def passage_vectors(self, passage_ids: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors of each passage."""
        found = {}
        for pid in sorted(set(passage_ids) & set(self._passages)):
            kept = self._contents.vectors.get(self._passages[pid][0].statement.content_key or "")
            if kept is not None:
                found[pid] = kept
        return found

    async def about(self, keys: Collection[str], where: SearchFilter, limit: int) -> dict[str, list[PassageHit]]:
        """Return passages about each key."""
        found = {}
        for key in sorted(set(keys)):
            ranked = sorted(
                (not about, -live.times.moment, live.unit.id, live.pid)
                for live in self._passing(self._live.values(), where)
                if (about := found_by(live.unit, live.statement.mentions).get(key)) is not None
            )
            first = {pid: 0.5 if mentioned else 1.0 for mentioned, _, _, pid in reversed(ranked)}
            order = list(dict.fromkeys(pid for _, _, _, pid in ranked))
            found[key] = self._hits([(pid, first[pid]) for pid in order], where, limit)
        return found

    async def sharing(self, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
        """Return, for each set of keys, the newest units of any."""
        return [self._sharing(keys, limit) for keys in wanted]

    def _sharing(self, keys: Collection[str], limit: int) -> list[UnitVersion]:
        found = [
            live
            for live in self._live.values()
            if not set(keys).isdisjoint(found_by(live.unit, live.statement.mentions))
        ]
        found.sort(key=lambda live: (-live.times.moment, live.unit.id))
        return [UnitVersion(live.unit.id, version_of(live.statement)) for live in found[:limit]]

    async def select(self, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
        """Return live units that fit, by unit id, those beyond ``after``."""
        return [one for one in self._selected(selection) if one.unit.id > after][:limit]

    async def count_selected(self, selection: Selection) -> int:
        """Return how many live units fit."""
        return len(self._selected(selection))

    def _selected(self, selection: Selection) -> list[SelectedUnit]:
        return select(self._contents.live, self._contents.embedded, selection)

    async def latest(self, where: SearchFilter, limit: int, *, oldest_first: bool = False) -> list[PassageHit]:
        """Return passages by time."""
        sign = 1 if oldest_first else -1
        ranked = sorted(
            (sign * live.times.moment, live.unit.id, live.pid) for live in self._passing(self._live.values(), where)
        )
        first: dict[int, float] = {}
        for moment, _, pid in ranked:
            first.setdefault(pid, sign * moment / 1e6)
        return self._hits(first.items(), where, limit)

    async def units(self, unit_ids: Collection[str]) -> dict[str, StoredUnit]:
        """Return the live units among the ids."""
        found = {}
        for unit_id in sorted(set(unit_ids) & set(self._live)):
            live = self._live[unit_id]
            stops = [end for end in (live.times.ends, live.superseded_from) if end is not None]
            known = known_unit(
                live.statement,
                corroborations=len({other.statement.rank.source for other in self._passages[live.pid]}),
                contradiction_refs=self._partners(unit_id),
                superseded_by=live.superseded_by,
                held_until=from_micros(min(stops)) if stops else None,
            )
            said = live.statement
            found[unit_id] = StoredUnit(known, live.pid, said.mentions, subject_key(live.unit), said.claims)
        return found

    async def history(self, unit_id: str) -> list[KnownUnit]:
        """Return older revisions, newest first."""
        return [known_unit(statement) for statement in self._contents.history.get(unit_id, ())]

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
        found = []
        for identity, (pair, recorded_at) in sorted(self._contents.contradictions.items()):
            stands = self._stands(pair)
            if after is not None and identity <= after:
                continue
            if unit_ids is not None and not set(unit_ids) & set(pair.units):
                continue
            if scopes is not None and not (
                stands and all(self._live[side].unit.scope.key in scopes for side in pair.units)
            ):
                continue
            stored = StoredContradiction(pair, recorded_at, stands and self._holds(pair))
            if stored.open or not open_only:
                found.append(stored)
        return found if limit < 0 else found[:limit]

    async def entities(self) -> tuple[int, list[EntityDeclaration]]:
        """Return a version, and the declared entities by id."""
        found = [item for item in self._contents.declared if isinstance(item, EntityDeclaration)]
        return self._contents.entities_version, sorted(found, key=lambda entity: entity.id)

    async def entities_version(self) -> int:
        """Return the version alone."""
        return self._contents.entities_version

    async def relations(self, entity_id: str | None = None) -> list[RelationDeclaration]:
        """Return declared relations by identity."""
        found = [
            item
            for item in self._contents.declared
            if isinstance(item, RelationDeclaration) and entity_id in (None, item.source_id, item.target_id)
        ]
        return sorted(found, key=lambda item: f"{item.source_id} {item.relation.value} {item.target_id}")

    async def entity_keys(self, scopes: frozenset[str], limit: int, after: str | None = None) -> list[tuple[str, int]]:
        """Return mentioned keys with their unit counts."""
        counts = Counter(
            key
            for live in self._live.values()
            if live.unit.scope.key in scopes
            for key in found_by(live.unit, live.statement.mentions)
            if not key.startswith("=") and key > (after or "")
        )
        return sorted(counts.items())[:limit]

    async def counts(self) -> StoreCounts:
        """Return totals."""
        _, entities = await self.entities()
        return StoreCounts(
            units=len(self._live),
            passages=len(self._passages),
            documents=self._contents.documents,
            entities=len(entities),
            relations=len(await self.relations()),
            contradictions_open=len(await self.contradictions(limit=-1)),
            by_scope=dict(sorted(Counter(live.unit.scope.key for live in self._live.values()).items())),
        )

    async def events(self, event_id: str, source: str | None = None) -> list[KnownEvent]:
        """Return what the store did with the events of an id, by source."""
        found = [
            one for one in self._contents.events.values() if one.event_id == event_id and source in (None, one.source)
        ]
        return sorted(found, key=lambda one: one.source)

    async def jobs(self, limit: int = 100, job_id: str | None = None) -> list[Job]:
        """Return background jobs, newest first, or the one of an id."""
        found = [job for job in self._contents.jobs.values() if job_id in (None, job.id)]
        return sorted(found, key=lambda job: (job.requested_at, job.id), reverse=True)[:limit]

    def standing_contradictions(self) -> list[FoundContradiction]:
        """Return the pairs whose two revisions are both live."""
        return [pair for pair, _ in self._contents.contradictions.values() if self._stands(pair)]

    def _hits(self, ranked: Iterable[tuple[int, float]], where: SearchFilter, limit: int) -> list[PassageHit]:
        hits = []
        for pid, score in ranked:
            passing = sorted(
                self._passing(self._passages[pid], where), key=lambda live: (-live.times.moment, live.unit.id)
            )
            if passing:
                hits.append(PassageHit(pid, score, tuple(live.unit.id for live in passing)))
        return hits[: max(limit, 0)]

    @staticmethod
    def _passing(candidates: Iterable[Live], where: SearchFilter) -> list[Live]:
        return [
            live
            for live in candidates
            if passes(where, live.unit.scope.key, live.unit.type, live.times, live.superseded_from)
        ]

    def _stands(self, pair: FoundContradiction) -> bool:
        return all(
            side in self._live and self._live[side].statement.rank.revision == revision
            for side, revision in zip(pair.units, pair.revisions, strict=True)
        )

    def _holds(self, pair: FoundContradiction) -> bool:
        sides = [self._live[side] for side in pair.units]
        now = micros(self._now)
        return all(side.superseded_by is None and (side.times.ends is None or side.times.ends > now) for side in sides)

    def _partners(self, unit_id: str) -> tuple[str, ...]:
        found = set()
        for pair, _ in self._contents.contradictions.values():
            if unit_id in pair.units and self._stands(pair) and self._holds(pair):
                found.update(set(pair.units) - {unit_id})
        return tuple(sorted(found))


def _idf(passages_with: int, passages: int) -> float:
    return max(math.log((passages - passages_with + 0.5) / (passages_with + 0.5)), BM25_IDF_FLOOR)
