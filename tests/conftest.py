"""Fixtures that every tier shares."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Cortex runs on asyncio alone."""
    return "asyncio"
