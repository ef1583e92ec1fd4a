"""Send kept events through the stages again, each with the revision that it has."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson

from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from ingest.replaying import replay_record
from schemas.commands import Command, Replay
from schemas.events import EventType
from shared.log import LogRecord

PAGE: Final = 100  # what live events may find before them in a hop
SCOPELESS: Final = frozenset({EventType.UNIT_RETRACTED.value, EventType.DOCUMENT_COMPLETED.value})
"""Events about units that do not say their scope: replayed with every scope, which changes nothing where they do not fit."""


async def total(means: Means, command: Command) -> None:
    """Nobody knows before the log has been read."""
    del means, command


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Publish a page of events, and wait until the stages are through with it."""
    del draining
    order = command.order
    assert isinstance(order, Replay)  # the table of kinds says so
    read: dict[str, int] = orjson.loads(cursor) if cursor else {}
    async for rows in means.replaying.log.scan(command.tenant):
        wanted = [row for row in rows if row.position.number > read.get(_place(row), -1) and _fits(row, order)]
        for start in range(0, len(wanted), PAGE):
            page = wanted[start : start + PAGE]
            await _send(means, page)
            read |= {_place(row): row.position.number for row in page}
            yield Page(orjson.dumps(read).decode(), len(page))


async def _send(means: Means, page: Sequence[LogRecord]) -> None:
    for row in page:
        await means.hop.delivery.insist(lambda row=row: replay_record(row, means.replaying))  # type: ignore[misc] # bound now
    await means.through()


def _place(row: LogRecord) -> str:
    return f"{row.position.topic}/{row.position.partition}"


def _fits(row: LogRecord, order: Replay) -> bool:
    if order.source not in (None, row.source):
        return False
    if order.scope is None:
        return True
    try:
        event: Any = orjson.loads(row.body)
        if event["type"] in SCOPELESS:
            return True
        scope = event["data"]["scope"]
        return bool(f"{scope['level']}/{scope['entity_id']}" == order.scope)
    except (orjson.JSONDecodeError, KeyError, TypeError):  # a declaration has no scope; what nobody can read has none
        return False


KIND: Final = Kind(total, pages)
