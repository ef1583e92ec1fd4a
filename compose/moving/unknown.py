"""A tenant that is asked for by name and is not there: said beside those that are."""

from collections.abc import Collection
from typing import Final

from shared.errors import UnknownThing

NAMED: Final = 20  # tenants that a refusal lists: enough to see a slip of the pen


def unknown_tenant(who: str, tenant: str, known: Collection[str]) -> UnknownThing:
    """Return the refusal: ``who`` knows no such tenant, and these."""
    names = sorted(known)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return UnknownThing(f"{who} knows no tenant {tenant!r}; it knows {', '.join(names[:NAMED]) or 'none'}{more}.")
