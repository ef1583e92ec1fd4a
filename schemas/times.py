"""Moments: a UTC instant or a whole UTC day, with the words in which the producer gave it."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, GetJsonSchemaHandler, field_serializer, model_validator
from pydantic_core import CoreSchema

from schemas.base import Strict

EPOCH_MS_MIN = -62_135_596_800_000  # 0001-01-01
EPOCH_MS_MAX = 253_402_300_799_999  # 9999-12-31
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
DATE_CHARS = 10  # the longest date without a time; the shortest with one, 20260301T09, has eleven


_FORMS: list[dict[str, Any]] = [
    {"type": "string", "description": "a date, or an RFC 3339 time with Z, with an offset, or naive (UTC)"},
    {"type": "integer", "description": "milliseconds since 1970", "minimum": EPOCH_MS_MIN, "maximum": EPOCH_MS_MAX},
    {
        "type": "object",
        "description": "a local time in a zone of the IANA data base",
        "properties": {"at": {"type": "string"}, "zone": {"type": "string"}},
        "required": ["at", "zone"],
        "additionalProperties": False,
    },
]


class Moment(Strict):
    """When something happened or holds: ``at`` in UTC; ``precision`` 'day' means the whole day from ``at`` on.

    Accepted in its place: an RFC 3339 string with Z or an offset; a naive one, read as UTC; a date, read as the whole
    UTC day; an integer, milliseconds since 1970 (UTC); ``{"at": naive string, "zone": "Europe/Berlin"}``, where a local
    time that does not exist (the clocks went forward) is read with the offset from before the gap, and one that exists
    twice is the earlier (PEP 495, fold=0); an offset beside a zone is refused. ``original`` keeps what was given.
    """

    at: datetime = Field(description="UTC")
    precision: Literal["instant", "day"] = "instant"
    original: str = Field(max_length=100)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:  # noqa: PLR0911 - one return a form that is accepted
        if isinstance(value, Moment):
            return value
        if isinstance(value, datetime):
            return {"at": _utc(value), "original": value.isoformat()}
        if isinstance(value, int) and not isinstance(value, bool):
            return _from_epoch_ms(value)
        if isinstance(value, str):
            return _from_text(value, None)
        if not isinstance(value, dict):
            msg = "a moment is a string, an integer of milliseconds, or an object"
            raise ValueError(msg)  # noqa: TRY004 - Pydantic reports ValueError as a validation error
        if "zone" in value:
            return _from_zoned(value)
        if "original" in value:
            at = value.get("at")
            return {**value, "at": _utc(at) if isinstance(at, datetime) else _from_text(str(at), None)["at"]}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Name every form that is accepted: a producer who checks against the schema sends what the docstring says."""
        reference = handler(core_schema)
        if handler.mode == "validation":
            schema = handler.resolve_ref_schema(reference)
            written = {name: schema.pop(name) for name in ("type", "properties", "required", "additionalProperties")}
            schema["anyOf"] = [*_FORMS, written]
        return reference

    @field_serializer("at")
    def _write(self, at: datetime) -> str:
        return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

    @property
    def end(self) -> datetime:
        """The first instant after it: intervals are half open. The calendar's last instant ends with itself."""
        length = timedelta(days=1) if self.precision == "day" else timedelta(microseconds=1)
        return self.at + min(length, LAST_INSTANT - self.at)


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _from_epoch_ms(value: int) -> dict[str, Any]:
    if not EPOCH_MS_MIN <= value <= EPOCH_MS_MAX:
        msg = f"milliseconds since 1970 must be from {EPOCH_MS_MIN} to {EPOCH_MS_MAX}"
        raise ValueError(msg)
    return {"at": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value), "original": str(value)}


def _from_text(text: str, zone: ZoneInfo | None) -> dict[str, Any]:
    try:
        written, precision = _written(text.strip().upper())  # RFC 3339 allows t and z
        at = _utc(written.replace(tzinfo=zone) if zone and written.tzinfo is None else written)
    except (ValueError, OverflowError) as error:
        msg = "not a date or RFC 3339 time, e.g. 2026-03-01T09:00:00Z"
        raise ValueError(msg) from error
    if zone and written.tzinfo:
        msg = "a time in a zone has no offset of its own: give one of them"
        raise ValueError(msg)
    return {"at": at, "precision": precision, "original": text}


def _written(text: str) -> tuple[datetime, Literal["instant", "day"]]:
    if len(text) <= DATE_CHARS:
        return datetime.combine(date.fromisoformat(text), time()), "day"
    if not text.isprintable():  # datetime takes any character between date and time
        raise ValueError
    return datetime.fromisoformat(text), "instant"


def _from_zoned(value: dict[str, Any]) -> dict[str, Any]:
    unknown = set(value) - {"at", "zone"}
    if unknown:
        msg = f"unknown fields {sorted(unknown)}: give 'at' and 'zone'"
        raise ValueError(msg)
    try:
        zone = ZoneInfo(str(value["zone"]))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        msg = f"zone {value['zone']!r} is not an IANA time zone"
        raise ValueError(msg) from error
    read = _from_text(str(value.get("at", "")), zone)
    return {**read, "original": f"{value.get('at')} {value['zone']}"}
