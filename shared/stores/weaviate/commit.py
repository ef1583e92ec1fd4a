"""One batch made durable in Weaviate, which has no transaction: an order of writes that a repetition completes.

1. Which units a document's turn takes away; then statements, completions and declarations that are new, each with an id
   that follows from what it says.
2. Live objects, then what is derived of other units, then the removal of what is live no more (live.py).
3. The same once more from what is in the store *now*: whoever wrote at the same time, or slept while others went on,
   finds here what it did not know before, and mends what it wrote. Never left out: the look that step 2 starts from is
   older than step 1, and two that write and only then look cannot both miss the other.
4. Records that count no more are deleted, and pairs of units that are gone.
5. The ledger, and last the watermark.

Killed between any two steps, the batch's redelivery finds the statements of step 1, enters them without change, and does
the rest; searches meanwhile see some of the batch's units before others. Weaviate itself may have been killed in the middle
of a step and have an object without its indexes: so a repetition writes anew what the batch concerns, found or not.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from shared.effects import Statement
from shared.embedder import Vectors
from shared.errors import StoreUnavailable
from shared.stores.weaviate import records
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.fragment import Fragment, Touched, is_unchanged, load
from shared.stores.weaviate.live import Doubted, LiveIndex, Version
from shared.stores.weaviate.live_objects import pairs_of
from shared.stores.weaviate.models import Models
from shared.stores.weaviate.records import CONTRADICTION, DOCUMENT, ENTITY, MENDING, SCOPE, Record
from shared.stores.weaviate.table import Pair, Table
from shared.stores.weaviate.vectors import VectorSource
from shared.together import both, together

KNOWN_UNITS = 8_192
"""Statements that are remembered: some 30 MB."""
ROUNDS = 8
"""Looks at what is there before a batch gives up: each further one means that another process wrote in between."""


@dataclass
class Memory:
    """What a process remembers of a tenant between batches, none of which decides: whatever it says is looked at anew.

    ``scopes``: those that have their record; ``models``: as they were last seen; ``known``: statements by what live objects
    are named after, for what is written next has to do with what was written last.
    """

    scopes: set[str] = field(default_factory=set)
    models: Models = field(default_factory=lambda: Models(None, {}))
    known: dict[Version, Statement] = field(default_factory=dict)

    def trim(self) -> None:
        """Let the oldest statements go."""
        for version in list(self.known)[: max(0, len(self.known) - KNOWN_UNITS)]:
            del self.known[version]


class Commit:
    """Writes for one tenant. The caller sees to it that a process makes one at a time, and keeps its ``memory``."""

    def __init__(self, client: Client, prefix: str, table: Table, tenant: str, memory: Memory) -> None:
        self._client = client
        self._prefix = prefix
        self._table = table
        self._tenant = tenant
        self._memory = memory
        self._indexes: dict[str, LiveIndex] = {}

    async def load(self, touched: Touched) -> Fragment:
        """Read the part of the state that is touched, units that are still there as parts of the documents included.

        What is live of it is looked at beside, in the collections of the models that were there the last time.
        """
        values: list[Pair] = [pair for unit, content_key in touched.news for pair in pairs_of(unit, content_key)]
        values += [("unit_id", unit_id) for unit_id in touched.units]
        values += [("document_id", document_id) for document_id in touched.documents]
        self._memory.trim()
        for _ in range(ROUNDS):
            self._indexes = self._opened(self._memory.models)

            async def parts() -> set[str]:
                await self._look(values)
                return {one for index in self._indexes.values() for one in index.parts_of(touched.documents)}

            fragment = await load(self._table, self._tenant, touched, parts)
            self._memory.models = fragment.models
            if fragment.models.dims.keys() == self._indexes.keys():
                return fragment
        raise StoreUnavailable("others kept changing the tenant's models")

    async def write(
        self,
        touched: Touched,
        fragment: Fragment,
        fresh: Mapping[str, Mapping[str, Vectors]],
        *,
        replacing: bool = False,
        begun: Collection[UUID] = (),
    ) -> None:
        """Bring the store in line with a fragment into which effects were entered (steps 1 to 4).

        ``begun``: records of an earlier attempt, which was cut short.
        """
        wanted = fragment.wanted()
        vectors = VectorSource(self._table, self._tenant, fresh, fragment.held.values(), replacing=replacing)
        changed = await vectors.filled(wanted.values(), begun)
        # Which units a turn takes away is kept before the turn itself can be seen: else a redelivery could not tell it.
        await self._table.put([record.stored() for record in changed if record.kind == DOCUMENT])
        if begun:
            others = [record for record in changed if record.id in fragment.held and record.id not in begun]
            await self._table.put([replace(record, past=MENDING, models=()).stored() for record in others])
        await self._table.put([record.stored() for record in changed if record.kind != DOCUMENT])
        await self._name_scopes(fragment)
        if any(kind == ENTITY for kind, _ in touched.declared):
            await self._table.put([records.version_record(self._tenant, ENTITY).stamped().stored()])
        expected = {**fragment.held, **{record.id: record for record in changed}}
        doubted = self._doubted(touched, fragment) if begun else None
        gone = await self._settle(touched, fragment, vectors, expected, doubted) if fragment.units else set()
        if gone:
            pairs = await self._table.fetch_any(
                "keys", {records.pair_key(unit_id) for unit_id in gone}, ["kind"], is_("kind", CONTRADICTION)
            )
            await self._table.delete([pair.id for pair in pairs])
        await self._table.delete(fragment.held.keys() - wanted.keys())

    async def _name_scopes(self, fragment: Fragment) -> None:
        """Write the names of scopes that this process has not seen; one that is there is left alone."""
        live = [said.unit for unit_id in fragment.units if (said := fragment.state.live(unit_id)) is not None]
        new = {unit.scope.key for unit in live if unit is not None} - self._memory.scopes
        named = [records.scope_record(self._tenant, scope) for scope in sorted(new)]
        keys = [key for record in named for key in record.keys]
        found = {one.id for one in await self._table.fetch_any("keys", keys, ["kind"], is_("kind", SCOPE))}
        await self._table.put_unfound([record.stored() for record in named if record.id not in found])
        self._memory.scopes |= new

    async def _settle(
        self,
        touched: Touched,
        fragment: Fragment,
        vectors: VectorSource,
        expected: Mapping[UUID, Record],
        doubted: Doubted | None,
    ) -> set[str]:
        """Bring the live units of every model in line (steps 2 and 3); return those that went.

        ``expected``: the records that decide on them, as they are now unless others write.
        """
        gone: set[str] = set()
        moved = touched.again | {
            unit_id
            for unit_id in fragment.units
            if (said := fragment.state.live(unit_id)) is not None and said.document_id in touched.completed
        }
        self._indexes = self._opened(fragment.models) | {
            model: index for model, index in self._indexes.items() if model in fragment.models.dims
        }
        for number in range(ROUNDS):
            want = {unit_id: fragment.state.live(unit_id) for unit_id in sorted(fragment.units)}
            quiet = True
            for index in self._indexes.values():
                done = await index.settle(want, vectors, again=moved, doubted=None if number else doubted)
                moved |= done.put | done.gone
                gone |= done.gone
                quiet = quiet and done.quiet
            gone -= {unit_id for unit_id, said in want.items() if said is not None}
            if quiet and number:
                return gone
            asked = dict.fromkeys(pair for index in self._indexes.values() for pair in index.asked)
            self._indexes = self._opened(fragment.models)
            same, _ = await both(partial(is_unchanged, self._table, fragment, expected), partial(self._look, asked))
            if not same:
                fragment = await self.load(Touched(fragment.units, touched.documents))
                expected = fragment.held
            vectors = VectorSource(self._table, self._tenant, {}, expected.values())
        raise StoreUnavailable("others kept changing the same units")

    def _doubted(self, touched: Touched, fragment: Fragment) -> Doubted:
        """Return what an attempt that was cut short may have written of live units, and all that was ever said of them."""
        units, state = fragment.units - touched.late, fragment.state
        said = [one for unit_id in units for one in state.own(unit_id)]
        said += [part for document in state.documents.values() for part in document.parts.values()]
        return Doubted(frozenset(units), tuple(one for one in said if one.unit is not None))

    async def _look(self, values: Iterable[Pair]) -> None:
        await together(partial(index.look, values) for index in self._indexes.values())

    def _opened(self, models: Models) -> dict[str, LiveIndex]:
        """Return an index a model that has yet to look; it knows what earlier ones of this batch were concerned with."""
        return {
            model: self._indexes[model].anew()
            if model in self._indexes
            else LiveIndex(self._client, self._prefix, self._tenant, model, self._memory.known)
            for model in models.dims
        }
