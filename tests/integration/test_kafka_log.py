"""Apache Kafka as the event log: what is acknowledged is kept, found, counted, scanned, and survives its broker."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from schemas.commands import Command, Replay
from schemas.events import dump_event, parse_event
from schemas.positions import Position
from shared.clock import SystemClock
from shared.errors import LogUnavailable
from shared.kafka import create_topics
from shared.log import BULK, EVENTS
from shared.logs import kafka_log
from shared.logs.kafka_log import KafkaLog
from shared.partitioner import partition_of
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, as_bytes, asserted, envelope, following, read, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster]
PARTITIONS = 4


@pytest.fixture
async def log(broker: BrokerProcess, prefix: str) -> AsyncIterator[KafkaLog]:
    await create_topics(broker.bootstrap, PARTITIONS, prefix=prefix)
    opened = await KafkaLog.open(broker.bootstrap, SystemClock(), prefix=prefix)
    yield opened
    await opened.close()


def facts(count: int, tenant: str = "acme") -> list:
    return [read(asserted(f"u{n}", f"The limit of u{n} is {n}."), tenant) for n in range(count)]


async def test_places_rise_within_a_partition_and_name_the_events(log: KafkaLog):
    events = facts(40)
    places = await log.append(events)
    for event, place in zip(events, places, strict=True):
        assert place.position.partition == partition_of(event.key.encode(), PARTITIONS)
        record = await log.at(place.position)
        assert record is not None
        assert (record.event_id, record.tenant, record.recorded_at) == (event.id, "acme", place.recorded_at)
        assert parse_event(read_json(record.body)) == event
    by_partition: dict[int, list[int]] = {}
    for place in places:
        by_partition.setdefault(place.position.partition, []).append(place.position.number)
    assert all(numbers == sorted(set(numbers)) for numbers in by_partition.values())


def read_json(body: bytes) -> object:
    import orjson  # noqa: PLC0415 - one use

    return orjson.loads(body)


async def test_a_place_that_is_not_there_gives_nothing(log: KafkaLog):
    (place,) = await log.append(facts(1))
    assert await log.at(place.position.model_copy(update={"number": 10**6})) is None
    assert await log.at(place.position.model_copy(update={"log": "another"})) is None
    assert await log.at(Position(log=log.log_id, topic="cortex.stored", partition=0, number=0)) is None
    assert await log.at(place.position) is not None, "a look at nothing spoils no later look"


async def test_scanning_gives_every_event_once_in_the_order_of_its_partition(log: KafkaLog):
    await log.append(facts(700))
    await log.append(facts(30, "other"), topic=BULK)
    scanned = [record async for page in log.scan() for record in page]
    assert len(scanned) == 730
    order: dict[tuple[str, int], list[int]] = {}
    for record in scanned:
        order.setdefault((record.position.topic, record.position.partition), []).append(record.position.number)
    assert all(numbers == list(range(len(numbers))) for numbers in order.values())
    assert len([record async for page in log.scan("other") for record in page]) == 30


async def test_scanning_meets_what_was_told_in_both_topics_first_where_it_was_told_first(log: KafkaLog):
    """Else what an unnumbered event counts as, and with it what a rebuild makes of it, depends on who was read faster."""
    events = facts(400)
    await log.append(events)
    await log.append(events, topic=BULK)
    seen: set[str] = set()
    async for page in log.scan():
        for record in page:
            assert (record.position.topic == BULK) == (record.event_id in seen)
            seen.add(record.event_id)
    assert len(seen) == 400


async def test_scanning_ends_behind_a_producers_transactions(broker: BrokerProcess, log: KafkaLog, prefix: str):
    """A transaction's control records have offsets too, and what was aborted is never seen."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{prefix}t")
    await producer.start()
    try:
        for number, fails in enumerate((False, True, False)):
            await producer.begin_transaction()
            body = as_bytes({**asserted(f"t{number}", "In a transaction."), "id": f"t{number}"})
            await producer.send_and_wait(f"{prefix}{EVENTS}", body, key=f"acme/t{number}".encode(), partition=0)
            await (producer.abort_transaction() if fails else producer.commit_transaction())
    finally:
        await producer.stop()
    async with asyncio.timeout(20):
        assert [record.event_id async for page in log.scan() for record in page] == ["t0", "t2"]


async def test_lag_and_the_state_of_an_event_are_known_before_it_is_stored(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    rig = await Rig(broker.bootstrap, prefix, tmp_path).prepare()
    try:
        places = await rig.say(*[asserted(f"u{n}", f"Sentence {n}.") for n in range(20)])
        async with following(await rig.open_log()) as seen:
            await until(lambda: _lag(seen, 20))
            (row,) = await seen.find("acme", (await seen.at(places[3].position)).event_id)
            assert row.position == places[3].position
            assert await seen.find("other", row.event_id) == []
            await rig.pipeline.start()
            await rig.settle()
            async with rig.reader.snapshot("acme") as snapshot:
                stored = await snapshot.watermarks()
            assert set((await seen.pending("acme", stored)).values()) == {0}
    finally:
        await rig.close()


async def test_a_backlog_longer_than_what_is_read_at_a_start_is_told_whole(
    broker: BrokerProcess, log: KafkaLog, prefix: str, monkeypatch
):
    """Whoever starts in it reads its end; how much stands before that, the offsets say. Nothing is stored yet."""
    monkeypatch.setattr(kafka_log, "TAIL_FIRST", 5)
    await log.append(facts(60))
    async with following(await KafkaLog.open(broker.bootstrap, SystemClock(), prefix=prefix)) as seen:
        assert sum((await seen.pending("acme", {})).values()) == 60


async def _lag(log: KafkaLog, wanted: int) -> bool:
    return sum((await log.pending("acme", {})).values()) == wanted


async def test_a_stored_event_is_found_by_whoever_starts_later(broker: BrokerProcess, prefix: str, tmp_path: Path):
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        (place,) = await rig.say({**asserted("u1", "Known."), "id": "the-event"})
        await rig.settle()
        late = await rig.open_log()
        try:
            (row,) = await late.find("acme", "the-event")
            assert (row.position, row.event_id) == (place.position, "the-event")
        finally:
            await late.close()


async def test_a_stray_is_sent_on_to_the_partition_of_its_key(broker: BrokerProcess, prefix: str, tmp_path: Path):
    """A producer whose partitioner is another one: two events about one unit keep their order all the same."""
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        right = partition_of(b"acme/u1", PARTITIONS)
        wrong = (right + 1) % PARTITIONS
        await rig.produce(
            (b"whatever", as_bytes({**asserted("u1", "Strayed."), "id": "stray"}), [("h", b"1")]), partition=wrong
        )
        await until(lambda: rig.units("u1"))
        await rig.settle()
        (row,) = await rig.log.find("acme", "stray")
        assert row.position.partition == right
        assert row.key == "acme/u1"
        assert await rig.letters() == []


async def test_a_stray_at_the_end_of_its_partition_does_not_count_as_waiting(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    """Nor for a process that begins to follow when the event has long been stored elsewhere."""
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        right = partition_of(b"acme/u1", PARTITIONS)
        wrong = (right + 1) % PARTITIONS
        strays = [(b"k", as_bytes({**asserted("u1", f"Strayed {n} times."), "id": f"stray-{n}"}), []) for n in range(3)]
        await rig.produce(*strays, partition=wrong)
        await until(lambda: rig.units("u1"))
        await rig.settle()
        async with following(await rig.open_log()) as log, rig.reader.snapshot("acme") as snapshot:
            assert await log.pending("acme", await snapshot.watermarks()) == {(EVENTS, right): 0, (EVENTS, wrong): 0}
            assert [event.outcome for event in await snapshot.events("stray-2")] == ["stored"]


async def test_an_event_without_a_key_is_taken(broker: BrokerProcess, prefix: str, tmp_path: Path):
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        await rig.produce(
            (None, as_bytes(asserted("u1", "No key.")), []), partition=partition_of(b"acme/u1", PARTITIONS)
        )
        await until(lambda: rig.units("u1"))


async def test_bulk_and_live_events_of_one_unit_count_by_when_they_came(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    """Offsets of two topics do not compare; the times of their appending do."""
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        filler = [asserted(f"filler{n}", f"Filler {n}.") for n in range(40)]
        await rig.say(*filler)
        await rig.say(asserted("u1", "First, live, at a high offset."))
        await rig.settle()
        await asyncio.sleep(0.005)  # the broker's clock must move on
        await rig.say(asserted("u1", "Second, bulk, at a low offset."), topic=BULK)
        await rig.settle()
        assert (await rig.units("u1"))["u1"].known.unit.text == "Second, bulk, at a low offset."


async def test_a_command_is_kept_once(log: KafkaLog):
    at = SystemClock().now()
    command = Command(id="c1", tenant="acme", requested_by="ana", requested_at=at, order=Replay())
    assert await log.order(command)
    assert not await log.order(command)
    follower = asyncio.create_task(log.follow())
    try:
        await until(lambda: log.caught_up)
        assert [one.id for one in await log.ordered("acme")] == ["c1"]
        assert await log.ordered("other") == []
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)


async def test_a_broker_that_is_killed_keeps_what_it_acknowledged_and_readiness_follows(
    own_broker: BrokerProcess, prefix: str
):
    await create_topics(own_broker.bootstrap, PARTITIONS, prefix=prefix)
    log = await KafkaLog.open(own_broker.bootstrap, SystemClock(), prefix=prefix, deadline_s=3.0)
    try:
        places = await log.append(facts(50))
        await asyncio.to_thread(own_broker.kill)
        with pytest.raises(LogUnavailable):
            await log.ping()
        with pytest.raises(LogUnavailable):
            await log.append(facts(1))
        await asyncio.to_thread(own_broker.start)
        await until(lambda: _pings(log), 60)
        assert [await log.at(place.position) is not None for place in places] == [True] * 50
        await log.append(facts(1))
    finally:
        await log.close()


async def _pings(log: KafkaLog) -> bool:
    try:
        await log.ping()
    except LogUnavailable:
        return False
    return True


async def test_a_topic_that_is_missing_is_named(broker: BrokerProcess, prefix: str):
    with pytest.raises(LogUnavailable, match=r"cortex\.events.*cortex topics apply"):
        await KafkaLog.open(broker.bootstrap, SystemClock(), prefix=f"none-{prefix}")


def test_events_of_these_tests_read_back_as_they_are_written():
    event = parse_event(envelope(asserted("u1", "Text.")))
    assert parse_event(dump_event(event)) == event
