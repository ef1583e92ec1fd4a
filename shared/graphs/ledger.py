"""Which contribution stands for each id: the rule that makes order and redelivery harmless."""

from collections.abc import Iterator

from schemas.graph import Contribution

Standing = tuple[int, bool, int, bytes]
"""(revision, removed, remade, body): what stands for an id, ordered by precedence. The body is JSON: a tenth of the
objects' memory, and plain tuples of plain values cost the garbage collector nothing."""


class Ledger:
    """The standing contributions of all tenants, removals included: a removal is remembered for ever."""

    def __init__(self) -> None:
        self._standing: dict[str, dict[str, Standing]] = {}

    def take(self, contribution: Contribution) -> bool:
        """Take one in; returns whether it replaces what stood.

        The highest revision stands, at equal ones the removal, then what was made last, then the greater text: never
        the order of arrival.
        """
        tenant = self._standing.setdefault(contribution.tenant, {})
        new = (contribution.revision, contribution.removed, contribution.remade, _body(contribution))
        present = tenant.get(contribution.id)
        if present is not None and new <= present:
            return False
        tenant[contribution.id] = new
        return True

    def tenants(self) -> list[str]:
        """Return the tenants that ever contributed, sorted."""
        return sorted(self._standing)

    def standing(self, tenant: str, contribution_id: str) -> Contribution:
        """Return what stands for an id that was taken in, possibly a removal."""
        return Contribution.model_validate_json(self._standing[tenant][contribution_id][3])

    def live(self, tenant: str) -> list[Contribution]:
        """Return what contributes now, by id."""
        standing = self._standing.get(tenant, {})
        return [self.standing(tenant, key) for key in sorted(standing) if not standing[key][1]]

    def bodies(self) -> Iterator[bytes]:
        """Yield everything that stands as JSON, removals included, by tenant and id."""
        for tenant in self.tenants():
            yield from (self._standing[tenant][key][3] for key in sorted(self._standing[tenant]))


def _body(contribution: Contribution) -> bytes:
    """Keep of a removal only what the rule needs: what was removed must not linger in memory or in a saved file."""
    if contribution.removed:
        kept = {"tenant", "id", "revision", "removed"}
        return contribution.model_dump_json(include=kept).encode()
    return contribution.model_dump_json(exclude_defaults=True).encode()
