"""The query processes of a run: started, killed, and started again at their addresses."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import httpx

from compose.local.children import Child, Command
from compose.native.ports import free_ports

READY_S = 90.0  # to start and read the graph, on a machine with other things to do
PAUSE_S = 0.2
ANSWER_S = 10.0


class Replica:
    """One of them. ``excused``: it was killed and has not been seen ready since, so that it need not answer."""

    def __init__(self, name: str, port: int, child: Child) -> None:
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.child = child
        self.excused = True

    async def ready(self, http: httpx.AsyncClient) -> bool:
        """Ask whether it takes questions."""
        try:
            response = await http.get(f"{self.url}/readyz", timeout=ANSWER_S)
        except httpx.TransportError:
            return False
        return response.status_code == HTTPStatus.OK


class Replicas:
    """All of them. ``command``: how to run one on a port."""

    def __init__(self, command: Callable[[int], Command], logs: Path) -> None:
        self._command = command
        self._logs = logs
        self.all: list[Replica] = []

    async def start(self, count: int) -> None:
        """Start so many and wait until each is ready."""
        for number, port in enumerate(free_ports(*[1] * count)):
            name = f"query-{number}"
            self.all.append(Replica(name, port, await self._child(name, port)))
        await self.await_ready()

    async def await_ready(self) -> None:
        """Wait until each takes questions. Raises TimeoutError."""
        async with asyncio.timeout(READY_S), httpx.AsyncClient(trust_env=False) as http:
            for one in self.all:
                while not await one.ready(http):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(PAUSE_S)
                one.excused = False

    async def strike(self, whom: float) -> None:
        """Kill one (``whom`` in [0, 1) chooses) and start another in its place."""
        one = self.all[int(whom * len(self.all))]
        one.excused = True
        one.child.kill()
        await one.child.wait()
        one.child = await self._child(one.name, one.port)

    async def kill(self) -> None:
        """End all at once."""
        for one in self.all:
            one.child.kill()
        await asyncio.gather(*(one.child.wait() for one in self.all))

    async def _child(self, name: str, port: int) -> Child:
        with (self._logs / f"{name}.log").open("ab") as log:
            return await Child.start(self._command(port), output=log.fileno(), errors=log.fileno())
