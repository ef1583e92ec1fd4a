"""Upkeep of what is searched: scopes, passages with their words, and vectors. Part of one transaction."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping

from schemas.units import Scope, Unit
from shared.embedder import Vectors
from shared.passages import index_terms, passage_id, passage_key
from shared.stores.sqlite import models
from shared.stores.sqlite.rows import load_unit

ADDED, REMOVED = "+", "-"


class Index:
    """Collects what a transaction touches and brings the index up to date at its end, each passage once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}
        self._touched: set[int] = set()
        self._new: set[int] = set()
        self._revectored: set[int] = set()
        self._loose_texts: set[str] = set()
        self._units: dict[int, Unit] = {}
        self._added: Counter[int] = Counter()
        self._dims = models.dims_of(connection)
        self._active = models.active_model(connection)

    def remember(self, statement_id: int, unit: Unit) -> None:
        """Spare reading back a unit that this transaction wrote."""
        self._units[statement_id] = unit

    def unit_of(self, statement_id: int) -> Unit:
        """Return the unit of a statement that has one."""
        if statement_id not in self._units:
            (body,) = self._connection.execute("SELECT body FROM statement WHERE id = ?", (statement_id,)).fetchone()
            self._units[statement_id] = load_unit(body)
        return self._units[statement_id]

    def scope_id(self, scope: Scope) -> int:
        """Return a scope's number, giving it one at its first use."""
        if scope.key not in self._scopes:
            self._connection.execute(
                "INSERT OR IGNORE INTO scope (key, level, entity_id) VALUES (?, ?, ?)",
                (scope.key, scope.level.value, scope.entity_id),
            )
            (number,) = self._connection.execute("SELECT id FROM scope WHERE key = ?", (scope.key,)).fetchone()
            self._scopes[scope.key] = number
        return self._scopes[scope.key]

    def passage_of(self, unit: Unit, content_key: str) -> int:
        """Return the row of a unit's passage, making it where it is new, and have it indexed."""
        key = passage_key(unit, content_key)
        row = self._connection.execute("SELECT id FROM passage WHERE key = ?", (key,)).fetchone()
        if row is None:
            row = (self._add_passage(key, self.scope_id(unit.scope), content_key),)
        self.touch(row[0])
        return int(row[0])

    def touch(self, passage: int) -> None:
        """Have a passage looked at again when the transaction ends."""
        self._touched.add(passage)

    def touch_neighbours(self, session_id: str | None, turn: int | None, scope: int) -> None:
        """Have the turns beside this one looked at again: its words are among theirs."""
        if session_id is None or turn is None:
            return
        rows = self._connection.execute(
            "SELECT passage FROM unit WHERE session_id = ? AND turn IN (?, ?) AND scope = ?",
            (session_id, turn - 1, turn + 1, scope),
        )
        self._touched.update(passage for (passage,) in rows)

    def keep_vectors(self, content_key: str, model: str, vectors: Vectors) -> None:
        """Keep a text's vectors of a model that is known, unless they are there. The first model ever is made known."""
        matrix = models.as_matrix(vectors)
        if not self._dims:
            models.add_model(self._connection, model, matrix.shape[1])
            self._dims, self._active = models.dims_of(self._connection), models.active_model(self._connection)
        if model not in self._dims:
            return
        models.check_dims(model, self._dims[model], matrix.shape[1])
        kept = self._connection.execute(
            "INSERT OR IGNORE INTO text VALUES (?, ?, ?, ?)", (content_key, model, len(matrix), matrix.tobytes())
        )
        if kept.rowcount and model == self._active:
            self.revectored(content_key)

    def replace_vectors(self, model: str, vectors: Mapping[str, Vectors]) -> int:
        """Keep vectors of texts in place of older ones; return how many texts there were to keep them for."""
        kept = models.put_vectors(self._connection, model, vectors)
        if model == self._active:
            for content_key in kept:
                self.revectored(content_key)
        return len(kept)

    def revectored(self, content_key: str) -> None:
        """Have readers told that a text's searched vectors are others than before."""
        rows = self._connection.execute("SELECT id FROM passage WHERE content_key = ?", (content_key,))
        self._revectored.update(passage for (passage,) in rows)

    def is_searched_by(self, found: Collection[str]) -> bool:
        """Tell whether vectors of these models include those that searches use; any do before the first."""
        return self._active is None or self._active in found

    def release_text(self, content_key: str | None) -> None:
        """Have a text's vectors dropped at the end, where no statement that counts has the text any more."""
        if content_key is not None:
            self._loose_texts.add(content_key)

    def finish(self) -> None:
        """Bring words, vectors and the change log in line with the units. Ascending rows: FTS5 flushes at a step back."""
        for passage in sorted(self._touched):
            self._reindex(passage)
        self._connection.executemany(
            "UPDATE scope SET passages = passages + ? WHERE id = ?",
            [(count, scope) for scope, count in self._added.items()],
        )
        for passage in sorted(self._revectored - self._new):
            self._log_change(passage, ADDED)
        for content_key in sorted(self._loose_texts):
            self._connection.execute(
                "DELETE FROM text WHERE content_key = ?1 AND NOT EXISTS "
                "(SELECT 1 FROM statement WHERE content_key = ?1 AND past = 0)",
                (content_key,),
            )

    def _add_passage(self, key: str, scope: int, content_key: str) -> int:
        pid = passage_id(key)
        while (row := self._insert_passage(pid, key, scope, content_key)) is None:
            pid += 1  # two keys share their first 52 bits: the later takes the next number
        self._new.add(row)
        self._added[scope] += 1
        return row

    def _insert_passage(self, pid: int, key: str, scope: int, content_key: str) -> int | None:
        row = self._connection.execute(
            "INSERT INTO passage (pid, key, scope, content_key, words, scope_token) VALUES (?, ?, ?, ?, '', ?) "
            "ON CONFLICT (pid) DO NOTHING RETURNING id",
            (pid, key, scope, content_key, f"s{scope}"),
        ).fetchone()
        return int(row[0]) if row else None

    def _reindex(self, passage: int) -> None:
        row = self._connection.execute("SELECT words, scope_token FROM passage WHERE id = ?", (passage,)).fetchone()
        if row is None:  # touched and dropped before
            return
        old, token = row
        words = self._words(passage)
        if words == old and passage not in self._new:
            return
        if passage not in self._new:
            self._connection.execute(
                "INSERT INTO passage_words (passage_words, rowid, words, scope_token) VALUES ('delete', ?, ?, ?)",
                (passage, old, token),
            )
        if words is None:
            self._drop(passage)
            return
        self._connection.execute("UPDATE passage SET words = ? WHERE id = ?", (words, passage))
        self._connection.execute(
            "INSERT INTO passage_words (rowid, words, scope_token) VALUES (?, ?, ?)", (passage, words, token)
        )
        if passage in self._new:
            self._log_change(passage, ADDED)

    def _drop(self, passage: int) -> None:
        """Take out a passage that no live unit has any more; one that this transaction made was never seen."""
        if passage not in self._new:
            self._log_change(passage, REMOVED)
        ((scope,),) = self._connection.execute(
            "DELETE FROM passage WHERE id = ? RETURNING scope", (passage,)
        ).fetchall()
        self._added[scope] -= 1

    def _words(self, passage: int) -> str | None:
        """Return the passage's analysed words, or None when no live unit has it."""
        members = self._connection.execute(
            "SELECT statement, scope, title FROM unit WHERE passage = ? ORDER BY unit_id LIMIT 2", (passage,)
        ).fetchall()
        if not members:
            return None
        titles = [members[0][2]]
        if len(members) > 1:
            rows = self._connection.execute("SELECT DISTINCT title FROM unit WHERE passage = ?", (passage,))
            titles = [title for (title,) in rows]
        first, scope = self.unit_of(members[0][0]), members[0][1]
        before, after = (self._neighbour(first, scope, step) for step in (-1, 1))
        return " ".join(index_terms(first, filter(None, titles), before, after))

    def _neighbour(self, unit: Unit, scope: int, step: int) -> Unit | None:
        if unit.turn is None:
            return None
        row = self._connection.execute(
            "SELECT statement FROM unit WHERE session_id = ? AND turn = ? AND scope = ? ORDER BY unit_id LIMIT 1",
            (unit.session_id, unit.turn + step, scope),
        ).fetchone()
        return self.unit_of(row[0]) if row else None

    def _log_change(self, passage: int, kind: str) -> None:
        self._connection.execute(
            "INSERT INTO change (passage, scope, kind) SELECT pid, scope, ? FROM passage WHERE id = ?", (kind, passage)
        )
