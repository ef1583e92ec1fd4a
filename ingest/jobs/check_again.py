"""Compare known units anew with what is known of the same entities."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from ingest.contradictions import ContradictionCheck
from ingest.flag import contradiction_record
from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from schemas.commands import Command, Replay, Selection
from shared.kafka import CONTRADICTIONS, partition_of
from shared.store import FoundContradiction, SelectedUnit, StoredContradiction

PAGE: Final = 32  # a check takes milliseconds
ROUNDS: Final = 5  # one confirms; more only while live events change the same units at the same moment


async def total(means: Means, command: Command) -> int:
    """Count the units."""
    return await means.count(command.tenant, _selection(command))


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Check a page of units; what is found is durable before it is told."""
    del draining
    after = cursor or ""
    while selected := await means.select(command.tenant, _selection(command), after, PAGE):
        await check_units(means, command.tenant, selected)
        after = selected[-1].unit.id
        yield Page(after, len(selected))


async def check_units(means: Means, tenant: str, units: Sequence[SelectedUnit]) -> None:
    """Check units until a check that began after the last record found the same.

    A unit that was stored between a check and its record was compared by its own stage, and the record would drop that
    pair: the next round finds it again.
    """
    checker = ContradictionCheck(means.reader)
    ids = [one.unit.id for one in units]
    recorded: dict[str, list[FoundContradiction]] | None = None
    for _ in range(ROUNDS):
        found = await means.hop.delivery.insist(lambda: checker.check_units(tenant, ids))
        if found == recorded:
            return
        for one in units:
            if one.unit.id in found:
                await _record(means, tenant, one, found[one.unit.id])
        recorded = found


async def _record(means: Means, tenant: str, unit: SelectedUnit, found: Sequence[FoundContradiction]) -> None:
    """Keep what was found of a unit. A pair is known since the later of its units is: a time of the log, not of a clock."""

    async def keep() -> list[StoredContradiction]:
        async with means.reader.snapshot(tenant) as snapshot:
            sides = await snapshot.units({side for pair in found for side in pair.units})
        times = [side.known.state.recorded_at for side in sides.values()]
        recorded_at = max((unit.recorded_at, *times))
        return await means.writer.record_contradictions(tenant, None, recorded_at, [unit.unit.id], found)

    for pair in await means.hop.delivery.insist(keep):
        message = contradiction_record(tenant, pair)
        await means.hop.publish(CONTRADICTIONS, partition_of(message.key or b"", means.partitions), [message])


def _selection(command: Command) -> Selection:
    assert isinstance(command.order, Replay)  # the table of kinds says so
    return Selection(scope=command.order.scope, source=command.order.source)


KIND: Final = Kind(total, pages)
