"""The pipeline: event → embed → resolve → store → contradictions."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

import structlog

from ingest import replaying
from ingest.batcher import Batcher
from ingest.cancellations import Cancellations
from ingest.command_pump import CommandPump
from ingest.delivery import Backoff, Delivery
from ingest.embed import EmbedStage
from ingest.flag import FlagStage
from ingest.hop import Hop
from ingest.in_hand import InHand
from ingest.intake import Intake, JournalIntake
from ingest.jobs.work import Means
from ingest.kafka_intake import KafkaIntake
from ingest.lanes import Lanes, Work
from ingest.letters import Letters
from ingest.metrics import IngestMetrics
from ingest.models import TenantModels
from ingest.news import NewsStage
from ingest.ordering import Ordering, through
from ingest.polling import Polling
from ingest.pump import Pump
from ingest.refill import Refill
from ingest.resolve import ResolveStage
from ingest.retry_notes import RetryNotes
from ingest.store import StoreStage
from ingest.turns import Turns
from ingest.watcher import Watcher
from shared.cache import Cache
from shared.clock import Clock
from shared.embedder import Alone, Embedder, Embedders
from shared.errors import CortexError, NotReady
from shared.kafka import (
    BULK,
    COMMANDS,
    CONTRADICTIONS,
    EMBEDDED,
    EVENTS,
    RESOLVED,
    STORED,
    Publisher,
    create_topics,
    topic_name,
)
from shared.log import EventLog, JournalLog
from shared.news import NewsBoard
from shared.retrying import RetryBoard
from shared.settings import Settings
from shared.store import KnowledgeReader, KnowledgeWriter
from shared.tracing import NO_TRACES, Traces

EMBED_WINDOW = 16  # a window's embedding is 0.2 s, so that a revoke and a stop are quick
WAITING_TEXTS = 1  # beside those it is at: it never waits for the event loop, and a live text waits for one more
WINDOW = 256  # cheap work: the more at once, the fewer requests and transactions
CHECK_WINDOW = 32  # a check takes milliseconds: as for embedding
LIVE_AHEAD = 4_000  # journaled events in the broker's memory that are not stored yet: some 40 MB with their vectors
BULK_AHEAD = 1_000  # bulk ones: what a live event may find before it in a hop
PING_S = 2.0  # a broker or a store that needs longer is not there
UNCOMMITTED_S = 5.0  # a rebalance lets a commit fail; twenty in a row are a broker that is away
LEAVE_S = 1.0  # for each step of leaving a broker that may be gone: four steps at the worst

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Stage:
    """A stage as it is polled."""

    name: str
    topics: tuple[str, ...]
    work: Work
    window: int


class Pipeline:
    """All stages of one ingest process, their consumers, and the pumps that feed them.

    ``failed`` is set when something died that should not have: then `stop` the pipeline (and its broker), and begin anew;
    the journal and the watermarks say from where. A second member of the same groups shares the first one's ``epoch`` and
    neither pumps nor refills (``pump=False``). ``board``: where the live feed's news goes; without it there is none.
    ``embedders``: of the models that tenants' indexes may be of; without them there is one, ``embedder``'s.
    ``cache``: where retries are noted, for the state of an event; without it such an event is ``pending``.
    ``metrics``: those of the process, which sees several pipelines one after the other.
    """

    def __init__(  # noqa: PLR0917 - its parts, in the order in which they are explained
        self,
        settings: Settings,
        bootstrap: str,
        log: EventLog,
        writer: KnowledgeWriter,
        reader: KnowledgeReader,
        embedder: Embedder,
        clock: Clock,
        *,
        epoch: str | None = None,
        pump: bool = True,
        metrics: IngestMetrics | None = None,
        traces: Traces = NO_TRACES,
        board: NewsBoard | None = None,
        cache: Cache | None = None,
        embedders: Embedders | None = None,
    ) -> None:
        self.epoch = epoch or f"{clock.now():%Y%m%dT%H%M%S%f}-{secrets.token_hex(8)}"
        self.metrics = metrics or IngestMetrics()
        self.failed = asyncio.Event()
        self._settings = settings
        self._bootstrap = bootstrap
        self._event_log = log
        self._writer = writer
        self._reader = reader
        self._models = TenantModels(writer, embedders or Alone(embedder))
        self._clock = clock
        self._board = board
        self._traces = traces
        self._in_hand = InHand(clock.monotonic)
        self._notes = None if cache is None else RetryNotes(RetryBoard(cache, log.log_id), clock)
        self._embedded = settings.kafka_bootstrap is None
        self._pumping = pump and self._embedded
        self._publisher: Publisher | None = None
        self._polling: Polling | None = None
        self._pumps: tuple[Pump, ...] = ()
        self._ordering: Ordering | None = None
        self._lanes: dict[str, Lanes] = {}
        self._owner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._state: Literal["starting", "running", "stopped"] = "starting"

    async def start(self) -> None:
        """Make topics, refill, join the groups, begin to pump. Raises LogUnavailable, InvalidInput."""
        prefix, partitions = self._settings.topic_prefix, self._event_log.partitions
        if self._pumping:  # on a durable Kafka `cortex topics` makes them
            await create_topics(self._bootstrap, partitions, prefix=prefix, replace=True)
        self._publisher = await self._open_publisher(prefix, idempotent=not self._embedded)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready), name="pipeline")
        try:
            await ready
        except BaseException:
            await self.stop()
            raise
        self._state = "running"
        _log.info("pipeline.started", epoch=self.epoch)

    async def refill(self) -> None:
        """Give the compacted topics what the store holds, within an epoch of this pipeline. `start` has done it once."""
        hop = self._hop("refill")
        await Refill(hop, self._reader, self._writer, self._event_log.partitions).run(self.epoch)

    async def stop(self, drain_s: float | None = None) -> None:
        """Stop in order: no new records; finish those in hand; commit; leave the groups; end the tasks; disconnect."""
        self._state = "stopped"
        limit_s = self._settings.drain_s if drain_s is None else drain_s
        await asyncio.gather(*(lanes.close(limit_s) for lanes in self._lanes.values()))
        if self._polling is not None:
            await self._polling.stop(LEAVE_S)
        self._stopping.set()
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)
        if self._publisher is not None:
            await self._publisher.close(LEAVE_S)
        _log.info("pipeline.stopped", epoch=self.epoch)

    def lag(self) -> dict[str, int]:
        """Return, per stage, how many records are known to wait; ``pump``: published events that are not through."""
        lags = {name: lanes.waiting() for name, lanes in self._lanes.items()}
        return {"pump": sum(pump.ahead() for pump in self._pumps), **lags}

    async def idle(self) -> bool:
        """Tell whether nothing is left to do: every journaled event is through, and no stage has records waiting.

        A stage's consumers are asked at the broker, so that a foreign record that was just published counts.
        """
        # the lanes after the pumps, for a watermark moves before the last message is told; the pumps once more, for a
        # lane may have journaled a foreign record in between
        return await self._pumps_idle() and await self._lanes_idle() and await self._pumps_idle()

    async def troubles(self) -> dict[str, str]:
        """Return what keeps events from being handled, each part with its reason; nothing: they are."""
        if self.failed.is_set():
            return {"pipeline": "a part of it has died; it begins anew"}
        if self._state != "running":
            return {"pipeline": self._state}
        found = {}
        for stage, lanes in self._lanes.items():
            if (seconds := lanes.uncommitted_s()) > UNCOMMITTED_S:
                found[stage] = f"offsets have not been committed for {seconds:.0f} s"
        broker, store = await asyncio.gather(_trouble(self._ping_broker), _trouble(self._reader.ping))
        return found | ({"broker": broker} if broker else {}) | ({"store": store} if store else {})

    async def _ping_broker(self) -> None:
        await self._open().ping(PING_S)

    async def _pumps_idle(self) -> bool:
        ordered = self._ordering is None or await self._ordering.idle()
        return ordered and all([await pump.idle() for pump in self._pumps])

    async def _lanes_idle(self) -> bool:
        return not any([await lanes.behind() for lanes in self._lanes.values()])

    # how it is put together

    def _stages(self, batcher: Batcher) -> tuple[_Stage, ...]:
        partitions = self._event_log.partitions
        intake, turns = self._intake(), Turns(self._settings.embed_threads + WAITING_TEXTS)
        embed = EmbedStage(self._hop("embed"), intake, self._writer, self._models, turns)
        resolve = ResolveStage(self._hop("resolve"))
        writer = self._writer
        store = StoreStage(
            self._hop("store"), batcher, writer, self._reader, self._models, partitions, self._clock, self.metrics
        )
        flag = FlagStage(self._hop("contradictions"), self._reader, self._writer, partitions)
        self._ordering = self._make_ordering(turns)
        return (
            _Stage("embed", (EVENTS, BULK), embed.work, EMBED_WINDOW),
            _Stage("resolve", (EMBEDDED,), resolve.work, WINDOW),
            _Stage("store", (RESOLVED,), store.work, WINDOW),
            _Stage("contradictions", (STORED,), flag.work, CHECK_WINDOW),
            *self._news(),
            _Stage("commands", (COMMANDS,), self._ordering.stage.work, 1),
        )

    def _news(self) -> tuple[_Stage, ...]:
        """Return the stage that tells the live feed, where there is a board to tell it on."""
        if self._board is None:
            return ()
        life = self.epoch if self._embedded else "kafka"
        news = NewsStage(self._board, self._reader, self._clock, self.metrics, life)
        return (_Stage("news", (STORED, CONTRADICTIONS), news.work, WINDOW),)

    def _make_ordering(self, turns: Turns) -> Ordering:
        hop, prefix, log = self._hop("commands"), self._settings.topic_prefix, self._event_log
        intake = self._journal_intake() if self._embedded else None
        replay = replaying.Means(log, self._open(), self._clock, intake, prefix)
        means = Means(hop, self._reader, self._writer, self._models, turns, replay, lambda: through(self._lanes))
        seen = Cancellations(self._bootstrap, prefix, self._delivery("cancellations"), lives_with_broker=self._embedded)
        pump = None
        if self._pumping:
            journal = cast("JournalLog", log)  # as in `_make_pumps`
            pump = CommandPump(journal, self._open(), self._reader, self._delivery("command-pump"))
        return Ordering(means, seen, self._clock, pump)

    def _make_pumps(self) -> tuple[Pump, ...]:
        if not self._pumping:
            return ()
        return tuple(
            Pump(
                topic,
                log=cast("JournalLog", self._event_log),  # without a Kafka of its own the log is a journal
                intake=self._journal_intake(),
                publisher=self._open(),
                reader=self._reader,
                delivery=self._delivery("pump"),
                bound=bound,
            )
            for topic, bound in ((EVENTS, LIVE_AHEAD), (BULK, BULK_AHEAD))
        )

    def _delivery(self, stage: str) -> Delivery:
        backoff = Backoff(self._settings.retry_base_s)
        return Delivery(stage, self._settings.retry_attempts, backoff, self.metrics)

    def _hop(self, stage: str) -> Hop:
        letters = Letters(self._event_log, self._open(), self._clock, self.metrics)
        delivery, publisher = self._delivery(stage), self._open()
        return Hop(delivery, letters, publisher, self._notes, in_hand=self._in_hand, traces=self._traces)

    def _intake(self) -> Intake:
        if self._embedded:
            return self._journal_intake()
        log, prefix = self._event_log, self._settings.topic_prefix
        return KafkaIntake(log.log_id, log.partitions, self._open(), prefix)

    def _journal_intake(self) -> JournalIntake:
        return JournalIntake(self._event_log, self.epoch, self._settings.topic_prefix)

    def _open(self) -> Publisher:
        if self._publisher is None:
            raise NotReady("The pipeline has not been started.")
        return self._publisher

    async def _open_publisher(self, prefix: str, *, idempotent: bool) -> Publisher:
        return await Publisher.open(self._bootstrap, prefix=prefix, idempotent=idempotent)

    # how it lives

    async def _own(self, ready: "asyncio.Future[None]") -> None:
        """Own every task. One that dies ends all of them, and is told by ``failed``."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._begin(tasks)
                ready.set_result(None)
                await self._stopping.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - told to whoever waits, once
            self._fail(error)
            if not ready.done():
                ready.set_exception(_first(error))

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        batcher = Batcher(self._writer)
        tasks.create_task(batcher.run(), name="batcher")
        if self._notes is not None:
            tasks.create_task(self._notes.run(), name="retry-notes")
        self._polling = Polling(self._bootstrap, self._fail, embedded=self._embedded)
        for stage in self._stages(batcher):
            self._add(stage, self._polling, tasks)
        if self._pumping:
            await self.refill()
        await self._polling.start()
        if self._ordering is not None:
            self._ordering.begin(tasks)
        self._pumps = self._make_pumps()
        for pump in self._pumps:
            tasks.create_task(pump.run(), name=f"pump-{pump.topic}")
        self._watch(tasks)

    def _add(self, stage: _Stage, polling: Polling, tasks: asyncio.TaskGroup) -> None:
        settings = self._settings
        lanes = Lanes(
            stage.name,
            stage.work,
            tasks,
            self.metrics,
            window=stage.window,
            limit=settings.lane_records,
            drain_s=settings.drain_s,
        )
        self._lanes[stage.name] = lanes
        topics = [topic_name(settings.topic_prefix, topic) for topic in stage.topics]
        polling.add(topics, f"{settings.topic_prefix}cortex-{stage.name}", lanes)
        tasks.create_task(lanes.commit_forever(), name=f"commit-{stage.name}")

    def _watch(self, tasks: asyncio.TaskGroup) -> None:
        slow_s = self._settings.slow_event_s
        watcher = Watcher(self.metrics, self._in_hand, self._lanes, self.lag, self._clock, slow_s=slow_s)
        tasks.create_task(watcher.run(), name="watcher")
        counting = watcher.count_tenants(self._event_log, self._reader) if self._embedded else watcher.count_keys()
        tasks.create_task(counting, name="tenant-lag")

    def _fail(self, error: Exception) -> None:
        _log.error("pipeline.failed", error=repr(_first(error)), exc_info=error)
        self.failed.set()


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _trouble(ping: Callable[[], Awaitable[None]]) -> str | None:
    """Return what a part says of why it is not there; None: it is."""
    try:
        async with asyncio.timeout(PING_S):
            await ping()
    except TimeoutError:
        return f"no answer within {PING_S:g} s"
    except CortexError as error:
        return str(error)
    return None
