"""Bounded boosts: small factors around 1, each named, that order near-ties and never overturn a clear hit."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from query.biases import BIASES, HALF_LIFE_DAYS
from query.terms import Term
from schemas.answers import KnownUnit, UnitState
from schemas.intent import Intent
from schemas.units import SourceType

BOUND: Final = 0.15
"""All boosts together move a score by at most 15 %: one rank at the top of two lists (1/11 against 1/12 is 8 %), never
a hit that two arms put first below one that a single arm found."""

SCOPE_SPAN: Final = 0.08
TYPE_POWER: Final = 0.25
TYPE_SPAN: Final = 0.08
"""Plan A's type boosts run from 0.3 to 1.5; their fourth root runs from 0.74 to 1.11 and is cut to ±8 %."""
RECENCY_SPAN: Final = 0.04
HORIZON_SPAN: Final = 0.08
CORROBORATION_STEP: Final = 0.02
CORROBORATION_LIMIT: Final = 0.06
IDENTIFIER_BOOST: Final = 1.10
CONFIDENCE_SPAN: Final = 0.03
UNTRUSTED: Final = 0.94
PAST: Final = 0.92

ORIGIN: Final[Mapping[SourceType, float]] = {
    SourceType.MANUAL: 1.03,
    SourceType.DOCUMENT: 1.02,
    SourceType.GIT_COMMIT: 1.01,
    SourceType.PR_REVIEW: 1.01,
    SourceType.DISTILLATION: 1.01,
}
"""Plan A's evidence authority (1.1 to 1.3), a tenth of it; conversation, behaviour and the web are neutral."""

_IDENTIFIER: Final = re.compile(
    r"(?<![\w.-])(?=[\w./:-]*[\d_])(?=[\w./:-]*[A-Za-z])[\w][\w./:-]*\w|(?<![\w.])\d+(?:\.\d+)+(?!\w)"
)


@dataclass(frozen=True)
class BoostBasis:
    """What a question's boosts depend on. ``scope_weights``: per scope, divided by the heaviest; ``at``: the answer's now."""

    intent: Intent
    scope_weights: Mapping[str, float]
    at: datetime
    identifiers: frozenset[str]


def identifiers_in(text: str) -> frozenset[str]:
    """Return what looks like an identifier, a version or a code in a text, case-folded: E1234, v1.20, cache_ttl, mw-3."""
    return frozenset(match.group(0).casefold() for match in _IDENTIFIER.finditer(text))


def boost(known: KnownUnit, corroborations: int, basis: BoostBasis) -> tuple[Term, ...]:
    """Return the named factors of a unit; neutral ones are left out. Their product is in [1 - BOUND, 1 + BOUND]."""
    factors = (
        _scope(known, basis),
        _type(known, basis),
        _recency(known, basis),
        _corroboration(corroborations),
        _origin(known),
        _confidence(known),
        _identifier(known, basis),
        _past(known, basis),
    )
    terms = [term for term in factors if term is not None and term.value != 1.0]
    product = math.prod(term.value for term in terms)
    bounded = min(1 + BOUND, max(1 - BOUND, product))
    if bounded != product:
        terms.append(
            Term(name="bound", value=bounded / product, detail=f"all boosts together stay within ±{BOUND:.0%}")
        )
    return tuple(terms)


def _scope(known: KnownUnit, basis: BoostBasis) -> Term | None:
    scope = known.unit.scope.key
    if len(basis.scope_weights) < 2 or scope not in basis.scope_weights:
        return None
    share = basis.scope_weights[scope]
    return Term(
        name="scope", value=1 + SCOPE_SPAN * (2 * share - 1), detail=f"{scope}, weight {share:.2f} of the heaviest"
    )


def _type(known: KnownUnit, basis: BoostBasis) -> Term | None:
    kind = known.unit.type
    wanted = BIASES[basis.intent.purpose].types.get(kind)
    if wanted is None:
        return None
    value = min(1 + TYPE_SPAN, max(1 - TYPE_SPAN, wanted**TYPE_POWER))
    return Term(name="type", value=value, detail=f"{kind.value} for {basis.intent.purpose.value}")


def _recency(known: KnownUnit, basis: BoostBasis) -> Term | None:
    """By the source's own time; what is undated is neutral, and what is dated ahead of now counts as now."""
    occurred = known.unit.occurred_at
    if occurred is None:
        return None
    age_days = max(0.0, (basis.at - occurred.at).total_seconds() / 86_400)
    horizon = basis.intent.horizon_days
    if horizon is not None:
        value = 1 + HORIZON_SPAN if age_days <= horizon else 1 - HORIZON_SPAN
        return Term(name="recency", value=value, detail=f"{age_days:.0f} days old, asked for the last {horizon}")
    freshness = 0.5 ** (age_days / HALF_LIFE_DAYS[known.unit.type])
    span = RECENCY_SPAN * BIASES[basis.intent.purpose].recency
    return Term(name="recency", value=1 + span * (2 * freshness - 1), detail=f"{age_days:.0f} days old")


def _corroboration(sources: int) -> Term | None:
    if sources < 2:
        return None
    value = 1 + min(CORROBORATION_LIMIT, CORROBORATION_STEP * math.log2(sources))
    return Term(name="corroboration", value=value, detail=f"{sources} sources")


def _origin(known: KnownUnit) -> Term | None:
    origin = known.unit.origin
    if not origin.trusted:
        return Term(name="origin", value=UNTRUSTED, detail=f"untrusted {origin.source_type.value}")
    return Term(name="origin", value=ORIGIN.get(origin.source_type, 1.0), detail=origin.source_type.value)


def _confidence(known: KnownUnit) -> Term | None:
    confidence = known.unit.confidence
    if confidence is None:
        return None
    return Term(
        name="confidence", value=1 + CONFIDENCE_SPAN * (2 * confidence - 1), detail=f"producer says {confidence:.2f}"
    )


def _identifier(known: KnownUnit, basis: BoostBasis) -> Term | None:
    if not basis.identifiers:
        return None
    text = f"{known.unit.title or ''} {known.unit.text}"
    folded = text.casefold()
    if not any(identifier in folded for identifier in basis.identifiers):  # cheap, and true of most texts
        return None
    named = sorted(basis.identifiers & identifiers_in(text))
    return Term(name="identifier", value=IDENTIFIER_BOOST, detail=", ".join(named[:3])) if named else None


def is_superseded(state: UnitState, at: datetime) -> bool:
    """Tell whether another unit had taken its place by then: asked as of an earlier day, it had not."""
    return state.superseded_by is not None and (state.held_until is None or state.held_until <= at)


def _past(known: KnownUnit, basis: BoostBasis) -> Term | None:
    state = known.state
    ended = state.held_until is not None and state.held_until <= basis.at
    superseded = is_superseded(state, basis.at)
    if not superseded and not ended:
        return None
    return Term(name="past", value=PAST, detail="superseded" if superseded else "ended")
