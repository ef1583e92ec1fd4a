"""A cache in this process: for tests, and for a service without Redis."""

from collections import OrderedDict

from shared.clock import Clock

ENTRIES = 4_096  # of the few kB that a query vector or an intent has: some MB


class MemoryCache:
    """A `Cache` that forgets what was least recently used beyond ``entries``."""

    def __init__(self, clock: Clock, entries: int = ENTRIES) -> None:
        self._clock = clock
        self._entries = entries
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        """Return what was kept, or None."""
        until, value = self._kept.get(key, (0.0, b""))
        if key not in self._kept:
            return None
        if until <= self._clock.monotonic():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return value

    async def put(self, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds; 0 or less keeps nothing."""
        if ttl_s <= 0:
            return
        self._kept[key] = (self._clock.monotonic() + ttl_s, bytes(value))
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    async def ping(self) -> bool:
        """Tell whether the cache answers: always."""
        return True

    async def close(self) -> None:
        """Forget everything."""
        self._kept.clear()
