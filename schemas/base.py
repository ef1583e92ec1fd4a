"""The two bases every model stands on."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen value that refuses unknown fields: what comes in at the door."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)


class Record(BaseModel):
    """A frozen value of ours that ignores fields added by a later version: what we read back."""

    model_config = ConfigDict(frozen=True, extra="ignore")
