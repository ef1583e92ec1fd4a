"""One consistent view: a read transaction on one connection, used from threads one call at a time."""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from schemas.answers import KnownUnit
from schemas.commands import Job, Selection
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.units import ScopeLevel
from shared.embedder import Vector, Vectors
from shared.memberships import LEVELS, walk
from shared.store import (
    STORED,
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
from shared.stores.sqlite import again, contradictions, declarations, keyword, ledger, listing, models, vectors
from shared.stores.sqlite.filters import Scoped, scoped
from shared.stores.sqlite.keyword import TermCounts
from shared.stores.sqlite.rows import STATEMENT, as_json_array, known_unit, load_unit, stored_unit
from shared.stores.sqlite.vectors import Matrices, View
from shared.vector_models import KnownModel

Result = TypeVar("Result")
_COLUMNS = ", ".join(f"statement.{column}" for column in STATEMENT.split(", "))


class Runner(Protocol):
    """Runs work on the snapshot's connection in a thread; None where the tenant has no file."""

    async def __call__(self, work: Callable[[sqlite3.Connection], Result], empty: Result) -> Result:
        """Run it, or return ``empty`` where there is nothing to read."""
        ...


class AsideRunner(Protocol):
    """Runs work that needs no connection in a thread, beside what runs on the connection."""

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Run it."""
        ...


class SqliteSnapshot:
    """A tenant as one commit left it."""

    def __init__(
        self, run: Runner, aside: AsideRunner, *, view: View, now: datetime, matrices: Matrices, counts: TermCounts
    ) -> None:
        self._run = run
        self._aside = aside
        self._scoped: dict[SearchFilter, Scoped] = {}
        self._view = view
        self._now = now
        self._matrices = matrices
        self._term_counts = counts

    async def memberships(self, principal: str | None) -> list[Membership]:
        """Return the scopes a principal may read."""
        if principal is None:
            return await self._run(_scopes_in_use, [])
        alone = walk(principal, lambda _: (), lambda _: (), self._now)
        return await self._run(lambda connection: _memberships(connection, principal, self._now), alone)

    async def watermarks(self, stage: str = STORED) -> dict[tuple[str, int], int]:
        """Return the highest number whose effect is durable, per (topic, partition)."""
        return await self._run(lambda connection: _watermarks(connection, stage), {})

    async def keyword(self, terms: Sequence[str], where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by BM25."""

        def search(connection: sqlite3.Connection) -> list[PassageHit]:
            ready = self._ready(connection, where)
            self._matrices.catch_up(connection, self._view)  # so that vectors can be compared beside this search
            telling = self._term_counts.telling(connection, terms, self._view.seq)
            return keyword.search(connection, telling, ready, limit)

        return await self._run(search, [])

    async def model(self) -> str | None:
        """Return the name of the model whose vectors are searched."""
        return self._view.model

    async def models(self) -> list[KnownModel]:
        """Return the models whose vectors are kept."""
        return await self._run(models.models, [])

    async def vector(self, query: Vector, where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by cosine similarity. Compares beside what runs on the connection, where that is possible."""
        known = self._scoped.get(where)
        scored = None
        if known is not None:
            scored = await self._aside(lambda: self._matrices.score(self._view, known.scope_ids, query))

        def search(connection: sqlite3.Connection) -> list[PassageHit]:
            ready = self._ready(connection, where)
            return self._matrices.search(connection, self._view, query, ready, limit, scored)

        return await self._run(search, [])

    async def similarities(self, query: Vector, passage_ids: Collection[int]) -> dict[int, float]:
        """Return the cosine similarity of each passage."""
        found = await self._aside(lambda: self._matrices.similarities(self._view, query, passage_ids))
        absent = set(passage_ids).difference(found)
        if not absent:
            return found
        kept: dict[int, float] = {}
        found.update(
            await self._run(lambda connection: vectors.similarities(connection, self._view, query, absent), kept)
        )
        return found

    async def passage_vectors(self, passage_ids: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors of each passage."""
        return await self._run(lambda connection: vectors.passage_vectors(connection, self._view, passage_ids), {})

    async def warm(self) -> None:
        """Load the tenant's matrices, as far as memory is given, so that the first question need not."""
        await self._run(lambda connection: self._matrices.warm(connection, self._view), None)

    async def about(self, keys: Collection[str], where: SearchFilter, limit: int) -> dict[str, list[PassageHit]]:
        """Return passages about each key."""

        def find(connection: sqlite3.Connection) -> dict[str, list[PassageHit]]:
            return listing.about(connection, keys, self._ready(connection, where), limit)

        return await self._run(find, {key: [] for key in keys})

    async def sharing(self, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
        """Return, for each set of keys, the newest units of any."""

        def find(connection: sqlite3.Connection) -> list[list[UnitVersion]]:
            return listing.sharing(connection, wanted, limit)

        return await self._run(find, [[] for _ in wanted])

    async def latest(self, where: SearchFilter, limit: int, *, oldest_first: bool = False) -> list[PassageHit]:
        """Return passages by time."""

        def find(connection: sqlite3.Connection) -> list[PassageHit]:
            return listing.latest(connection, self._ready(connection, where), limit, oldest_first=oldest_first)

        return await self._run(find, [])

    async def units(self, unit_ids: Collection[str]) -> dict[str, StoredUnit]:
        """Return the live units among the ids."""
        return await self._run(lambda connection: _units(connection, unit_ids, self._now), {})

    async def history(self, unit_id: str) -> list[KnownUnit]:
        """Return older revisions, newest first."""
        return await self._run(lambda connection: _history(connection, unit_id), [])

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

        def find(connection: sqlite3.Connection) -> list[StoredContradiction]:
            return contradictions.listed(
                connection, self._now, unit_ids=unit_ids, scopes=scopes, limit=limit, after=after, open_only=open_only
            )

        return await self._run(find, [])

    async def entities(self) -> tuple[int, list[EntityDeclaration]]:
        """Return a version, and the declared entities by id."""
        return await self._run(declarations.entities, (0, []))

    async def entities_version(self) -> int:
        """Return the version alone."""
        return await self._run(declarations.entities_version, 0)

    async def relations(self, entity_id: str | None = None) -> list[RelationDeclaration]:
        """Return declared relations by identity."""
        return await self._run(lambda connection: declarations.relations(connection, entity_id), [])

    async def entity_keys(self, scopes: frozenset[str], limit: int, after: str | None = None) -> list[tuple[str, int]]:
        """Return mentioned keys with their unit counts."""
        return await self._run(lambda connection: _entity_keys(connection, scopes, limit, after), [])

    async def counts(self) -> StoreCounts:
        """Return totals."""
        return await self._run(lambda connection: _counts(connection, self._now), StoreCounts(0, 0, 0, 0, 0, 0))

    async def events(self, event_id: str, source: str | None = None) -> list[KnownEvent]:
        """Return what the store did with the events of an id."""
        return await self._run(lambda connection: ledger.events(connection, event_id, source), [])

    async def jobs(self, limit: int = 100, job_id: str | None = None) -> list[Job]:
        """Return background jobs, newest first."""
        return await self._run(lambda connection: ledger.jobs(connection, limit, job_id), [])

    async def select(self, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
        """Return live units that fit, by unit id, those beyond ``after``."""
        return await self._run(lambda connection: again.select(connection, selection, after, limit), [])

    async def count_selected(self, selection: Selection) -> int:
        """Return how many live units fit."""
        return await self._run(lambda connection: again.count(connection, selection), 0)

    def _ready(self, connection: sqlite3.Connection, where: SearchFilter) -> Scoped:
        """Make a filter ready once: every arm of a question asks with the same one."""
        if where not in self._scoped:
            self._scoped[where] = scoped(connection, where)
        return self._scoped[where]


def _watermarks(connection: sqlite3.Connection, stage: str) -> dict[tuple[str, int], int]:
    rows = connection.execute("SELECT topic, partition, number FROM watermark WHERE stage = ?", (stage,))
    return {(topic, partition): number for topic, partition, number in rows}


def _scopes_in_use(connection: sqlite3.Connection) -> list[Membership]:
    rows = connection.execute(
        "SELECT key FROM scope WHERE EXISTS (SELECT 1 FROM unit WHERE unit.scope = scope.id) ORDER BY key"
    )
    return [Membership(key, 0) for (key,) in rows]


def _memberships(connection: sqlite3.Connection, principal: str, now: datetime) -> list[Membership]:
    def levels(entity_id: str) -> list[ScopeLevel]:
        """An entity's declared type says what scope it is; an undeclared one is what units were given to."""
        declared = declarations.entity(connection, entity_id)
        if declared is not None:
            return [LEVELS[declared.type]] if declared.type in LEVELS else []
        rows = connection.execute(
            "SELECT level FROM scope WHERE entity_id = ? AND level != ? "
            "AND EXISTS (SELECT 1 FROM unit WHERE unit.scope = scope.id)",
            (entity_id, ScopeLevel.PERSONAL.value),
        )
        return [ScopeLevel(level) for (level,) in rows]

    return walk(principal, lambda entity_id: declarations.upward(connection, entity_id), levels, now)


def _units(connection: sqlite3.Connection, unit_ids: Collection[str], now: datetime) -> dict[str, StoredUnit]:
    rows = connection.execute(
        f"SELECT passage.pid, unit.passage, unit.superseded_from, unit.superseded_by, unit.ends, {_COLUMNS} "  # noqa: S608 - constants
        "FROM unit JOIN statement ON statement.id = unit.statement JOIN passage ON passage.id = unit.passage "
        "WHERE unit.unit_id IN (SELECT value FROM json_each(?)) ORDER BY unit.unit_id",
        (as_json_array(unit_ids),),
    ).fetchall()
    sources = dict(
        connection.execute(
            "SELECT passage, count(DISTINCT source) FROM unit WHERE passage IN (SELECT value FROM json_each(?)) GROUP BY passage",
            (as_json_array({row[1] for row in rows}),),
        )
    )
    partners = contradictions.partners(connection, now, [row[6] for row in rows]) if rows else {}
    found: dict[str, StoredUnit] = {}
    for pid, passage, since, by, ends, *statement in rows:
        unit = load_unit(statement[11])
        known = known_unit(
            tuple(statement),
            unit,
            corroborations=sources[passage],
            contradiction_refs=partners.get(unit.id, ()),
            superseded=(since, by),
            ends=ends,
        )
        found[unit.id] = stored_unit(known, pid, statement[12])
    return found


def _history(connection: sqlite3.Connection, unit_id: str) -> list[KnownUnit]:
    rows = connection.execute(
        f"SELECT {STATEMENT} FROM statement WHERE unit_id = ? AND past = 1 "  # noqa: S608 - constants
        "ORDER BY revision DESC, digest DESC, source DESC, event_id DESC",
        (unit_id,),
    )
    return [known_unit(row, load_unit(row[11])) for row in rows if row[11] is not None]


def _entity_keys(
    connection: sqlite3.Connection, scopes: frozenset[str], limit: int, after: str | None
) -> list[tuple[str, int]]:
    """Keys that begin with ``=`` are ids in links, not mentions."""
    rows = connection.execute(
        "SELECT incidence.key, count(*) FROM incidence CROSS JOIN unit ON unit.id = incidence.unit "
        "WHERE incidence.key > ? AND incidence.key NOT LIKE '=%' "
        "AND unit.scope IN (SELECT id FROM scope WHERE key IN (SELECT value FROM json_each(?))) "
        "GROUP BY incidence.key ORDER BY incidence.key LIMIT ?",
        (after or "", as_json_array(scopes), limit),
    )
    return [(key, count) for key, count in rows]


def _counts(connection: sqlite3.Connection, now: datetime) -> StoreCounts:
    def count(query: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {query}").fetchone()[0])  # noqa: S608 - constants

    by_scope = connection.execute(
        "SELECT scope.key, count(*) FROM unit JOIN scope ON scope.id = unit.scope GROUP BY scope.id ORDER BY scope.key"
    )
    return StoreCounts(
        units=count("unit"),
        passages=count("passage"),
        documents=count("document WHERE parts > 0"),
        entities=count("declared WHERE kind = 'entity' AND retraction = 0"),
        relations=count("declared WHERE kind = 'relation' AND retraction = 0"),
        contradictions_open=contradictions.count_open(connection, now),
        by_scope=dict(by_scope.fetchall()),
    )
