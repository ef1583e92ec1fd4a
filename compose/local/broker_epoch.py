"""The embedded broker's epochs: it is a pipe that forgets, and it never gives memory back, so it is renewed in time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import structlog

from compose.local.children import Child
from compose.local.restarts import Restarts
from shared.errors import DataFolderError, NotReady

LOOK_EVERY_S: Final = 1.0  # at 5,000 events/s the broker grows by some 20 MB a second
STOP_MARGIN_S: Final = 10.0  # beyond the drain: closing consumers and producers on a broker that may be gone

_log = structlog.get_logger(__name__)


class EpochPipeline(Protocol):
    """What runs on a broker for one epoch."""

    @property
    def failed(self) -> asyncio.Event:
        """Set when a part of it has died and it should be stopped."""
        ...

    async def start(self) -> None:
        """Make the topics, fill the compacted ones from the store, start consuming and publishing."""
        ...

    async def stop(self) -> None:
        """Finish what is in hand, commit, and leave the broker; safe after a failed start."""
        ...

    def lag(self) -> Mapping[Any, int]:
        """Return what is accepted and not yet handled, per place."""
        ...


class End(StrEnum):
    """Why an epoch ended."""

    STOPPED = "stopped"
    FULL = "full"
    BROKER_ENDED = "broker ended"
    PIPELINE_FAILED = "pipeline failed"


class BrokerEpochs:
    """Starts a broker, fills it, runs a pipeline on it, and begins anew whenever one of them ends or it has grown."""

    def __init__(
        self,
        start_broker: Callable[[], Awaitable[Child]],
        make_pipeline: Callable[[], EpochPipeline],
        *,
        limit_mb: float,
        drain_s: float,
        on_running: Callable[[], None],
    ) -> None:
        """``start_broker`` returns one that listens. ``on_running`` is called at each start of consuming."""
        self._start_broker = start_broker
        self._make_pipeline = make_pipeline
        self._limit_mb = limit_mb
        self._drain_s = drain_s
        self._on_running = on_running

    async def run(self, stop: asyncio.Event) -> None:
        """Run epochs until asked to stop. Raises NotReady when too many end badly, DataFolderError at once."""
        restarts = Restarts(time.monotonic)
        while not stop.is_set():
            end, cause = await self._try_epoch(stop)
            _log.info("epoch.ended", end=end, cause=None if cause is None else type(cause).__name__)
            if end in (End.STOPPED, End.FULL):
                continue
            wait_s = restarts.wait_after_end()
            if wait_s is None:
                raise NotReady(f"The broker or what runs on it failed too often ({cause or end}).") from cause
            await _first({"stop": stop.wait()}, wait_s)

    async def _try_epoch(self, stop: asyncio.Event) -> tuple[End, Exception | None]:
        """Run one epoch; a failure that another epoch may mend is returned and not raised."""
        try:
            return await self._epoch(stop), None
        except DataFolderError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, a new broker and pipeline may mend it; five may not
            _log.exception("epoch.failed")
            return End.PIPELINE_FAILED, error

    async def _epoch(self, stop: asyncio.Event) -> End:
        broker = await self._start_broker()
        try:
            pipeline = self._make_pipeline()
            try:
                return await self._run(stop, broker, pipeline)
            finally:
                # consumers first: one that lived on would read the next epoch's topics from the middle
                async with asyncio.timeout(self._drain_s + STOP_MARGIN_S):
                    await pipeline.stop()
        finally:
            await broker.stop()

    async def _run(self, stop: asyncio.Event, broker: Child, pipeline: EpochPipeline) -> End:
        began = time.monotonic()
        end = await self._ended(stop, broker, pipeline, begin=pipeline.start())
        if end is not None:
            return end
        at_start_mb = broker.memory_mb()
        _log.info("epoch.started", seconds=round(time.monotonic() - began, 3), broker_mb=round(at_start_mb))
        self._on_running()
        # what a refill takes is needed again next time: renewing for it would never end
        limit_mb = max(self._limit_mb, 2 * at_start_mb)
        while True:
            end = await self._ended(stop, broker, pipeline)
            if end is not None:
                return end
            # a job may take hours and goes on in the next epoch: the broker need not wait for it
            waiting = sum(count for stage, count in pipeline.lag().items() if stage != "commands")
            if broker.memory_mb() > limit_mb and not waiting:
                return End.FULL

    async def _ended(
        self, stop: asyncio.Event, broker: Child, pipeline: EpochPipeline, begin: Awaitable[Any] | None = None
    ) -> End | None:
        """Wait for an end, at most until ``begin`` is done or, without one, until it is time to look at the memory."""
        waits: dict[str, Awaitable[Any]] = {
            End.STOPPED: stop.wait(),
            End.BROKER_ENDED: broker.wait(),
            End.PIPELINE_FAILED: pipeline.failed.wait(),
        }
        first = await _first(waits if begin is None else {**waits, "begun": begin}, None if begin else LOOK_EVERY_S)
        return None if first in (None, "begun") else End(first)


async def _first(waits: Mapping[str, Awaitable[Any]], timeout_s: float | None) -> str | None:
    """Wait for the first to finish, raise its error if it has one, cancel the others; return its name, None at time-out."""
    tasks = {asyncio.ensure_future(awaitable): name for name, awaitable in waits.items()}
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return min((tasks[task] for task in done), default=None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
