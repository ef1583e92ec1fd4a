"""Which entity a key means in a graph: the alias view of its declared entities."""

from collections.abc import Iterable

from schemas.graph import Contribution
from shared.identity import UNDECLARED_MARK, AliasView, DeclaredNames


def alias_view(contributions: Iterable[Contribution]) -> AliasView:
    """Return the view of the entities that these contributions declare."""
    return AliasView(
        DeclaredNames(
            entity_id=contribution.entity_id,
            name=contribution.entity_name or contribution.entity_id,
            type=contribution.entity_type,
            keys=tuple(sorted(set(contribution.names))),
        )
        for contribution in contributions
        if contribution.entity_id is not None and not contribution.removed
    )


def name_of(aliases: AliasView, entity_id: str) -> tuple[str, str | None]:
    """Return display name and type of an entity; the key itself, or the id, and None for an undeclared one."""
    declared = aliases.declared(entity_id)
    if declared is not None:
        return declared.name, declared.type
    return entity_id.removeprefix(UNDECLARED_MARK), None
