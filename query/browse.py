"""Browsing: what is newest in the readable scopes, where nothing is asked for."""

from collections.abc import Collection
from datetime import datetime

from query.boosts import BoostBasis
from query.conflicts import contested_ids, read_contradictions
from query.fuse import Candidate, result_of
from schemas.answers import Result
from schemas.intent import Intent
from schemas.units import Scope, ScopeLevel
from shared.store import SearchFilter, Snapshot


async def newest(
    snapshot: Snapshot,
    principal: str | None,
    now: datetime,
    *,
    limit: int,
    scopes: Collection[str] | None = None,
    levels: Collection[ScopeLevel] | None = None,
) -> tuple[Result, ...]:
    """Return what holds now in the principal's scopes, newest first, ties by id; ``scopes`` and ``levels`` only narrow."""
    readable = frozenset(entry.scope for entry in await snapshot.memberships(principal))
    where = SearchFilter(
        scopes=frozenset(
            key
            for key in readable
            if (scopes is None or key in scopes) and (levels is None or Scope.parse(key).level in levels)
        ),
        at=now,
    )
    hits = await snapshot.latest(where, limit)
    units = await snapshot.units({unit_id for hit in hits for unit_id in hit.unit_ids})
    contested = contested_ids(await read_contradictions(snapshot, sorted(units), where.scopes))
    basis = BoostBasis(Intent(), {}, now, frozenset())
    found = [(hit, [units[unit_id] for unit_id in hit.unit_ids if unit_id in units]) for hit in hits]
    return tuple(
        result_of(
            Candidate(
                passage_id=hit.passage_id,
                unit=live[0],
                arms={},
                terms=(),
                also=tuple(one.known.unit.id for one in live[1:]),
                corroborations=live[0].known.state.corroborations,
            ),
            place,
            basis=basis,
            contested=live[0].known.unit.id in contested,
            visible=frozenset(units),
            explain=False,
        )
        for place, (hit, live) in enumerate(((hit, live) for hit, live in found if live), start=1)
    )
