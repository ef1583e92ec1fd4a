"""The keyword arm: one FTS5 MATCH over all readable scopes, ranked by BM25."""

import sqlite3
from collections.abc import Sequence
from threading import Lock

from shared.passages import telling_terms
from shared.store import PassageHit
from shared.stores.sqlite.filters import Candidate, Scoped

SCOPES_IN_MATCH = 64
"""Scopes written into the MATCH expression; more are filtered by a join, for FTS5 bounds how deep an expression may be."""

WIDE = 0.5
"""From this share of all passages on, leaving the scopes out of the MATCH and dropping more hits is cheaper: BM25 counts
the passages of each word in it, scopes too (100,000 passages, two thirds readable: 8 instead of 11 CPU-ms).
"""

DRIFT = 100
"""A term's count may be old by one change for so many passages: at 100,000 passages, by 1,000. Below 100 it is exact."""

TERMS_KEPT = 20_000
MARGIN = 16
GROWTH = 4

_RANKED = """
SELECT passage.pid, passage.id, -found.score FROM (
    SELECT rowid AS row, bm25(passage_words, 1.0, 0.0) AS score FROM passage_words
    WHERE passage_words MATCH :match {scopes} ORDER BY score, rowid LIMIT :count
) AS found JOIN passage ON passage.id = found.row
"""
_IN_SCOPES = "AND (SELECT scope FROM passage WHERE passage.id = rowid) IN (SELECT value FROM json_each(:scopes))"


class TermCounts:
    """Remembers in how many passages a term occurs: counting a common one costs as much as searching for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, tuple[int, int]] = {}

    def telling(self, connection: sqlite3.Connection, terms: Sequence[str], seq: int) -> list[str]:
        """Return the terms worth searching for, in a snapshot that stands at change ``seq``."""
        (passages,) = connection.execute("SELECT coalesce(sum(passages), 0) FROM scope").fetchone()
        counts = {term: self._count(connection, term, seq, passages) for term in terms if _can_be_searched(term)}
        return telling_terms(counts, passages)

    def _count(self, connection: sqlite3.Connection, term: str, seq: int, passages: int) -> int:
        with self._lock:
            count, counted_at = self._counts.get(term, (0, -1))
        if counted_at >= 0 and abs(seq - counted_at) <= passages // DRIFT:
            return count
        row = connection.execute("SELECT doc FROM term WHERE term = ? AND col = 'words'", (term,)).fetchone()
        count = int(row[0]) if row else 0
        with self._lock:
            if len(self._counts) >= TERMS_KEPT:
                self._counts.clear()
            self._counts[term] = (count, seq)
        return count


def search(connection: sqlite3.Connection, terms: Sequence[str], where: Scoped, limit: int) -> list[PassageHit]:
    """Return the best passages that pass the filter, ties by passage id.

    Takes more of the ranking until enough pass and no tie straddles the end, so the result is exact.
    """
    if not terms or not where.scope_ids or limit < 1:
        return []
    wide = where.share >= WIDE
    count = int((2 * limit + MARGIN) / (where.share if wide else 1))
    while True:
        found = _ranked(connection, terms, where, count, wide=wide)
        hits = where.hits(connection, found)
        if len(found) < count or (len(hits) >= limit and hits[limit - 1].score > found[-1].score):
            return hits[:limit]
        count *= GROWTH


def _ranked(
    connection: sqlite3.Connection, terms: Sequence[str], where: Scoped, count: int, *, wide: bool
) -> list[Candidate]:
    """Return the first passages of the ranking; where it is ``wide``, of all scopes: the filter drops the others."""
    match = f"words : ({_any(terms)})"
    join = ""
    if not wide:
        if len(where.scope_ids) <= SCOPES_IN_MATCH:
            match = f"{match} AND scope_token : ({_any([f's{number}' for number in where.scope_ids])})"
        else:
            join = _IN_SCOPES
    rows = connection.execute(_RANKED.format(scopes=join), {**where.values, "match": match, "count": count})
    return sorted((Candidate(*row) for row in rows), key=lambda candidate: (-candidate.score, candidate.pid))


def _can_be_searched(term: str) -> bool:
    """Tell whether SQLite can hold a term: no NUL, which would end the expression, and no lone surrogate."""
    return "\x00" not in term and not any("\ud800" <= sign <= "\udfff" for sign in term)


def _any(words: Sequence[str]) -> str:
    """Write words as FTS5 strings, whatever they hold."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
