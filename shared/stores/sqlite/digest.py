"""Fingerprints of a tenant's state: equal whatever the order in which the same events came."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

from shared import fingerprints
from shared.fingerprints import Identified, fingerprints_of, part_digest
from shared.stores.sqlite.contradictions import STANDING
from shared.stores.sqlite.rows import body_json, load_resolution, rank_from


def digests(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the digest of each part of the state."""
    return {part: part_digest(fingerprints_in(connection, part)) for part in fingerprints.PARTS}


def fingerprints_in(connection: sqlite3.Connection, part: str) -> dict[str, str]:
    """Return the fingerprint of each thing of a part of the state, by identity."""
    return fingerprints_of(_VALUES[part](connection))


def _units(connection: sqlite3.Connection) -> Iterator[Identified]:
    rows = connection.execute(
        "SELECT unit.unit_id, statement.source, event_id, body FROM unit JOIN statement ON statement.id = unit.statement"
    )
    for unit_id, source, event_id, body in rows:
        yield fingerprints.live_unit(unit_id, source, event_id, body_json(body))


def _history(connection: sqlite3.Connection) -> Iterator[Identified]:
    rows = connection.execute(
        "SELECT unit_id, revision, retraction, digest, source, event_id, explicit, body FROM statement "
        "WHERE document_id IS NULL AND past = 1 ORDER BY unit_id"
    )
    for unit_id, group in groupby(rows, lambda row: row[0]):
        statements = [(rank_from(row[1:6]), bool(row[6]), body_json(row[7]) if row[7] else None) for row in group]
        yield fingerprints.past(unit_id, sorted(statements, key=lambda statement: statement[0], reverse=True))


def _tombstones(connection: sqlite3.Connection) -> Iterator[Identified]:
    rows = connection.execute("SELECT unit_id, revision, explicit FROM statement WHERE retraction = 1 AND past = 0")
    for unit_id, revision, explicit in rows:
        yield fingerprints.tombstone(unit_id, revision, explicit=bool(explicit))


def _documents(connection: sqlite3.Connection) -> Iterator[Identified]:
    for row in connection.execute("SELECT document_id, revision, parts, digest FROM document"):
        yield fingerprints.standing(*row)
    for row in connection.execute("SELECT document_id, revision, digest FROM completion"):
        yield fingerprints.completion(*row)
    for row in connection.execute(
        "SELECT document_id, revision, part, digest FROM statement WHERE document_id IS NOT NULL AND active = 0"
    ):
        yield fingerprints.waiting(*row)


def _mentions(connection: sqlite3.Connection) -> Iterator[Identified]:
    rows = connection.execute(
        "SELECT unit.unit_id, resolution FROM unit JOIN statement ON statement.id = unit.statement WHERE resolution IS NOT NULL"
    )
    for unit_id, resolution in rows:
        found = load_resolution(resolution)
        yield fingerprints.resolved(unit_id, found.mentions, found.claims)


def _declared(kind: str) -> Callable[[sqlite3.Connection], Iterator[Identified]]:
    def values(connection: sqlite3.Connection) -> Iterator[Identified]:
        rows = connection.execute("SELECT identity, retraction, body FROM declared WHERE kind = ?", (kind,))
        for identity, retraction, body in rows:
            yield fingerprints.declaration(identity, None if retraction else body_json(body))

    return values


def _contradictions(connection: sqlite3.Connection) -> Iterator[Identified]:
    for row in connection.execute(f"SELECT contradiction.id, difference, detail, attribute FROM {STANDING}"):  # noqa: S608 - a constant
        yield fingerprints.contradiction(*row)


_VALUES: Final[dict[str, Callable[[sqlite3.Connection], Iterable[Identified]]]] = {
    "units": _units,
    "history": _history,
    "tombstones": _tombstones,
    "documents": _documents,
    "mentions": _mentions,
    "entities": _declared("entity"),
    "relations": _declared("relation"),
    "contradictions": _contradictions,
}
