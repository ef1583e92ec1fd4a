"""The data folder: made, locked, checked, before anything else touches it."""

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from compose.local.migrations import CURRENT, Schema
from shared.errors import CortexError, DataFolderError, DiskFull, FolderInUse, FolderNewer, FolderReadOnly

ROOM_BYTES: Final = 1024 * 1024  # what must fit at start: enough for the files' first pages
LOOK_EVERY_S: Final = 0.05


class FileLock:
    """An exclusive lock on a file, held until closed or until the process ends, however it ends."""

    def __init__(self, descriptor: int, *, left_behind: bool) -> None:
        self._descriptor = descriptor
        self.left_behind = left_behind

    @classmethod
    def take(cls, path: Path, wait_s: float = 0.0) -> Self:
        """Take the lock, waiting for at most ``wait_s``.

        ``left_behind`` is true when the last holder did not get to close it. Raises FolderInUse with the holder's
        process id, FolderReadOnly, DiskFull or DataFolderError.
        """
        with translated(path.parent):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait_for_lock(descriptor, path.parent, wait_s)
            with translated(path.parent):
                left_behind = os.fstat(descriptor).st_size > 0
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, left_behind=left_behind)

    def close(self) -> None:
        """Give the lock back. The file stays: removing it would let two holders lock two files of one name."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def holder_of(path: Path) -> str | None:
    """Return the process id of whoever holds a lock file, None when it is free. Changes nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None


class DataFolder:
    """The folder of one running Cortex."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path, schema: Schema = CURRENT) -> Self:
        """Make the folder if need be, lock it, and see that this release can use it, bringing it up where it is older.

        Raises FolderInUse, FolderReadOnly, FolderNewer, DiskFull or DataFolderError; nothing in it has changed then,
        unless it was a step of bringing it up that failed: that step is done again at the next start.
        """
        path = path.absolute()
        with translated(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)  # what is in it may be confidential
        lock = FileLock.take(path / "lock")
        try:
            with translated(path):
                _settle_version(path / "VERSION", schema)
                _check_room(path / "room")
                for part in ("knowledge", "log", "run"):
                    (path / part).mkdir(mode=0o700, exist_ok=True)
        except BaseException:
            lock.close()
            raise
        return cls(path, lock)

    @property
    def left_behind(self) -> bool:
        """Whether the last Cortex here was killed: then its child processes may take a moment more to end."""
        return self._lock.left_behind

    @property
    def logs(self) -> Path:
        """The folder of log files."""
        return self.path / "log"

    @property
    def run(self) -> Path:
        """An empty folder: the working directory of child processes."""
        return self.path / "run"

    def close(self) -> None:
        """Let another Cortex use it."""
        self._lock.close()


@contextlib.contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn the system's errors about the folder into ours."""
    try:
        yield
    except OSError as error:
        raise _typed(error, folder) from error


def _typed(error: OSError, folder: Path) -> CortexError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(f"The disk of {folder} is full ({error.strerror}): free some space, then start again.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return FolderReadOnly(f"{folder} cannot be written ({error.strerror}): choose another with CORTEX_DATA_DIR.")
    return DataFolderError(f"{folder} cannot be used: {error.strerror}.")


def _wait_for_lock(descriptor: int, folder: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not _locked(descriptor):
        if time.monotonic() >= deadline:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(f"{folder} is in use by another Cortex (process {holder}): stop it first.")
        time.sleep(LOOK_EVERY_S)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _settle_version(path: Path, schema: Schema) -> None:
    """Refuse a folder of a later release, bring up one of an earlier, mark a new one."""
    version = read_version(path)
    if version is None:
        _write_version(path, schema.version)
    elif version > schema.version:
        raise FolderNewer(
            f"{path.parent} was written by a later release (schema {version}, this one knows {schema.version}): "
            "start that release, or choose another folder with CORTEX_DATA_DIR."
        )
    else:
        schema.bring_up(path.parent, version, lambda reached: _write_version(path, reached))


def read_version(path: Path) -> int | None:
    """Return the schema version that a file VERSION names, None where there is no such file. Raises DataFolderError."""
    try:
        version = json.loads(path.read_bytes())["schema"]
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise DataFolderError(f"{path} is damaged: it should name the schema of this folder.") from error
    if not isinstance(version, int) or isinstance(version, bool):
        raise DataFolderError(f"{path} is damaged: 'schema' should be a number.")
    return version


def _write_version(path: Path, version: int) -> None:
    write_whole(path, json.dumps({"schema": version, "written_by": release()}) + "\n")


def release() -> str:
    """Return the installed release's number."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - 30 ms, needed once in a folder's life

    try:
        return version("cortex-knowledge")
    except PackageNotFoundError:  # run from a checkout
        return "unreleased"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there wholly or not at all, whenever the machine stops."""
    draft = path.with_suffix(".draft")
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _check_room(path: Path) -> None:
    """Write what must fit, for real: quotas and reserved blocks make the reported free space a guess."""
    try:
        with path.open("wb") as file:
            file.write(bytes(ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
