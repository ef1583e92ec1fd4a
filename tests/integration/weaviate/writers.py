"""Writers of one store on Weaviate, and what two stores must say alike."""

import numpy as np

from shared.clock import ManualClock
from shared.stores.weaviate import WeaviateWriter
from shared.stores.weaviate.conditions import above
from tests.contract.knowledge_events import NOW, TENANT, WEAVIATE

CLOCK = ManualClock(NOW)
EVERYTHING = above("slot", -1)


def second(prefix):
    """Another process's writer of the same store."""
    url, grpc = WEAVIATE.split(",")
    return WeaviateWriter(url, grpc, CLOCK, prefix=prefix)


async def play(writer, batches):
    for batch in batches:
        await writer.apply(TENANT, batch)


def agree(state, expected):
    """Compare two stores: scores of words are each store's own, similarities agree as far as single precision goes."""
    for part, value in expected.items():
        if part[0] == "keyword":
            assert {units for _, _, units in state[part]} == {units for _, _, units in value}, part
        elif part[0] == "vector":
            assert [units for _, _, units in state[part]] == [units for _, _, units in value], part
            np.testing.assert_allclose([one[1] for one in state[part]], [one[1] for one in value], atol=1e-6)
        else:
            assert state[part] == value, part
