"""Answers that were streamed to their end, kept for a while: whoever lost the connection gets the rest of the same one.

They lie in the cache, which all query processes share, so any of them can go on. What was not finished is not kept, for a
client that leaves stops its work: it is asked anew.
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from schemas.questions import Question
from shared.cache import Cache
from shared.caches.keys import cache_key
from shared.errors import CacheUnavailable

KEPT_S: Final = 300  # design §8
MOST_BYTES: Final = 1024 * 1024  # of one stream's events, before they are packed; a larger one is not kept
ID_CHARS: Final = 100


class Sent(NamedTuple):
    """An event as it stands in a stream: its stage, and its JSON."""

    stage: str
    data: str


class LastSeen(NamedTuple):
    """What ``Last-Event-ID`` says: which stream, and the number of the last event that arrived."""

    request_id: str
    sequence: int


def last_seen(header: str | None) -> LastSeen | None:
    """Read the header; None where there is none, or none of ours."""
    request_id, dash, sequence = (header or "").rpartition("-")
    if not dash or not request_id or len(request_id) > ID_CHARS or not sequence.isascii() or not sequence.isdigit():
        return None
    return LastSeen(request_id, int(sequence[:6]))


class KeptStreams:
    """Keeps finished streams. Without a cache, or while it is away, there are none."""

    def __init__(self, cache: Cache | None) -> None:
        self._cache = cache

    async def keep(self, whose: Sequence[str], question: Question, request_id: str, events: Sequence[Sent]) -> None:
        """Keep a finished stream. ``whose``: tenant and principal; another's question does not find it."""
        if self._cache is None or sum(len(event.data) for event in events) > MOST_BYTES:
            return
        packed = zlib.compress(orjson.dumps([list(event) for event in events]), 1)
        try:
            await self._cache.put(_key(whose, question, request_id), packed, KEPT_S)
        except CacheUnavailable:
            return  # a client that loses the connection asks anew

    async def find(self, whose: Sequence[str], question: Question, request_id: str) -> list[Sent]:
        """Return a kept stream's events; nothing where it is not known (any more), or is another's."""
        if self._cache is None:
            return []
        try:
            packed = await self._cache.get(_key(whose, question, request_id))
            return [] if packed is None else [Sent(*event) for event in orjson.loads(zlib.decompress(packed))]
        except (CacheUnavailable, zlib.error, orjson.JSONDecodeError, TypeError):
            return []


def _key(whose: Sequence[str], question: Question, request_id: str) -> str:
    return cache_key("answer-stream", *whose, question.model_dump_json(exclude_none=True), request_id)
