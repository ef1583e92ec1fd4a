"""A unit: one piece of knowledge, as a producer states it."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from schemas import limits
from schemas.base import NUMBER, Revision, Strict
from schemas.times import Moment

Identifier = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=limits.ID_CHARS, pattern=r"^[^\s\x00-\x1f\x7f/]+(/[^\s\x00-\x1f\x7f/]+)*$"
    ),
]
"""An opaque id: 1 to 200 characters, no white space or control characters; parts may be separated by single slashes."""

TENANT = r"[a-z0-9][a-z0-9_-]{0,62}"
TenantId = Annotated[str, StringConstraints(pattern=f"^{TENANT}$")]
"""A tenant: 1 to 63 of a-z, 0-9, '_' and '-', beginning with a letter or digit. It is a file name and a key prefix."""


class ScopeLevel(StrEnum):
    """How wide a scope is."""

    PERSONAL = "personal"
    TEAM = "team"
    DEPARTMENT = "department"
    ORGANIZATION = "organization"


class Scope(Strict):
    """Who a unit belongs to: a level and the entity of that level."""

    level: ScopeLevel
    entity_id: Identifier

    @property
    def key(self) -> str:
        """``level/entity_id``: how filters, caches and the address bar write a scope."""
        return f"{self.level.value}/{self.entity_id}"

    @classmethod
    def parse(cls, key: str) -> "Scope":
        """Read ``level/entity_id`` back; raises ValueError when it is not of that form."""
        level, _, entity_id = key.partition("/")
        return cls(level=ScopeLevel(level), entity_id=entity_id)


class UnitType(StrEnum):
    """What kind of knowledge a unit is (plan A, 1.2)."""

    DECISION = "decision"
    PATTERN = "pattern"
    PREFERENCE = "preference"
    ERROR_FIX = "error_fix"
    CONTEXT = "context"
    CODE_PATTERN = "code_pattern"
    COMMAND = "command"
    CONVERSATION = "conversation"
    SUMMARY = "summary"


class Sensitivity(StrEnum):
    """How far a unit may travel; ``internal`` where nothing is said."""

    PUBLIC = "public"
    INTERNAL = "internal"
    RESTRICTED = "restricted"
    CONFIDENTIAL = "confidential"


class SourceType(StrEnum):
    """Where a unit comes from."""

    CONVERSATION = "conversation"
    GIT_COMMIT = "git_commit"
    PR_REVIEW = "pr_review"
    DOCUMENT = "document"
    BEHAVIORAL = "behavioral"
    DISTILLATION = "distillation"
    MANUAL = "manual"
    WEB = "web"


class Origin(Strict):
    """From whom and from what: shown with every citation. ``trusted`` false marks text from outside the tenant.

    What comes from the web is untrusted unless the producer vouches for it.
    """

    source_type: SourceType = SourceType.MANUAL
    source_ref: Annotated[str, StringConstraints(max_length=1000)] | None = None
    creator_entity_id: Identifier | None = None
    trusted: bool = True

    @model_validator(mode="before")
    @classmethod
    def _web_is_outside(cls, value: Any) -> Any:
        if isinstance(value, dict) and "trusted" not in value and value.get("source_type") == SourceType.WEB:
            return {**value, "trusted": False}
        return value


class Evidence(Strict):
    """A text span or address that backs the unit."""

    quote: Annotated[str, StringConstraints(max_length=2000)] | None = None
    ref: Annotated[str, StringConstraints(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _something(self) -> "Evidence":
        if self.quote is None and self.ref is None:
            msg = "evidence needs 'quote' or 'ref'"
            raise ValueError(msg)
        return self


class LinkRelation(StrEnum):
    """How a unit is tied to an entity."""

    CREATED_BY = "created_by"
    ABOUT = "about"
    SCOPED_TO = "scoped_to"
    DERIVED_FROM = "derived_from"


class EntityLink(Strict):
    """A producer's statement that the unit is tied to an entity; weight in (0, 1]."""

    entity_id: Identifier
    relation: LinkRelation = LinkRelation.ABOUT
    weight: Annotated[float, Field(gt=0, le=1), NUMBER] = 1.0


class Claim(Strict):
    """What a unit asserts: (subject, predicate, object), the interval in which it holds, and whether it is denied."""

    subject: Annotated[str, StringConstraints(min_length=1, max_length=limits.NAME_CHARS)]
    predicate: Annotated[str, StringConstraints(min_length=1, max_length=limits.NAME_CHARS)]
    object: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    polarity: Literal["affirmed", "denied"] = "affirmed"


MetadataKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
MetadataValue = Annotated[str, StringConstraints(max_length=limits.METADATA_VALUE_CHARS)] | int | float | bool


class Unit(Strict):
    """One piece of knowledge. The service adds ``recorded_at``, the position and what is derived; see `KnownUnit`.

    ``revision``: the producer's integer, counting up; without it the event's position in the log counts. A producer who
    numbers a unit numbers it always. ``valid_until`` absent means unknown; the string ``"open"`` means: no end is planned.
    ``document_id`` and ``part`` (from 0) come together, and then ``revision`` is the document's and is required.
    """

    id: Identifier
    text: Annotated[str, StringConstraints(max_length=limits.UNIT_TEXT_CHARS)]
    type: UnitType
    scope: Scope
    title: Annotated[str, StringConstraints(max_length=limits.TITLE_CHARS)] | None = None
    sensitivity: Sensitivity = Sensitivity.INTERNAL
    origin: Origin = Origin()
    evidence: Annotated[tuple[Evidence, ...], Field(max_length=32)] = ()
    confidence: Annotated[float, Field(ge=0, le=1), NUMBER] | None = None
    entity_links: Annotated[tuple[EntityLink, ...], Field(max_length=limits.ENTITY_LINKS)] = ()
    claims: Annotated[tuple[Claim, ...], Field(max_length=limits.CLAIMS)] = ()
    occurred_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | Literal["open"] | None = None
    document_id: Identifier | None = None
    part: Annotated[int, Field(ge=0, lt=limits.DOCUMENT_PARTS), NUMBER] | None = None
    revision: Revision | None = None
    supersedes: Identifier | None = Field(default=None, description="id of the unit that this one replaces")
    session_id: Identifier | None = None
    turn: Annotated[int, Field(ge=0, lt=10_000_000), NUMBER] | None = Field(
        default=None, description="place in its session: a turn is found by its neighbours' words too"
    )
    agent: Annotated[str, StringConstraints(max_length=100)] | None = None
    project: Annotated[str, StringConstraints(max_length=500)] | None = None
    file_refs: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=500)], ...], Field(max_length=limits.FILE_REFS)
    ] = ()
    metadata: dict[MetadataKey, MetadataValue] = Field(default_factory=dict, max_length=limits.METADATA_KEYS)

    @field_validator("text")
    @classmethod
    def _text_says_something(cls, text: str) -> str:
        return _clean_text(text)

    @model_validator(mode="after")
    def _parts_belong_to_documents(self) -> "Unit":
        if (self.document_id is None) != (self.part is None):
            msg = "'document_id' and 'part' come together"
            raise ValueError(msg)
        if self.document_id is not None and self.revision is None:
            msg = "a part of a document needs 'revision', the document's"
            raise ValueError(msg)
        if self.turn is not None and self.session_id is None:
            msg = "'turn' needs 'session_id'"
            raise ValueError(msg)
        if self.valid_from and isinstance(self.valid_until, Moment) and self.valid_until.at <= self.valid_from.at:
            msg = "'valid_until' must be after 'valid_from' (the interval is half open)"
            raise ValueError(msg)
        return self


def _clean_text(text: str) -> str:
    """Refuse a text that is empty to a reader or that no store can hold."""
    if not text.strip():
        msg = "the text is empty or only white space"
        raise ValueError(msg)
    if "\x00" in text:
        msg = "the text contains a NUL character"
        raise ValueError(msg)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        msg = "the text contains a lone surrogate, which is not a character"
        raise ValueError(msg) from error
    return text
