"""Units in order: about an entity, and by time."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from heapq import merge
from itertools import islice

from shared.store import PassageHit, UnitVersion
from shared.stores.sqlite.filters import Candidate, Scoped
from shared.stores.sqlite.rows import as_json_array

ABOUT, MENTIONED = 1.0, 0.5
SCOPES_APART = 32
"""Scopes that are read one by one along their own index; more are read together along time."""
GROWTH = 4

_ABOUT = """
SELECT unit.passage, incidence.about FROM incidence CROSS JOIN unit ON unit.id = incidence.unit
WHERE incidence.key = :key AND {conditions} ORDER BY incidence.about, incidence.age, incidence.unit_id LIMIT :count
"""
_PIDS = "SELECT id, pid FROM passage WHERE id IN (SELECT value FROM json_each(?))"
_SHARING = "SELECT age, unit_id, unit FROM incidence WHERE key = ? AND about = ? ORDER BY age, unit_id LIMIT ?"
_VERSIONS = "SELECT id, statement FROM unit WHERE id IN (SELECT value FROM json_each(?))"
_IN_SCOPE = """
SELECT passage.pid, passage.id, unit.moment, unit.unit_id FROM unit INDEXED BY unit_moment
JOIN passage ON passage.id = unit.passage
WHERE unit.scope = :scope AND {conditions} ORDER BY unit.moment {order}, unit.unit_id LIMIT :count
"""
_IN_TIME = """
SELECT passage.pid, passage.id, unit.moment, unit.unit_id FROM unit INDEXED BY unit_time
JOIN passage ON passage.id = unit.passage
WHERE {conditions} ORDER BY unit.moment {order}, unit.unit_id LIMIT :count
"""


def about(
    connection: sqlite3.Connection, keys: Collection[str], where: Scoped, limit: int
) -> dict[str, list[PassageHit]]:
    """Return of each key the passages about it before those that mention it, newest first."""
    named = {key: _about(connection, key, where, limit) for key in sorted(set(keys))}
    rows = sorted({row for scores in named.values() for row in scores})
    passing = where.passing(connection, rows)
    pids = dict(connection.execute(_PIDS, (as_json_array(rows),)).fetchall())
    hits = {row: (pids[row], tuple(unit_ids)) for row, unit_ids in passing.items()}
    return {
        key: [PassageHit(hits[row][0], score, hits[row][1]) for row, score in scores.items()]
        for key, scores in named.items()
    }


def _about(connection: sqlite3.Connection, key: str, where: Scoped, limit: int) -> dict[int, float]:
    """Return rows of passages, in order, each with its score; more are read only where units share passages."""
    query = _ABOUT.format(conditions=where.conditions)
    count = limit + 1
    while True:
        rows = connection.execute(query, {**where.values, "key": key, "count": count}).fetchall()
        found: dict[int, float] = {}
        for passage, mentioned in rows:
            found.setdefault(passage, MENTIONED if mentioned else ABOUT)
        if len(found) >= limit or len(rows) < count:
            return dict(islice(found.items(), limit))
        count *= GROWTH


def sharing(connection: sqlite3.Connection, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
    """Return, for each set of keys, the newest units of any. Each key's two runs lie in this order in the table: the newest
    are their heads. Sets that are asked for together have most keys in common, and most units: each is read once.
    """
    runs = {
        key: [connection.execute(_SHARING, (key, about, limit)).fetchall() for about in (0, 1)]
        for key in sorted({key for keys in wanted for key in keys})
    }
    newest = [
        list(islice(dict.fromkeys(row[1:] for row in merge(*(run for key in set(keys) for run in runs[key]))), limit))
        for keys in wanted
    ]
    named = {number: unit_id for chosen in newest for unit_id, number in chosen}
    # a statement's id is never used twice
    versions = {
        number: UnitVersion(named[number], str(statement))
        for number, statement in connection.execute(_VERSIONS, (as_json_array(named),))
    }
    return [[versions[number] for _, number in chosen] for chosen in newest]


def latest(connection: sqlite3.Connection, where: Scoped, limit: int, *, oldest_first: bool) -> list[PassageHit]:
    """Return passages by the time of their newest (or oldest) unit that passes. ``score``: seconds since 1970."""
    count = 2 * limit
    while True:
        rows = _by_time(connection, where, count, oldest_first=oldest_first)
        found = _first_of_each(Candidate(pid, row, moment / 1e6) for pid, row, moment, _ in rows)
        if len(found) >= limit or len(rows) < count:
            return where.hits(connection, found[:limit])
        count *= GROWTH


def _by_time(
    connection: sqlite3.Connection, where: Scoped, count: int, *, oldest_first: bool
) -> list[tuple[int, int, int, str]]:
    order = "ASC" if oldest_first else "DESC"
    if len(where.scope_ids) > SCOPES_APART:
        query = _IN_TIME.format(conditions=where.conditions, order=order)
        return connection.execute(query, {**where.values, "count": count}).fetchall()
    query = _IN_SCOPE.format(conditions=where.conditions, order=order)
    rows = [
        row
        for scope in where.scope_ids
        for row in connection.execute(query, {**where.values, "scope": scope, "count": count})
    ]
    sign = 1 if oldest_first else -1
    return sorted(rows, key=lambda row: (sign * row[2], row[3]))[:count]


def _first_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    first: dict[int, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.pid, candidate)
    return list(first.values())
