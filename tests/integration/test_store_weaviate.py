"""The store on Weaviate: raw counts of what is left there, writers that meet, writes cut short, servers that are killed."""

import asyncio
import random
import uuid
from itertools import pairwise

import numpy as np
import pytest

from compose.native.weaviate import WeaviatePorts, start_weaviate
from schemas.messages import ReceiptOutcome as Outcome
from shared.clock import ManualClock
from shared.errors import FolderNewer, InvalidInput, StoreUnavailable
from shared.stores.memory import MemoryStore
from shared.stores.weaviate import WeaviateReader, WeaviateWriter
from shared.stores.weaviate.about import SHARED_ROUNDS, about
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.commit import Commit
from shared.stores.weaviate.conditions import above, is_
from shared.stores.weaviate.filters import passing
from shared.stores.weaviate.schema import UNIT, Collection, Index, record_collection, unit_collection
from shared.stores.weaviate.table import Stored, Table
from shared.stores.weaviate.writer import LATE_S
from tests.contract.knowledge_events import (
    CORE,
    MODEL,
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

pytestmark = [
    pytest.mark.integration,
    pytest.mark.anyio,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]
CLOCK = ManualClock(NOW)
EVERYTHING = above("slot", -1)


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


def second(prefix):
    """Another process's writer of the same store."""
    url, grpc = WEAVIATE.split(",")
    return WeaviateWriter(url, grpc, CLOCK, prefix=prefix)


async def test_of_thirty_units_with_29_deleted_one_object_is_left(store, live):
    """Case C47: the raw count in Weaviate, and of the swap only the new one, by words too."""
    await store.apply(*(asserted(unit(f"u{n}", f"Rotate the signing keys, step {n}")) for n in range(30)))
    assert await live.count(EVERYTHING) == 30
    await store.apply(*(retracted(f"u{n}") for n in range(29)))
    assert await live.count(EVERYTHING) == 1
    assert await store.keyword("rotate signing keys", limit=5) == [("u29",)]
    await store.apply(retracted("u29"), asserted(unit("new", "Rotate the signing keys, step 99")))
    assert await live.count(EVERYTHING) == 1
    assert await store.keyword("rotate signing keys", limit=5) == [("new",)]
    assert await store.vector("Rotate the signing keys, step 29", limit=5) == [("new",)]


async def test_deleting_what_is_not_there_is_not_told_as_a_success(store, live):
    """Case C47: Weaviate answers as if an unknown id had been deleted."""
    await store.apply(asserted(unit("u", "text")))
    assert await live.delete([uuid.uuid4()]) == 0
    (applied,) = await store.apply(retracted("nobody"))
    assert (applied.receipt.retracted, applied.contributions) == ((), ())
    assert await live.count(EVERYTHING) == 1


@pytest.mark.timeout(900)  # 20,000 events: a minute on an idle machine
async def test_ten_thousand_units_deleted_leave_no_object_and_no_vector(store, live, kept):
    """Weaviate deletes 10,000 objects a call at most and says so only in a count."""
    count, batch = 10_050, 1_005
    for start in range(0, count, batch):
        await store.apply(*(asserted(unit(f"u{n}", f"number {n}")) for n in range(start, start + batch)))
    assert await live.count(EVERYTHING) == count
    for start in range(0, count, batch):
        await store.apply(*(retracted(f"u{n}") for n in range(start, start + batch)))
    assert await live.count(EVERYTHING) == 0
    assert await kept.count(is_("models", MODEL)) == 0
    assert (await store.counts()).units == 0


async def test_one_call_deletes_more_objects_than_weaviate_does_in_one(store, live):
    await store.apply(asserted(unit("u", "text")))
    rows = [Stored(uuid.uuid4(), {"unit_id": f"x{n}", "chunk": 0, "slot": n}) for n in range(10_500)]
    await live.put(rows)
    assert await live.delete_where(above("slot", -1)) == len(rows) + 1
    assert await live.count(EVERYTHING) == 0


async def test_a_long_text_that_becomes_short_leaves_none_of_its_chunks(store, live):
    chunks = np.eye(5, 8, dtype=np.float32)
    await store.writer.apply(TENANT, [effect_of(asserted(unit("u", "long", revision=1)), 1, vectors=chunks)])
    assert await live.count(EVERYTHING) == 5
    await store.writer.apply(TENANT, [effect_of(asserted(unit("u", "short", revision=2)), 2)])
    assert await live.count(EVERYTHING) == 1
    assert await store.vector("short") == [("u",)]


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
            _agree(await _state(opened), expected)
        finally:
            await opened.close()


async def test_two_writers_at_once_end_where_one_would(store, prefix, expected):
    """Each event comes to both, in different orders and batches: a rebalance at its worst."""
    writers = [store.writer, second(prefix)]
    orders = [random.Random(seed).sample(EFFECTS, k=len(EFFECTS)) for seed in (1, 2)]
    await asyncio.gather(
        *(
            _play(writer, [order[start : start + 9] for start in range(0, len(order), 9)])
            for writer, order in zip(writers, orders, strict=True)
        )
    )
    await _play(store.writer, [EFFECTS])  # a live object that one wrote late is mended by whoever comes next
    await writers[1].close()
    # Weaviate's own count of objects can stay one too high when two write the same object at the same moment
    _agree(await _state(store), {part: value for part, value in expected.items() if part != "counts"})


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


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls to Weaviate."""
    made, within = [], Client.within

    async def counted(self, call, seconds):
        made.append(call)
        return await within(self, call, seconds)

    monkeypatch.setattr(Client, "within", counted)
    return made


async def test_a_batch_of_new_units_takes_as_many_calls_as_one_unit(store, calls):
    """Statements, live objects, the ledger and the watermark are written, and looked at twice; two sides of a seam patched."""

    async def count(turns):
        calls.clear()
        await store.apply(*(asserted(unit(f"t{turn}", f"turn {turn}", turn=turn, session_id="s")) for turn in turns))
        return len(calls)

    for warming in ([1], [2]):
        await count(warming)
    assert await count([3]) == await count(range(4, 64)) <= 10


@pytest.fixture
async def meetings(store):
    """200 units about 16 people and one place, on eight days; in this store and, returned, in memory."""
    names = [f"{first} {last}" for first in ("Ada", "Bo", "Cy", "Di") for last in ("Stone", "Reed", "Vale", "Moss")]
    chance = random.Random(7)
    events = [
        asserted(
            unit(
                f"u{number}",
                f"{chance.choice(names)} met {chance.choice(names)} in Berlin, {chance.randrange(60)} of us",
                occurred_at=f"2024-05-{chance.randrange(1, 9):02d}",
                **({"title": chance.choice(names)} if number % 3 == 0 else {}),
            )
        )
        for number in range(200)
    ]
    await store.apply(*events)
    memory = MemoryStore(CLOCK)
    await memory.apply(TENANT, store.said)
    return memory


async def test_passages_about_many_keys_are_found_with_few_calls(store, meetings, live, calls):
    """As the store in memory ranks them, also where a key that everything mentions fills what is shared."""
    async with store.reader.snapshot(TENANT) as snapshot, meetings.snapshot(TENANT) as expected:
        units = (await snapshot.units([f"u{number}" for number in range(200)])).values()
        keys = sorted({mention.key for one in units for mention in one.mentions} | {"nobody"})
        for limit in (1, 8, 64):
            calls.clear()
            found = await snapshot.about(keys, where(), limit)
            assert found == await expected.about(keys, where(), limit)
            assert len(calls) <= 2 * SHARED_ROUNDS + 2
            ranked = {key: {hit.passage_id: hit.score for hit in hits} for key, hits in found.items()}
            crowded = await about(live, keys, passing(where()), limit, shared_most=20)
            assert [(key, list(scores.items())) for key, scores in crowded.items()] == [
                (key, list(scores.items())) for key, scores in ranked.items()
            ]


async def test_the_newest_units_of_several_keys_are_those_of_the_store_in_memory(store, meetings):
    """Many units of a day, of which some are beyond the limit; keys that were read for another unit before."""
    async with meetings.snapshot(TENANT) as expected:
        keys = [*(key for key, _ in await expected.entity_keys(frozenset({CORE}), 3)), "berlin"]
        for limit in (1, 7, 20, 150):
            async with store.reader.snapshot(TENANT) as snapshot:
                for some in (keys[:1], keys[:3], [*keys, "nobody"], keys[3:]):
                    found = await snapshot.sharing(some, limit)
                    assert found == await expected.sharing(some, limit)
                    assert found


async def test_a_vector_of_another_length_is_refused_before_it_is_sent(store):
    await store.apply(asserted(unit("u", "text")))
    odd = effect_of(asserted(unit("v", "other")), 2, vectors=np.ones((1, 3), dtype=np.float32))
    with pytest.raises(InvalidInput, match="dimensions"):
        await store.writer.apply(TENANT, [odd])
    assert await store.known("v") is None


async def test_objects_that_are_refused_are_told(live, store):
    await store.apply(asserted(unit("u", "text")))
    with pytest.raises(StoreUnavailable):
        await live.put([Stored(uuid.uuid4(), {"unit_id": "x", "chunk": "no number"})])


async def test_a_schema_of_an_older_release_gets_what_it_lacks(client, prefix):
    wanted = record_collection(prefix)
    older = {name: index for name, index in wanted.properties.items() if name not in {"models", "past"}}
    await client.ensure(Collection(wanted.name, older))
    await client.ensure(wanted)
    table = Table(client, wanted.name, TENANT)
    await table.put([Stored(uuid.uuid4(), {"kind": "x", "past": 1, "models": ["m"], "slot": 1})])
    assert await table.count(is_("models", "m")) == 1


async def test_a_schema_that_is_indexed_otherwise_is_refused(client, prefix):
    wanted = unit_collection(prefix, MODEL)
    await client.ensure(Collection(wanted.name, {**wanted.properties, "words": Index.WHOLE}, vectors=True))
    with pytest.raises(FolderNewer, match="words"):
        await client.ensure(wanted)


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
        _agree(await _state(opened), expected)
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


async def _play(writer, batches):
    for batch in batches:
        await writer.apply(TENANT, batch)


def _agree(state, expected):
    """Compare two stores: scores of words are each store's own, similarities agree as far as single precision goes."""
    for part, value in expected.items():
        if part[0] == "keyword":
            assert {units for _, _, units in state[part]} == {units for _, _, units in value}, part
        elif part[0] == "vector":
            assert [units for _, _, units in state[part]] == [units for _, _, units in value], part
            np.testing.assert_allclose([one[1] for one in state[part]], [one[1] for one in value], atol=1e-6)
        else:
            assert state[part] == value, part
