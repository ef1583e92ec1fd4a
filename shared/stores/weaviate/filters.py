"""A search filter as a condition in Weaviate: what every arm's query carries (invariant 6)."""

from collections.abc import Iterator

from shared.store import SearchFilter
from shared.stores.weaviate.conditions import Condition, above, at_most, below, every, one_of
from shared.stores.weaviate.schema import UNKNOWN_PAST
from shared.validity import micros


def passing(where: SearchFilter) -> Condition | None:
    """Write `shared.validity.passes` as a condition on each chunk of a live unit; None: nothing can pass."""
    if not where.scopes or (where.types is not None and not where.types):
        return None
    return every(*_conditions(where))


def _conditions(where: SearchFilter) -> Iterator[Condition]:
    at = micros(where.at)
    yield one_of("scope", sorted(where.scopes))
    yield at_most("begins", at)
    if not where.include_superseded:
        yield above("ends", at)
        yield above("superseded_from", at)
    if where.past:
        yield at_most("occurred_start", at)
    if where.known_at is not None:
        yield at_most("recorded", micros(where.known_at))
    if where.types is not None:
        yield one_of("type", sorted(where.types))
    if where.occurred is not None:
        since, until = where.occurred
        yield above("occurred_end", UNKNOWN_PAST if since is None else micros(since))
        if until is not None:
            yield below("occurred_start", micros(until))
