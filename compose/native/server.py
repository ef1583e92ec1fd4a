"""A real server in a child process: started, waited for, ended in order or at once, and started again on its data."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Self

from compose.local.children import Child, Command
from compose.local.folder import FileLock, translated
from compose.native.installing import end_of
from compose.native.ports import LOOPBACK, ports_from
from shared.errors import NotReady, PortInUse

LOG: Final = "server.log"
LOCK: Final = "in-use"
LEFT_BEHIND_S: Final = 3.0  # the guard of a killed run ends its server within 2 s
LOOK_EVERY_S: Final = 0.05
LET_GO_S: Final = 5.0  # the system takes back a killed server's memory before its ports: 0.1 s for half a gigabyte
ANSWER_S: Final = 2.0


class Server:
    """One server. Its command ends when this process does, however that happens.

    Its folder is held from the start until it has ended. Servers' own locks come too late: a second Kafka has opened, and
    spoilt, the log of the one that runs before it asks for its lock.
    """

    def __init__(
        self, command: Command, ports: Sequence[int], log: Path, healthy: Callable[[], Awaitable[bool]], start_s: float
    ) -> None:
        """``ports``: on which it will listen. ``log``: where all that it writes is appended.

        ``healthy`` says whether it serves, and raises nothing.
        """
        self._command = command
        self._ports = tuple(ports)
        self._log = log
        self._healthy = healthy
        self._start_s = start_s
        self._child: Child | None = None
        self._lock: FileLock | None = None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self._command.name

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._child is not None and not self._child.ended

    async def start(self) -> Self:
        """Start it and wait until it serves.

        Raises FolderInUse, another DataFolderError, PortInUse, or NotReady with the end of its log; nothing is left running.
        """
        assert not self.running, f"{self.name} runs already"
        try:
            await self._claim()
            await self._prepare()
            await self._wait_free()
            with self._log.open("ab") as file:
                self._child = await Child.start(self._command, output=file.fileno(), errors=file.fileno())
            await self._wait_healthy(self._child)
        except BaseException:
            await self.kill()
            raise
        return self

    async def wait(self) -> int:
        """Wait for its end, whoever brings it about, and return the exit code."""
        assert self._child is not None
        return await self._child.wait()

    async def stop(self) -> None:
        """Ask it to end, and see to it after its grace."""
        if self._child is not None:
            await self._child.stop()
        self._let_go()

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._child is not None:
            self._child.kill()
            await self._child.wait()
        self._let_go()

    def memory_mb(self) -> float:
        """Return its resident memory in MB, 0 when it does not run."""
        return self._child.memory_mb() if self._child is not None else 0.0

    async def _prepare(self) -> None:
        """Put what it reads at its start into its folder, which is held."""

    async def _claim(self) -> None:
        """Hold the folder; one that is started again after it ended by itself holds it already."""
        if self._lock is None:
            self._lock = FileLock.take(self._command.folder / LOCK)
            if self._lock.left_behind:
                await asyncio.sleep(LEFT_BEHIND_S)

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def _wait_free(self) -> None:
        """Another server's answers on a port would be taken for this one's; but a killed one needs a moment to let go."""
        deadline = time.monotonic() + LET_GO_S
        while True:
            try:
                for port in self._ports:
                    ports_from(port, 1)
            except PortInUse:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                return

    async def _wait_healthy(self, child: Child) -> None:
        deadline = time.monotonic() + self._start_s
        while not await self._healthy():
            if child.ended:
                raise NotReady(f"{self.name} ended at its start: {end_of(self._log)}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} does not serve after {self._start_s:g} s: {end_of(self._log)}")
            await asyncio.sleep(LOOK_EVERY_S)


async def accepts(port: int) -> bool:
    """Say whether something takes connections there on loopback."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        return True
    return False


async def says(port: int, words: bytes) -> bytes:
    """Send ``words`` there on loopback and return the first line of the answer; nothing where none comes in time."""
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(words)
                return await reader.readline()
            finally:
                writer.close()
    return b""


async def answers_ok(port: int, path: str) -> bool:
    """Say whether ``GET path`` there answers 200."""
    request = f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n"
    return (await says(port, request.encode())).split()[1:2] == [b"200"]


def made(folder: Path) -> Path:
    """Make a server's folder where it is missing, for its owner alone, and return its absolute path.

    Raises DataFolderError.
    """
    folder = folder.absolute()
    with translated(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
