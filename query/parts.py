"""The capabilities of the query service: opened in order, closed in reverse, by one owner."""

import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from query.assembly import Assembly
from query.inquiry import TokenLog
from query.stream import Answers
from shared.backlog import unstored, unstored_of_shared
from shared.boards.redis import RedisBoard
from shared.cache import Cache
from shared.caches.redis import RedisCache
from shared.clock import Clock, SystemClock
from shared.embedder import Embedders
from shared.embedders.catalogue import Catalogue
from shared.errors import CortexError, DiskFull, EmbedderUnavailable, FolderReadOnly, LogUnavailable
from shared.graph import EntityGraph
from shared.graph_feed import GraphFeed
from shared.graphs.replica import GraphReplica
from shared.log import EventLog
from shared.logs.journal import Journal
from shared.logs.kafka_log import KafkaLog
from shared.news import NewsBoard
from shared.settings import Settings
from shared.store import KnowledgeReader
from shared.stores.opening import open_reader
from shared.tracing import NO_TRACES, Traces, open_traces

_log = structlog.get_logger("cortex.query")


KAFKA_S = 300.0  # for Kafka and its topics at the start: whatever starts them may take its time
LOOK_EVERY_S = 1.0
LEAST_FREE_BYTES = 16 * 1024 * 1024  # a largest batch with its indexes, the rollback journal beside it, and room


class Feed(Protocol):
    """Keeps the graph replica up to date."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been read."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """A reader that keeps vectors in memory."""

    async def warm(self) -> None:
        """Read them, as far as memory is given."""
        ...


class Warming:
    """Reads the vectors of every tenant, as far as memory is given, so that no question waits for them."""

    def __init__(self, reader: Warmable) -> None:
        self._reader = reader
        self.done = False

    async def run(self) -> None:
        """Read them, and then do nothing for ever: a background task has no end."""
        try:
            await self._reader.warm()
        except CortexError as error:  # the question that needs it will say so
            _log.warning("store.unwarmed", error=type(error).__name__)
        self.done = True
        await anyio.sleep_forever()


@dataclass
class Parts:
    """What handlers work with. ``feed`` None: the graph needs no feeding (tests); ``board`` None: the live feed stays empty.

    ``journal`` is the log's file, where it is one. ``failed`` names background tasks that died: the service then says so
    at /healthz and should be restarted.
    ``shared_numbers``: tenants share the log's numbers, as on Kafka.
    """

    clock: Clock
    reader: KnowledgeReader
    graph: EntityGraph
    log: EventLog
    answers: Answers
    cache: Cache | None = None
    embedders: Embedders | None = None
    board: NewsBoard | None = None
    feed: Feed | None = None
    warming: Warming | None = None
    background: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    journal: Path | None = None
    shared_numbers: bool = False
    traces: Traces = NO_TRACES

    async def unstored(self, also: Collection[str] = ()) -> int:
        """Count accepted events that are not stored, of all tenants in the store and the given ones."""
        tenants = sorted({*await self.reader.tenants(), *also})
        if self.shared_numbers:
            return await unstored_of_shared(self.log, self.reader, tenants)
        return sum((await unstored(self.log, self.reader, tenants)).values())

    async def check_log(self) -> None:
        """Raise LogUnavailable, FolderReadOnly or DiskFull when the log cannot take events now."""
        await self.log.ping()
        if self.journal is not None:
            await anyio.to_thread.run_sync(check_file, self.journal)

    def start(self, group: TaskGroup) -> None:
        """Start the background tasks in a group that owns them."""
        for name, run in self.background.items():
            group.start_soon(self._watch, name, run, name=name)

    async def _watch(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task that should never end; note when it does, instead of taking requests down with it."""
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - whatever it was, it is noted and told by /healthz
            self.failed[name] = type(error).__name__
            _log.error("task.failed", task=name, traceback=traceback.format_exc())
        else:
            self.failed[name] = "ended"
            _log.error("task.ended", task=name)


@asynccontextmanager
async def open_parts(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Parts]:
    """Open every part of the local set-up. Raises typed errors when the folder or a file cannot be used."""
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        traces = open_traces(settings.otlp_endpoint, "cortex-query")
        stack.push_async_callback(traces.close)
        reader = open_reader(settings, clock, threads=settings.query_threads)
        stack.push_async_callback(reader.close)
        log, following = await _open_log(settings, clock, reader)
        stack.push_async_callback(log.close)
        embedders = await Catalogue.open(settings, settings.query_threads)
        stack.push_async_callback(embedders.close)
        cache = RedisCache(settings.cache_url)
        stack.push_async_callback(cache.close)
        board = RedisBoard(settings.cache_url, prefix=settings.topic_prefix)
        stack.push_async_callback(board.close)
        graph = GraphReplica()
        feed = GraphFeed(
            kafka_bootstrap(settings),
            graph,
            prefix=settings.topic_prefix,
            needs_epoch=settings.kafka_bootstrap is None,
            clock=clock,
        )
        warming = Warming(reader) if isinstance(reader, Warmable) else None
        parts = (reader, graph, embedders.wanted, cache, clock, settings)
        answers = Assembly(*parts, tokens=TokenLog(log.log_id, log.partitions), lag=log.pending, embedders=embedders)
        try:
            await answers.prepare()
        except EmbedderUnavailable:
            _log.warning("intent.unprepared")  # the rules' reading of a question stands alone
        yield Parts(
            clock=clock,
            reader=reader,
            graph=graph,
            log=log,
            answers=answers,
            cache=cache,
            embedders=embedders,
            board=board,
            feed=feed,
            warming=warming,
            background={"graph-feed": feed.run, **({"warming": warming.run} if warming else {}), **following},
            journal=None if settings.kafka_bootstrap else settings.journal_path,
            shared_numbers=settings.kafka_bootstrap is not None,
            traces=traces,
        )


async def _open_log(
    settings: Settings, clock: Clock, reader: KnowledgeReader
) -> tuple[EventLog, dict[str, Callable[[], Awaitable[None]]]]:
    """Open the log that the settings name, and return what has to run beside it. Waits for Kafka and its topics."""
    if settings.kafka_bootstrap is None:
        return await anyio.to_thread.run_sync(Journal.open, settings.journal_path, settings.partitions, clock), {}
    with anyio.fail_after(KAFKA_S):
        while True:
            try:
                log = await KafkaLog.open(settings.kafka_bootstrap, clock, prefix=settings.topic_prefix, reader=reader)
            except LogUnavailable as error:
                _log.info("log.waited_for", cause=str(error))
                await anyio.sleep(LOOK_EVERY_S)
            else:
                return log, {"log": log.follow}


def kafka_bootstrap(settings: Settings) -> str:
    """The broker's address: the embedded one's where none is set."""
    return settings.kafka_bootstrap or f"127.0.0.1:{settings.kafka_port}"


def check_file(path: Path) -> None:
    """Raise FolderReadOnly or DiskFull when a file of the data folder could not grow."""
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise FolderReadOnly(f"{path.name} cannot be written")
    free = os.statvfs(path.parent)
    if free.f_bavail * free.f_frsize < LEAST_FREE_BYTES:
        raise DiskFull(f"less than {LEAST_FREE_BYTES // 2**20} MB are free for {path.name}")
