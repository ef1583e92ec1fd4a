"""What every tier shares.

``CORTEX_TEST_BROKER=kafka`` runs the tests that take a broker on Apache Kafka instead of the embedded one, and
``CORTEX_TEST_WEAVIATE`` (``http://host:port,host:grpc-port``) lets those on Weaviate run; with either run the tests marked
``cluster``, which start real servers themselves. ``make test-cluster`` sets both.
"""

import os

import pytest

WEAVIATE = os.environ.get("CORTEX_TEST_WEAVIATE", "")
BROKER = os.environ.get("CORTEX_TEST_BROKER", "embedded")
MARKERS = (
    "broker: runs on a broker, embedded or Apache Kafka; set by the fixtures",
    "cluster: needs Apache Kafka or Weaviate; run by make test-cluster; set on what runs on a Weaviate",
    "embedded_only(reason): is about the embedded broker alone, for that reason",
)


TIERS = ("e2e", "integration", "contract", "unit")
"""The order of the tests: what starts processes first, so that several at a time end together and not with one that waits."""


@pytest.fixture
def anyio_backend() -> str:
    """Cortex runs on asyncio alone."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if BROKER not in {"embedded", "kafka"}:
        raise pytest.UsageError(f"CORTEX_TEST_BROKER is {BROKER!r}: it may be embedded or kafka")


def _tier(item: pytest.Item) -> int:
    return next((place for place, tier in enumerate(TIERS) if tier in item.path.parts), len(TIERS))


@pytest.hookimpl(tryfirst=True)  # before the choice by -m, which sees the markers that are set here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_tier)
    for item in items:
        if {"broker", "own_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("broker")
        of_store = "contract" in item.path.parts  # a unit test's parameter may have that name and need no server
        if (
            of_store and "weaviate" in getattr(getattr(item, "callspec", None), "params", {}).values()
        ) or "weaviate" in item.path.name:
            item.add_marker("cluster")
    elsewhere = {"embedded_only"} if BROKER == "kafka" else set()
    if BROKER == "embedded" and not WEAVIATE:
        elsewhere.add("cluster")
    left_out = [item for item in items if elsewhere & {marker.name for marker in item.iter_markers()}]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]
