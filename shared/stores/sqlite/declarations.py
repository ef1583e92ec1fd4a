"""Declared entities and relations: one register each, where the highest-ranked statement stands."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from schemas.entities import EntityDeclaration, EntityRetraction, RelationDeclaration, RelationRetraction
from schemas.events import EntityDeclared, EntityRetracted, RelationDeclared, RelationRetracted
from schemas.graph import Contribution
from schemas.messages import ReceiptOutcome, StageMessage
from shared.contributions import entity_contribution, relation_contribution, relation_identity, removal
from shared.effects import Rank, data_digest, revision_of
from shared.stores.sqlite.rows import rank_from

ENTITY, RELATION = "entity", "relation"
DeclarationEvent = EntityDeclared | EntityRetracted | RelationDeclared | RelationRetracted


def declare(
    connection: sqlite3.Connection, tenant: str, event: DeclarationEvent, message: StageMessage
) -> tuple[ReceiptOutcome, list[Contribution]]:
    """Enter a declaration or its retraction; return the outcome and what the thing contributes now."""
    kind, identity = identity_of(event.data)
    retraction = isinstance(event.data, EntityRetraction | RelationRetraction)
    revision, explicit = revision_of(event.data.revision, message)
    rank = Rank(revision, retraction, data_digest(event.data), event.source, event.id)
    row = connection.execute(
        "SELECT revision, retraction, digest, source, event_id FROM declared WHERE kind = ? AND identity = ?",
        (kind, identity),
    ).fetchone()
    standing = rank_from(row) if row else None
    if standing is not None and (standing >= rank or standing[1:] == rank[1:]):
        outcome = ReceiptOutcome.UNCHANGED if standing[1:] == rank[1:] else ReceiptOutcome.STALE
        return outcome, contributions(connection, tenant, kind, identity)
    source_id, target_id = _ends(event.data)
    connection.execute(
        "INSERT OR REPLACE INTO declared VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            kind,
            identity,
            *rank,
            int(explicit),
            source_id,
            target_id,
            event.data.model_dump_json(exclude_none=True).encode(),
        ),
    )
    if kind == ENTITY:
        connection.execute("INSERT INTO meta VALUES ('entities', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1")
    outcome = ReceiptOutcome.RETRACTED if retraction else ReceiptOutcome.DECLARED
    return outcome, contributions(connection, tenant, kind, identity)


def identity_of(
    data: EntityDeclaration | EntityRetraction | RelationDeclaration | RelationRetraction,
) -> tuple[str, str]:
    """Return which register an event's data belongs to, and its identity there."""
    if isinstance(data, EntityDeclaration | EntityRetraction):
        return ENTITY, data.id
    return RELATION, relation_identity(data.source_id, data.relation.value, data.target_id)


def contributions(
    connection: sqlite3.Connection, tenant: str, kind: str | None = None, identity: str | None = None
) -> list[Contribution]:
    """Return what declared things contribute: one of them, or every one that stands."""
    if kind is None:
        rows = connection.execute(
            "SELECT kind, identity, revision, retraction, body FROM declared WHERE retraction = 0 ORDER BY kind, identity"
        )
    else:
        rows = connection.execute(
            "SELECT kind, identity, revision, retraction, body FROM declared WHERE kind = ? AND identity = ?",
            (kind, identity),
        )
    return [_contribution(tenant, row) for row in rows]


def entities(connection: sqlite3.Connection) -> tuple[int, list[EntityDeclaration]]:
    """Return the version and the declared entities by id."""
    rows = connection.execute("SELECT body FROM declared WHERE kind = 'entity' AND retraction = 0 ORDER BY identity")
    return entities_version(connection), [EntityDeclaration.model_validate_json(body) for (body,) in rows]


def entities_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with every declaration of an entity."""
    version = connection.execute("SELECT value FROM meta WHERE key = 'entities'").fetchone()
    return int(version[0]) if version else 0


def relations(connection: sqlite3.Connection, entity_id: str | None = None) -> list[RelationDeclaration]:
    """Return declared relations by identity: all, or those that touch an entity."""
    query = "SELECT identity, body FROM declared WHERE kind = 'relation' AND retraction = 0"
    if entity_id is None:
        rows: Iterable[tuple[str, bytes]] = connection.execute(f"{query} ORDER BY identity")
    else:
        found = connection.execute(
            f"{query} AND source_id = ? UNION {query} AND target_id = ?",
            (entity_id, entity_id),
        )
        rows = sorted(found)
    return [RelationDeclaration.model_validate_json(body) for _, body in rows]


def upward(connection: sqlite3.Connection, entity_id: str) -> list[RelationDeclaration]:
    """Return declared relations that start at an entity."""
    rows = connection.execute("SELECT body FROM declared WHERE source_id = ? AND retraction = 0", (entity_id,))
    return [RelationDeclaration.model_validate_json(body) for (body,) in rows]


def entity(connection: sqlite3.Connection, entity_id: str) -> EntityDeclaration | None:
    """Return an entity's declaration."""
    row = connection.execute(
        "SELECT body FROM declared WHERE kind = 'entity' AND identity = ? AND retraction = 0", (entity_id,)
    ).fetchone()
    return EntityDeclaration.model_validate_json(row[0]) if row else None


def _contribution(tenant: str, row: tuple[Any, ...]) -> Contribution:
    kind, identity, revision, retraction, body = row
    if retraction:
        return removal(tenant, f"{kind}:{identity}", revision)
    if kind == ENTITY:
        return entity_contribution(tenant, EntityDeclaration.model_validate_json(body), revision)
    return relation_contribution(tenant, RelationDeclaration.model_validate_json(body), revision)


def _ends(data: Any) -> tuple[str | None, str | None]:
    return getattr(data, "source_id", None), getattr(data, "target_id", None)
