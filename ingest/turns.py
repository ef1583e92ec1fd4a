"""Who goes next: live lanes before bulk ones, and bulk a quarter of the turns while both wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BULK_SHARE = 4  # one turn in so many goes to bulk while live work waits (design §3)


class Turns:
    """Lets ``capacity`` lanes work at a time, first come first served within live and within bulk."""

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._live: deque[asyncio.Future[None]] = deque()
        self._bulk: deque[asyncio.Future[None]] = deque()
        self._given = 0

    @asynccontextmanager
    async def turn(self, *, bulk: bool) -> AsyncIterator[None]:
        """Wait for a turn and hold it."""
        await self._acquire(self._bulk if bulk else self._live)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, waiting: deque[asyncio.Future[None]]) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._release()  # it was given to us just now: pass it on
            else:
                waiting.remove(mine)
            raise

    def _release(self) -> None:
        queue = self._next()
        if queue is None:
            self._free += 1
        else:
            queue.popleft().set_result(None)

    def _next(self) -> deque[asyncio.Future[None]] | None:
        if not (self._live and self._bulk):
            return self._live or self._bulk or None
        self._given += 1
        return self._bulk if self._given % BULK_SHARE == 0 else self._live
