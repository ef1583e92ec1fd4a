"""contradictions: the units of a receipt against what is known of the same entities, after their own commit.

Of two units the later commit sees the earlier, and the comparison is symmetric: whatever the order of arrival, the same
pairs are found. Nothing here reads a clock; whether a pair is open (both still stand and hold) is derived on read.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ingest.differences import compare
from ingest.outlines import may_differ
from ingest.prepared import Key, Prepared, PreparedUnits, own_keys, prepare, same_entity
from ingest.rounds import Rounds
from schemas.messages import Receipt, ReceiptOutcome
from shared.embedder import Vectors
from shared.identity import AliasView, DeclaredNames, fold_key, id_key
from shared.similarity import cosines
from shared.store import FoundContradiction, KnowledgeReader, Snapshot, StoredUnit, UnitVersion

CANDIDATES: Final = 200
"""Newest units that share an entity with a checked one and are compared with it (design, section 5)."""
DECLARING: Final = frozenset({ReceiptOutcome.DECLARED, ReceiptOutcome.RETRACTED, ReceiptOutcome.UNCHANGED})
"""What a declaration's receipt may say; a redelivered one too, for the first may not have been checked."""
KEYS: Final = 64
"""Entity keys of one unit that are looked up, the first in the text: a unit that names more is a list."""
CHUNKS: Final = 16
"""Chunks of a long text whose similarity counts."""
TOGETHER: Final = 16
"""Units whose comparisons are read together: bounds what is in memory, up to 16 × 200 candidates."""
ROUND: Final = 64
"""Receipts that are checked in one look at the store, unless a single window has more."""


@dataclass(frozen=True)
class _Names:
    """A tenant's declared names, as of one version of them."""

    tenant: str
    version: int
    view: AliasView

    def key(self, one: UnitVersion) -> Key:
        """Return under what a statement is kept, prepared with these names."""
        return self.tenant, self.version, one


async def check_receipt(receipt: Receipt, reader: KnowledgeReader) -> list[FoundContradiction]:
    """Return the contradictions of the receipt's live units with all the tenant knows, by pair id. Raises StoreUnavailable.

    A pair may cross scopes; who may read only one side never sees it, because a pair is shown where both are readable.
    """
    return await ContradictionCheck(reader).check(receipt)


class ContradictionCheck:
    """Checks receipts; keeps each tenant's declared names until one changes, and units that were read for comparison."""

    def __init__(self, reader: KnowledgeReader) -> None:
        self._reader = reader
        self._names: dict[str, _Names] = {}
        self._told: dict[tuple[str, str], DeclaredNames | None] = {}
        self._prepared = PreparedUnits()
        self._rounds = Rounds(self._check_round, ROUND)

    async def check(self, receipt: Receipt) -> list[FoundContradiction]:
        """Do as `check_receipt` says, for this receipt alone: what fails is its fault."""
        return (await self._check_round([receipt]))[0]

    async def check_all(self, receipts: Sequence[Receipt]) -> Sequence[list[FoundContradiction]]:
        """Check each receipt, with those of others who ask meanwhile. Raises StoreUnavailable.

        Receipts of one tenant are checked in one look at its store, which begins after all of them were asked for: so it sees
        whatever they were committed after. Units that are checked together have most of their names in common.
        """
        return await self._rounds.do(receipts)

    async def _check_round(self, receipts: Sequence[Receipt]) -> list[list[FoundContradiction]]:
        found: dict[str, dict[str, list[FoundContradiction]]] = {}
        for tenant in sorted({receipt.tenant for receipt in receipts if receipt.tenant is not None}):
            units = {unit_id for receipt in receipts if receipt.tenant == tenant for unit_id in receipt.units}
            found[tenant] = await self.check_units(tenant, units) if units else {}
        return [_of_receipt(receipt, found.get(receipt.tenant or "", {})) for receipt in receipts]

    async def renamed(self, tenant: str, entity_id: str) -> tuple[str, ...]:
        """Return the newest units that a declaration may have tied to an entity, or untied: those under its present names,
        and under those that it had when this was asked before. None where its names are as they were then.

        What a name means may change after units were compared by it; so they are compared again, and the pairs that are
        found do not hang on whether a declaration or a unit came first. Raises StoreUnavailable.
        """
        async with self._reader.snapshot(tenant) as snapshot:
            view = (await self._names_of(tenant, snapshot)).view
            before, now = self._told.get((tenant, entity_id)), view.declared(entity_id)
            if now == before:
                return ()
            self._told[tenant, entity_id] = now
            said = {key for names in (before, now) if names is not None for key in names.keys}
            keys = sorted({*said, id_key(entity_id), fold_key(entity_id)} - {""})
            (sharing,) = await snapshot.sharing([keys], CANDIDATES)
            return tuple(one.unit_id for one in sharing)

    async def check_units(self, tenant: str, unit_ids: Collection[str]) -> dict[str, list[FoundContradiction]]:
        """Check units by id; those that are not live are left out. Raises StoreUnavailable."""
        async with self._reader.snapshot(tenant) as snapshot:
            names = await self._names_of(tenant, snapshot)
            units = await snapshot.units(unit_ids)
            ids = sorted(units)
            found: dict[str, list[FoundContradiction]] = {}
            for start in range(0, len(ids), TOGETHER):
                window = [units[unit_id] for unit_id in ids[start : start + TOGETHER]]
                found |= await self._check_window(snapshot, window, names)
            return found

    async def _names_of(self, tenant: str, snapshot: Snapshot) -> _Names:
        known = self._names.get(tenant)
        if known is None or known.version != await snapshot.entities_version():
            version, declarations = await snapshot.entities()
            known = self._names[tenant] = _Names(tenant, version, AliasView(declarations))
        return known

    async def _check_window(
        self, snapshot: Snapshot, units: Sequence[StoredUnit], names: _Names
    ) -> dict[str, list[FoundContradiction]]:
        """Compare each unit with the newest others that share an entity with it, under any of its names.

        What the units need of the store is asked for together: over a network each question costs more than its answer.
        """
        lists = await snapshot.sharing([_keys_of(unit, names.view) for unit in units], CANDIDATES + 1)
        shared = [{one.unit_id: one for one in found} for found in lists]  # a unit that has keys is among its own
        own = {unit.known.unit.id: unit for unit in units}
        sharing = {unit_id: one for found in shared for unit_id, one in found.items()}
        known = {
            unit_id: kept
            for unit_id, one in sharing.items()
            if (kept := self._prepared.get(names.key(one))) is not None
        }
        unread = sharing.keys() - known.keys() - own.keys()
        stored = {
            **(await snapshot.units(unread) if unread else {}),
            **{unit_id: own[unit_id] for unit_id in own.keys() - known.keys()},
        }
        orders = dict(zip(own, shared, strict=True))
        read, suspects = await asyncio.to_thread(_find_suspects, orders, known, stored, names.view)
        self._prepared.keep((names.key(sharing[unit_id]), one) for unit_id, one in read.items() if unit_id in sharing)
        prepared = {**known, **read}
        passages = {
            one.passage_id for unit_id, others in suspects.items() if others for one in (prepared[unit_id], *others)
        }
        vectors = await snapshot.passage_vectors(passages) if passages else {}
        return {unit_id: _pairs(prepared[unit_id], others, vectors, names.view) for unit_id, others in suspects.items()}


async def with_renamed(receipt: Receipt, key: str, checker: ContradictionCheck) -> Receipt:
    """Return a declaration's receipt with the units that are to be compared again for it; any other as it is.

    ``key``: its record's, ``tenant/subject``. Raises StoreUnavailable.
    """
    if receipt.tenant is None or receipt.units or receipt.retracted or receipt.outcome not in DECLARING:
        return receipt
    units = await checker.renamed(receipt.tenant, key.removeprefix(f"{receipt.tenant}/"))
    return receipt.model_copy(update={"units": units})


def _of_receipt(receipt: Receipt, found: Mapping[str, Sequence[FoundContradiction]]) -> list[FoundContradiction]:
    pairs = {pair.id: pair for unit_id in sorted(receipt.units) for pair in found.get(unit_id, ())}
    return [pairs[pair_id] for pair_id in sorted(pairs)]


def _keys_of(unit: StoredUnit, view: AliasView) -> list[str]:
    keys = list(dict.fromkeys(own_keys(unit)))[:KEYS]
    resolved = dict.fromkeys(view.resolve(key).entity_id for key in keys)
    names = (name for entity_id in resolved for name in view.keys_of(entity_id))
    return list(dict.fromkeys([*keys, *names]))


def _find_suspects(
    orders: Mapping[str, Iterable[str]],
    known: Mapping[str, Prepared],
    stored: Mapping[str, StoredUnit],
    view: AliasView,
) -> tuple[dict[str, Prepared], dict[str, list[Prepared]]]:
    """Prepare the stored ones, and return them with each unit's candidates whose words differ checkably, in its order.

    Only the vectors of those are worth reading.
    """
    read = {unit_id: prepare(unit, view) for unit_id, unit in stored.items()}
    prepared, same = {**known, **read}, same_entity(view)
    suspects = {}
    for own_id, order in orders.items():
        mine = prepared[own_id]
        others = [prepared[unit_id] for unit_id in order if unit_id in prepared and unit_id != own_id]
        others = [other for other in others if mine.history is None or other.history != mine.history]
        suspects[own_id] = [
            other
            for other in others[:CANDIDATES]
            if may_differ(mine.outline, other.outline) and compare(mine.compared, other.compared, 1.0, same) is not None
        ]
    return read, suspects


def _pairs(
    unit: Prepared, suspects: Sequence[Prepared], vectors: Mapping[int, Vectors], view: AliasView
) -> list[FoundContradiction]:
    own = vectors.get(unit.passage_id)
    found = (_pair(unit, other, _similarity(own, vectors.get(other.passage_id)), view) for other in suspects)
    return [pair for pair in found if pair is not None]


def _similarity(one: Vectors | None, other: Vectors | None) -> float:
    """Return the cosine of the nearest chunks of two passages, the same from either side, to four decimals; 0.0 without."""
    if one is None or other is None:
        return 0.0
    return round(max(float(cosines(other[:CHUNKS], row).max()) for row in one[:CHUNKS]), 4)


def _pair(unit: Prepared, other: Prepared, similarity: float, view: AliasView) -> FoundContradiction | None:
    difference = compare(unit.compared, other.compared, similarity, same_entity(view))
    if difference is None:
        return None
    first, second = sorted((unit, other), key=lambda side: side.compared.id)
    return FoundContradiction(
        units=(first.compared.id, second.compared.id),
        revisions=(first.revision, second.revision),
        difference=difference.kind,
        detail=difference.detail,
        attribute=difference.attribute,
        similarity=similarity,
    )
