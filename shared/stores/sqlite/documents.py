"""Documents: parts wait until their revision is complete, then it replaces the old one in one step."""

import sqlite3
from dataclasses import dataclass

from schemas.events import DocumentCompleted
from schemas.messages import ReceiptOutcome
from shared.effects import Rank, Statement, choose_parts, data_digest
from shared.stores.sqlite.index import Index
from shared.stores.sqlite.rows import body_json, rank_from, text_digest
from shared.stores.sqlite.units import Units


@dataclass(frozen=True)
class Turned:
    """What became of a document's units: those that are live now, and those that are gone."""

    outcome: ReceiptOutcome
    live: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    revision: int = 0


class Documents:
    """Enters parts and completions, and turns a document to its highest complete revision."""

    def __init__(self, connection: sqlite3.Connection, index: Index, units: Units) -> None:
        self._connection = connection
        self._index = index
        self._units = units

    def enter_part(self, statement: Statement) -> Turned:
        """Enter a part. It is live at once where its document's revision is the present one, or is complete by it."""
        unit, rank = statement.unit, statement.rank
        assert unit is not None  # retractions are entered by unit
        assert unit.document_id is not None
        if rank.revision < self._first_open(unit.document_id):
            return Turned(ReceiptOutcome.STALE)
        row = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id, id, active, unit_id FROM statement "
            "WHERE document_id = ? AND revision = ? AND part = ? AND text_digest = ?",
            (unit.document_id, rank.revision, unit.part, text_digest(unit.text)),
        ).fetchone()
        if row is None:
            self._units.insert(statement)
            turned = self._settle(unit.document_id)
            return turned or Turned(ReceiptOutcome.PENDING_DOCUMENT)
        _, _, _, _, _, row_id, active, former = row
        if rank > rank_from(row[:5]):
            self._connection.execute("DELETE FROM statement WHERE id = ?", (row_id,))
            new_id = self._units.insert(statement)
            self._connection.execute("UPDATE statement SET active = ? WHERE id = ?", (active, new_id))
        else:
            self._units.record_earlier(row_id, statement)
        if not active:
            return Turned(ReceiptOutcome.PENDING_DOCUMENT)
        live, gone = self._project({former, unit.id})
        outcome = ReceiptOutcome.UNCHANGED if rank <= rank_from(row[:5]) else ReceiptOutcome.STORED
        return Turned(outcome, tuple(live), tuple(gone), rank.revision)

    def complete(self, event: DocumentCompleted) -> Turned:
        """Enter a completion, or with no parts the document's retraction."""
        data = event.data
        rank = Rank(data.revision, data.parts == 0, data_digest(data), event.source, event.id)
        standing = self._standing(data.id)
        if standing is not None and data.revision < standing[0].revision:
            return Turned(ReceiptOutcome.STALE)
        row = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id FROM completion "
            "WHERE document_id = ? AND revision = ? AND digest = ?",
            (data.id, data.revision, rank.digest),
        ).fetchone()
        if row is None or rank > rank_from(row):
            self._connection.execute(
                "INSERT OR REPLACE INTO completion VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (data.id, *rank, data.parts, data.hash, data.model_dump_json(exclude_none=True).encode()),
            )
        turned = self._settle(data.id)
        if turned is not None:
            return turned
        standing = self._standing(data.id)
        if standing is None or standing[0].revision < data.revision:
            return Turned(ReceiptOutcome.PENDING_DOCUMENT)
        if standing[0].digest != rank.digest:
            return Turned(ReceiptOutcome.STALE)
        return Turned(ReceiptOutcome.UNCHANGED, self._live(data.id), self._departed(data.id), data.revision)

    def _settle(self, document_id: str) -> Turned | None:
        """Turn the document to its best complete revision; None where it stands there already."""
        best = self._best(document_id)
        if best is None:
            return None
        rank, parts, chosen = best
        standing = self._standing(document_id)
        rows = self._connection.execute(
            "SELECT id, unit_id FROM statement WHERE document_id = ? AND active = 1", (document_id,)
        ).fetchall()
        if standing is not None and standing[0] == rank and {row_id for row_id, _ in rows} == set(chosen):
            return None
        affected = {unit_id for _, unit_id in rows} | set(chosen.values())
        self._turn(document_id, rank, parts, chosen)
        live, gone = self._project(affected)
        self._connection.execute("DELETE FROM departed WHERE document_id = ?", (document_id,))
        self._connection.executemany("INSERT INTO departed VALUES (?, ?)", [(document_id, unit_id) for unit_id in gone])
        outcome = ReceiptOutcome.RETRACTED if rank.retraction else ReceiptOutcome.STORED
        return Turned(outcome, tuple(live), tuple(gone), rank.revision)

    def _turn(self, document_id: str, rank: Rank, parts: int, chosen: dict[int, str]) -> None:
        """Make the chosen statements the document's parts, and drop what is older."""
        execute = self._connection.execute
        execute(
            "INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?, ?, ?)",
            (document_id, rank.revision, parts, rank.digest, rank.source, rank.event_id),
        )
        execute("UPDATE statement SET active = 0 WHERE document_id = ? AND active = 1", (document_id,))
        self._connection.executemany("UPDATE statement SET active = 1 WHERE id = ?", [(row_id,) for row_id in chosen])
        dropped = execute(
            "DELETE FROM statement WHERE document_id = ? AND revision < ? RETURNING content_key",
            (document_id, self._first_open(document_id)),
        ).fetchall()
        for (content_key,) in dropped:
            self._index.release_text(content_key)
        execute("DELETE FROM completion WHERE document_id = ? AND revision < ?", (document_id, rank.revision))

    def _best(self, document_id: str) -> tuple[Rank, int, dict[int, str]] | None:
        """Return the best completion whose parts are all there, with its statements (row id → unit id)."""
        rows = self._connection.execute(
            "SELECT revision, retraction, digest, source, event_id, parts, hash FROM completion WHERE document_id = ?",
            (document_id,),
        ).fetchall()
        for row in sorted(rows, key=lambda row: rank_from(row[:5]), reverse=True):
            chosen = self._chosen(document_id, row[0], parts=row[5], wanted=row[6])
            if chosen is not None:
                return rank_from(row[:5]), row[5], chosen
        return None

    def _chosen(self, document_id: str, revision: int, *, parts: int, wanted: str) -> dict[int, str] | None:
        if parts == 0:
            return {}
        (there,) = self._connection.execute(
            "SELECT count(DISTINCT part) FROM statement WHERE document_id = ? AND revision = ? AND part < ?",
            (document_id, revision, parts),
        ).fetchone()
        if there < parts:
            return None
        candidates: dict[int, dict[str, tuple[int, str]]] = {}
        rows = self._connection.execute(
            "SELECT id, unit_id, part, body FROM statement WHERE document_id = ? AND revision = ? AND part < ?",
            (document_id, revision, parts),
        )
        for row_id, unit_id, part, body in rows:
            candidates.setdefault(part, {})[body_json(body)["text"]] = (row_id, unit_id)
        texts = choose_parts({part: list(found) for part, found in candidates.items()}, parts, wanted)
        return None if texts is None else dict(candidates[part][text] for part, text in enumerate(texts))

    def _standing(self, document_id: str) -> tuple[Rank, int] | None:
        row = self._connection.execute(
            "SELECT revision, parts = 0, digest, source, event_id, parts FROM document WHERE document_id = ?",
            (document_id,),
        ).fetchone()
        return (rank_from(row[:5]), row[5]) if row else None

    def _first_open(self, document_id: str) -> int:
        """Return the lowest revision whose parts may still matter: a retraction leaves none at its own."""
        standing = self._standing(document_id)
        return 0 if standing is None else standing[0].revision + standing[0].retraction

    def _project(self, unit_ids: set[str]) -> tuple[list[str], list[str]]:
        live: list[str] = []
        gone: list[str] = []
        for unit_id in sorted(unit_ids):
            was = self._units.is_live(unit_id)
            if self._units.project(unit_id):
                live.append(unit_id)
            elif was:
                gone.append(unit_id)
        return live, gone

    def _live(self, document_id: str) -> tuple[str, ...]:
        rows = self._connection.execute(
            "SELECT unit_id FROM unit WHERE document_id = ? ORDER BY unit_id", (document_id,)
        )
        return tuple(unit_id for (unit_id,) in rows)

    def _departed(self, document_id: str) -> tuple[str, ...]:
        rows = self._connection.execute(
            "SELECT unit_id FROM departed WHERE document_id = ? ORDER BY unit_id", (document_id,)
        )
        return tuple(unit_id for (unit_id,) in rows)
