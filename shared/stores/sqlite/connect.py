"""Opening a tenant's file, and what SQLite's failures mean to us."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import DiskFull, FolderReadOnly, InvalidInput, StoreUnavailable
from shared.stores.sqlite import schema

SUFFIX = ".db"
BUSY_MS = 5_000
"""Wait for a lock that a backup or a recovering reader holds; nothing of ours holds one for long."""
CACHE_KIB = 65_536
"""Page cache of the writer: 20,000 units with their index. The default, 2 MB, spills within one batch."""
READER_CACHE_KIB = 16_384
WAL_PAGES = 4_000
"""Pages in the write-ahead log (16 MB) before it is written back: fewer, larger checkpoints than by default."""
WAL_BYTES = 64 * 1024 * 1024

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def path_of(folder: Path, tenant: str) -> Path:
    """Return a tenant's file. Raises InvalidInput for a name that is no tenant: it becomes part of a path."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidInput(
            f"tenant {tenant!r} is not 1 to 63 of a-z, 0-9, '_' and '-', beginning with a letter or digit"
        )
    return folder / f"{tenant}{SUFFIX}"


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a tenant's file, creating it where it is missing."""
    with translated():
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            schema.check_version(connection, path.name)  # before anything is changed in a later release's file
            connection.execute("PRAGMA journal_mode = WAL")
            # Survives a killed process. What a power cut may take, the journal still has: positions tell it apart.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            schema.prepare(connection, path.name)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Open a tenant's file read-only, or return None where there is none or it has no tables yet."""
    if not path.exists():
        return None
    with translated():
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
            version = schema.check_version(connection, path.name)
        except BaseException:
            connection.close()
            raise
    if version == 0:
        connection.close()
        return None
    return connection


@contextmanager
def translated() -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise DiskFull(f"the disk of the knowledge files is full: {error}") from error
        if code == sqlite3.SQLITE_READONLY:
            raise FolderReadOnly(f"the knowledge files cannot be written: {error}") from error
        raise StoreUnavailable(f"the knowledge store does not answer: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInput("the text contains a lone surrogate, which is not a character") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"the knowledge store cannot be used: {error}") from error
