"""What a question is after: one typed intent for purpose, format, horizon and comparison."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Record


class Purpose(StrEnum):
    """The eight purposes; each has its own biases."""

    DEBUGGING = "debugging"
    ARCHITECTURE = "architecture"
    ONBOARDING = "onboarding"
    POLICY = "policy"
    HOW_TO = "how-to"
    REVIEW = "review"
    SECURITY = "security"
    GENERAL = "general"


class AnswerFormat(StrEnum):
    """Shapes an answer can take; ``unsupported`` keeps the raw words and is answered honestly."""

    DEFAULT = "default"
    TABLE = "table"
    CHART = "chart"
    TIMELINE = "timeline"
    GRAPH = "graph"
    UNSUPPORTED = "unsupported"


class Intent(Record):
    """What the question is after. ``confidence`` in [0, 1]; ``tier`` 1 rules, 2 exemplars, 3 a model."""

    version: Literal[1] = 1
    purpose: Purpose = Purpose.GENERAL
    secondary: Purpose | None = Field(default=None, description="the runner-up, where it is close")
    domains: tuple[str, ...] = ()
    format: AnswerFormat = AnswerFormat.DEFAULT
    requested_format: str | None = Field(default=None, description="the words of the format that was asked for")
    horizon_days: int | None = Field(default=None, ge=0)
    comparison_targets: tuple[str, ...] = ()
    complexity: Literal["simple", "medium", "complex"] = "simple"
    confidence: float = Field(default=0.0, ge=0, le=1)
    tier: Literal[1, 2, 3] = 1
