"""Work that is done anew on what is known: which units are meant, and what their texts were resolved to."""

import sqlite3
from collections.abc import Sequence

from schemas.commands import Selection
from schemas.messages import Resolution
from shared.contributions import found_by, removal, unit_contribution, unit_id_of
from shared.store import Resolved, Resolving, SelectedUnit
from shared.stores.sqlite.rows import STATEMENT, as_json_array, load_unit, statement_from
from shared.validity import from_micros

_FITTING = (
    "unit JOIN statement ON statement.id = unit.statement JOIN scope ON scope.id = unit.scope "
    "WHERE (:scope IS NULL OR scope.key = :scope) AND (:source IS NULL OR unit.source = :source) "
    "AND (:ids IS NULL OR unit.unit_id IN (SELECT value FROM json_each(:ids))) AND (:model IS NULL OR EXISTS "
    "(SELECT 1 FROM text WHERE text.content_key = statement.content_key AND text.model = :model))"
)
_COPIED = (
    "unit_id, revision, retraction, digest, source, event_id, explicit, recorded, position, content_key, document_id, part, "
    "text_digest, past, active, body"
)


def select(connection: sqlite3.Connection, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
    """Return live units that fit, by unit id, those beyond ``after``."""
    rows = connection.execute(
        "SELECT statement.body, statement.id, unit.revision, statement.content_key, unit.recorded "  # noqa: S608 - constants
        f"FROM {_FITTING} AND unit.unit_id > :after ORDER BY unit.unit_id LIMIT :limit",
        {**_values(selection), "after": after, "limit": limit},
    )
    return [
        SelectedUnit(load_unit(body), str(number), revision, content_key, from_micros(recorded))
        for body, number, revision, content_key, recorded in rows
    ]


def count(connection: sqlite3.Connection, selection: Selection) -> int:
    """Return how many live units fit."""
    (units,) = connection.execute(f"SELECT count(*) FROM {_FITTING}", _values(selection)).fetchone()  # noqa: S608 - constants
    return int(units)


def _values(selection: Selection) -> dict[str, str | None]:
    ids = None if selection.unit_ids is None else as_json_array(selection.unit_ids)
    return {"scope": selection.scope, "source": selection.source, "model": selection.model, "ids": ids}


def resolve(connection: sqlite3.Connection, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
    """Keep what texts were resolved to anew; the caller holds the transaction."""
    return [_resolve(connection, tenant, one) for one in resolving]


def _resolve(connection: sqlite3.Connection, tenant: str, one: Resolving) -> Resolved:
    row = connection.execute("SELECT id, statement, moment FROM unit WHERE unit_id = ?", (one.unit_id,)).fetchone()
    if row is None:
        gone = removal(tenant, unit_id_of(one.unit_id), one.revision)
        return Resolved(one.unit_id, None, written=False, contribution=gone)
    number, statement, moment = row
    written = str(statement) == one.version
    if written:
        statement = _replace(connection, number, statement, moment, one.resolution)
    stands = statement_from(
        connection.execute(f"SELECT {STATEMENT} FROM statement WHERE id = ?", (statement,)).fetchone()  # noqa: S608 - constants
    )
    assert stands.unit is not None  # a live unit's statement has a body
    contribution = unit_contribution(tenant, stands.unit, stands.rank.revision, stands.mentions)
    return Resolved(one.unit_id, str(statement), written, contribution)


def _replace(connection: sqlite3.Connection, unit: int, former: int, moment: int, resolution: Resolution) -> int:
    """Write the statement with what was found under a number of its own, so that nothing prepared from the former is
    taken for it; and the keys by which its unit is found.
    """
    found = resolution.model_dump_json(exclude_defaults=True).encode() if resolution != Resolution() else None
    statement, unit_id, body = connection.execute(
        f"INSERT INTO statement ({_COPIED}, resolution) SELECT {_COPIED}, ? FROM statement WHERE id = ? "  # noqa: S608 - constants
        "RETURNING id, unit_id, body",
        (found, former),
    ).fetchone()
    connection.execute("DELETE FROM statement WHERE id = ?", (former,))
    connection.execute("UPDATE unit SET statement = ? WHERE id = ?", (statement, unit))
    connection.execute("DELETE FROM incidence WHERE unit = ?", (unit,))
    connection.executemany(
        "INSERT INTO incidence VALUES (?, ?, ?, ?, ?)",
        [
            (key, 0 if is_subject else 1, -moment, unit_id, unit)
            for key, is_subject in found_by(load_unit(body), resolution.mentions).items()
        ],
    )
    return int(statement)
