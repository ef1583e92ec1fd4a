"""All three servers as one: started together, watched, and ended in order."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compose.local.folder import FileLock
from compose.local.signals import stop_signals
from compose.native.installing import OnProgress
from compose.native.kafka import KafkaPorts, KafkaServer, start_kafka
from compose.native.ports import free_ports, ports_from
from compose.native.redis import RedisServer, start_redis
from compose.native.server import LEFT_BEHIND_S, Server, made
from compose.native.weaviate import WeaviatePorts, WeaviateServer, start_weaviate
from shared.errors import InvalidInput, NotReady
from shared.kafka_admin import apply
from shared.topics import wanted_topics

SERVERS: Final = ("kafka", "weaviate", "redis")
"""They end in the reverse order: the log is the truth and outlives the others."""

OnReady = Callable[[Mapping[str, str]], Awaitable[None]]


@dataclass(frozen=True)
class ClusterPorts:
    """Where each server listens. The same first port gives each the same port, whichever of them are wanted."""

    kafka: KafkaPorts
    redis: int
    weaviate: WeaviatePorts

    @classmethod
    def choose(cls, first: int, only: Sequence[str]) -> "ClusterPorts":
        """Return nine ports in a row from ``first`` on (0: any that are free). Raises PortInUse."""
        if first == 0:
            return cls(KafkaPorts.free(), free_ports(1)[0], WeaviatePorts.free())
        used = {"kafka": (first, 2), "redis": (first + 2, 1), "weaviate": (first + 3, 6)}
        for name in only:
            ports_from(*used[name])
        http = first + 3
        return cls(KafkaPorts(first, first + 1), first + 2, WeaviatePorts(http, http + 1, http + 2, http + 4))


async def run_cluster(
    folder: Path,
    only: Sequence[str],
    *,
    first_port: int,
    partitions: int,
    on_ready: OnReady,
    on_progress: OnProgress = lambda _: None,
) -> None:
    """Run the servers on the data in ``folder`` until SIGINT, SIGTERM or SIGHUP (a second one ends them at once).

    Kafka has its topics when ``on_ready`` is awaited with the variables that lead Cortex to the servers. Raises InvalidInput
    (no such server), ToolMissing, FolderInUse, another DataFolderError, PortInUse, or NotReady: one did not start, or it
    ended by itself. Whatever happens, none is left running.
    """
    strange = sorted(set(only) - set(SERVERS))
    if strange or not only:
        raise InvalidInput(
            f"There is no server {', '.join(strange) or '(none given)'}: choose of {', '.join(SERVERS)}."
        )
    folder = await asyncio.to_thread(made, folder)
    lock = FileLock.take(folder / "lock")
    try:
        if lock.left_behind:
            on_progress("the last run was killed: its servers end first")
            await asyncio.sleep(LEFT_BEHIND_S)
        cluster = _Cluster(folder, only, ClusterPorts.choose(first_port, only), partitions, on_progress)
        with stop_signals(again=cluster.end_at_once) as stop:
            await cluster.run(stop, on_ready)
    finally:
        lock.close()


class _Cluster:
    """The servers of one run."""

    def __init__(
        self, folder: Path, only: Sequence[str], ports: ClusterPorts, partitions: int, on_progress: OnProgress
    ) -> None:
        self._folder = folder
        self._only = only
        self._ports = ports
        self._partitions = partitions
        self._on_progress = on_progress
        self._running: dict[str, Server] = {}
        self._at_once = asyncio.Event()

    async def run(self, stop: asyncio.Event, on_ready: OnReady) -> None:
        """Run until asked to stop or until one of them ends."""
        stopping = asyncio.create_task(_wait(stop), name="stopping")
        serving = asyncio.create_task(self._serve(on_ready), name="serving")
        try:
            await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            stopping.cancel()
            serving.cancel()
            await asyncio.gather(stopping, serving, return_exceptions=True)
            await self._end()

    def end_at_once(self) -> None:
        """Wait for no orderly end."""
        self._at_once.set()

    async def _serve(self, on_ready: OnReady) -> None:
        """Start all, say so, and watch; ends by an error only."""
        starts = [asyncio.create_task(self._start(name), name=name) for name in self._only]
        try:
            for ended in asyncio.as_completed(starts):
                await ended
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        await on_ready(self._environment())
        watches = {asyncio.create_task(server.wait(), name=name): name for name, server in self._running.items()}
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        names = ", ".join(watches[watch] for watch in done)
        raise NotReady(f"{names} ended by itself: its log is in {self._folder}.")

    async def _start(self, name: str) -> None:
        folder = self._folder / name
        match name:
            case "kafka":
                kafka = await start_kafka(folder, self._ports.kafka, self._on_progress)
                self._running[name] = kafka
                await apply(kafka.bootstrap, wanted_topics(self._partitions))
            case "weaviate":
                self._running[name] = await start_weaviate(folder, self._ports.weaviate, self._on_progress)
            case _:
                self._running[name] = await start_redis(folder, self._ports.redis)
        self._on_progress(f"{name} serves")

    def _environment(self) -> dict[str, str]:
        env: dict[str, str] = {}
        for name in SERVERS:
            match self._running.get(name):
                case KafkaServer(bootstrap=bootstrap):
                    env |= {"CORTEX_KAFKA_BOOTSTRAP": bootstrap, "CORTEX_PARTITIONS": str(self._partitions)}
                case WeaviateServer(url=url, grpc=grpc):
                    env |= {"CORTEX_STORE": "weaviate", "CORTEX_WEAVIATE_URL": url, "CORTEX_WEAVIATE_GRPC": grpc}
                case RedisServer(url=url):
                    env |= {"CORTEX_REDIS_URL": url}
                case _:
                    pass
        return env

    async def _end(self) -> None:
        """End them in order, or, once asked to hurry, at once."""
        orderly = asyncio.create_task(self._stop(), name="orderly")
        hurry = asyncio.create_task(_wait(self._at_once), name="hurry")
        await asyncio.wait({orderly, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not orderly.done():
            await asyncio.gather(*(server.kill() for server in self._running.values()))
        await orderly

    async def _stop(self) -> None:
        for name in reversed(SERVERS):
            server = self._running.get(name)
            if server is not None:
                self._on_progress(f"{name} stops")
                await server.stop()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def exports(environment: Mapping[str, str]) -> str:
    """Return the lines that set these variables in a shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
