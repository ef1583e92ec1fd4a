"""The backlog: what is refused when, for how long, and whose live events give way."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from query.backlog import Backlog
from schemas.positions import Position
from shared.backlog import largest, unstored_of_shared
from shared.clock import ManualClock
from shared.errors import Overloaded, StoreUnavailable
from shared.log import BULK, EVENTS, LogRecord
from shared.logs.kafka_tail import Tail

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Store:
    """Counts and watermarks that a test sets; it is the reader and its own snapshot."""

    def __init__(self) -> None:
        self.unstored = 0
        self.marks: dict[tuple[str, int], int] = {}
        self.failure: Exception | None = None
        self.asked_for: set[str] = set()

    async def count(self, tenants) -> int:
        if self.failure:
            raise self.failure
        self.asked_for = set(tenants)
        return self.unstored

    @asynccontextmanager
    async def snapshot(self, tenant: str):
        yield self

    async def watermarks(self) -> dict[tuple[str, int], int]:
        return self.marks


def made(bound: int = 100, live: int = 0) -> tuple[Backlog, Store, ManualClock]:
    store, clock = Store(), ManualClock(NOW)
    return Backlog(store.count, store, clock, bound=bound, live=live), store, clock


def take(backlog: Backlog, events: int, tenant: str = "a", topic: str = EVENTS, first: int = 0) -> None:
    for number in range(first, first + events):
        backlog.took(tenant, Position(log="log", topic=topic, partition=number % 2, number=number))


def refused(backlog: Backlog, topic: str = EVENTS, events: int = 1) -> int | None:
    try:
        backlog.admit(topic, events)
    except Overloaded as error:
        return error.retry_after_s
    return None


async def test_what_this_door_took_counts_before_the_next_count():
    backlog, _, _ = made(bound=100)
    take(backlog, 100)
    assert refused(backlog) is not None


async def test_what_others_put_into_the_log_counts_with_the_next_count():
    backlog, store, _ = made(bound=100)
    store.unstored = 100
    await backlog.look()
    assert refused(backlog) is not None


async def test_bulk_is_refused_at_half_and_live_events_pass_until_the_whole():
    backlog, store, _ = made(bound=100)
    store.unstored = 60
    await backlog.look()
    assert refused(backlog, BULK) is not None
    assert refused(backlog, EVENTS, 40) is None
    assert refused(backlog, EVENTS, 41) is not None


async def test_what_is_stored_makes_room_again():
    backlog, store, _ = made(bound=100)
    take(backlog, 100)
    store.unstored = 20
    await backlog.look()
    assert backlog.events == 20
    assert refused(backlog) is None


async def test_a_batch_larger_than_the_bound_is_taken_when_nothing_waits():
    backlog, _, _ = made(bound=100)
    assert refused(backlog, EVENTS, 500) is None


async def test_retry_after_follows_the_pace_at_which_events_are_stored():
    backlog, store, clock = made(bound=100)
    store.unstored = 300
    await backlog.look()
    for left in (280, 260):  # 20 a second
        clock.advance(1)
        store.unstored = left
        await backlog.look()
    assert refused(backlog, EVENTS, 1) == 9  # 161 too many
    clock.advance(60)
    await backlog.look()
    clock.advance(60)
    await backlog.look()
    assert refused(backlog) == 60, "nothing has been stored for a minute"


async def test_a_count_that_fails_changes_nothing_and_what_is_taken_goes_on_counting():
    backlog, store, _ = made(bound=100)
    take(backlog, 60)
    store.failure = StoreUnavailable()
    with pytest.raises(StoreUnavailable):
        await backlog.look()
    take(backlog, 40, first=60)
    assert refused(backlog) is not None


async def test_a_tenant_that_the_store_does_not_know_yet_is_counted():
    backlog, store, _ = made()
    take(backlog, 1, tenant="new")
    await backlog.look()
    assert store.asked_for == {"new"}


async def test_the_next_events_of_a_tenant_with_many_waiting_are_bulk_and_nobody_else_s():
    backlog, _, _ = made(bound=1_000, live=10)
    take(backlog, 10, tenant="flood")
    assert backlog.topic_for({"flood"}, EVENTS) == BULK
    assert backlog.topic_for({"quiet"}, EVENTS) == EVENTS
    assert backlog.topic_for({"quiet", "flood"}, EVENTS) == BULK


async def test_bulk_does_not_make_a_tenant_s_live_events_give_way():
    backlog, _, _ = made(bound=1_000, live=10)
    take(backlog, 50, topic=BULK)
    assert backlog.topic_for({"a"}, EVENTS) == EVENTS


async def test_once_they_are_stored_a_tenant_s_events_are_live_again():
    backlog, store, _ = made(bound=1_000, live=10)
    take(backlog, 12)
    store.marks = {(EVENTS, 0): 10, (EVENTS, 1): 3}
    await backlog.look()
    assert backlog.live_events("a") == 4  # 5, 7, 9 and 11
    assert backlog.topic_for({"a"}, EVENTS) == EVENTS
    store.marks = {(EVENTS, 0): 10, (EVENTS, 1): 11}
    await backlog.look()
    assert backlog.live_events("a") == 0


class SharedLog:
    """One partition of a log whose tail is remembered by tenant, and of what is older the offsets alone."""

    place = (EVENTS, 0)

    def __init__(self, remembered_from: int, events: dict[str, list[int]]) -> None:
        self.tail = Tail()
        self.tail.begin(self.place, 0)
        self.tail._forgotten[self.place] = remembered_from
        for offset, tenant in sorted((offset, tenant) for tenant, offsets in events.items() for offset in offsets):
            position = Position(log="k", topic=EVENTS, partition=0, number=offset)
            self.tail.add(LogRecord(position, NOW, tenant, "s", f"{tenant}-{offset}", "k", b""))

    async def pending(self, tenant: str, stored: dict) -> dict:
        return self.tail.pending(tenant, stored)


class Marks:
    """A store with one watermark a tenant."""

    def __init__(self, **marks: int) -> None:
        self.marks = marks

    @asynccontextmanager
    async def snapshot(self, tenant: str):
        marks = {SharedLog.place: self.marks[tenant]} if tenant in self.marks else {}

        class Snapshot:
            async def watermarks(self) -> dict:
                return marks

        yield Snapshot()


async def test_where_tenants_share_a_partition_a_quiet_one_s_old_watermark_counts_no_stored_events_of_others():
    log = SharedLog(0, {"quiet": [0], "busy": list(range(1, 100)), "other": [100, 101]})
    assert await unstored_of_shared(log, Marks(quiet=0, busy=97, other=3), ["busy", "other", "quiet"]) == 4


async def test_what_is_known_by_offset_alone_is_counted_once_and_not_for_every_tenant():
    log = SharedLog(1_000, {"a": [1_000, 1_001], "b": [1_002]})
    assert await unstored_of_shared(log, Marks(a=899, b=10, c=20), ["a", "b", "c"]) == 100 + 3


async def test_a_tenant_that_nothing_is_stored_of_has_its_events_counted():
    log = SharedLog(0, {"old": [0, 1], "new": [2, 3, 4]})
    assert await unstored_of_shared(log, Marks(old=1), ["new", "old"]) == 3


def test_the_largest_are_named_and_the_rest_is_one_sum():
    assert largest({"a": 1, "b": 5, "c": 5, "d": 2}, 2) == ({"b": 5, "c": 5}, 3)
    assert largest({}, 2) == ({}, 0)
