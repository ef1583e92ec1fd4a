"""The capabilities of the query service: opened in order, closed in reverse, by one owner."""

import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from query.assembly import Assembly
from query.stream import Answers
from shared.boards.redis import RedisBoard
from shared.cache import Cache
from shared.caches.redis import RedisCache
from shared.clock import Clock, SystemClock
from shared.embedder import Embedder
from shared.embedders.hashed import HashedEmbedder
from shared.embedders.minilm import MiniLMEmbedder
from shared.errors import CortexError, DiskFull, EmbedderUnavailable, FolderReadOnly
from shared.graph import EntityGraph
from shared.graph_feed import GraphFeed
from shared.graphs.replica import GraphReplica
from shared.log import EventLog
from shared.logs.journal import Journal
from shared.news import NewsBoard
from shared.settings import Settings
from shared.store import KnowledgeReader
from shared.stores.sqlite import SqliteReader

_log = structlog.get_logger("cortex.query")


BEYOND = 2**62  # after the last number: reading there touches the log and gives nothing
LEAST_FREE_BYTES = 16 * 1024 * 1024  # a largest batch with its indexes, the rollback journal beside it, and room


class Feed(Protocol):
    """Keeps the graph replica up to date."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start has been read."""
        ...


class Warming:
    """Reads the vectors of every tenant, as far as memory is given, so that no question waits for them."""

    def __init__(self, reader: SqliteReader) -> None:
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
    """

    clock: Clock
    reader: KnowledgeReader
    graph: EntityGraph
    log: EventLog
    answers: Answers
    cache: Cache | None = None
    embedder: Embedder | None = None
    board: NewsBoard | None = None
    feed: Feed | None = None
    warming: Warming | None = None
    background: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    journal: Path | None = None

    async def check_log(self) -> None:
        """Raise LogUnavailable, FolderReadOnly or DiskFull when the log cannot take events now."""
        await self.log.read(BEYOND, 1)
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
        log = await anyio.to_thread.run_sync(Journal.open, settings.journal_path, settings.partitions, clock)
        stack.push_async_callback(log.close)
        reader = SqliteReader(
            settings.knowledge_dir,
            threads=settings.query_threads,
            vector_memory_mb=settings.vector_memory_mb,
            clock=clock,
        )
        stack.push_async_callback(reader.close)
        embedder = await _open_embedder(settings)
        stack.push_async_callback(embedder.close)
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
        warming = Warming(reader)
        answers = Assembly(reader, graph, embedder, cache, clock, settings, log_id=log.log_id, lag=log.pending)
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
            embedder=embedder,
            board=board,
            feed=feed,
            warming=warming,
            background={"graph-feed": feed.run, "warming": warming.run},
            journal=settings.journal_path,
        )


async def _open_embedder(settings: Settings) -> Embedder:
    if settings.embedder == "hashed":
        return HashedEmbedder()
    return await MiniLMEmbedder.open(settings.query_threads)


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
