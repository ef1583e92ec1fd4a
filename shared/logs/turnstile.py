"""Turns at a file that several processes read and write: nobody waits for more than those who came before."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shared.errors import CortexError, DiskFull, FolderReadOnly, LogUnavailable

RETRY_S: Final = 0.0005  # a commit takes 1 to 20 ms, and the lock is almost always free at once


class Turnstile:
    """An advisory lock in two steps: wait for the turn, and with it in hand wait for the file.

    SQLite alone lets whoever asks first after a release win, and the one who has just released it asks first: beside a
    flood of appends another process waited for seconds. Here the holder of the turn is next. Both are released by the
    system when a process dies. Use one instance in one thread at a time.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        """``path`` is the guarded file; two empty files beside it carry the locks. Raises FolderReadOnly or DiskFull."""
        self._timeout_s = timeout_s
        self._turn = _open(path.with_name(path.name + ".turn"))
        try:
            self._hold = _open(path.with_name(path.name + ".hold"))
        except BaseException:
            os.close(self._turn)
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have the file alone. Raises LogUnavailable when the wait is too long."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have the file together with other readers. Raises LogUnavailable when the wait is too long."""
        with self._held(fcntl.LOCK_SH):
            yield

    def close(self) -> None:
        """Close both files."""
        os.close(self._turn)
        os.close(self._hold)

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        deadline = time.monotonic() + self._timeout_s
        _lock(self._turn, fcntl.LOCK_EX, deadline)
        try:
            _lock(self._hold, how, deadline)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._hold, fcntl.LOCK_UN)


def _lock(descriptor: int, how: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise LogUnavailable("The journal is locked by another process for too long.") from error
            time.sleep(RETRY_S)
        else:
            return


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _typed(error, path) from error


def _typed(error: OSError, path: Path) -> CortexError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"The disk of {path.parent} is full.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        return FolderReadOnly(f"{path.parent} cannot be written ({error.strerror}).")
    return LogUnavailable(f"{path} cannot be opened: {error.strerror}.")
