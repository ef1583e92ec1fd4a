"""The pump of commands: publishes what the journal keeps to ``cortex.commands``, in order, one partition a tenant."""

import asyncio
from collections.abc import Sequence
from typing import Final

from ingest.delivery import Delivery
from schemas.commands import CancelJob, Command, Job, JoinJob
from shared.jobs_kept import LOOKED_AT, done_before, done_up_to
from shared.kafka import COMMANDS, Outgoing, Publisher, partition_of
from shared.log import JournalLog
from shared.store import KnowledgeReader

PAGE: Final = 100
POLL_S: Final = 0.25  # a command is the beginning of minutes of work: how soon it begins matters little
NUMBER: Final = "cortex-number"
"""Header with a command's number in the journal, which outlives the broker's offsets."""


class CommandPump:
    """At start it publishes the commands whose jobs are not over; from then on each as it comes."""

    def __init__(self, log: JournalLog, publisher: Publisher, reader: KnowledgeReader, delivery: Delivery) -> None:
        self._log = log
        self._publisher = publisher
        self._reader = reader
        self._delivery = delivery
        self._read_to = 0

    async def run(self) -> None:
        """Pump until cancelled. Waits out a log, store or broker that is away.

        With each new command of a tenant, those that are done long since are let go: so their number stays bounded.
        """
        while True:
            page = await self._delivery.insist(lambda: self._log.orders(self._read_to, PAGE))
            for tenant in sorted({command.tenant for _, command in page}):
                await self._pump(tenant, [(number, command) for number, command in page if command.tenant == tenant])
            if page:
                self._read_to = page[-1][0]
            else:
                await asyncio.sleep(POLL_S)

    async def idle(self) -> bool:
        """Tell whether every command in the log is published."""
        return not await self._log.orders(self._read_to, 1)

    async def _pump(self, tenant: str, orders: Sequence[tuple[int, Command]]) -> None:
        """Publish what is not over of some orders of a tenant, in order."""
        jobs, newest = await self._delivery.insist(lambda: self._jobs(tenant, {_job_of(one) for _, one in orders}))
        for number, command in orders:
            known = jobs.get(_job_of(command))
            is_over = known.finished if known else done_before(number, command.requested_at, newest)
            if not is_over:
                await self._delivery.insist(lambda number=number, command=command: self._send(number, command))  # type: ignore[misc] # bound now
        await self._delivery.insist(lambda: self._log.forget_orders(tenant, done_up_to(newest)))

    async def _jobs(self, tenant: str, ids: set[str]) -> tuple[dict[str, Job], list[Job]]:
        """Return the jobs of these ids, as far as there are any, and the tenant's newest."""
        async with self._reader.snapshot(tenant) as snapshot:
            found = [job for job_id in sorted(ids) for job in await snapshot.jobs(1, job_id)]
            return {job.id: job for job in found}, await snapshot.jobs(LOOKED_AT)

    async def _send(self, number: int, command: Command) -> None:
        key = command.tenant.encode()
        message = Outgoing(key, command.model_dump_json(exclude_none=True).encode(), ((NUMBER, str(number).encode()),))
        await self._publisher.publish(COMMANDS, partition_of(key, self._log.partitions), [message])


def _job_of(command: Command) -> str:
    """Return the job that a command is about: its own, or the one that it cancels or joins."""
    return command.order.job if isinstance(command.order, CancelJob | JoinJob) else command.id
