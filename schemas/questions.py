"""What may be asked."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from schemas import limits
from schemas.base import NUMBER, Strict
from schemas.intent import AnswerFormat
from schemas.times import Moment
from schemas.units import Identifier, ScopeLevel, UnitType

ScopeKey = Annotated[
    str, StringConstraints(max_length=limits.ID_CHARS + 20, pattern=r"^(personal|team|department|organization)/\S+$")
]


class Question(Strict):
    """A question and how it is to be answered. Everything but ``q`` has a default."""

    q: Annotated[str, StringConstraints(max_length=limits.QUESTION_CHARS)]
    principal: Identifier | None = Field(default=None, description="who asks; another than the token's needs admin")
    scopes: Annotated[tuple[ScopeKey, ...], Field(max_length=limits.SCOPES_IN_QUESTION)] | None = Field(
        default=None,
        description="narrow to these of the readable scopes; unreadable or unknown ones simply add nothing",
    )
    limit: Annotated[int, Field(ge=1, le=limits.RESULTS), NUMBER] = limits.RESULTS_DEFAULT
    budget_tokens: Annotated[int, Field(ge=limits.BUDGET_TOKENS_MIN, le=limits.BUDGET_TOKENS), NUMBER] = (
        limits.BUDGET_TOKENS_DEFAULT
    )
    types: tuple[UnitType, ...] | None = None
    levels: tuple[ScopeLevel, ...] | None = None
    as_of: Moment | None = Field(default=None, description="answer with what held then; default: what holds now")
    known_at: Moment | None = Field(default=None, description="answer with what was recorded by then")
    occurred_from: Moment | None = None
    occurred_until: Moment | None = Field(default=None, description="exclusive")
    include_superseded: bool = False
    format: AnswerFormat | None = Field(default=None, description="overrides the format read from the question")
    explain: bool = False
    min_token: Annotated[str, StringConstraints(max_length=500)] | None = Field(
        default=None, description="wait until this write is searchable"
    )
    wait_ms: Annotated[int, Field(ge=0, le=limits.WAIT_MS), NUMBER] = 2_000
    order: Literal["relevance", "time"] = "relevance"

    @model_validator(mode="after")
    def _window(self) -> "Question":
        if self.occurred_from and self.occurred_until and self.occurred_until.at <= self.occurred_from.at:
            msg = "'occurred_until' must be after 'occurred_from' (the window is half open)"
            raise ValueError(msg)
        return self
