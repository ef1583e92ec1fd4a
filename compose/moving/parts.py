"""What a command that moves knowledge works with, opened beside the running service: it only looks at the live store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compose.local.folder import read_version
from compose.moving.unknown import unknown_tenant
from ingest.verify import Side
from shared.clock import Clock, SystemClock
from shared.embedder import Embedder, Embedders
from shared.embedders.catalogue import Catalogue
from shared.errors import DataFolderError, LogUnavailable
from shared.log import EventLog
from shared.logs.journal import Journal
from shared.settings import Settings
from shared.stores.opening import open_reader, open_writer
from shared.stores.sqlite import SqliteReader, SqliteWriter

THREADS: Final = 1
CATCH_UP_S: Final = 60.0  # the dead letters of thirty days are read from their topic


@dataclass(frozen=True)
class Parts:
    """The log, the store that is served, and the embedders of the settings."""

    log: EventLog
    live: Side
    embedders: Embedders

    async def embedder_of(self, tenant: str) -> Embedder:
        """Return the embedder of what is searched of a tenant. Raises UnknownModel, EmbedderUnavailable."""
        known = await self.live.writer.models(tenant)
        return await self.embedders.of(known[0].name if known else None)


@asynccontextmanager
async def open_log(settings: Settings) -> AsyncIterator[EventLog]:
    """Open the log that is being written. Raises DataFolderError where there is none, LogUnavailable."""
    async with AsyncExitStack() as stack:
        yield await _open_log(settings, stack)


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:
    """Open log, live store and embedders. Raises as `open_log`, StoreUnavailable, EmbedderUnavailable."""
    async with AsyncExitStack() as stack:
        log = await _open_log(settings, stack)
        live = await stack.enter_async_context(open_side(settings))
        embedders = await Catalogue.open(settings, settings.embed_threads)
        stack.push_async_callback(embedders.close)
        yield Parts(log, live, embedders)


@asynccontextmanager
async def open_side(settings: Settings) -> AsyncIterator[Side]:
    """Open the store of the settings. Beside a process that writes it, only what looks things up may be used."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        writer = open_writer(settings, clock)
        stack.push_async_callback(writer.close)
        reader = open_reader(settings, clock, threads=THREADS)
        stack.push_async_callback(reader.close)
        yield Side(reader, writer)


@asynccontextmanager
async def sqlite_side(folder: Path, clock: Clock | None = None) -> AsyncIterator[Side]:
    """Open knowledge files of one's own."""
    async with AsyncExitStack() as stack:
        writer = SqliteWriter(folder, clock or SystemClock())
        stack.push_async_callback(writer.close)
        reader = SqliteReader(folder, threads=THREADS, clock=clock)
        stack.push_async_callback(reader.close)
        yield Side(reader, writer)


async def tenants_of(log: EventLog, live: Side, only: str | None) -> list[str]:
    """Return every tenant that the log or the store knows, by name, or the one that is wanted. Raises UnknownThing."""
    found = set(await live.reader.tenants())
    if only in found:
        return [only]
    async for page in log.scan():
        found.update(record.tenant for record in page)
    if only is None:
        return sorted(found)
    if only not in found:
        raise unknown_tenant("This Cortex", only, found)
    return [only]


async def _open_log(settings: Settings, stack: AsyncExitStack) -> EventLog:
    clock = SystemClock()
    if settings.kafka_bootstrap is not None:
        return await _open_kafka(settings, settings.kafka_bootstrap, clock, stack)
    if await asyncio.to_thread(read_version, settings.data_dir / "VERSION") is None:
        raise DataFolderError(f"{settings.data_dir} is not a data folder of Cortex: start it once with: cortex up")
    journal = await asyncio.to_thread(Journal.open, settings.journal_path, settings.partitions, clock)
    stack.push_async_callback(journal.close)
    return journal


async def _open_kafka(settings: Settings, bootstrap: str, clock: Clock, stack: AsyncExitStack) -> EventLog:
    from shared.logs.kafka_log import KafkaLog  # noqa: PLC0415 - one of two

    log = await KafkaLog.open(bootstrap, clock, prefix=settings.topic_prefix)
    stack.push_async_callback(log.close)
    following = asyncio.create_task(log.follow(), name="kafka-log")
    stack.push_async_callback(_end, following)
    try:
        async with asyncio.timeout(CATCH_UP_S):
            while not log.caught_up:  # noqa: ASYNC110 - the log tells by a property
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise LogUnavailable(f"The dead letters on Kafka were not read within {CATCH_UP_S:g} s.") from error
    return log


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
