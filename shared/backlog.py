"""The backlog: accepted events that are not stored yet, counted from the log and the store's watermarks."""

from collections import Counter
from collections.abc import Iterable, Mapping

from shared.log import EventLog
from shared.store import KnowledgeReader

Places = dict[tuple[str, int], int]
"""A number for each (topic, partition)."""

NOBODY = ""
"""No tenant is called that: what waits for it is what a log knows by offset alone, and counts for every tenant."""


async def unstored(log: EventLog, reader: KnowledgeReader, tenants: Iterable[str]) -> dict[str, int]:
    """Count each tenant's events above its watermarks. Raises StoreUnavailable, LogUnavailable."""
    waiting = {}
    for tenant, marks in (await _watermarks(reader, tenants)).items():
        waiting[tenant] = sum((await log.pending(tenant, marks)).values())
    return waiting


async def unstored_of_shared(log: EventLog, reader: KnowledgeReader, tenants: Iterable[str]) -> int:
    """Count the events of all tenants in a log whose partitions they share, as on Kafka. Raises as `unstored`.

    A quiet tenant's watermark is old, with others' stored events above it. But a partition is worked in order, so what stands
    below the highest watermark of any tenant does not wait (but for a window's few).
    """
    highest: Places = {}
    marks = await _watermarks(reader, tenants)
    for numbers in marks.values():
        for place, number in numbers.items():
            highest[place] = max(number, highest.get(place, number))
    unnamed = sum((await log.pending(NOBODY, dict(highest))).values())
    named = [sum((await log.pending(tenant, dict(highest))).values()) - unnamed for tenant in marks]
    return unnamed + sum(named)


async def _watermarks(reader: KnowledgeReader, tenants: Iterable[str]) -> dict[str, Places]:
    marks = {}
    for tenant in tenants:
        async with reader.snapshot(tenant) as snapshot:
            marks[tenant] = await snapshot.watermarks()
    return marks


def largest(waiting: Mapping[str, int], limit: int) -> tuple[dict[str, int], int]:
    """Return the ``limit`` largest numbers by tenant, ties by name, and the sum of all others."""
    chosen = sorted(waiting, key=lambda tenant: (-waiting[tenant], tenant))[:limit]
    named = {tenant: waiting[tenant] for tenant in chosen}
    return named, Counter(waiting).total() - Counter(named).total()
