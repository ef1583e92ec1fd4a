"""Live units as objects that searches find, one a chunk: written, patched and deleted to agree with the statements."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from schemas.units import Unit
from shared.effects import Statement
from shared.embedder import Vectors
from shared.passages import index_terms
from shared.stores.memory_again import version_of
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import Condition, is_
from shared.stores.weaviate.live_objects import (
    ROW,
    Row,
    live_id,
    passage_of,
    place_of,
    properties_of,
    row_of,
    unlike,
)
from shared.stores.weaviate.records import slot_of, statement_body, statement_from
from shared.stores.weaviate.schema import UNKNOWN_FUTURE, unit_collection
from shared.stores.weaviate.table import Pair, Stored, Table
from shared.stores.weaviate.vectors import VectorSource
from shared.validity import Successor, held, supersession

Version = tuple[str, str]
"""A unit's id and the name of what it says."""
Said = dict[Version, Statement]
FIRST_CHUNK: Condition = is_("chunk", 0)
"""Each live unit has one of these, with its words and its text."""


@dataclass
class Settled:
    """What was done: units written, units taken out, and how many objects were patched."""

    put: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    patched: int = 0
    surplus: int = 0

    @property
    def quiet(self) -> bool:
        """Whether everything agreed already."""
        return not (self.put or self.gone or self.patched or self.surplus)


class _World:
    """Live statements by unit, as they should be, with the first objects of those that are there."""

    def __init__(self, said: dict[str, Statement], rows: dict[str, Row]) -> None:
        self.said = said
        self.rows = rows
        self.pids = {unit_id: passage_of(statement) for unit_id, statement in said.items()}
        self.members: dict[int, list[Unit]] = {}
        self.turns: dict[str, Unit] = {}
        self.successors: dict[str, list[Successor]] = {}
        for unit_id in sorted(said):
            unit = said[unit_id].unit
            assert unit is not None  # what is live has a body
            self.members.setdefault(self.pids[unit_id], []).append(unit)
            for place in place_of(unit):
                self.turns.setdefault(place, unit)
            if unit.supersedes is not None:
                self.successors.setdefault(unit.supersedes, []).append(_successor(said[unit_id]))

    def derived(self, unit_id: str) -> "_Derived":
        """Derive what a unit's relations make of it."""
        said, members = self.said[unit_id], self.members[self.pids[unit_id]]
        titles = [member.title for member in members if member.title is not None]
        before, after = (self._neighbour(members[0], step) for step in (-1, 1))
        words = " ".join(index_terms(members[0], titles, before, after))
        superseded = supersession(_successor(said), self.successors.get(unit_id, ()))
        return _Derived(superseded, words, members[0].id == unit_id)

    def _neighbour(self, unit: Unit, step: int) -> Unit | None:
        return next((self.turns.get(place) for place in place_of(unit, step)), None)


class LiveIndex:
    """The live units of a tenant in one model's collection, as one look found them: a further look is another index's.

    ``known``: statements that made objects, read before; they are added to. ``asked``: what was looked for, in order.
    """

    def __init__(self, client: Client, prefix: str, tenant: str, model: str, known: Said | None = None) -> None:
        self.table = Table(client, unit_collection(prefix, model).name, tenant)
        self.model = model
        self._client, self._prefix, self._tenant = client, prefix, tenant
        self._known = {} if known is None else known
        self._concerned: Said = {}
        self.asked: dict[Pair, None] = {}
        self._rows: dict[UUID, Row] = {}
        self._versions: dict[str, str] = {}

    def anew(self) -> "LiveIndex":
        """Return an index for the next round, which has yet to look, of the same units' relations."""
        index = LiveIndex(self._client, self._prefix, self._tenant, self.model, self._known)
        index._concerned = self._concerned
        return index

    async def look(self, values: Iterable[Pair]) -> None:
        """Read the objects that have any of the values, those that were asked for before excepted."""
        new = [pair for pair in dict.fromkeys(values) if pair not in self.asked]
        self._rows |= {one.id: row_of(one) for one in await self.table.fetch_either(new, ROW)}
        self.asked |= dict.fromkeys(new)

    def parts_of(self, documents: Collection[str]) -> set[str]:
        """Return the units that are there as parts of documents; these must have been looked at."""
        return {row.unit_id for row in self._first({("document_id", name) for name in documents})}

    def _first(self, values: Collection[Pair]) -> list[Row]:
        """Return the first objects of the units that have any of the values."""
        return [row for row in self._rows.values() if row.chunk == 0 and not row.found_by.isdisjoint(values)]

    async def settle(
        self,
        want: Mapping[str, Statement | None],
        vectors: VectorSource,
        again: Collection[str] = (),
        doubted: "Doubted | None" = None,
    ) -> Settled:
        """Make what is there of the units agree with what is wanted, and what is derived of their relations with it.

        First what is new, then what is derived of others, last what has to go: cut short anywhere, a repetition mends it.
        ``again``: units whose relations are looked at once more, although the units themselves may agree. ``doubted``: what is
        written once more although it agrees, with all that it has to do with: not all of it may be indexed.
        """
        await self.look([("unit_id", unit_id) for unit_id in want])
        there: dict[str, dict[int, Row]] = {}
        for row in self._rows.values():
            if row.unit_id in want:
                there.setdefault(row.unit_id, {})[row.chunk] = row
        self._versions = {unit_id: version_of(said) for unit_id, said in want.items() if said is not None}
        done = Settled()
        for unit_id, said in want.items():
            if said is None:
                done.gone |= {unit_id} & there.keys()
            elif (doubted and unit_id in doubted.units) or self._differs(said, there.get(unit_id, {}), vectors):
                done.put.add(unit_id)
        moved = done.put | done.gone | {unit_id for unit_id in again if want.get(unit_id) or unit_id in there}
        if doubted is not None:
            await self.table.delete_unfound(
                [live_id(self._tenant, unit_id, 0) for unit_id in doubted.units if want.get(unit_id) is None]
            )
            self._concerned |= {(said.unit_id, version_of(said)): said for said in doubted.said}
        if not moved:
            return done
        first = {unit_id: chunks[0] for unit_id, chunks in there.items() if 0 in chunks}
        world, affected = await self._world(want, first, moved)
        derived = {unit_id: world.derived(unit_id) for unit_id in affected.superseded | affected.worded}
        objects = await self._objects(world, done.put, derived, vectors)
        await (self.table.put if doubted is None else self.table.rewrite)(objects)
        patches = [
            patch
            for unit_id in sorted(derived.keys() - done.put)
            for patch in self._patches(
                world.rows.get(unit_id), unit_id, derived[unit_id], affected, anyhow=doubted is not None
            )
        ]
        await self._patch(patches, anyhow=doubted is not None)
        done.patched = len(patches)
        kept = {one.id for one in objects}
        surplus = {
            row.id for unit_id in done.put | done.gone for row in there.get(unit_id, {}).values() if row.id not in kept
        }
        done.surplus = await self.table.delete(surplus)
        return done

    async def _patch(self, patches: Iterable[tuple[UUID, dict[str, Any]]], *, anyhow: bool) -> None:
        """Change objects; ``anyhow``: those that seem to be so already are indexed once more."""
        for identity, changes in patches:
            if anyhow:
                await self.table.patch(identity, unlike(changes))
            await self.table.patch(identity, changes)

    def _differs(self, said: Statement, chunks: dict[int, Row], vectors: VectorSource) -> bool:
        first = chunks.get(0)
        if first is None or first.version != self._versions[said.unit_id]:
            return True
        if chunks.keys() != set(range(max(first.chunks, 1))):
            return True
        return vectors.brings(said, self.model) or (first.chunks == 0 and vectors.has(said, self.model))

    async def _world(
        self, want: Mapping[str, Statement | None], there: Mapping[str, Row], moved: set[str]
    ) -> "tuple[_World, _Affected]":
        """Read whatever has to do with the moved units, as they were and as they will be.

        And as they were in earlier rounds: what was written of their relations then may have come after another's mending.
        """
        former = await self._said(
            there[unit_id] for unit_id in moved & there.keys() if there[unit_id].version != self._versions.get(unit_id)
        )
        self._concerned |= {(unit_id, there[unit_id].version): said for unit_id, said in former.items()}
        self._concerned |= {
            (unit_id, self._versions[unit_id]): said for unit_id in moved if (said := want.get(unit_id)) is not None
        }
        units = [said.unit for said in self._concerned.values() if said.unit is not None]
        targets = {unit.supersedes for unit in units if unit.supersedes is not None}
        passages = {passage_of(said) for said in self._concerned.values()}
        beside = {place for unit in units for step in (-1, 1) for place in place_of(unit, step)}
        around = beside | {place for unit in units for step in (-2, 0, 2) for place in place_of(unit, step)}
        wanted: set[Pair] = {("supersedes", unit_id) for unit_id in targets | set(moved)}
        wanted |= {("unit_id", unit_id) for unit_id in targets - want.keys()}
        wanted |= {("pid", pid) for pid in passages} | {("place", place) for place in around}
        await self.look(sorted(wanted, key=str))
        rows = {**{row.unit_id: row for row in self._first(wanted)}, **there}
        others = await self._said(row for row in rows.values() if row.unit_id not in want)
        standing: dict[str, Statement | None] = {**others, **want}
        world = _World({unit_id: said for unit_id, said in standing.items() if said is not None}, rows)
        live = set(moved) & world.said.keys()
        worded = {
            unit_id
            for unit_id, said in world.said.items()
            if said.unit is not None and (world.pids[unit_id] in passages or beside.intersection(place_of(said.unit)))
        }
        return world, _Affected(superseded=live | (targets & world.said.keys()), worded=live | worded)

    async def _said(self, rows: Iterable[Row]) -> dict[str, Statement]:
        """Return the statements that made objects, by unit."""
        found: dict[str, Statement] = {}
        new: list[UUID] = []
        for row in rows:
            known = self._known.get((row.unit_id, row.version))
            if known is None:
                new.append(row.id)
            else:
                found[row.unit_id] = known
        for one in await self.table.by_ids(new, ["body"]):
            said = statement_from(one.properties["body"])
            found[said.unit_id] = self._known[said.unit_id, version_of(said)] = said
        return found

    async def _objects(
        self, world: _World, unit_ids: Collection[str], derived: "Mapping[str, _Derived]", vectors: VectorSource
    ) -> list[Stored]:
        statements = [world.said[unit_id] for unit_id in unit_ids]
        matrices = await vectors.load(statements, self.model)
        self._known |= {(said.unit_id, self._versions[said.unit_id]): said for said in statements}
        return [
            one
            for unit_id in sorted(unit_ids)
            for one in self._chunks(world.said[unit_id], derived[unit_id], matrices.get(unit_id))
        ]

    def _chunks(self, said: Statement, derived: "_Derived", matrix: Vectors | None) -> Iterable[Stored]:
        unit = said.unit
        assert unit is not None  # what is live has a body
        rows = [] if matrix is None else matrix.tolist()
        shared = (
            properties_of(said, unit, self._versions[unit.id]) | derived.superseded_properties() | {"chunks": len(rows)}
        )
        for chunk, vector in enumerate(rows or [None]):
            identity = live_id(self._tenant, unit.id, chunk)
            own: dict[str, Any] = {"chunk": chunk, "slot": slot_of(identity)}
            if chunk == 0:
                own |= derived.words_properties() | {"body": statement_body(said)}
            yield Stored(identity, {**shared, **own}, vector)

    def _patches(
        self, row: Row | None, unit_id: str, derived: "_Derived", affected: "_Affected", *, anyhow: bool
    ) -> Iterable[tuple[UUID, dict[str, Any]]]:
        """Yield what has to be changed of a unit's objects; ``anyhow``: also what seems to be so already."""
        if row is None:
            return
        changes: dict[str, Any] = {}
        if unit_id in affected.worded and (anyhow or row.words != (derived.words_digest, derived.leads)):
            changes |= derived.words_properties()
        superseded = unit_id in affected.superseded and (anyhow or row.superseded != derived.superseded)
        if superseded:
            changes |= derived.superseded_properties()
        if changes:
            yield row.id, changes
        for chunk in range(1, row.chunks if superseded else 1):
            yield live_id(self._tenant, unit_id, chunk), derived.superseded_properties()


@dataclass(frozen=True)
class Doubted:
    """Units of a write that was cut short, and all that was ever said of them: their objects may say any of it."""

    units: frozenset[str]
    said: tuple[Statement, ...]


@dataclass(frozen=True)
class _Affected:
    """Units whose supersession, and units whose words, may have changed: what decides on them was read."""

    superseded: set[str]
    worded: set[str]


@dataclass(frozen=True)
class _Derived:
    """``superseded``: from when on and by which. ``leads``: it is the first of its passage, by id."""

    superseded: tuple[int | None, str | None]
    words: str
    leads: bool

    @property
    def words_digest(self) -> str:
        return hashlib.sha256(self.words.encode()).hexdigest()[:32]

    def superseded_properties(self) -> dict[str, Any]:
        since, by = self.superseded
        return {"superseded_from": UNKNOWN_FUTURE if since is None else since, "superseded_by": by or ""}

    def words_properties(self) -> dict[str, Any]:
        return {"words": self.words, "words_digest": self.words_digest, "leads": self.leads}


def _successor(said: Statement) -> Successor:
    assert said.unit is not None  # what is live has a body
    return Successor(said.unit_id, said.unit.scope, held(said.unit, said.recorded_at).start, said.unit.supersedes)
