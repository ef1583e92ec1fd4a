"""An event's way through the four stages, on the real broker: one pipeline for all of these tests."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator

import orjson
import pytest

from schemas.messages import MAGIC, MarkerKind, Receipt, ReceiptOutcome, decode_message
from shared.effects import document_hash
from shared.errors import EmbedderUnavailable, StoreUnavailable
from shared.graph_feed import GraphFeed
from shared.graphs.memory import MemoryGraph
from shared.kafka import (
    BULK,
    CONTRADICTIONS,
    DEAD_LETTERS,
    EMBEDDED,
    EPOCH_KEY,
    GRAPH,
    RESOLVED,
    STORED,
    Outgoing,
    Publisher,
    partition_of,
)
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, as_bytes, asserted, envelope, retracted, running, until

JUNK, HALF = STRAY = (b"junk", b"half")
"""Keys of records that do not belong where a test puts them, and stay there for the others."""

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def rig(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One pipeline; each test has a tenant of its own."""
    async with running(Rig(broker.bootstrap, "flow.", tmp_path_factory.mktemp("flow"))) as one:
        yield one


async def test_an_event_becomes_searchable_by_word_and_by_vector(rig: Rig):
    await rig.say(asserted("u1", "The retry limit of the payments client is five."), tenant="happy")
    await rig.settle()
    assert await rig.search("retry limit payments", tenant="happy") == ["u1"]
    assert await rig.near("payments client retry limit", tenant="happy") == ["u1"]


async def test_mentions_go_to_the_graph_and_a_retraction_takes_them_out_again(rig: Rig):
    await rig.say(asserted("u1", "Orion depends on Ledger."), tenant="graph")
    await rig.settle()
    graph = MemoryGraph()
    feed = asyncio.create_task(GraphFeed(rig.bootstrap, graph, prefix=rig.prefix).run())
    try:
        await until(lambda: graph.snapshot("graph").counts()[0] > 0)
        await rig.say(retracted("u1"), tenant="graph")
        await rig.settle()
        await until(lambda: graph.snapshot("graph").counts()[0] == 0)
    finally:
        feed.cancel()
        await asyncio.gather(feed, return_exceptions=True)
    assert await rig.units("u1", tenant="graph") == {}
    key = b"graph/unit:u1"
    told = [record.value for record in await rig.topic(GRAPH) if record.key == key]
    assert told[-1] is None, "the compacted topic may forget it"
    assert orjson.loads(told[-2])["removed"] is True


async def test_a_contradiction_is_found_kept_and_told(rig: Rig):
    await rig.say(asserted("a", "The retry limit for the payments client is 5."), tenant="dispute")
    await rig.say(asserted("b", "The retry limit for the payments client is 6."), tenant="dispute")
    await rig.settle()
    async with rig.reader.snapshot("dispute") as snapshot:
        pairs = await snapshot.contradictions()
    assert [pair.found.units for pair in pairs] == [("a", "b")]
    told = [orjson.loads(r.value) for r in await rig.topic(CONTRADICTIONS) if r.key == b"dispute/a~b" and r.value]
    assert told[-1]["open"] is True
    assert told[-1]["difference"]
    await rig.say(retracted("b"), tenant="dispute")
    await rig.settle()
    async with rig.reader.snapshot("dispute") as snapshot:
        assert await snapshot.contradictions() == []


async def test_a_record_over_kafka_is_accepted_once_it_is_journaled(rig: Rig):
    event = envelope(asserted("k1", "Deploys stop on Friday."), "foreign")
    body = orjson.dumps(event)
    wrong = (partition_of(b"foreign/k1", rig.log.partitions) + 1) % rig.log.partitions
    await rig.produce((b"some other key", body, []), (b"some other key", body, []), partition=wrong)
    await until(lambda: rig.log.find("foreign", event["id"]))
    await rig.settle()
    (row,) = await rig.log.find("foreign", event["id"])
    assert row.position.partition == partition_of(b"foreign/k1", rig.log.partitions), (
        "a stray goes where its key belongs"
    )
    assert await rig.search("deploys friday", tenant="foreign") == ["k1"]


async def test_a_header_that_is_not_text_costs_nothing(rig: Rig):
    odd = [("x", b"\xff\xfe"), ("cortex-epoch", b"not ours"), ("cortex-number", b"7")]
    records = [(b"k", as_bytes(asserted(f"h{n}", f"Header number {n} is odd."), "headers"), odd) for n in range(10)]
    await rig.produce(*records, partition=1)
    await until(lambda: _has(rig, "headers", *(f"h{n}" for n in range(10))))


async def test_poison_on_one_partition_stops_nothing(rig: Rig):
    """C30: E1 and E7 are found; E2 to E6 are dead letters with everything that is needed to mend and replay them."""
    bad = {
        b"{not json": None,
        orjson.dumps(envelope({"type": "unit.guessed", "data": {}}, "poison")): "type",
        as_bytes(asserted("e4", " \n\t "), "poison"): "/data/text",
        as_bytes(asserted("e5", "NULL"), "poison").replace(b"NULL", b"lone \\ud800 surrogate"): None,
        as_bytes(asserted("e5b", "NULL"), "poison").replace(b"NULL", b"a \\u0000 character"): "/data/text",
        orjson.dumps({k: v for k, v in envelope(asserted("e6", "No tenant.")).items() if k != "tenant"}): "tenant",
        as_bytes({**asserted("e8", "Version."), "schemaversion": "9.0"}, "poison"): "version 9",
        b"": None,
        b"[" * 100_000: None,
        as_bytes(asserted("e9", "x"), "poison") + b" " * 300_000: "262144",
    }
    headers = [("trace", b"abc"), ("odd", b"\xff")]
    e1, e7 = (as_bytes(asserted(name, f"{name} is good knowledge."), "poison") for name in ("e1", "e7"))
    before = {letter.id for letter in await rig.letters(limit=1000)}
    await rig.produce(*[(b"key", body, headers) for body in (e1, *bad, e7)], partition=2)
    await until(lambda: _has(rig, "poison", "e1", "e7"))
    await rig.settle()
    letters = {letter.body: letter for letter in await rig.letters(limit=1000) if letter.id not in before}
    assert set(letters) == set(bad)
    offsets = sorted(letter.offset for letter in letters.values())
    assert offsets == list(range(offsets[0], offsets[0] + len(bad))), "each stands at its own offset"
    for body, named in bad.items():
        letter = letters[body]
        assert (letter.stage, letter.attempts, letter.partition) == ("embed", 1, 2)
        assert letter.topic.endswith("cortex.events")
        assert (letter.key, letter.headers) == (b"key", tuple(headers))
        assert letter.cause in ("invalid-input", "unsupported-version", "too-large")
        assert named is None or named in letter.detail
    assert letters[as_bytes_of(bad, "unit.guessed")].tenant == "poison", "its status can be asked for"
    on_topic = [record.value or b"" for record in await rig.topic(DEAD_LETTERS)]
    assert set(bad) <= set(on_topic)
    assert not rig.pipeline.failed.is_set()
    assert not any(rig.pipeline.lag().values())


async def test_exactly_one_message_goes_on_for_each_event_in_order_and_on_its_partition(rig: Rig):
    places = await rig.say(*[asserted(f"u{n}", f"Sentence {n}.") for n in range(60)], tenant="hops")
    await rig.settle()
    wanted = defaultdict(list)
    for place in places:
        wanted[place.position.partition].append(place.position.number)
    for topic in (EMBEDDED, RESOLVED):
        assert await _numbers(rig, topic, "hops", lambda body: decode_message(body)[0]) == wanted
    assert await _numbers(rig, STORED, "hops", Receipt.model_validate_json) == wanted


async def test_an_equal_text_is_embedded_once(rig: Rig):
    text = "Only one vector is needed for this sentence."
    await rig.say(asserted("u1", text), asserted("u2", text), tenant="once")
    await rig.settle()
    await rig.say(asserted("u3", text), tenant="once")
    await rig.settle()
    assert rig.embedder.computed[text] == 1
    assert set(await rig.units("u1", "u2", "u3", tenant="once")) == {"u1", "u2", "u3"}


async def test_handling_an_event_again_changes_nothing(rig: Rig):
    places = await rig.say(
        asserted("u1", "First."),
        asserted("u1", "Second.", revision=2**52),  # above what a place in the log counts as
        asserted("u2", "Gone."),
        retracted("u2"),
        tenant="again",
    )
    await rig.settle()
    digest = await rig.digest("again")
    receipts = len(await rig.topic(STORED))
    await rig.redeliver([*reversed(places), *places])
    await until(lambda: _count_is(rig, STORED, receipts + 2 * len(places)))
    await rig.settle()
    assert await rig.digest("again") == digest
    assert (await rig.units("u1", tenant="again"))["u1"].known.unit.text == "Second."


async def test_an_embedder_that_is_down_for_a_while_loses_no_event(rig: Rig):
    """C12: pending while it is down, all there afterwards, no dead letter."""
    down = True
    failures = 0

    def fault(_: str) -> Exception | None:
        nonlocal failures
        failures += down
        return EmbedderUnavailable() if down else None

    rig.embedder.fault = fault
    await rig.say(*[asserted(f"u{n}", f"Outage {n}.") for n in range(20)], tenant="outage")
    await until(lambda: failures > 12)  # the attempts of an event are three
    assert await rig.units(*(f"u{n}" for n in range(20)), tenant="outage") == {}
    down = False
    await rig.settle()
    assert len(await rig.units(*(f"u{n}" for n in range(20)), tenant="outage")) == 20
    assert await rig.letters(tenant="outage") == []


async def test_a_text_that_the_embedder_never_takes_is_a_dead_letter_and_its_marker_goes_on(rig: Rig):
    rig.embedder.fault = lambda text: EmbedderUnavailable("no") if "hopeless" in text else None
    (place, later) = await rig.say(
        asserted("bad", "A hopeless text."), asserted("bad", "A better one.", revision=2**40), tenant="hopeless"
    )
    await rig.settle()
    (letter,) = await rig.letters(tenant="hopeless")
    assert (letter.stage, letter.cause, letter.attempts) == ("embed", "embedder-unavailable", 3)
    assert orjson.loads(letter.body)["data"]["text"] == "A hopeless text."
    assert (letter.topic, letter.offset) == (place.position.topic, place.position.number)
    assert (await rig.units("bad", tenant="hopeless"))["bad"].known.unit.text == "A better one."
    async with rig.reader.snapshot("hopeless") as snapshot:
        for stage in ("stored", "contradictions"):
            marks = await snapshot.watermarks(stage)
            assert marks[(later.position.topic, later.position.partition)] == later.position.number
    messages = [decode_message(record.value)[0] for record in await rig.topic(RESOLVED)]
    (marker,) = [message.marker for message in messages if message.position == place.position]
    assert (marker.kind, marker.stage) == (MarkerKind.DEAD, "embed")


async def test_a_bug_costs_one_event_and_not_the_process(rig: Rig):
    rig.embedder.fault = lambda text: ZeroDivisionError("bug") if "crash" in text else None
    await rig.say(asserted("u1", "This will crash."), asserted("u2", "This will not."), tenant="bug")
    await rig.settle()
    (letter,) = await rig.letters(tenant="bug")
    assert (letter.cause, letter.attempts) == ("unexpected-error", 3)
    assert "ZeroDivisionError" in letter.detail
    assert set(await rig.units("u1", "u2", tenant="bug")) == {"u2"}


async def test_a_store_that_is_away_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    apply, failures = rig.writer.apply, 0

    async def unavailable(tenant, effects):
        nonlocal failures
        if failures < 6:
            failures += 1
            raise StoreUnavailable
        return await apply(tenant, effects)

    monkeypatch.setattr(rig.writer, "apply", unavailable)
    await rig.say(asserted("u1", "Patience is rewarded."), tenant="patience")
    await rig.settle()
    assert failures == 6
    assert set(await rig.units("u1", tenant="patience")) == {"u1"}
    assert await rig.letters(tenant="patience") == []


async def test_an_effect_that_the_store_cannot_take_dies_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    apply = rig.writer.apply

    async def picky(tenant, effects):
        if any(effect.event is not None and effect.event.data.id == "u7" for effect in effects):
            raise KeyError("u7")
        return await apply(tenant, effects)

    monkeypatch.setattr(rig.writer, "apply", picky)
    await rig.say(*[asserted(f"u{n}", f"Item {n}.") for n in range(20)], tenant="picky")
    await rig.settle()
    (letter,) = await rig.letters(tenant="picky")
    assert (letter.stage, letter.cause, letter.key) == ("store", "unexpected-error", b"picky/u7")
    assert orjson.loads(letter.body)["data"]["id"] == "u7"
    assert len(await rig.units(*(f"u{n}" for n in range(20)), tenant="picky")) == 19


async def test_what_does_not_belong_on_a_hop_is_buried_with_what_is_wrong_with_it(rig: Rig):
    header = b'{"key": 5}'
    half = MAGIC + len(header).to_bytes(4, "big") + header
    async with await Publisher.open(rig.bootstrap, prefix=rig.prefix) as publisher:
        await publisher.publish(EMBEDDED, 0, [Outgoing(JUNK, b"not a stage message", (("h", b"\xff"),))])
        await publisher.publish(EMBEDDED, 0, [Outgoing(HALF, half)])
        await publisher.publish(STORED, 0, [Outgoing(JUNK, b'{"revision": "x"}')])
    await until(lambda: _buried(rig, {("resolve", "not-a-stage-message"), ("contradictions", "not-a-receipt")}, {HALF}))
    told = {(letter.stage, letter.key): letter.detail for letter in await rig.letters(limit=1000)}
    assert told["resolve", JUNK] == "it is no message between stages: not a stage message of version 1"
    assert "/position: required, but not there" in told["resolve", HALF]
    assert "/key: Input should be a valid string" in told["resolve", HALF]
    assert "/position: required, but not there" in told["contradictions", JUNK]
    await rig.say(asserted("u1", "Life goes on."), tenant="junk")
    await rig.settle()
    assert set(await rig.units("u1", tenant="junk")) == {"u1"}


async def test_a_slow_record_does_not_hold_up_other_lanes_and_its_effect_happens_once(rig: Rig):
    """C36: while the only embedder is busy with one text, what needs none goes on, and nobody leaves the group."""
    failed = rig.pipeline.metrics.registry.get_sample_value
    labels = {"stage": "embed", "outcome": "failed"}
    failed_before = failed("cortex_ingest_commits_total", labels)
    with rig.embedder.holding("molasses"):
        await rig.say(asserted("slow", "Slow as molasses."), tenant="slow", topic=BULK)
        await until(lambda: rig.embedder.asked["Slow as molasses."] == 1)
        others = await rig.say(*[retracted(f"none{n}") for n in range(20)], tenant="slow")
        numbers = sorted(place.position.number for place in others)
        await until(lambda: _receipts_are(rig, "slow", numbers))
        assert await rig.units("slow", tenant="slow") == {}
    await rig.settle()
    assert set(await rig.units("slow", tenant="slow")) == {"slow"}
    assert rig.embedder.computed["Slow as molasses."] == 1
    assert failed("cortex_ingest_commits_total", labels) == failed_before


async def test_a_document_turns_to_its_new_revision_at_once(rig: Rig):
    def revision(number: int, texts: list[str]) -> list[dict]:
        parts = [
            asserted(f"d#{part}", text, document_id="d", part=part, revision=number) for part, text in enumerate(texts)
        ]
        data = {"id": "d", "revision": number, "parts": len(texts), "hash": document_hash(texts)}
        return [*parts, {"type": "document.completed", "data": data}]

    await rig.say(*revision(1, ["alpha one", "beta two", "gamma three"]), tenant="document")
    await rig.settle()
    assert set(await rig.units("d#0", "d#1", "d#2", tenant="document")) == {"d#0", "d#1", "d#2"}
    await rig.say(*revision(2, ["alpha one", "delta four"]), tenant="document")
    await rig.settle()
    assert await rig.search("gamma three", tenant="document") == []
    assert await rig.search("delta four", tenant="document") == ["d#1"]
    assert rig.embedder.computed["alpha one"] == 1, "an unchanged part costs no embedding"


def _shuffled_world() -> list[dict]:
    """Forty events whose outcome must not depend on their order: each numbered by its producer."""
    events: list[dict] = []
    for n in range(8):
        events += [
            asserted(f"u{n}", f"The limit of Service-{n} is {n + r}.", revision=r, event={"id": f"u{n}r{r}"})
            for r in (1, 2, 3)
        ]
    events += [{**retracted(f"u{n}", revision=r), "id": f"gone{n}"} for n, r in ((0, 3), (1, 2), (2, 9))]
    events += [
        asserted(f"c{n}", f"The timeout of Ledger is {n} seconds.", revision=1, event={"id": f"c{n}"}) for n in range(4)
    ]
    for revision, texts in ((1, ["part a", "part b"]), (2, ["part a", "part c"])):
        events += [
            asserted(f"d#{p}", t, document_id="d", part=p, revision=revision, event={"id": f"d{revision}{p}"})
            for p, t in enumerate(texts)
        ]
        data = {"id": "d", "revision": revision, "parts": 2, "hash": document_hash(texts)}
        events.append({"type": "document.completed", "data": data, "id": f"d{revision}"})
    for revision, name in ((1, "Ledger"), (2, "The Ledger")):
        data = {"id": "ledger", "type": "system", "name": name, "revision": revision}
        events.append({"type": "entity.declared", "data": data, "id": f"ledger{revision}"})
    data = {"source_id": "ledger", "relation": "depends_on", "target_id": "orion", "revision": 1}
    events.append({"type": "relation.declared", "data": data, "id": "edge"})
    return events


async def test_neither_order_nor_redelivery_matters(rig: Rig):
    """Invariant 9, on the real pipeline: the same events in six orders, some delivered again, give one digest."""
    world = _shuffled_world()
    tenants = [f"order{seed}" for seed in range(6)]
    for seed, tenant in enumerate(tenants):
        chance = random.Random(seed)
        order = list(world) if seed == 0 else chance.sample(world, len(world))
        places = []
        for start in range(0, len(order), 7):  # some stand in the hops together, some come after others are stored
            places += await rig.say(*order[start : start + 7], tenant=tenant)
        if seed:
            await rig.redeliver(chance.sample(places, 15))
            await rig.say(*chance.sample(world, 5), tenant=tenant)
    await rig.settle()
    digests = {tenant: await rig.digest(tenant) for tenant in tenants}
    assert all(digest == digests["order0"] for digest in digests.values())
    async with rig.reader.snapshot("order0") as snapshot:
        assert await snapshot.contradictions(), "the comparison covers contradictions"
    assert set(await rig.units("u0", "u1", "u2", "u3", tenant="order0")) == {"u1", "u3"}


async def test_every_receipt_says_what_became_of_its_event(rig: Rig):
    places = await rig.say(
        asserted("u1", "Newest.", revision=5),
        asserted("u1", "Older.", revision=4),
        retracted("u1", revision=6),
        {"type": "entity.declared", "data": {"id": "x", "type": "system", "name": "X"}},
        tenant="receipts",
    )
    await rig.settle()
    receipts = {
        receipt.position: receipt.outcome
        for record in await rig.topic(STORED)
        if record.key not in STRAY
        for receipt in [Receipt.model_validate_json(record.value)]
    }
    assert [receipts[place.position] for place in places] == [
        ReceiptOutcome.STORED,
        ReceiptOutcome.STALE,
        ReceiptOutcome.RETRACTED,
        ReceiptOutcome.DECLARED,
    ]


@pytest.mark.embedded_only("Kafka keeps its compacted topics")
async def test_a_refill_stands_between_two_epoch_records_in_every_partition(rig: Rig):
    for topic in (GRAPH, CONTRADICTIONS):
        marks = defaultdict(list)
        for record in await rig.topic(topic):
            if record.key == EPOCH_KEY:
                marks[record.partition].append(orjson.loads(record.value)["phase"])
        assert dict(marks) == {partition: ["begin", "complete"] for partition in range(rig.log.partitions)}


async def _has(rig: Rig, tenant: str, *unit_ids: str) -> bool:
    return set(await rig.units(*unit_ids, tenant=tenant)) == set(unit_ids)


async def _count_is(rig: Rig, topic: str, count: int) -> bool:
    return len(await rig.topic(topic)) >= count


async def _receipts_are(rig: Rig, tenant: str, wanted: list[int]) -> bool:
    found = await _numbers(rig, STORED, tenant, Receipt.model_validate_json)
    return sorted(number for numbers in found.values() for number in numbers) == wanted


async def _buried(rig: Rig, causes: set[tuple[str, str]], keys: set[bytes]) -> bool:
    letters = await rig.letters(limit=1000)
    is_told = causes <= {(letter.stage, letter.cause) for letter in letters}
    return is_told and keys <= {letter.key for letter in letters}


async def _numbers(rig: Rig, topic: str, tenant: str, decode) -> dict[int, list[int]]:
    numbers = defaultdict(list)
    for record in await rig.topic(topic):
        if record.value is not None and record.key not in STRAY:
            message = decode(record.value)
            if message.tenant == tenant:
                numbers[record.partition].append(message.position.number)
    return numbers


def as_bytes_of(bodies: dict[bytes, str | None], word: str) -> bytes:
    return next(body for body in bodies if word.encode() in body)
