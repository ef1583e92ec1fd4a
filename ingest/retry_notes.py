"""Telling which events are being tried again, without anybody waiting for it."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ingest.delivery import Watch
from shared.clock import Clock
from shared.errors import CacheUnavailable
from shared.retrying import RetryBoard, Retrying

WAITING: Final = 10_000
"""Notes that wait to be written, one an event: a few MB. Beyond it the oldest is forgotten; its event stays ``pending``."""
REFRESH_S: Final = 10.0  # two can fail before a note is forgotten; an attempt itself may take a minute
REST_S: Final = 1.0  # after a failure: the cache is away, and the next note tells what this one would have
Event = tuple[str, str, str]
"""(tenant, source, id)."""


class RetryNotes:
    """Takes notes at once and writes them to the board one after the other. `run` belongs to the pipeline's tasks.

    What is being tried is written again and again, so that a note soon goes with the process that made it.
    """

    def __init__(self, board: RetryBoard, clock: Clock, refresh_s: float = REFRESH_S, rest_s: float = REST_S) -> None:
        self._board = board
        self._clock = clock
        self._refresh_s = refresh_s
        self._rest_s = rest_s
        self._trying: dict[Event, Retrying] = {}
        self._waiting: OrderedDict[Event, Retrying | None] = OrderedDict()
        self._arrived = asyncio.Event()

    def watch(self, stage: str, tenant: str, source: str, event_id: str) -> Watch:
        """Return what is to be told of one event in one stage."""
        return _Watch(self, stage, (tenant, source, event_id))

    def tell(self, event: Event, retrying: Retrying | None) -> None:
        """Take a note in place of an older one of that event; None: it is over."""
        self._trying.pop(event, None)
        if retrying is not None and len(self._trying) < WAITING:
            self._trying[event] = retrying
        self._waiting[event] = retrying
        self._waiting.move_to_end(event)
        if len(self._waiting) > WAITING:
            self._waiting.popitem(last=False)
        self._arrived.set()

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now()

    async def run(self) -> None:
        """Write notes until cancelled. One that cannot be written is lost."""
        loop = asyncio.get_running_loop()
        refresh_at = loop.time() + self._refresh_s
        while True:
            try:
                async with asyncio.timeout_at(refresh_at):
                    await self._arrived.wait()
            except TimeoutError:
                for event, retrying in self._trying.items():
                    self._waiting.setdefault(event, retrying)  # what waits is newer
                refresh_at = loop.time() + self._refresh_s
            self._arrived.clear()
            while self._waiting:
                await self._write(*self._waiting.popitem(last=False))

    async def _write(self, event: Event, retrying: Retrying | None) -> None:
        try:
            if retrying is None:
                await self._board.clear(*event)
            else:
                await self._board.note(*event, retrying)
        except CacheUnavailable:
            await asyncio.sleep(self._rest_s)


@dataclass
class _Watch:
    """One event in one stage; silent as long as nothing fails."""

    notes: RetryNotes
    stage: str
    event: Event
    since: datetime | None = None

    def failed(self, attempts: int, cause: str) -> None:
        """Tell of a failure."""
        self.since = self.since or self.notes.now()
        self.notes.tell(self.event, Retrying(stage=self.stage, attempts=attempts, cause=cause, since=self.since))

    def over(self) -> None:
        """Tell that it is over, where it was told of."""
        if self.since is not None:
            self.notes.tell(self.event, None)
