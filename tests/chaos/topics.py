"""What the topics of a run hold."""

import asyncio
from contextlib import aclosing

from schemas.graph import Contribution
from shared.kafka import EPOCH_KEY, GRAPH, follow
from shared.kafka_reading import PartitionReader
from shared.settings import Settings
from shared.topics import topic_name
from tests.chaos.plan import TENANTS

PAUSE_S = 0.1


async def records_of(
    bootstrap: str, settings: Settings, topic: str
) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]]:
    """Return everything that a topic of Kafka holds."""
    found = []
    async with await PartitionReader.open(bootstrap, [topic_name(settings.topic_prefix, topic)]) as reader:
        left = {place: after for place, (first, after) in (await reader.bounds()).items() if after > first}
        while left:
            found += [(kept.key, kept.value, kept.headers) for kept in await reader.poll(500, PAUSE_S)]
            left = {place: after for place, after in left.items() if await reader.position(place) < after}
    return found


async def graph_of(
    bootstrap: str, settings: Settings, *, lives_with_broker: bool
) -> dict[str, dict[str, Contribution]]:
    """Return by tenant the newest record of each contribution, by its id."""
    newest: dict[bytes, bytes | None] = {}
    batches = follow(bootstrap, GRAPH, prefix=settings.topic_prefix, lives_with_broker=lives_with_broker)
    async with asyncio.timeout(60), aclosing(batches):
        async for batch in batches:
            newest.update({record.key: record.value for record in batch.records if record.key not in (None, EPOCH_KEY)})
            if batch.caught_up:
                break
    found: dict[str, dict[str, Contribution]] = {tenant: {} for tenant in TENANTS}
    for value in newest.values():
        if value is not None:
            contribution = Contribution.model_validate_json(value)
            found[contribution.tenant][contribution.id] = contribution
    return found
