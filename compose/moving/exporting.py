"""``cortex export``: the log's events as files, written while it is appended to; what was interrupted goes on."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Final

from compose.local.folder import translated
from compose.moving.manifest import ExportedFile, ExportManifest, read_manifest, write_line, write_manifest
from compose.moving.unknown import unknown_tenant
from ingest.buried import discarded_in
from shared.errors import InvalidInput
from shared.log import EventLog, LogRecord

FILE_EVENTS: Final = 50_000
FILE_BYTES: Final = 256 * 1024 * 1024
"""A file is complete at whichever comes first: what an interruption costs, and what a copy must begin anew."""
DRAFT: Final = ".part"

OnProgress = Callable[[int], None]


class Exporter:
    """Writes events into a folder, a file at a time; the manifest names a file once it is whole and on the medium."""

    def __init__(self, folder: Path, manifest: ExportManifest, *, events: int, size: int) -> None:
        self.manifest = manifest
        self._folder = folder
        self._events = events
        self._size = size
        self._begin()

    @classmethod
    def open(
        cls, folder: Path, manifest: ExportManifest, *, events: int = FILE_EVENTS, size: int = FILE_BYTES
    ) -> "Exporter":
        """Begin an export, or go on with one of the same log and tenant; ``manifest``: as a new one would begin.

        Raises InvalidInput (the folder holds something else), UnsupportedVersion, DataFolderError, FolderReadOnly.
        """
        with translated(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            there = sorted(path.name for path in folder.iterdir())
        known = read_manifest(folder)
        if known is None and any(not name.endswith(DRAFT) for name in there):
            raise InvalidInput(f"{folder} is not empty ({', '.join(there[:5])}) and no export: name another folder.")
        if known is not None and (known.log_id, known.tenant) != (manifest.log_id, manifest.tenant):
            raise InvalidInput(f"{folder} is an export of another log or another tenant: name another folder.")
        with translated(folder):
            for name in there:
                if name.endswith(DRAFT):
                    (folder / name).unlink()
        going_on = known and known.model_copy(update={"complete": False, "made_at": manifest.made_at})
        return cls(folder, going_on or manifest, events=events, size=size)

    @property
    def written(self) -> int:
        """Events in all files, the one in hand included."""
        return self.manifest.events + self._tenants.total()

    def is_due(self, record: LogRecord) -> bool:
        """Whether an event is not in a complete file yet."""
        return record.position.number > self.manifest.reached.get(_place(record), -1)

    def add(self, record: LogRecord, *, discarded: bool) -> None:
        """Write an event; complete the file when it is full. Raises DiskFull."""
        line = write_line(record, discarded=discarded)
        with translated(self._folder):
            self._file.write(line)
        self._digest.update(line)
        self._bytes += len(line)
        self._tenants[record.tenant] += 1
        self._reached[_place(record)] = record.position.number
        if self._tenants.total() >= self._events or self._bytes >= self._size:
            self._complete_file()
            self._begin()

    def finish(self) -> ExportManifest:
        """Complete the last file and the export."""
        self._complete_file()
        self.manifest = self.manifest.model_copy(update={"complete": True})
        write_manifest(self._folder, self.manifest)
        return self.manifest

    def close(self) -> None:
        """Let go of a file that is not complete."""
        self._file.close()

    def _begin(self) -> None:
        self._name = f"events-{len(self.manifest.files) + 1:05}.jsonl"
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._tenants: Counter[str] = Counter()
        self._reached: dict[str, int] = {}
        with translated(self._folder):
            self._file = (self._folder / f"{self._name}{DRAFT}").open("wb")

    def _complete_file(self) -> None:
        """Have the file on the medium under its name, then say so in the manifest."""
        draft, events = self._folder / f"{self._name}{DRAFT}", self._tenants.total()
        with translated(self._folder):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if not events:
                draft.unlink()
                return
            draft.replace(self._folder / self._name)
        written = ExportedFile(bytes=self._bytes, sha256=self._digest.hexdigest(), events=events)
        known = self.manifest
        self.manifest = known.model_copy(
            update={
                "events": known.events + events,
                "tenants": dict(Counter(known.tenants) + self._tenants),
                "reached": known.reached | self._reached,
                "files": known.files | {self._name: written},
            }
        )
        write_manifest(self._folder, self.manifest)


async def export_events(
    log: EventLog,
    folder: Path,
    *,
    tenant: str | None,
    release: str,
    now: datetime,
    events: int = FILE_EVENTS,
    on_progress: OnProgress = lambda _: None,
) -> ExportManifest:
    """Write what the log holds and no complete file has. Raises as `Exporter`, LogUnavailable; the same again goes on.

    Raises UnknownThing, and writes nothing, where a tenant is wanted of which the log has no event.
    """
    if tenant is not None and not await _has_events(log, tenant):
        raise unknown_tenant("The log", tenant, {record.tenant async for page in log.scan() for record in page})
    begun = ExportManifest(release=release, made_at=now, log_id=log.log_id, tenant=tenant)
    exporter = Exporter.open(folder, begun, events=events)
    try:
        discarded = await discarded_in(log, tenant)
        async for page in log.scan(tenant):
            for record in page:
                if exporter.is_due(record):
                    exporter.add(record, discarded=discarded.letter_of(record) is not None)
            on_progress(exporter.written)
        return exporter.finish()
    finally:
        exporter.close()


async def _has_events(log: EventLog, tenant: str) -> bool:
    async with aclosing(log.scan(tenant)) as pages:  # type: ignore[type-var] # asynchronous generators
        async for _ in pages:
            return True
    return False


def _place(record: LogRecord) -> str:
    return f"{record.position.topic}/{record.position.partition}"
