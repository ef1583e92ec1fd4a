"""The ingest process of the local runtime: the broker's owner and the only writer of the knowledge files."""

import asyncio
import contextlib
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import structlog

from compose.local.broker_epoch import BrokerEpochs
from compose.local.children import LOOPBACK, Child, broker_command, listening
from compose.local.folder import FileLock
from compose.local.ingest_parts import open_health, pipelines
from compose.local.log_files import configure_logging
from compose.local.notices import Notice, tell, tell_failure
from compose.local.signals import stop_signals
from shared.clock import SystemClock
from shared.embedders.catalogue import Catalogue
from shared.errors import CortexError
from shared.logs.journal import Journal
from shared.settings import Settings

NICENESS: Final = 10  # questions go first (design §7)
BROKER_START_S: Final = 10.0  # it takes 20 ms
PREDECESSOR_S: Final = 15.0  # a killed runtime's ingest process may still be ending: never two writers
# The embedder's thread needs the interpreter for moments between two texts. With Python's 5 ms it waits longer for another
# thread to let go than its work takes: beside a busy one it did 37 texts a second, with this 88 (alone 120).
SWITCH_INTERVAL_S: Final = 0.0005

_log = structlog.get_logger(__name__)


def main() -> int:
    """Run the process; return its exit code."""
    settings = Settings()
    configure_logging("ingest", settings.data_dir / "log")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        asyncio.run(run_ingest(settings))
    except CortexError as error:
        _log.error("ingest.ended", error=type(error).__name__, detail=str(error))
        return tell_failure(error)
    return 0


async def run_ingest(settings: Settings) -> None:
    """Own the broker and run the pipeline on it until a signal asks to stop. Raises CortexError when it cannot."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        lock = await asyncio.to_thread(FileLock.take, settings.data_dir / "ingest.lock", PREDECESSOR_S)
        stack.callback(lock.close)
        health = await open_health(settings, LOOPBACK, stack)
        log = await asyncio.to_thread(Journal.open, settings.journal_path, settings.partitions, clock)
        stack.push_async_callback(log.close)
        embedders = await Catalogue.open(settings, settings.embed_threads)
        stack.push_async_callback(embedders.close)
        bootstrap = f"{LOOPBACK}:{settings.kafka_port}"
        make = await pipelines(settings, bootstrap, log, embedders, clock, health, stack)
        epochs = BrokerEpochs(
            lambda: _start_broker(settings),
            make,
            limit_mb=settings.broker_limit_mb,
            drain_s=settings.drain_s,
            on_running=_running,
        )
        await epochs.run(stop)


def _running() -> None:
    """Tell that events are taken, and from here on let questions go first: at its start it had no question to hinder."""
    tell(Notice(stage="ingest takes events"))
    threads = Path("/proc/self/task")  # on Linux each thread has a priority of its own, and hands it to those it starts
    numbers = [int(thread.name) for thread in threads.iterdir()] if threads.is_dir() else [0]
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, number, NICENESS)


async def _start_broker(settings: Settings) -> Child:
    """Start the broker in the runtime's empty folder and wait until it listens."""
    command = broker_command(settings.kafka_port, settings.data_dir / "run")
    broker = await Child.start(command, output=asyncio.subprocess.DEVNULL)
    try:
        await listening(broker, settings.kafka_port, BROKER_START_S)
    except BaseException:
        await broker.stop()
        raise
    tell(Notice(stage="broker listens"))
    return broker


if __name__ == "__main__":
    sys.exit(main())
