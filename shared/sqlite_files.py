"""Whole SQLite files: copied while they are in use, and looked over for damage."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from shared.errors import DataFolderError, DiskFull, FolderReadOnly

BUSY_S: Final = 10.0  # a writer's commit, or a checkpoint, may be waited for
FAULTS_SHOWN: Final = 10
OLDEST: Final = (3, 38, 0)  # RETURNING, json_each without an extension, unixepoch


def copy_file(source: Path, target: Path) -> None:
    """Copy a file as it stands at one moment, whoever writes it meanwhile, into a file of its own without a log beside it.

    A file in WAL mode goes on being written meanwhile; in rollback mode its writer waits. Raises DiskFull,
    FolderReadOnly or DataFolderError.
    """
    with _translated(source, target), closing(_open(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)
        written.execute("PRAGMA journal_mode = DELETE")
        written.execute("PRAGMA synchronous = FULL")


def faults_of(path: Path) -> list[str]:
    """Return what SQLite's own check finds wrong with a file (pages, records, orders, constraints); empty: it is whole."""
    try:
        with closing(_open(path)) as connection:
            found = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({FAULTS_SHOWN})")]
    except sqlite3.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def version_of(path: Path) -> int:
    """Return the schema version that a file carries, 0 for none. Raises DataFolderError."""
    with _translated(path, path), closing(_open(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def largest(path: Path, table: str, column: str) -> int:
    """Return the largest number in a column, -1 where there is no row or no such table. Raises DataFolderError."""
    with _translated(path, path), closing(_open(path)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is None:
            return -1
        row = connection.execute(f'SELECT coalesce(max("{column}"), -1) FROM "{table}"').fetchone()  # noqa: S608 - constants
        return int(row[0])


def last(path: Path, table: str, column: str, by: str) -> int | None:
    """Return a column of the row with the largest key ``by``, None where there is none. Raises DataFolderError."""
    with _translated(path, path), closing(_open(path)) as connection:
        query = f'SELECT "{column}" FROM "{table}" ORDER BY "{by}" DESC LIMIT 1'  # noqa: S608 - constants
        row = connection.execute(query).fetchone()
        return None if row is None else int(row[0])


def engine() -> tuple[str, bool]:
    """Return SQLite's version, and whether it can search full text as we need it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (word)")
        except sqlite3.Error:
            return sqlite3.sqlite_version, False
    return sqlite3.sqlite_version, sqlite3.sqlite_version_info >= OLDEST


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None)


@contextmanager
def _translated(source: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # the low byte; the rest refines it
        if primary == sqlite3.SQLITE_FULL:
            raise DiskFull(f"The disk of {target.parent} is full.") from error
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise FolderReadOnly(f"{target} cannot be written.") from error
        raise DataFolderError(f"{source} cannot be read: {error}.") from error
