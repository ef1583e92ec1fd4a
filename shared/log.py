"""The event log: where accepted events are kept, in order, for good."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.commands import Command
from schemas.events import Event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark
from shared.letters import EVERY, LetterFilter

EVENTS = "cortex.events"
BULK = "cortex.bulk"
LOG_TOPICS = (EVENTS, BULK)


@dataclass(frozen=True)
class Appended:
    """An event's place. ``duplicate``: the same (tenant, source, id) was there before; the first position stands."""

    position: Position
    recorded_at: datetime
    duplicate: bool


@dataclass(frozen=True)
class LogRecord:
    """One kept event: ``body`` is its structured CloudEvent JSON. ``revision``: as in `StageMessage`.

    ``moved_from``: where it stood before it was sent on to the partition of its key; there it is not handled.
    """

    position: Position
    recorded_at: datetime
    tenant: str
    source: str
    event_id: str
    key: str
    body: bytes
    revision: int | None = None
    moved_from: Position | None = None


class EventLog(Protocol):
    """Append-only. Numbers rise with the order of acceptance within a partition of a topic.

    Of one (tenant, source, id) the journal keeps the first event and no other. Kafka may hold redeliveries, which the store
    tells by their content: the same id with other content is another event there.
    """

    @property
    def log_id(self) -> str:
        """Name of this log, part of every position."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions each event topic has; fixed when the log is made."""
        ...

    async def append(self, events: Sequence[Event], *, topic: str = EVENTS) -> list[Appended]:
        """Keep events durably and return their places, in order.

        When this returns they survive a crash of the process and of the machine. Raises LogUnavailable or DiskFull: then
        none is in the journal, but on Kafka any may be. The same batch can always be sent again.
        """
        ...

    async def ping(self) -> None:
        """Raise LogUnavailable when the log cannot be reached, within 2 s."""
        ...

    async def at(self, position: Position) -> LogRecord | None:
        """Return the event of a position, None where it is not kept (any more). Raises LogUnavailable."""
        ...

    async def find(self, tenant: str, event_id: str, source: str | None = None) -> list[LogRecord]:
        """Return the kept events of that id (of several sources, where none is given), oldest first."""
        ...

    async def pending(self, tenant: str, stored: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Count the tenant's events above the given numbers, per (topic, partition): the lag of those watermarks."""
        ...

    def scan(self, tenant: str | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield everything that was kept when it was called, in order per topic and partition, page by page."""
        ...

    async def order(self, command: Command) -> bool:
        """Keep a command durably for ingest; False: the same tenant and id was there before, and nothing was added.

        Raises LogUnavailable or DiskFull.
        """
        ...

    async def ordered(self, tenant: str, *, command_id: str | None = None, limit: int = 100) -> list[Command]:
        """Return the tenant's kept commands, newest first, or the one of an id. Raises LogUnavailable."""
        ...

    async def bury(self, letter: DeadLetter) -> DeadLetter:
        """Keep a dead letter durably and return what is kept of it now: where its id is known, `shared.letters.buried`.

        Letters older than `shared.letters.KEPT` are let go, some at a time.
        """
        ...

    async def dead_letters(
        self, which: LetterFilter = EVERY, *, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Return dead letters, newest failure first; ``after`` is the id of the last one seen."""
        ...

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        ...

    async def mark_letter(self, letter_id: str, mark: LetterMark) -> bool:
        """Note durably what was done about a letter, by the rule `shared.letters.marked`.

        False: it changed nothing, or there is no such letter.
        """
        ...

    async def close(self) -> None:
        """Close files or connections."""
        ...


class JournalLog(EventLog, Protocol):
    """A log with one order over all topics and partitions, from which a pump publishes."""

    async def read(self, after: int, limit: int) -> list[LogRecord]:
        """Return up to ``limit`` events of all topics and partitions with a number above ``after``, in order."""
        ...

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until an event with a number above ``after`` is kept, by this or another process, at most ``timeout_s``.

        Returns whether there is one (False: time is up); notices it within about 20 ms.
        """
        ...

    async def orders(self, after: int, limit: int) -> list[tuple[int, Command]]:
        """Return kept commands with a number above ``after``, in order."""
        ...

    async def forget_orders(self, tenant: str, before: int) -> int:
        """Let go of the tenant's commands with a number below ``before``, all of which are done, but for those among its
        newest `shared.jobs_kept.KEPT`. Returns how many went; their numbers are never given again.
        """
        ...
