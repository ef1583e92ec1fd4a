"""The form of an export: a folder of files of events, one JSON object a line, and a manifest with their checksums."""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import Field, ValidationError

from compose.local.folder import translated, write_whole
from schemas.base import Record
from shared.effects import canonical
from shared.errors import DataFolderError, UnsupportedVersion
from shared.log import LogRecord

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SUM_CHARACTERS: Final = 16
"""Of a line's own checksum: it finds the damaged line; that the file is whole is SHA-256's to say."""
LINE_BYTES: Final = 2 * 1024 * 1024
"""The longest line: an event of at most 256 kB, as base64 at the worst, and what stands around it."""
FileName = Annotated[str, Field(pattern=r"^events-[0-9]{5,9}\.jsonl$")]


class ExportedFile(Record):
    """One file of an export."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    events: Annotated[int, Field(ge=1)]


class ExportManifest(Record):
    """What an export holds. ``tenant``: the only one, None: all; ``reached``: per topic/partition the last number written;
    ``complete``: it ended with the log's last event of that time.
    """

    kind: Literal["cortex-export"] = "cortex-export"
    format: int = FORMAT
    release: str
    made_at: datetime
    log_id: str
    tenant: str | None = None
    complete: bool = False
    events: Annotated[int, Field(ge=0)] = 0
    tenants: dict[str, int] = Field(default_factory=dict)
    reached: dict[str, int] = Field(default_factory=dict)
    files: dict[FileName, ExportedFile] = Field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """An exported event. ``order``: what it counted as where its producer gave no revision, so that events of two topics
    compare; ``body``: its JSON, or bytes that were none; ``discarded``: somebody has said that nothing shall come of it.
    """

    order: int
    recorded_at: str
    tenant: str
    body: bytes
    discarded: bool


def write_line(record: LogRecord, *, discarded: bool) -> bytes:
    """Write an event as a line."""
    place = record.position
    said: dict[str, Any] = {
        "order": place.number if record.revision is None else record.revision,
        "topic": place.topic,
        "partition": place.partition,
        "number": place.number,
        "recorded_at": record.recorded_at.isoformat(),
        "tenant": record.tenant,
    }
    try:
        said["event"] = orjson.loads(record.body)
    except orjson.JSONDecodeError:
        said["raw"] = base64.b64encode(record.body).decode()
    if discarded:
        said["discarded"] = True
    return canonical({**said, "sum": _sum(said)}) + b"\n"


def read_line(text: bytes) -> Line:
    """Read a line. Raises ValueError that says what is wrong with it."""
    try:
        said = orjson.loads(text)
        stated = said.pop("sum")
        if stated != _sum(said):
            msg = "its checksum does not fit"
            raise ValueError(msg)
        body = orjson.dumps(said["event"]) if "event" in said else base64.b64decode(said["raw"], validate=True)
        return Line(int(said["order"]), said["recorded_at"], said["tenant"], body, bool(said.get("discarded")))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        msg = f"it is no line of an export ({type(error).__name__})"
        raise ValueError(msg) from error


def read_manifest(folder: Path) -> ExportManifest | None:
    """Read what an export says of itself; None where there is none. Raises UnsupportedVersion, DataFolderError."""
    try:
        value = orjson.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataFolderError(f"the {MANIFEST} of {folder} cannot be read: {error}.") from error
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise UnsupportedVersion(f"{folder} has format {found!r}; this release reads {FORMAT}.")
    try:
        return ExportManifest.model_validate(value)
    except ValidationError as error:
        raise DataFolderError(f"the {MANIFEST} of {folder} is damaged: {error.error_count()} faults.") from error


def write_manifest(folder: Path, manifest: ExportManifest) -> None:
    """Write the manifest so that it is there wholly or not at all. Raises DiskFull, FolderReadOnly, DataFolderError."""
    with translated(folder):
        write_whole(folder / MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def _sum(said: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(said)).hexdigest()[:SUM_CHARACTERS]
