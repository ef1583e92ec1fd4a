"""The local runtime as one process tree: it starts, serves, heals, ends in order, and leaves nothing behind."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0  # starts take 4 s; a machine under load several times that
MAIN = """
import asyncio, sys
from compose.local.supervisor import run_local
from shared.errors import CortexError
from shared.settings import Settings

async def on_ready(url):
    print("ready", url, flush=True)

try:
    asyncio.run(run_local(Settings(), on_ready))
except CortexError as error:
    print("error", type(error).__name__, error, flush=True)
    sys.exit(3)
"""


class Runtime:
    """A started local runtime, seen from outside."""

    def __init__(self, folder: Path, **settings: str) -> None:
        ports = {"HTTP_PORT": "0", "KAFKA_PORT": "0", "CACHE_PORT": "0", "INGEST_PORT": "0"}
        chosen = {"DATA_DIR": str(folder), "EMBEDDER": "hashed", **ports, **settings}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
        env = inherited | {f"CORTEX_{name}": value for name, value in chosen.items()}
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.url = ""
        self.seen: set[psutil.Process] = set()

    def said(self) -> list[str]:
        """The next line it prints, in words; empty at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split(maxsplit=2)

    def wait_ready(self) -> "Runtime":
        said = self.said()
        assert said[:1] == ["ready"], f"{said}\n{self.logs()}"
        self.url = said[1]
        self.look()
        return self

    def wait_ended(self) -> int:
        return self.process.wait(BOUND_S)

    def look(self) -> set[psutil.Process]:
        """Note and return every process below it."""
        below = set(psutil.Process(self.process.pid).children(recursive=True))
        self.seen |= below
        return below

    def child(self, words: str) -> psutil.Process:
        """The one process below whose command line has these words and that is no guard."""
        found = [
            process
            for process in self.look()
            if words in " ".join(process.cmdline()) and "guard.py" not in " ".join(process.cmdline())
        ]
        assert len(found) == 1, found
        return found[0]

    def port(self, name: str) -> int:
        """A port that a child was given."""
        return int(self.child("query_process").environ()[f"CORTEX_{name}"])

    def alive(self) -> list[psutil.Process]:
        return [process for process in self.seen if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3_000:] for path in sorted((self.folder / "log").glob("*.log")))

    def end(self) -> None:
        """Whatever a test left running ends here."""
        if self.process.poll() is None:
            self.look()
            self.process.kill()
        self.process.communicate(timeout=BOUND_S)
        for process in self.alive():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
                process.kill()


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def event(number: int) -> dict[str, object]:
    unit = {
        "id": f"u{number}",
        "text": f"Deploy number {number} of the gateway went to the north region.",
        "type": "context",
        "scope": {"level": "team", "entity_id": "platform"},
    }
    return {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "/tests",
        "tenant": "demo",
        "type": "unit.asserted",
        "data": unit,
    }


def publish(url: str, number: int) -> None:
    answer = httpx.post(
        f"{url}/v1/events",
        content=json.dumps(event(number)),
        headers={"Content-Type": "application/cloudevents+json"},
        timeout=10,
    )
    assert answer.status_code == 202, answer.text


def is_stored(url: str, number: int) -> bool:
    answer = httpx.get(f"{url}/v1/events/e{number}", params={"tenant": "demo"}, timeout=10)
    return answer.status_code == 200 and answer.json()["state"] == "stored"


@contextmanager
def runtime(folder: Path, **settings: str) -> Iterator[Runtime]:
    started = Runtime(folder, **settings)
    try:
        yield started
    finally:
        started.end()


def test_it_serves_heals_each_of_its_parts_and_ends_in_order(tmp_path: Path) -> None:
    with runtime(tmp_path) as cortex:
        cortex.wait_ready()
        publish(cortex.url, 0)
        assert eventually(lambda: is_stored(cortex.url, 0)), cortex.logs()
        for number, broken in enumerate((("valkey", "query_process"), ("tansu",), ("ingest_process",)), start=1):
            killed = {words: cortex.child(words) for words in broken}
            for process in killed.values():
                process.kill()
            for words, process in killed.items():
                assert eventually(partial(has_another, cortex, words, process.pid)), cortex.logs()
            assert eventually(lambda: is_ready(cortex.url)), cortex.logs()
            publish(cortex.url, number)
            assert eventually(partial(is_stored, cortex.url, number)), cortex.logs()
        cortex.look()
        cortex.process.send_signal(signal.SIGINT)
        assert cortex.wait_ended() == 0
        assert cortex.alive() == []
        assert (tmp_path / "lock").read_bytes() == b""
        assert ends(cortex)[-3:] == ["query", "ingest", "cache"]


def has_another(cortex: Runtime, words: str, pid: int) -> bool:
    found = [process for process in cortex.look() if words in " ".join(cmdline(process))]
    return any("guard.py" not in " ".join(cmdline(process)) and process.pid != pid for process in found)


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def ends(cortex: Runtime) -> list[str]:
    """The children that were asked to end, in order."""
    lines = [json.loads(line) for line in (cortex.folder / "log" / "supervisor.log").read_text().splitlines()]
    return [line["child"] for line in lines if line["event"] == "child.stopped"]


def test_killed_with_sigkill_it_leaves_no_process_and_starts_again_with_what_it_had(tmp_path: Path) -> None:
    with runtime(tmp_path) as cortex:
        cortex.wait_ready()
        ports = {name: str(cortex.port(name)) for name in ("HTTP_PORT", "KAFKA_PORT", "CACHE_PORT", "INGEST_PORT")}
        for number in range(20):
            publish(cortex.url, number)
        cortex.look()
        cortex.process.kill()
        with runtime(tmp_path, **ports) as again:  # at once, while the children of the first may still be ending
            again.wait_ready()
            assert eventually(lambda: cortex.alive() == [])
            assert eventually(lambda: all(is_stored(again.url, number) for number in range(20))), again.logs()


def test_a_second_one_on_the_same_folder_or_port_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with runtime(tmp_path / "one") as first:
        first.wait_ready()
        with runtime(tmp_path / "one") as second:
            said = second.said()
            assert said[:2] == ["error", "FolderInUse"], said
            assert str(first.process.pid) in said[2]
            assert second.wait_ended() == 3
        with runtime(tmp_path / "two", KAFKA_PORT=str(first.port("KAFKA_PORT"))) as second:
            said = second.said()
            assert said[:2] == ["error", "PortInUse"], said
            assert "CORTEX_KAFKA_PORT" in said[2]
            assert second.wait_ended() == 3
        assert is_ready(first.url)
        publish(first.url, 1)
        first.process.terminate()
        assert first.wait_ended() == 0
        assert first.alive() == []


def test_a_second_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    with runtime(tmp_path) as cortex:
        cortex.wait_ready()
        for process in cortex.look():
            if "guard.py" not in " ".join(process.cmdline()):
                process.suspend()  # so that nothing ends in order
        cortex.process.send_signal(signal.SIGINT)
        assert eventually(lambda: "runtime.stopping" in cortex.logs())
        cortex.process.send_signal(signal.SIGINT)
        assert cortex.wait_ended() == 0
        assert eventually(lambda: cortex.alive() == [])


@pytest.mark.parametrize("file", ["journal.db", "VERSION"])
def test_what_a_later_release_wrote_is_refused_and_left_as_it_was(tmp_path: Path, file: str) -> None:
    if file == "VERSION":
        (tmp_path / file).write_text('{"schema": 99}')
    else:
        with sqlite3.connect(tmp_path / file) as later:
            later.execute("PRAGMA user_version = 99")
        later.close()
    before = (tmp_path / file).read_bytes()
    with runtime(tmp_path) as cortex:
        said = cortex.said()
        assert said[:2] == ["error", "FolderNewer"], said
        assert "99" in said[2]
        assert cortex.wait_ended() == 3
    assert (tmp_path / file).read_bytes() == before


def test_an_address_beyond_this_machine_without_tokens_is_refused(tmp_path: Path) -> None:
    with runtime(tmp_path, HOST="0.0.0.0") as cortex:
        assert cortex.said()[:2] == ["error", "Forbidden"]
        assert cortex.wait_ended() == 3


def test_a_foreign_broker_is_not_silently_ignored(tmp_path: Path) -> None:
    with runtime(tmp_path, KAFKA_BOOTSTRAP="127.0.0.1:9092") as cortex:
        said = cortex.said()
        assert said[:2] == ["error", "InvalidInput"], said
        assert cortex.wait_ended() == 3
