"""Change the embedding model: vectors of the new one are built beside the old one's, and searches switch when all are there.

Round by round, until a round leaves no text without: what is stored meanwhile comes with both models' vectors, as far as
the new one keeps up. The old vectors stay, so that the same command with the old model's name goes back at once.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from ingest.delivery import Hopeless
from ingest.jobs.embed_again import embed_one
from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from ingest.models import PROBE, embed
from schemas.commands import ChangeModel, Command
from shared.embedder import Embedder, Vectors
from shared.errors import NotReady, UnknownModel
from shared.vector_models import Coverage, Text

PAGE: Final = 16  # short texts are embedded in 0.2 s; a page is a transaction
NAMED: Final = 5  # units named where their texts cannot be embedded: enough to look at


async def total(means: Means, command: Command) -> int:
    """Count the texts that lack the new model's vectors."""

    async def look() -> Coverage:
        return await means.writer.coverage(command.tenant, _model(command))

    return (await means.hop.delivery.insist(look)).without


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Embed a page of texts at a time; switch at the end. Raises Hopeless where a text cannot be embedded: nothing switches."""
    tenant, model = command.tenant, _model(command)
    embedder = await _open(means, model)
    await means.hop.delivery.insist(lambda: means.writer.add_model(tenant, model, embedder.dims))
    after = cursor or ""
    while True:
        refused: list[str] = []
        progress = 0
        while texts := await _lacking(means, tenant, model, after):
            vectors, tried = await _embed(means, embedder, tenant, texts, draining)
            if vectors:
                await means.hop.delivery.insist(
                    lambda vectors=vectors: means.writer.put_vectors(tenant, model, vectors)  # type: ignore[misc] # bound now
                )
            refused += [text.unit_id for text in tried if text.content_key not in vectors]
            progress += len(vectors)
            after = tried[-1].content_key
            yield Page(after, len(vectors))  # what fails is tried once more, and told at the end
        if await means.hop.delivery.insist(lambda: means.writer.activate_model(tenant, model)):
            yield Page(after, 0, detail=f"{model} is searched now")
            return
        if refused and not progress:
            raise Hopeless(
                "texts-not-embedded",
                f"{model} embeds no text of {len(refused)} units ({', '.join(sorted(refused)[:NAMED])}); nothing is switched",
                1,
            )
        after = ""  # once more from the start: what failed, and what came meanwhile


async def _open(means: Means, model: str) -> Embedder:
    """Return the model's embedder, once it has embedded something: before that nothing is built."""

    async def look() -> Embedder:
        try:
            embedder = await means.models.of(model)
        except UnknownModel as error:
            raise Hopeless("unknown-model", str(error), 1) from error
        except NotReady as error:
            raise Hopeless("embedder-unavailable", str(error), 1) from error
        await embed(embedder, PROBE)
        return embedder

    return await means.hop.delivery.attempt(look)


async def _embed(
    means: Means, embedder: Embedder, tenant: str, texts: Sequence[Text], draining: Draining
) -> tuple[dict[str, Vectors], Sequence[Text]]:
    """Return vectors by content key, and the texts that were tried: not all where draining came between."""
    vectors: dict[str, Vectors] = {}
    for tried, text in enumerate(texts):
        if tried and draining():
            return vectors, texts[:tried]
        with contextlib.suppress(Hopeless):
            vectors[text.content_key] = await embed_one(means, embedder, tenant, text.text)
    return vectors, texts


async def _lacking(means: Means, tenant: str, model: str, after: str) -> list[Text]:
    return await means.hop.delivery.insist(lambda: means.writer.texts_without(tenant, model, PAGE, after))


def _model(command: Command) -> str:
    assert isinstance(command.order, ChangeModel)  # the table of kinds says so
    return command.order.model


KIND: Final = Kind(total, pages, left=total)
