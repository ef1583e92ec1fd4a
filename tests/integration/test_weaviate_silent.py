"""A Weaviate that takes questions and never answers: whoever gives up waiting hears of his own deadline, as of any other."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from shared.errors import StoreUnavailable
from shared.stores.weaviate import WeaviateReader
from tests.conftest import WEAVIATE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.integration,
    pytest.mark.cluster,
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, str]]:
    """The addresses of a Weaviate whose gRPC reads and says nothing."""
    leaving = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await leaving.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield WEAVIATE.partition(",")[0], f"127.0.0.1:{port}"
        leaving.set()


@pytest.fixture
async def reader(silent: tuple[str, str]) -> AsyncIterator[WeaviateReader]:
    opened = WeaviateReader(*silent, answer_s=20)
    yield opened
    await opened.close()


async def read(reader: WeaviateReader) -> None:
    async with reader.snapshot("acme") as snapshot:
        await snapshot.watermarks()


async def test_a_deadline_around_a_read_ends_it_as_a_timeout(reader: WeaviateReader):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await read(reader)
    with pytest.raises(TimeoutError), anyio.fail_after(0.3):
        await read(reader)


async def test_a_group_that_is_cancelled_ends_the_read_and_nothing_else(reader: WeaviateReader):
    """As the read for a client that has left."""
    async with anyio.create_task_group() as group:
        group.start_soon(read, reader)
        await anyio.sleep(0.2)
        group.cancel_scope.cancel()
    with anyio.move_on_after(0.2) as scope:
        await read(reader)
    assert scope.cancelled_caught


async def test_its_own_deadline_is_a_store_that_is_away(silent: tuple[str, str]):
    hurried = WeaviateReader(*silent, answer_s=0.3)
    with pytest.raises(StoreUnavailable):
        await read(hurried)
    await hurried.close()
