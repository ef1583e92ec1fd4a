"""A board, a store that can be steered, and readers of the feed, in one event loop."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from query.feed import FeedHub
from schemas.feed import NewsItem
from shared.boards.memory import MemoryBoard
from shared.news import Mark, Post
from shared.store import Membership
from tests.integration.http_service import EmptyStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CORE, OTHER = "team/core", "team/other"
WAIT_S = 20.0


class Members(EmptyStore):
    """A store without units that knows who reads what."""

    def __init__(self):
        super().__init__()
        self.scopes = {"ana": {CORE}, "bo": {OTHER}, "eve": {CORE, OTHER}}

    async def memberships(self, principal):
        return [Membership(scope, 1) for scope in sorted(self.scopes.get(principal, ()))]


class Newsroom:
    """Posts news, and lets readers in."""

    def __init__(self, board=None, *, readers=10, queue=5):
        self.board = board or MemoryBoard()
        self.store = Members()
        self.hub = FeedHub(self.board, self.store, readers=readers, queue=queue)
        self._number = 0

    async def post(self, *unit_ids, scope=CORE, kind="retracted", tenant="demo"):
        for unit_id in unit_ids:
            self._number += 1
            item = NewsItem(kind=kind, unit_ids=(unit_id,), scopes=(scope,), recorded_at=NOW)
            await self.board.post([Post(tenant, (item,), Mark("events/0", self._number))])

    @asynccontextmanager
    async def reader(self, principal=None, after=None, tenant="demo", recent=0):
        async with self.hub.join(tenant, principal, after, recent) as seat:
            events = seat.events()
            yield Heard(events)
            await events.aclose()


class Heard:
    """What one reader hears, one event at a time."""

    def __init__(self, events):
        self._events = events
        self.last_id = None

    async def next(self):
        async with asyncio.timeout(WAIT_S):
            told = await anext(self._events)
        self.last_id = told.id or self.last_id
        return told.event

    async def kinds(self, count):
        return [(await self.next()).kind for _ in range(count)]

    async def units(self, count):
        return [(await self.next()).unit.unit_id for _ in range(count)]


@asynccontextmanager
async def newsroom(**given):
    room = Newsroom(**given)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(room.hub.run())
        await asyncio.sleep(0)
        try:
            yield room
        finally:
            running.cancel()
