"""Statements and units as rows, and back."""

import hashlib
import json
import sqlite3
from functools import lru_cache
from typing import Any

import orjson

from schemas.answers import KnownUnit, UnitState
from schemas.messages import Resolution
from schemas.positions import Position
from schemas.units import Unit
from shared.effects import Rank, Statement
from shared.mentions import subject_key
from shared.store import StoredUnit
from shared.validity import from_micros, micros

STATEMENT = (
    "id, unit_id, revision, retraction, digest, source, event_id, explicit, recorded, position, content_key, "
    "body, resolution"
)
"""Columns that `statement_from` reads, in order."""

_INSERT = (
    "INSERT INTO statement (unit_id, revision, retraction, digest, source, event_id, explicit, recorded, position, "
    "content_key, document_id, part, text_digest, body, resolution) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def insert_statement(connection: sqlite3.Connection, statement: Statement) -> int:
    """Keep a statement; return its row id."""
    unit, rank = statement.unit, statement.rank
    resolution = Resolution(mentions=statement.mentions, claims=statement.claims)
    cursor = connection.execute(
        _INSERT,
        (
            statement.unit_id,
            rank.revision,
            int(rank.retraction),
            rank.digest,
            rank.source,
            rank.event_id,
            int(statement.explicit),
            micros(statement.recorded_at),
            statement.position.token(),
            statement.content_key,
            unit.document_id if unit else None,
            unit.part if unit else None,
            text_digest(unit.text) if unit and unit.document_id else None,
            dump_unit(unit) if unit else None,
            resolution.model_dump_json(exclude_defaults=True).encode()
            if statement.mentions or statement.claims
            else None,
        ),
    )
    assert cursor.lastrowid is not None  # an INSERT that succeeded has one
    return cursor.lastrowid


def dump_unit(unit: Unit) -> bytes:
    """Write a unit as JSON."""
    return unit.model_dump_json(exclude_none=True).encode()


@lru_cache(maxsize=4_096)
def load_unit(body: bytes) -> Unit:
    """Read a unit that `dump_unit` wrote. Reading one costs more than finding it, and good answers repeat."""
    return Unit.model_validate_json(body)


@lru_cache(maxsize=4_096)
def load_resolution(found: bytes | None) -> Resolution:
    """Read what the resolve stage found; nothing was kept where that was nothing."""
    return Resolution.model_validate_json(found) if found else Resolution()


def text_digest(text: str) -> str:
    """Return a short name for the exact text of a part."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def rank_from(row: tuple[Any, ...]) -> Rank:
    """Read (revision, retraction, digest, source, event_id)."""
    revision, retraction, digest, source, event_id = row
    return Rank(revision, bool(retraction), digest, source, event_id)


def statement_from(row: tuple[Any, ...]) -> Statement:
    """Read the columns of `STATEMENT`."""
    _, unit_id, revision, retraction, digest, source, event_id, explicit, recorded, token, content_key, body, found = (
        row
    )
    resolution = load_resolution(found)
    return Statement(
        unit_id=unit_id,
        rank=Rank(revision, bool(retraction), digest, source, event_id),
        explicit=bool(explicit),
        unit=load_unit(body) if body else None,
        recorded_at=from_micros(recorded),
        position=Position.from_token(token),
        content_key=content_key,
        mentions=resolution.mentions,
        claims=resolution.claims,
    )


def known_unit(
    statement_row: tuple[Any, ...],
    unit: Unit,
    *,
    corroborations: int = 1,
    contradiction_refs: tuple[str, ...] = (),
    superseded: tuple[int | None, str | None] = (None, None),
    ends: int | None = None,
) -> KnownUnit:
    """Put a unit together with what is known about it, from the columns of `STATEMENT` and what was derived."""
    _, _, revision, _, _, source, event_id, _, recorded, token, content_key, _, _ = statement_row
    stopped = [end for end in (ends, superseded[0]) if end is not None]
    state = UnitState(
        recorded_at=from_micros(recorded),
        position=token,
        revision=revision,
        source=source,
        event_id=event_id,
        content_key=content_key,
        corroborations=corroborations,
        contradiction_refs=contradiction_refs,
        superseded_by=superseded[1],
        held_until=from_micros(min(stopped)) if stopped else None,
    )
    return KnownUnit(unit=unit, state=state)


def stored_unit(known: KnownUnit, pid: int, resolution: bytes | None) -> StoredUnit:
    """Add what the resolve stage found."""
    found = load_resolution(resolution)
    return StoredUnit(known, pid, found.mentions, subject_key(known.unit), found.claims)


def as_json_array(values: Any) -> str:
    """Write values for ``IN (SELECT value FROM json_each(?))``: one statement, whatever the count."""
    return json.dumps(list(values))


def body_json(body: bytes) -> Any:
    """Read stored JSON."""
    return orjson.loads(body)
