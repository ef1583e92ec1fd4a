"""A statement as it is shown: the unit that it says, and the state that its neighbours make of it."""

from datetime import datetime

from schemas.answers import KnownUnit, UnitState
from shared.effects import Statement


def known_unit(
    said: Statement,
    *,
    corroborations: int = 1,
    contradiction_refs: tuple[str, ...] = (),
    superseded_by: str | None = None,
    held_until: datetime | None = None,
) -> KnownUnit:
    """Write a statement that has a unit as it is shown."""
    assert said.unit is not None  # only assertions are shown
    assert said.content_key is not None  # and they have a text
    state = UnitState(
        recorded_at=said.recorded_at,
        position=said.position.token(),
        revision=said.rank.revision,
        source=said.rank.source,
        event_id=said.rank.event_id,
        content_key=said.content_key,
        corroborations=corroborations,
        contradiction_refs=contradiction_refs,
        superseded_by=superseded_by,
        held_until=held_until,
    )
    return KnownUnit(unit=said.unit, state=state)
