"""Commands for a rig, and their jobs."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from ingest.command_pump import NUMBER
from schemas.commands import CancelJob, Command, Job, JobState, Order, Reindex, Selection
from shared.kafka import COMMANDS, Outgoing, Publisher
from shared.partitioner import partition_of
from tests.integration.ingesting import Rig, until

_numbers = itertools.count(1)


async def order(rig: Rig, given: Order, *, tenant: str = "acme") -> Command:
    """Keep a command, as the query service does."""
    number = next(_numbers)
    command = Command(
        id=f"c{number}",
        tenant=tenant,
        requested_by="person-ana",
        requested_at=rig.clock.now() + timedelta(milliseconds=number),  # no two are of one moment
        reason="a test",
        order=given,
    )
    assert await rig.log.order(command)
    return command


async def reindex(rig: Rig, stage: str, **select: object) -> Command:
    return await order(rig, Reindex(stage=stage, select=Selection(**select)))


async def cancel(rig: Rig, command: Command) -> Command:
    return await order(rig, CancelJob(job=command.id), tenant=command.tenant)


async def job_of(rig: Rig, command: Command) -> Job | None:
    async with rig.reader.snapshot(command.tenant) as snapshot:
        return next(iter(await snapshot.jobs(1, command.id)), None)


async def over(rig: Rig, command: Command) -> Job:
    """Wait until a job is over, and return it."""
    await until(lambda: _is_over(rig, command))
    job = await job_of(rig, command)
    assert job is not None
    return job


async def running_with(rig: Rig, command: Command, done: int) -> None:
    """Wait until a job runs and has done so many things."""
    await until(lambda: _has_done(rig, command, done))


async def publish_command(rig: Rig, tenant: str, value: bytes, number: int | None = None) -> None:
    """Put a record on the topic of commands, as it may come once more or from elsewhere; ``number``: its place."""
    key = tenant.encode()
    headers = () if number is None else ((NUMBER, str(number).encode()),)
    async with await Publisher.open(rig.bootstrap, prefix=rig.prefix) as publisher:
        await publisher.publish(COMMANDS, partition_of(key, rig.log.partitions), [Outgoing(key, value, headers)])


@asynccontextmanager
async def letters_known(rig: Rig) -> AsyncIterator[None]:
    """Let the log know its dead letters: Kafka's reads them from their topic, beside everything else."""
    if not hasattr(rig.log, "follow"):
        yield
        return
    reading = asyncio.create_task(rig.log.follow())
    try:
        await until(lambda: rig.log.caught_up)
        yield
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _is_over(rig: Rig, command: Command) -> bool:
    job = await job_of(rig, command)
    return rig.pipeline.failed.is_set() or (job is not None and job.finished)


async def _has_done(rig: Rig, command: Command, done: int) -> bool:
    job = await job_of(rig, command)
    return job is not None and job.state is JobState.RUNNING and job.done >= done
