"""Events: CloudEvents 1.0 records that assert, retract or declare something."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from schemas import limits
from schemas.base import NUMBER, Revision, Strict
from schemas.entities import EntityDeclaration, EntityRetraction, RelationDeclaration, RelationRetraction
from schemas.times import Moment
from schemas.units import Identifier, TenantId, Unit

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 0
INT64 = range(-(2**63), 2**63)
"""What the log's JSON holds exactly."""
VERSION_DIGITS = 9
"""Of a version number only these are read: no version has more, and Python refuses to read thousands of digits."""
NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""CloudEvents 1.0 (2.2) leaves control characters out of strings."""
VERSION = rf"^[0-9]{{1,{VERSION_DIGITS}}}(\.[0-9]{{1,{VERSION_DIGITS}}})?$"


class EventType(StrEnum):
    """The seven kinds of event."""

    UNIT_ASSERTED = "unit.asserted"
    UNIT_RETRACTED = "unit.retracted"
    DOCUMENT_COMPLETED = "document.completed"
    ENTITY_DECLARED = "entity.declared"
    ENTITY_RETRACTED = "entity.retracted"
    RELATION_DECLARED = "relation.declared"
    RELATION_RETRACTED = "relation.retracted"


class UnitRetraction(Strict):
    """The unit is withdrawn; a tombstone of its id and revision stays for ever.

    Without ``revision`` the event's position counts, as for units that carry none. At equal revisions a retraction wins.
    """

    id: Identifier
    revision: Revision | None = None
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None


class DocumentCompletion(Strict):
    """All parts of a revision were sent: it becomes the current one in one step and parts of older revisions go.

    ``parts`` 0 retracts the document. ``hash``: SHA-256 (hex) over the parts' texts in order, joined by U+001E.
    """

    id: Identifier
    revision: Revision
    parts: Annotated[int, Field(ge=0, le=limits.DOCUMENT_PARTS), NUMBER]
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    title: Annotated[str, StringConstraints(max_length=limits.TITLE_CHARS)] | None = None


class Envelope(BaseModel):
    """CloudEvents 1.0 attributes. ``source`` + ``id`` name the event: the same pair again is a redelivery.

    Extension attributes of others are allowed, as the specification demands, and kept in the log.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS, pattern=NO_CONTROLS)]
    source: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_CONTROLS)]
    tenant: TenantId
    time: Moment | None = Field(default=None, description="when it occurred; a unit's occurred_at where it has none")
    subject: Annotated[str, StringConstraints(max_length=500)] | None = None
    datacontenttype: Literal["application/json"] = "application/json"
    dataschema: str | None = None
    schemaversion: Annotated[str, StringConstraints(pattern=VERSION)] = "1.0"
    traceparent: str | None = None

    @property
    def key(self) -> str:
        """``tenant/subject``: the Kafka key. The subject of a part is its document, of anything else its unit or entity."""
        return f"{self.tenant}/{self.about()}"

    def about(self) -> str:
        """What the event is about: decides its partition, so that one thing's events stay in order."""
        raise NotImplementedError


class UnitAsserted(Envelope):
    """A unit is stated, or stated anew with a higher revision."""

    type: Literal[EventType.UNIT_ASSERTED]
    data: Unit

    def about(self) -> str:
        """Its document, or the unit itself."""
        return self.data.document_id or self.data.id


class UnitRetracted(Envelope):
    """A unit is withdrawn."""

    type: Literal[EventType.UNIT_RETRACTED]
    data: UnitRetraction

    def about(self) -> str:
        """The unit (a part of a document is retracted with ``document.completed``)."""
        return self.data.id


class DocumentCompleted(Envelope):
    """A document's new revision is complete."""

    type: Literal[EventType.DOCUMENT_COMPLETED]
    data: DocumentCompletion

    def about(self) -> str:
        """The document."""
        return self.data.id


class EntityDeclared(Envelope):
    """An entity is declared."""

    type: Literal[EventType.ENTITY_DECLARED]
    data: EntityDeclaration

    def about(self) -> str:
        """The entity."""
        return self.data.id


class EntityRetracted(Envelope):
    """An entity's declaration is withdrawn."""

    type: Literal[EventType.ENTITY_RETRACTED]
    data: EntityRetraction

    def about(self) -> str:
        """The entity."""
        return self.data.id


class RelationDeclared(Envelope):
    """A relation is declared."""

    type: Literal[EventType.RELATION_DECLARED]
    data: RelationDeclaration

    def about(self) -> str:
        """The relation's source entity."""
        return self.data.source_id


class RelationRetracted(Envelope):
    """A relation is withdrawn."""

    type: Literal[EventType.RELATION_RETRACTED]
    data: RelationRetraction

    def about(self) -> str:
        """The relation's source entity."""
        return self.data.source_id


Event = Annotated[
    UnitAsserted
    | UnitRetracted
    | DocumentCompleted
    | EntityDeclared
    | EntityRetracted
    | RelationDeclared
    | RelationRetracted,
    Field(discriminator="type"),
]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def extension_fault(name: str, value: Any) -> tuple[str, str | None] | None:
    """Say what is wrong with an attribute of an envelope as CloudEvents 1.0 (3.1) defines those of others, and the limit.

    None for what is right, and for the attributes that are ours. Every door checks this: what nests or is no number of
    JSON's cannot be kept in the log.
    """
    if name in Envelope.model_fields or name in {"type", "data"}:
        return None
    if not (name.isascii() and name.isalnum() and name == name.lower()):
        return "not an attribute of an event", "extensions: a-z and 0-9 only"
    if isinstance(value, str | bool) or (isinstance(value, int) and value in INT64):
        return None
    return "an extension attribute is a string, an integer or a boolean", None


def parse_event(value: Any) -> Event:
    """Read one structured CloudEvent from a JSON object.

    Raises pydantic.ValidationError, whose locations name the field. Unknown fields in ``data`` are refused, unless the
    event says that it was written by a later minor version of the schema.
    """
    return _EVENT.validate_python(value, extra="ignore" if _is_later_minor(value) else None)


def dump_event(event: Event) -> dict[str, Any]:
    """Write an event as a JSON object that `parse_event` reads back as an equal one."""
    dumped: dict[str, Any] = event.model_dump(mode="json", exclude_none=True)
    return dumped


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema of an event."""
    return _EVENT.json_schema()


def schema_major(value: Any) -> int:
    """Return the major version that an event claims; 1 where it claims none or nothing readable."""
    version = value.get("schemaversion", "1") if isinstance(value, dict) else "1"
    head = str(version).partition(".")[0]
    return int(head[:VERSION_DIGITS]) if head.isdecimal() else SCHEMA_MAJOR


def _is_later_minor(value: Any) -> bool:
    version = value.get("schemaversion") if isinstance(value, dict) else None
    if not isinstance(version, str):
        return False
    minor = version.partition(".")[2]
    return schema_major(value) == SCHEMA_MAJOR and minor.isdecimal() and int(minor[:VERSION_DIGITS]) > SCHEMA_MINOR
