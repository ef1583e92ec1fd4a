"""What a job works with, and the pages in which it tells how far it is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from ingest import replaying
from ingest.hop import Hop
from ingest.lanes import Draining
from ingest.models import TenantModels
from ingest.turns import Turns
from schemas.commands import Command, Selection
from shared.store import KnowledgeReader, KnowledgeWriter, SelectedUnit


@dataclass(frozen=True)
class Means:
    """The parts of the pipeline that jobs use.

    ``through`` waits until the stages are through with what was published before, at most a while.
    """

    hop: Hop
    reader: KnowledgeReader
    writer: KnowledgeWriter
    models: TenantModels
    turns: Turns
    replaying: replaying.Means
    through: Callable[[], Awaitable[None]]

    @property
    def partitions(self) -> int:
        """How many partitions each topic has."""
        return self.replaying.log.partitions

    async def select(self, tenant: str, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
        """Return a page of the live units that fit. Waits out a store that is away."""

        async def look() -> list[SelectedUnit]:
            async with self.reader.snapshot(tenant) as snapshot:
                return await snapshot.select(selection, after, limit)

        return await self.hop.delivery.insist(look)

    async def count(self, tenant: str, selection: Selection) -> int:
        """Return how many live units fit. Waits out a store that is away."""

        async def look() -> int:
            async with self.reader.snapshot(tenant) as snapshot:
                return await snapshot.count_selected(selection)

        return await self.hop.delivery.insist(look)


@dataclass(frozen=True)
class Page:
    """Work whose effect is durable: how many things were done, how many of them failed, and from where to go on."""

    cursor: str
    done: int
    failed: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Kind:
    """How a kind of command is carried out.

    ``pages`` begins after a cursor (None: at the start), yields after each page, and ends when nothing is left; doing a
    page twice changes nothing. When draining it yields what it has, soon. ``total``: how many things it is about, None
    where nobody knows. ``left``: how many of them are left of a job that goes on, where the store can tell: its process may
    have died between a page's effect and the note of it. All wait out what everything depends on; what else they raise is
    the command's failure.
    """

    total: Callable[[Means, Command], Awaitable[int | None]]
    pages: Callable[[Means, Command, str | None, Draining], AsyncIterator[Page]]
    left: Callable[[Means, Command], Awaitable[int]] | None = None
