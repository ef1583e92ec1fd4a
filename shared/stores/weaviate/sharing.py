"""The newest units of any of some keys, for comparing units with each other."""

from collections.abc import Collection, Sequence
from functools import partial

from shared.store import UnitVersion
from shared.stores.weaviate.conditions import every, is_, one_of
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.search import MARGIN, newest
from shared.stores.weaviate.table import Stored, Table
from shared.stores.weaviate.together import together

_NAMES = ("unit_id", "version", "moment")


class Sharing:
    """Reads each key's newest units once: units that are checked one after the other have most keys in common.

    The newest of several keys are among the newest of each.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[tuple[str, int], Sequence[Stored]] = {}

    async def newest(self, keys: Collection[str], limit: int) -> list[UnitVersion]:
        """Return up to ``limit`` units by moment, newest first, ties by id."""
        names = sorted(set(keys))
        await self._read([key for key in names if (key, limit) not in self._found], limit)
        rows = {one.id: one for key in names for one in self._found[key, limit]}
        return [
            UnitVersion(one.properties["unit_id"], one.properties["version"])
            for one in _in_order(rows.values())[:limit]
        ]

    async def _read(self, keys: Sequence[str], limit: int) -> None:
        if len(keys) > 1:
            count = limit + MARGIN
            some = await self._table.page(every(one_of("keys", keys), FIRST_CHUNK), (*_NAMES, "keys"), limit=count)
            if len(some) < count:  # these are all
                for key in keys:
                    rows = [one for one in some if key in (one.properties["keys"] or ())]
                    self._found[key, limit] = _in_order(rows)[:limit]
                return
        each = [every(is_("keys", key), FIRST_CHUNK) for key in keys]
        found = await together(partial(newest, self._table, where, _NAMES, limit) for where in each)
        self._found |= {(key, limit): rows for key, rows in zip(keys, found, strict=True)}


def _in_order(rows: Collection[Stored]) -> list[Stored]:
    return sorted(rows, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
