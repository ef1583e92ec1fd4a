"""Entities and typed relations: what producers may declare about people, teams and systems (plan A, 1.4)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from schemas import limits
from schemas.base import NUMBER, Revision, Strict
from schemas.times import Moment
from schemas.units import Identifier, MetadataKey, MetadataValue

Name = Annotated[str, StringConstraints(min_length=1, max_length=limits.NAME_CHARS, pattern=r"\S")]


class EntityType(StrEnum):
    """The eight kinds of entity."""

    PERSON = "person"
    TEAM = "team"
    DEPARTMENT = "department"
    ORGANIZATION = "organization"
    PROJECT = "project"
    SYSTEM = "system"
    MODULE = "module"
    TOPIC = "topic"


class Relation(StrEnum):
    """The fourteen typed relations: organisational, technical, and of knowledge."""

    MEMBER_OF = "member_of"
    BELONGS_TO = "belongs_to"
    PART_OF = "part_of"
    WORKS_ON = "works_on"
    EXPERT_IN = "expert_in"
    TOUCHES = "touches"
    OWNS = "owns"
    CONTAINS = "contains"
    DEPENDS_ON = "depends_on"
    RELATES_TO = "relates_to"
    CREATED_BY = "created_by"
    ABOUT = "about"
    SCOPED_TO = "scoped_to"
    DERIVED_FROM = "derived_from"


ORGANISATIONAL = frozenset({Relation.MEMBER_OF, Relation.BELONGS_TO, Relation.PART_OF})
"""Relations that decide what may be read; declaring them needs the right ``admin``."""


class EntityDeclaration(Strict):
    """A named node of the graph. A later revision replaces the whole declaration; aliases are matched folded."""

    id: Identifier
    type: EntityType
    name: Name
    aliases: Annotated[tuple[Name, ...], Field(max_length=limits.ALIASES)] = ()
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    attributes: dict[MetadataKey, MetadataValue] = Field(default_factory=dict, max_length=limits.METADATA_KEYS)
    revision: Revision | None = None


class EntityRetraction(Strict):
    """The declaration is withdrawn; mentions of its names stand for themselves again."""

    id: Identifier
    revision: Revision | None = None


class RelationDeclaration(Strict):
    """A typed edge between two entities; its identity is (source_id, relation, target_id); weight in (0, 1]."""

    source_id: Identifier
    relation: Relation
    target_id: Identifier
    weight: Annotated[float, Field(gt=0, le=1), NUMBER] = 1.0
    role: Annotated[str, StringConstraints(max_length=100)] | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    revision: Revision | None = None


class RelationRetraction(Strict):
    """The edge is withdrawn."""

    source_id: Identifier
    relation: Relation
    target_id: Identifier
    revision: Revision | None = None
