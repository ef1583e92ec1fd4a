"""The consumers of a run: processes that are started, killed, frozen and ended."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import psutil

from compose.local.children import Child, Command

END_S = 40.0  # an orderly end: drain, leave the groups, close the files; on a machine that is busy


class Member:
    """One process behind its guard, so that it ends with this one, however that happens."""

    def __init__(self, name: str, child: Child, *, leads: bool) -> None:
        self.name = name
        self.leads = leads
        self.frozen = False
        self.doomed = False  # its end is ours
        self._child = child

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self._child.ended

    async def kill(self) -> None:
        """End it as a crash would."""
        self.doomed = True
        self._child.kill()
        await self._child.wait()

    async def terminate(self) -> int:
        """Ask it to end; return its exit code."""
        self.doomed = True
        self.thaw()
        return await self._child.stop()

    def freeze(self) -> None:
        """Let it stand still, without its knowing."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self.frozen:
            self._signal(signal.SIGCONT)
        self.frozen = False

    async def wait(self) -> int:
        """Wait for its end."""
        return await self._child.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._child.guard_pid).children():
                process.send_signal(number)


class Members:
    """All that have been started. One that ends by itself is noted in ``crashed``."""

    def __init__(self, command: Callable[[bool], Command], logs: Path) -> None:
        """``command`` of a member: True is asked for the one that leads."""
        self._command = command
        self._logs = logs
        self._all: list[Member] = []
        self._watching: set[asyncio.Task[None]] = set()
        self._number = 0
        self.crashed: list[str] = []
        self.codes: list[int] = []

    @property
    def alive(self) -> list[Member]:
        """Those that run and have not been asked to end, oldest first."""
        return [member for member in self._all if member.alive and not member.doomed]

    @property
    def awake(self) -> list[Member]:
        """Those of them that are not frozen."""
        return [member for member in self.alive if not member.frozen]

    async def start(self, *, leads: bool = False) -> Member:
        """Start another one."""
        self._number += 1
        name = f"member-{self._number}"
        with (self._logs / f"{name}.log").open("ab") as log:
            child = await Child.start(self._command(leads), output=log.fileno(), errors=log.fileno())
        member = Member(name, child, leads=leads)
        self._all.append(member)
        watching = asyncio.create_task(self._watch(member), name=name)
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return member

    async def terminate(self, member: Member) -> None:
        """Ask one to end, and keep its exit code."""
        async with asyncio.timeout(END_S):
            self.codes.append(await member.terminate())

    async def end(self) -> None:
        """Ask all to end."""
        await asyncio.gather(*(self.terminate(member) for member in self.alive))

    async def kill(self) -> None:
        """End all at once."""
        await asyncio.gather(*(member.kill() for member in self._all if member.alive))
        for task in list(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def _watch(self, member: Member) -> None:
        code = await member.wait()
        if not member.doomed:
            self.crashed.append(f"{member.name} ended by itself with {code}")
