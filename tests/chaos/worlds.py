"""Where a run takes place: a broker, a log, a store, members. One class for each broker, with the same doings."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from redis.asyncio import Redis

from compose.local.children import Child, Command, broker_command, listening
from compose.local.supervisor import _environment
from compose.native.ports import free_ports
from schemas.graph import Contribution
from shared.clock import SystemClock
from shared.errors import LogUnavailable, StoreUnavailable
from shared.kafka import (
    BULK,
    COMMANDS,
    CONTRADICTIONS,
    DEAD_LETTERS,
    EMBEDDED,
    EVENTS,
    RESOLVED,
    STORED,
    Outgoing,
    Publisher,
)
from shared.kafka_admin import apply
from shared.letter_records import letter_of
from shared.logs.journal import Journal
from shared.partitioner import partition_of
from shared.settings import Settings
from shared.store import CONTRADICTIONS as CHECKED
from shared.store import STORED as KEPT
from shared.store import KnowledgeReader
from shared.stores.opening import open_reader
from shared.topics import topic_name, wanted_topics
from tests.chaos.members import Member, Members
from tests.chaos.plan import TENANTS, Said
from tests.chaos.replicas import Replicas
from tests.chaos.servers import Servers
from tests.chaos.topics import graph_of, records_of

ROOT = Path(__file__).resolve().parents[2]
READY_S = 90.0  # members, on a machine with other things to do
LISTENS_S = 10.0
PAUSE_S = 0.1
GROUPS = {
    "embed": (EVENTS, BULK),
    "resolve": (EMBEDDED,),
    "store": (RESOLVED,),
    "contradictions": (STORED,),
    "news": (STORED, CONTRADICTIONS),
    "commands": (COMMANDS,),
}


class World:
    """What both have in common."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.members = Members(self.command, folder)
        self.reader: KnowledgeReader = open_reader(settings, SystemClock(), threads=1)

    def command(self, leads: bool) -> Command:
        """Return how to run a member."""
        raise NotImplementedError

    async def begin(self, members: int) -> None:
        """Start so many members."""
        await asyncio.gather(*(self.members.start() for _ in range(members)))

    async def join(self) -> None:
        """Start another member."""
        await self.members.start()

    async def watermarks(self, stage: str) -> dict[str, dict[tuple[str, int], int]]:
        """Return the store's watermarks by tenant."""
        found = {}
        for tenant in await self.reader.tenants():
            async with self.reader.snapshot(tenant) as snapshot:
                found[tenant] = await snapshot.watermarks(stage)
        return found

    async def _close(self) -> None:
        await self.members.kill()
        await self.reader.close()

    def _python(self, *words: str, **changed: Any) -> Command:
        env = {**_environment(self.settings.model_copy(update=changed)), "PYTHONUNBUFFERED": "1"}
        return Command("member", (sys.executable, *words), self.folder, env, grace_s=25.0)


class KafkaWorld(World):
    """On Apache Kafka: members are ``cortex ingest`` processes."""

    def __init__(self, folder: Path, servers: Servers, *, prefix: str, partitions: int, weaviate: bool = False) -> None:
        store: dict[str, Any] = {}
        if weaviate:
            assert servers.weaviate is not None
            store = {"store": "weaviate", "weaviate_url": servers.weaviate.url, "weaviate_grpc": servers.weaviate.grpc}
        super().__init__(
            folder,
            Settings(
                data_dir=folder,
                kafka_bootstrap=servers.kafka.bootstrap,
                redis_url=servers.redis.url,
                topic_prefix=prefix,
                partitions=partitions,
                embedder="hashed",
                ingest_port=0,
                **store,
            ),
        )
        self.servers = servers
        self.bootstrap = servers.kafka.bootstrap
        self._publisher: Publisher | None = None
        self._handled = 0
        self._striking = asyncio.Lock()
        self.store_away = False
        self.replicas = Replicas(self.replica_command, folder)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["KafkaWorld"]:
        """Make the topics; end everything afterwards."""
        settings = self.settings
        await apply(self.bootstrap, wanted_topics(settings.partitions, prefix=settings.topic_prefix))
        try:
            yield self
        finally:
            await self.replicas.kill()
            await self._close()
            if self._publisher is not None:
                await self._publisher.close(1.0)

    def command(self, leads: bool) -> Command:
        del leads
        return self._python("-m", "compose", "ingest")

    def replica_command(self, port: int) -> Command:
        """Return how to run a query process."""
        return self._python("-m", "compose", "query", "--port", str(port))

    async def publish(self, batch: Sequence[Said]) -> None:
        """Publish as a producer that tries until all is acknowledged."""
        count = self.settings.partitions
        messages = [
            ((partition_of(said.key, count) + said.stray) % count, Outgoing(said.key, said.body)) for said in batch
        ]
        while True:
            try:
                if self._publisher is None:
                    prefix = self.settings.topic_prefix
                    self._publisher = await Publisher.open(self.bootstrap, prefix=prefix, idempotent=True)
                await self._publisher.send(EVENTS, messages)
            except LogUnavailable:
                publisher, self._publisher = self._publisher, None
                if publisher is not None:
                    await publisher.close(1.0)
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def handled(self) -> int:
        """Return how many records are through the store stage; while the store is away, how many were when last asked."""
        best: dict[tuple[str, int], int] = {}
        with contextlib.suppress(StoreUnavailable):
            for marks in (await self.watermarks(KEPT)).values():
                for place, number in marks.items():
                    best[place] = max(best.get(place, 0), number + 1)
            self._handled = sum(best.values())
        return self._handled

    async def lag(self) -> dict[str, int]:
        """Return, per stage, what stands behind its group's committed offsets; the stages are asked in their order."""
        return {stage: await self._lag(stage, topics) for stage, topics in GROUPS.items()}

    async def _lag(self, stage: str, topics: Sequence[str]) -> int:
        prefix = self.settings.topic_prefix
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=f"{prefix}cortex-{stage}", enable_auto_commit=False
        )
        try:
            async with asyncio.timeout(20):
                await consumer.start()
                places = [
                    TopicPartition(topic_name(prefix, topic), number)
                    for topic in topics
                    for number in range(self.settings.partitions)
                ]
                consumer.assign(places)
                ends = await consumer.end_offsets(places)
                done = {place: await consumer.committed(place) or 0 for place in places}
        finally:
            await consumer.stop()
        return sum(ends[place] - done[place] for place in places)

    async def drained(self) -> bool:
        """Tell whether nothing is left to do: every group has committed everything."""
        try:
            return not any((await self.lag()).values())
        except (KafkaError, OSError, TimeoutError):
            return False

    async def letters(self) -> list[bytes]:
        """Return the body of each dead letter there is."""
        found = {}
        for key, value, headers in await records_of(self.bootstrap, self.settings, DEAD_LETTERS):
            letter = letter_of(key, value, headers)
            if letter is not None and not isinstance(letter, tuple):
                found[letter.id] = letter.body
        return sorted(found.values())

    async def strike_broker(self) -> None:
        """Kill the broker and start it again on its data."""
        await self.servers.kafka.kill()
        await asyncio.sleep(1.0)
        await self.servers.kafka.start()

    async def strike_store(self) -> None:
        """Kill Weaviate, and start it again on its data after a while."""
        server = self.servers.weaviate
        assert server is not None
        async with self._striking:
            await server.kill()
            self.store_away = True
            await asyncio.sleep(3.0)
            self.store_away = False
            await server.start()

    async def strike_cache(self) -> None:
        """Kill Redis, and start it again after a while."""
        await self.servers.redis.kill()
        await asyncio.sleep(3.0)
        await self.servers.redis.start()

    async def flush_cache(self) -> None:
        """Let Redis forget everything."""
        with contextlib.suppress(OSError):
            async with Redis.from_url(self.servers.redis.url) as redis:
                await redis.flushall()

    async def graph(self) -> dict[str, dict[str, Contribution]]:
        """Return the newest record of each contribution that ``cortex.graph`` holds, as its compaction leaves them."""
        return await graph_of(self.bootstrap, self.settings, lives_with_broker=False)


class EmbeddedWorld(World):
    """On the embedded broker: it and everything on it live one epoch; the journal and the store outlive it."""

    def __init__(self, folder: Path, *, partitions: int) -> None:
        port = free_ports(1)[0]
        self.bootstrap = f"127.0.0.1:{port}"
        super().__init__(folder, Settings(data_dir=folder, kafka_port=port, partitions=partitions, embedder="hashed"))
        self._epoch = 0
        self._broker: Child | None = None
        self._changing = asyncio.Lock()
        self._accepted = 0
        self._foreign: set[asyncio.Task[None]] = set()
        (folder / "broker").mkdir()
        self.log = Journal.open(self.settings.journal_path, partitions, SystemClock())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["EmbeddedWorld"]:
        """End everything afterwards."""
        try:
            yield self
        finally:
            for task in self._foreign:
                task.cancel()
            await asyncio.gather(*self._foreign, return_exceptions=True)
            await self._close()
            await self._end_broker()
            await self.log.close()

    def command(self, leads: bool) -> Command:
        options = ["--lead"] if leads else []
        return self._python("-m", "tests.chaos.member", f"epoch-{self._epoch:04d}", *options)

    async def begin(self, members: int) -> None:
        """Begin an epoch: a broker, the member that leads, and, once that runs, the others."""
        async with self._changing:
            await self._begin(members)

    async def join(self) -> None:
        """Start another member, in the epoch that there is."""
        async with self._changing:
            await self.members.start()

    async def strike_leader(self) -> None:
        """Kill the process that owns the broker: the epoch ends, and the next one begins."""
        async with self._changing:
            count = len(self.members.alive)
            await asyncio.gather(*(member.kill() for member in self.members.alive))
            await self._end_broker()
            await self._begin(max(count, 2))

    async def publish(self, batch: Sequence[Said]) -> None:
        """Publish as the gateway does; what nobody can use comes over the Kafka protocol, until it is known."""
        events = [said.event for said in batch if said.event is not None]
        if events:
            self._accepted += sum(not one.duplicate for one in await self.log.append(events))
        for said in batch:
            if said.event is None:
                self._foreign.add(asyncio.create_task(self._publish_foreign(said)))

    async def handled(self) -> int:
        """Return how many events are through the store stage."""
        return self._accepted - await self._waiting(KEPT)

    async def lag(self) -> dict[str, int]:
        """Return how many events are not through, per watermark."""
        return {stage: await self._waiting(stage) for stage in (KEPT, CHECKED)}

    async def drained(self) -> bool:
        """Tell whether nothing is left to do."""
        for task in self._foreign:
            if task.done():
                task.result()
        return all(task.done() for task in self._foreign) and not any((await self.lag()).values())

    async def letters(self) -> list[bytes]:
        """Return the body of each dead letter there is."""
        return sorted(letter.body for letter in await self.log.dead_letters(limit=10_000))

    async def graph(self) -> dict[str, dict[str, Contribution]]:
        """Return the newest record of each contribution of the present epoch."""
        return await graph_of(self.bootstrap, self.settings, lives_with_broker=True)

    async def _begin(self, members: int) -> None:
        self._epoch += 1
        self._broker = await Child.start(
            broker_command(self.settings.kafka_port, self.folder / "broker"), output=asyncio.subprocess.DEVNULL
        )
        await listening(self._broker, self.settings.kafka_port, LISTENS_S)
        leader = await self.members.start(leads=True)
        await self._running(leader)
        for _ in range(members - 1):
            await self.members.start()

    async def _running(self, member: Member) -> None:
        """Wait until it has made the topics and joined: the others would find none."""
        log = self.folder / f"{member.name}.log"
        async with asyncio.timeout(READY_S):
            while member.alive and b"running\n" not in await asyncio.to_thread(log.read_bytes):  # noqa: ASYNC110 - another process
                await asyncio.sleep(PAUSE_S)

    async def _end_broker(self) -> None:
        if self._broker is not None:
            self._broker.kill()
            await self._broker.wait()

    async def _waiting(self, stage: str) -> int:
        marks = await self.watermarks(stage)
        pending = [await self.log.pending(tenant, marks.get(tenant, {})) for tenant in TENANTS]
        return sum(sum(one.values()) for one in pending)

    async def _publish_foreign(self, said: Said) -> None:
        """Publish until it is known what came of it: what the broker alone holds is lost with its epoch."""
        partition = partition_of(said.key, self.settings.partitions)
        epoch = None
        while said.body not in await self.letters():
            if epoch != self._epoch:
                with contextlib.suppress(LogUnavailable):
                    current = self._epoch
                    async with await Publisher.open(self.bootstrap, deadline_s=3.0) as publisher:
                        await publisher.publish(EVENTS, partition, [Outgoing(said.key, said.body)])
                    epoch = current
            await asyncio.sleep(3 * PAUSE_S)
