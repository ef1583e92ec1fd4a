"""An event log in memory: the journal's behaviour without a disk, for tests of what stands on it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from schemas.commands import Command
from schemas.events import Event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark
from shared import jobs_kept
from shared.clock import Clock
from shared.errors import LogUnavailable
from shared.letters import EVERY, KEPT, LetterFilter, buried, listed, marked
from shared.log import EVENTS, Appended, LogRecord
from shared.logs.rows import NewEvent, make_row

PAGE = 500


class MemoryLog:
    """An EventLog that forgets everything with its process. Use it from one event loop."""

    def __init__(self, partitions: int, clock: Clock, log_id: str | None = None) -> None:
        self._log_id = log_id or secrets.token_hex(16)
        self._partitions = partitions
        self._clock = clock
        self._records: list[LogRecord] = []
        self._places: dict[tuple[str, str, str], LogRecord] = {}
        self._letters: dict[str, DeadLetter] = {}
        self._commands: dict[int, Command] = {}
        self._ordered = 0
        self._grown = asyncio.Condition()
        self._closed = False

    @property
    def log_id(self) -> str:
        """Name of this log."""
        return self._log_id

    @property
    def partitions(self) -> int:
        """How many partitions each event topic has."""
        return self._partitions

    async def append(self, events: Sequence[Event], *, topic: str = EVENTS) -> list[Appended]:
        """Keep events and return their places, in order; of the same (tenant, source, id) the first stands."""
        self._check_open()
        earliest = self._records[-1].recorded_at if self._records else datetime.min.replace(tzinfo=UTC)
        recorded_at = max(self._clock.now(), earliest)
        rows = [make_row(event, topic, self._partitions) for event in events]
        places = [self._place(row, recorded_at) for row in rows]
        async with self._grown:
            self._grown.notify_all()
        return places

    async def find(self, tenant: str, event_id: str, source: str | None = None) -> list[LogRecord]:
        """Return the kept events of that id (of several sources, where none is given), oldest first."""
        self._check_open()
        return [
            record
            for record in self._records
            if (record.tenant, record.event_id) == (tenant, event_id) and source in (None, record.source)
        ]

    async def ping(self) -> None:
        """Raise LogUnavailable once it was closed."""
        self._check_open()

    async def at(self, position: Position) -> LogRecord | None:
        """Return the event of a position."""
        rows = await self.read(position.number - 1, 1)
        return next((row for row in rows if row.position == position), None)

    async def read(self, after: int, limit: int) -> list[LogRecord]:
        """Return up to ``limit`` events with a number above ``after``, in order."""
        self._check_open()
        start = max(after, 0)  # numbers count from 1 without gaps: the record of number n has the index n - 1
        return self._records[start : start + limit]

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until an event with a number above ``after`` is kept; False when time is up."""
        self._check_open()
        try:
            async with asyncio.timeout(timeout_s), self._grown:
                await self._grown.wait_for(lambda: len(self._records) > after)
        except TimeoutError:
            return len(self._records) > after
        return True

    async def pending(self, tenant: str, stored: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Count the tenant's events above the given numbers; a partition that is not given counts from its start."""
        self._check_open()
        lags = dict.fromkeys(stored, 0)
        for record in self._records:
            place = (record.position.topic, record.position.partition)
            if record.tenant == tenant:
                lags[place] = lags.get(place, 0) + (record.position.number > stored.get(place, -1))
        return lags

    async def scan(self, tenant: str | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield everything that was kept when it was called."""
        self._check_open()
        for start in range(0, len(self._records), PAGE):
            page = [record for record in self._records[start : start + PAGE] if tenant in (None, record.tenant)]
            if page:
                yield page

    async def order(self, command: Command) -> bool:
        """Keep a command; the same tenant and id again is the same one."""
        self._check_open()
        if any((kept.tenant, kept.id) == (command.tenant, command.id) for kept in self._commands.values()):
            return False
        self._ordered += 1
        self._commands[self._ordered] = command
        return True

    async def orders(self, after: int, limit: int) -> list[tuple[int, Command]]:
        """Return kept commands in order; numbers count from 1."""
        self._check_open()
        return [(number, kept) for number, kept in self._commands.items() if number > after][:limit]

    async def ordered(self, tenant: str, *, command_id: str | None = None, limit: int = 100) -> list[Command]:
        """Return the tenant's kept commands, newest first, or the one of an id."""
        self._check_open()
        newest = reversed(self._commands.values())
        return [kept for kept in newest if kept.tenant == tenant and command_id in (None, kept.id)][:limit]

    async def forget_orders(self, tenant: str, before: int) -> int:
        """Let go of commands that are done, but for the tenant's newest."""
        self._check_open()
        mine = [number for number, kept in self._commands.items() if kept.tenant == tenant]
        gone = [number for number in mine[: max(len(mine) - jobs_kept.KEPT, 0)] if number < before]
        for number in gone:
            del self._commands[number]
        return len(gone)

    async def bury(self, letter: DeadLetter) -> DeadLetter:
        """Keep a dead letter, and let go of those that are too old."""
        self._check_open()
        kept = self._letters[letter.id] = buried(self._letters.get(letter.id), letter)
        for old in [one.id for one in self._letters.values() if one.failed_at < letter.failed_at - KEPT]:
            del self._letters[old]
        return kept

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        self._check_open()
        return self._letters.get(letter_id)

    async def mark_letter(self, letter_id: str, mark: LetterMark) -> bool:
        """Note what was done about a letter."""
        self._check_open()
        known = self._letters.get(letter_id)
        if known is None or (changed := marked(known, mark)) is known:
            return False
        self._letters[letter_id] = changed
        return True

    async def dead_letters(
        self, which: LetterFilter = EVERY, *, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Return dead letters, newest first; an ``after`` that is not there gives none."""
        self._check_open()
        return listed(self._letters, which, limit, after)

    async def close(self) -> None:
        """Refuse everything that comes after."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable("The log is closed.")

    def _place(self, row: NewEvent, recorded_at: datetime) -> Appended:
        identity = (row.tenant, row.source, row.event_id)
        known = self._places.get(identity)
        if known is not None:
            return Appended(known.position, known.recorded_at, duplicate=True)
        position = Position(log=self._log_id, topic=row.topic, partition=row.partition, number=len(self._records) + 1)
        record = LogRecord(position, recorded_at, row.tenant, row.source, row.event_id, row.key, row.body)
        self._records.append(record)
        self._places[identity] = record
        return Appended(position, recorded_at, duplicate=False)
