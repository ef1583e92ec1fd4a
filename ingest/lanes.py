"""One lane a partition: ordered work, exact commits, no matter how slow a record is.

FastStream only polls and feeds. The commit discipline of every stage:

1. A lane takes the next window of its partition's records, in order.
2. Their effects become durable, with the partition's watermark in the same transaction.
3. What the graph gets of them is acknowledged by the broker.
4. Their outputs, exactly one a record, a result or a marker, are acknowledged by the broker.
5. Exactly the offset behind the last finished record is committed.

A kill between any two repeats work and changes nothing (tests/integration/test_commit_gaps.py).

At a revoke, in this order: accept nothing new; lanes finish the record in hand (at most ``drain_s``); commit; forget.
What was fetched before the revoke and not finished comes again from the committed offset, to whoever owns it then.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import structlog

from ingest.metrics import IngestMetrics
from shared.kafka import KafkaError, RebalanceListener, Record, TopicPartition

COMMIT_EVERY_S = 0.25  # a crash repeats at most this much work; redelivery changes nothing
COMMIT_DEADLINE_S = 2.0  # it takes a millisecond; a stop must not wait for a broker that is gone
Draining = Callable[[], bool]
Work = Callable[[Sequence[Record], Draining], Awaitable[int]]
"""Do a window's records in order; return how many from its start are done: fewer when draining, or out of time."""

_log = structlog.get_logger(__name__)


class Lane:
    """The records of one partition that wait, and the offset up to which everything is done."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.waiting: deque[Record] = deque()
        self.arrived = asyncio.Event()
        self.paused = False
        self.next_offset: int | None = None
        self.committed: int | None = None
        self.moved_s = time.monotonic()  # when the first of the waiting became the first


class Lanes(RebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """The lanes of one consumer. ``tasks`` owns them: an error that a stage lets through ends the whole pipeline."""

    def __init__(
        self,
        stage: str,
        work: Work,
        tasks: asyncio.TaskGroup,
        metrics: IngestMetrics,
        *,
        window: int,
        limit: int,
        drain_s: float,
    ) -> None:
        """``window``: records taken at a time. ``limit``: a lane with more is paused, and resumed at half."""
        self.stage = stage
        self._work = work
        self._tasks = tasks
        self._metrics = metrics
        self._window = window
        self._limit = limit
        self._drain_s = drain_s
        self._consumer: Any = None
        self._lanes: dict[TopicPartition, Lane] = {}
        self._running: dict[TopicPartition, asyncio.Task[None]] = {}
        self._accepting = True
        self._closed = False
        self._committing = asyncio.Lock()
        self._uncommitted_since_s: float | None = None
        self._telling: asyncio.Task[None] | None = None  # the commit that is under way

    def attach(self, consumer: Any) -> None:
        """Know the consumer before it has polled anything, so that `behind` can ask it."""
        self._consumer = consumer

    def feed(self, consumer: Any, records: Iterable[Record]) -> None:
        """Take what was polled. What was fetched before a revoke and comes after it is not taken."""
        if not self._accepting:
            return
        self._consumer = consumer
        for record in records:
            lane = self._lane(TopicPartition(record.topic, record.partition))
            if not lane.waiting:
                lane.moved_s = time.monotonic()
            lane.waiting.append(record)
            lane.arrived.set()
        for lane in self._lanes.values():
            if len(lane.waiting) > self._limit and not lane.paused:
                lane.paused = True
                consumer.pause(lane.place)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Begin to take records."""
        if not self._closed:
            self._accepting = True
        _log.info("lanes.assigned", stage=self.stage, partitions=len(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Finish, commit, forget."""
        await self._drain(self._drain_s)
        _log.info("lanes.revoked", stage=self.stage, partitions=len(revoked))

    async def close(self, drain_s: float | None = None) -> None:
        """Take nothing more; finish, commit, forget. The consumer must still run."""
        self._closed = True
        await self._drain(self._drain_s if drain_s is None else drain_s)
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    async def commit_forever(self) -> None:
        """Commit what is done, every COMMIT_EVERY_S: one request for all lanes."""
        while True:
            await asyncio.sleep(COMMIT_EVERY_S)
            await self._commit()

    def waiting(self) -> int:
        """Return how many records are known to wait: in lanes, and below the last seen end of their partitions."""
        return sum(self._behind(lane, None) for lane in self._lanes.values())

    def oldest_s(self) -> float:
        """Return for how many seconds the lane that moved longest ago has stood at its first record; 0.0: none waits."""
        now_s = time.monotonic()
        return max((now_s - lane.moved_s for lane in self._lanes.values() if lane.waiting), default=0.0)

    def uncommitted_s(self) -> float:
        """Return for how many seconds commits have failed; 0.0: the last one did not."""
        return 0.0 if self._uncommitted_since_s is None else time.monotonic() - self._uncommitted_since_s

    def waiting_keys(self) -> Iterator[bytes]:
        """Yield the key of each record that waits in a lane."""
        for lane in self._lanes.values():
            yield from (record.key or b"" for record in lane.waiting)

    async def behind(self) -> int:
        """Return how many records wait, by asking the broker. Raises KafkaError."""
        if self._consumer is None:
            return 0
        places = list(self._consumer.assignment())
        ends = await self._consumer.end_offsets(places) if places else {}
        total = 0
        for place in places:
            lane = self._lanes.get(place) or Lane(place)
            if lane.next_offset is None and not lane.waiting:
                total += max(ends[place] - await self._consumer.position(place), 0)
            else:
                total += self._behind(lane, ends[place])
        return total

    def _behind(self, lane: Lane, end: int | None) -> int:
        """The end that the embedded broker lists can be too low, the one seen in a fetch too old: the higher counts."""
        seen = self._consumer.highwater(lane.place) if lane.place in self._consumer.assignment() else None
        known = max(end or 0, seen or 0)
        done = lane.next_offset
        if done is None:
            done = lane.waiting[0].offset if lane.waiting else known
        return max(known - done, len(lane.waiting), 0)

    def _lane(self, place: TopicPartition) -> Lane:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = Lane(place)
            name = f"{self.stage}-{place.topic}-{place.partition}"
            self._running[place] = self._tasks.create_task(self._run(lane), name=name)
        return lane

    async def _run(self, lane: Lane) -> None:
        while self._accepting:
            await lane.arrived.wait()
            await self._one_window(lane)
            if not lane.waiting:
                lane.arrived.clear()
            if lane.paused and self._accepting and len(lane.waiting) <= self._limit // 2:
                lane.paused = False
                self._consumer.resume(lane.place)

    async def _one_window(self, lane: Lane) -> None:
        window = [lane.waiting[at] for at in range(min(self._window, len(lane.waiting)))]
        if not window or not self._accepting:
            return
        began = time.perf_counter()
        done = await self._work(window, self._draining)
        for _ in range(done):
            lane.next_offset = lane.waiting.popleft().offset + 1
        lane.moved_s = time.monotonic() if done else lane.moved_s
        self._metrics.finished(self.stage, done, time.perf_counter() - began)

    def _draining(self) -> bool:
        return not self._accepting

    async def _drain(self, drain_s: float) -> None:
        self._accepting = False
        for lane in self._lanes.values():
            lane.arrived.set()
        running = set(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._commit()
        self._lanes.clear()
        self._running.clear()

    async def _commit(self) -> None:
        async with self._committing:
            due = {
                lane.place: lane.next_offset
                for lane in self._lanes.values()
                if lane.next_offset is not None and lane.next_offset != lane.committed
            }
            if not due:
                return
            try:
                async with asyncio.timeout(COMMIT_DEADLINE_S):
                    await self._tell(due)
            except (KafkaError, TimeoutError) as error:
                # nothing is lost: the records come again, and handling them again changes nothing
                self._metrics.committed(self.stage, "failed")
                self._uncommitted_since_s = self._uncommitted_since_s or time.monotonic()
                _log.warning("lanes.commit_failed", stage=self.stage, error=type(error).__name__)
                return
            self._metrics.committed(self.stage, "done")
            self._uncommitted_since_s = None
            for place, offset in due.items():
                if place in self._lanes:
                    self._lanes[place].committed = offset

    async def _tell(self, due: dict[TopicPartition, int]) -> None:
        """Commit, once an earlier commit that nobody waits for any more has ended. Raises KafkaError.

        aiokafka goes on with a commit whose caller has left: it could overtake a later one, and its error would be nobody's.
        """
        if self._telling is not None:
            await asyncio.wait({self._telling})
            if not self._telling.cancelled():
                self._telling.exception()  # told when its time was up
        self._telling = asyncio.create_task(self._consumer.commit(due), name=f"{self.stage}-commit")
        await asyncio.wait({self._telling})
        told, self._telling = self._telling, None
        told.result()
