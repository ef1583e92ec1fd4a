"""The newest units of any of some keys, for comparing units with each other."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from shared.store import UnitVersion
from shared.stores.weaviate.conditions import every, is_, one_of
from shared.stores.weaviate.floors import Floor, Floors
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.search import MARGIN, newest
from shared.stores.weaviate.table import Stored, Table
from shared.together import together

TOGETHER: Final = 8
"""Keys of few units that are asked for in one request."""

_NAMES = ("unit_id", "version", "moment")


class Sharing:
    """Reads each key's newest units once: units that are checked one after the other have most keys in common.

    The newest of several keys are among the newest of each.
    """

    def __init__(self, table: Table, tenant: str, floors: Floors) -> None:
        self._table = table
        self._tenant = tenant
        self._floors = floors
        self._found: dict[tuple[str, int], Sequence[Stored]] = {}

    async def newest(self, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
        """Return, for each set of keys, up to ``limit`` units by moment, newest first, ties by id."""
        names = {key for keys in wanted for key in keys}
        await self._read(sorted(key for key in names if (key, limit) not in self._found), limit)
        return [self._of(keys, limit) for keys in wanted]

    def _of(self, keys: Collection[str], limit: int) -> list[UnitVersion]:
        rows = {one.id: one for key in keys for one in self._found[key, limit]}
        return [
            UnitVersion(one.properties["unit_id"], one.properties["version"])
            for one in _in_order(rows.values())[:limit]
        ]

    async def _read(self, keys: Sequence[str], limit: int) -> None:
        """Read keys: some together while they have few units, the others, and those that turn out to have many, alone."""
        alone = [key for key in keys if self._floor(key, limit).moment is not None]
        few = [key for key in keys if self._floor(key, limit).moment is None]
        groups = [few[start : start + TOGETHER] for start in range(0, len(few), TOGETHER)]
        alone += [
            key for some in await together(partial(self._group, group, limit) for group in groups) for key in some
        ]
        await together(partial(self._one, key, limit) for key in alone)

    async def _group(self, keys: Sequence[str], limit: int) -> Sequence[str]:
        """Read keys in one request; return those that have to be read alone."""
        if len(keys) == 1:
            return keys
        count = limit + MARGIN
        some = await self._table.page(every(one_of("keys", keys), FIRST_CHUNK), (*_NAMES, "keys"), limit=count)
        if len(some) >= count:
            return keys
        for key in keys:
            rows = [one for one in some if key in (one.properties["keys"] or ())]
            self._found[key, limit] = _in_order(rows)[:limit]
        return ()

    async def _one(self, key: str, limit: int) -> None:
        where = every(is_("keys", key), FIRST_CHUNK)
        self._found[key, limit] = await newest(self._table, where, _NAMES, limit, self._floor(key, limit))

    def _floor(self, key: str, limit: int) -> Floor:
        return self._floors.of(self._tenant, "keys", key, limit)


def _in_order(rows: Collection[Stored]) -> list[Stored]:
    return sorted(rows, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
