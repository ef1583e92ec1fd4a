"""``cortex import``: an export's events appended to another log, in their order.

An event that has no revision of its own counts as what its place says, and places of two logs do not compare. So what is
kept is the order: an imported event counts as later than everything that this log took in before it, and as earlier than
what comes after; among themselves the imported ones stand as they stood. Into a log that knows nothing of the same things,
that is the same knowledge. ``recorded_at`` is when this log took the event in; when the first one did goes along in the
attribute ``recordedtime``, which nothing reads yet.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from compose.local.folder import translated, write_whole
from compose.moving.manifest import LINE_BYTES, MANIFEST, ExportManifest, Line, read_line, read_manifest
from ingest.intake import read_event, read_json
from schemas.events import Event
from schemas.units import TenantId
from shared.errors import DataFolderError, InputError, InvalidInput
from shared.log import BULK, EventLog

BATCH: Final = 500
RECORDED: Final = "recordedtime"
REFUSED_SHOWN: Final = 20

OnProgress = Callable[[int], None]
_TENANT: Final = TypeAdapter[str](TenantId)


@dataclass(frozen=True)
class CheckedExport:
    """An export that is whole: which file each line is in, and where, in the order of import (some 40 bytes an event)."""

    folder: Path
    manifest: ExportManifest
    names: Sequence[str]
    files: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.files)

    def lines(self, first: int) -> Iterator[Line]:
        """Yield the lines from the given one on. Raises DataFolderError: a file was changed after it was checked."""
        name, file = -1, None
        try:
            for place in range(first, len(self)):
                which, start = int(self.files[place]), int(self.starts[place])
                if which != name or file is None:
                    if file is not None:
                        file.close()
                    name, file = which, (self.folder / self.names[which]).open("rb")
                file.seek(start)
                try:
                    yield read_line(file.readline(LINE_BYTES))
                except ValueError as error:
                    raise DataFolderError(f"{self.names[which]} was changed meanwhile: {error}.") from error
        finally:
            if file is not None:
                file.close()


@dataclass
class Imported:
    """What an import did. ``refused``: events that nobody can read, as they were dead letters where they come from."""

    events: int = 0
    duplicates: int = 0
    discarded: int = 0
    resumed: int = 0
    refused_count: int = 0
    refused: list[str] = field(default_factory=list)
    tenants: Counter[str] = field(default_factory=Counter)


def check_export(folder: Path, on_progress: OnProgress = lambda _: None) -> CheckedExport:
    """Compare every file with its checksum, and find the order of import.

    Raises InvalidInput (not an export, or not complete), UnsupportedVersion, and DataFolderError that names file and line.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise InvalidInput(f"{folder} is not an export: it has no {MANIFEST}.")
    if not manifest.complete:
        raise InvalidInput(f"{folder} is not complete: run cortex export once more, it goes on.")
    names = sorted(manifest.files, key=lambda name: (len(name), name))
    orders, files, starts = array("q"), array("i"), array("q")
    for number, name in enumerate(names):
        for start, order in _checked_lines(folder / name, manifest):
            orders.append(order)
            files.append(number)
            starts.append(start)
        on_progress(len(orders))
    in_order = np.argsort(np.asarray(orders), kind="stable")  # at equal ones the files' own order
    return CheckedExport(folder, manifest, names, np.asarray(files)[in_order], np.asarray(starts)[in_order])


async def import_events(
    log: EventLog,
    checked: CheckedExport,
    cursors: Path,
    *,
    tenants: Mapping[str, str],
    on_progress: OnProgress = lambda _: None,
) -> Imported:
    """Append the events as bulk. ``cursors``: a folder where it is kept how far the import came.

    Raises InvalidInput (a tenant of the map is not in the export), LogUnavailable, Overloaded, DiskFull: the same again
    goes on after the last batch.
    """
    unknown = sorted(tenants.keys() - checked.manifest.tenants.keys())
    if unknown:
        raise InvalidInput(
            f"the export has no tenant {unknown[0]!r}; it has {', '.join(sorted(checked.manifest.tenants))}."
        )
    cursor = Cursor.open(cursors, checked.manifest, log.log_id, tenants)
    done = Imported(resumed=cursor.done)
    batch: list[Event] = []
    at = cursor.done
    for at, line in enumerate(checked.lines(cursor.done), start=cursor.done + 1):
        event = _event(line, tenants, done)
        if event is not None:
            batch.append(event)
        if len(batch) == BATCH:
            await _append(log, batch, done)
            cursor.move(at)
            on_progress(at)
            batch = []
    await _append(log, batch, done)
    cursor.move(at)
    return done


@dataclass
class Cursor:
    """How far an import came: a file of this data folder, named by what is imported, and where to."""

    path: Path
    done: int

    @classmethod
    def open(cls, folder: Path, manifest: ExportManifest, log_id: str, tenants: Mapping[str, str]) -> "Cursor":
        """Read how far it is; 0 for the first time, and where the export has grown since, which may change its order."""
        named = [manifest.model_dump_json(), log_id, sorted(tenants.items())]
        name = hashlib.sha256(orjson.dumps(named)).hexdigest()[:32]
        with translated(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / f"{name}.json"
            return cls(path, int(orjson.loads(path.read_bytes())["done"]) if path.exists() else 0)

    def move(self, done: int) -> None:
        """Keep how far it is, durably."""
        self.done = done
        with translated(self.path.parent):
            write_whole(self.path, orjson.dumps({"done": done}).decode())


async def _append(log: EventLog, events: Sequence[Event], done: Imported) -> None:
    if not events:
        return
    for event, place in zip(events, await log.append(events, topic=BULK), strict=True):
        done.events += not place.duplicate
        done.duplicates += place.duplicate
        done.tenants[event.tenant] += 1


def _event(line: Line, tenants: Mapping[str, str], done: Imported) -> Event | None:
    """Read an event as it is to be appended; None: there is nothing to append."""
    if line.discarded:
        done.discarded += 1
        return None
    try:
        value: Any = read_json(line.body)
        if isinstance(value, dict):
            value = {RECORDED: line.recorded_at, **value}  # of an event that was imported before, the first time stays
            value["tenant"] = tenants.get(line.tenant, line.tenant)
        return read_event(value)
    except InputError as error:
        done.refused_count += 1
        if len(done.refused) < REFUSED_SHOWN:
            done.refused.append(f"{_name(line)}: {error}")
        return None


def _name(line: Line) -> str:
    try:
        value = orjson.loads(line.body)
        return f"{value['source']} {value['id']}"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return f"an event of {line.tenant}"


def _checked_lines(path: Path, manifest: ExportManifest) -> Iterator[tuple[int, int]]:
    """Yield (start, order) of each line of a file, and see at its end that it is what was written."""
    expected, digest, start, count = manifest.files[path.name], hashlib.sha256(), 0, 0
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise DataFolderError(f"{path.name} is missing.") from error
    except OSError as error:
        raise DataFolderError(f"{path.name} cannot be read: {error.strerror}.") from error
    with translated(path.parent), file:
        while text := file.readline(LINE_BYTES):
            digest.update(text)
            count += 1
            try:
                order = read_line(text).order
            except ValueError as error:
                raise DataFolderError(f"{path.name}, line {count}: {error}. Nothing was imported.") from error
            yield start, order
            start += len(text)
    if (start, digest.hexdigest(), count) != (expected.bytes, expected.sha256, expected.events):
        raise DataFolderError(
            f"{path.name} is not what was written: it has {count} whole lines, {expected.events} are expected. "
            "Nothing was imported."
        )


def read_tenant_map(pairs: Sequence[str]) -> dict[str, str]:
    """Read OLD=NEW pairs. Raises InvalidInput."""
    mapped: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise InvalidInput(f"{pair!r} is not OLD=NEW.")
        if mapped.setdefault(old, new) != new:
            raise InvalidInput(f"{old!r} is mapped to two tenants.")
        try:
            _TENANT.validate_python(new)
        except ValidationError as error:
            raise InvalidInput(f"{new!r} cannot be a tenant: {error.errors()[0]['msg']}.") from error
    return mapped


def imports_in(data_dir: Path) -> Path:
    """Return the folder of a data folder where imports keep how far they came."""
    return data_dir / "imports"
