"""Passages by entity: all keys of a question in one query or a few, dealt out to each key."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from shared.stores.weaviate.conditions import Condition, every, is_, one_of
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.search import HIT, MARGIN, first_of_each
from shared.stores.weaviate.table import VALUES, Stored, Table
from shared.stores.weaviate.together import both, together

ABOUT, MENTIONED = 1.0, 0.5
SHARED_MOST = 2_000
"""Units that a query for several keys returns: what 60 keys need; a key that all units have fills more in any case."""
SHARED_ROUNDS = 3
"""Queries for several keys. Each leaves out the keys that have enough, which are those that crowd out the others."""


async def about(table: Table, keys: Collection[str], where: Condition, limit: int) -> dict[str, dict[int, float]]:
    """Return, by key, passages about it before those that mention it, each with its score, newest first."""
    names = sorted(set(keys))
    if limit < 1:
        return {key: {} for key in names}
    subjects, mentions = await both(
        partial(_newest, table, "subjects", names, where, limit), partial(_newest, table, "keys", names, where, limit)
    )
    return {key: _ranked(subjects[key], mentions[key], limit) for key in names}


def _ranked(subjects: Sequence[int], mentions: Sequence[int], limit: int) -> dict[int, float]:
    found = dict.fromkeys(subjects, ABOUT)
    for pid in mentions:
        found.setdefault(pid, MENTIONED)
    return dict(list(found.items())[:limit])


async def _newest(
    table: Table, name: str, keys: Sequence[str], where: Condition, limit: int
) -> dict[str, Sequence[int]]:
    """Return, by key, up to ``limit`` passages of which a unit has it in a property, by their newest such unit."""
    slices = [keys[start : start + VALUES] for start in range(0, len(keys), VALUES)]
    found: dict[str, Sequence[int]] = {}
    for some in await together(partial(_newest_of_some, table, name, one, where, limit) for one in slices):
        found |= some
    return found


async def _newest_of_some(
    table: Table, name: str, keys: Sequence[str], where: Condition, limit: int
) -> dict[str, Sequence[int]]:
    found: dict[str, Sequence[int]] = {}
    left = list(keys)
    for _ in range(SHARED_ROUNDS):
        if len(left) < 2:  # noqa: PLR2004 - nobody to share with
            break
        shared = await _shared(table, name, left, where, min(len(left) * limit + MARGIN, SHARED_MOST))
        dealt = shared.dealt(name, left)
        enough = {key for key in left if shared.is_all or len(dealt[key]) >= limit}
        found |= {key: dealt[key][:limit] for key in enough}
        if not enough:
            break
        left = [key for key in left if key not in enough]
    rest = await together(
        partial(first_of_each, table, every(where, FIRST_CHUNK, is_(name, key)), limit) for key in left
    )
    return found | {key: list(passages) for key, passages in zip(left, rest, strict=True)}


@dataclass(frozen=True)
class _Shared:
    """Units that have any of several keys, newest first, ties by id. ``is_all``: there are no more of them."""

    rows: list[Stored]
    is_all: bool

    def dealt(self, name: str, keys: Collection[str]) -> dict[str, list[int]]:
        """Return the passages of each key, by their newest unit."""
        found: dict[str, dict[int, None]] = {key: {} for key in keys}
        for one in self.rows:
            pid = int(one.properties["pid"])
            for key in one.properties[name] or ():
                if key in found:
                    found[key].setdefault(pid)
        return {key: list(passages) for key, passages in found.items()}


async def _shared(table: Table, name: str, keys: Sequence[str], where: Condition, count: int) -> _Shared:
    """Read the newest units of any of the keys. Where there are more, the last moment is left out: it may be cut."""
    condition = every(where, FIRST_CHUNK, one_of(name, keys))
    found = await table.page(condition, (*HIT, name), limit=count, order=[("moment", False)])
    rows = sorted(found, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
    if len(rows) < count:
        return _Shared(rows, is_all=True)
    last = rows[-1].properties["moment"]
    return _Shared([one for one in rows if one.properties["moment"] != last], is_all=False)
