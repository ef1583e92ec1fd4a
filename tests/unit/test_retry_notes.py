"""Telling what is being tried again: at once, in order, bounded, and without harm when the cache is away."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from ingest import retry_notes
from ingest.delivery import Backoff, Delivery, Hopeless
from ingest.metrics import IngestMetrics
from ingest.retry_notes import RetryNotes
from shared.caches.memory import MemoryCache
from shared.clock import ManualClock
from shared.errors import CacheUnavailable, EmbedderUnavailable
from shared.retrying import KEPT_S, RetryBoard

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 3, 1, tzinfo=UTC)
EVENT = ("acme", "/s", "e")


class SteeredCache(MemoryCache):
    def __init__(self, clock):
        super().__init__(clock)
        self.away = False
        self.refused = asyncio.Event()

    async def put(self, key, value, ttl_s):
        if self.away:
            self.refused.set()
            raise CacheUnavailable
        await super().put(key, value, ttl_s)


class Noting:
    def __init__(self):
        self.clock = ManualClock(NOW)
        self.cache = SteeredCache(self.clock)
        self.board = RetryBoard(self.cache, "log")
        self.notes = RetryNotes(self.board, self.clock, refresh_s=0.01, rest_s=0.001)
        self.delivery = Delivery("embed", 3, Backoff(1e-6, 1e-5), IngestMetrics())

    def watch(self):
        return self.notes.watch("embed", *EVENT)

    async def until(self, wanted):
        """Wait until so many attempts are told of; None: until nothing is."""
        return await self._until(lambda attempts: attempts == wanted)

    async def until_told(self):
        return await self._until(lambda attempts: attempts is not None)

    async def _until(self, is_it):
        async with asyncio.timeout(10):
            while True:
                found = await self.board.look(*EVENT)
                if is_it(None if found is None else found.attempts):
                    return found
                await asyncio.sleep(0.001)


@asynccontextmanager
async def at_work():
    noting = Noting()
    task = asyncio.create_task(noting.notes.run())
    try:
        yield noting
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_failure_is_told_and_then_that_it_is_over():
    async with at_work() as noting:
        watch = noting.watch()
        watch.failed(1, "transient")
        first = await noting.until(1)
        assert (first.stage, first.cause, first.since) == ("embed", "transient", NOW)
        noting.clock.advance(5)
        watch.failed(2, "embedder-unavailable")
        second = await noting.until(2)
        assert (second.cause, second.since) == ("embedder-unavailable", NOW), "since when is the first failure"
        watch.over()
        await noting.until(None)


async def test_what_never_failed_is_not_told_of():
    noting = Noting()
    noting.watch().over()
    assert not noting.notes._waiting


async def test_the_delivery_rules_tell_of_retries_and_of_their_end():
    async with at_work() as noting:
        failing = asyncio.Event()

        async def work():
            if not failing.is_set():
                raise EmbedderUnavailable
            return "done"

        async def well():
            return False

        attempt = asyncio.create_task(noting.delivery.attempt(work, well, noting.watch()))
        await noting.until_told()
        failing.set()
        assert await attempt == "done"
        await noting.until(None)


async def test_what_is_given_up_is_not_tried_any_more():
    async with at_work() as noting:

        async def work():
            raise EmbedderUnavailable

        with pytest.raises(Hopeless):
            await noting.delivery.attempt(work, watch=noting.watch())
        await noting.until(None)


async def test_a_cache_that_is_away_costs_the_note_and_nothing_else():
    async with at_work() as noting:
        noting.cache.away = True
        watch = noting.watch()
        watch.failed(1, "transient")
        await noting.cache.refused.wait()
        noting.cache.away = False
        watch.failed(2, "transient")
        await noting.until(2)


async def test_a_note_lives_as_long_as_it_is_tried_and_no_longer():
    """Case C32: what a process that was killed tried is soon not said to be tried any more."""
    async with at_work() as noting:
        noting.watch().failed(1, "transient")
        for _ in range(3):
            await noting.until(1)
            noting.clock.advance(KEPT_S + 1)
        await noting.until(1)
    noting.clock.advance(KEPT_S + 1)
    assert await noting.board.look(*EVENT) is None


async def test_notes_that_wait_are_bounded_and_one_an_event():
    noting = Noting()
    for number in range(retry_notes.WAITING + 5):
        noting.notes.watch("embed", "acme", "/s", f"e{number}").failed(1, "transient")
    assert len(noting.notes._waiting) == retry_notes.WAITING
    watch = noting.watch()
    for attempt in range(1, 4):
        watch.failed(attempt, "transient")
    assert len(noting.notes._waiting) == retry_notes.WAITING
    assert noting.notes._waiting[EVENT].attempts == 3


async def test_notes_of_two_logs_in_one_cache_are_apart():
    noting = Noting()
    watch = noting.watch()
    watch.failed(1, "transient")
    await noting.board.note(*EVENT, noting.notes._waiting[EVENT])
    assert await RetryBoard(noting.cache, "another").look(*EVENT) is None
    assert await noting.board.look("acme", "/s", "other") is None
    await noting.cache.put(next(iter(noting.cache._kept)), b"of another release", 10)
    assert await noting.board.look(*EVENT) is None
