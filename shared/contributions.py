"""What a unit or a declaration adds to the entity graph, as pure functions of it."""

from collections import Counter
from collections.abc import Sequence

from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.graph import Contribution, EdgeContribution, KeyWeight
from schemas.messages import Mention
from schemas.units import Unit
from shared.identity import fold_key, id_key
from shared.mentions import subject_key

MENTIONS_FULL = 3
"""Mentions of one key that count fully: a long text does not outweigh a short one that is about the entity."""

UNIT_KEYS = 64
"""Keys a unit contributes: the strongest, ties by key. A list of a thousand names is about none of them."""

CREATOR_WEIGHT = 0.5
"""Whoever wrote it down is nearer to it than an entity named once, and less near than what it is about."""


def unit_id_of(unit_id: str) -> str:
    """Return the id of a unit's contribution."""
    return f"unit:{unit_id}"


def unit_keys(unit: Unit, mentions: Sequence[Mention]) -> dict[str, float]:
    """Return the entity keys that a unit is tied to, with weights in (0, 1]."""
    counts = Counter(mention.key for mention in mentions)
    weights = {key: min(count, MENTIONS_FULL) / MENTIONS_FULL for key, count in counts.items() if key}
    subject = subject_key(unit)
    if subject:
        weights[subject] = 1.0
    if unit.origin.creator_entity_id:
        weights[id_key(unit.origin.creator_entity_id)] = CREATOR_WEIGHT
    for link in unit.entity_links:
        key = id_key(link.entity_id)
        weights[key] = max(weights.get(key, 0.0), link.weight)
    strongest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:UNIT_KEYS]
    return dict(sorted(strongest))


def found_by(unit: Unit, mentions: Sequence[Mention]) -> dict[str, bool]:
    """Return the keys by which a unit is found as being about an entity; true for the one that it is about."""
    keys = {id_key(link.entity_id) for link in unit.entity_links} | {mention.key for mention in mentions if mention.key}
    subject = subject_key(unit)
    return dict.fromkeys(sorted(keys), False) | ({subject: True} if subject else {})


def unit_contribution(tenant: str, unit: Unit, revision: int, mentions: Sequence[Mention]) -> Contribution:
    """Return what a live unit contributes."""
    return Contribution(
        tenant=tenant,
        id=unit_id_of(unit.id),
        revision=revision,
        scope=unit.scope.key,
        subject=subject_key(unit),
        keys=tuple(KeyWeight(key=key, weight=weight) for key, weight in unit_keys(unit, mentions).items()),
        occurred_at=unit.occurred_at.at if unit.occurred_at else None,
    )


def entity_contribution(tenant: str, declaration: EntityDeclaration, revision: int) -> Contribution:
    """Return what a declared entity contributes: its names, folded."""
    names = {fold_key(name) for name in (declaration.name, declaration.id, *declaration.aliases)}
    return Contribution(
        tenant=tenant,
        id=f"entity:{declaration.id}",
        revision=revision,
        entity_id=declaration.id,
        entity_type=declaration.type.value,
        entity_name=declaration.name,
        names=tuple(sorted(name for name in names if name)),
    )


def relation_identity(source_id: str, relation: str, target_id: str) -> str:
    """Return the identity of a declared relation; ids hold no white space, so it is unambiguous."""
    return f"{source_id} {relation} {target_id}"


def relation_contribution(tenant: str, declared: RelationDeclaration, revision: int) -> Contribution:
    """Return what a declared relation contributes: one edge between entities named by id."""
    source, target = id_key(declared.source_id), id_key(declared.target_id)
    edge = EdgeContribution(source=source, relation=declared.relation.value, target=target, weight=declared.weight)
    identity = relation_identity(declared.source_id, declared.relation.value, declared.target_id)
    return Contribution(tenant=tenant, id=f"relation:{identity}", revision=revision, edges=(edge,))


def removal(tenant: str, contribution_id: str, revision: int) -> Contribution:
    """Return what withdraws a contribution."""
    return Contribution(tenant=tenant, id=contribution_id, revision=revision, removed=True)
