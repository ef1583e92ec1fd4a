"""Units: statements about them, and the live row that the highest-ranked one makes. Part of one transaction."""

import sqlite3
from typing import Any

from schemas.graph import Contribution
from schemas.messages import Mention, ReceiptOutcome
from schemas.units import Scope, Unit
from shared.contributions import removal, unit_contribution, unit_id_of
from shared.effects import Rank, Statement, kept_ranks
from shared.identity import id_key
from shared.mentions import subject_key
from shared.stores.sqlite.index import Index
from shared.stores.sqlite.rows import STATEMENT, insert_statement, rank_from, statement_from
from shared.validity import Successor, held, supersession

_LIVE = (
    "unit_id, statement, passage, scope, type, revision, source, document_id, title, begins, ends, occurred_start, "
    "occurred_end, recorded, moment, start, supersedes, session_id, turn"
)
_PUT = (
    f"INSERT INTO unit ({_LIVE}) VALUES ({', '.join('?' * 19)}) ON CONFLICT (unit_id) DO UPDATE SET "  # noqa: S608 - constants
    + ", ".join(f"{column} = excluded.{column}" for column in _LIVE.split(", ")[1:])
)


class Units:
    """Enters statements and keeps the live units in line with them."""

    def __init__(self, connection: sqlite3.Connection, tenant: str, index: Index) -> None:
        self._connection = connection
        self._tenant = tenant
        self._index = index
        self._statements: dict[int, Statement] = {}

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
            "SELECT revision, retraction, digest, source, event_id, id FROM statement "
            "WHERE unit_id = ? AND document_id IS NULL",
            (statement.unit_id,),
        ).fetchall()
        standing = {rank_from(row[:5]): row[5] for row in rows}
        best = max(standing, default=None)
        again = next((rank for rank in standing if rank[1:] == statement.rank[1:]), None)
        if again is not None and again <= statement.rank:
            return ReceiptOutcome.UNCHANGED if again == best else ReceiptOutcome.STALE
        if again is not None:
            self._forget([standing.pop(again)])  # the same event at an earlier place: the earliest counts
        kept = kept_ranks([*standing, statement.rank])
        if statement.rank not in kept:
            return ReceiptOutcome.STALE
        self._forget([row_id for rank, row_id in standing.items() if rank not in kept])
        row_id = self.insert(statement)
        self._mark_past(statement.unit_id, row_id if kept[0] == statement.rank else standing[kept[0]])
        self.project(statement.unit_id)
        if kept[0] != statement.rank:
            return ReceiptOutcome.STALE
        return ReceiptOutcome.RETRACTED if statement.rank.retraction else ReceiptOutcome.STORED

    def project(self, unit_id: str) -> bool:
        """Bring the live unit in line with the statements; return whether there is one."""
        rows = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id, id FROM statement WHERE unit_id = ? "
            "AND ((document_id IS NULL AND past = 0) OR active = 1)",
            (unit_id,),
        ).fetchall()
        best: tuple[Rank, int] | None = max(((rank_from(row[:5]), row[5]) for row in rows), default=None)
        live = self._connection.execute(
            "SELECT id, statement, passage, scope, session_id, turn, supersedes FROM unit WHERE unit_id = ?", (unit_id,)
        ).fetchone()
        if best is None or best[0].retraction:
            if live is not None:
                self._remove(unit_id, live)
            return False
        if live is None or live[1] != best[1]:
            self._put(unit_id, self._statement(best[1]), best[1], live)
        return True

    def contribution(self, unit_id: str, gone_at: int) -> Contribution:
        """Return what a unit contributes now; where it is gone, its removal at that revision."""
        row = self._connection.execute("SELECT statement FROM unit WHERE unit_id = ?", (unit_id,)).fetchone()
        if row is None:
            return removal(self._tenant, unit_id_of(unit_id), gone_at)
        statement = self._statement(row[0])
        assert statement.unit is not None  # a live unit's statement has a body
        return unit_contribution(self._tenant, statement.unit, statement.rank.revision, statement.mentions)

    def is_live(self, unit_id: str) -> bool:
        """Tell whether there is a live unit of that id."""
        return self._connection.execute("SELECT 1 FROM unit WHERE unit_id = ?", (unit_id,)).fetchone() is not None

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

    def _forget(self, row_ids: list[int]) -> None:
        for row_id in row_ids:
            rows = self._connection.execute("DELETE FROM statement WHERE id = ? RETURNING content_key", (row_id,)).fetchall()
            for (content_key,) in rows:
                self._index.release_text(content_key)

    def _put(self, unit_id: str, statement: Statement, row_id: int, live: tuple[Any, ...] | None) -> None:
        unit = statement.unit
        assert unit is not None  # only assertions are put
        assert statement.content_key is not None
        if live is not None:
            self._leave(live)
        scope = self._index.scope_id(unit.scope)
        times = held(unit, statement.recorded_at)
        self._connection.execute(
            _PUT,
            (
                unit_id, row_id, self._index.passage_of(unit, statement.content_key), scope, unit.type.value,
                statement.rank.revision, statement.rank.source, unit.document_id, unit.title, times.begins, times.ends,
                times.occurred_start, times.occurred_end, times.recorded, times.moment, times.start, unit.supersedes,
                unit.session_id, unit.turn,
            ),
        )  # fmt: skip
        (number,) = self._connection.execute("SELECT id FROM unit WHERE unit_id = ?", (unit_id,)).fetchone()
        self._connection.executemany(
            "INSERT INTO incidence VALUES (?, ?, ?)",
            [(key, number, role) for key, role in roles(unit, statement.mentions).items()],
        )
        self._index.touch_neighbours(unit.session_id, unit.turn, scope)
        self._refresh_supersession(unit_id)
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

    def _remove(self, unit_id: str, live: tuple[Any, ...]) -> None:
        self._leave(live)
        self._connection.execute("DELETE FROM unit WHERE id = ?", (live[0],))
        self._connection.execute("DELETE FROM contradiction WHERE ?1 IN (unit_a, unit_b)", (unit_id,))

    def _refresh_supersession(self, unit_id: str) -> None:
        """Derive anew from when on a unit is superseded, and by which."""
        rows = self._connection.execute(
            "SELECT unit_id, scope.key, start FROM unit JOIN scope ON scope.id = unit.scope WHERE supersedes = ?", (unit_id,)
        ).fetchall()
        own = self._connection.execute(
            "SELECT scope.key FROM unit JOIN scope ON scope.id = unit.scope WHERE unit_id = ? "
            "AND (?2 OR superseded_from IS NOT NULL)",
            (unit_id, bool(rows)),
        ).fetchone()
        if own is None:
            return
        successors = [Successor(successor, Scope.parse(key), start) for successor, key, start in rows]
        since, by = supersession(unit_id, Scope.parse(own[0]), successors)
        self._connection.execute(
            "UPDATE unit SET superseded_from = ?, superseded_by = ? WHERE unit_id = ?", (since, by, unit_id)
        )


def roles(unit: Unit, mentions: tuple[Mention, ...]) -> dict[str, int]:
    """Return the keys by which a unit is found as being about an entity: 2 its subject, 1 a mention, 0 a link."""
    found = {id_key(link.entity_id): 0 for link in unit.entity_links}
    found |= {mention.key: 1 for mention in mentions if mention.key}
    subject = subject_key(unit)
    return found | {subject: 2} if subject else found
