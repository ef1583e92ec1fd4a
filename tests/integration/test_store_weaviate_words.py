"""Searching by words in Weaviate: a rare word decides, however many others have the rest of a question."""

import uuid

import pytest

from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import true
from shared.stores.weaviate.records import object_id
from shared.stores.weaviate.schema import unit_collection
from shared.stores.weaviate.table import Stored, Table
from tests.contract.knowledge_events import MODEL, TENANT, WEAVIATE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]


async def test_a_rare_word_is_found_beside_words_that_all_have():
    client = Client(*WEAVIATE.split(","))
    collection = unit_collection(f"Test{uuid.uuid4().hex}", MODEL)
    try:
        await client.ensure(collection)
        table = Table(client, collection.name, TENANT)
        await table.put(
            [Stored(object_id(n), {"words": f"gate{n} close at noon", "leads": True, "slot": n}) for n in range(200)]
        )
        for n in (0, 100, 199):
            hits = await table.bm25([f"gate{n}", "close", "at", "noon"], true("leads"), ["slot"], limit=5)
            assert hits[0].properties["slot"] == n
    finally:
        await client.drop(collection.name)
        await client.close()
