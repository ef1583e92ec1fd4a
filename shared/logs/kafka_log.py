"""Kafka as the event log: what a broker's quorum has acknowledged is kept, and its offset is the position."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Self

import structlog

from schemas.commands import Command
from schemas.events import Event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark
from shared.clock import Clock
from shared.errors import Transient
from shared.kafka import Outgoing, Publisher
from shared.kafka_admin import cluster_id
from shared.kafka_reading import Kept, PartitionReader
from shared.letter_records import letter_of, mark_record
from shared.letters import EVERY, LetterFilter, buried, marked
from shared.log import EVENTS, LOG_TOPICS, Appended, LogRecord
from shared.logs.kafka_order import TimeOrder
from shared.logs.kafka_records import as_log_record, recorded_at
from shared.logs.kafka_shelves import CommandShelf, LetterShelf
from shared.logs.kafka_tail import Tail
from shared.logs.rows import make_row
from shared.partitioner import partition_of
from shared.store import KnowledgeReader
from shared.topics import COMMANDS, DEAD_LETTERS, topic_name

PING_S = 2.0
PAGE = 500
POLL_S = 0.25
IN_HAND = 512  # of one partition, twice what the store stage may have in hand: below that everything is surely stored
TAIL_FIRST = 100_000  # how far back the tail begins at most; a longer backlog is counted by its offsets
BACKOFF_S = (0.1, 5.0)

_log = structlog.get_logger(__name__)


class KafkaLog:
    """An EventLog on a durable Kafka.

    Without `follow` running it can append, fetch and scan; `find`, `pending` and `dead_letters` then know what the store
    knows and nothing newer. ``reader``: where the ledger of handled events is.
    """

    def __init__(  # noqa: PLR0917 - what `open` has found
        self, bootstrap: str, prefix: str, partitions: int, log_id: str, publisher: Publisher, clock: Clock
    ) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._partitions = partitions
        self._log_id = log_id
        self._publisher = publisher
        self._clock = clock
        self._ledger: KnowledgeReader | None = None
        self._tail = Tail()
        self._letters = LetterShelf()
        self._commands = CommandShelf()
        self._caught_up = asyncio.Event()
        self._fetching = asyncio.Lock()
        self._fetcher: PartitionReader | None = None

    @classmethod
    async def open(
        cls,
        bootstrap: str,
        clock: Clock,
        *,
        prefix: str = "",
        deadline_s: float = 10.0,
        reader: KnowledgeReader | None = None,
    ) -> Self:
        """Connect. Raises LogUnavailable, also where the topics are missing."""
        names = [topic_name(prefix, topic) for topic in LOG_TOPICS]
        async with await PartitionReader.open(bootstrap, names, deadline_s=deadline_s) as found:
            partitions = len([place for place in await found.bounds() if place[0] == names[0]])
        cluster = await cluster_id(bootstrap, deadline_s=deadline_s)
        log_id = hashlib.sha256(f"{cluster}/{prefix}".encode()).hexdigest()[:32]
        publisher = await Publisher.open(bootstrap, prefix=prefix, idempotent=True, deadline_s=deadline_s)
        log = cls(bootstrap, prefix, partitions, log_id, publisher, clock)
        log._ledger = reader
        return log

    @property
    def log_id(self) -> str:
        """Name of this log: of the cluster and the prefix."""
        return self._log_id

    @property
    def partitions(self) -> int:
        """How many partitions each event topic has."""
        return self._partitions

    @property
    def caught_up(self) -> bool:
        """Whether `follow` has read what was there when it began; it stays so."""
        return self._caught_up.is_set()

    async def append(self, events: Sequence[Event], *, topic: str = EVENTS) -> list[Appended]:
        """Publish events with ``acks=all`` and return their places, in order.

        Redeliveries are published too: the store tells them apart. Raises InvalidInput, LogUnavailable.
        """
        rows = [make_row(event, topic, self._partitions) for event in events]
        sent = await self._publisher.send(
            topic, [(row.partition, Outgoing(row.key.encode(), row.body)) for row in rows]
        )
        return [
            Appended(
                Position(log=self._log_id, topic=topic, partition=row.partition, number=one.offset),
                recorded_at(one.timestamp_ms),
                duplicate=False,
            )
            for row, one in zip(rows, sent, strict=True)
        ]

    async def ping(self) -> None:
        """Raise LogUnavailable when no broker answers."""
        await self._publisher.ping(PING_S)

    async def at(self, position: Position) -> LogRecord | None:
        """Fetch the event of a position."""
        if position.log != self._log_id or position.topic not in LOG_TOPICS:
            return None
        async with self._fetching:
            if self._fetcher is None:
                names = [topic_name(self._prefix, topic) for topic in LOG_TOPICS]
                self._fetcher = await PartitionReader.open(self._bootstrap, names)
            try:
                place = (topic_name(self._prefix, position.topic), position.partition)
                kept = await self._fetcher.at(place, position.number)
            except BaseException:
                fetcher, self._fetcher = self._fetcher, None
                await fetcher.close()
                raise
        return None if kept is None else self._record(kept)

    async def find(self, tenant: str, event_id: str, source: str | None = None) -> list[LogRecord]:
        """Return the events of that id: those the store has handled, and those of the tail."""
        places = {record.source: record.position for record in self._tail.find(tenant, event_id, source)}
        if self._ledger is not None:
            async with self._ledger.snapshot(tenant) as snapshot:
                places |= {one.source: one.position for one in await snapshot.events(event_id, source)}
        found = [await self.at(position) for position in places.values()]
        return sorted((record for record in found if record is not None), key=lambda record: record.recorded_at)

    async def pending(self, tenant: str, stored: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Count the tenant's events above the given numbers."""
        self._tail.through(tenant, stored)
        return self._tail.pending(tenant, stored)

    async def scan(self, tenant: str | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield everything that was kept when it was called, a key's events in the order of their times."""
        names = [topic_name(self._prefix, topic) for topic in LOG_TOPICS]
        async with await PartitionReader.open(self._bootstrap, names) as reader:
            ends = {place: after for place, (first, after) in (await reader.bounds()).items() if after > first}
            left = set(ends)
            order = TimeOrder(sorted(ends, key=lambda place: names.index(place[0])))
            while left:
                polled = await reader.poll(PAGE, POLL_S, order.hungry(left))
                order.take(one for one in polled if one.offset < ends[one.topic, one.partition])
                left = {place for place in left if await reader.position(place) < ends[place]}
                records = [record for one in order.due(left) if (record := self._record(one)) is not None]
                page = [record for record in records if tenant in (None, record.tenant)]
                if page:
                    yield page

    async def order(self, command: Command) -> bool:
        """Publish a command; False where its tenant's store, or what was read of the topic, knows the id."""
        if self._commands.listed(command.tenant, command.id, 1):
            return False
        if self._ledger is not None:
            async with self._ledger.snapshot(command.tenant) as snapshot:
                if await snapshot.jobs(1, command.id):
                    return False
        key = command.tenant.encode()
        body = command.model_dump_json(exclude_none=True).encode()
        await self._publisher.send(COMMANDS, [(partition_of(key, self._partitions), Outgoing(key, body))])
        self._commands.put(command)
        return True

    async def ordered(self, tenant: str, *, command_id: str | None = None, limit: int = 100) -> list[Command]:
        """Return the tenant's newest commands, or the one of an id."""
        return self._commands.listed(tenant, command_id, limit)

    async def bury(self, letter: DeadLetter) -> DeadLetter:
        """Return what is kept of a letter: what is told on ``cortex.dead-letters`` is kept there, so nothing is written."""
        return buried(self._letters.get(letter.id), letter)

    async def dead_letters(
        self, which: LetterFilter = EVERY, *, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        return self._letters.listed(which, limit, after, self._clock.now())

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        return self._letters.get(letter_id)

    async def mark_letter(self, letter_id: str, mark: LetterMark) -> bool:
        """Note on the topic what was done about a letter."""
        known = self._letters.get(letter_id)
        if known is None or marked(known, mark) is known:
            return False
        record = mark_record(known, mark)
        await self._publisher.send(DEAD_LETTERS, [(partition_of(record.key or b"", self._partitions), record)])
        self._letters.take((letter_id, mark))
        return True

    async def follow(self, *, events: bool = True) -> None:
        """Keep what is remembered of the topics up to date, until cancelled; reconnects by itself.

        ``events`` False: only dead letters and commands, for a process that asks for no lag and no event by its id.
        """
        wait_s = BACKOFF_S[0]
        while True:
            try:
                await self._follow(LOG_TOPICS if events else ())
            except Transient as error:  # the broker, or the store that says where to begin
                _log.info("kafka_log.disconnected", cause=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, BACKOFF_S[1])
            else:
                wait_s = BACKOFF_S[0]

    async def close(self) -> None:
        """Disconnect; what is under way is waited for."""
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._publisher.close()

    async def _follow(self, events: Sequence[str]) -> None:
        topics = [topic_name(self._prefix, topic) for topic in (*events, DEAD_LETTERS, COMMANDS)]
        async with await PartitionReader.open(self._bootstrap, topics) as reader:
            bounds = await reader.bounds()
            waiting = await self._waiting(bounds)
            starts = {
                place: min(max(first, waiting[place] - IN_HAND, after - TAIL_FIRST), after)
                for place, (first, after) in bounds.items()
            }
            replica = _Replica(self._prefix, self._log_id, starts, waiting)
            reader.seek(starts)
            left = {place for place, (_, after) in bounds.items() if after > starts[place]}
            while True:
                for kept in await reader.poll(PAGE, POLL_S):
                    replica.take(kept)
                if left:
                    left = {place for place in left if await reader.position(place) < bounds[place][1]}
                if not left or not self.caught_up:  # a new replica takes the old one's place when it knows as much
                    self._tail, self._letters, self._commands = replica.tail, replica.letters, replica.commands
                if not left:
                    self._caught_up.set()

    async def _waiting(self, bounds: dict[tuple[str, int], tuple[int, int]]) -> dict[tuple[str, int], int]:
        """Return where the first record of each partition may stand that is not stored."""
        furthest: dict[tuple[str, int], int] = {}
        if self._ledger is not None:
            for tenant in await self._ledger.tenants():
                async with self._ledger.snapshot(tenant) as snapshot:
                    for (topic, partition), number in (await snapshot.watermarks()).items():
                        place = (topic_name(self._prefix, topic), partition)
                        furthest[place] = max(furthest.get(place, -1), number)
        return {place: min(max(first, furthest.get(place, -1) + 1), after) for place, (first, after) in bounds.items()}

    def _record(self, kept: Kept) -> LogRecord | None:
        return as_log_record(kept, self._log_id, self._prefix)


class _Replica:
    """One life of what is remembered of the topics."""

    def __init__(
        self, prefix: str, log_id: str, starts: dict[tuple[str, int], int], waiting: dict[tuple[str, int], int]
    ) -> None:
        self.tail, self.letters, self.commands = Tail(), LetterShelf(), CommandShelf()
        self._prefix = prefix
        self._log_id = log_id
        for (name, partition), offset in starts.items():
            topic = name.removeprefix(prefix)
            if topic in LOG_TOPICS:
                self.tail.begin((topic, partition), offset, waiting[name, partition])

    def take(self, kept: Kept) -> None:
        """Take a record of any of the topics."""
        topic = kept.topic.removeprefix(self._prefix)
        if topic == DEAD_LETTERS:
            said = letter_of(kept.key, kept.value, kept.headers)
            if said is not None:
                self.letters.take(said)
        elif topic == COMMANDS:
            self.commands.take(kept.value)
        elif (record := as_log_record(kept, self._log_id, self._prefix)) is not None:
            self.tail.add(record)
