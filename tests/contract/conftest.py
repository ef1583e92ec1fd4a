"""Each implementation of a protocol, by name."""

from collections.abc import AsyncIterator

import pytest

from shared.clock import ManualClock
from tests.contract.knowledge_events import NOW, Store, open_store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path) -> AsyncIterator[Store]:
    """An empty knowledge store with a clock that stands still."""
    opened = open_store(request.param, tmp_path, ManualClock(NOW))
    yield opened
    await opened.close()
