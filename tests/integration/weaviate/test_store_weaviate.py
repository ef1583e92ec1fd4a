"""The store on Weaviate: writers that meet, writes that are cut short, servers that are killed."""

import asyncio
import random
from itertools import pairwise

import pytest

from compose.native.weaviate import WeaviatePorts, start_weaviate
from schemas.messages import ReceiptOutcome as Outcome
from shared.clock import ManualClock
from shared.errors import StoreUnavailable
from shared.stores.memory import MemoryStore
from shared.stores.weaviate import WeaviateReader, WeaviateWriter
from shared.stores.weaviate.commit import Commit
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.schema import UNIT
from shared.stores.weaviate.writer import LATE_S
from tests.contract.knowledge_events import (
    NOW,
    TENANT,
    WEAVIATE,
    Store,
    asserted,
    completed,
    effect_of,
    parts,
    retracted,
    unit,
    weaviate_store,
    where,
)
from tests.contract.test_store_order import EFFECTS, _state
from tests.integration.weaviate.writers import CLOCK, EVERYTHING, agree, play, second

pytestmark = [
    pytest.mark.integration,
    pytest.mark.anyio,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]


async def test_whatever_the_order_and_the_batches_the_end_is_that_of_the_store_in_memory(prefix, expected):
    """As test_store_order.py for the others; Weaviate's BM25 has its own scores, so of words only who is found counts."""
    for seed in range(3):
        chance = random.Random(seed)
        numbers = [*range(len(EFFECTS)), *chance.choices(range(len(EFFECTS)), k=12)]
        chance.shuffle(numbers)
        edges = [0, *sorted(chance.sample(range(1, len(numbers)), 6)), len(numbers)]
        opened = weaviate_store(CLOCK, f"{prefix}{seed}")
        try:
            for start, end in pairwise(edges):
                await opened.writer.apply(TENANT, [EFFECTS[number] for number in numbers[start:end]])
            agree(await _state(opened), expected)
        finally:
            await opened.close()


async def test_two_writers_at_once_end_where_one_would(store, prefix, expected):
    """Each event comes to both, in different orders and batches: a rebalance at its worst."""
    writers = [store.writer, second(prefix)]
    orders = [random.Random(seed).sample(EFFECTS, k=len(EFFECTS)) for seed in (1, 2)]
    await asyncio.gather(
        *(
            play(writer, [order[start : start + 9] for start in range(0, len(order), 9)])
            for writer, order in zip(writers, orders, strict=True)
        )
    )
    await play(store.writer, [EFFECTS])  # a live object that one wrote late is mended by whoever comes next
    await writers[1].close()
    # Weaviate's own count of objects can stay one too high when two write the same object at the same moment
    agree(await _state(store), {part: value for part, value in expected.items() if part != "counts"})


async def test_both_stores_tell_of_each_event_the_same(store):
    """Receipts and contributions are those of the store in memory, whose very rules enter the events."""
    batches = [EFFECTS[start : start + 7] for start in range(0, len(EFFECTS), 7)]
    memory = MemoryStore(CLOCK)
    for batch in batches:
        assert await store.writer.apply(TENANT, batch) == await memory.apply(TENANT, batch)


async def test_a_write_that_was_cut_short_is_completed_by_its_redelivery(store, live):
    """The statements are there and what is searched is not, or only half: as a kill between two calls leaves it."""
    await store.apply(asserted(unit("a", "alpha one")), asserted(unit("b", "beta two", supersedes="a")))
    whole = await store.writer.digest(TENANT)
    await live.delete_where(is_("unit_id", "a"))
    assert await store.writer.digest(TENANT) != whole, "what cannot be found is not known"
    applied = await store.again(1, 2)
    assert [one.receipt.outcome for one in applied] == [Outcome.UNCHANGED, Outcome.UNCHANGED]
    assert await store.writer.digest(TENANT) == whole
    assert await store.keyword("alpha") == []
    assert await store.keyword("alpha", where(include_superseded=True)) == [("a",)]


async def test_what_was_not_told_to_a_units_relations_is_told_with_its_redelivery(store, live):
    """A kill after a unit's own object: what it supersedes, and the turns beside it, are still as they were."""
    said = {"session_id": "s", "occurred_at": "2023-05-08"}
    await store.apply(asserted(unit("t1", "Where did you go", turn=1, **said)))
    before = await live.page(EVERYTHING, list(UNIT), limit=10, vectors=True)
    await store.apply(asserted(unit("t2", "To the aquarium", turn=2, supersedes="t1", **said)))
    whole = {"aquarium": [("t2",)], "8 May 2023": [("t2",)]}
    assert {words: await store.keyword(words) for words in whole} == whole
    await live.put(before)
    assert sorted(await store.keyword("8 May 2023")) == [("t1",), ("t2",)]
    await store.again(2)
    assert {words: await store.keyword(words) for words in whole} == whole
    everything = await store.keyword("aquarium", where(include_superseded=True))
    assert sorted(everything) == [("t1",), ("t2",)]


async def test_a_documents_turn_that_was_cut_short_is_completed_by_its_redelivery(store, live):
    """The old revision's objects are still there when the completion comes again."""
    await store.apply(*parts("D", 1, ["alpha", "beta"]), completed("D", 1, ["alpha", "beta"]))
    old = await live.page(EVERYTHING, list(UNIT), limit=10, vectors=True)
    await store.apply(*parts("D", 2, ["alpha new"]), completed("D", 2, ["alpha new"]))
    whole = await store.writer.digest(TENANT)
    await live.put(old)
    assert await store.keyword("beta") == [("D#1",)]
    (applied,) = await store.again(5)
    assert (applied.receipt.outcome, applied.receipt.retracted) == (Outcome.UNCHANGED, ("D#1",))
    assert await store.keyword("beta") == []
    assert await store.writer.digest(TENANT) == whole


async def test_a_late_object_of_a_retracted_unit_goes_when_its_retraction_comes_again(store, live):
    await store.apply(asserted(unit("u", "alpha")))
    ghost = await live.page(EVERYTHING, list(UNIT), limit=10, vectors=True)
    await store.apply(retracted("u"))
    await live.put(ghost)
    await store.again(2)
    assert await live.count(EVERYTHING) == 0


async def test_a_late_object_of_a_retracted_unit_goes_with_a_batch_a_while_later(live, prefix):
    """A process that slept wrote it and was killed before it could look again; nothing about the unit comes any more."""
    clock = ManualClock(NOW)
    store = weaviate_store(clock, prefix)
    await store.apply(asserted(unit("u", "alpha")))
    ghost = await live.page(EVERYTHING, list(UNIT), limit=10, vectors=True)
    await store.apply(retracted("u"))
    await live.put(ghost)
    await store.apply(asserted(unit("v", "beta")))
    assert await store.keyword("alpha") == [("u",)]
    clock.advance(LATE_S)
    await store.apply(asserted(unit("w", "gamma")))
    assert await store.keyword("alpha") == []
    assert await live.count(EVERYTHING) == 2
    await store.close()


async def test_an_assertion_that_comes_between_a_retractions_look_and_its_statement_does_not_stay(
    store, prefix, live, monkeypatch
):
    """The retraction had seen that nothing was there, and the assertion that nothing was said: the last look tells."""
    other, write = second(prefix), Commit.write
    await store.apply(asserted(unit("x", "gamma")))

    async def late(self, *given, **named):
        monkeypatch.setattr(Commit, "write", write)
        await other.apply(TENANT, [effect_of(asserted(unit("u", "alpha", revision=1)), 2)])
        return await write(self, *given, **named)

    monkeypatch.setattr(Commit, "write", late)
    await store.writer.apply(TENANT, [effect_of(retracted("u", revision=2), 3)])
    await other.close()
    assert await store.keyword("alpha") == []
    assert await live.count(EVERYTHING) == 1


async def test_a_server_that_is_not_there_is_unavailable():
    writer = WeaviateWriter("http://127.0.0.1:1", "127.0.0.1:2", CLOCK)
    reader = WeaviateReader("http://127.0.0.1:1", "127.0.0.1:2")
    with pytest.raises(StoreUnavailable):
        await writer.apply(TENANT, [effect_of(asserted(unit("u", "text")), 1)])
    with pytest.raises(StoreUnavailable):
        await reader.ping()
    with pytest.raises(StoreUnavailable):
        async with reader.snapshot(TENANT):
            pytest.fail("there is nothing to read from")
    await writer.close()
    await reader.close()


@pytest.mark.cluster
async def test_a_server_killed_in_the_middle_of_writes_loses_nothing_that_comes_again(tmp_path, expected):
    """Events whose write failed or was not answered are delivered again: the digest is that of a store without a kill."""
    server = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    opened = Store(WeaviateWriter(server.url, server.grpc, CLOCK), WeaviateReader(server.url, server.grpc, clock=CLOCK))
    batches = [EFFECTS[start : start + 3] for start in range(0, len(EFFECTS), 3)]
    try:
        for number, batch in enumerate(batches):
            writing = asyncio.create_task(opened.writer.apply(TENANT, batch))
            if number % 12 == 5:
                await asyncio.wait([writing], timeout=0.01)
                await server.kill()
                await asyncio.wait([writing])
                assert isinstance(writing.exception(), StoreUnavailable | None)
                await server.start()
                await _until_applied(opened.writer, batch)
            else:
                await writing
        agree(await _state(opened), expected)
    finally:
        await opened.close()
        await server.stop()


async def _until_applied(writer, batch):
    """Deliver a batch until it is taken, as a stage does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await writer.apply(TENANT, batch)
            except StoreUnavailable:
                continue
