"""Which scopes have units."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from shared.stores.weaviate.conditions import Condition, every, is_
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.records import SCOPE
from shared.stores.weaviate.table import Table
from shared.together import together

REMEMBERED: Final = 20_000
"""Scopes of which a unit is remembered, of all tenants together."""

_Place = tuple[str, str]
"""A tenant and the key of a scope of it."""


class Witnesses:
    """Remembers one unit of each scope; shared by all snapshots of a reader.

    Whether a scope is in use takes a question of its own. Whether all of these units are still where they were takes one.
    """

    def __init__(self) -> None:
        self._units: OrderedDict[_Place, UUID] = OrderedDict()

    def of(self, tenant: str, scopes: Iterable[str]) -> dict[str, UUID]:
        """Return a unit's object for each of the scopes that had one when it was last asked for."""
        return {scope: self._units[tenant, scope] for scope in scopes if (tenant, scope) in self._units}

    def note(self, tenant: str, scope: str, unit: UUID) -> None:
        """Remember a unit of a scope."""
        self._units[tenant, scope] = unit
        self._units.move_to_end((tenant, scope))
        while len(self._units) > REMEMBERED:
            self._units.popitem(last=False)

    def forget(self, tenant: str, scope: str) -> None:
        """It is there no more."""
        self._units.pop((tenant, scope), None)


class Scopes:
    """The scopes of a tenant. ``live``: its units by the active model; None before there are any."""

    def __init__(self, kept: Table, live: Table | None, tenant: str, witnesses: Witnesses) -> None:
        self._kept = kept
        self._live = live
        self._tenant = tenant
        self._witnesses = witnesses

    async def in_use(self, among: Collection[str] | None = None) -> list[str]:
        """Return the scopes that have units, by key, among the given ones or all. To count them would take 20 times as long."""
        if self._live is None:
            return []
        names = await self._named() if among is None else sorted(among)
        known = await self._standing(self._live, names)
        rest = [scope for scope in names if scope not in known]
        first = partial(self._live.page, names=["pid"], limit=1)
        for scope, found in zip(rest, await together(partial(first, _in(scope)) for scope in rest), strict=True):
            if found:
                self._witnesses.note(self._tenant, scope, found[0].id)
                known.add(scope)
        return [scope for scope in names if scope in known]

    async def counts(self) -> dict[str, int]:
        """Return the scopes that have units, by key, with how many."""
        if self._live is None:
            return {}
        names = await self._named()
        counts = await together(partial(self._live.count, _in(scope)) for scope in names)
        return {scope: number for scope, number in zip(names, counts, strict=True) if number}

    async def _standing(self, live: Table, names: Sequence[str]) -> set[str]:
        """Return those of which the unit that is remembered is still there; what went or moved is forgotten."""
        units = self._witnesses.of(self._tenant, names)
        if not units:
            return set()
        scopes = {one.id: one.properties["scope"] for one in await live.by_ids(units.values(), ["scope"])}
        standing = {scope for scope, unit in units.items() if scopes.get(unit) == scope}
        for scope in units.keys() - standing:
            self._witnesses.forget(self._tenant, scope)
        return standing

    async def _named(self) -> list[str]:
        """Return the scopes that have, or had, units, by key."""
        return sorted(one.properties["text"] for one in await self._kept.fetch(is_("kind", SCOPE), ["text"]))


def _in(scope: str) -> Condition:
    return every(is_("scope", scope), FIRST_CHUNK)
