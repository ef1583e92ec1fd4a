"""The newest units of any of some keys, for comparing units with each other."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from shared.store import UnitVersion
from shared.stores.weaviate.conditions import every, is_, one_of
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.search import MARGIN, newest
from shared.stores.weaviate.table import Stored, Table
from shared.stores.weaviate.together import together

TOGETHER: Final = 8
"""Keys of few units that are asked for in one request."""
CROWDED: Final = 10_000
"""Keys that are remembered as those of many units."""

_NAMES = ("unit_id", "version", "moment")


class CrowdedKeys:
    """Remembers which keys had more units than were asked for: with another key in one request they would hide its units.

    It is about the number of requests alone: a key that is wrongly in here, or not, is read just as well.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], None] = OrderedDict()

    def has(self, tenant: str, key: str) -> bool:
        """Tell whether a key had many units when it was read last."""
        return (tenant, key) in self._kept

    def note(self, tenant: str, keys: Iterable[str]) -> None:
        """Remember keys, and forget those that were noted longest ago."""
        for key in keys:
            self._kept[tenant, key] = None
            self._kept.move_to_end((tenant, key))
        while len(self._kept) > CROWDED:
            self._kept.popitem(last=False)


class Sharing:
    """Reads each key's newest units once: units that are checked one after the other have most keys in common.

    The newest of several keys are among the newest of each.
    """

    def __init__(self, table: Table, tenant: str, crowded: CrowdedKeys) -> None:
        self._table = table
        self._tenant = tenant
        self._crowded = crowded
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
        alone = [key for key in keys if self._crowded.has(self._tenant, key)]
        few = [key for key in keys if not self._crowded.has(self._tenant, key)]
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
        rows = await newest(self._table, every(is_("keys", key), FIRST_CHUNK), _NAMES, limit)
        self._found[key, limit] = rows
        if len(rows) >= limit:
            self._crowded.note(self._tenant, [key])


def _in_order(rows: Collection[Stored]) -> list[Stored]:
    return sorted(rows, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
