"""The live feed inside a query process: one tail a tenant reads the board, every reader gets what he may read.

A reader has a queue with a bound. When it is full, what comes is counted and not kept; once there is room he is told how
many he missed, in the place where they would have stood. Readable is decided anew for every batch, from the memberships
in the store.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import structlog
from anyio.abc import TaskGroup

from query.visible import readable_scopes
from schemas.feed import (
    EXCERPT_CHARS,
    ChangedEvent,
    ContradictedEvent,
    DegradedEvent,
    FeedEvent,
    LiveEvent,
    MissedEvent,
    NewsEvent,
    NewsItem,
    OpenEvent,
    RetractedEvent,
    StoredEvent,
    UnitNews,
)
from shared.errors import CacheUnavailable, CortexError, Overloaded
from shared.news import START, Entry, NewsBoard, order
from shared.store import KnowledgeReader, Snapshot, StoredUnit

PAGE = 200  # entries a look at the board and a look into the store are for
WAIT_S = 5.0  # how long a tail waits for news before it looks whether anybody still listens
BACKOFF_S = (0.2, 5.0)
OPEN_S = 2.0  # a reader does not wait longer for a board that is away to be told that it is
NO_BOARD = "this service was started without a board for news"
AWAY = "the board of news does not answer; nothing comes until it does"

_log = structlog.get_logger("cortex.query")


@dataclass(frozen=True)
class Told:
    """An event for a reader, with the id to go on after where it is news."""

    event: FeedEvent
    id: str | None = None


class Reader:
    """Whoever reads the feed: who asks, and what waits for him."""

    def __init__(self, principal: str | None, bound: int) -> None:
        self.principal = principal
        self._bound = bound
        self._waiting: deque[Told] = deque()
        self._missed = 0
        self._arrived = asyncio.Event()

    def offer(self, told: Told) -> None:
        """Queue news, or count it as missed."""
        if len(self._waiting) >= self._bound:
            self._missed += 1
            return
        self._settle()
        self._waiting.append(told)
        self._arrived.set()

    def note(self, event: FeedEvent) -> None:
        """Queue word about the feed itself, whatever the bound: there is little of it."""
        self._settle()
        self._waiting.append(Told(event))
        self._arrived.set()

    async def take(self) -> Told:
        """Return what is next, waiting for it."""
        while not self._waiting and not self._missed:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._waiting:
            self._settle()
        return self._waiting.popleft()

    def _settle(self) -> None:
        """Put the count of what was missed behind what came before it."""
        if self._missed:
            self._waiting.append(Told(MissedEvent(count=self._missed, reason="slow")))
            self._missed = 0


class FeedHub:
    """All readers of this process. `run` owns the tails."""

    def __init__(self, board: NewsBoard | None, store: KnowledgeReader, *, readers: int, queue: int) -> None:
        """``readers``: at most so many at once; ``queue``: at most so much news waits for each."""
        self._board = board
        self._store = store
        self._most = readers
        self._queue = queue
        self._tails: dict[str, _Tail] = {}
        self._group: TaskGroup | None = None
        self.readers = 0

    async def run(self) -> None:
        """Own the tails until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            await anyio.sleep_forever()

    @asynccontextmanager
    async def join(
        self, tenant: str, principal: str | None, after: str | None, recent: int = 0
    ) -> AsyncIterator["Seat"]:
        """Listen; with ``after``, from that id on, else beginning with so much ``recent`` news. Raises Overloaded."""
        if self.readers >= self._most:
            raise Overloaded(f"{self._most} readers are at the feed already")
        reader = Reader(principal, self._queue)
        tail = self._tail(tenant)
        self.readers += 1
        try:
            if tail is not None:
                tail.readers.add(reader)
                await tail.settled(OPEN_S)
            yield Seat(reader, tail, after, recent)
        finally:
            self.readers -= 1
            if tail is not None:
                tail.readers.discard(reader)
                if not tail.readers and self._tails.get(tenant) is tail:
                    del self._tails[tenant]
                    tail.end()

    def _tail(self, tenant: str) -> "_Tail | None":
        if self._board is None or self._group is None:
            return None
        tail = self._tails.get(tenant)
        if tail is None:
            tail = self._tails[tenant] = _Tail(tenant, self._board, self._store)
            self._group.start_soon(tail.run, name=f"feed-{tenant}")
        return tail


class Seat:
    """A reader's place: what was there before he came, then what comes."""

    def __init__(self, reader: Reader, tail: "_Tail | None", after: str | None, recent: int) -> None:
        self.reader = reader
        self._tail = tail
        self._after = after
        self._recent = recent
        self._joined = tail.cursor if tail is not None else None

    async def events(self) -> AsyncGenerator[Told, None]:
        """Yield for ever: how the feed is, what was missed since ``after``, and what comes."""
        tail = self._tail
        if tail is None or self._joined is None:
            yield Told(OpenEvent(live=False))
            yield Told(DegradedEvent(reason=AWAY if tail is not None else NO_BOARD))
            if self._after is not None:
                yield Told(MissedEvent(reason="outage"))
        else:
            async for told in self._from_before(tail, self._joined):
                yield told
        while True:
            yield await self.reader.take()

    async def _from_before(self, tail: "_Tail", joined: str) -> AsyncIterator[Told]:
        try:
            if self._after is None:
                yield Told(OpenEvent(live=True), joined)
                for told in await tail.lately(joined, self.reader.principal, self._recent):
                    yield told
                return
            resumed = await tail.board.follows(tail.tenant, self._after)
            yield Told(OpenEvent(live=True, resumed=resumed), self._after if resumed else joined)
            if not resumed:
                yield Told(MissedEvent(reason="trimmed"))
            async for told in tail.between(self._after, joined, self.reader.principal):
                yield told
        except CortexError as error:
            _log.warning("feed.catch_up_failed", error=type(error).__name__)
            yield Told(MissedEvent(reason="outage"))


class _Tail:
    """Follows one tenant's news for all its readers in this process."""

    def __init__(self, tenant: str, board: NewsBoard, store: KnowledgeReader) -> None:
        self.tenant = tenant
        self.board = board
        self.readers: set[Reader] = set()
        self.cursor: str | None = None
        self._store = store
        self._live: bool | None = None
        self._known = asyncio.Event()
        self._scope = anyio.CancelScope()

    async def settled(self, limit_s: float) -> None:
        """Wait until it is known whether the board answers, at most so long."""
        with anyio.move_on_after(limit_s):
            await self._known.wait()

    def end(self) -> None:
        """Stop following."""
        self._scope.cancel()

    async def run(self) -> None:
        """Follow until nobody listens."""
        wait_s = BACKOFF_S[0]
        with self._scope:
            while True:
                try:
                    await self._step()
                    wait_s = BACKOFF_S[0]
                except CacheUnavailable:
                    self._say_live(live=False)
                    await anyio.sleep(wait_s)
                    wait_s = min(2 * wait_s, BACKOFF_S[1])

    async def between(self, after: str, until: str, principal: str | None) -> AsyncIterator[Told]:
        """Yield what a principal may read of what stands between two ids, page by page."""
        while order(after) < order(until):
            entries = await self.board.read(self.tenant, after, until, PAGE)
            if not entries:
                return
            async with self._store.snapshot(self.tenant) as snapshot:
                told = await tell(snapshot, principal, entries)
            for one in told:
                yield one
            after = entries[-1].id

    async def lately(self, until: str, principal: str | None, limit: int) -> list[Told]:
        """Return the newest that a principal may read, of the last PAGE entries up to an id."""
        entries = await self.board.latest(self.tenant, until, PAGE) if limit else []
        if not entries:
            return []
        async with self._store.snapshot(self.tenant) as snapshot:
            return (await tell(snapshot, principal, entries))[-limit:]

    async def _step(self) -> None:
        if self.cursor is None:
            self.cursor = await self.board.newest(self.tenant)
        elif not self._live:
            newest = await self.board.newest(self.tenant)
            if not await self.board.follows(self.tenant, self.cursor):
                self._note(MissedEvent(reason="outage"))
            if newest == START:
                self.cursor = START  # a new board: all that will be on it is news
        self._say_live(live=True)
        entries = await self.board.wait(self.tenant, self.cursor, PAGE, WAIT_S)
        if entries:
            self.cursor = entries[-1].id
            await self._spread(entries, list(self.readers))  # whoever joins from here on has seen this cursor

    async def _spread(self, entries: Sequence[Entry], readers: Sequence[Reader]) -> None:
        by_principal: dict[str | None, list[Reader]] = {}
        for reader in readers:
            by_principal.setdefault(reader.principal, []).append(reader)
        try:
            async with self._store.snapshot(self.tenant) as snapshot:
                for principal, mine in by_principal.items():
                    for told in await tell(snapshot, principal, entries):
                        for reader in mine:
                            reader.offer(told)
        except (
            CortexError
        ) as error:  # who may read what is not known: nobody hears it, and everybody that there was some
            _log.warning("feed.store_unavailable", error=type(error).__name__)
            for reader in readers:
                reader.note(MissedEvent(reason="outage"))

    def _say_live(self, *, live: bool) -> None:
        if self._live is not None and self._live != live:
            self._note(LiveEvent() if live else DegradedEvent(reason=AWAY))
        self._live = live
        self._known.set()

    def _note(self, event: FeedEvent) -> None:
        for reader in self.readers:
            reader.note(event)


async def tell(snapshot: Snapshot, principal: str | None, entries: Sequence[Entry]) -> list[Told]:
    """Return the events of those entries that a principal may read; None reads the whole tenant."""
    scopes = None if principal is None else await readable_scopes(snapshot, principal)
    mine = [entry for entry in entries if scopes is None or scopes.issuperset(entry.item.scopes)]
    units = await snapshot.units({unit_id for entry in mine for unit_id in entry.item.unit_ids})
    told = [(_event(entry.item, units, scopes), entry.id) for entry in mine]
    return [Told(event, entry_id) for event, entry_id in told if event is not None]


def _event(item: NewsItem, units: dict[str, StoredUnit], scopes: frozenset[str] | None) -> FeedEvent | None:
    """Write an entry as its reader may see it; a pair of which a side is gone is no contradiction any more."""
    if item.kind == "gap":
        return MissedEvent(reason="outage")
    seen = [
        _unit(unit_id, scope, units.get(unit_id), scopes)
        for unit_id, scope in zip(item.unit_ids, item.scopes, strict=True)
    ]
    if item.kind == "contradicted" and any(side.text is None for side in seen):
        return None
    return _news(item, seen)


def _news(item: NewsItem, seen: Sequence[UnitNews]) -> NewsEvent:
    if item.kind == "contradicted":
        return ContradictedEvent(
            recorded_at=item.recorded_at,
            sides=(seen[0], seen[1]),
            difference=item.difference or "",
            detail=item.detail or "",
            attribute=item.attribute or "",
        )
    if item.kind == "retracted":
        gone = UnitNews(unit_id=seen[0].unit_id, scope=seen[0].scope)
        return RetractedEvent(recorded_at=item.recorded_at, unit=gone, source=item.source)
    kind = StoredEvent if item.kind == "stored" else ChangedEvent
    return kind(recorded_at=item.recorded_at, unit=seen[0], source=item.source)


def _unit(unit_id: str, scope: str, stored: StoredUnit | None, scopes: frozenset[str] | None) -> UnitNews:
    """What may be seen of a unit now: it may have gone, or moved to where this reader cannot follow."""
    unit = stored.known.unit if stored is not None else None
    if unit is None or (scopes is not None and unit.scope.key not in scopes):
        return UnitNews(unit_id=unit_id, scope=scope)
    return UnitNews(
        unit_id=unit_id,
        scope=scope,
        title=unit.title,
        text=unit.text[:EXCERPT_CHARS],
        type=unit.type,
        occurred_at=unit.occurred_at,
        creator=unit.origin.creator_entity_id,
        supersedes=unit.supersedes,
    )
