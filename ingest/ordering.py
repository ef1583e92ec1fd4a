"""How commands come to their stage: the pump of the local set-up, and what notes cancellations beside the lanes."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from ingest.cancellations import Cancellations
from ingest.command_pump import CommandPump
from ingest.commands import CommandStage
from ingest.jobs.work import Means
from ingest.lanes import Lanes
from shared.clock import Clock

THROUGH_S: Final = 30.0  # a page takes seconds; under a load that never pauses the job goes on after this
POLL_S: Final = 0.05
STAGES: Final = ("embed", "resolve", "store", "contradictions")
"""What a replayed event goes through, in order."""


class Ordering:
    """The stage of commands with what feeds it; ``pump`` None: Kafka itself hands commands on."""

    def __init__(self, means: Means, cancellations: Cancellations, clock: Clock, pump: CommandPump | None) -> None:
        self.stage = CommandStage(means, cancellations, clock)
        self._cancellations = cancellations
        self._pump = pump

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to note cancellations, and to pump."""
        tasks.create_task(self._cancellations.run(), name="cancellations")
        if self._pump is not None:
            tasks.create_task(self._pump.run(), name="pump-commands")

    async def idle(self) -> bool:
        """Tell whether every command that is kept was handed on."""
        return self._pump is None or await self._pump.idle()


async def through(lanes: Mapping[str, Lanes], within_s: float = THROUGH_S) -> None:
    """Wait until the stages are through with what was published before, at most ``within_s``.

    Each is seen to have nothing before it, one after the other: by then what stood before the first has left the last.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            for stage in STAGES:
                await _quiet(lanes[stage])


async def _quiet(lanes: Lanes) -> None:
    while True:
        if not await lanes.behind():
            return
        await asyncio.sleep(POLL_S)
