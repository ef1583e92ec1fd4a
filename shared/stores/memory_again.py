"""Work that is done anew on what is known, in memory: which units are meant, and what their texts were resolved to."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from schemas.commands import Selection
from schemas.messages import Resolution
from shared.effects import Statement, digest_rows, resolution_row
from shared.store import Resolved, Resolving, SelectedUnit
from shared.stores.memory_state import TenantState
from shared.validity import micros


def version_of(statement: Statement) -> str:
    """Return a name for what a statement says and since when, and what its text was resolved to."""
    found = digest_rows([resolution_row(statement.mentions, statement.claims)])
    return "/".join((*map(str, statement.rank), str(micros(statement.recorded_at)), found))


def select(
    live: Mapping[str, Statement], embedded: Collection[tuple[str, str]], wanted: Selection
) -> list[SelectedUnit]:
    """Return the live units that fit, by unit id. ``embedded``: content keys, each with a model that it has vectors of."""
    found = []
    for unit_id in sorted(live):
        said = live[unit_id]
        unit, content_key = said.unit, said.content_key or ""
        if (
            unit is not None
            and wanted.scope in (None, unit.scope.key)
            and wanted.source in (None, said.rank.source)
            and (wanted.unit_ids is None or unit_id in wanted.unit_ids)
            and (wanted.model is None or (content_key, wanted.model) in embedded)
        ):
            found.append(SelectedUnit(unit, version_of(said), said.rank.revision, content_key, said.recorded_at))
    return found


def resolve(state: TenantState, one: Resolving) -> Resolved:
    """Keep what a text was resolved to anew, where its unit has not changed since."""
    former = state.live(one.unit_id)
    written = former is not None and version_of(former) == one.version
    if former is not None and written:
        _replace(state, former, one.resolution)
    stands = state.live(one.unit_id)
    contribution = state.unit_contribution(one.unit_id, one.revision)
    return Resolved(one.unit_id, version_of(stands) if stands else None, written, contribution)


def _replace(state: TenantState, former: Statement, resolution: Resolution) -> None:
    anew = replace(former, mentions=resolution.mentions, claims=resolution.claims)
    own = state.said.get(former.unit_id, {})
    own.update({key: anew for key, said in own.items() if said is former})
    for document in state.documents.values():
        document.parts.update({key: anew for key, said in document.parts.items() if said is former})
        document.active = tuple(anew if part is former else part for part in document.active)
