"""Passages by entity: all keys of a question in one query or a few, dealt out to each key."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from shared.stores.weaviate.conditions import Condition, every, is_, one_of
from shared.stores.weaviate.floors import Floor, Floors
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.search import HIT, MARGIN, first_of_each
from shared.stores.weaviate.table import VALUES, Stored, Table
from shared.together import both, together

ABOUT, MENTIONED = 1.0, 0.5
SHARED_MOST = 2_000
"""Units that a query for several keys returns: what 60 keys need; a key that all units have fills more in any case."""
SHARED_ROUNDS = 3
"""Queries for several keys. Each leaves out the keys that have enough, which are those that crowd out the others."""


async def about(
    table: Table,
    keys: Collection[str],
    where: Condition,
    limit: int,
    *,
    tenant: str,
    floors: Floors,
    shared_most: int = SHARED_MOST,
) -> dict[str, dict[int, float]]:
    """Return, by key, passages about it before those that mention it, each with its score, newest first.

    ``floors``: of the tenant's keys that have many units; such a key is asked for alone. ``shared_most``: units that a query
    for several keys returns at most. Where that may have cut a key short it is asked for again, with fewer others and at last
    alone, so what is returned does not hang on it.
    """
    names = sorted(set(keys))
    if limit < 1:
        return {key: {} for key in names}
    asking = _Asking(table, where, limit, shared_most, tenant, floors)
    subjects, mentions = await both(partial(asking.newest, "subjects", names), partial(asking.newest, "keys", names))
    return {key: _ranked(subjects[key], mentions[key], limit) for key in names}


def _ranked(subjects: Sequence[int], mentions: Sequence[int], limit: int) -> dict[int, float]:
    found = dict.fromkeys(subjects, ABOUT)
    for pid in mentions:
        found.setdefault(pid, MENTIONED)
    return dict(list(found.items())[:limit])


@dataclass(frozen=True)
class _Asking:
    """Where to look, for what passes a condition, and how many passages a key."""

    table: Table
    where: Condition
    limit: int
    shared_most: int
    tenant: str
    floors: Floors

    async def newest(self, name: str, keys: Sequence[str]) -> dict[str, Sequence[int]]:
        """Return, by key, the passages of which a unit has it in a property, by their newest such unit."""
        found: dict[str, Sequence[int]] = {}
        for start in range(0, len(keys), VALUES):
            found |= await self._newest_of_some(name, keys[start : start + VALUES])
        return found

    async def _newest_of_some(self, name: str, keys: Sequence[str]) -> dict[str, Sequence[int]]:
        found: dict[str, Sequence[int]] = {}
        many = [key for key in keys if self._floor(name, key).moment is not None]
        left = [key for key in keys if self._floor(name, key).moment is None]
        for _ in range(SHARED_ROUNDS):
            if len(left) < 2:  # nobody to share with
                break
            rows, is_all = await self._shared(name, left)
            dealt = _dealt(rows, name, left)
            enough = {key for key in left if is_all or len(dealt[key]) >= self.limit}
            found |= {key: list(dealt[key])[: self.limit] for key in enough}
            if not is_all:
                for key in enough:
                    self._floor(name, key).note(list(dealt[key].values())[self.limit - 1])
            if not enough:
                break
            left = [key for key in left if key not in enough]
        alone = [*left, *many]
        rest = await together(partial(self._alone, name, key) for key in alone)
        return found | {key: list(passages) for key, passages in zip(alone, rest, strict=True)}

    async def _alone(self, name: str, key: str) -> dict[int, int]:
        where = every(self.where, FIRST_CHUNK, is_(name, key))
        return await first_of_each(self.table, where, self.limit, floor=self._floor(name, key))

    def _floor(self, name: str, key: str) -> Floor:
        return self.floors.of(self.tenant, name, key, self.limit)

    async def _shared(self, name: str, keys: Sequence[str]) -> tuple[list[Stored], bool]:
        """Return the newest units of any of the keys, ties by id, and whether there are no more of them.

        Where there are, the last moment is left out: it may be cut.
        """
        count = min(len(keys) * self.limit + MARGIN, self.shared_most)
        condition = every(self.where, FIRST_CHUNK, one_of(name, keys))
        found = await self.table.page(condition, (*HIT, name), limit=count, order=[("moment", False)])
        rows = sorted(found, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
        if len(rows) < count:
            return rows, True
        last = rows[-1].properties["moment"]
        return [one for one in rows if one.properties["moment"] != last], False


def _dealt(rows: Sequence[Stored], name: str, keys: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return the passages of each key, by their first unit, with its moment."""
    found: dict[str, dict[int, int]] = {key: {} for key in keys}
    for one in rows:
        for key in one.properties[name] or ():
            if key in found:
                found[key].setdefault(int(one.properties["pid"]), int(one.properties["moment"]))
    return found
