"""Units: statements about them, and the live row that the highest-ranked one makes. Part of one transaction."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from schemas.graph import Contribution
from schemas.messages import ReceiptOutcome
from schemas.units import Scope
from shared.contributions import found_by, removal, unit_contribution, unit_id_of
from shared.effects import Rank, Statement, kept_ranks
from shared.stores.sqlite.index import Index
from shared.stores.sqlite.rows import STATEMENT, insert_statement, rank_from, statement_from
from shared.validity import Successor, held, micros, supersession

NAME_ONLY = 2
"""Value of ``past`` for a statement of which only the name is kept."""

_LIVE = (
    "unit_id, statement, passage, scope, type, revision, source, document_id, title, begins, ends, occurred_start, "
    "occurred_end, recorded, moment, start, supersedes, session_id, turn"
)
_PUT = (
    f"INSERT INTO unit ({_LIVE}) VALUES ({', '.join('?' * 19)}) ON CONFLICT (unit_id) DO UPDATE SET "  # noqa: S608 - constants
    + ", ".join(f"{column} = excluded.{column}" for column in _LIVE.split(", ")[1:])
    + " RETURNING id"
)


class Units:
    """Enters statements and keeps the live units in line with them."""

    def __init__(self, connection: sqlite3.Connection, tenant: str, index: Index) -> None:
        self._connection = connection
        self._tenant = tenant
        self._index = index
        self._statements: dict[int, Statement] = {}
        self._now: dict[str, Statement | None] = {}
        self._before: dict[str, str] = {}
        self._same: set[str] = set()

    def begin(self) -> None:
        """Begin an effect: `before` and `same` tell what it alone has moved."""
        self._before.clear()
        self._same.clear()

    def before(self, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return where those of the units were that were live and that this effect has moved."""
        return {unit_id: self._before[unit_id] for unit_id in unit_ids if unit_id in self._before}

    def same(self, unit_ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of the units whose text and scope this effect has left as they were."""
        return tuple(unit_id for unit_id in unit_ids if unit_id in self._same)

    def scopes(self, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return where each live unit is."""
        live = {unit_id: self._live(unit_id) for unit_id in unit_ids}
        return {unit_id: said.unit.scope.key for unit_id, said in live.items() if said is not None and said.unit}

    def insert(self, statement: Statement) -> int:
        """Keep a statement; return its row id."""
        row_id = insert_statement(self._connection, statement)
        self._statements[row_id] = statement
        if statement.unit is not None:
            self._index.remember(row_id, statement.unit)
        return row_id

    def enter(self, statement: Statement) -> ReceiptOutcome:
        """Enter what is said about a unit that stands for itself, or its retraction."""
        rows = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id, id, past, document_id FROM statement WHERE unit_id = ?",
            (statement.unit_id,),
        ).fetchall()
        if not rows:
            return self._begin(statement)
        rows = [row for row in rows if row[7] is None]
        standing = {rank_from(row[:5]): row[5] for row in rows}
        best = max(standing, default=None)
        again = next((rank for rank in standing if rank[1:] == statement.rank[1:]), None)
        if again is not None and again <= statement.rank:
            self.record_earlier(standing[again], statement)
            return ReceiptOutcome.UNCHANGED if again == best else ReceiptOutcome.STALE
        if again is not None:
            self._delete(standing.pop(again))  # the same event at an earlier place: the earliest counts
        kept = kept_ranks([*standing, statement.rank])
        if statement.rank not in kept:
            return ReceiptOutcome.STALE
        forgotten = {row[5] for row in rows if row[6] == NAME_ONLY}
        for rank, row_id in standing.items():
            if rank not in kept and row_id not in forgotten:
                self._forget(row_id)
        row_id = self.insert(statement)
        self._mark_past(statement.unit_id, row_id if kept[0] == statement.rank else standing[kept[0]])
        self.project(statement.unit_id)
        if kept[0] != statement.rank:
            return ReceiptOutcome.STALE
        return ReceiptOutcome.RETRACTED if statement.rank.retraction else ReceiptOutcome.STORED

    def record_earlier(self, row_id: int, statement: Statement) -> None:
        """Note where and when the same event was recorded first, where that is news; the live unit's times follow."""
        kept = self._statement(row_id)
        if not statement.is_earlier(kept):
            return
        self._connection.execute(
            "UPDATE statement SET recorded = ?, position = ? WHERE id = ?",
            (micros(statement.recorded_at), statement.position.token(), row_id),
        )
        del self._statements[row_id]
        live = self._live_row(statement.unit_id)
        if live is not None and live[1] == row_id:
            self._put(statement.unit_id, self._statement(row_id), row_id, live)

    def _begin(self, statement: Statement) -> ReceiptOutcome:
        """Enter the first statement about a unit: the usual case, and nothing is there to compare it with."""
        row_id = self.insert(statement)
        if statement.rank.retraction:
            return ReceiptOutcome.RETRACTED
        self._put(statement.unit_id, statement, row_id, None)
        return ReceiptOutcome.STORED

    def project(self, unit_id: str) -> bool:
        """Bring the live unit in line with the statements; return whether there is one."""
        rows = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id, id FROM statement WHERE unit_id = ? "
            "AND ((document_id IS NULL AND past = 0) OR active = 1)",
            (unit_id,),
        ).fetchall()
        best: tuple[Rank, int] | None = max(((rank_from(row[:5]), row[5]) for row in rows), default=None)
        live = self._live_row(unit_id)
        if best is None or best[0].retraction:
            if live is not None:
                self._remove(unit_id, live)
            return False
        if live is None or live[1] != best[1]:
            self._put(unit_id, self._statement(best[1]), best[1], live)
        return True

    def _live_row(self, unit_id: str) -> tuple[Any, ...] | None:
        return self._connection.execute(  # type: ignore[no-any-return] # a row
            "SELECT id, statement, passage, scope, session_id, turn, supersedes FROM unit WHERE unit_id = ?", (unit_id,)
        ).fetchone()

    def contribution(self, unit_id: str, gone_at: int) -> Contribution:
        """Return what a unit contributes now; where it is gone, its removal at that revision."""
        statement = self._live(unit_id)
        if statement is None:
            return removal(self._tenant, unit_id_of(unit_id), gone_at)
        assert statement.unit is not None  # a live unit's statement has a body
        return unit_contribution(self._tenant, statement.unit, statement.rank.revision, statement.mentions)

    def is_live(self, unit_id: str) -> bool:
        """Tell whether there is a live unit of that id."""
        if unit_id in self._now:
            return self._now[unit_id] is not None
        return self._connection.execute("SELECT 1 FROM unit WHERE unit_id = ?", (unit_id,)).fetchone() is not None

    def _live(self, unit_id: str) -> Statement | None:
        """Return what makes a unit live; to be asked after `project`, for before it the statement may be gone."""
        if unit_id not in self._now:
            row = self._connection.execute("SELECT statement FROM unit WHERE unit_id = ?", (unit_id,)).fetchone()
            self._now[unit_id] = self._statement(row[0]) if row else None
        return self._now[unit_id]

    def _statement(self, row_id: int) -> Statement:
        if row_id not in self._statements:
            row = self._connection.execute(
                f"SELECT {STATEMENT} FROM statement WHERE id = ?",  # noqa: S608 - constants
                (row_id,),
            ).fetchone()
            self._statements[row_id] = statement_from(row)
        return self._statements[row_id]

    def _mark_past(self, unit_id: str, best: int) -> None:
        """Make all but one of the unit's own statements history; history needs no vectors."""
        rows = self._connection.execute(
            "UPDATE statement SET past = 1 WHERE unit_id = ? AND document_id IS NULL AND past = 0 AND id != ? "
            "RETURNING content_key",
            (unit_id, best),
        ).fetchall()
        for (content_key,) in rows:
            self._index.release_text(content_key)

    def _forget(self, row_id: int) -> None:
        """Keep nothing of a statement but its name, and that only where a redelivery could pass for news.

        A revision that the producer gave tells a redelivery as old; one taken from the position would not.
        """
        row = self._connection.execute("SELECT explicit, content_key FROM statement WHERE id = ?", (row_id,)).fetchone()
        self._index.release_text(row[1])
        if row[0]:
            self._delete(row_id)
            return
        self._connection.execute(
            "UPDATE statement SET past = ?, body = NULL, resolution = NULL, content_key = NULL WHERE id = ?",
            (NAME_ONLY, row_id),
        )

    def _delete(self, row_id: int) -> None:
        rows = self._connection.execute(
            "DELETE FROM statement WHERE id = ? RETURNING content_key", (row_id,)
        ).fetchall()
        for (content_key,) in rows:
            self._index.release_text(content_key)

    def _put(self, unit_id: str, statement: Statement, row_id: int, live: tuple[Any, ...] | None) -> None:
        unit = statement.unit
        assert unit is not None  # only assertions are put
        assert statement.content_key is not None
        if live is not None:
            self._leave(live)
        scope = self._index.scope_id(unit.scope)
        passage = self._index.passage_of(unit, statement.content_key)
        if live is not None:
            self._note(unit_id, live)
            if (passage, scope) == (live[2], live[3]):
                self._same.add(unit_id)
        times = held(unit, statement.recorded_at)
        (number,) = self._connection.execute(
            _PUT,
            (
                unit_id, row_id, passage, scope, unit.type.value,
                statement.rank.revision, statement.rank.source, unit.document_id, unit.title, times.begins, times.ends,
                times.occurred_start, times.occurred_end, times.recorded, times.moment, times.start, unit.supersedes,
                unit.session_id, unit.turn,
            ),
        ).fetchone()  # fmt: skip
        self._now[unit_id] = statement
        self._connection.executemany(
            "INSERT INTO incidence VALUES (?, ?, ?, ?, ?)",
            [
                (key, 0 if is_subject else 1, -times.moment, unit_id, number)
                for key, is_subject in found_by(unit, statement.mentions).items()
            ],
        )
        self._index.touch_neighbours(unit.session_id, unit.turn, scope)
        self._refresh_supersession(unit_id, is_new=live is None)
        if unit.supersedes is not None:
            self._refresh_supersession(unit.supersedes)

    def _leave(self, live: tuple[Any, ...]) -> None:
        """Take a live unit out of everything that was derived from its present statement."""
        number, _, passage, scope, session_id, turn, supersedes = live
        self._connection.execute("DELETE FROM incidence WHERE unit = ?", (number,))
        self._index.touch(passage)
        self._index.touch_neighbours(session_id, turn, scope)
        if supersedes is not None:
            self._connection.execute("UPDATE unit SET supersedes = NULL WHERE id = ?", (number,))
            self._refresh_supersession(supersedes)

    def _note(self, unit_id: str, live: tuple[Any, ...]) -> None:
        (key,) = self._connection.execute("SELECT key FROM scope WHERE id = ?", (live[3],)).fetchone()
        self._before.setdefault(unit_id, key)

    def _remove(self, unit_id: str, live: tuple[Any, ...]) -> None:
        self._note(unit_id, live)
        self._leave(live)
        self._connection.execute("DELETE FROM unit WHERE id = ?", (live[0],))
        self._connection.execute("DELETE FROM contradiction WHERE unit_a = ?1 OR unit_b = ?1", (unit_id,))
        self._now[unit_id] = None

    def _refresh_supersession(self, unit_id: str, *, is_new: bool = False) -> None:
        """Derive anew from when on a unit is superseded, and by which."""
        rows = self._connection.execute(
            "SELECT unit_id, scope.key, start FROM unit JOIN scope ON scope.id = unit.scope WHERE supersedes = ?",
            (unit_id,),
        ).fetchall()
        if not rows and is_new:
            return
        own = self._connection.execute(
            "SELECT scope.key, start, supersedes FROM unit JOIN scope ON scope.id = unit.scope WHERE unit_id = ? "
            "AND (?2 OR superseded_from IS NOT NULL)",
            (unit_id, bool(rows)),
        ).fetchone()
        if own is None:
            return
        successors = [Successor(successor, Scope.parse(key), start) for successor, key, start in rows]
        key, start, supersedes = own
        since, by = supersession(Successor(unit_id, Scope.parse(key), start, supersedes), successors)
        self._connection.execute(
            "UPDATE unit SET superseded_from = ?, superseded_by = ? WHERE unit_id = ?", (since, by, unit_id)
        )
