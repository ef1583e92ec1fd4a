"""Keeps one child process running: started again when it ends by itself, told when that is hopeless."""

import asyncio
import time
from collections.abc import Callable

import structlog

from compose.local.children import Child, Command
from compose.local.notices import EXIT_HOPELESS, Notice, read_notice
from compose.local.restarts import Restarts
from shared.errors import CortexError, NotReady

_log = structlog.get_logger(__name__)


class Keeper:
    """The owner of one child. `run` keeps it alive until `stop`, which waits for its end."""

    def __init__(self, command: Command, on_stage: Callable[[str], None]) -> None:
        self.name = command.name
        self._command = command
        self._on_stage = on_stage
        self._child: Child | None = None
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Run the child, again and again; returns after `stop`.

        Raises the child's own typed error when it says that there is no hope, NotReady when it ends too often.
        """
        restarts = Restarts(time.monotonic)
        while not self._stopping.is_set():
            code, last = await self._run_once()
            if self._stopping.is_set():
                return
            _log.error("child.ended", child=self.name, code=code, told=None if last is None else str(last))
            if code == EXIT_HOPELESS and last is not None:
                raise last
            wait_s = restarts.wait_after_end()
            if wait_s is None:
                raise NotReady(f"The {self.name} process ended too often within a minute (last code {code}).") from last
            await self._pause(wait_s)

    async def stop(self) -> None:
        """End the child, if it runs, and do not start it again."""
        self._stopping.set()
        if self._child is not None:
            code = await self._child.stop()
            _log.info("child.stopped", child=self.name, code=code)

    def kill(self) -> None:
        """End the child at once and do not start it again."""
        self._stopping.set()
        if self._child is not None:
            self._child.kill()

    async def _run_once(self) -> tuple[int, CortexError | None]:
        self._child = await Child.start(self._command, output=asyncio.subprocess.PIPE)
        if self._stopping.is_set():  # asked while it was being started
            await self._child.stop()
        _log.info("child.started", child=self.name, guard=self._child.guard_pid)
        listening = asyncio.create_task(self._listen(self._child))
        try:
            code = await self._child.wait()
            return code, await listening
        finally:
            listening.cancel()

    async def _listen(self, child: Child) -> CortexError | None:
        """Hear what the child tells until it ends; return the last error it told of."""
        told: CortexError | None = None
        while True:
            try:
                line = await child.output.readline()
            except ValueError:  # longer than the reader's limit: certainly no notice
                continue
            if not line:
                return told
            notice = read_notice(line)
            if notice is not None and notice.error is not None:
                told = notice.as_error()
            elif notice is not None and notice.stage is not None:
                self._hear(notice)

    def _hear(self, notice: Notice) -> None:
        _log.info("child.reached", child=self.name, stage=notice.stage)
        self._on_stage(notice.stage or "")

    async def _pause(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._stopping.wait()
        except TimeoutError:
            return
