"""What each purpose prefers: scopes, recency, types, and arms of the search. One block of constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from schemas.intent import Purpose
from schemas.units import ScopeLevel, UnitType


@dataclass(frozen=True)
class Bias:
    """Boosts of one purpose; 1 is neutral, and a type that is not named is neutral."""

    scopes: Mapping[ScopeLevel, float]
    recency: float = 1.0
    types: Mapping[UnitType, float] = field(default_factory=dict)


def _scopes(personal: float, team: float, department: float, organization: float) -> Mapping[ScopeLevel, float]:
    return {
        ScopeLevel.PERSONAL: personal,
        ScopeLevel.TEAM: team,
        ScopeLevel.DEPARTMENT: department,
        ScopeLevel.ORGANIZATION: organization,
    }


BIASES: Final[Mapping[Purpose, Bias]] = {
    Purpose.DEBUGGING: Bias(
        _scopes(1.2, 1.0, 0.9, 0.8),
        1.1,
        {UnitType.ERROR_FIX: 1.3, UnitType.PATTERN: 1.0, UnitType.DECISION: 0.8, UnitType.CONVERSATION: 0.7},
    ),
    Purpose.ARCHITECTURE: Bias(
        _scopes(0.9, 1.1, 1.2, 1.0),
        1.0,
        {UnitType.DECISION: 1.5, UnitType.PATTERN: 1.2, UnitType.ERROR_FIX: 0.7, UnitType.CONVERSATION: 0.5},
    ),
    Purpose.ONBOARDING: Bias(
        _scopes(0.7, 1.0, 1.1, 1.2),
        0.9,
        {UnitType.PATTERN: 1.3, UnitType.DECISION: 1.2, UnitType.SUMMARY: 1.2, UnitType.CONVERSATION: 0.5},
    ),
    Purpose.POLICY: Bias(
        _scopes(0.6, 0.8, 1.0, 1.3),
        1.0,
        {UnitType.DECISION: 1.5, UnitType.PREFERENCE: 1.2, UnitType.PATTERN: 0.8, UnitType.CONVERSATION: 0.3},
    ),
    Purpose.HOW_TO: Bias(
        _scopes(1.2, 1.0, 0.8, 0.7),
        1.05,
        {UnitType.COMMAND: 1.3, UnitType.PATTERN: 1.2, UnitType.ERROR_FIX: 1.0, UnitType.CONVERSATION: 0.6},
    ),
    Purpose.REVIEW: Bias(
        _scopes(0.9, 1.2, 1.0, 0.8),
        1.0,
        {UnitType.PREFERENCE: 1.3, UnitType.PATTERN: 1.2, UnitType.CODE_PATTERN: 1.2, UnitType.DECISION: 1.0},
    ),
    Purpose.SECURITY: Bias(
        _scopes(0.8, 1.0, 1.2, 1.0),
        1.1,
        {UnitType.ERROR_FIX: 1.3, UnitType.DECISION: 1.2, UnitType.PATTERN: 1.0, UnitType.CONVERSATION: 0.5},
    ),
    Purpose.GENERAL: Bias(_scopes(1.0, 1.0, 1.0, 1.0)),
}
"""Plan A, 2.3, column P."""

HALF_LIFE_DAYS: Final[Mapping[UnitType, float]] = {
    UnitType.DECISION: 180,
    UnitType.PATTERN: 90,
    UnitType.PREFERENCE: 180,
    UnitType.ERROR_FIX: 90,
    UnitType.CONTEXT: 30,
    UnitType.CODE_PATTERN: 60,
    UnitType.COMMAND: 30,
    UnitType.CONVERSATION: 14,
    UnitType.SUMMARY: 60,
}
"""After how many days a unit of a type counts as half as fresh (plan A, 1.2)."""
