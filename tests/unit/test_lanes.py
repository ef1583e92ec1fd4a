"""Lanes: order, exact offsets, pausing, and what a revoke does. The consumer is a plain one of ours."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from ingest.lanes import Lanes
from ingest.metrics import IngestMetrics
from shared.kafka import KafkaError, TopicPartition

pytestmark = pytest.mark.anyio

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass(frozen=True)
class Stamped:
    """A record at a place."""

    offset: int
    partition: int = 0
    topic: str = "t"
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Consumer:
    """What lanes ask of a consumer."""

    def __init__(self) -> None:
        self.commits: list[dict] = []
        self.paused: set[TopicPartition] = set()
        self.refuse: Exception | None = None
        self.ends = {P0: 0, P1: 0}

    async def commit(self, offsets: dict) -> None:
        if self.refuse:
            raise self.refuse
        self.commits.append(dict(offsets))

    def pause(self, place: TopicPartition) -> None:
        self.paused.add(place)

    def resume(self, place: TopicPartition) -> None:
        self.paused.discard(place)

    def assignment(self) -> set[TopicPartition]:
        return {P0, P1}

    def highwater(self, place: TopicPartition) -> int | None:
        return self.ends[place] or None

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.ends[place] for place in places}

    async def position(self, place: TopicPartition) -> int:
        return self.ends[place]

    def last(self, place: TopicPartition) -> int | None:
        return next((commit[place] for commit in reversed(self.commits) if place in commit), None)


class Work:
    """Notes what was done, in order; waits at what is held."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []
        self.windows: list[int] = []
        self.held: dict[int, asyncio.Event] = {}
        self.entered = asyncio.Event()

    async def __call__(self, records: Sequence[Stamped], draining: Callable[[], bool]) -> int:
        self.windows.append(len(records))
        count = 0
        for record in records:
            if count and draining():
                break
            self.entered.set()
            if record.offset in self.held:
                await self.held[record.offset].wait()
            self.done.append((record.partition, record.offset))
            count += 1
        return count


@asynccontextmanager
async def lanes(work: Work, **given) -> AsyncIterator[Lanes]:
    async with asyncio.TaskGroup() as tasks:
        options = {"window": 4, "limit": 8, "drain_s": 5.0, **given}
        made = Lanes("test", work, tasks, IngestMetrics(), **options)
        yield made
        await made.close(0)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


async def test_records_of_a_partition_are_done_in_order_and_the_offset_after_them_is_committed():
    work, consumer = Work(), Consumer()
    async with lanes(work) as made:
        made.feed(consumer, [Stamped(n) for n in range(10)] + [Stamped(n, 1) for n in range(3)])
        await until(lambda: len(work.done) == 13)
        await made._commit()
        assert [offset for partition, offset in work.done if partition == 0] == list(range(10))
        assert (consumer.last(P0), consumer.last(P1)) == (10, 3)
        assert max(work.windows) <= 4
        count = len(consumer.commits)
        await made._commit()
        assert len(consumer.commits) == count, "nothing new, nothing committed"


async def test_a_slow_record_holds_its_own_partition_only():
    work, consumer = Work(), Consumer()
    work.held[5] = asyncio.Event()
    async with lanes(work) as made:
        made.feed(consumer, [Stamped(n) for n in range(5, 8)])
        made.feed(consumer, [Stamped(n, 1) for n in range(3)])
        await until(lambda: len(work.done) == 3)
        await made._commit()
        assert (consumer.last(P0), consumer.last(P1)) == (None, 3)
        work.held[5].set()
        await until(lambda: len(work.done) == 6)


async def test_a_long_lane_is_paused_and_resumed_at_half():
    work, consumer = Work(), Consumer()
    work.held[0] = asyncio.Event()
    async with lanes(work) as made:
        made.feed(consumer, [Stamped(n) for n in range(9)] + [Stamped(0, 1)])
        assert consumer.paused == {P0}
        work.held[0].set()
        await until(lambda: not consumer.paused)
        assert len(work.done) >= 4


async def test_a_revoke_finishes_the_record_in_hand_commits_it_and_forgets_the_rest():
    work, consumer = Work(), Consumer()
    work.held[1] = asyncio.Event()
    async with lanes(work) as made:
        made.feed(consumer, [Stamped(n) for n in range(8)])
        await until(lambda: len(work.done) == 1)
        revoke = asyncio.create_task(made.on_partitions_revoked({P0}))
        await asyncio.sleep(0)
        made.feed(consumer, [Stamped(99)])  # fetched before the revoke, handed over after it
        work.held[1].set()
        await revoke
        assert [offset for _, offset in work.done] == [0, 1], "the rest comes again, to whoever owns it then"
        assert consumer.last(P0) == 2
        await made.on_partitions_assigned({P0})
        made.feed(consumer, [Stamped(2)])
        await until(lambda: len(work.done) == 3)


async def test_a_record_that_takes_too_long_at_a_revoke_is_given_up_and_not_committed():
    work, consumer = Work(), Consumer()
    work.held[0] = asyncio.Event()
    async with lanes(work, drain_s=0.01) as made:
        made.feed(consumer, [Stamped(0)])
        await work.entered.wait()
        await made.on_partitions_revoked({P0})
        assert (work.done, consumer.commits) == ([], [])


async def test_after_close_nothing_is_taken_any_more():
    work, consumer = Work(), Consumer()
    async with lanes(work) as made:
        await made.close()
        await made.on_partitions_assigned({P0})
        made.feed(consumer, [Stamped(0)])
        assert made.waiting() == 0


async def test_a_refused_commit_is_tried_again_and_kills_nothing():
    work, consumer = Work(), Consumer()
    async with lanes(work) as made:
        made.feed(consumer, [Stamped(0)])
        await until(lambda: work.done)
        await until(lambda: made._lanes[P0].next_offset)
        consumer.refuse = KafkaError("the group has moved on")
        await made._commit()
        consumer.refuse = None
        await made._commit()
        assert consumer.last(P0) == 1


@pytest.mark.parametrize("late", [None, KafkaError("unknown member")], ids=["comes late", "fails late"])
async def test_a_commit_that_does_not_come_back_in_time_ends_before_the_next_begins(late, monkeypatch):
    """aiokafka goes on with it; its error must be somebody's, and it must not overtake the next one."""
    monkeypatch.setattr("ingest.lanes.COMMIT_DEADLINE_S", 0.05)
    work, consumer, answered = Work(), Consumer(), asyncio.Event()
    nobodys: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: nobodys.append(context))

    async def on_its_way(offsets: dict) -> None:
        await answered.wait()
        if late:
            raise late
        consumer.commits.append(dict(offsets))

    async def slow(offsets: dict) -> None:
        await asyncio.shield(on_its_way(offsets))

    async with lanes(work) as made:
        with monkeypatch.context() as patched:
            patched.setattr(consumer, "commit", slow)
            made.feed(consumer, [Stamped(0)])
            await until(lambda: made._lanes and made._lanes[P0].next_offset)
            await made._commit()
            assert made.uncommitted_s() > 0
        made.feed(consumer, [Stamped(1)])
        await until(lambda: made._lanes[P0].next_offset == 2)
        await made._commit()
        assert consumer.commits == [], "the earlier one is still on its way"
        answered.set()
        await made._commit()
        assert consumer.commits == ([{P0: 2}] if late else [{P0: 1}, {P0: 2}])
        assert made.uncommitted_s() == 0
    gc.collect()
    assert nobodys == []


async def test_an_error_that_a_stage_lets_through_ends_the_owner():
    async def broken(_records: Sequence[Stamped], _draining: Callable[[], bool]) -> int:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        async with asyncio.TaskGroup() as tasks:
            Lanes("test", broken, tasks, IngestMetrics(), window=1, limit=1, drain_s=1).feed(Consumer(), [Stamped(0)])


async def test_what_waits_is_counted_to_the_end_that_is_known():
    work, consumer = Work(), Consumer()
    work.held[2] = asyncio.Event()
    async with lanes(work) as made:
        assert await made.behind() == 0, "nothing was ever polled"
        consumer.ends = {P0: 7, P1: 0}
        made.feed(consumer, [Stamped(n) for n in range(5)])
        await until(lambda: len(work.done) == 2)
        assert made.waiting() == await made.behind() == 7, "a window counts when it is done"
        work.held[2].set()
        await until(lambda: len(work.done) == 5)
        await until(lambda: made.waiting() == 2)
