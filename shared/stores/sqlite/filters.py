"""A search filter in SQL: the conditions on live units that every arm's query carries (invariant 6)."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.store import PassageHit, SearchFilter
from shared.stores.sqlite.rows import as_json_array
from shared.validity import micros


@dataclass(frozen=True)
class Candidate:
    """A passage that an arm ranks: its id, its row, its score."""

    pid: int
    row: int
    score: float


@dataclass(frozen=True)
class Scoped:
    """A filter made ready for one snapshot. ``scope_ids``: the readable scopes that have a number. ``share``: of all
    passages, those in them, in [0, 1]. ``conditions`` are about the table ``unit`` and use the named ``values``.
    """

    scope_ids: tuple[int, ...]
    share: float
    conditions: str
    values: dict[str, Any]

    def hits(self, connection: sqlite3.Connection, candidates: Sequence[Candidate]) -> list[PassageHit]:
        """Return the candidates that have units which pass, in order, with those units newest first."""
        passing = self.passing(connection, [candidate.row for candidate in candidates])
        return [
            PassageHit(candidate.pid, candidate.score, tuple(passing[candidate.row]))
            for candidate in candidates
            if candidate.row in passing
        ]

    def passing(self, connection: sqlite3.Connection, passages: Collection[int]) -> dict[int, list[str]]:
        """Return, of each passage (by row) that has any, the units which pass, newest first."""
        rows = connection.execute(
            # Left to itself the planner walks all units in order of time.
            "SELECT unit.passage, unit.unit_id FROM json_each(:passages) AS wanted "  # noqa: S608 - constants
            "CROSS JOIN unit INDEXED BY unit_passage ON unit.passage = wanted.value "
            f"WHERE {self.conditions} ORDER BY unit.moment DESC, unit.unit_id",
            {**self.values, "passages": as_json_array(passages)},
        )
        found: dict[int, list[str]] = {}
        for passage, unit_id in rows:
            found.setdefault(passage, []).append(unit_id)
        return found


def scoped(connection: sqlite3.Connection, where: SearchFilter) -> Scoped:
    """Make a filter ready for a snapshot."""
    rows = connection.execute(
        "SELECT id, passages FROM scope WHERE key IN (SELECT value FROM json_each(?)) ORDER BY id",
        (as_json_array(where.scopes),),
    ).fetchall()
    scope_ids = tuple(number for number, _ in rows)
    scopes, passages = connection.execute("SELECT count(*), coalesce(sum(passages), 0) FROM scope").fetchone()
    values: dict[str, Any] = {"at": micros(where.at)}
    conditions = list(_conditions(where, values))
    if len(scope_ids) < scopes:
        conditions.append("unit.scope IN (SELECT value FROM json_each(:scopes))")
        values["scopes"] = as_json_array(scope_ids)
    share = sum(count for _, count in rows) / max(passages, 1)
    return Scoped(scope_ids, share, " AND ".join(conditions), values)


def _conditions(where: SearchFilter, values: dict[str, Any]) -> Iterable[str]:
    """Write `shared.validity.passes` in SQL, the scope apart."""
    yield "(unit.begins IS NULL OR unit.begins <= :at)"
    if not where.include_superseded:
        yield "(unit.ends IS NULL OR unit.ends > :at)"
        yield "(unit.superseded_from IS NULL OR unit.superseded_from > :at)"
    if where.past:
        yield "(unit.occurred_start IS NULL OR unit.occurred_start <= :at)"
    if where.known_at is not None:
        values["known_at"] = micros(where.known_at)
        yield "unit.recorded <= :known_at"
    if where.types is not None:
        values["types"] = as_json_array(sorted(where.types))
        yield "unit.type IN (SELECT value FROM json_each(:types))"
    if where.occurred is not None:
        since, until = where.occurred
        yield "unit.occurred_start IS NOT NULL"
        if until is not None:
            values["until"] = micros(until)
            yield "unit.occurred_start < :until"
        if since is not None:
            values["since"] = micros(since)
            yield "unit.occurred_end > :since"
