"""A dead letter as a record of ``cortex.dead-letters``: the original bytes and headers, and what happened in headers of ours."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from schemas.status import DeadLetter, LetterMark
from shared.kafka import Outgoing

OURS = "cortex-letter-"
_ID = f"{OURS}id"
_MARK = f"{OURS}mark"
_TEXT = ("stage", "cause", "detail", "topic")
_NUMBERS = ("attempts", "partition", "offset", "revision")
_NAMES = ("tenant", "event_id", "event_source")


def letter_record(letter: DeadLetter) -> Outgoing:
    """Write a burial. The key is the event's, so that what became of one thing stays in order."""
    said: dict[str, Any] = {name: getattr(letter, name) for name in (*_TEXT, *_NUMBERS, *_NAMES)}
    said |= {"id": letter.id, "failed_at": letter.failed_at.isoformat()}
    ours = tuple((f"{OURS}{name}", str(value).encode()) for name, value in said.items() if value is not None)
    original = tuple((name, value) for name, value in letter.headers if not name.startswith(OURS))
    return Outgoing(letter.key or letter.id.encode(), letter.body, (*original, *ours))


def mark_record(letter: DeadLetter, mark: LetterMark) -> Outgoing:
    """Write what somebody has done about a letter."""
    headers = ((_ID, letter.id.encode()), (_MARK, mark.model_dump_json(exclude_none=True).encode()))
    return Outgoing(letter.key or letter.id.encode(), b"", headers)


def letter_of(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]
) -> DeadLetter | tuple[str, LetterMark] | None:
    """Read a burial, or a letter's id with what was done about it; None for what is neither."""
    ours = {name.removeprefix(OURS): text.decode("utf-8", "replace") for name, text in headers if name.startswith(OURS)}
    try:
        if "mark" in ours:
            return ours["id"], LetterMark.model_validate_json(ours["mark"])
        fields: dict[str, Any] = {name: ours[name] for name in _TEXT}
        fields |= {name: int(ours[name]) for name in _NUMBERS if name in ours}
        fields |= {name: ours.get(name) for name in _NAMES}
        original = tuple((name, text) for name, text in headers if not name.startswith(OURS))
        return DeadLetter(
            id=ours["id"],
            failed_at=datetime.fromisoformat(ours["failed_at"]),
            body=value or b"",
            headers=original,
            key=key,
            **fields,
        )
    except (KeyError, ValueError, ValidationError):
        return None
