"""`cortex cluster`: one command, its servers, and nothing of them left when it has ended, however it ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from compose.native.ports import free_ports
from shared.kafka_admin import plan
from shared.topics import wanted_topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0  # beyond any start; fetching Kafka at the first time included


@contextmanager
def cluster(folder: Path, only: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Run the command; yield its process and what it printed, once it serves."""
    command = [
        sys.executable,
        "-m",
        "compose",
        "cluster",
        "--folder",
        str(folder),
        "--only",
        only,
        "--port",
        str(port),
        "--json",
    ]
    process = subprocess.Popen(
        command, cwd=folder.parent, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=10)


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process], limit_s: float = 20.0) -> bool:
    """Wait until none of them runs."""
    _, alive = psutil.wait_procs(processes, limit_s)
    return not alive


def accepts(address: str) -> bool:
    host, _, port = address.removeprefix("redis://").removesuffix("/0").rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_and_it_goes_on_from_its_folder(tmp_path, number):
    for _ in range(2):
        with cluster(tmp_path / "cluster", "redis") as (process, printed):
            assert set(printed) == {"CORTEX_REDIS_URL"}
            assert accepts(printed["CORTEX_REDIS_URL"])
            below = descendants(process)
            assert below
            process.send_signal(number)
            assert process.wait(30) == 0
            assert gone(below)
            assert not accepts(printed["CORTEX_REDIS_URL"])


def test_killed_outright_it_leaves_no_server_and_can_be_started_again(tmp_path):
    with cluster(tmp_path / "cluster", "redis") as (process, _):
        below = descendants(process)
        process.kill()
        assert gone(below)
    with cluster(tmp_path / "cluster", "redis") as (_, printed):
        assert accepts(printed["CORTEX_REDIS_URL"])


def test_killed_outright_it_waits_for_the_ports_of_what_is_left_of_it(tmp_path):
    (first,) = free_ports(9)
    with cluster(tmp_path / "cluster", "redis", first) as (process, _):
        below = descendants(process)
        process.kill()
        assert gone(below)
    slow = socket.socket()  # stands for the killed one's server, which takes a moment to end
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    slow.bind(("127.0.0.1", first + 2))
    slow.listen()
    letting_go = threading.Timer(2.0, slow.close)
    letting_go.start()
    try:
        with cluster(tmp_path / "cluster", "redis", first) as (_, printed):
            assert accepts(printed["CORTEX_REDIS_URL"])
    finally:
        letting_go.join()


def test_a_second_one_on_the_same_folder_is_refused(tmp_path):
    with cluster(tmp_path / "cluster", "redis"):
        second = [sys.executable, "-m", "compose", "cluster", "--folder", str(tmp_path / "cluster"), "--port", "0"]
        done = subprocess.run(second, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "is in use by another Cortex" in done.stderr


@pytest.mark.cluster
def test_all_three_serve_and_a_server_that_ends_by_itself_ends_the_others(tmp_path):
    began = time.monotonic()
    with cluster(tmp_path / "cluster", "kafka,weaviate,redis") as (process, printed):
        assert time.monotonic() - began < LIMIT_S
        assert printed["CORTEX_STORE"] == "weaviate"
        for name in ("CORTEX_KAFKA_BOOTSTRAP", "CORTEX_WEAVIATE_GRPC", "CORTEX_REDIS_URL"):
            assert accepts(printed[name])
        below = descendants(process)
        (weaviate,) = [one for one in below if Path(one.cmdline()[0]).name == "weaviate-server"]
        weaviate.kill()
        assert process.wait(60) == 1
        assert gone(below)


@pytest.mark.anyio
@pytest.mark.cluster
async def test_kafka_has_its_topics_when_it_is_said_to_serve(tmp_path):
    with cluster(tmp_path / "cluster", "kafka") as (_, printed):
        table = wanted_topics(int(printed["CORTEX_PARTITIONS"]))
        assert await plan(printed["CORTEX_KAFKA_BOOTSTRAP"], table) == []
