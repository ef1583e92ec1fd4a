"""The arms of a search: passages by words, by nearness and by time (by entity: about.py)."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from shared.clock import Clock
from shared.embedder import Vector
from shared.passages import COMMON_LEAST, telling_terms
from shared.store import PassageHit
from shared.stores.weaviate.conditions import Condition, above, every, is_, one_of, true
from shared.stores.weaviate.floors import Floor
from shared.stores.weaviate.live import FIRST_CHUNK
from shared.stores.weaviate.table import MOST, PAGE, Stored, Table

HIT = ("pid", "unit_id", "moment")
MARGIN = 16
GROWTH = 4
TIED = 512
"""Objects that are read for a tie. To read 10,000 took longer than a search may (100,000 units, a word that a third has)."""
TERMS_KEPT = 20_000
"""Counts of terms that are remembered, of all tenants together."""
COUNT_WAIT_S = 0.25
"""How long a question waits for counts: a third of what its search may take."""
COUNTED_S = 60.0
"""How old a count may be: what is common today was so a minute ago."""

Search = Callable[[int], Awaitable[list[Stored]]]


@dataclass(frozen=True)
class Found:
    """A passage with those of its units that pass, newest first."""

    pid: int
    score: float
    units: tuple[str, ...]

    def hit(self) -> PassageHit:
        """Return it as an answer."""
        return PassageHit(self.pid, self.score, self.units)


async def ranked(search: Search, limit: int) -> list[PassageHit]:
    """Return the best passages, ties by passage id.

    Equal texts score alike, so a passage's units stand together: where a tie straddles the end, more is asked for, once. What
    ties with so many others stands for nothing: beyond `TIED` such a tie is cut as Weaviate gave it.
    """
    if limit < 1:
        return []
    count, most = limit + MARGIN, min(max(TIED, GROWTH * limit), MOST)
    while True:
        found = await search(count)
        passages = _passages(found)
        is_all = len(found) < count or count >= most
        if is_all or (len(passages) > limit and passages[limit - 1].score > found[-1].score):
            return [passage.hit() for passage in passages[:limit]]
        count = most


def _passages(found: Sequence[Stored]) -> list[Found]:
    best: dict[int, float] = {}
    units: dict[int, dict[str, int]] = {}
    for one in found:
        pid = int(one.properties["pid"])
        best[pid] = max(best.get(pid, one.score), one.score)
        units.setdefault(pid, {})[one.properties["unit_id"]] = int(one.properties["moment"])
    order = sorted(best, key=lambda pid: (-best[pid], pid))
    return [Found(pid, best[pid], newest_first(units[pid])) for pid in order]


def newest_first(moments: dict[str, int]) -> tuple[str, ...]:
    """Return units by moment, newest first, ties by id."""
    return tuple(sorted(moments, key=lambda unit_id: (-moments[unit_id], unit_id)))


class TermCounts:
    """Remembers for a while in how many passages a term occurs; shared by all snapshots of a reader.

    To count takes longer the more there are: at 100,000 units longer than a question may wait. So a count that was begun goes on
    when whoever asked has left, for the questions after that one, and a term that is not counted yet is searched for.
    """

    def __init__(self, clock: Clock, wait_s: float = COUNT_WAIT_S) -> None:
        self._clock = clock
        self._wait_s = wait_s
        self._counts: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        self._running: dict[tuple[str, str], asyncio.Task[int]] = {}

    async def telling(self, table: Table, tenant: str, terms: Sequence[str]) -> list[str]:
        """Return the terms worth searching for. In a small store none is common, and nothing is counted."""
        terms = [term for term in dict.fromkeys(terms) if _can_be_searched(term)]
        passages = (await self._known(table, tenant, [""])).get("", 0)
        if passages <= COMMON_LEAST:
            return terms
        known = await self._known(table, tenant, terms)
        return telling_terms({term: known.get(term, 1) for term in terms}, passages)

    async def close(self) -> None:
        """End what still counts."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _known(self, table: Table, tenant: str, terms: Sequence[str]) -> dict[str, int]:
        """Return the counts that there are, or that come soon enough; ``""``: of all passages. Raises StoreUnavailable."""
        known: dict[str, int] = {}
        waiting: dict[asyncio.Task[int], str] = {}
        for term in terms:
            count = self._remembered(tenant, term)
            if count is None:
                waiting[self._counting(table, tenant, term)] = term
            else:
                known[term] = count
        if waiting:
            done, _ = await asyncio.wait(waiting, timeout=self._wait_s)
            known |= {waiting[task]: task.result() for task in done}
        return known

    def _remembered(self, tenant: str, term: str) -> int | None:
        at, count = self._counts.get((tenant, term), (-COUNTED_S, 0))
        small = count <= COMMON_LEAST and not term  # a store that is small may not be so for long
        return count if self._clock.monotonic() - at < COUNTED_S and not small else None

    def _counting(self, table: Table, tenant: str, term: str) -> asyncio.Task[int]:
        running = self._running.get((tenant, term))
        if running is None:
            running = asyncio.create_task(self._count(table, tenant, term), name="count of a term")
            self._running[tenant, term] = running
            running.add_done_callback(lambda done: self._ended((tenant, term), done))
        return running

    def _ended(self, key: tuple[str, str], done: asyncio.Task[int]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # told to whoever waited; nobody may have

    async def _count(self, table: Table, tenant: str, term: str) -> int:
        """Count the passages that have a term; all of them for the empty one."""
        where = every(true("leads"), is_("words", term)) if term else true("leads")
        count = await table.count(where)
        self._counts[tenant, term] = (self._clock.monotonic(), count)
        self._counts.move_to_end((tenant, term))
        while len(self._counts) > TERMS_KEPT:
            self._counts.popitem(last=False)
        return count


def _can_be_searched(term: str) -> bool:
    """Tell whether a term can be sent and is one: no white space, no NUL, no lone surrogate."""
    return (
        bool(term)
        and len(term.split()) == 1
        and "\x00" not in term
        and not any("\ud800" <= sign <= "\udfff" for sign in term)
    )


async def by_words(table: Table, terms: Sequence[str], where: Condition, limit: int) -> list[PassageHit]:
    """Return passages by BM25."""
    if not terms:
        return []
    return await ranked(lambda count: table.bm25(terms, where, HIT, limit=count), limit)


async def by_nearness(table: Table, query: Vector, where: Condition, limit: int) -> list[PassageHit]:
    """Return passages by cosine similarity, the best of their chunks."""
    vector = query.tolist()
    return await ranked(lambda count: table.near(vector, where, HIT, limit=count), limit)


async def by_time(table: Table, where: Condition, limit: int, *, oldest_first: bool) -> list[PassageHit]:
    """Return passages by the time of their newest (or oldest) unit that passes. ``score``: seconds since 1970."""
    found = await first_of_each(table, every(where, FIRST_CHUNK), limit, oldest_first=oldest_first)
    units = await passing_units(table, found, where)
    return [PassageHit(pid, moment / 1e6, units[pid]) for pid, moment in found.items() if pid in units]


async def newest(
    table: Table, where: Condition, names: Sequence[str], limit: int, floor: Floor | None = None
) -> list[Stored]:
    """Return up to ``limit`` units by moment, newest first, ties by id. ``floor``: of the key that they have."""
    found = await _in_time(table, where, names, limit, lambda rows: len(rows) >= limit, floor=floor)
    if floor is not None and len(found) >= limit > 0:
        floor.note(int(found[limit - 1].properties["moment"]))
    return found[: max(limit, 0)]


async def first_of_each(
    table: Table, where: Condition, limit: int, *, oldest_first: bool = False, floor: Floor | None = None
) -> dict[int, int]:
    """Return the first passages in the order of time of their units, each with its first unit's moment.

    ``floor``: of the key that they have, for the newest.
    """

    def first(rows: Sequence[Stored]) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in rows:
            found.setdefault(int(one.properties["pid"]), int(one.properties["moment"]))
        return found

    rows = await _in_time(
        table, where, HIT, limit, lambda rows: len(first(rows)) >= limit, oldest_first=oldest_first, floor=floor
    )
    passages = list(first(rows).items())[: max(limit, 0)]
    if floor is not None and len(passages) >= limit > 0:
        floor.note(passages[-1][1])
    return dict(passages)


async def _in_time(
    table: Table,
    where: Condition,
    names: Sequence[str],
    limit: int,
    enough: Callable[[list[Stored]], bool],
    *,
    oldest_first: bool = False,
    floor: Floor | None = None,
) -> list[Stored]:
    """Return units by moment, ties by id, until there are enough. ``floor``: since when there were, newest first.

    Weaviate sorts by one property from its index, but by two it reads every object (at 6,000 units 3 and 690 ms): ties are
    put in order here. Of the last moment that was read there may be more: those are asked for, or left out if they are many.
    """
    sign, count = 1 if oldest_first else -1, limit + MARGIN
    wanted = tuple(dict.fromkeys((*names, "moment", "unit_id")))
    if floor is not None and floor.moment is not None:
        most = min(GROWTH * count, MOST)
        found = await table.page(every(where, above("moment", floor.moment - 1)), wanted, limit=most)
        rows = sorted(found, key=lambda one: (-int(one.properties["moment"]), one.properties["unit_id"]))
        if len(rows) < most and enough(rows):
            return rows
    while True:
        found = await table.page(where, wanted, limit=count, order=[("moment", oldest_first)])
        rows = sorted(found, key=lambda one: (sign * int(one.properties["moment"]), one.properties["unit_id"]))
        if len(found) < count or count >= MOST:
            return rows
        last = rows[-1].properties["moment"]
        settled = [one for one in rows if one.properties["moment"] != last]
        if enough(settled):
            return settled
        ties = await table.page(every(where, is_("moment", int(last))), wanted, limit=PAGE)
        is_all = len(ties) < PAGE and {one.id for one in rows[len(settled) :]} <= {one.id for one in ties}
        settled += sorted(ties, key=lambda one: one.properties["unit_id"])
        if is_all and enough(settled):
            return settled
        count = min(count * GROWTH, MOST)


async def passing_units(table: Table, pids: Iterable[int], where: Condition) -> dict[int, tuple[str, ...]]:
    """Return, of each passage that has any, the units which pass, newest first."""
    found: dict[int, dict[str, int]] = {}
    for one in await table.fetch_any("pid", set(pids), HIT, FIRST_CHUNK, where):
        found.setdefault(int(one.properties["pid"]), {})[one.properties["unit_id"]] = int(one.properties["moment"])
    return {pid: newest_first(moments) for pid, moments in found.items()}


async def similarities(table: Table, query: Vector, pids: Collection[int]) -> dict[int, float]:
    """Return the cosine similarity of each passage, the best of its chunks."""
    best: dict[int, float] = {}
    if not pids:
        return best
    where, count = one_of("pid", sorted(pids)), len(pids) + MARGIN
    while True:
        found = await table.near(query.tolist(), where, ("pid",), limit=count)
        for one in found:
            pid = int(one.properties["pid"])
            best[pid] = max(best.get(pid, one.score), one.score)
        if len(found) < count or len(best) == len(set(pids)) or count >= MOST:
            return best
        count = min(count * GROWTH, MOST)
