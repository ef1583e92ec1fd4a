"""The journal's file: its tables, and every statement that touches them. One connection, used by one thread."""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from schemas.commands import Command
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark
from shared import jobs_kept
from shared.errors import CortexError, DataFolderError, DiskFull, FolderNewer, FolderReadOnly, LogUnavailable
from shared.letters import LetterFilter
from shared.log import Appended, LogRecord
from shared.logs import journal_letters
from shared.logs.rows import NewEvent
from shared.logs.turnstile import Turnstile
from shared.validity import from_micros, micros

SCHEMA_VERSION: Final = 2
# Others hold the file for a commit (three syncs) or a read of some hundred rows: milliseconds, on a slow disk tens.
BUSY_MS: Final = 5_000
_LANES: Final = "SELECT topic, partition, events FROM lane WHERE tenant = ?"
_RECORD: Final = "SELECT number, topic, partition, recorded_at, tenant, source, id, key, body FROM event"
_EVENT_COLUMNS: Final = "number, topic, partition, ordinal, tenant, source, id, key, recorded_at, body"

# `ordinal` counts a tenant's events in one partition from 1, `lane.events` is the last of them: so the lag above any
# number is a difference of two look-ups, however many events wait.
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    tenant TEXT NOT NULL, source TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL,
    recorded_at INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX event_identity ON event (tenant, id, source);
CREATE UNIQUE INDEX event_ordinal ON event (tenant, topic, partition, number, ordinal);
CREATE TABLE lane (
    tenant TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, events INTEGER NOT NULL,
    PRIMARY KEY (tenant, topic, partition)
) WITHOUT ROWID;
"""
# Since version 2.
_COMMANDS: Final = """
CREATE TABLE command (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, id TEXT NOT NULL, recorded_at INTEGER NOT NULL,
    body TEXT NOT NULL, UNIQUE (tenant, id)
);
"""


@contextmanager
def translated() -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _typed(error) from error


def _typed(error: sqlite3.Error) -> CortexError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF  # the low byte; the rest refines it
    if primary == sqlite3.SQLITE_FULL:
        return DiskFull("The disk of the data folder is full: the journal took nothing of this request.")
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return FolderReadOnly("The journal cannot be written: check that the data folder is there, and its rights.")
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return DataFolderError(f"The journal is damaged: {error}. Restore the data folder from a copy.")
    return LogUnavailable(f"The journal does not take or give events: {error}.")


class JournalFile:
    """One connection to the journal. Every method blocks; call it from the thread that owns the connection."""

    def __init__(self, connection: sqlite3.Connection, turnstile: Turnstile, meta: dict[str, str]) -> None:
        self.log_id = meta["log_id"]
        self.partitions = int(meta["partitions"])
        self._db = connection
        self._turnstile = turnstile

    @classmethod
    def open(cls, path: Path, partitions: int) -> Self:
        """Open or make the file. A file that exists keeps its own id and number of partitions.

        Raises FolderNewer, FolderReadOnly, DiskFull, DataFolderError (not a journal) or LogUnavailable.
        """
        with ExitStack() as undo:
            turnstile = Turnstile(path, BUSY_MS / 1_000)
            undo.callback(turnstile.close)
            with turnstile.writing(), translated():
                connection = _connect(path)
                undo.callback(connection.close)
                meta = _prepare(connection, partitions)
            undo.pop_all()
        return cls(connection, turnstile, meta)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
        self._turnstile.close()

    def append(self, groups: Sequence[Sequence[NewEvent]], now: datetime) -> list[list[Appended]]:
        """Write all groups in one durable transaction: ``recorded_at`` is ``now``, or the last one if that is later."""
        with self._writing():
            newest = self._db.execute("SELECT recorded_at FROM event ORDER BY number DESC LIMIT 1").fetchone()
            recorded_at = micros(now) if newest is None else max(micros(now), newest[0])
            return [[self._insert(event, recorded_at) for event in group] for group in groups]

    def find(self, tenant: str, event_id: str, source: str | None) -> list[LogRecord]:
        """Return the events of that id, oldest first."""
        where, values = "tenant = ? AND id = ?", [tenant, event_id]
        if source is not None:
            where, values = where + " AND source = ?", [*values, source]
        with self._reading():
            rows = self._db.execute(f"{_RECORD} WHERE {where} ORDER BY number", values).fetchall()
        return [self._record(row) for row in rows]

    def read(self, after: int, limit: int) -> list[LogRecord]:
        """Return the next events in order."""
        with self._reading():
            rows = self._db.execute(f"{_RECORD} WHERE number > ? ORDER BY number LIMIT ?", (after, limit)).fetchall()
        return [self._record(row) for row in rows]

    def newest(self) -> int:
        """Return the highest number, 0 where there is none."""
        with self._reading():
            number: int = self._db.execute("SELECT coalesce(max(number), 0) FROM event").fetchone()[0]
        return number

    def pending(self, tenant: str, stored: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Count the tenant's events above the given numbers; a partition that is not given counts from its start."""
        with self._reading():
            lags = dict.fromkeys(stored, 0)
            for topic, partition, events in self._db.execute(_LANES, (tenant,)).fetchall():
                done = self._ordinal(tenant, topic, partition, stored.get((topic, partition), -1))
                lags[topic, partition] = events - done
        return lags

    def rows(self, after: int, until: int, limit: int) -> list[tuple[Any, ...]]:
        """Return events as they lie in the file, for a copy: numbers above ``after`` up to ``until``, in order."""
        query = f"SELECT {_EVENT_COLUMNS} FROM event WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"  # noqa: S608 - constants
        with self._reading():
            return self._db.execute(query, (after, until, limit)).fetchall()

    def letter_rows(self) -> list[tuple[Any, ...]]:
        """Return all dead letters as they lie in the file."""
        with self._reading():
            return journal_letters.rows(self._db)

    def command_rows(self) -> list[tuple[Any, ...]]:
        """Return all commands as they lie in the file."""
        with self._reading():
            return self._db.execute(
                "SELECT number, tenant, id, recorded_at, body FROM command ORDER BY number"
            ).fetchall()

    def take_rows(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Put events of another file into this one, at their own numbers."""
        marks = ", ".join("?" for _ in _EVENT_COLUMNS.split(", "))
        with self._writing():
            self._db.executemany(f"INSERT INTO event ({_EVENT_COLUMNS}) VALUES ({marks})", rows)  # noqa: S608 - constants

    def take_rest(self, letters: Sequence[tuple[Any, ...]], commands: Sequence[tuple[Any, ...]], log_id: str) -> None:
        """Complete a copy: its dead letters, its commands, its name, and the counts of its partitions, which follow from its
        events.
        """
        with self._writing():
            journal_letters.take(self._db, letters)
            self._db.executemany("INSERT INTO command VALUES (?, ?, ?, ?, ?)", commands)
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'log_id'", (log_id,))
            self._db.execute(
                "INSERT INTO lane SELECT tenant, topic, partition, max(ordinal) FROM event GROUP BY tenant, topic, partition"
            )

    def order(self, command: Command, now: datetime) -> bool:
        """Keep a command; False where the tenant's same id is there."""
        with self._writing():
            kept = self._db.execute(
                "INSERT OR IGNORE INTO command (tenant, id, recorded_at, body) VALUES (?, ?, ?, ?)",
                (command.tenant, command.id, micros(now), command.model_dump_json(exclude_none=True)),
            )
            return kept.rowcount > 0

    def orders(self, after: int, limit: int) -> list[tuple[int, Command]]:
        """Return the next commands in order."""
        query = "SELECT number, body FROM command WHERE number > ? ORDER BY number LIMIT ?"
        with self._reading():
            rows = self._db.execute(query, (after, limit)).fetchall()
        return [(number, Command.model_validate_json(body)) for number, body in rows]

    def ordered(self, tenant: str, command_id: str | None, limit: int) -> list[Command]:
        """Return a tenant's commands, newest first, or the one of an id."""
        query = "SELECT body FROM command WHERE tenant = ?1 AND (?2 IS NULL OR id = ?2) ORDER BY number DESC LIMIT ?3"
        with self._reading():
            rows = self._db.execute(query, (tenant, command_id, limit)).fetchall()
        return [Command.model_validate_json(body) for (body,) in rows]

    def forget_orders(self, tenant: str, before: int) -> int:
        """Let go of commands below a number, but for the tenant's newest; return how many went."""
        query = (
            "DELETE FROM command WHERE tenant = ?1 AND number < ?2 AND number <= "
            "(SELECT number FROM command WHERE tenant = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?3)"
        )
        with self._writing():
            return self._db.execute(query, (tenant, before, jobs_kept.KEPT)).rowcount

    def bury(self, letter: DeadLetter) -> DeadLetter:
        """Keep a dead letter, and let go of some that are too old; return what is kept of it."""
        with self._writing():
            return journal_letters.bury(self._db, letter)

    def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        with self._reading():
            return journal_letters.find(self._db, letter_id)

    def mark_letter(self, letter_id: str, mark: LetterMark) -> bool:
        """Note what was done about a letter; False where that changes nothing."""
        with self._writing():
            return journal_letters.mark(self._db, letter_id, mark)

    def dead_letters(self, which: LetterFilter, limit: int, after: str | None) -> list[DeadLetter]:
        """Return dead letters, newest first; an unknown ``after`` gives none."""
        with self._reading():
            return journal_letters.listed(self._db, which, limit, after)

    def _insert(self, event: NewEvent, recorded_at: int) -> Appended:
        known = self._db.execute(
            "SELECT number, topic, partition, recorded_at FROM event WHERE tenant = ? AND id = ? AND source = ?",
            (event.tenant, event.event_id, event.source),
        ).fetchone()
        if known is not None:
            number, topic, partition, first_recorded_at = known
            return Appended(self._position(topic, partition, number), from_micros(first_recorded_at), duplicate=True)
        ordinal = self._db.execute(
            "INSERT INTO lane VALUES (?, ?, ?, 1) "
            "ON CONFLICT (tenant, topic, partition) DO UPDATE SET events = events + 1 RETURNING events",
            (event.tenant, event.topic, event.partition),
        ).fetchone()[0]
        number = self._db.execute(
            "INSERT INTO event (topic, partition, ordinal, tenant, source, id, key, recorded_at, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                event.topic,
                event.partition,
                ordinal,
                event.tenant,
                event.source,
                event.event_id,
                event.key,
                recorded_at,
                event.body,
            ),
        ).lastrowid
        assert number is not None
        return Appended(self._position(event.topic, event.partition, number), from_micros(recorded_at), duplicate=False)

    def _ordinal(self, tenant: str, topic: str, partition: int, number: int) -> int:
        """Return how many events of the partition have at most that number."""
        row = self._db.execute(
            "SELECT ordinal FROM event WHERE tenant = ? AND topic = ? AND partition = ? AND number <= ? "
            "ORDER BY number DESC LIMIT 1",
            (tenant, topic, partition, number),
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _position(self, topic: str, partition: int, number: int) -> Position:
        return Position(log=self.log_id, topic=topic, partition=partition, number=number)

    def _record(self, row: tuple[Any, ...]) -> LogRecord:
        number, topic, partition, recorded_at, tenant, source, event_id, key, body = row
        position = self._position(topic, partition, number)
        return LogRecord(position, from_micros(recorded_at), tenant, source, event_id, key, body)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write alone, under SQLite's lock from the first statement on: then no upgrade of it can fail."""
        with self._turnstile.writing(), translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite has already undone it after some errors, a full disk among them
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read several times from one state: no writer has its turn meanwhile."""
        with self._turnstile.reading(), translated():
            yield


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1_000, isolation_level=None, check_same_thread=False)
    # A rollback journal, not WAL: two processes write, and this SQLite may have the WAL-reset race. PERSIST syncs the end
    # of a commit (DELETE would leave that to the folder's next sync) and spares making and unlinking a file each time.
    connection.execute("PRAGMA journal_mode = PERSIST")
    connection.execute(f"PRAGMA journal_size_limit = {4 * 1024 * 1024}")  # what a large batch leaves behind, bytes
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: only this reaches the medium; nothing elsewhere
    return connection


def _prepare(connection: sqlite3.Connection, partitions: int) -> dict[str, str]:
    """Make the tables if there are none, and return what is fixed in the file."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may make it at once: the second finds it made
    try:
        version = _known_version(connection)
        if version < SCHEMA_VERSION:
            first = (_SCHEMA, journal_letters.FIRST_SCHEMA) if version == 0 else ()
            for script in (*first, _COMMANDS, journal_letters.SINCE_2):
                for statement in script.split(";\n"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        if version == 0:
            made = {"log_id": secrets.token_hex(16), "partitions": str(partitions)}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", made.items())
        connection.execute("DELETE FROM meta WHERE 0")  # refused in a read-only file, where BEGIN IMMEDIATE is not
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return meta


def _known_version(connection: sqlite3.Connection) -> int:
    """Return the schema's version, 0 for a new file; raises FolderNewer for one this release does not know."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise FolderNewer(
            f"The journal has schema {version}, this release knows {SCHEMA_VERSION}: start a later release of Cortex."
        )
    return version
