"""Which jobs were cancelled: read from ``cortex.commands`` ahead of its lanes, where an order stands behind the job it ends."""

import asyncio
from collections import OrderedDict
from contextlib import aclosing
from typing import Final

import structlog
from pydantic import ValidationError

from ingest.delivery import Delivery
from schemas.commands import CancelJob, Command
from shared.kafka import COMMANDS, Followed, follow

KEPT: Final = 10_000  # cancellations that are remembered; only those of jobs that are not over matter
SIGN: Final = b'"cancel-job"'  # what any of them holds: the other commands need not be read

_log = structlog.get_logger(__name__)


class Cancellations:
    """Follows the topic from its start. Its ``run`` needs an owner."""

    def __init__(self, bootstrap: str, prefix: str, delivery: Delivery, *, lives_with_broker: bool) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._delivery = delivery
        self._lives_with_broker = lives_with_broker
        self._jobs: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._caught_up = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled; a broker that is away is waited out, and the topic read from its start again."""
        await self._delivery.insist(self._follow)

    async def caught_up(self, within_s: float) -> bool:
        """Wait until everything that was there at the start has been read; False when time is up."""
        try:
            async with asyncio.timeout(within_s):
                await self._caught_up.wait()
        except TimeoutError:
            return False
        return True

    def __contains__(self, job: tuple[str, str]) -> bool:
        """Tell whether a job, (tenant, id), was cancelled."""
        return job in self._jobs

    async def _follow(self) -> None:
        batches = follow(self._bootstrap, COMMANDS, prefix=self._prefix, lives_with_broker=self._lives_with_broker)
        async with aclosing(batches) as following:  # type: ignore[type-var] # an asynchronous generator
            async for batch in following:
                for record in batch.records:
                    self._take(record)
                if batch.caught_up:
                    self._caught_up.set()

    def _take(self, record: Followed) -> None:
        if record.value is None or SIGN not in record.value:
            return
        try:
            command = Command.model_validate_json(record.value)
        except ValidationError:
            return  # its lane buries it
        if isinstance(command.order, CancelJob):
            self._jobs[command.tenant, command.order.job] = None
            if len(self._jobs) > KEPT:
                self._jobs.popitem(last=False)
