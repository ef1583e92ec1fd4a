"""A cache on Redis 7, Redis 8 or Valkey, that costs nothing while the server is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from shared.clock import Clock, SystemClock
from shared.errors import CacheUnavailable

CONNECTIONS: Final = 16  # as many as answers at once; a command takes well under 1 ms
REST_S: Final = 1.0  # after a failure: one caller a second pays the deadline, the others go without the cache
T = TypeVar("T")


class RedisCache:
    """A `Cache` that gives up after ``timeout_s``, connecting included, and then rests for a second.

    Only commands of Redis 7.0 are sent: PING, GET, SET with EX.
    """

    def __init__(self, url: str, timeout_s: float = 0.05, clock: Clock | None = None) -> None:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),  # a second attempt would double the wait; the next question is the retry
            protocol=2,  # RESP3 would negotiate maintenance notifications, which Redis 7 does not know
            driver_info=None,  # CLIENT SETINFO is of Redis 7.2
        )
        self._redis: Redis = Redis.from_pool(pool)
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._rest_until = float("-inf")

    async def get(self, key: str) -> bytes | None:
        """Return what was kept, or None. Raises CacheUnavailable within the deadline, at once while resting."""
        value = await self._guarded(lambda: self._redis.get(key))
        return value.encode() if isinstance(value, str) else value

    async def put(self, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds; 0 or less keeps nothing. Raises CacheUnavailable."""
        if ttl_s > 0:
            await self._guarded(lambda: self._redis.set(key, value, ex=ttl_s))

    async def ping(self) -> bool:
        """Tell whether the server answers now; asks it even while resting, and ends the rest when it does."""
        try:
            await self._within_deadline(self._redis.ping)
        except CacheUnavailable:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose(close_connection_pool=True)

    async def _guarded(self, command: Callable[[], Awaitable[T]]) -> T:
        if self._clock.monotonic() < self._rest_until:
            raise CacheUnavailable("the cache did not answer a moment ago")
        return await self._within_deadline(command)

    async def _within_deadline(self, command: Callable[[], Awaitable[T]]) -> T:
        recovering = self._rest_until > float("-inf")
        if recovering:  # the others rest on while this caller tries
            self._rest_until = self._clock.monotonic() + REST_S
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await command()
        except (RedisError, OSError, TimeoutError) as error:
            self._rest_until = self._clock.monotonic() + REST_S
            raise CacheUnavailable(f"the cache does not answer: {type(error).__name__}") from error
        self._rest_until = float("-inf")
        return result
