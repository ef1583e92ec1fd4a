"""Read the company's short lines and write them as CloudEvents of a tenant: the same ids at every run."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from schemas.events import Event, parse_event

SOURCE = "urn:ternline:handbook"


def company_events(tenant: str) -> list[Event]:
    """Return the company as events: entities, then relations, then units, in the order in which they occurred."""
    organisation = [_organisation_event(row, tenant) for row in _rows("organisation.jsonl")]
    units = [_unit_event(row, tenant) for row in _rows("knowledge.jsonl")]
    return organisation + sorted(units, key=lambda event: (event.data.occurred_at.at, event.data.id))  # type: ignore[union-attr]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    for line in files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _envelope(tenant: str, kind: str, event_id: str, source: str, data: dict[str, Any]) -> Event:
    return parse_event(
        {"specversion": "1.0", "id": event_id, "source": source, "tenant": tenant, "type": kind, "data": data}
    )


def _organisation_event(row: dict[str, Any], tenant: str) -> Event:
    if "entity" in row:
        entity = {**row["entity"], "revision": 1}
        return _envelope(tenant, "entity.declared", f"entity-{entity['id']}-1", SOURCE, entity)
    source, relation, target = row["relation"]
    data = {"source_id": source, "relation": relation, "target_id": target, "revision": 1}
    data |= {key: row[key] for key in ("weight", "role") if key in row}
    return _envelope(tenant, "relation.declared", f"relation-{source}-{relation}-{target}-1", SOURCE, data)


def _unit_event(row: dict[str, Any], tenant: str) -> Event:
    level, _, entity_id = row["scope"].partition("/")
    unit: dict[str, Any] = {
        "id": row["id"],
        "text": row["text"],
        "type": row["type"],
        "scope": {"level": level, "entity_id": entity_id},
        "occurred_at": row["on"],
        "revision": 1,
        "origin": _origin(row),
        "entity_links": [{"entity_id": entity, "relation": "about"} for entity in row.get("about", [])],
    }
    kept = ("title", "sensitivity", "valid_from", "valid_until", "supersedes", "turn")
    unit |= {key: row[key] for key in kept if key in row}
    if "session" in row:
        unit["session_id"] = row["session"]
    return _envelope(tenant, "unit.asserted", f"unit-{row['id']}-1", row.get("source", SOURCE), unit)


def _origin(row: dict[str, Any]) -> dict[str, Any]:
    """Say from whom and from what kind of source a line is."""
    kinds = {"conversation": "conversation"}
    source_type = "web" if row.get("trusted") is False else kinds.get(row["type"], "manual")
    origin: dict[str, Any] = {"source_type": source_type, "trusted": row.get("trusted", True)}
    if row.get("by"):
        origin["creator_entity_id"] = row["by"]
    if "source" in row:
        origin["source_ref"] = row["source"]
    return origin
