r"""What travels between the stages: a JSON header and raw float32 vectors in one binary body.

``b"CX1\\n"`` + header length (4 bytes, big endian) + header (JSON) + vectors (little-endian float32, row-major).
"""

import struct
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.positions import Position
from schemas.units import Claim, TenantId

MAGIC = b"CX1\n"
_LENGTH = struct.Struct(">I")


class Mention(Record):
    """An entity's trace in a text: half-open character span, folded key, and a guess at its type (or none)."""

    key: str
    surface: str
    start: int
    end: int
    type_guess: str | None = None


class MarkerKind(StrEnum):
    """Why an event goes on without an effect of its own."""

    DEAD = "dead"
    MOVED = "moved"
    """It was sent on to the partition of its key, where it is handled."""


class Marker(Record):
    """Stands for an event that has no effect, so that watermarks never stall."""

    kind: MarkerKind
    stage: str
    reason: str = ""


class Embedding(Record):
    """Which vectors the body holds: ``rows`` (one a chunk of the text) × ``dims``, unit length, of ``model``."""

    model: str
    content_key: str
    rows: int = Field(ge=1)
    dims: int = Field(ge=1)


class Resolution(Record):
    """What the resolve stage found: pure functions of the text."""

    mentions: tuple[Mention, ...] = ()
    claims: tuple[Claim, ...] = ()


class StageMessage(Record):
    """One event on its way through the stages: exactly one goes on for each that comes in, in order.

    ``event`` is the CloudEvent as JSON. ``recorded_at`` comes from the log, never from a stage's clock. ``revision``:
    what the event counts as where its producer gave no revision; None: the number of its position. ``replays``: the dead
    letter from which it comes again, where it stands at another position than the first time.
    """

    version: Literal[1] = 1
    position: Position
    recorded_at: datetime
    revision: int | None = None
    key: str
    event: dict[str, Any] | None = None
    tenant: TenantId | None = None
    event_id: str | None = None
    event_source: str | None = None
    marker: Marker | None = None
    embedding: Embedding | None = None
    resolution: Resolution | None = None
    replays: str | None = None


class ReceiptOutcome(StrEnum):
    """What the store did with an event."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    STALE = "stale"
    RETRACTED = "retracted"
    PENDING_DOCUMENT = "pending-document"
    DECLARED = "declared"
    DEAD = "dead"
    MOVED = "moved"


class Receipt(Record):
    """What changed at the store: the work order of the contradictions stage and of the live feed."""

    version: Literal[1] = 1
    position: Position
    recorded_at: datetime
    tenant: str | None = None
    event_id: str | None = None
    event_source: str | None = None
    outcome: ReceiptOutcome
    units: tuple[str, ...] = Field(default=(), description="ids of units that are live because of this event")
    retracted: tuple[str, ...] = Field(default=(), description="ids of units that are gone because of this event")
    scopes: dict[str, str] = Field(default_factory=dict, description="where each of ``units`` is, by scope key")
    before: dict[str, str] = Field(
        default_factory=dict, description="where those of ``units`` and ``retracted`` were that were live before it"
    )
    kept: tuple[str, ...] = Field(default=(), description="parts of a document whose text is as it was")
    traceparent: str | None = Field(default=None, description="of the event, for whoever traces what follows from it")


def encode_message(message: StageMessage, vectors: bytes = b"") -> bytes:
    """Write a message; ``vectors`` must have the length that ``message.embedding`` states. Raises ValueError."""
    expected = 0 if message.embedding is None else message.embedding.rows * message.embedding.dims * 4
    if len(vectors) != expected:
        msg = f"vectors are {len(vectors)} bytes, the header says {expected}"
        raise ValueError(msg)
    header = message.model_dump_json(exclude_none=True).encode()
    return b"".join((MAGIC, _LENGTH.pack(len(header)), header, vectors))


def decode_message(body: bytes) -> tuple[StageMessage, bytes]:
    """Read a message and its vector bytes. Raises ValueError for anything that `encode_message` did not write."""
    if len(body) < len(MAGIC) + _LENGTH.size or not body.startswith(MAGIC):
        msg = "not a stage message of version 1"
        raise ValueError(msg)
    (length,) = _LENGTH.unpack_from(body, len(MAGIC))
    start = len(MAGIC) + _LENGTH.size
    message = StageMessage.model_validate_json(body[start : start + length])
    vectors = body[start + length :]
    expected = 0 if message.embedding is None else message.embedding.rows * message.embedding.dims * 4
    if len(vectors) != expected:
        msg = f"vectors are {len(vectors)} bytes, the header says {expected}"
        raise ValueError(msg)
    return message, vectors
