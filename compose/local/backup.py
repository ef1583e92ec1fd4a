"""Backup of a data folder while it is served, and restore into a new one.

The order makes a copy that can go on: feeds' manifests first, then each knowledge file, the journal last. So whatever a
manifest or a watermark says was taken in is in the journal that was copied after it, and never beyond it; at its first
start the restored folder publishes again what its knowledge files had not stored yet. The manifest is written last of all:
without it a folder is no backup.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import orjson
from pydantic import Field, ValidationError

from compose.local.folder import FileLock, read_version, release, translated
from compose.local.migrations import CURRENT
from schemas.base import Record
from shared.errors import DataFolderError, FolderNewer, InvalidInput
from shared.logs.journal_copy import copy_journal, rename_log
from shared.sqlite_files import copy_file, faults_of, largest

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
JOURNAL: Final = "journal.db"
VERSION: Final = "VERSION"
NAME: Final = re.compile(r"(?:VERSION|journal\.db|knowledge/[a-z0-9][a-z0-9_-]{0,62}\.db|feeds/[A-Za-z0-9._-]{1,200})")
CHUNK: Final = 1024 * 1024

OnProgress = Callable[[str], None]


class BackedUp(Record):
    """One file of a backup."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(Record):
    """What a backup holds. ``schema_version``: of the data folder; ``newest``: the number of the journal's last event."""

    format: int
    schema_version: int
    release: str
    made_at: datetime
    log_id: str
    events: int
    newest: int
    files: dict[str, BackedUp]
    kind: Literal["cortex-backup"] = "cortex-backup"

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files.values())


def make_backup(folder: Path, target: Path, now: datetime, on_progress: OnProgress = lambda _: None) -> Manifest:
    """Copy a data folder, served or not, to a new folder; it is there wholly or not at all.

    Raises InvalidInput (the target is there, or lies in the folder), FolderNewer, DiskFull, FolderReadOnly or
    DataFolderError.
    """
    folder, target = folder.absolute(), target.absolute()
    version = read_version(folder / VERSION)
    if version is None:
        raise DataFolderError(f"{folder} is not a data folder of Cortex: it has no file {VERSION}.")
    if version > CURRENT.version:
        raise FolderNewer(f"{folder} was written by a later release: take the backup with that one.")
    if target.is_relative_to(folder):
        raise InvalidInput(f"{target} lies in the data folder: choose a place outside it, best on another disk.")
    with _draft_of(target) as draft:
        shutil.copyfile(folder / VERSION, draft / VERSION)
        _copy_feeds(folder / "feeds", draft / "feeds")
        (draft / "knowledge").mkdir(mode=0o700)
        for source in sorted((folder / "knowledge").glob("*.db")):
            on_progress(f"knowledge of {source.stem}")
            copy_file(source, draft / "knowledge" / source.name)
        on_progress("journal")
        copied = copy_journal(folder / JOURNAL, draft / JOURNAL)
        names = sorted(path.relative_to(draft).as_posix() for path in draft.rglob("*") if path.is_file())
        on_progress("checksums")
        manifest = Manifest(
            format=FORMAT,
            schema_version=version,
            release=release(),
            made_at=now,
            log_id=copied.log_id,
            events=copied.events,
            newest=copied.newest,
            files={name: _measured(draft / name) for name in names},
        )
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return manifest


def restore_backup(source: Path, folder: Path, on_progress: OnProgress = lambda _: None) -> Manifest:
    """Make a data folder of a backup. Nothing is left behind when it fails.

    Raises FolderInUse, FolderNewer, DiskFull, FolderReadOnly, or DataFolderError: the backup is damaged or incomplete,
    or the folder has something in it.
    """
    source, folder = source.absolute(), folder.absolute()
    manifest = read_manifest(source)
    _refuse_used(folder)
    on_progress("checksums")
    check_files(source, manifest)
    with _draft_of(folder) as draft:
        for name in sorted(manifest.files):
            on_progress(name)
            (draft / name).parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copyfile(source / name, draft / name)
        on_progress("integrity")
        _check_databases(draft, manifest)
        rename_log(draft / JOURNAL)
        (draft / f"{JOURNAL}-journal").unlink(missing_ok=True)
        for name in manifest.files:
            _sync(draft / name)
    return manifest


def read_manifest(source: Path) -> Manifest:
    """Read what a backup says of itself. Raises DataFolderError, FolderNewer."""
    try:
        value = orjson.loads((source / MANIFEST).read_bytes())
    except FileNotFoundError as error:
        raise DataFolderError(
            f"{source} is not a whole backup: it has no {MANIFEST}, which is written last."
        ) from error
    except (OSError, ValueError) as error:
        raise DataFolderError(f"the {MANIFEST} of {source} cannot be read: {error}.") from error
    known = {"format": FORMAT, "schema_version": CURRENT.version}
    for name, latest in known.items():
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, int) and found > latest:
            raise FolderNewer(f"{source} was made by a later release ({name} {found}, this one knows {latest}).")
    try:
        manifest = Manifest.model_validate(value)
    except ValidationError as error:
        raise DataFolderError(f"the {MANIFEST} of {source} is damaged: {error.error_count()} faults.") from error
    strange = sorted(name for name in manifest.files if not NAME.fullmatch(name) or ".." in name)
    if strange or not {VERSION, JOURNAL} <= set(manifest.files):
        raise DataFolderError(f"the {MANIFEST} of {source} is damaged: it does not name a data folder's files.")
    return manifest


def check_files(source: Path, manifest: Manifest) -> None:
    """Compare every file with what the manifest says. Raises DataFolderError that names those which differ."""
    wrong = []
    for name, expected in sorted(manifest.files.items()):
        path = source / name
        if not path.is_file() or path.is_symlink():
            wrong.append(f"{name} is missing")
        elif _measured(path) != expected:
            wrong.append(f"{name} is not what was written")
    if wrong:
        raise DataFolderError(f"{source} is damaged: {'; '.join(wrong[:5])}. Nothing was restored.")


def _check_databases(draft: Path, manifest: Manifest) -> None:
    for name in sorted(manifest.files):
        if not name.endswith(".db"):
            continue
        faults = faults_of(draft / name)
        if faults:
            raise DataFolderError(f"{name} of the backup is damaged: {faults[0]}. Nothing was restored.")
        beyond = largest(draft / name, "watermark", "number")
        if beyond > manifest.newest:
            raise DataFolderError(f"{name} of the backup is ahead of its journal ({beyond} against {manifest.newest}).")


def _refuse_used(folder: Path) -> None:
    """Raise FolderInUse for a folder that is served, DataFolderError for one that has something in it."""
    with translated(folder):
        if not folder.exists():
            return
        there = sorted(path.name for path in folder.iterdir())
    if not there:
        return
    if "lock" in there:
        FileLock.take(folder / "lock").close()  # raises FolderInUse with the process that has it
    raise DataFolderError(
        f"{folder} is not empty ({', '.join(there[:5])}): restore into a new folder, or move this one away first."
    )


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Yield a folder beside the target that takes its place at the end, or is gone when anything fails."""
    with translated(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InvalidInput(f"{target} is there already: choose another name.")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))  # only its owner may read it
        try:
            yield draft
            for path in draft.rglob("*"):
                _sync(path)
            _sync(draft)
            draft.replace(target)
            _sync(target.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _copy_feeds(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()):
        if path.is_file() and NAME.fullmatch(f"feeds/{path.name}"):
            shutil.copyfile(path, target / path.name)


def _measured(path: Path) -> BackedUp:
    digest, size = hashlib.sha256(), 0
    with translated(path.parent), path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return BackedUp(bytes=size, sha256=digest.hexdigest())


def _sync(path: Path) -> None:
    """Have a file, or a folder's names, on the medium."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
