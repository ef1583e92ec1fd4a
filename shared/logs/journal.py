"""The journal: the event log of the local set-up, one SQLite file that several processes may write."""

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Self, TypeVar

from schemas.commands import Command
from schemas.events import Event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark
from shared.clock import Clock
from shared.errors import LogUnavailable, Overloaded
from shared.letters import EVERY, LetterFilter
from shared.log import EVENTS, Appended, LogRecord
from shared.logs.journal_file import JournalFile
from shared.logs.rows import NewEvent, make_row

Value = TypeVar("Value")

WAITING_BYTES: Final = 64 * 1024 * 1024  # sixteen POSTs of the largest size; beyond it callers are told to come again
COMMIT_BYTES: Final = 8 * 1024 * 1024  # a commit's share: keeps the file's lock, and so other readers' wait, short
BEYOND: Final = 2**62  # after the last number: reading there touches the file and gives nothing
SCAN_PAGE: Final = 500  # some hundred kB in hand
POLL_S: Final = 0.02  # how soon another process's commit is noticed
# The file's time of change counts in ticks of up to 10 ms: only once it is older than this does "the same time" mean "no
# commit since". Then a look is one stat (2 µs) in place of a query in the reader's thread (0.5 CPU-ms).
SETTLED_NS: Final = 100_000_000
CLOSE_S: Final = 10.0  # the commit in hand may have to wait for another process (BUSY_MS) before it can end


@dataclass(frozen=True)
class _Request:
    """A caller's events and where it waits for their places."""

    events: tuple[NewEvent, ...]
    size: int
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[list[Appended]]"


class Journal:
    """An EventLog on one file. Appends that arrive while a commit runs share the next one; each waits for its own."""

    def __init__(self, path: Path, partitions: int, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._writing = JournalFile.open(path, partitions)
        try:
            self._reading = JournalFile.open(path, partitions)
        except BaseException:
            self._writing.close()
            raise
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="journal-writer", daemon=True)
        self._writer.start()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal-reader")

    @classmethod
    def open(cls, path: Path, partitions: int, clock: Clock) -> Self:
        """Open or make the journal; a file that exists keeps its own number of partitions (see the property).

        Raises FolderNewer, FolderReadOnly, DiskFull, DataFolderError (not a journal) or LogUnavailable.
        """
        return cls(path, partitions, clock)

    @property
    def log_id(self) -> str:
        """Name of this log: made with the file and kept in it."""
        return self._writing.log_id

    @property
    def partitions(self) -> int:
        """How many partitions each event topic has; fixed when the file was made."""
        return self._writing.partitions

    async def append(self, events: Sequence[Event], *, topic: str = EVENTS) -> list[Appended]:
        """Keep events durably and return their places, in order.

        Of the same (tenant, source, id) the first stands, whatever the later one says. Raises InvalidInput, Overloaded,
        DiskFull, FolderReadOnly or LogUnavailable: then none of these events is kept. Cancelling does not take them back.
        """
        if not events:
            return []
        rows = tuple(make_row(event, topic, self.partitions) for event in events)
        loop = asyncio.get_running_loop()
        request = _Request(rows, sum(len(row.body) for row in rows), loop, loop.create_future())
        self._enqueue(request)
        return await request.answer

    async def find(self, tenant: str, event_id: str, source: str | None = None) -> list[LogRecord]:
        """Return the kept events of that id (of several sources, where none is given), oldest first."""
        return await self._read(lambda: self._reading.find(tenant, event_id, source))

    async def ping(self) -> None:
        """Raise LogUnavailable when the file cannot be read."""
        await self.read(BEYOND, 1)

    async def at(self, position: Position) -> LogRecord | None:
        """Return the event of a position."""
        rows = await self.read(position.number - 1, 1)
        return next((row for row in rows if row.position == position), None)

    async def read(self, after: int, limit: int) -> list[LogRecord]:
        """Return up to ``limit`` events of all topics and partitions with a number above ``after``, in order."""
        return await self._read(lambda: self._reading.read(after, limit))

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until an event with a number above ``after`` is kept, by whatever process; False when time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        quiet_since: int | None = None
        while True:
            changed_at = self._changed_at()
            if changed_at != quiet_since:
                if await self._read(self._reading.newest) > after:
                    return True
                quiet_since = changed_at if time.time_ns() - changed_at > SETTLED_NS else None
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(POLL_S, left))

    async def pending(self, tenant: str, stored: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Count the tenant's events above the given numbers; a partition that is not given counts from its start."""
        return await self._read(lambda: self._reading.pending(tenant, stored))

    async def scan(self, tenant: str | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield everything that was kept when it was called, in order, page by page."""
        newest, after = await self._read(self._reading.newest), 0
        while after < newest:
            rows = await self.read(after, SCAN_PAGE)
            after = rows[-1].position.number
            page = [row for row in rows if row.position.number <= newest and tenant in (None, row.tenant)]
            if page:
                yield page

    async def order(self, command: Command) -> bool:
        """Keep a command durably; the same tenant and id again is the same one."""
        return await self._read(lambda: self._reading.order(command, self._now()))

    async def orders(self, after: int, limit: int) -> list[tuple[int, Command]]:
        """Return kept commands with a number above ``after``, in order."""
        return await self._read(lambda: self._reading.orders(after, limit))

    async def ordered(self, tenant: str, *, command_id: str | None = None, limit: int = 100) -> list[Command]:
        """Return the tenant's kept commands, newest first, or the one of an id."""
        return await self._read(lambda: self._reading.ordered(tenant, command_id, limit))

    async def forget_orders(self, tenant: str, before: int) -> int:
        """Let go of commands that are done, but for the tenant's newest."""
        return await self._read(lambda: self._reading.forget_orders(tenant, before))

    async def bury(self, letter: DeadLetter) -> DeadLetter:
        """Keep a dead letter durably, and let go of some that are too old."""
        return await self._read(lambda: self._reading.bury(letter))

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        return await self._read(lambda: self._reading.dead_letter(letter_id))

    async def mark_letter(self, letter_id: str, mark: LetterMark) -> bool:
        """Note durably what was done about a letter."""
        return await self._read(lambda: self._reading.mark_letter(letter_id, mark))

    async def dead_letters(
        self, which: LetterFilter = EVERY, *, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Return dead letters, newest first; an ``after`` that is not there gives none."""
        return await self._read(lambda: self._reading.dead_letters(which, limit, after))

    async def close(self) -> None:
        """Commit what is waiting, then close the file. What comes after raises LogUnavailable."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._requests.put(None)
        await asyncio.to_thread(self._writer.join, CLOSE_S)
        await asyncio.to_thread(self._reader.shutdown)
        self._reading.close()

    def _changed_at(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except OSError as error:
            raise LogUnavailable(f"The journal's file is gone: {error.strerror}.") from error

    def _enqueue(self, request: _Request) -> None:
        with self._lock:
            if self._closed:
                raise LogUnavailable("The journal is closed.")
            # one request is always taken: its own size is bounded at the door
            if self._waiting and self._waiting + request.size > WAITING_BYTES:
                raise Overloaded("Too many events wait for the disk; send these again shortly.")
            self._waiting += request.size
            self._requests.put(request)

    async def _read(self, work: Callable[[], Value]) -> Value:
        if self._closed:
            raise LogUnavailable("The journal is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def _write(self) -> None:
        """Commit what waits, a group at a time, until the end is asked for: the writer's thread."""
        open_ended = True
        while open_ended:
            first = self._requests.get()
            if first is None:
                break
            group, open_ended = self._group(first)
            try:
                places = self._writing.append([request.events for request in group], self._now())
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers, each of whom waits
                for request in group:
                    self._answer(request, error)
            else:
                for request, answer in zip(group, places, strict=True):
                    self._answer(request, answer)
        self._writing.close()

    def _group(self, first: _Request) -> tuple[list[_Request], bool]:
        """Take what else waits, up to a commit's share; the second value is False when the end was asked for."""
        group, size = [first], first.size
        while size < COMMIT_BYTES:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                break
            if request is None:
                return group, False
            group.append(request)
            size += request.size
        return group, True

    def _now(self) -> datetime:
        return self._clock.now()

    def _answer(self, request: _Request, answer: "list[Appended] | Exception") -> None:
        with self._lock:
            self._waiting -= request.size
        try:
            request.loop.call_soon_threadsafe(_settle, request.answer, answer)
        except RuntimeError:  # the caller's loop is closed: nobody waits any more
            return


def _settle(future: "asyncio.Future[list[Appended]]", answer: "list[Appended] | Exception") -> None:
    if future.done():  # the caller was cancelled meanwhile
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
