"""Digests of a tenant's state: equal whatever the order in which the same events came."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from shared.effects import digest_rows, resolution_row
from shared.stores.sqlite.contradictions import STANDING
from shared.stores.sqlite.rows import body_json, load_resolution


def digests(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the digest of each part of the state."""
    return {
        "units": digest_rows(_units(connection)),
        "tombstones": digest_rows(_tombstones(connection)),
        "documents": digest_rows(_documents(connection)),
        "mentions": digest_rows(_mentions(connection)),
        "entities": digest_rows(_declared(connection, "entity")),
        "relations": digest_rows(_declared(connection, "relation")),
        "contradictions": digest_rows(
            connection.execute(
                f"SELECT contradiction.id, difference, detail, attribute FROM {STANDING}"  # noqa: S608 - a constant
            )
        ),
    }


def _units(connection: sqlite3.Connection) -> Iterable[Any]:
    rows = connection.execute(
        "SELECT statement.source, event_id, body FROM unit JOIN statement ON statement.id = unit.statement"
    )
    return ([source, event_id, body_json(body)] for source, event_id, body in rows)


def _tombstones(connection: sqlite3.Connection) -> Iterable[Any]:
    """A tombstone whose revision was its position is told by its unit alone: digests hold no positions."""
    rows = connection.execute("SELECT unit_id, explicit, revision FROM statement WHERE retraction = 1 AND past = 0")
    return ([unit_id, revision if explicit else None] for unit_id, explicit, revision in rows)


def _documents(connection: sqlite3.Connection) -> Iterable[Any]:
    yield from connection.execute("SELECT 'current', document_id, revision, parts, digest FROM document")
    yield from connection.execute("SELECT 'completion', document_id, revision, digest FROM completion")
    yield from connection.execute(
        "SELECT 'waiting', document_id, revision, part, digest FROM statement WHERE document_id IS NOT NULL AND active = 0"
    )


def _mentions(connection: sqlite3.Connection) -> Iterable[Any]:
    rows = connection.execute(
        "SELECT unit.unit_id, resolution FROM unit JOIN statement ON statement.id = unit.statement WHERE resolution IS NOT NULL"
    )
    found = ((unit_id, load_resolution(resolution)) for unit_id, resolution in rows)
    return ([unit_id, resolution_row(resolution.mentions, resolution.claims)] for unit_id, resolution in found)


def _declared(connection: sqlite3.Connection, kind: str) -> Iterable[Any]:
    rows = connection.execute("SELECT identity, retraction, body FROM declared WHERE kind = ?", (kind,))
    return ([identity, retraction, None if retraction else body_json(body)] for identity, retraction, body in rows)
