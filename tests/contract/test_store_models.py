"""A store keeps vectors of several embedding models, searches one of them, and never mixes two."""

import numpy as np
import pytest

from shared.errors import InvalidInput, ModelChanged, UnknownThing
from shared.store import Effect
from shared.vector_models import Coverage, KnownModel, ModelState
from tests.contract.knowledge_events import DIMS, MODEL, TENANT, asserted, effect_of, parts, retracted, unit, where

pytestmark = pytest.mark.anyio

NEWER = "newer-model"
NEWER_DIMS = 12
TEXTS = {"a": "Alpha runs the gateway.", "b": "Beta keeps the ledger.", "c": "Gamma owns the build."}


def newer_vector(text: str) -> np.ndarray:
    """Return the other model's vector of a text: of another length, and unlike the first model's."""
    seed = sum(text.lower().encode())
    vector = np.random.default_rng(seed).normal(size=NEWER_DIMS).astype(np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
async def taught(store):
    """Three units with the first model's vectors, and the second model being built beside it."""
    await store.apply(*(asserted(unit(name, text)) for name, text in TEXTS.items()))
    await store.writer.add_model(TENANT, NEWER, NEWER_DIMS)
    return store


async def build(store, limit: int = 2) -> None:
    """Give every text the second model's vectors, page by page."""
    after = ""
    while page := await store.writer.texts_without(TENANT, NEWER, limit, after):
        vectors = {text.content_key: newer_vector(text.text)[np.newaxis] for text in page}
        assert await store.writer.put_vectors(TENANT, NEWER, vectors) == len(page)
        after = page[-1].content_key


async def nearest(store, query: np.ndarray, limit: int = 3) -> list[str]:
    async with store.reader.snapshot(TENANT) as snapshot:
        return [hit.unit_ids[0] for hit in await snapshot.vector(query, where(), limit)]


async def stored(store, unit_id: str) -> bool:
    async with store.reader.snapshot(TENANT) as snapshot:
        return unit_id in await snapshot.units([unit_id])


async def searched(store) -> str | None:
    async with store.reader.snapshot(TENANT) as snapshot:
        return await snapshot.model()


async def test_the_first_vectors_make_their_model_the_active_one(store):
    assert (await store.writer.models(TENANT), await searched(store)) == ([], None)
    await store.apply(asserted(unit("a", TEXTS["a"])))
    assert await store.writer.models(TENANT) == [KnownModel(MODEL, DIMS, ModelState.ACTIVE)]
    assert await searched(store) == MODEL
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.models() == await store.writer.models(TENANT)


async def test_a_model_beside_the_active_one_is_not_searched(taught):
    await build(taught)
    assert [model.name for model in await taught.writer.models(TENANT)] == [MODEL, NEWER]
    assert await searched(taught) == MODEL
    assert await taught.vector(TEXTS["b"], limit=1) == [("b",)]
    with pytest.raises(InvalidInput, match=f"{NEWER_DIMS} dimensions"):
        await nearest(taught, newer_vector(TEXTS["b"]))


async def test_what_lacks_a_models_vectors_is_told_page_by_page(taught):
    assert await taught.writer.coverage(TENANT, NEWER) == Coverage(3, 3)
    assert await taught.writer.coverage(TENANT, MODEL) == Coverage(3, 0)
    first = await taught.writer.texts_without(TENANT, NEWER, 2)
    rest = await taught.writer.texts_without(TENANT, NEWER, 2, first[-1].content_key)
    assert (len(first), len(rest)) == (2, 1)
    keys = [text.content_key for text in (*first, *rest)]
    assert keys == sorted(keys)
    assert {text.unit_id: text.text for text in (*first, *rest)} == TEXTS
    await build(taught)
    assert await taught.writer.coverage(TENANT, NEWER) == Coverage(3, 0)
    assert await taught.writer.texts_without(TENANT, NEWER, 2) == []


async def test_the_switch_waits_for_the_last_text(taught):
    await build(taught)
    await taught.apply(asserted(unit("late", "Delta arrived while it was built.")))
    assert await taught.writer.activate_model(TENANT, NEWER) is False
    assert await searched(taught) == MODEL
    await build(taught)
    assert await taught.writer.activate_model(TENANT, NEWER) is True
    assert await searched(taught) == NEWER


async def test_parts_that_wait_for_their_document_are_texts_too(taught):
    await build(taught)
    await taught.apply(*parts("doc", 1, ["A part that nobody sees yet."]))
    assert await taught.writer.activate_model(TENANT, NEWER) is False


async def test_a_question_sees_all_of_the_old_index_or_all_of_the_new_one(taught):
    """A snapshot that was opened before the switch goes on with the old model, whatever is loaded meanwhile."""
    await build(taught)
    async with taught.reader.snapshot(TENANT) as before:
        assert await before.model() == MODEL
        await taught.writer.activate_model(TENANT, NEWER)
        for name, text in TEXTS.items():
            assert (await nearest(taught, newer_vector(text)))[0] == name
        with pytest.raises(InvalidInput):
            await before.vector(newer_vector(TEXTS["a"]), where(), 3)
        assert await before.model() == MODEL
    async with taught.reader.snapshot(TENANT) as after:
        hits = await after.vector(newer_vector(TEXTS["c"]), where(), 3)
        kept = await after.passage_vectors([hit.passage_id for hit in hits])
        assert {rows.shape for rows in kept.values()} == {(1, NEWER_DIMS)}


async def test_going_back_is_a_switch_while_the_old_vectors_are_kept(taught):
    await build(taught)
    await taught.writer.activate_model(TENANT, NEWER)
    assert await taught.writer.activate_model(TENANT, MODEL) is True
    assert await taught.vector(TEXTS["a"], limit=1) == [("a",)]
    assert [model.name for model in await taught.writer.models(TENANT)] == [MODEL, NEWER]


async def test_vectors_of_both_models_come_with_one_effect(taught):
    await build(taught)
    text = "Epsilon is stored during the change."
    plain = effect_of(asserted(unit("e", text)), 50)
    await taught.writer.apply(
        TENANT, [Effect(plain.message, plain.event, plain.vectors, {NEWER: newer_vector(text)[np.newaxis]})]
    )
    assert await taught.vector(text, limit=1) == [("e",)]
    assert await taught.writer.activate_model(TENANT, NEWER) is True
    assert (await nearest(taught, newer_vector(text)))[0] == "e"


async def test_a_text_without_the_active_models_vectors_is_refused_whole(taught):
    """An effect that was embedded before the switch would be stored and never found."""
    await build(taught)
    await taught.writer.activate_model(TENANT, NEWER)
    late = effect_of(asserted(unit("late", "Embedded by the old model.")), 60)
    with pytest.raises(ModelChanged):
        await taught.writer.apply(TENANT, [late])
    assert not await stored(taught, "late")
    beside = {NEWER: newer_vector("Embedded by the old model.")[np.newaxis]}
    await taught.writer.apply(TENANT, [Effect(late.message, late.event, late.vectors, beside)])
    assert await stored(taught, "late")


async def test_vectors_of_a_model_that_is_not_known_are_left_out(taught):
    """Nobody would ever drop them."""
    text = "Zeta has one model too many."
    plain = effect_of(asserted(unit("z", text)), 70)
    strange = {"strange": np.ones((1, 5), dtype=np.float32)}
    await taught.writer.apply(TENANT, [Effect(plain.message, plain.event, plain.vectors, strange)])
    key = plain.message.embedding.content_key
    assert await taught.writer.known_vectors("strange", TENANT, [key]) == {}
    assert await taught.writer.put_vectors(TENANT, "strange", {key: strange["strange"]}) == 0
    with pytest.raises(UnknownThing, match="strange"):
        await taught.writer.activate_model(TENANT, "strange")


async def test_vectors_of_another_length_than_their_models_are_refused(taught):
    (text,) = await taught.writer.texts_without(TENANT, NEWER, 1)
    with pytest.raises(InvalidInput, match="dimensions"):
        await taught.writer.put_vectors(TENANT, NEWER, {text.content_key: np.ones((1, 3), dtype=np.float32)})
    with pytest.raises(InvalidInput, match="dimensions"):
        await taught.writer.add_model(TENANT, NEWER, NEWER_DIMS + 1)


async def test_a_dropped_model_leaves_nothing_and_the_active_one_stays(taught):
    await build(taught)
    with pytest.raises(InvalidInput, match=MODEL):
        await taught.writer.drop_model(TENANT, MODEL, 10)
    assert [await taught.writer.drop_model(TENANT, NEWER, 2) for _ in range(3)] == [2, 1, 0]
    assert [model.name for model in await taught.writer.models(TENANT)] == [MODEL]
    assert await taught.writer.coverage(TENANT, NEWER) == Coverage(3, 3)
    assert await taught.vector(TEXTS["b"], limit=1) == [("b",)]


async def test_a_text_that_is_gone_takes_the_vectors_of_all_models_with_it(taught):
    texts = await taught.writer.texts_without(TENANT, NEWER, 10)
    (gone,) = [text.content_key for text in texts if text.unit_id == "a"]
    await build(taught)
    await taught.apply(retracted("a"))
    for model in (MODEL, NEWER):
        assert await taught.writer.known_vectors(model, TENANT, [gone]) == {}
    assert await taught.writer.put_vectors(TENANT, NEWER, {gone: newer_vector("x")[np.newaxis]}) == 0


async def test_vectors_that_are_put_anew_are_searched_at_once(taught):
    """The active model's vectors are replaced: readers that have the old ones loaded see it."""
    assert await taught.vector(TEXTS["a"], limit=1) == [("a",)]
    effect = effect_of(asserted(unit("a", TEXTS["a"])), 90)
    moved = np.eye(1, DIMS, dtype=np.float32)
    await taught.writer.put_vectors(TENANT, MODEL, {effect.message.embedding.content_key: moved})
    assert (await nearest(taught, moved[0]))[0] == "a"
    async with taught.reader.snapshot(TENANT) as snapshot:
        (best, *_) = await snapshot.vector(moved[0], where(), 1)
    assert best.score == pytest.approx(1.0)


async def test_digests_say_nothing_about_models(taught):
    before = await taught.writer.digest(TENANT)
    await build(taught)
    await taught.writer.activate_model(TENANT, NEWER)
    assert await taught.writer.digest(TENANT) == before
