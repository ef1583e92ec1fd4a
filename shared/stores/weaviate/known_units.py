"""Live units as they are shown: what was said, with what its relations make of it."""

from collections.abc import Collection, Sequence
from datetime import datetime

from shared.known_units import known_unit
from shared.mentions import subject_key
from shared.store import StoredUnit
from shared.stores.weaviate import contradictions, records
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.schema import UNKNOWN_FUTURE
from shared.stores.weaviate.table import Stored, Table
from shared.together import both
from shared.validity import from_micros

_KNOWN = ("unit_id", "pid", "superseded_from", "superseded_by", "ends", "body")


async def stored_units(kept: Table, live: Table, now: datetime, unit_ids: Collection[str]) -> dict[str, StoredUnit]:
    """Return the live units among the ids, by id."""
    found, pairs = await both(
        lambda: live.fetch_any("unit_id", unit_ids, _KNOWN, FIRST_CHUNK),
        lambda: contradictions.recorded(kept, unit_ids),
    )
    equal, standing = await both(
        lambda: live.fetch_any("pid", _pids(found), ("pid", "source"), FIRST_CHUNK),
        lambda: contradictions.listed(live, now, pairs),
    )
    sources: dict[int, set[str]] = {}
    for one in equal:
        sources.setdefault(int(one.properties["pid"]), set()).add(one.properties["source"])
    partners = contradictions.partners(standing)
    stored: dict[str, StoredUnit] = {}
    for one in sorted(found, key=lambda one: one.properties["unit_id"]):
        said, pid = records.statement_from(one.properties["body"]), int(one.properties["pid"])
        ends = [int(one.properties[name]) for name in ("ends", "superseded_from")]
        assert said.unit is not None  # what is live has a body
        known = known_unit(
            said,
            corroborations=len(sources.get(pid, ())) or 1,
            contradiction_refs=partners.get(said.unit_id, ()),
            superseded_by=one.properties["superseded_by"] or None,
            held_until=None if min(ends) == UNKNOWN_FUTURE else from_micros(min(ends)),
        )
        stored[said.unit_id] = StoredUnit(known, pid, said.mentions, subject_key(said.unit), said.claims)
    return stored


def _pids(found: Sequence[Stored]) -> set[int]:
    return {int(one.properties["pid"]) for one in found}
