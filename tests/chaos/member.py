"""One consumer of a run on the embedded broker: ``python -m tests.chaos.member EPOCH [--lead]``.

Broker and journal belong to the run. The one that leads makes the topics, fills them and pumps, as the ingest process of
the local set-up does; the others join its epoch. Settings come from the environment.
"""

import asyncio
import sys

from compose.local.log_files import configure_logging
from compose.local.signals import stop_signals
from ingest.pipeline import Pipeline
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.errors import LogUnavailable
from shared.logs.journal import Journal
from shared.settings import Settings
from shared.stores.sqlite import SqliteReader, SqliteWriter


async def run(settings: Settings, epoch: str, *, leads: bool) -> int:
    """Take part until a signal; return 1 when the pipeline failed."""
    clock = SystemClock()
    with stop_signals() as stop:
        log = Journal.open(settings.journal_path, settings.partitions, clock)
        writer = SqliteWriter(settings.knowledge_dir, clock, shared=True)
        reader = SqliteReader(settings.knowledge_dir, threads=1, vector_memory_mb=64, clock=clock)
        parts = (settings, f"127.0.0.1:{settings.kafka_port}", log, writer, reader, HashedEmbedder(), clock)
        pipeline = Pipeline(*parts, epoch=epoch, pump=leads)
        try:
            asked = asyncio.create_task(stop.wait())
            starting = asyncio.create_task(pipeline.start())
            await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                print("running", flush=True)
            failed = asyncio.create_task(pipeline.failed.wait())
            await asyncio.wait({failed, asked}, return_when=asyncio.FIRST_COMPLETED)
            for end in (starting, asked, failed):
                end.cancel()
            await asyncio.gather(starting, asked, failed, return_exceptions=True)
            return int(pipeline.failed.is_set())
        except LogUnavailable:
            return 1  # the broker has ended, and the run with it
        finally:
            await pipeline.stop()
            await writer.close()
            await reader.close()
            await log.close()


if __name__ == "__main__":
    configure_logging("ingest", None)
    sys.exit(asyncio.run(run(Settings(), sys.argv[1], leads="--lead" in sys.argv)))
