"""Resolve known texts anew: their mentions and claims, what they add to the graph, and what contradicts them then.

The release that runs may read a text otherwise than the one that stored it: afterwards it is as if all had been stored now.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from ingest.jobs.check_again import check_units
from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from ingest.resolve import resolve_text
from ingest.store import contribute
from schemas.commands import Command, Reindex, Selection
from shared.store import Resolved, Resolving

PAGE: Final = 32  # some milliseconds each; a page is a transaction
ROUNDS: Final = 10  # again only for units that changed at this very moment


async def total(means: Means, command: Command) -> int:
    """Count the units."""
    return await means.count(command.tenant, _selection(command))


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Resolve a page of units, tell the graph, check them."""
    del draining
    after = cursor or ""
    while selected := await means.select(command.tenant, _selection(command), after, PAGE):
        resolving = [
            Resolving(one.unit.id, one.version, one.revision, await resolve_text(one.unit)) for one in selected
        ]
        await _keep(means, command, resolving)
        await check_units(means, command.tenant, selected)
        after = selected[-1].unit.id
        yield Page(after, len(selected))


async def _keep(means: Means, command: Command, resolving: Sequence[Resolving]) -> None:
    """Make it durable, then tell the graph: in rounds, until no unit has changed while it was told of.

    Otherwise what a unit was could be told after what the store stage told of its successor, and the compacted topic would
    keep it.
    """
    remade = int(command.requested_at.timestamp() * 1000)
    for _ in range(ROUNDS):
        resolved = await means.hop.delivery.insist(
            lambda resolving=resolving: means.writer.resolve_again(command.tenant, resolving)  # type: ignore[misc] # bound now
        )
        told = [one.contribution.model_copy(update={"remade": remade}) for one in resolved]
        await contribute(means.hop, means.partitions, told)
        stands = await _versions(means, command.tenant, resolved)
        resolving = [
            one for one, kept in zip(resolving, resolved, strict=True) if stands.get(one.unit_id) != kept.version
        ]
        if not resolving:
            return


async def _versions(means: Means, tenant: str, resolved: Sequence[Resolved]) -> dict[str, str]:
    ids = tuple(one.unit_id for one in resolved)
    found = await means.select(tenant, Selection(unit_ids=ids), "", len(ids))
    return {one.unit.id: one.version for one in found}


def _selection(command: Command) -> Selection:
    assert isinstance(command.order, Reindex)  # the table of kinds says so
    return command.order.select


KIND: Final = Kind(total, pages)
