"""A running Cortex as its users meet it: one command, one process tree, an address."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

READY_S = 90.0
GONE_S = 10.0
SEARCHABLE_S = 60.0
SETTLED = ("stored", "superseded", "retracted", "stale")


def free_ports() -> int:
    """Return the first of five neighbouring free ports."""
    # tests that run side by side look in ranges of their own: what one has let go for a moment is not another's
    side = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + side % 4 * 3_000
    for base in range(first + os.getpid() % 1_000, first + 3_000, 7):
        try:
            for port in range(base, base + 5):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


def until(check: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Return the first true value of ``check``, or fail naming what did not happen in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


class Product:
    """One ``cortex up`` on a data folder."""

    replicas = 1
    """Query processes that answer in turn."""

    def __init__(self, folder: Path, port: int | None = None, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = port or free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self.kafka = f"127.0.0.1:{self.port + 1}"
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[str] | None = None
        self._tree: list[psutil.Process] = []

    def start(self, *options: str) -> None:
        """Start and wait until it says where it serves."""
        command = [
            sys.executable,
            "-m",
            "compose",
            "up",
            "--json",
            "--data-dir",
            str(self.folder),
            "--port",
            str(self.port),
        ]
        log = (self.folder.parent / f"{self.folder.name}.err").open("ab")
        self._process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=log, text=True, env=self._env
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        line = until(self._first_line, READY_S, "cortex up says where it serves")
        assert json.loads(line)["url"] == self.url
        self._tree = psutil.Process(self._process.pid).children(recursive=True)
        assert self._tree, "a process tree was started"

    def kill(self) -> None:
        """End the parent with SIGKILL, and wait until every child is gone too."""
        assert self._process is not None
        tree = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(GONE_S)
        self._expect_gone(tree)

    def stop(self) -> int:
        """End it as Ctrl-C does; return the exit code."""
        assert self._process is not None
        tree = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(30)
        self._expect_gone(tree)
        return code

    def close(self) -> None:
        """End what still runs."""
        self.http.close()
        if self._process and self._process.poll() is None:
            self.kill()
        if self._process and self._process.stdout:
            self._process.stdout.close()

    def tree(self) -> list[psutil.Process]:
        """Return every process that belongs to it."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def rss_mb(self) -> float:
        """Return the resident memory of the whole tree in MB."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        return sum(process.memory_info().rss for process in [parent, *parent.children(recursive=True)]) / 1e6

    def another(self) -> httpx.Client:
        """Open a connection of one's own, for a thread of one's own."""
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def publish(self, *events: dict[str, Any]) -> list[dict[str, Any]]:
        """Publish and return what was accepted."""
        response = self.http.post("/v1/events", json=list(events))
        assert response.status_code == 202, response.text
        return list(response.json()["accepted"])

    def status(self, event_id: str, source: str | None = None) -> dict[str, Any] | None:
        """Return an event's status, or None while it is unknown."""
        response = self.http.get(f"/v1/events/{event_id}", params={"source": source} if source else {})
        return dict(response.json()) if response.status_code == 200 else None

    def wait_stored(self, accepted: list[dict[str, Any]]) -> None:
        """Wait until every accepted event is in the store, whatever has become of it since."""
        for event in accepted:
            until(
                lambda event=event: (self.status(event["id"], event["source"]) or {}).get("state") in SETTLED,
                SEARCHABLE_S,
                f"{event['id']} is stored",
            )

    def ask(self, question: str, **options: Any) -> dict[str, Any]:
        """Ask for JSON."""
        response = self.http.post("/v1/context", json={"q": question, **options})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.poll()
        assert code is None, f"cortex up ended with {code}: {self.log()[-2000:]}"
        return self._process.stdout.readline()

    def log(self) -> str:
        """Return what it wrote to standard error."""
        return (self.folder.parent / f"{self.folder.name}.err").read_text(errors="replace")

    def _expect_gone(self, tree: list[psutil.Process]) -> None:
        _, alive = psutil.wait_procs(tree, timeout=GONE_S)
        assert not alive, f"still running: {[process.cmdline() for process in alive]}"


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Product]:
    """Run a Cortex on a folder and end it, whatever happens."""
    product = Product(folder)
    try:
        product.start(*options)
        yield product
    finally:
        product.close()


def unit(
    unit_id: str, text: str, *, tenant: str = "demo", scope: str = "team/team-core", **fields: Any
) -> dict[str, Any]:
    """Build an assertion."""
    level, _, entity_id = scope.partition("/")
    event_id = fields.pop("event_id", f"{unit_id}-{fields.get('revision', 0)}")
    source = fields.pop("source", "urn:test")
    data = {"id": unit_id, "text": text, "type": "context", "scope": {"level": level, "entity_id": entity_id}, **fields}
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "tenant": tenant,
        "type": "unit.asserted",
        "data": data,
    }
