"""What one unit or declaration contributes to the entity graph: records of the compacted topic ``cortex.graph``."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from schemas.base import Record


class KeyWeight(Record):
    """An entity key (folded name, or ``=id`` for an entity named by its id) and how strongly it is meant, in (0, 1]."""

    key: str
    weight: float = Field(gt=0, le=1)


class EdgeContribution(Record):
    """A typed edge between two entity keys; weight in (0, 1]."""

    source: str
    relation: str
    target: str
    weight: float = Field(gt=0, le=1)


class Contribution(Record):
    """All that one unit, entity or relation adds to a tenant's graph; a newer one for the same ``id`` replaces it.

    ``id`` is ``unit:<id>``, ``entity:<id>`` or ``relation:<source> <relation> <target>``. ``scope`` is a unit's scope key, or
    None for declarations, which hold for the whole tenant. ``subject`` is the key of what the text is about (its title).
    ``names`` are the alias keys of a declared entity. ``removed`` withdraws it (written with a Kafka tombstone after it).
    ``remade``: of two contributions of one revision the one with the higher counts; 0 where the unit was read once, else
    when it was ordered to be read anew, in milliseconds since 1970.
    """

    version: Literal[1] = 1
    tenant: str
    id: str
    revision: int
    scope: str | None = None
    subject: str | None = None
    keys: tuple[KeyWeight, ...] = ()
    edges: tuple[EdgeContribution, ...] = ()
    entity_id: str | None = None
    entity_type: str | None = None
    entity_name: str | None = None
    names: tuple[str, ...] = ()
    occurred_at: datetime | None = None
    removed: bool = False
    remade: int = 0
