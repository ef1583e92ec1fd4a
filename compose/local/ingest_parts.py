"""What an ingest process is made of, beside its log and its broker: the same locally and in a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

import structlog

from compose.local.broker_epoch import EpochPipeline
from ingest.health import IngestHealth
from ingest.metrics import IngestMetrics
from shared.clock import Clock
from shared.embedder import Embedders
from shared.errors import Transient
from shared.log import EventLog
from shared.settings import Settings
from shared.tracing import open_traces

_log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 1.0
READER_THREADS: Final = 1  # the contradictions stage reads; it has one thread's worth of work


async def open_health(settings: Settings, host: str, stack: AsyncExitStack) -> IngestHealth:
    """Serve figures and readiness from now on: so that the process can say that it is starting."""
    from compose.local.ingest_health import serving_health  # noqa: PLC0415 - 0.2 s of imports, after the locks are had
    from query.access import Access  # noqa: PLC0415 - as above

    health = IngestHealth(IngestMetrics())
    access = Access.from_settings(settings)
    await stack.enter_async_context(serving_health(health, access, host, settings.ingest_port))
    return health


async def pipelines(  # noqa: PLR0917 - its parts, in the order in which they are opened
    settings: Settings,
    bootstrap: str,
    log: EventLog,
    embedders: Embedders,
    clock: Clock,
    health: IngestHealth,
    stack: AsyncExitStack,
) -> Callable[[], EpochPipeline]:
    """Open the store for the life of the process; return what makes a pipeline on it, one an epoch.

    Raises UnknownModel where the settings do not name the embedding model of a tenant's index.
    """
    from ingest.models import check_models  # noqa: PLC0415 - as below
    from ingest.pipeline import Pipeline  # noqa: PLC0415 - 0.5 s of imports, after the locks are had
    from shared.boards.redis import RedisBoard  # noqa: PLC0415 - as above
    from shared.caches.redis import RedisCache  # noqa: PLC0415 - as above
    from shared.stores.opening import open_reader, open_writer  # noqa: PLC0415 - as above

    writer = open_writer(settings, clock)
    stack.push_async_callback(writer.close)
    reader = open_reader(settings, clock, threads=READER_THREADS)
    stack.push_async_callback(reader.close)
    await _waited(lambda: check_models(writer, reader, embedders))
    board = RedisBoard(settings.cache_url, prefix=settings.topic_prefix)
    stack.push_async_callback(board.close)
    cache = RedisCache(settings.cache_url)
    stack.push_async_callback(cache.close)
    traces = open_traces(settings.otlp_endpoint, "cortex-ingest")
    stack.push_async_callback(traces.close)

    def make() -> Pipeline:
        parts = (settings, bootstrap, log, writer, reader, embedders.wanted, clock)
        pipeline = Pipeline(
            *parts, board=board, cache=cache, embedders=embedders, metrics=health.metrics, traces=traces
        )
        health.begun(pipeline)
        return pipeline

    return make


async def _waited(look: Callable[[], Awaitable[None]]) -> None:
    """Look at the store, however long it is away: whatever runs it may start later than this process."""
    while True:
        try:
            return await look()
        except Transient as error:
            _log.warning("ingest.waits", cause=str(error))
            await asyncio.sleep(LOOK_EVERY_S)
