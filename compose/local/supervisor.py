"""The local runtime: one process that starts, watches and ends all others, in order."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import SecretStr

from compose.local.children import LOOPBACK, Command, cache_command
from compose.local.folder import DataFolder
from compose.local.keeper import Keeper
from compose.local.log_files import configure_logging
from compose.local.ports import distinct_ports
from compose.local.readiness import ready
from compose.local.signals import stop_signals
from shared.errors import InvalidInput
from shared.settings import Settings

ROOT: Final = Path(__file__).parents[2]
LEFT_BEHIND_S: Final = 15.0  # the guards of a killed runtime end its children within 2 s; a slow machine may need more
QUERY_GRACE_S: Final = 12.0  # above query_process.FAREWELL_S
INGEST_MARGIN_S: Final = 8.0  # beyond the drain: leaving the groups, ending the broker, closing the files
# Numeric libraries would start a thread a core for sums of 384 numbers; must be set before NumPy is loaded.
SINGLE_THREADED: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_log = structlog.get_logger(__name__)

OnReady = Callable[[str], Awaitable[None]]
OnProgress = Callable[[str], None]


async def run_local(settings: Settings, on_ready: OnReady, *, on_progress: OnProgress = lambda _: None) -> None:
    """Run Cortex on this machine until SIGINT, SIGTERM or SIGHUP (a second one ends the children at once).

    ``on_ready`` is awaited with the address once questions and events are taken; an error of it ends everything.
    ``on_progress`` hears what has been reached. Raises FolderInUse, FolderReadOnly, FolderNewer, DiskFull, PortInUse,
    another DataFolderError, InvalidInput, a child's own typed error, or NotReady; nothing is left running then.
    """
    if settings.kafka_bootstrap is not None:
        raise InvalidInput("CORTEX_KAFKA_BOOTSTRAP is set, but the local runtime brings its own broker: unset it.")
    folder = await asyncio.to_thread(DataFolder.claim, settings.data_dir)
    try:
        configure_logging("supervisor", folder.logs)
        settings = await asyncio.to_thread(_settle, settings, folder)
        on_progress(f"data folder {folder.path}")
        await _Runtime(settings, folder, on_progress).run(on_ready)
    finally:
        folder.close()


def address(settings: Settings) -> str:
    """Return where the service is reached from this machine."""
    host = _reachable(settings.host)
    return f"http://[{host}]:{settings.http_port}" if ":" in host else f"http://{host}:{settings.http_port}"


def _reachable(host: str) -> str:
    return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104 - recognised here, not bound


def _settle(settings: Settings, folder: DataFolder) -> Settings:
    """Find every port free, before anything is started; fill in those left open; children run in another folder."""
    wait_s = LEFT_BEHIND_S if folder.left_behind else 0.0
    wanted = {"http_port": (settings.host, settings.http_port), "kafka_port": (LOOPBACK, settings.kafka_port)}
    if settings.redis_url is None:
        wanted["cache_port"] = (LOOPBACK, settings.cache_port)
    wanted["ingest_port"] = (LOOPBACK, settings.ingest_port)
    ports = distinct_ports(wanted, wait_s)
    paths = {name: value.absolute() for name, value in settings if isinstance(value, Path)}
    return settings.model_copy(update={**paths, "data_dir": folder.path, **ports})


class _Runtime:
    """The children of one run, in the order in which they are started; they end in the reverse order."""

    def __init__(self, settings: Settings, folder: DataFolder, on_progress: OnProgress) -> None:
        self._settings = settings
        ingest = _python("ingest", settings, folder, settings.drain_s + INGEST_MARGIN_S)
        query = _python("query", settings, folder, QUERY_GRACE_S)
        cache = [] if settings.redis_url is not None else [cache_command(settings.cache_port, folder.run)]
        self._keepers = [Keeper(command, on_progress) for command in (*cache, ingest, query)]

    async def run(self, on_ready: OnReady) -> None:
        """Run until a signal or a failure; whatever happens, the children have ended when this returns."""
        with stop_signals(again=self._kill) as stop:
            tasks = [asyncio.create_task(keeper.run(), name=keeper.name) for keeper in self._keepers]
            greeting = asyncio.create_task(self._greet(on_ready), name="greeting")
            stopping = asyncio.create_task(_wait(stop), name="stopping")
            try:
                await _until(stopping, greeting, tasks)
            finally:
                greeting.cancel()
                stopping.cancel()
                await self._end()
                await asyncio.gather(greeting, stopping, *tasks, return_exceptions=True)

    async def _greet(self, on_ready: OnReady) -> None:
        await ready(_reachable(self._settings.host), self._settings.http_port)
        _log.info("runtime.ready", url=address(self._settings))
        await on_ready(address(self._settings))

    async def _end(self) -> None:
        """End the children: questions first, so that streams say so; then ingest, which finishes what it has in hand."""
        _log.info("runtime.stopping")
        for keeper in reversed(self._keepers):
            await keeper.stop()
        _log.info("runtime.ended")

    def _kill(self) -> None:
        for keeper in self._keepers:
            keeper.kill()


async def _until(
    stopping: "asyncio.Task[None]", greeting: "asyncio.Task[None]", keepers: "list[asyncio.Task[None]]"
) -> None:
    """Wait until asked to stop; raises what the greeting or a keeper raises. The greeting alone may end before."""
    waiting = {stopping, greeting, *keepers}
    while not stopping.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


def _python(name: str, settings: Settings, folder: DataFolder, grace_s: float) -> Command:
    """Return how to run one of our own processes: in the runtime's folder, with the settings in its environment."""
    arguments = (sys.executable, "-m", f"compose.local.{name}_process")
    return Command(name, arguments, folder.run, _environment(settings), grace_s)


def _environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment with these settings and no others, and our packages to be found."""
    env = {name: value for name, value in os.environ.items() if not name.upper().startswith("CORTEX_")}
    path = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    env |= {"PYTHONPATH": os.pathsep.join(path), **dict.fromkeys(SINGLE_THREADED, "1")}
    values: dict[str, Any] = settings.model_dump(exclude_none=True)
    return env | {f"CORTEX_{name.upper()}": _written(value) for name, value in values.items()}


def _written(value: Any) -> str:
    """Write a value as its variable is read: a secret in the open, several things as JSON."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value, default=_written) if isinstance(value, tuple | list | dict) else str(value)
