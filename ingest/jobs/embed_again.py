"""Compute the vectors of known texts anew, by the model that is searched, beside live events: by bulk's turns."""

from collections.abc import AsyncIterator
from typing import Final

from ingest.delivery import Hopeless
from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from ingest.models import embed, is_well
from schemas.commands import Command, Reindex, Selection
from shared.embedder import Embedder, Vectors
from shared.passages import stated_text
from shared.store import SelectedUnit

PAGE: Final = 16  # short texts are embedded in 0.2 s; a page is a transaction


async def total(means: Means, command: Command) -> int:
    """Count the units."""
    return await means.count(command.tenant, _selection(command))


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Embed a page of units' texts and keep the vectors; a text that cannot be embedded keeps those that it has."""
    after = cursor or ""
    while selected := await means.select(command.tenant, _selection(command), after, PAGE):
        embedder = await means.hop.delivery.insist(lambda: means.models.active(command.tenant))
        vectors, done, failed = await _embed(means, embedder, command.tenant, selected, draining)
        if vectors:
            await means.hop.delivery.insist(
                lambda model=embedder.model, vectors=vectors: means.writer.put_vectors(command.tenant, model, vectors)  # type: ignore[misc] # bound now
            )
        after = selected[done - 1].unit.id
        yield Page(after, done, failed)


async def _embed(
    means: Means, embedder: Embedder, tenant: str, selected: list[SelectedUnit], draining: Draining
) -> tuple[dict[str, Vectors], int, int]:
    """Return vectors by content key, how many units are done, and how many of them failed."""
    vectors: dict[str, Vectors] = {}
    done = failed = 0
    for one in selected:
        if done and draining():
            break
        done += 1
        if one.content_key in vectors:
            continue
        try:
            vectors[one.content_key] = await embed_one(means, embedder, tenant, stated_text(one.unit))
        except Hopeless:
            failed += 1
    return vectors, done, failed


async def embed_one(means: Means, embedder: Embedder, tenant: str, text: str) -> Vectors:
    """Each attempt takes a turn: nobody waits for another's backoff."""

    async def run() -> Vectors:
        async with means.turns.turn(tenant, bulk=True):
            return await embed(embedder, text)

    async def healthy() -> bool:
        async with means.turns.turn(tenant, bulk=True):
            return await is_well(embedder)

    return await means.hop.delivery.attempt(run, healthy=healthy)


def _selection(command: Command) -> Selection:
    assert isinstance(command.order, Reindex)  # the table of kinds says so
    return command.order.select


KIND: Final = Kind(total, pages)
