"""The vector arm: exact cosine similarity over contiguous matrices in memory, one a scope.

A matrix holds rows with the change at which each came and went, so that one matrix serves snapshots of several commits.
It is patched from the table ``change`` and never loaded anew while in use; the least recently used give way.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from shared.embedder import Vector, Vectors
from shared.similarity import cosines, fitting
from shared.store import PassageHit
from shared.stores.sqlite.filters import Candidate, Scoped
from shared.stores.sqlite.rows import as_json_array

NEVER = np.iinfo(np.int64).max
SPARE = 1.25
"""Room in a matrix beyond its rows, so that additions seldom move it."""
SMALLEST = 64
COMPACT_SHARE = 0.2
"""Rows gone before a matrix is closed up: a masked row costs as much as a live one."""
CLOSE = 1e-5
"""Single precision orders nothing nearer than this: such rows are compared again in double precision."""
GROWTH = 4

_ALL = (
    "SELECT pid, rows, vectors FROM passage JOIN text ON text.content_key = passage.content_key "
    "WHERE text.model = :model AND passage.scope = :scope ORDER BY pid"
)
_SOME = (
    "SELECT pid, rows, vectors FROM passage JOIN text ON text.content_key = passage.content_key "
    "WHERE text.model = :model AND pid IN (SELECT value FROM json_each(:pids)) ORDER BY pid"
)

Rows = list[tuple[int, int, bytes]]


class Matrix:
    """The vectors of one scope. ``floor``: snapshots of an older change cannot be served from it."""

    def __init__(self, rows: Rows, seq: int) -> None:
        self.floor = seq
        self._count = 0
        self._gone = 0
        dims = len(rows[0][2]) // 4 // rows[0][1] if rows else 0
        size = max(SMALLEST, int(sum(count for _, count, _ in rows) * SPARE))
        self._vectors = np.empty((size, dims), dtype=np.float32)
        self._pids, self._added, self._removed = (np.empty(size, dtype=np.int64) for _ in range(3))
        self._first_row: dict[int, int] = {}
        self.add(rows, seq)

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return self._vectors.nbytes + 3 * self._pids.nbytes

    def patch(self, pids: Collection[int], rows: Rows, seq: int) -> None:
        """Take out what was there of the passages and put in what is there now."""
        gone = np.isin(self._pids[: self._count], list(pids)) & (self._removed[: self._count] == NEVER)
        self._removed[: self._count][gone] = seq
        self._gone += int(gone.sum())
        self.add(rows, seq)
        if self._gone > self._count * COMPACT_SHARE:
            self._compact(seq)

    def add(self, rows: Rows, seq: int) -> None:
        """Put in passages, each with its chunks."""
        needed = self._count + sum(count for _, count, _ in rows)
        if not rows:
            return
        if self._vectors.shape[1] == 0:
            self._allocate(len(self._pids), len(rows[0][2]) // 4 // rows[0][1])
        if needed > len(self._pids):
            self._allocate(int(needed * SPARE), self._vectors.shape[1])
        for pid, count, blob in rows:
            vectors = np.frombuffer(blob, dtype="<f4").reshape(count, -1)
            if vectors.shape[1] != self._vectors.shape[1]:
                continue
            span = slice(self._count, self._count + count)
            self._vectors[span], self._pids[span], self._added[span], self._removed[span] = vectors, pid, seq, NEVER
            self._first_row[pid] = self._count
            self._count += count

    def view(self, seq: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return vectors, their passages, and a mask of those a snapshot has (None: all)."""
        added, removed = self._added[: self._count], self._removed[: self._count]
        whole = self._gone == 0 and (self._count == 0 or int(added[-1]) <= seq)
        mask = None if whole else (added <= seq) & (removed > seq)
        return self._vectors[: self._count], self._pids[: self._count], mask

    def rows_of(self, pids: frozenset[int], seq: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the vectors of those of the passages that are here in a snapshot, and whose each is."""
        rows: list[int] = []
        for pid in self._first_row.keys() & pids:
            row = self._first_row[pid]
            while row < self._count and self._pids[row] == pid:
                rows.append(row)
                row += 1
        chosen = np.array(rows, dtype=np.int64)
        chosen = chosen[(self._added[chosen] <= seq) & (self._removed[chosen] > seq)]
        return self._vectors[chosen], self._pids[chosen]

    def _allocate(self, size: int, dims: int) -> None:
        """Move to arrays of another size; whoever reads the old ones keeps them."""
        vectors = np.empty((size, dims), dtype=np.float32)
        pids, added, removed = (np.empty(size, dtype=np.int64) for _ in range(3))
        kept = slice(0, self._count)
        if self._count:
            vectors[kept], pids[kept] = self._vectors[kept], self._pids[kept]
            added[kept], removed[kept] = self._added[kept], self._removed[kept]
        self._vectors, self._pids, self._added, self._removed = vectors, pids, added, removed

    def _compact(self, seq: int) -> None:
        keep = self._removed[: self._count] == NEVER
        vectors, pids, added = (array[: self._count][keep] for array in (self._vectors, self._pids, self._added))
        self._vectors, self._pids, self._added = vectors, pids, added
        self._removed = np.full(len(pids), NEVER, dtype=np.int64)
        self._count, self._gone, self.floor = len(pids), 0, seq
        self._first_row = dict(zip(reversed(pids.tolist()), range(len(pids) - 1, -1, -1), strict=True))


@dataclass(frozen=True)
class View:
    """Which snapshot is asked: of which tenant, the last change in it, and the model that is searched since some change.

    Two snapshots of one ``seq`` have one ``model``: whatever makes another one active is a change.
    """

    tenant: str
    seq: int
    model: str | None = None


class Matrices:
    """The matrices of every tenant, within a bound of memory."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = Lock()
        self._matrices: OrderedDict[tuple[str, int], Matrix] = OrderedDict()
        self._patched: dict[str, tuple[int, str]] = {}

    def catch_up(self, connection: sqlite3.Connection, view: View) -> None:
        """Make what is loaded ready for a snapshot, unless somebody else is at it: then the search itself will wait."""
        model = view.model
        if model is not None and self._lock.acquire(blocking=False):
            try:
                self._catch_up(connection, view, model)
            finally:
                self._lock.release()

    def score(self, view: View, scopes: Sequence[int], query: Vector) -> "list[Scored] | None":
        """Compare the query with all rows of the scopes, without a connection; None where one is not loaded or behind."""
        with self._lock:
            if self._patched.get(view.tenant, (-1, ""))[0] < view.seq:
                return None
            loaded = [self._matrices.get((view.tenant, scope)) for scope in scopes]
            ready = [matrix for matrix in loaded if matrix is not None and matrix.floor <= view.seq]
            if len(ready) < len(scopes):
                return None
            for scope in scopes:
                self._matrices.move_to_end((view.tenant, scope))
            rows = [matrix.view(view.seq) for matrix in ready]
        return _scored(rows, query)

    def similarities(self, view: View, query: Vector, pids: Collection[int]) -> dict[int, float]:
        """Return the cosine similarity of those of the passages that are loaded: the best of each one's chunks."""
        found: dict[int, float] = {}
        wanted = frozenset(pids)
        with self._lock:
            if self._patched.get(view.tenant, (-1, ""))[0] < view.seq:
                return found
            parts = [
                matrix.rows_of(wanted, view.seq)
                for (tenant, _), matrix in self._matrices.items()
                if tenant == view.tenant and matrix.floor <= view.seq
            ]
        for vectors, owners in parts:
            if len(owners):
                similarities_of = cosines(fitting(vectors, query), query)
                for pid, similarity in zip(owners.tolist(), similarities_of.tolist(), strict=True):
                    found[pid] = max(found.get(pid, -np.inf), similarity)
        return found

    def search(  # noqa: PLR0917 - a search, and what of it was done before
        self,
        connection: sqlite3.Connection,
        view: View,
        query: Vector,
        where: Scoped,
        limit: int,
        scored: "list[Scored] | None" = None,
    ) -> list[PassageHit]:
        """Return the passages nearest to the query that pass the filter, ties by passage id. Exact.

        ``scored``: what `score` returned for the filter's scopes, if anything.
        """
        model = view.model
        if model is None or limit < 1:
            return []
        if scored is None:
            scored = _scored([self._rows(connection, view, scope, model) for scope in where.scope_ids], query)
        total = sum(len(pids) for _, pids, _ in scored)
        count = 2 * limit
        while True:
            candidates = _nearest(connection, scored, query, count)
            hits = where.hits(connection, candidates)
            if len(hits) >= limit or count >= total:
                return hits[:limit]
            count *= GROWTH

    def warm(self, connection: sqlite3.Connection, view: View) -> None:
        """Load a tenant's matrices, as far as they fit, so that the first question need not."""
        model = view.model
        if model is None:
            return
        for (scope,) in connection.execute(
            "SELECT scope FROM passage GROUP BY scope ORDER BY count(*) DESC"
        ).fetchall():
            self._rows(connection, view, scope, model)
            if self._full():
                return

    def _rows(
        self, connection: sqlite3.Connection, view: View, scope: int, model: str
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return a scope's rows as a snapshot has them. Another snapshot's patch never shows through."""
        with self._lock:
            self._catch_up(connection, view, model)
            key = (view.tenant, scope)
            matrix = self._matrices.get(key)
            if matrix is not None and view.seq >= matrix.floor and self._patched[view.tenant][1] == model:
                self._matrices.move_to_end(key)
                return matrix.view(view.seq)
            matrix = Matrix(connection.execute(_ALL, {"model": model, "scope": scope}).fetchall(), view.seq)
            if self._patched[view.tenant] == (view.seq, model):
                self._matrices[key] = matrix
                self._make_room()
            return matrix.view(view.seq)

    def _catch_up(self, connection: sqlite3.Connection, view: View, model: str) -> None:
        """Patch a tenant's matrices up to a snapshot, unless they are there or beyond."""
        tenant, seq = view.tenant, view.seq
        patched, patched_model = self._patched.setdefault(tenant, (seq, model))
        if seq < patched or (seq == patched and model == patched_model):
            return
        (oldest,) = connection.execute("SELECT coalesce(min(seq), 0) FROM change").fetchone()
        if model != patched_model or oldest > patched + 1:
            for key in [key for key in self._matrices if key[0] == tenant]:
                del self._matrices[key]
        else:
            self._patch(connection, tenant, patched, seq, model)
        self._patched[tenant] = (seq, model)

    def _patch(self, connection: sqlite3.Connection, tenant: str, patched: int, seq: int, model: str) -> None:
        changed: dict[int, list[int]] = {}
        rows = connection.execute("SELECT passage, scope FROM change WHERE seq > ? AND seq <= ?", (patched, seq))
        for pid, scope in rows:
            changed.setdefault(scope, []).append(pid)
        for scope, pids in changed.items():
            matrix = self._matrices.get((tenant, scope))
            if matrix is None:
                continue
            found = connection.execute(_SOME, {"model": model, "pids": as_json_array(pids)}).fetchall()
            matrix.patch(pids, found, seq)
            if len(set(pids)) < len(pids):
                matrix.floor = seq  # what came and went in between is not in it

    def _make_room(self) -> None:
        while len(self._matrices) > 1 and self._full():
            self._matrices.popitem(last=False)

    def _full(self) -> bool:
        return sum(matrix.nbytes for matrix in self._matrices.values()) > self._limit


def passage_vectors(connection: sqlite3.Connection, view: View, pids: Collection[int]) -> dict[int, Vectors]:
    """Return the vectors of each passage that has any, one row a chunk."""
    rows = connection.execute(_SOME, {"model": view.model, "pids": as_json_array(pids)}).fetchall()
    return {pid: np.frombuffer(blob, dtype="<f4").reshape(count, -1) for pid, count, blob in rows}


def similarities(connection: sqlite3.Connection, view: View, query: Vector, pids: Collection[int]) -> dict[int, float]:
    """Return the cosine similarity of each passage that has vectors: the best of its chunks."""
    found = passage_vectors(connection, view, pids)
    return {pid: float(cosines(fitting(vectors, query), query).max()) for pid, vectors in found.items()}


Seen = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_] | None]
Scored = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]


def _scored(rows: Sequence[Seen], query: Vector) -> list[Scored]:
    """Compare the query with rows: those that a snapshot does not have score -inf."""
    return [
        (vectors, pids, np.where(mask, scores, -np.inf).astype(np.float32) if mask is not None else scores)
        for vectors, pids, mask in rows
        if len(pids)
        for scores in [fitting(vectors, query) @ query]
    ]


def _nearest(connection: sqlite3.Connection, scored: Sequence[Scored], query: Vector, count: int) -> list[Candidate]:
    """Return the passages of the ``count`` nearest rows (and of any as near as the last), nearest first, ties by id."""
    if not scored:
        return []
    scores = np.concatenate([part for _, _, part in scored])
    last = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
    best: dict[int, float] = {}
    for vectors, pids, part in scored:
        rows = np.flatnonzero((part >= last - CLOSE) & (part > -np.inf))
        for pid, similarity in zip(pids[rows].tolist(), cosines(vectors[rows], query).tolist(), strict=True):
            best[pid] = max(best.get(pid, -np.inf), similarity)
    numbers = dict(
        connection.execute(
            "SELECT pid, id FROM passage WHERE pid IN (SELECT value FROM json_each(?))", (as_json_array(best),)
        )
    )
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [Candidate(pid, numbers[pid], similarity) for pid, similarity in ranked if pid in numbers]
