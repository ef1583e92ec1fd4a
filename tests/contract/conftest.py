"""Each implementation of a protocol, by name."""

from collections.abc import AsyncIterator

import pytest

from shared.clock import ManualClock
from shared.graph import EntityGraph
from tests.contract.graph_worlds import IMPLEMENTATIONS
from tests.contract.knowledge_events import NOW, WEAVIATE, Store, open_store

needs_weaviate = pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does")


@pytest.fixture(params=["memory", "sqlite", pytest.param("weaviate", marks=needs_weaviate)])
async def store(request, tmp_path) -> AsyncIterator[Store]:
    """An empty knowledge store with a clock that stands still."""
    opened = open_store(request.param, tmp_path, ManualClock(NOW))
    yield opened
    await opened.close()


@pytest.fixture(params=["memory", "sqlite"])
async def isolating_store(request, tmp_path) -> AsyncIterator[Store]:
    """The same, of the stores whose snapshots keep older states: Weaviate's see what is written after they were opened."""
    opened = open_store(request.param, tmp_path, ManualClock(NOW))
    yield opened
    await opened.close()


@pytest.fixture(params=IMPLEMENTATIONS, ids=["memory", "replica"])
def graph(request: pytest.FixtureRequest) -> EntityGraph:
    return request.param()
