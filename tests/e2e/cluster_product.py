"""A cluster as its users meet it: Kafka and Redis, two ingest and two query processes, and a client that alternates."""

import itertools
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from compose.native.kafka import KafkaPorts, start_kafka
from compose.native.ports import free_ports
from compose.native.redis import start_redis
from shared.kafka_admin import apply
from shared.topics import wanted_topics
from tests.e2e.product import GONE_S, READY_S, Product, until

PARTITIONS = 4
MEMBERS = 2


class _InTurn(httpx.HTTPTransport):
    """Sends each request to the next of some ports, as a proxy before replicas does."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._next = itertools.cycle(ports)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._next))
        return super().handle_request(request)


class ClusterProduct(Product):
    """What `Product` is locally, on servers of its own."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(folder, free_ports(1)[0], env)
        folder.mkdir(parents=True)
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal("asyncio"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.query_ports = list(free_ports(1, 1))
        self.url = f"http://127.0.0.1:{self.query_ports[0]}"
        self.ingest_ports = list(free_ports(1, 1))

    def start(self, *options: str) -> None:
        assert not options
        self._broker = self._portal.call(start_kafka, self.folder / "kafka", KafkaPorts.free())
        self._redis = self._portal.call(start_redis, self.folder / "redis", free_ports(1)[0])
        self.kafka = self._broker.bootstrap
        self._portal.call(apply, self.kafka, wanted_topics(PARTITIONS))
        self._env |= {
            "CORTEX_KAFKA_BOOTSTRAP": self.kafka,
            "CORTEX_REDIS_URL": self._redis.url,
            "CORTEX_PARTITIONS": str(PARTITIONS),
            "CORTEX_DATA_DIR": str(self.folder / "data"),
            "CORTEX_EMBEDDER": "hashed",
        }
        for number in range(MEMBERS):
            self.start_ingest(number)
            self._run(f"query-{number}", "query", self.query_ports[number])
        self.http = httpx.Client(base_url=self.url, timeout=30, transport=_InTurn(self.query_ports))
        for port in (*self.query_ports, *self.ingest_ports):
            until(lambda port=port: self.ready(port), READY_S, f"{port} is ready")

    def start_ingest(self, number: int) -> None:
        """Start an ingest process, under a name that no process before had."""
        self._run(f"ingest-{number}", "ingest", self.ingest_ports[number])

    def kill_ingest(self, number: int) -> None:
        """Kill an ingest process."""
        process = self._processes[f"ingest-{number}"]
        process.send_signal(signal.SIGKILL)
        process.wait(GONE_S)

    def kill_broker(self) -> None:
        """Kill Kafka."""
        self._portal.call(self._broker.kill)

    def start_broker(self) -> None:
        """Start Kafka again on its data."""
        self._portal.call(self._broker.start)

    def kill_redis(self) -> None:
        """Kill Redis."""
        self._portal.call(self._redis.kill)

    def start_redis(self) -> None:
        """Start Redis again."""
        self._portal.call(self._redis.start)

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
        for name in ("_broker", "_redis"):
            if hasattr(self, name):
                self._portal.call(getattr(self, name).kill)
        self._stack.close()

    def _run(self, name: str, command: str, port: int) -> None:
        words: list[Any] = [sys.executable, "-m", "compose", command, "--port", str(port)]
        with (self.folder.parent / f"{self.folder.name}.err").open("ab") as log:
            self._processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **self._env})
