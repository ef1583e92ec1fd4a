"""contradictions: the units of a receipt against what is known of the same entities, after their own commit.

Of two units the later commit sees the earlier, and the comparison is symmetric: whatever the order of arrival, the same
pairs are found. Nothing here reads a clock; whether a pair is open (both still stand and hold) is derived on read.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from ingest.differences import ComparedUnit, compare
from ingest.names import SameEntity
from schemas.messages import Receipt
from schemas.times import Moment
from schemas.units import LinkRelation
from shared.identity import AliasView, fold_key, id_key
from shared.similarity import cosines
from shared.store import FoundContradiction, KnowledgeReader, SearchFilter, Snapshot, StoredUnit

CANDIDATES: Final = 200
"""Newest units that share an entity with a checked one and are compared with it (design, section 5)."""
KEYS: Final = 64
"""Entity keys of one unit that are looked up, the first in the text: a unit that names more is a list."""
CHUNKS: Final = 16
"""Chunks of a long text whose similarity counts."""
ALL_TIMES: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""Units that begin to hold later, or held once, are compared too: their intervals decide, not the present."""


async def check_receipt(receipt: Receipt, reader: KnowledgeReader) -> list[FoundContradiction]:
    """Return the contradictions of the receipt's live units with all the tenant knows, by pair id. Raises StoreUnavailable.

    A pair may cross scopes; who may read only one side never sees it, because a pair is shown where both are readable.
    """
    return await ContradictionCheck(reader).check(receipt)


class ContradictionCheck:
    """Checks receipts; keeps the view of declared names of each tenant until a declaration changes it."""

    def __init__(self, reader: KnowledgeReader) -> None:
        self._reader = reader
        self._views: dict[str, tuple[int, AliasView]] = {}

    async def check(self, receipt: Receipt) -> list[FoundContradiction]:
        """Do as `check_receipt` says."""
        if receipt.tenant is None or not receipt.units:
            return []
        found: dict[str, FoundContradiction] = {}
        async with self._reader.snapshot(receipt.tenant) as snapshot:
            scopes = frozenset(membership.scope for membership in await snapshot.memberships(None))
            where = SearchFilter(scopes=scopes, at=ALL_TIMES, include_superseded=True)
            view = await self._view(receipt.tenant, snapshot)
            units = await snapshot.units(receipt.units)
            for unit_id in sorted(units):
                pairs = await _check_unit(snapshot, units[unit_id], where, view)
                found.update((pair.id, pair) for pair in pairs)
        return [found[pair_id] for pair_id in sorted(found)]

    async def _view(self, tenant: str, snapshot: Snapshot) -> AliasView:
        version, declarations = await snapshot.entities()
        known = self._views.get(tenant)
        if known is None or known[0] != version:
            known = self._views[tenant] = (version, AliasView(declarations))
        return known[1]


async def _check_unit(
    snapshot: Snapshot, unit: StoredUnit, where: SearchFilter, view: AliasView
) -> list[FoundContradiction]:
    others = await _candidates(snapshot, unit, where, view)
    suspects = await asyncio.to_thread(_suspects, unit, others, view)
    if not suspects:
        return []
    similarities = await _similarities(snapshot, unit, {other.passage_id for other in suspects})
    return [
        pair
        for other in suspects
        if (pair := _pair(unit, other, similarities.get(other.passage_id, 0.0), view)) is not None
    ]


async def _candidates(snapshot: Snapshot, unit: StoredUnit, where: SearchFilter, view: AliasView) -> list[StoredUnit]:
    """Return other units that share an entity with this one, under any of its names: newest first, ties by id."""
    keys = _keys_of(unit, view)
    if not keys:
        return []
    hits = await snapshot.about(keys, where, CANDIDATES + 1)  # one of them is the unit itself
    ids = {unit_id for passages in hits.values() for hit in passages for unit_id in hit.unit_ids}
    ids.discard(unit.known.unit.id)
    found = await snapshot.units(ids)
    newest = sorted(found.values(), key=lambda other: (-_when(other).timestamp(), other.known.unit.id))
    return newest[:CANDIDATES]


def _keys_of(unit: StoredUnit, view: AliasView) -> list[str]:
    keys = dict.fromkeys([*_own_keys(unit)])
    resolved = dict.fromkeys(view.resolve(key).entity_id for key in list(keys)[:KEYS])
    names = (name for entity_id in resolved for name in view.keys_of(entity_id))
    return list(dict.fromkeys([*list(keys)[:KEYS], *names]))


def _own_keys(unit: StoredUnit) -> list[str]:
    subject = [unit.subject] if unit.subject else []
    links = [id_key(link.entity_id) for link in unit.known.unit.entity_links if link.relation is LinkRelation.ABOUT]
    return [*subject, *links, *(mention.key for mention in unit.mentions)]


def _when(unit: StoredUnit) -> datetime:
    occurred = unit.known.unit.occurred_at
    return occurred.at if occurred else unit.known.state.recorded_at


def _suspects(unit: StoredUnit, others: Sequence[StoredUnit], view: AliasView) -> list[StoredUnit]:
    """Return those whose words differ checkably: only their vectors are worth reading."""
    compared, same = _compared(unit, view), _same_entity(view)
    return [other for other in others if compare(compared, _compared(other, view), 1.0, same) is not None]


async def _similarities(snapshot: Snapshot, unit: StoredUnit, passages: Collection[int]) -> dict[int, float]:
    """Return the cosine of the nearest chunks of two passages, the same from either side, to four decimals."""
    vectors = await snapshot.passage_vectors({unit.passage_id, *passages})
    own = vectors.get(unit.passage_id)
    if own is None:
        return {}
    return {
        passage_id: round(max(float(cosines(vectors[passage_id][:CHUNKS], row).max()) for row in own[:CHUNKS]), 4)
        for passage_id in passages
        if passage_id in vectors
    }


def _pair(unit: StoredUnit, other: StoredUnit, similarity: float, view: AliasView) -> FoundContradiction | None:
    difference = compare(_compared(unit, view), _compared(other, view), similarity, _same_entity(view))
    if difference is None:
        return None
    first, second = sorted((unit.known, other.known), key=lambda known: known.unit.id)
    return FoundContradiction(
        units=(first.unit.id, second.unit.id),
        revisions=(first.state.revision, second.state.revision),
        difference=difference.kind,
        detail=difference.detail,
        attribute=difference.attribute,
        similarity=similarity,
    )


def _compared(unit: StoredUnit, view: AliasView) -> ComparedUnit:
    stated = unit.known.unit
    return ComparedUnit(
        id=stated.id,
        text=stated.text,
        keys=_entities(_own_keys(unit), view),
        title=stated.title,
        claims=stated.claims,
        occurred_at=stated.occurred_at,
        valid_from=stated.valid_from,
        valid_until=stated.valid_until if isinstance(stated.valid_until, Moment) else None,
        supersedes=stated.supersedes,
    )


def _entities(keys: Iterable[str], view: AliasView) -> frozenset[str]:
    return frozenset(view.resolve(key).entity_id for key in keys)


def _same_entity(view: AliasView) -> SameEntity:
    def same(name: str, other: str) -> bool:
        return view.resolve(fold_key(name)).entity_id == view.resolve(fold_key(other)).entity_id

    return same
