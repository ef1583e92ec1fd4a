"""Copying the journal while others append to it, a few rows at a turn; and giving a copy a name of its own."""

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.errors import DataFolderError
from shared.logs.journal_file import BUSY_MS, JournalFile, translated

ROWS: Final = 1_000
"""Events a turn: at the usual 1 kB a turn takes some 5 ms, which is how long an append may wait for it."""


@dataclass(frozen=True)
class JournalCopied:
    """What a copy holds: its log's name, how many events, and the highest number (0: none)."""

    log_id: str
    events: int
    newest: int


def copy_journal(source: Path, target: Path) -> JournalCopied:
    """Copy every event that is kept at this moment, all dead letters and commands, into a new file.

    Events are never changed once they are kept, so copying them in turns is copying them at once, and nobody who
    appends waits for the whole. Raises DataFolderError where there is no journal, DiskFull, FolderReadOnly, LogUnavailable.
    """
    if not source.exists():
        raise DataFolderError(f"{source} is not there: no Cortex has run on this folder.")
    with closing(JournalFile.open(source, 1)) as read, closing(JournalFile.open(target, read.partitions)) as written:
        newest = read.newest()
        after, events = 0, 0
        while rows := read.rows(after, newest, ROWS):
            written.take_rows(rows)
            after, events = rows[-1][0], events + len(rows)
        written.take_rest(read.letter_rows(), read.command_rows(), read.log_id)
    for suffix in (".turn", ".hold", "-journal"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    return JournalCopied(read.log_id, events, newest)


def rename_log(path: Path) -> str:
    """Give a restored journal a new name, and return it: what is accepted from here on is another history.

    The numbers after its newest event will be given to other events than in the log that it was copied from; with the
    old name a token from there would pass for one of these.
    """
    log_id = secrets.token_hex(16)
    with translated(), closing(sqlite3.connect(path, timeout=BUSY_MS / 1_000)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'log_id'", (log_id,))
        connection.commit()
    return log_id
