"""Who goes next: live lanes before bulk ones, bulk a quarter of the turns while both wait, and tenants in rotation."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BULK_SHARE = 4  # one turn in so many goes to bulk while live work waits (design §3)

_Waiter = asyncio.Future[None]


class _Rotation:
    """Those that wait, tenant by tenant: one of each in turn, first come first served within a tenant."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[_Waiter]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, tenant: str, waiter: _Waiter) -> None:
        self._waiting.setdefault(tenant, deque()).append(waiter)

    def remove(self, tenant: str, waiter: _Waiter) -> None:
        self._waiting[tenant].remove(waiter)
        if not self._waiting[tenant]:
            del self._waiting[tenant]

    def pop(self) -> _Waiter:
        tenant, mine = next(iter(self._waiting.items()))
        waiter = mine.popleft()
        if mine:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        return waiter


class Turns:
    """Lets ``capacity`` lanes work at a time; within live and within bulk the tenants that wait go in rotation."""

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._live = _Rotation()
        self._bulk = _Rotation()
        self._given = 0

    @asynccontextmanager
    async def turn(self, tenant: str, *, bulk: bool) -> AsyncIterator[None]:
        """Wait for a turn and hold it."""
        await self._acquire(tenant, self._bulk if bulk else self._live)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, tenant: str, waiting: _Rotation) -> None:
        if self._free:
            self._free -= 1
            return
        mine: _Waiter = asyncio.get_running_loop().create_future()
        waiting.add(tenant, mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._release()  # it was given to us just now: pass it on
            else:
                waiting.remove(tenant, mine)
            raise

    def _release(self) -> None:
        queue = self._next()
        if queue is None:
            self._free += 1
        else:
            queue.pop().set_result(None)

    def _next(self) -> _Rotation | None:
        if not (self._live and self._bulk):
            return self._live or self._bulk or None
        self._given += 1
        return self._bulk if self._given % BULK_SHARE == 0 else self._live
