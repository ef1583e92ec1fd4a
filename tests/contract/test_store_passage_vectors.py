"""A passage gives back the vectors that it was stored with."""

import numpy as np
import pytest

from tests.contract.knowledge_events import TENANT, Store, asserted, unit, vector_of

pytestmark = pytest.mark.anyio


async def test_each_known_passage_has_its_vectors_and_others_are_left_out(store: Store) -> None:
    await store.apply(asserted(unit("u1", "The limit is 5.")), asserted(unit("u2", "The limit is 6.")))
    known = await store.known("u1")
    async with store.reader.snapshot(TENANT) as snapshot:
        found = await snapshot.passage_vectors([known.passage_id, known.passage_id + 1])
    assert list(found) == [known.passage_id]
    np.testing.assert_array_equal(found[known.passage_id], vector_of("The limit is 5.")[np.newaxis])


async def test_a_tenant_without_units_has_none(store: Store) -> None:
    async with store.reader.snapshot("nobody") as snapshot:
        assert await snapshot.passage_vectors([1]) == {}
