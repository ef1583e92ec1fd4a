"""What every event log promises, run on the journal and on the one in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from schemas.commands import Command, Reindex
from schemas.events import Event, dump_event, parse_event
from schemas.status import DeadLetter, LetterMark, LetterState
from shared import jobs_kept
from shared.clock import ManualClock
from shared.errors import InvalidInput, LogUnavailable
from shared.letters import LetterFilter
from shared.log import BULK, EVENTS, EventLog
from shared.logs.journal import Journal
from shared.logs.memory import MemoryLog
from shared.partitioner import partition_of

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PARTITIONS = 4
REPLAYED = LetterMark(state=LetterState.REPLAYED, by="person-ana", at=NOON + timedelta(hours=1), job="letters-1")
DISCARDED = LetterMark(state=LetterState.DISCARDED, by="person-ana", at=NOON + timedelta(hours=1))


def event(
    number: int, *, tenant: str = "acme", source: str = "/tests", text: str = "The gateway listens on 8420."
) -> Event:
    return parse_event(
        {
            "specversion": "1.0",
            "id": f"e{number}",
            "source": source,
            "tenant": tenant,
            "type": "unit.asserted",
            "data": {
                "id": f"u{number}",
                "text": text,
                "type": "context",
                "scope": {"level": "team", "entity_id": "platform"},
            },
        }
    )


def letter(name: str, minute: int, *, tenant: str | None = "acme", event_id: str | None = "e1") -> DeadLetter:
    return DeadLetter(
        id=name,
        stage="embed",
        cause="InvalidInput",
        detail="data.text: the text is empty",
        attempts=1,
        topic=EVENTS,
        partition=2,
        offset=7,
        tenant=tenant,
        event_id=event_id,
        event_source="/tests",
        failed_at=NOON + timedelta(minutes=minute),
        body=b"\xff\x00 not JSON",
        headers=(("trace", b"\xfe\x01"), ("trace", b"twice")),
        key=None,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture(params=["journal", "memory"])
async def log(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[EventLog]:
    made: EventLog = (
        Journal.open(tmp_path / "journal.db", PARTITIONS, clock)
        if request.param == "journal"
        else MemoryLog(PARTITIONS, clock)
    )
    yield made
    await made.close()


async def test_a_kept_event_reads_back_as_it_was_given(log: EventLog) -> None:
    given = event(1, text='Grüße, 東京 \N{ROCKET} <tag> \\ "quoted"')
    [place] = await log.append([given])
    [record] = await log.read(0, 10)
    assert parse_event(orjson.loads(record.body)) == given
    assert (record.tenant, record.source, record.event_id, record.key) == ("acme", "/tests", "e1", "acme/u1")
    assert (record.position, record.recorded_at) == (place.position, place.recorded_at)
    assert not place.duplicate


async def test_a_position_names_log_topic_and_the_partition_of_the_key(log: EventLog) -> None:
    [first] = await log.append([event(1)])
    [second] = await log.append([event(2)], topic=BULK)
    assert (first.position.log, first.position.topic) == (log.log_id, EVENTS)
    assert (second.position.log, second.position.topic) == (log.log_id, BULK)
    assert first.position.partition == partition_of(b"acme/u1", PARTITIONS)
    assert second.position.partition == partition_of(b"acme/u2", PARTITIONS)


async def test_numbers_rise_over_all_topics_and_partitions(log: EventLog) -> None:
    places = await log.append([event(n) for n in range(20)])
    places += await log.append([event(n) for n in range(20, 40)], topic=BULK)
    numbers = [place.position.number for place in places]
    assert numbers == sorted(set(numbers))
    assert len({place.position.partition for place in places}) == PARTITIONS
    assert [record.position.number for record in await log.read(-1, 100)] == numbers


async def test_reading_continues_after_a_number_and_stops_at_the_limit(log: EventLog) -> None:
    places = await log.append([event(n) for n in range(5)])
    third = places[2].position.number
    assert [record.event_id for record in await log.read(third, 1)] == ["e3"]
    assert await log.read(places[-1].position.number, 10) == []


async def test_the_same_tenant_source_and_id_again_returns_the_first_place(log: EventLog, clock: ManualClock) -> None:
    [first] = await log.append([event(1)])
    clock.advance(60)
    [again] = await log.append([event(1)], topic=BULK)
    assert again.duplicate
    assert (again.position, again.recorded_at) == (first.position, first.recorded_at)
    assert len(await log.read(0, 10)) == 1


async def test_of_two_contents_under_one_id_the_first_stands(log: EventLog) -> None:
    await log.append([event(1, text="The port is 8420.")])
    [again] = await log.append([event(1, text="The port is 9999.")])
    [record] = await log.find("acme", "e1")
    assert again.duplicate
    assert b"8420" in record.body


async def test_a_redelivery_inside_one_batch_is_a_duplicate_too(log: EventLog) -> None:
    first, again = await log.append([event(1), event(1)])
    assert (first.duplicate, again.duplicate) == (False, True)
    assert first.position == again.position


async def test_tenants_and_sources_do_not_share_ids(log: EventLog) -> None:
    places = await log.append([event(1), event(1, tenant="other"), event(1, source="/elsewhere")])
    assert not any(place.duplicate for place in places)
    assert len({place.position.number for place in places}) == 3


async def test_find_returns_the_sources_of_an_id_oldest_first_and_never_another_tenants(log: EventLog) -> None:
    await log.append([event(1, source="/b"), event(1, source="/a"), event(1, tenant="other"), event(2)])
    assert [record.source for record in await log.find("acme", "e1")] == ["/b", "/a"]
    assert [record.source for record in await log.find("acme", "e1", source="/a")] == ["/a"]
    assert await log.find("acme", "e9") == []


async def test_recorded_at_is_the_logs_clock_and_never_goes_back(log: EventLog, clock: ManualClock) -> None:
    clock.advance(10)
    [early] = await log.append([event(1)])
    clock.advance(-3600)
    [late] = await log.append([event(2)])
    clock.advance(7200)
    [later] = await log.append([event(3)])
    assert early.recorded_at == late.recorded_at == NOON + timedelta(seconds=10)
    assert later.recorded_at == NOON + timedelta(seconds=10 + 3600)


async def test_appending_nothing_keeps_nothing(log: EventLog) -> None:
    assert await log.append([]) == []
    assert await log.read(0, 10) == []


async def test_the_lag_counts_a_tenants_events_above_each_number(log: EventLog) -> None:
    mine = await log.append([event(n) for n in range(30)])
    await log.append([event(n, tenant="other") for n in range(30)])
    by_partition: dict[tuple[str, int], list[int]] = {}
    for place in mine:
        by_partition.setdefault((place.position.topic, place.position.partition), []).append(place.position.number)
    halves = {place: numbers[len(numbers) // 2] for place, numbers in by_partition.items()}
    lags = await log.pending("acme", halves)
    assert lags == {place: len(numbers) - len(numbers) // 2 - 1 for place, numbers in by_partition.items()}


async def test_the_lag_of_a_partition_without_a_watermark_is_all_it_holds(log: EventLog) -> None:
    await log.append([event(n) for n in range(10)])
    await log.append([event(10)], topic=BULK)
    lags = await log.pending("acme", {})
    assert sum(lags.values()) == 11
    assert lags[BULK, partition_of(b"acme/u10", PARTITIONS)] == 1


async def test_the_lag_is_zero_where_everything_is_stored_or_nothing_was_said(log: EventLog) -> None:
    places = await log.append([event(n) for n in range(10)])
    stored = {(EVENTS, partition): places[-1].position.number for partition in range(PARTITIONS)}
    assert set((await log.pending("acme", stored)).values()) == {0}
    assert await log.pending("nobody", {(EVENTS, 0): -1}) == {(EVENTS, 0): 0}


async def test_concurrent_appends_each_get_their_own_places(log: EventLog) -> None:
    batches = [[event(10 * n), event(10 * n + 1)] for n in range(50)]
    answers = await asyncio.gather(*(log.append(batch) for batch in batches))
    kept = {record.position.number: record.event_id for record in await log.read(0, 1_000)}
    for batch, places in zip(batches, answers, strict=True):
        assert [kept[place.position.number] for place in places] == [given.id for given in batch]
        assert places[0].position.number < places[1].position.number
    assert len(kept) == 100


async def test_waiting_ends_when_an_event_arrives(log: EventLog) -> None:
    [place] = await log.append([event(1)])
    waiting = asyncio.create_task(log.wait(place.position.number, 10))
    await log.append([event(2)])
    assert await asyncio.wait_for(waiting, 5)
    assert await log.wait(0, 0)


async def test_waiting_says_when_time_is_up(log: EventLog) -> None:
    [place] = await log.append([event(1)])
    assert not await log.wait(place.position.number, 0.05)


async def test_a_dead_letter_keeps_its_bytes_and_headers_as_they_were(log: EventLog) -> None:
    buried = letter("d1", 0, tenant=None, event_id=None)
    await log.bury(buried)
    assert await log.dead_letters() == [buried]


async def test_burying_the_same_letter_again_replaces_it(log: EventLog) -> None:
    await log.bury(letter("d1", 0))
    retried = letter("d1", 5).model_copy(update={"attempts": 5, "key": b"acme/u1"})
    await log.bury(retried)
    assert await log.dead_letters() == [retried]


async def test_dead_letters_come_newest_first_page_by_page(log: EventLog) -> None:
    for name, minute in (("a", 1), ("c", 2), ("b", 2), ("d", 0)):
        await log.bury(letter(name, minute))
    first = await log.dead_letters(limit=3)
    assert [buried.id for buried in first] == ["c", "b", "a"]
    assert [buried.id for buried in await log.dead_letters(limit=3, after=first[-1].id)] == ["d"]
    assert await log.dead_letters(after="d") == []
    assert await log.dead_letters(after="unknown") == []


async def test_dead_letters_can_be_chosen_by_what_is_known_of_them(log: EventLog) -> None:
    await log.bury(letter("a", 1))
    await log.bury(letter("b", 2, event_id="e2").model_copy(update={"stage": "store", "cause": "error"}))
    await log.bury(letter("c", 3, tenant="other"))
    await log.mark_letter("a", DISCARDED)

    async def chosen(**given: str) -> list[str]:
        return [buried.id for buried in await log.dead_letters(LetterFilter(**given))]

    assert await chosen(tenant="acme") == ["b", "a"]
    assert await chosen(tenant="acme", event_id="e1") == ["a"]
    assert await chosen(event_id="e1") == ["c", "a"]
    assert await chosen(state=LetterState.OPEN) == ["c", "b"]
    assert await chosen(stage="store", cause="error") == ["b"]
    assert await chosen(stage="store", cause="InvalidInput") == []


async def test_a_mark_says_who_and_when_and_is_made_once(log: EventLog) -> None:
    await log.bury(letter("d1", 0))
    assert await log.mark_letter("d1", REPLAYED)
    found = await log.dead_letter("d1")
    assert found is not None
    assert (found.state, found.resolved_by, found.resolved_at, found.job, found.replays) == (
        LetterState.REPLAYED, "person-ana", NOON + timedelta(hours=1), "letters-1", 1
    )  # fmt: skip
    assert (found.body, found.headers) == (letter("d1", 0).body, letter("d1", 0).headers)
    later = REPLAYED.model_copy(update={"by": "person-ben"})
    assert not await log.mark_letter("d1", later)
    assert not await log.mark_letter("d1", DISCARDED)
    assert await log.dead_letter("d1") == found


async def test_marking_or_asking_for_a_letter_that_is_not_there_is_no_error(log: EventLog) -> None:
    assert not await log.mark_letter("none", DISCARDED)
    assert await log.dead_letter("none") is None


async def test_a_replayed_letter_that_fails_again_is_open_and_its_attempts_add_up(log: EventLog) -> None:
    await log.bury(letter("d1", 0))
    await log.mark_letter("d1", REPLAYED)
    again = await log.bury(letter("d1", 90).model_copy(update={"attempts": 5, "stage": "store"}))
    assert (again.state, again.attempts, again.stage, again.replays) == (LetterState.OPEN, 6, "store", 1)
    assert (again.resolved_by, again.resolved_at, again.job) == (None, None, None)
    assert await log.dead_letter("d1") == again


async def test_a_failure_told_again_after_a_redelivery_is_no_new_attempt(log: EventLog) -> None:
    await log.bury(letter("d1", 0).model_copy(update={"attempts": 6}))
    assert (await log.bury(letter("d1", 1))).attempts == 6
    await log.mark_letter("d1", DISCARDED)
    assert (await log.bury(letter("d1", 2))).state is LetterState.DISCARDED


async def test_letters_are_let_go_after_thirty_days_when_others_come(log: EventLog) -> None:
    day = 24 * 60
    for name, minute in (("a", 0), ("b", 2 * day), ("c", 30 * day)):
        await log.bury(letter(name, minute))
    assert [kept.id for kept in await log.dead_letters()] == ["c", "b", "a"]
    await log.bury(letter("d", 30 * day + 1))
    assert [kept.id for kept in await log.dead_letters()] == ["d", "c", "b"]


CALLS: list[Callable[[EventLog], Awaitable[object]]] = [
    lambda log: log.append([event(1)]),
    lambda log: log.read(0, 1),
    lambda log: log.find("acme", "e1"),
    lambda log: log.wait(0, 1),
    lambda log: log.pending("acme", {}),
    lambda log: log.forget_orders("acme", 1),
    lambda log: log.bury(letter("d1", 0)),
    lambda log: log.dead_letters(),
    lambda log: log.dead_letter("d1"),
    lambda log: log.mark_letter("d1", DISCARDED),
]


@pytest.mark.parametrize(
    "call", CALLS, ids=["append", "read", "find", "wait", "pending", "forget", "bury", "dead_letters", "letter", "mark"]
)
async def test_a_closed_log_says_so_and_closes_again_in_peace(
    log: EventLog, call: Callable[[EventLog], Awaitable[object]]
) -> None:
    await log.close()
    await log.close()
    with pytest.raises(LogUnavailable):
        await call(log)


async def test_events_read_back_the_same_whatever_their_kind(log: EventLog) -> None:
    given = parse_event(
        {
            "id": "r1",
            "source": "/hr",
            "tenant": "acme",
            "type": "relation.declared",
            "time": "2026-03-01",
            "traceparent": "00-abc-def-01",
            "data": {"source_id": "anna", "relation": "member_of", "target_id": "platform"},
        }
    )
    await log.append([given])
    [record] = await log.read(0, 1)
    assert dump_event(parse_event(orjson.loads(record.body))) == dump_event(given)
    assert record.key == "acme/anna"


async def test_a_string_that_is_no_text_is_refused_by_name_and_nothing_is_kept(log: EventLog) -> None:
    broken = event(2).model_copy(update={"subject": "half a pair \ud800"})
    with pytest.raises(InvalidInput, match="/subject"):
        await log.append([event(1), broken])
    assert await log.read(0, 10) == []


def command(number: int, tenant: str = "acme") -> Command:
    return Command(
        id=f"c{number}",
        tenant=tenant,
        requested_by="person-ana",
        requested_at=NOON + timedelta(minutes=number),
        order=Reindex(stage="embed"),
    )


async def test_commands_are_listed_newest_first_and_found_by_id(log: EventLog) -> None:
    for one in (command(1), command(2), command(2, "beta"), command(3)):
        assert await log.order(one)
    assert not await log.order(command(2).model_copy(update={"reason": "again"}))
    assert await log.ordered("acme") == [command(3), command(2), command(1)]
    assert await log.ordered("acme", limit=1) == [command(3)]
    assert await log.ordered("acme", command_id="c2") == [command(2)]
    assert await log.ordered("acme", command_id="c9") == []
    assert await log.ordered("nobody") == []


async def test_of_the_commands_that_are_done_the_newest_are_kept_and_of_the_others_all(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_kept, "KEPT", 3)
    for number in range(6):
        await log.order(command(number))
        await log.order(command(number, "beta"))
    before = await log.orders(0, 100)
    places = {(one.tenant, one.id): place for place, one in before}
    assert await log.forget_orders("acme", places["acme", "c2"]) == 2
    assert [one.id for one in await log.ordered("acme")] == ["c5", "c4", "c3", "c2"], "c2 is not known to be done"
    assert await log.forget_orders("acme", places["acme", "c5"] + 1) == 1
    assert [one.id for one in await log.ordered("acme")] == ["c5", "c4", "c3"]
    assert len(await log.ordered("beta")) == 6
    left = await log.orders(0, 100)
    assert left == [pair for pair in before if pair[1] not in (command(0), command(1), command(2))]
    assert await log.order(command(6))
    [(place, one)] = await log.orders(before[-1][0], 100)
    assert (place > before[-1][0], one) == (True, command(6)), "no place is given twice"
