"""Problem details for HTTP (RFC 9457), the one shape in which every refusal and failure is told."""

from typing import Any

from pydantic import Field

from schemas.base import Record


class FieldFault(Record):
    """One fault in the input: where (JSON Pointer), what, and the limit that was met, where there is one."""

    field: str = Field(description="JSON Pointer (RFC 6901) into the input, or the parameter's name")
    message: str
    limit: str | None = None


class Problem(Record):
    """RFC 9457: ``type`` is stable and names the kind; ``detail`` says what to do; ``errors`` name the fields."""

    type: str = Field(description="relative reference: /problems/<kind>")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str | None = None
    errors: tuple[FieldFault, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)
