"""What a caller may see of a unit (invariant 6): nothing about it that leads into a scope he cannot read."""

from collections.abc import Collection

from schemas.answers import KnownUnit
from shared.store import Snapshot, StoredUnit


async def readable_scopes(snapshot: Snapshot, principal: str | None) -> frozenset[str]:
    """Return the scopes that a principal may read; all that have units for None."""
    return frozenset(membership.scope for membership in await snapshot.memberships(principal))


async def visible_units(snapshot: Snapshot, unit_ids: Collection[str], scopes: frozenset[str]) -> dict[str, StoredUnit]:
    """Return those of the units that exist and lie in readable scopes."""
    if not unit_ids:
        return {}
    stored = await snapshot.units(unit_ids)
    return {unit_id: unit for unit_id, unit in stored.items() if unit.known.unit.scope.key in scopes}


async def visible_unit(snapshot: Snapshot, unit_id: str, principal: str | None, *, history: bool) -> KnownUnit | None:
    """Return a unit as a principal may see it, or None: references and older revisions in other scopes are left out.

    None reads the whole tenant, also older revisions in scopes that have no live unit any more.
    """
    scopes = await readable_scopes(snapshot, principal)
    stored = (await visible_units(snapshot, [unit_id], scopes)).get(unit_id)
    if stored is None:
        return None
    known = stored.known
    references = {*known.state.contradiction_refs, *filter(None, [known.state.superseded_by])}
    seen = await visible_units(snapshot, references, scopes)
    state = known.state.model_copy(
        update={
            "contradiction_refs": tuple(ref for ref in known.state.contradiction_refs if ref in seen),
            "superseded_by": known.state.superseded_by if known.state.superseded_by in seen else None,
        }
    )
    older = await snapshot.history(unit_id) if history else []
    shown = [revision for revision in older if principal is None or revision.unit.scope.key in scopes]
    return KnownUnit(unit=known.unit, state=state, history=tuple(one.model_dump(mode="json") for one in shown))
