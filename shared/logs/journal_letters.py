"""Dead letters in the journal's file: their table, and every statement that touches it. The caller holds the lock."""

import base64
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import orjson

from schemas.status import DeadLetter, LetterMark
from shared.letters import KEPT, LetterFilter, buried, marked
from shared.validity import from_micros, micros

FIRST_SCHEMA: Final = """
CREATE TABLE dead_letter (
    id TEXT PRIMARY KEY, stage TEXT NOT NULL, cause TEXT NOT NULL, detail TEXT NOT NULL, attempts INTEGER NOT NULL,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    tenant TEXT, event_id TEXT, event_source TEXT, failed_at INTEGER NOT NULL,
    body BLOB NOT NULL, headers BLOB NOT NULL, key BLOB
);
CREATE INDEX dead_letter_age ON dead_letter (failed_at, id);
"""
# Letters of version 1 are open ones: nothing could be done about them then.
SINCE_2: Final = """
ALTER TABLE dead_letter ADD COLUMN revision INTEGER;
ALTER TABLE dead_letter ADD COLUMN state TEXT NOT NULL DEFAULT 'open';
ALTER TABLE dead_letter ADD COLUMN resolved_by TEXT;
ALTER TABLE dead_letter ADD COLUMN resolved_at INTEGER;
ALTER TABLE dead_letter ADD COLUMN job TEXT;
ALTER TABLE dead_letter ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
CREATE INDEX dead_letter_event ON dead_letter (event_id, tenant);
"""
_COLUMNS: Final = (
    "id, stage, cause, detail, attempts, topic, partition, offset, tenant, event_id, event_source, failed_at, body, "
    "headers, key, revision, state, resolved_by, resolved_at, job, replays"
)
_NAMES: Final = tuple(_COLUMNS.split(", "))
_PUT: Final = f"INSERT OR REPLACE INTO dead_letter ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in _NAMES)})"  # noqa: S608 - constants
_TRIM: Final = (
    "DELETE FROM dead_letter WHERE id IN "
    "(SELECT id FROM dead_letter WHERE failed_at < ? ORDER BY failed_at, id LIMIT ?)"
)
TRIMMED: Final = 50
"""Letters let go at a burial: more than come in, so that their number falls, and some milliseconds at most."""


def bury(connection: sqlite3.Connection, letter: DeadLetter) -> DeadLetter:
    """Keep a letter by the rule `buried`, and return what is kept.

    Of the letters that are more than `KEPT` older than this one, the `TRIMMED` oldest are let go, open or not.
    """
    kept = buried(find(connection, letter.id), letter)
    _put(connection, kept)
    connection.execute(_TRIM, (micros(letter.failed_at - KEPT), TRIMMED))
    return kept


def mark(connection: sqlite3.Connection, letter_id: str, done: LetterMark) -> bool:
    """Note what was done about a letter by the rule `marked`; False where that changes nothing."""
    known = find(connection, letter_id)
    if known is None or (changed := marked(known, done)) is known:
        return False
    _put(connection, changed)
    return True


def find(connection: sqlite3.Connection, letter_id: str) -> DeadLetter | None:
    """Return one letter."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM dead_letter WHERE id = ?", (letter_id,)).fetchone()  # noqa: S608 - constants
    return None if row is None else _letter(row)


def listed(connection: sqlite3.Connection, which: LetterFilter, limit: int, after: str | None) -> list[DeadLetter]:
    """Return letters, newest first; an unknown ``after`` gives none."""
    given = {
        "tenant": which.tenant,
        "event_id": which.event_id,
        "state": None if which.state is None else which.state.value,
        "stage": which.stage,
        "cause": which.cause,
    }
    chosen = {column: value for column, value in given.items() if value is not None}
    where = ["1", *(f"{column} = :{column}" for column in chosen)]
    if after is not None:
        where.append("(failed_at, id) < (SELECT failed_at, id FROM dead_letter WHERE id = :after)")
    query = (
        f"SELECT {_COLUMNS} FROM dead_letter WHERE {' AND '.join(where)} "  # noqa: S608 - constants
        "ORDER BY failed_at DESC, id DESC LIMIT :limit"
    )
    rows = connection.execute(query, {**chosen, "after": after, "limit": limit}).fetchall()
    return [_letter(row) for row in rows]


def rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return all letters as they lie in the file, for a copy."""
    return connection.execute(f"SELECT {_COLUMNS} FROM dead_letter").fetchall()  # noqa: S608 - constants


def take(connection: sqlite3.Connection, copied: Sequence[tuple[Any, ...]]) -> None:
    """Put letters of another file into this one."""
    connection.executemany(_PUT, [dict(zip(_NAMES, row, strict=True)) for row in copied])


def _put(connection: sqlite3.Connection, letter: DeadLetter) -> None:
    headers = [[name, base64.b64encode(value).decode()] for name, value in letter.headers]
    connection.execute(
        _PUT,
        letter.model_dump()
        | {
            "state": letter.state.value,
            "failed_at": micros(letter.failed_at),
            "resolved_at": None if letter.resolved_at is None else micros(letter.resolved_at),
            "headers": orjson.dumps(headers),
        },
    )


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    fields = dict(zip(_NAMES, row, strict=True))
    resolved_at = fields["resolved_at"]
    return DeadLetter.model_validate(
        fields
        | {
            "failed_at": from_micros(fields["failed_at"]),
            "resolved_at": None if resolved_at is None else from_micros(resolved_at),
            "headers": tuple((name, base64.b64decode(value)) for name, value in orjson.loads(fields["headers"])),
        }
    )
