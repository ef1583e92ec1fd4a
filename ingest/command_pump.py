"""The pump of commands: publishes what the journal keeps to ``cortex.commands``, in order, one partition a tenant."""

import asyncio
from collections.abc import Sequence
from typing import Final

from ingest.delivery import Delivery
from schemas.commands import CancelJob, Command, JoinJob
from shared.kafka import COMMANDS, Outgoing, Publisher, partition_of
from shared.log import JournalLog
from shared.store import KnowledgeReader

PAGE: Final = 100
POLL_S: Final = 0.25  # a command is the beginning of minutes of work: how soon it begins matters little
NUMBER: Final = "cortex-number"


class CommandPump:
    """At start it publishes the commands whose jobs are not over; from then on each as it comes."""

    def __init__(self, log: JournalLog, publisher: Publisher, reader: KnowledgeReader, delivery: Delivery) -> None:
        self._log = log
        self._publisher = publisher
        self._reader = reader
        self._delivery = delivery
        self._read_to = 0

    async def run(self) -> None:
        """Pump until cancelled. Waits out a log, store or broker that is away."""
        while True:
            page = await self._delivery.insist(lambda: self._log.orders(self._read_to, PAGE))
            due = await self._due(page)
            for number, command in due:
                await self._delivery.insist(lambda number=number, command=command: self._send(number, command))  # type: ignore[misc] # bound now
            if page:
                self._read_to = page[-1][0]
            else:
                await asyncio.sleep(POLL_S)

    async def idle(self) -> bool:
        """Tell whether every command in the log is published."""
        return not await self._log.orders(self._read_to, 1)

    async def _due(self, page: Sequence[tuple[int, Command]]) -> list[tuple[int, Command]]:
        over: dict[tuple[str, str], bool] = {}
        for tenant in sorted({command.tenant for _, command in page}):
            ids = {_job_of(command) for _, command in page if command.tenant == tenant}
            over |= await self._delivery.insist(lambda tenant=tenant, ids=ids: self._over(tenant, ids))  # type: ignore[misc] # bound now
        return [(number, command) for number, command in page if not over[command.tenant, _job_of(command)]]

    async def _over(self, tenant: str, ids: set[str]) -> dict[tuple[str, str], bool]:
        async with self._reader.snapshot(tenant) as snapshot:
            found = {job_id: await snapshot.jobs(1, job_id) for job_id in sorted(ids)}
        return {(tenant, job_id): bool(jobs and jobs[0].finished) for job_id, jobs in found.items()}

    async def _send(self, number: int, command: Command) -> None:
        key = command.tenant.encode()
        message = Outgoing(key, command.model_dump_json(exclude_none=True).encode(), ((NUMBER, str(number).encode()),))
        await self._publisher.publish(COMMANDS, partition_of(key, self._log.partitions), [message])


def _job_of(command: Command) -> str:
    """Return the job that a command is about: its own, or the one that it cancels or joins."""
    return command.order.job if isinstance(command.order, CancelJob | JoinJob) else command.id
