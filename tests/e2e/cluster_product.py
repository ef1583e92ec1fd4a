"""A cluster as its users meet it: Kafka, Weaviate and Redis, two ingest and two query processes, a client that alternates.

The Weaviate is the product's own: tests kill it, and no other product's collections are on it. Where the tests know of no
Weaviate (``CORTEX_TEST_WEAVIATE`` is not set) the processes share a SQLite store.
"""

import asyncio
import base64
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from anyio.from_thread import start_blocking_portal

from compose.native.kafka import KafkaPorts, KafkaServer, start_kafka
from compose.native.ports import free_ports
from compose.native.redis import RedisServer, start_redis
from compose.native.weaviate import WeaviatePorts, WeaviateServer, start_weaviate
from shared.kafka_admin import apply
from shared.topics import wanted_topics
from tests.conftest import WEAVIATE
from tests.e2e.product import GONE_S, READY_S, Product, until
from tests.endpoint_server import EndpointServer, running

PARTITIONS = 4
MEMBERS = 2
MODEL = "words/96"
HOOKED = "hooked"
"""The tenant whose webhooks are taken."""


class _InTurn(httpx.HTTPTransport):
    """Sends each request to the next of some ports, as a proxy before replicas does."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._next = itertools.cycle(ports)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._next))
        return super().handle_request(request)


class ClusterProduct(Product):
    """What `Product` is locally, on servers of its own. Its tenants may change to `MODEL`, which ``embeddings`` serves."""

    replicas = MEMBERS

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(folder, free_ports(1)[0], env)
        folder.mkdir(parents=True)
        self._stack = ExitStack()
        self.embeddings = self._stack.enter_context(running(EndpointServer({"words": 96}, turned=frozenset({"words"}))))
        self.secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
        self._secrets = folder / "webhooks"
        self._secrets.write_text(json.dumps({"tenant": HOOKED, "secret": self.secret}))
        self._portal = self._stack.enter_context(start_blocking_portal("asyncio"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._broker: KafkaServer | None = None
        self._redis: RedisServer | None = None
        self._weaviate: WeaviateServer | None = None
        self.query_ports = list(free_ports(1, 1))
        self.url = f"http://127.0.0.1:{self.query_ports[0]}"
        self.ingest_ports = list(free_ports(1, 1))

    def start(self, *options: str) -> None:
        assert not options
        self._portal.call(self._start_servers)
        assert self._broker is not None
        assert self._redis is not None
        self.kafka = self._broker.bootstrap
        self._env |= {
            "CORTEX_KAFKA_BOOTSTRAP": self.kafka,
            "CORTEX_REDIS_URL": self._redis.url,
            "CORTEX_PARTITIONS": str(PARTITIONS),
            "CORTEX_DATA_DIR": str(self.folder / "data"),
            "CORTEX_EMBEDDER": "hashed",
            "CORTEX_OTHER_EMBEDDERS": json.dumps([{"url": self.embeddings.url, "model": "words", "dims": 96}]),
            "CORTEX_WEBHOOK_SECRETS_FILE": str(self._secrets),
        }
        if self._weaviate is not None:
            self._env |= {
                "CORTEX_STORE": "weaviate",
                "CORTEX_WEAVIATE_URL": self._weaviate.url,
                "CORTEX_WEAVIATE_GRPC": self._weaviate.grpc,
            }
        for number in range(MEMBERS):
            self.start_ingest(number)
            self.start_query(number)
        self.http = httpx.Client(base_url=self.url, timeout=30, transport=_InTurn(self.query_ports))
        self.wait_ready()

    async def _start_servers(self) -> None:
        """Start them side by side, each on ports of its own."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._start_broker())
            tasks.create_task(self._start_redis())
            if WEAVIATE:
                tasks.create_task(self._start_weaviate())

    async def _start_broker(self) -> None:
        self._broker = await start_kafka(self.folder / "kafka", KafkaPorts.free())
        await apply(self._broker.bootstrap, wanted_topics(PARTITIONS))

    async def _start_redis(self) -> None:
        self._redis = await start_redis(self.folder / "redis", free_ports(1)[0])

    async def _start_weaviate(self) -> None:
        self._weaviate = await start_weaviate(self.folder / "weaviate", WeaviatePorts.free())

    def wait_ready(self) -> None:
        """Wait until every process says that it is."""
        for port in (*self.query_ports, *self.ingest_ports):
            until(lambda port=port: self._alive() and self.ready(port), READY_S, f"{port} is ready")

    def _alive(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, f"{name} ended by itself: {self.log()[-2000:]}"
        return True

    def start_ingest(self, number: int) -> None:
        """Start an ingest process, under a name that no process before had."""
        self._run(f"ingest-{number}", "ingest", self.ingest_ports[number])

    def start_query(self, number: int) -> None:
        """Start a query process."""
        self._run(f"query-{number}", "query", self.query_ports[number])

    def kill_ingest(self, number: int) -> None:
        """Kill an ingest process."""
        self._kill(f"ingest-{number}")

    def kill_query(self, number: int) -> None:
        """Kill a query process."""
        self._kill(f"query-{number}")

    def replica(self, number: int) -> httpx.Client:
        """Open a connection to one query process and no other."""
        return httpx.Client(base_url=f"http://127.0.0.1:{self.query_ports[number]}", timeout=30, trust_env=False)

    def kill_broker(self) -> None:
        """Kill Kafka."""
        assert self._broker is not None
        self._portal.call(self._broker.kill)

    def start_broker(self) -> None:
        """Start Kafka again on its data."""
        assert self._broker is not None
        self._portal.call(self._broker.start)

    def kill_redis(self) -> None:
        """Kill Redis."""
        assert self._redis is not None
        self._portal.call(self._redis.kill)

    def start_redis(self) -> None:
        """Start Redis again."""
        assert self._redis is not None
        self._portal.call(self._redis.start)

    @property
    def weaviate(self) -> WeaviateServer:
        """The store's server."""
        assert self._weaviate is not None, "CORTEX_TEST_WEAVIATE names none: run tests.on_cluster"
        return self._weaviate

    def kill_weaviate(self) -> None:
        """Kill Weaviate."""
        self._portal.call(self.weaviate.kill)

    def start_weaviate(self) -> None:
        """Start Weaviate again on its data."""
        self._portal.call(self.weaviate.start)

    @contextmanager
    def frozen_weaviate(self) -> Iterator[None]:
        """Stop Weaviate's process where it is: its connections stay open and nothing answers on them."""
        child = self.weaviate._child
        assert child is not None
        (process,) = psutil.Process(child.guard_pid).children()
        process.suspend()
        try:
            yield
        finally:
            process.resume()

    def ready(self, port: int) -> bool:
        """Ask a process whether it is ready."""
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self.http.close()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(GONE_S)
        for server in (self._broker, self._redis, self._weaviate):
            if server is not None:
                self._portal.call(server.kill)
        self._stack.close()

    def _kill(self, name: str) -> None:
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait(GONE_S)

    def _run(self, name: str, command: str, port: int) -> None:
        words: list[Any] = [sys.executable, "-m", "compose", command, "--port", str(port)]
        with (self.folder.parent / f"{self.folder.name}.err").open("ab") as log:
            self._processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **self._env})
