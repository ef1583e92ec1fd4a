"""One ingest process of a cluster: a member of the stages' consumer groups on a durable Kafka."""

import asyncio
import sys
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

import structlog

from compose.local.ingest_parts import open_health, pipelines
from compose.local.ingest_process import SWITCH_INTERVAL_S
from compose.local.restarts import Restarts
from compose.local.signals import stop_signals
from shared.clock import SystemClock
from shared.embedders.catalogue import Catalogue
from shared.errors import InvalidInput, LogUnavailable, NotReady, Transient
from shared.logs.kafka_log import KafkaLog
from shared.settings import Settings
from shared.store import KnowledgeReader
from shared.stores.opening import open_reader

WAIT_S: Final = 300.0  # for Kafka and its topics at the start: whatever starts them may take its time
LOOK_EVERY_S: Final = 1.0
FAILURES: Final = 20  # within a minute; a cluster's broker may be away for long, and that is waited out

Value = TypeVar("Value")
_log = structlog.get_logger(__name__)


async def run_member(settings: Settings) -> None:
    """Take part until a signal asks to stop: finish what is in hand, commit, leave the groups.

    Raises InvalidInput for settings that do not fit, LogUnavailable when Kafka or a topic is not there for 5 minutes, NotReady
    when the pipeline fails too often.
    """
    if settings.kafka_bootstrap is None:
        raise InvalidInput("CORTEX_KAFKA_BOOTSTRAP is not set: `cortex up` runs Cortex with a broker of its own.")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        health = await open_health(settings, settings.host, stack)
        ledger = open_reader(settings, clock, threads=1)
        stack.push_async_callback(ledger.close)
        log = await _unless(stop, _open_log(settings, clock, ledger))
        if log is None:
            return
        stack.push_async_callback(log.close)
        following = asyncio.create_task(log.follow(events=False), name="log")  # letters, for who replays them
        stack.push_async_callback(_end, following)
        embedders = await Catalogue.open(settings, settings.embed_threads)
        stack.push_async_callback(embedders.close)
        parts = (settings, settings.kafka_bootstrap, log, embedders, clock, health, stack)
        make = await _unless(stop, pipelines(*parts))
        if make is None:
            return
        restarts = Restarts(time.monotonic, FAILURES)
        while not stop.is_set():
            pipeline = make()
            try:
                await _unless(stop, pipeline.start())
                if not stop.is_set():
                    _log.info("member.running")
                    await _either(pipeline.failed, stop, following)
            except Transient as error:
                _log.warning("member.waits", cause=str(error))
            finally:
                await pipeline.stop()
            if stop.is_set():
                return
            wait_s = restarts.wait_after_end()
            if wait_s is None:
                raise NotReady("The pipeline failed too often; its log says why.")
            await _until(stop, wait_s)


async def _end(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _open_log(settings: Settings, clock: SystemClock, ledger: KnowledgeReader) -> KafkaLog:
    """Open the log, waiting for Kafka and for its topics."""
    deadline = time.monotonic() + WAIT_S
    assert settings.kafka_bootstrap is not None
    while True:
        try:
            return await KafkaLog.open(settings.kafka_bootstrap, clock, prefix=settings.topic_prefix, reader=ledger)
        except LogUnavailable as error:
            if time.monotonic() > deadline:
                raise
            _log.info("member.waits", cause=str(error))
            await asyncio.sleep(LOOK_EVERY_S)


async def _unless(stop: asyncio.Event, opening: Coroutine[Any, Any, Value]) -> Value | None:
    """Return what is opened, or None when asked to stop before."""
    task, stopping = asyncio.create_task(opening), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await asyncio.gather(*(_end(one) for one in (task, stopping)))


async def _either(one: asyncio.Event, other: asyncio.Event, beside: "asyncio.Task[None]") -> None:
    """Wait for one of the events; raises what the task beside them has died of."""
    waits = {asyncio.create_task(one.wait()), asyncio.create_task(other.wait())}
    try:
        await asyncio.wait({*waits, beside}, return_when=asyncio.FIRST_COMPLETED)
        if beside.done():
            beside.result()
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _until(stop: asyncio.Event, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await stop.wait()
    except TimeoutError:
        return
