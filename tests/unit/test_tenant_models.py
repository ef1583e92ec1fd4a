"""What is stored has vectors of the model that is searched, whatever was changed on the way; other models never hold it up."""

import asyncio

import numpy as np
import pytest

from ingest.delivery import Backoff, Delivery, Hopeless
from ingest.metrics import IngestMetrics
from ingest.models import TenantModels
from shared.embedder import Alone, Embedder, unknown_model
from shared.embedders.hashed import HashedEmbedder
from shared.errors import EmbedderUnavailable, InvalidInput, NotReady, UnknownModel
from shared.stores.memory import MemoryStore
from tests.contract.knowledge_events import MODEL, TENANT, asserted, effect_of, retracted, unit

pytestmark = pytest.mark.anyio

WIDE = HashedEmbedder(32)
TEXT = "The gateway restarts at noon."


class Named:
    """An embedder that fails on demand, and counts."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.hangs = False
        self.asked = 0
        self.model, self.dims = WIDE.model, WIDE.dims

    async def embed_query(self, text: str) -> np.ndarray:
        return await WIDE.embed_query(text)

    async def embed_text(self, text: str) -> np.ndarray:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return await WIDE.embed_text(text)

    async def close(self) -> None:
        """Nothing to close."""


class Several:
    """Embedders of given models, without the weights of any."""

    def __init__(self, *embedders: Embedder) -> None:
        self.by_name = {embedder.model: embedder for embedder in embedders}
        self.wanted = embedders[0]

    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    async def of(self, model: str | None) -> Embedder:
        if model is None:
            return self.wanted
        if model not in self.by_name:
            raise unknown_model(model, self.names())
        return self.by_name[model]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def delivery() -> Delivery:
    return Delivery("store", 2, Backoff(1e-6, 1e-5), IngestMetrics())


@pytest.fixture
async def store() -> MemoryStore:
    """A store whose index is of the model of `effect_of`."""
    store = MemoryStore()
    await store.apply(TENANT, [effect_of(asserted(unit("first", "The first text.")), 0)])
    return store


async def switch(store: MemoryStore) -> None:
    await store.add_model(TENANT, WIDE.model, WIDE.dims)
    texts = await store.texts_without(TENANT, WIDE.model, 10)
    vectors = {text.content_key: await WIDE.embed_text(text.text) for text in texts}
    await store.put_vectors(TENANT, WIDE.model, vectors)
    assert await store.activate_model(TENANT, WIDE.model)


async def test_a_tenant_that_has_nothing_gets_the_wanted_model_and_any_other_its_own(store):
    models = TenantModels(store, Several(WIDE, HashedEmbedder(64)))
    assert (await models.active("new")).model == WIDE.model
    with pytest.raises(UnknownModel, match=MODEL):
        await models.active(TENANT)
    await switch(store)
    assert (await models.active(TENANT)).model == WIDE.model


async def test_with_one_model_nothing_is_added(store, delivery):
    embedder = Named()
    effects = [effect_of(asserted(unit("a", TEXT)), 1), effect_of(retracted("first"), 2)]
    assert await TenantModels(store, Several(embedder)).complete(TENANT, effects, delivery) == effects
    assert embedder.asked == 0


async def test_what_was_embedded_before_the_switch_gets_the_new_models_vectors(store, delivery):
    await switch(store)
    late = effect_of(asserted(unit("a", TEXT)), 1)
    (complete,) = await TenantModels(store, Alone(WIDE)).complete(TENANT, [late], delivery)
    assert list(complete.beside) == [WIDE.model]
    assert np.array_equal(complete.beside[WIDE.model], await WIDE.embed_text(TEXT))
    await store.apply(TENANT, [complete])


async def test_vectors_that_the_store_has_are_not_computed_again(store, delivery):
    embedder = Named()
    await switch(store)
    again = effect_of(asserted(unit("b", "The first text.")), 1)
    (complete,) = await TenantModels(store, Alone(embedder)).complete(TENANT, [again], delivery)
    assert (list(complete.beside), embedder.asked) == ([WIDE.model], 0)


async def test_a_text_that_the_searched_model_refuses_is_the_events_failure(store, delivery):
    await switch(store)
    models = TenantModels(store, Alone(Named(InvalidInput("no"))))
    with pytest.raises(Hopeless, match="invalid-input"):
        await models.complete(TENANT, [effect_of(asserted(unit("a", TEXT)), 1)], delivery)


@pytest.mark.parametrize("fault", [EmbedderUnavailable("away"), InvalidInput("no")])
async def test_a_model_that_is_not_searched_is_left_out_when_it_fails_and_then_for_a_while(store, delivery, fault):
    await store.add_model(TENANT, WIDE.model, WIDE.dims)
    embedder = Named(fault)
    models = TenantModels(store, Alone(embedder))
    effects = [effect_of(asserted(unit(f"u{n}", f"{TEXT} {n}")), n) for n in range(1, 6)]
    assert await models.complete(TENANT, effects, delivery) == effects
    assert embedder.asked == 1


async def test_a_model_that_is_not_searched_is_given_a_moment_and_no_more(store, delivery):
    await store.add_model(TENANT, WIDE.model, WIDE.dims)
    embedder = Named()
    embedder.hangs = True
    effects = [effect_of(asserted(unit(f"u{n}", f"{TEXT} {n}")), n) for n in range(1, 6)]
    async with asyncio.timeout(10):
        assert await TenantModels(store, Alone(embedder), beside_s=0.05).complete(TENANT, effects, delivery) == effects
    assert embedder.asked == 1


async def test_an_embedder_that_cannot_be_opened_now_is_waited_for(store):
    """No event is buried for it."""

    class Closed(Several):
        async def of(self, model: str | None) -> Embedder:
            raise EmbedderUnavailable("no weights")

    with pytest.raises(NotReady, match="no weights"):
        await TenantModels(store, Closed(WIDE)).active(TENANT)
