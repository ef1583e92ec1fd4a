"""A cache: losing it loses nothing but speed."""

from typing import Protocol


class Cache(Protocol):
    """Bytes under a key for a limited time: results that depend on their key alone, and notes that nothing rests on."""

    async def get(self, key: str) -> bytes | None:
        """Return what was kept, or None. Raises CacheUnavailable within its own short deadline."""
        ...

    async def put(self, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds. Raises CacheUnavailable."""
        ...

    async def ping(self) -> bool:
        """Tell whether the cache answers; never raises."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
