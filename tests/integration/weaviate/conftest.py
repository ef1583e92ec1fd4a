"""A store on Weaviate whose collections are a test's own, and the objects in it as they lie there."""

import uuid

import pytest

from shared.stores.memory import MemoryStore
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.schema import record_collection, unit_collection
from shared.stores.weaviate.table import Table
from tests.contract.knowledge_events import MODEL, TENANT, WEAVIATE, Store, weaviate_store
from tests.contract.test_store_order import EFFECTS, _state
from tests.integration.weaviate.writers import CLOCK


@pytest.fixture
def prefix():
    """Collections that are this test's own."""
    return f"Test{uuid.uuid4().hex}"


@pytest.fixture
async def store(prefix):
    opened = weaviate_store(CLOCK, prefix)
    yield opened
    await opened.close()


@pytest.fixture
async def client(store):
    url, grpc = WEAVIATE.split(",")
    opened = Client(url, grpc)
    yield opened
    await opened.close()


@pytest.fixture
def live(client, prefix):
    """The objects that searches find."""
    return Table(client, unit_collection(prefix, MODEL).name, TENANT)


@pytest.fixture
def kept(client, prefix):
    """The records."""
    return Table(client, record_collection(prefix).name, TENANT)


@pytest.fixture
async def expected():
    """What the store in memory says after all events in the order in which they were made."""
    memory = MemoryStore(CLOCK)
    await memory.apply(TENANT, EFFECTS)
    return await _state(Store(memory, memory))
