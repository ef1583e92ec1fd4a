"""Forget the vectors of an embedding model that is not searched any more: it cannot be gone back to without building it."""

from collections.abc import AsyncIterator
from typing import Final

from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from schemas.commands import Command, DropModel

PAGE: Final = 2_000  # 3 MB of 384 dimensions: some tens of milliseconds of the writer


async def total(means: Means, command: Command) -> int:
    """Count the texts that have its vectors."""
    counted = await means.hop.delivery.insist(lambda: means.writer.coverage(command.tenant, _model(command)))
    return counted.texts - counted.without


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Forget the model, and then a page of its vectors at a time. Raises InvalidInput for the one that is searched."""
    del cursor, draining
    tenant, model = command.tenant, _model(command)
    while dropped := await means.hop.delivery.insist(lambda: means.writer.drop_model(tenant, model, PAGE)):
        yield Page("", dropped)


def _model(command: Command) -> str:
    assert isinstance(command.order, DropModel)  # the table of kinds says so
    return command.order.model


KIND: Final = Kind(total, pages)
