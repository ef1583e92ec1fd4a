"""How much each readable scope counts: proximity × purpose bias × authority, and its share of the search."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from query.biases import BIASES
from schemas.answers import ScopeWeight
from schemas.intent import Purpose
from schemas.units import Scope, ScopeLevel
from shared.graph import GraphSnapshot
from shared.store import Membership

LEAST_SLOTS: Final = 3
"""However little a scope counts, it may bring this many candidates (plan A, 2.1)."""

BIAS_POWER: Final = 4
"""A principal's own scope is up to four times nearer than the organisation's, and no boost of plan A exceeds 1.3: as
they stand no purpose could ever put another scope first (plan A, W7). To the fourth power each does what its words say:
policy and onboarding the organisation, security the department, architecture and review the team."""

ROLE_AUTHORITY: Final[Mapping[str, float]] = {
    "lead": 0.10,
    "senior": 0.15,
    "principal": 0.15,
    "manager": 0.15,
    "director": 0.20,
    "vp": 0.20,
    "cto": 0.20,
}
"""What a role in a scope adds to 1 (plan A, 2.1): a member adds nothing and loses nothing."""


def weigh_scopes(
    memberships: Sequence[Membership],
    *,
    principal: str | None,
    graph: GraphSnapshot,
    purpose: Purpose,
    depth: int,
    narrow: Collection[str] | None = None,
    levels: Collection[ScopeLevel] | None = None,
) -> tuple[ScopeWeight, ...]:
    """Weigh the scopes of the memberships, heaviest first, ties by scope key.

    ``narrow`` and ``levels`` only ever leave scopes out. ``depth`` is what the slots share. The graph gives distances;
    where it does not reach, the memberships' own hops do; a trusted caller (principal None) is equally near to all.
    """
    readable = {entry.scope: entry for entry in sorted(memberships, key=lambda entry: (-entry.hops, entry.scope))}
    kept = {
        key: entry
        for key, entry in readable.items()
        if (narrow is None or key in narrow) and (levels is None or Scope.parse(key).level in levels)
    }
    distances = _distances(kept, principal, graph)
    weighed = [_weigh(entry, distances[key], purpose) for key, entry in kept.items()]
    total = sum(weight.weight for weight in weighed)
    shared = [
        weight.model_copy(update={"slots": max(LEAST_SLOTS, round(depth * weight.weight / total))})
        for weight in weighed
    ]
    return tuple(sorted(shared, key=lambda weight: (-weight.weight, weight.scope)))


def authority_of(role: str | None) -> float:
    """Return 1 plus what the most senior word of a role adds: at least 1, monotone in seniority."""
    words = (role or "").casefold().replace("-", " ").replace("_", " ").split()
    return 1.0 + max((ROLE_AUTHORITY.get(word, 0.0) for word in words), default=0.0)


def _distances(
    memberships: Mapping[str, Membership], principal: str | None, graph: GraphSnapshot
) -> dict[str, float | None]:
    if principal is None:
        return dict.fromkeys(memberships)
    entities = {key: Scope.parse(key).entity_id for key in memberships}
    near = graph.proximity(principal, sorted(set(entities.values())))
    distances: dict[str, float | None] = {}
    for key, membership in memberships.items():
        own = entities[key] == principal
        distances[key] = 0.0 if own else near.get(entities[key], float(membership.hops))
    return distances


def _weigh(membership: Membership, distance: float | None, purpose: Purpose) -> ScopeWeight:
    proximity = 1.0 if distance is None else 1.0 / (1.0 + distance)
    bias = BIASES[purpose].scopes[Scope.parse(membership.scope).level] ** BIAS_POWER
    authority = authority_of(membership.role)
    return ScopeWeight(
        scope=membership.scope,
        distance=distance,
        proximity=proximity,
        bias=bias,
        authority=authority,
        weight=proximity * bias * authority,
        slots=0,
    )
