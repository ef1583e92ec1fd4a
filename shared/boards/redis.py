"""A board on Redis 7, Redis 8 or Valkey: a stream a tenant."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar

import structlog
from pydantic import ValidationError
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from schemas.feed import NewsItem
from shared.errors import CacheUnavailable
from shared.news import KEPT, START, Entry, Post

ANSWER_S: Final = 1.0  # a command takes well under 1 ms; the feed can wait longer than a question
CONNECTIONS: Final = 256  # each waiting tenant holds one
MARKS_S: Final = 7 * 24 * 3600  # after that long nobody delivers again
Value = TypeVar("Value")

ADD: Final = """
local number = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '-1')
if number >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[4])
for i = 5, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'item', ARGV[i])
end
return #ARGV - 4
"""
"""The mark and the news in one step: whatever fails in between, news is there once or not yet."""

_log = structlog.get_logger(__name__)


class RedisBoard:
    """A `NewsBoard`. Only commands of Redis 7.0 are sent: EVAL (HGET, HSET, EXPIRE, XADD), XRANGE, XREVRANGE, XREAD,
    XINFO STREAM.
    """

    def __init__(self, url: str, *, prefix: str = "", kept: int = KEPT, answer_s: float = ANSWER_S) -> None:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=answer_s,
            socket_timeout=None,  # the client's own 5 s would end a quiet wait; every call has a deadline of ours
            socket_connect_timeout=answer_s,
            retry=Retry(NoBackoff(), 0),  # whoever asks tries again at its own pace
            protocol=2,  # RESP3 would negotiate maintenance notifications, which Redis 7 does not know
            driver_info=None,  # CLIENT SETINFO is of Redis 7.2
        )
        self._redis: Redis = Redis.from_pool(pool)
        self._prefix = prefix
        self._kept = kept
        self._answer_s = answer_s

    async def post(self, posts: Sequence[Post]) -> None:
        """Add news, in one round trip."""
        pipeline = self._redis.pipeline(transaction=False)
        for post in posts:
            if post.items:
                items = [item.model_dump_json(exclude_none=True) for item in post.items]
                stream, marks = self._stream(post.tenant), f"{self._stream(post.tenant)}:marks"
                pipeline.eval(ADD, 2, stream, marks, post.mark.place, post.mark.number, self._kept, MARKS_S, *items)
        if len(pipeline):
            await self._within(pipeline.execute(), self._answer_s)

    async def newest(self, tenant: str) -> str:
        """Return the newest id."""
        return _text((await self._info(tenant)).get("last-generated-id", START))

    async def follows(self, tenant: str, entry_id: str) -> bool:
        """Tell whether nothing is missing after an id."""
        info = await self._info(tenant)
        if entry_id == _text(info.get("last-generated-id", START)):
            return True
        if entry_id == START:
            return bool(info.get("entries-added", 0) == info.get("length", 0))
        return bool(await self._range(tenant, entry_id, entry_id, 1))

    async def read(self, tenant: str, after: str, until: str, limit: int) -> list[Entry]:
        """Return entries between ids."""
        return _entries(await self._range(tenant, f"({after}", until, limit))

    async def latest(self, tenant: str, until: str, limit: int) -> list[Entry]:
        """Return the newest entries up to an id."""
        command = self._redis.xrevrange(self._stream(tenant), until, "-", count=limit)
        answer: Any = await self._within(command, self._answer_s)
        return _entries(reversed(answer))

    async def wait(self, tenant: str, after: str, limit: int, wait_s: float) -> list[Entry]:
        """Return entries after an id, or wait for one."""
        wait_ms = max(1, int(wait_s * 1000))  # 0 would wait for ever
        command = self._redis.xread({self._stream(tenant): after}, count=limit, block=wait_ms)
        answer: Any = await self._within(command, wait_s + self._answer_s)
        return _entries(answer[0][1]) if answer else []

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose(close_connection_pool=True)

    def _stream(self, tenant: str) -> str:
        return f"{self._prefix}cortex:1:news:{{{tenant}}}"

    async def _info(self, tenant: str) -> dict[str, Any]:
        try:
            info = await self._within(self._redis.xinfo_stream(self._stream(tenant)), self._answer_s)
        except CacheUnavailable as error:
            if isinstance(error.__cause__, ResponseError) and "no such key" in str(error.__cause__):
                return {}
            raise
        return dict(info)

    async def _range(self, tenant: str, first: str, last: str, limit: int) -> Any:
        return await self._within(self._redis.xrange(self._stream(tenant), first, last, count=limit), self._answer_s)

    async def _within(self, command: Awaitable[Value], limit_s: float) -> Value:
        try:
            async with asyncio.timeout(limit_s):
                return await command
        except (RedisError, OSError, TimeoutError) as error:
            raise CacheUnavailable(f"the board does not answer: {type(error).__name__}") from error


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _entries(rows: Any) -> list[Entry]:
    entries = []
    for entry_id, fields in rows:
        try:
            entries.append(Entry(_text(entry_id), NewsItem.model_validate_json(fields[b"item"])))
        except (KeyError, ValidationError, TypeError):
            _log.warning("news.unreadable", entry=_text(entry_id))
    return entries
