"""The two bases every model stands on."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        msg = "a number, and not true or false"
        raise ValueError(msg)  # noqa: TRY004 - a ValueError is what the model reports
    return value


NUMBER = BeforeValidator(_no_truth)
"""Of a number that comes in: Python, and so Pydantic, would take true for 1. Stands last, or the JSON Schema loses its bounds."""

Revision = Annotated[int, Field(ge=0, lt=2**53), NUMBER]
"""A producer's own number of a version: what JSON's numbers hold exactly."""


class Strict(BaseModel):
    """A frozen value that refuses unknown fields: what comes in at the door."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)


class Record(BaseModel):
    """A frozen value of ours that ignores fields added by a later version: what we read back."""

    model_config = ConfigDict(frozen=True, extra="ignore")
