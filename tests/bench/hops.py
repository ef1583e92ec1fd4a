"""``python -m tests.bench.hops``: the four stages beside a bare consume-produce loop over as many hops, on one broker.

The embedder is null: what is measured is everything else. The bare loop polls, publishes what it polled and commits, and
reads, resolves, stores and compares nothing: it is the most that this client and this broker allow.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from compose.local.children import Child, broker_command, listening
from compose.local.ports import free_port
from compose.native.kafka import KafkaPorts, start_kafka
from ingest.pipeline import Pipeline
from schemas.events import parse_event
from shared.clock import SystemClock
from shared.embedder import Vector, Vectors
from shared.kafka import create_topics
from shared.logs.kafka_log import KafkaLog
from shared.logs.memory import MemoryLog
from shared.settings import Settings
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.bench.figures import Report
from tests.bench.population import TENANT, Words, event

PARTITIONS = 4
HOPS = 4
DEADLINE_S = 600.0
POLL = 256


class NullEmbedder:
    """One and the same vector for every text."""

    model, dims = "null/64", 64

    def __init__(self) -> None:
        self._one = np.zeros((1, self.dims), dtype=np.float32)
        self._one[0, 0] = 1.0

    async def embed_query(self, text: str) -> Vector:
        return self._one[0]

    async def embed_text(self, text: str) -> Vectors:
        return self._one

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def broker(kind: str, folder: Path) -> AsyncIterator[str]:
    """Run a broker; yield its address."""
    if kind == "kafka":
        server = await start_kafka(folder / "kafka", KafkaPorts.free())
        try:
            yield server.bootstrap
        finally:
            await server.stop()
        return
    port = free_port("127.0.0.1", 0, "kafka_port")
    (folder / "broker").mkdir()
    child = await Child.start(broker_command(port, folder / "broker"), output=asyncio.subprocess.DEVNULL)
    try:
        await listening(child, port, 10.0)
        yield f"127.0.0.1:{port}"
    finally:
        await child.stop()


async def bare_loop(bootstrap: str, bodies: list[tuple[bytes, bytes]], *, idempotent: bool) -> float:
    """Return messages a second through `HOPS` hops that do nothing."""
    await create_topics(bootstrap, PARTITIONS, prefix="bare.")
    # the topics of the pipeline, as a chain of as many hops
    chain = [f"bare.cortex.{name}" for name in ("events", "embedded", "resolved", "stored", "contradictions")]
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=idempotent)
    await producer.start()
    try:
        futures = [await producer.send(chain[0], body, key=key) for key, body in bodies]
        await asyncio.gather(*futures)
        consumers = [_consumer(bootstrap, f"bare-{hop}") for hop in range(HOPS)]
        for consumer, topic in zip(consumers, chain, strict=False):
            consumer.subscribe([topic])
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        last = _consumer(bootstrap, None)
        await last.start()
        last.assign([TopicPartition(chain[-1], number) for number in range(PARTITIONS)])
        start = time.perf_counter()
        hops = [asyncio.create_task(_hop(consumer, producer, chain[hop + 1])) for hop, consumer in enumerate(consumers)]
        through = 0
        async with asyncio.timeout(DEADLINE_S):
            while through < len(bodies):
                polled = await last.getmany(timeout_ms=200, max_records=5_000)
                through += sum(len(records) for records in polled.values())
        took = time.perf_counter() - start
        for hop in hops:
            hop.cancel()
        await asyncio.gather(*hops, return_exceptions=True)
        await asyncio.gather(*(consumer.stop() for consumer in (*consumers, last)))
        return len(bodies) / took
    finally:
        await producer.stop()


def _consumer(bootstrap: str, group: str | None) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )


async def _hop(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, topic: str) -> None:
    while True:
        polled = await consumer.getmany(timeout_ms=100, max_records=POLL)
        futures = [
            await producer.send(topic, record.value, key=record.key, partition=place.partition)
            for place, records in polled.items()
            for record in records
        ]
        if futures:
            await asyncio.gather(*futures)
            await consumer.commit()


async def pipeline_rate(bootstrap: str, events: list[dict], folder: Path, *, kafka: bool) -> float:
    """Return events a second through the four stages, contradictions included."""
    clock = SystemClock()
    given = {"topic_prefix": "full.", "partitions": PARTITIONS, **({"kafka_bootstrap": bootstrap} if kafka else {})}
    settings = Settings(**given)
    writer = SqliteWriter(folder, clock)
    reader = SqliteReader(folder, threads=1, vector_memory_mb=256)
    if kafka:
        await create_topics(bootstrap, PARTITIONS, prefix="full.")
        log = await KafkaLog.open(bootstrap, clock, prefix="full.", reader=reader)
    else:
        log = MemoryLog(PARTITIONS, clock)
    parsed = [parse_event(one) for one in events]
    for first in range(0, len(parsed), 500):
        await log.append(parsed[first : first + 500])
    pipeline = Pipeline(settings, bootstrap, log, writer, reader, NullEmbedder(), clock)
    await pipeline.start()
    start = time.perf_counter()
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (await _through(reader, len(events)) and await pipeline.idle()):  # noqa: ASYNC110 - other processes' work
                await asyncio.sleep(0.05)
        return len(events) / (time.perf_counter() - start)
    finally:
        await pipeline.stop()
        await log.close()
        await writer.close()
        await reader.close()


async def _through(reader: SqliteReader, wanted: int) -> bool:
    async with reader.snapshot(TENANT) as snapshot:
        return (await snapshot.counts()).units >= wanted


async def main() -> int:
    """Measure on each broker."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hops", description=__doc__)
    parser.add_argument("--broker", choices=("embedded", "kafka", "both"), default="both")
    parser.add_argument("--events", type=int, default=5_000)
    options = parser.parse_args()
    report = Report()
    words = Words(seed=7)
    begun = datetime(2025, 1, 1, tzinfo=UTC)
    events = [event(words, f"u-{number}", begun + timedelta(minutes=number)) for number in range(options.events)]
    bodies = [(f"{TENANT}/{one['id']}".encode(), orjson.dumps(one)) for one in events]
    for kind in ("embedded", "kafka") if options.broker == "both" else (options.broker,):
        with tempfile.TemporaryDirectory() as parent:
            async with broker(kind, Path(parent)) as bootstrap:
                bare = await bare_loop(bootstrap, bodies, idempotent=kind == "kafka")
                full = await pipeline_rate(bootstrap, events, Path(parent) / "knowledge", kafka=kind == "kafka")
                report.add(f"{kind}: bare loop of {HOPS} hops, messages/s", round(bare))
                report.add(f"{kind}: the four stages, null embedder, events/s", round(full))
                report.add(f"{kind}: stages / bare loop", round(full / bare, 3))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
