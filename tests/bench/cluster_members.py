"""The cluster set-up that is measured: Kafka, Weaviate and Redis, two ingest and two query processes, all on loopback."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from compose.local.children import Child, Command
from compose.local.supervisor import _environment
from compose.native.installing import end_of
from compose.native.ports import free_ports
from shared.errors import NotReady
from shared.settings import Settings
from tests.chaos.servers import Servers

READY_S = 180.0  # 5 to 15 s on an idle machine; the replicas read the whole graph topic
LOOK_EVERY_S = 0.1
ANSWER_S = 60.0
GRACE_S = 20.0


@dataclass(frozen=True)
class Member:
    """One process of ours, with its HTTP port."""

    name: str
    port: int
    child: Child

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Members:
    """The running processes, and a connection to each query process."""

    ingest: list[Member] = field(default_factory=list)
    query: list[Member] = field(default_factory=list)
    doors: list[httpx.Client] = field(default_factory=list)

    def memory_mb(self) -> dict[str, int]:
        """Return resident memory by process."""
        return {member.name: round(member.child.memory_mb()) for member in (*self.ingest, *self.query)}

    def connect(self) -> list[httpx.Client]:
        """Open further connections, for a thread of their own. Whoever asked closes them."""
        return [httpx.Client(base_url=member.url, timeout=ANSWER_S, trust_env=False) for member in self.query]


def settings_of(servers: Servers, folder: Path, partitions: int) -> Settings:
    """Return what every process of the cluster is given; ``folder`` only because one has to be named."""
    assert servers.weaviate is not None
    return Settings(
        data_dir=folder,
        kafka_bootstrap=servers.kafka.bootstrap,
        redis_url=servers.redis.url,
        store="weaviate",
        weaviate_url=servers.weaviate.url,
        weaviate_grpc=servers.weaviate.grpc,
        partitions=partitions,
        tenant_events_per_s=0,  # the pipeline is measured, not the door that would hold it back
    )


@asynccontextmanager
async def running(settings: Settings, folder: Path, *, ingest: int = 2, query: int = 2) -> AsyncIterator[Members]:
    """Start the processes and wait until all are ready; none is left behind. Raises NotReady."""
    members = Members()
    async with AsyncExitStack() as stack:
        for kind, count, kept in (("ingest", ingest, members.ingest), ("query", query, members.query)):
            for number in range(1, count + 1):
                member = await _start(settings, folder, kind, f"{kind} {number}")
                stack.push_async_callback(member.child.stop)
                kept.append(member)
        await _ready([*members.ingest, *members.query], folder)
        members.doors = members.connect()
        for door in members.doors:
            stack.callback(door.close)
        yield members


async def _start(settings: Settings, folder: Path, kind: str, name: str) -> Member:
    (port,) = free_ports(1)
    given = settings.model_copy(update={"http_port" if kind == "query" else "ingest_port": port})
    command = Command(name, (sys.executable, "-m", "compose", kind), folder, _environment(given), GRACE_S)
    with _log(folder, name).open("ab") as log:
        child = await Child.start(command, output=log.fileno(), errors=log.fileno())
    return Member(name, port, child)


async def _ready(members: Sequence[Member], folder: Path) -> None:
    deadline = time.monotonic() + READY_S
    async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False) as client:
        for member in members:
            while not await _answers(client, member):
                if member.child.ended or time.monotonic() > deadline:
                    end = await asyncio.to_thread(end_of, _log(folder, member.name))
                    raise NotReady(f"{member.name} does not become ready: {end}")
                await asyncio.sleep(LOOK_EVERY_S)


async def _answers(client: httpx.AsyncClient, member: Member) -> bool:
    try:
        return (await client.get(f"{member.url}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


def _log(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '-')}.log"
