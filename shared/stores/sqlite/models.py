"""The embedding models of a tenant: whose vectors are kept, which one is searched, and what lacks its vectors.

The active one stands in ``meta``, where a reader of any release finds it; ``model`` lists all that are kept.
"""

import sqlite3
from collections.abc import Mapping

import numpy as np

from shared.embedder import Vectors
from shared.errors import InvalidInput, UnknownThing
from shared.passages import stated_text
from shared.stores.sqlite.rows import load_unit
from shared.vector_models import Coverage, KnownModel, ModelState, Text

SWITCHED = "m"
"""Kind of change that moves no passage: from here on another model's vectors are searched."""

# Texts that count: of statements that stand, and of parts that wait for their document.
_TEXTS = "FROM statement WHERE past = 0 AND content_key IS NOT NULL"
_WITHOUT = (
    f"{_TEXTS} AND NOT EXISTS "  # noqa: S608 - constants
    "(SELECT 1 FROM text WHERE text.content_key = statement.content_key AND text.model = :model)"
)


def active_model(connection: sqlite3.Connection) -> str | None:
    """Return the model that searches use."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'model'").fetchone()
    return str(row[0]) if row else None


def models(connection: sqlite3.Connection) -> list[KnownModel]:
    """Return all models, the active one first, then by name."""
    active = active_model(connection)
    rows = connection.execute("SELECT name, dims FROM model ORDER BY name != ?, name", (active,))
    return [KnownModel(name, dims, ModelState.ACTIVE if name == active else ModelState.BESIDE) for name, dims in rows]


def dims_of(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the length of a vector of each model that is kept."""
    return dict(connection.execute("SELECT name, dims FROM model").fetchall())


def add_model(connection: sqlite3.Connection, model: str, dims: int) -> None:
    """Make a model known; the first one is the active one. Raises InvalidInput for other dimensions than before."""
    known = dims_of(connection).get(model)
    if known is None:
        connection.execute("INSERT INTO model VALUES (?, ?)", (model, dims))
        if active_model(connection) is None:
            _activate(connection, model)
    else:
        check_dims(model, known, dims)


def check_dims(model: str, known: int, given: int) -> None:
    """Raise InvalidInput where vectors are not as long as their model's."""
    if known != given:
        raise InvalidInput(f"vectors of {model} have {known} dimensions here, and these have {given}")


def coverage(connection: sqlite3.Connection, model: str) -> Coverage:
    """Return how many texts there are, and how many lack a model's vectors."""
    (texts,) = connection.execute(f"SELECT count(DISTINCT content_key) {_TEXTS}").fetchone()
    (without,) = connection.execute(
        f"SELECT count(DISTINCT content_key) {_WITHOUT}",
        {"model": model},
    ).fetchone()
    return Coverage(texts, without)


def texts_without(connection: sqlite3.Connection, model: str, limit: int, after: str) -> list[Text]:
    """Return texts that lack a model's vectors, by content key. Equal texts are told in the words of the first."""
    rows = connection.execute(
        f"SELECT content_key, unit_id, body, min(id) {_WITHOUT} AND content_key > :after "
        "GROUP BY content_key ORDER BY content_key LIMIT :limit",
        {"model": model, "after": after, "limit": limit},
    ).fetchall()
    return [Text(content_key, stated_text(load_unit(body)), unit_id) for content_key, unit_id, body, _ in rows]


def put_vectors(connection: sqlite3.Connection, model: str, vectors: Mapping[str, Vectors]) -> set[str]:
    """Keep vectors of the texts that count, in place of older ones; return the keys of those that were kept."""
    dims = dims_of(connection).get(model)
    kept = set()
    for content_key, rows in vectors.items() if dims is not None else ():
        matrix = as_matrix(rows)
        check_dims(model, dims or 0, matrix.shape[1])
        stored = connection.execute(
            f"INSERT OR REPLACE INTO text SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 {_TEXTS} AND content_key = ?1)",
            (content_key, model, len(matrix), matrix.tobytes()),
        )
        if stored.rowcount:
            kept.add(content_key)
    return kept


def as_matrix(vectors: Vectors) -> Vectors:
    """Return vectors as they are kept: one row a chunk, little-endian float32."""
    return np.ascontiguousarray(np.atleast_2d(vectors), dtype="<f4")


def activate_model(connection: sqlite3.Connection, model: str) -> bool:
    """Let searches use a model, where it has vectors of every text; return whether they do."""
    if model not in dims_of(connection):
        raise UnknownThing(f"nothing is kept of the embedding model {model}")
    if connection.execute(f"SELECT 1 {_WITHOUT} LIMIT 1", {"model": model}).fetchone():
        return False
    if active_model(connection) != model:
        _activate(connection, model)
    return True


def drop_model(connection: sqlite3.Connection, model: str, limit: int) -> int:
    """Forget a model and some of its vectors; return how many went."""
    if active_model(connection) == model:
        raise InvalidInput(f"{model} is the embedding model that is searched; change to another one first")
    connection.execute("DELETE FROM model WHERE name = ?", (model,))
    return connection.execute(
        "DELETE FROM text WHERE rowid IN (SELECT rowid FROM text WHERE model = ? LIMIT ?)", (model, limit)
    ).rowcount


def _activate(connection: sqlite3.Connection, model: str) -> None:
    """The change's number tells snapshots before it from those after it."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('model', ?)", (model,))
    connection.execute("INSERT INTO change (passage, scope, kind) VALUES (0, 0, ?)", (SWITCHED,))
