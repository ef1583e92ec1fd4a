"""Contradictions: pairs as found, and what of them still stands."""

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from shared.store import FoundContradiction, StoredContradiction
from shared.stores.sqlite.rows import as_json_array
from shared.validity import from_micros, micros

STANDING = (
    "contradiction JOIN unit AS a ON a.unit_id = contradiction.unit_a AND a.revision = contradiction.revision_a "
    "JOIN unit AS b ON b.unit_id = contradiction.unit_b AND b.revision = contradiction.revision_b"
)
"""Pairs whose two revisions are both live."""

OPEN = (
    "a.superseded_by IS NULL AND b.superseded_by IS NULL "
    "AND (a.ends IS NULL OR a.ends > :now) AND (b.ends IS NULL OR b.ends > :now)"
)
"""Of those, pairs of which neither side is superseded or ended."""

_COLUMNS = (
    "contradiction.unit_a, contradiction.unit_b, revision_a, revision_b, difference, detail, attribute, similarity, "
    "contradiction.recorded"
)


_OF_CHECKED = "(unit_a IN (SELECT value FROM json_each(?1)) OR unit_b IN (SELECT value FROM json_each(?1)))"
_STANDS = "EXISTS (SELECT 1 FROM unit WHERE unit_id = unit_{0} AND unit.revision = revision_{0})"
_FALLEN = f"NOT ({_STANDS.format('a')} AND {_STANDS.format('b')})"


def replace(
    connection: sqlite3.Connection,
    checked: Collection[str],
    found: Sequence[FoundContradiction],
    recorded_at: datetime,
    *,
    keep_standing: bool,
) -> list[FoundContradiction]:
    """Keep what was found about the checked units; return the pairs that are new.

    ``keep_standing``: others of theirs stay as long as both revisions stand; without it they go. A pair that was known at
    these revisions keeps the time at which it was first found.
    """
    wanted = as_json_array(checked)
    before = {
        (identity, revision_a, revision_b): recorded
        for identity, revision_a, revision_b, recorded in connection.execute(
            f"SELECT id, revision_a, revision_b, recorded FROM contradiction WHERE {_OF_CHECKED}",  # noqa: S608 - constants
            (wanted,),
        ).fetchall()
    }
    fallen = f" AND {_FALLEN}" if keep_standing else ""
    connection.execute(f"DELETE FROM contradiction WHERE {_OF_CHECKED}{fallen}", (wanted,))  # noqa: S608 - constants
    new: list[FoundContradiction] = []
    for pair in found:
        key = (pair.id, *pair.revisions)
        if key not in before:
            new.append(pair)
        connection.execute(
            "INSERT OR REPLACE INTO contradiction VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                pair.id, *pair.units, *pair.revisions, pair.difference, pair.detail, pair.attribute, pair.similarity,
                min(before.get(key, micros(recorded_at)), micros(recorded_at)),
            ),
        )  # fmt: skip
    return new


def listed(
    connection: sqlite3.Connection,
    now: datetime,
    *,
    unit_ids: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    limit: int = 100,
    after: str | None = None,
    open_only: bool = True,
) -> list[StoredContradiction]:
    """Return contradictions by id. Those whose revisions do not stand are in no scope, so ``scopes`` leaves them out."""
    conditions, source = [], STANDING if open_only or scopes is not None else STANDING.replace("JOIN", "LEFT JOIN")
    values: dict[str, Any] = {"now": micros(now), "limit": limit}
    if open_only:
        conditions.append(OPEN)
    if after is not None:
        conditions.append("contradiction.id > :after")
        values["after"] = after
    if unit_ids is not None:
        conditions.append(
            "contradiction.id IN (SELECT id FROM contradiction WHERE unit_a IN (SELECT value FROM json_each(:units)) "
            "UNION SELECT id FROM contradiction WHERE unit_b IN (SELECT value FROM json_each(:units)))"
        )
        values["units"] = as_json_array(unit_ids)
    if scopes is not None:
        readable = "(SELECT id FROM scope WHERE key IN (SELECT value FROM json_each(:scopes)))"
        conditions.append(f"a.scope IN {readable} AND b.scope IN {readable}")
        values["scopes"] = as_json_array(scopes)
    rows = connection.execute(
        f"SELECT {_COLUMNS}, coalesce(a.id AND b.id AND {OPEN}, 0) FROM {source} "  # noqa: S608 - constants
        f"WHERE {' AND '.join(conditions) or '1'} ORDER BY contradiction.id LIMIT :limit",
        values,
    )
    return [_stored(row) for row in rows]


def partners(connection: sqlite3.Connection, now: datetime, unit_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each unit, the units in an open contradiction with it, by id."""
    found: dict[str, set[str]] = {}
    rows = connection.execute(
        f"SELECT a.unit_id, b.unit_id FROM {STANDING} WHERE {OPEN} "  # noqa: S608 - constants
        "AND (contradiction.unit_a IN (SELECT value FROM json_each(:units)) "
        "OR contradiction.unit_b IN (SELECT value FROM json_each(:units)))",
        {"now": micros(now), "units": as_json_array(unit_ids)},
    )
    for first, second in rows:
        found.setdefault(first, set()).add(second)
        found.setdefault(second, set()).add(first)
    return {unit_id: tuple(sorted(others)) for unit_id, others in found.items()}


def count_open(connection: sqlite3.Connection, now: datetime) -> int:
    """Count the open pairs."""
    row = connection.execute(f"SELECT count(*) FROM {STANDING} WHERE {OPEN}", {"now": micros(now)}).fetchone()  # noqa: S608 - constants
    return int(row[0])


def _stored(row: tuple[Any, ...]) -> StoredContradiction:
    unit_a, unit_b, revision_a, revision_b, difference, detail, attribute, similarity, recorded, is_open = row
    pair = FoundContradiction((unit_a, unit_b), (revision_a, revision_b), difference, detail, attribute, similarity)
    return StoredContradiction(pair, from_micros(recorded), bool(is_open))
