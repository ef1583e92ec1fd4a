"""One batch made durable in Weaviate, which has no transaction: an order of writes that a repetition completes.

1. Which units a document's turn takes away; then statements, completions and declarations that are new, each with an id
   that follows from what it says.
2. Live objects, then what is derived of other units, then the removal of what is live no more (live.py).
3. The same once more from what is in the store *now*: whoever wrote at the same time, or slept while others went on,
   finds here what it did not know before, and mends what it wrote.
4. Records that count no more are deleted, and pairs of units that are gone.
5. The ledger, and last the watermark.

Killed between any two steps, the batch's redelivery finds the statements of step 1, enters them without change, and does
the rest; searches meanwhile see some of the batch's units before others.
"""

from collections.abc import Mapping, Sequence

from shared.embedder import Vectors
from shared.errors import StoreUnavailable
from shared.stores.weaviate import records
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.fragment import Fragment, Touched, load
from shared.stores.weaviate.live import LiveIndex
from shared.stores.weaviate.models import read_models
from shared.stores.weaviate.records import CONTRADICTION, DOCUMENT, ENTITY
from shared.stores.weaviate.table import Table
from shared.stores.weaviate.vectors import VectorSource

ROUNDS = 8
"""Looks at what is there before a batch gives up: each further one means that another process wrote in between."""


class Commit:
    """Writes for one tenant. The caller sees to it that a process makes one at a time.

    ``scopes``: those that this process has named before; the caller keeps the set.
    """

    def __init__(self, client: Client, prefix: str, table: Table, tenant: str, scopes: set[str]) -> None:
        self._client = client
        self._prefix = prefix
        self._table = table
        self._tenant = tenant
        self._scopes = scopes

    async def load(self, touched: Touched) -> Fragment:
        """Read the part of the state that is touched, units that are still there as parts of the documents included."""
        if touched.documents:
            for index in await self._indexes():
                touched.units |= await index.parts_of(touched.documents)
        return await load(self._table, self._tenant, touched)

    async def write(
        self,
        touched: Touched,
        fragment: Fragment,
        fresh: Mapping[str, Mapping[str, Vectors]],
        *,
        replacing: bool = False,
    ) -> None:
        """Bring the store in line with a fragment into which effects were entered (steps 1 to 4)."""
        wanted = fragment.wanted()
        vectors = VectorSource(self._table, self._tenant, fresh, fragment.held.values(), replacing=replacing)
        changed = await vectors.filled(wanted.values())
        # Which units a turn takes away is kept before the turn itself can be seen: else a redelivery could not tell it.
        await self._table.put([record.stored() for record in changed if record.kind == DOCUMENT])
        await self._table.put([record.stored() for record in changed if record.kind != DOCUMENT])
        await self._name_scopes(fragment)
        if any(kind == ENTITY for kind, _ in touched.declared):
            await self._table.put([records.version_record(self._tenant, ENTITY).stored()])
        gone = await self._settle(touched, fragment, vectors) if fragment.units else set()
        if gone:
            pairs = await self._table.fetch_any(
                "keys", {records.pair_key(unit_id) for unit_id in gone}, ["kind"], is_("kind", CONTRADICTION)
            )
            await self._table.delete([pair.id for pair in pairs])
        await self._table.delete(fragment.held.keys() - wanted.keys())

    async def _name_scopes(self, fragment: Fragment) -> None:
        live = [said.unit for unit_id in fragment.units if (said := fragment.state.live(unit_id)) is not None]
        new = {unit.scope.key for unit in live if unit is not None} - self._scopes
        await self._table.put([records.scope_record(self._tenant, scope).stored() for scope in sorted(new)])
        self._scopes.update(new)

    async def _settle(self, touched: Touched, fragment: Fragment, vectors: VectorSource) -> set[str]:
        """Bring the live units of every model in line (steps 2 and 3); return those that went."""
        gone: set[str] = set()
        moved = touched.again | {
            unit_id
            for unit_id in fragment.units
            if (said := fragment.state.live(unit_id)) is not None and said.document_id in touched.completed
        }
        for _ in range(ROUNDS):
            want = {unit_id: fragment.state.live(unit_id) for unit_id in sorted(fragment.units)}
            quiet = True
            for index in await self._indexes():
                done = await index.settle(want, vectors, again=moved)
                moved |= done.put | done.gone
                gone |= done.gone
                quiet = quiet and done.quiet
            gone -= {unit_id for unit_id, said in want.items() if said is not None}
            if quiet:
                return gone
            fragment = await load(self._table, self._tenant, Touched(fragment.units, touched.documents))
            vectors = VectorSource(self._table, self._tenant, {}, fragment.held.values())
        raise StoreUnavailable("others kept changing the same units")

    async def _indexes(self) -> Sequence[LiveIndex]:
        models = await read_models(self._client, self._prefix, self._tenant)
        return [LiveIndex(self._client, self._prefix, self._tenant, model) for model in models.dims]
