"""How much is accepted and not stored yet, and what the door does about it: nothing, bulk, or a refusal.

Two bounds. Of everything: from half of it on bulk is refused, at the whole nothing is taken, before memory or disk is at
risk. Of one tenant: whoever has ``live`` events waiting gets further ones into ``cortex.bulk``, where they give way to what
others write; for partitions are worked in order, and a flood in ``cortex.events`` would stand before everybody else's event.
Which of the two topics an event stands in changes nothing in the end (design, invariant 9), only when it is handled.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from itertools import pairwise

import anyio
import structlog

from schemas.positions import Position
from shared.clock import Clock
from shared.errors import Overloaded
from shared.log import BULK, EVENTS
from shared.store import KnowledgeReader

LOOK_S = 1.0  # in between, what this door took is added
REST = 10  # times as long as a count took at least: counting costs a tenth of a core at most, whatever the tenants
COUNT_S = 5.0  # a store that needs longer is not there
PACE_S = 30.0  # how far back the pace of storing is looked at
RETRY_S = (1, 60)
"""Bounds of what is said in Retry-After: the pace of a minute ago says little about an hour."""
UNKNOWN_S = 5  # what is said before a pace is known

_log = structlog.get_logger("cortex.query")


class Backlog:
    """Counts what waits. ``count`` returns the number of all accepted events that are not stored, also of the tenants it is
    given: one that is new here may have nothing in the store yet.
    """

    def __init__(
        self,
        count: Callable[[Collection[str]], Awaitable[int]],
        reader: KnowledgeReader,
        clock: Clock,
        *,
        bound: int,
        live: int,
    ) -> None:
        """``live``: how many live events of one tenant may wait before its next ones are bulk; 0: any number."""
        self._count = count
        self._reader = reader
        self._clock = clock
        self._bound = bound
        self._live = live
        self._counted = 0
        self._since = 0
        self._flows: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)])
        self._taken_in_all = 0
        self._waiting: dict[str, dict[int, deque[int]]] = {}
        self._seen: set[str] = set()

    @property
    def events(self) -> int:
        """How many are known to wait: those of the last count, and what was taken since."""
        return self._counted + self._since

    def admit(self, topic: str, events: int) -> None:
        """Refuse what there is no room for. Raises Overloaded."""
        bound = self._bound // 2 if topic == BULK else self._bound
        if self.events and self.events + events > bound:
            retry_after_s = self._retry_after_s(self.events + events - bound)
            what = "bulk events are not taken now" if topic == BULK else "no events are taken now"
            raise Overloaded(
                f"{self.events} accepted events are not stored yet, so {what}; send the same again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )

    def topic_for(self, tenants: Collection[str], topic: str) -> str:
        """Return where events go: into bulk, once a tenant of theirs has its live events waiting."""
        crowded = self._live and any(self.live_events(tenant) >= self._live for tenant in tenants)
        return BULK if crowded else topic

    def live_events(self, tenant: str) -> int:
        """Return how many live events of a tenant this door took that are not known to be stored."""
        return sum(len(numbers) for numbers in self._waiting.get(tenant, {}).values())

    def took(self, tenant: str, position: Position) -> None:
        """Note a freshly accepted event."""
        self._since += 1
        self._taken_in_all += 1
        self._seen.add(tenant)
        if position.topic == EVENTS and self._live:
            numbers = self._waiting.setdefault(tenant, {}).setdefault(position.partition, deque())
            numbers.append(position.number)

    async def run(self) -> None:
        """Count until cancelled. What cannot be counted stays as it was, and what is taken meanwhile is added."""
        while True:
            began_s = self._clock.monotonic()
            try:
                with anyio.fail_after(COUNT_S):
                    await self.look()
            except Exception as error:  # noqa: BLE001 - whatever it is, events are taken within the bound of what is known
                _log.warning("backlog.not_counted", error=type(error).__name__)
            await anyio.sleep(max(LOOK_S, REST * (self._clock.monotonic() - began_s)))

    async def look(self) -> None:
        """Count once. Raises what the store or the log raise."""
        before = self._since
        self._counted = await self._count(self._seen)
        self._since -= before  # what came while it was counted may be counted twice, never not at all
        self._flows.append((self._clock.monotonic(), self._taken_in_all - self.events))
        while len(self._flows) > 2 and self._flows[1][0] < self._clock.monotonic() - PACE_S:
            self._flows.popleft()
        for tenant in list(self._waiting):
            await self._forget_stored(tenant)

    async def _forget_stored(self, tenant: str) -> None:
        async with self._reader.snapshot(tenant) as snapshot:
            marks = await snapshot.watermarks()
        partitions = self._waiting[tenant]
        for partition, numbers in list(partitions.items()):
            stored = marks.get((EVENTS, partition), -1)
            while numbers and numbers[0] <= stored:
                numbers.popleft()
            if not numbers:
                del partitions[partition]
        if not partitions:
            del self._waiting[tenant]

    def _retry_after_s(self, excess: int) -> int:
        """Return when the excess should be stored, by the pace of the last half minute."""
        least, most = RETRY_S
        stored = sum(max(0, after[1] - before[1]) for before, after in pairwise(self._flows))
        seconds = self._flows[-1][0] - self._flows[0][0]
        if not stored:
            return most if seconds >= PACE_S else UNKNOWN_S
        return min(most, max(least, math.ceil(excess * seconds / stored)))
