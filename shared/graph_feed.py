"""Keeps an entity graph up to date from ``cortex.graph``."""

import asyncio
import json
from contextlib import aclosing

import structlog
from pydantic import ValidationError

from schemas.graph import Contribution
from shared.clock import Clock, SystemClock
from shared.errors import LogUnavailable
from shared.graph import EntityGraph
from shared.kafka import EPOCH_KEY, GRAPH, Batch, Followed, follow

REFRESH_S = 0.5  # design §7: the replica swaps in a new snapshot at most twice a second
BACKOFF_S = (0.1, 5.0)  # first and longest wait before connecting again

_log = structlog.get_logger(__name__)


class GraphFeed:
    """Reads ``cortex.graph`` from its start into a graph, and begins again when the broker is a new one.

    A refill stands between two epoch records in every partition: ``begin`` and ``complete``. From the first ``begin`` of an
    epoch on the graph is built anew while its old snapshots go on answering; they are swapped when every partition is
    complete. What a partition still holds from before that epoch is passed over.
    """

    def __init__(
        self,
        bootstrap: str,
        graph: EntityGraph,
        *,
        prefix: str = "",
        needs_epoch: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """``needs_epoch``: the topic is refilled at every start (embedded broker); False where it is durable."""
        self._bootstrap = bootstrap
        self._graph = graph
        self._prefix = prefix
        self._needs_epoch = needs_epoch
        self._clock = clock or SystemClock()
        self._interval_s = float(getattr(graph, "refresh_interval_s", REFRESH_S))
        self._caught_up = asyncio.Event()
        self._epochs = _Epochs()
        self._dirty = False
        self._refreshed_at = float("-inf")

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the first start is in the graph's snapshots; it stays so."""
        return self._caught_up.is_set()

    async def wait_until_caught_up(self, timeout_s: float) -> bool:
        """Wait for `caught_up`; False when time is up first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._caught_up.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Feed the graph until cancelled."""
        wait_s = BACKOFF_S[0]
        while True:
            self._epochs = _Epochs()
            connected_at = self._clock.monotonic()
            try:
                await self._follow()
            except LogUnavailable as error:
                _log.info("graph_feed.disconnected", cause=str(error))
            if self._clock.monotonic() - connected_at > BACKOFF_S[1]:
                wait_s = BACKOFF_S[0]
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, BACKOFF_S[1])

    async def _follow(self) -> None:
        batches = follow(self._bootstrap, GRAPH, prefix=self._prefix, lives_with_broker=self._needs_epoch)
        async with aclosing(batches):  # type: ignore[type-var]
            async for batch in batches:
                self._take(batch)
                await self._refresh(batch)

    def _take(self, batch: Batch) -> None:
        contributions: list[Contribution] = []
        for record in batch.records:
            if record.key == EPOCH_KEY:
                if self._epochs.mark(record):
                    contributions.clear()
                    self._graph.reset()
                if self._epochs.partitions > batch.partitions:
                    raise LogUnavailable("The topic was made anew, with more partitions.")
                self._dirty = True
            elif self._epochs.counts(record.partition) and record.value is not None:
                contributions.extend(_read(record))
        if contributions:
            self._graph.apply(contributions)
            self._dirty = True

    async def _refresh(self, batch: Batch) -> None:
        if self._epochs.building:
            return
        complete = batch.caught_up and (self._epochs.complete or not self._needs_epoch)
        first = complete and not self.caught_up
        due = self._clock.monotonic() - self._refreshed_at >= self._interval_s
        if first or (self._dirty and due):
            self._dirty = False
            self._refreshed_at = self._clock.monotonic()
            await asyncio.to_thread(self._graph.refresh)
        if first:
            self._caught_up.set()


class _Epochs:
    """Which epoch each partition has reached."""

    def __init__(self) -> None:
        self._newest: str | None = None
        self._reached: dict[int, str] = {}
        self._complete: set[int] = set()
        self._partitions = 0

    @property
    def partitions(self) -> int:
        """How many partitions the newest epoch has; 0 where none has begun."""
        return self._partitions

    @property
    def building(self) -> bool:
        """Whether an epoch has begun that is not complete in every partition."""
        return self._newest is not None and not self.complete

    @property
    def complete(self) -> bool:
        """Whether the newest epoch is complete in every partition."""
        return self._newest is not None and len(self._complete) >= self._partitions

    def counts(self, partition: int) -> bool:
        """Whether the partition's records belong to the newest epoch."""
        return self._reached.get(partition) == self._newest

    def mark(self, record: Followed) -> bool:
        """Note an epoch record; True when it begins an epoch that no partition had reached."""
        try:
            marker = json.loads(record.value or b"")
            epoch, phase, partitions = str(marker["epoch"]), marker["phase"], int(marker.get("partitions", 1))
        except (ValueError, TypeError, KeyError):
            _log.warning("graph_feed.unreadable", partition=record.partition, offset=record.offset)
            return False
        if phase == "complete":
            if epoch == self._newest:
                self._complete.add(record.partition)
            return False
        self._reached[record.partition] = epoch
        if self._newest is not None and epoch <= self._newest:  # ids of epochs sort by time
            return False
        self._newest, self._partitions, self._complete = epoch, partitions, set()
        return True


def _read(record: Followed) -> list[Contribution]:
    try:
        return [Contribution.model_validate_json(record.value or b"")]
    except ValidationError:
        _log.warning("graph_feed.unreadable", partition=record.partition, offset=record.offset)
        return []
