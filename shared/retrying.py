"""Which events a stage is trying again: notes in the cache, whose loss turns ``retrying`` into ``pending`` and no more."""

from datetime import datetime
from typing import Final

from pydantic import Field, ValidationError

from schemas.base import Record
from shared.cache import Cache
from shared.caches.keys import cache_key

KEPT_S: Final = 25
"""Whoever tries writes its note anew before that; one of a process that died is gone by then."""
_OVER: Final = b"-"
_OVER_S: Final = 1  # it replaces the note at once, and says nothing itself


class Retrying(Record):
    """A stage tries an event again: how many attempts have failed, by which cause the last, and since when."""

    stage: str
    attempts: int = Field(ge=1)
    cause: str
    since: datetime


class RetryBoard:
    """Notes by event. Every call raises CacheUnavailable within the cache's deadline."""

    def __init__(self, cache: Cache, log_id: str) -> None:
        """``log_id``: of the log that the events are in, for a cache may serve several."""
        self._cache = cache
        self._log_id = log_id

    async def note(self, tenant: str, source: str, event_id: str, retrying: Retrying) -> None:
        """Note that an event is tried again."""
        value = retrying.model_dump_json().encode()
        await self._cache.put(self._key(tenant, source, event_id), value, KEPT_S)

    async def clear(self, tenant: str, source: str, event_id: str) -> None:
        """Note that it is no more."""
        await self._cache.put(self._key(tenant, source, event_id), _OVER, _OVER_S)

    async def look(self, tenant: str, source: str, event_id: str) -> Retrying | None:
        """Return the note of an event, or None."""
        value = await self._cache.get(self._key(tenant, source, event_id))
        try:
            return Retrying.model_validate_json(value) if value and value != _OVER else None
        except ValidationError:  # of another release: it says nothing to this one
            return None

    def _key(self, tenant: str, source: str, event_id: str) -> str:
        return cache_key("retrying", self._log_id, tenant, source, event_id)
