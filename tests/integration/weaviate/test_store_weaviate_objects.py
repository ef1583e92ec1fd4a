"""The store on Weaviate: raw counts of what is left there, how many calls it takes, and what it refuses."""

import random
import uuid

import numpy as np
import pytest

from shared.errors import FolderNewer, InvalidInput, StoreUnavailable
from shared.stores.memory import MemoryStore
from shared.stores.weaviate.about import SHARED_ROUNDS, about
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import above, is_
from shared.stores.weaviate.filters import passing
from shared.stores.weaviate.floors import Floors
from shared.stores.weaviate.schema import Collection, Index, record_collection, unit_collection
from shared.stores.weaviate.table import Stored, Table
from tests.contract.knowledge_events import (
    CORE,
    MODEL,
    TENANT,
    WEAVIATE,
    asserted,
    effect_of,
    retracted,
    unit,
    where,
)
from tests.integration.weaviate.writers import CLOCK, EVERYTHING

pytestmark = [
    pytest.mark.integration,
    pytest.mark.anyio,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]


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
            crowded = await about(live, keys, passing(where()), limit, tenant=TENANT, floors=Floors(), shared_most=20)
            assert [(key, list(scores.items())) for key, scores in crowded.items()] == [
                (key, list(scores.items())) for key, scores in ranked.items()
            ]


async def test_the_newest_units_of_several_keys_are_those_of_the_store_in_memory(store, meetings):
    """Many units of a day, of which some are beyond the limit; keys that were read for another unit before."""
    async with meetings.snapshot(TENANT) as expected:
        keys = [*(key for key, _ in await expected.entity_keys(frozenset({CORE}), 3)), "berlin"]
        for limit in (1, 7, 20, 150):
            async with store.reader.snapshot(TENANT) as snapshot:
                for wanted in ([keys[:1]], [keys[:3], [*keys, "nobody"], keys[3:], []], [keys]):
                    found = await snapshot.sharing(wanted, limit)
                    assert found == await expected.sharing(wanted, limit)
                    assert found[0]


async def test_a_keys_newest_units_are_right_again_and_again_while_units_come_and_go(store):
    """From the second look on, a key of many units is asked for from the moment on from which there were enough."""

    def fact(number, day):
        return asserted(unit(f"u{number}", f"Payments Client has {number} parts.", occurred_at=f"2025-01-{day:02}"))

    async def looked():
        async with store.reader.snapshot(TENANT) as snapshot:
            (sharing,) = await snapshot.sharing([["paymentsclient"]], 4)
            about = await snapshot.about(["paymentsclient"], where(), 4)
            own = await snapshot.about(["paymentsclient"], where("personal/ann"), 4)
        units = [hit.unit_ids[0] for hit in about["paymentsclient"]]
        assert [one.unit_id for one in sharing] == units
        return units, len(own["paymentsclient"])

    await store.apply(*(fact(number, number) for number in range(1, 29)))
    for _ in range(3):
        assert await looked() == (["u28", "u27", "u26", "u25"], 0)
    await store.apply(fact(30, 30), fact(26, 1), fact(50, 2))
    assert await looked() == (["u30", "u28", "u27", "u25"], 0)
    await store.apply(retracted("u28"), retracted("u27"), retracted("u30"))
    assert await looked() == (["u25", "u24", "u23", "u22"], 0)
    await store.apply(*(retracted(f"u{number}") for number in range(3, 26)))
    assert await looked() == (["u2", "u50", "u1", "u26"], 0)


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
