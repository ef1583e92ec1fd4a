"""What a log that is Kafka remembers and how it reads its records: pure rules, no broker."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import orjson
import pytest

from ingest.intake import read_record
from ingest.kafka_intake import KafkaIntake
from schemas.commands import Command, Replay
from schemas.events import parse_event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark, LetterState
from shared import jobs_kept
from shared.errors import InvalidInput, TooLarge
from shared.kafka_reading import Kept
from shared.letter_records import letter_of, letter_record, mark_record
from shared.letters import LetterFilter
from shared.log import BULK, EVENTS, LogRecord
from shared.logs import kafka_shelves
from shared.logs.kafka_records import (
    MOVED_FROM,
    ORIGIN,
    ORIGIN_REVISION,
    as_log_record,
    implied_revision,
    recorded_at,
    recorded_in,
    revision_in,
)
from shared.logs.kafka_shelves import CommandShelf, LetterShelf
from shared.logs.kafka_tail import Tail
from shared.partitioner import partition_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def kept(value: bytes | None, *, offset: int = 5, headers: tuple[tuple[str, bytes], ...] = ()) -> Kept:
    return Kept("x.cortex.events", 2, offset, NOON_MS, b"acme/u1", value, headers)


def event(**given: object) -> dict:
    unit = {"id": "u1", "text": "Text.", "type": "context", "scope": {"level": "team", "entity_id": "core"}}
    return {
        "specversion": "1.0",
        "type": "unit.asserted",
        "id": "e1",
        "source": "wiki",
        "tenant": "acme",
        "data": unit,
        **given,
    }


# whose an event is


NAMED = (("ce_tenant", b"acme"), ("ce_source", b"wiki"), ("ce_id", b"e1"))


@pytest.mark.parametrize("tenant", ["../etc", "Acme", "a" * 64, "a b", "", 5, None])
def test_a_record_of_a_tenant_that_cannot_be_one_is_nobodys_event(tenant: object):
    """No store has it: a rebuild would look for its folder, and its lag would never end."""
    assert as_log_record(kept(orjson.dumps(event(tenant=tenant))), "log", "x.") is None


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (orjson.dumps(event(padding="x" * 300_000)), ()),
        (orjson.dumps(event(tenant="../etc", padding="x" * 300_000)), ()),
        (b"{not json", NAMED),
        (b"{not json", ()),
        (b"[1]", ()),
        (b"[1]", NAMED),
        (orjson.dumps({"data": {}}), NAMED),
        (orjson.dumps({"data": {}}), (*NAMED, ("content-type", b"application/cloudevents+json"))),
        (orjson.dumps(event(tenant=5)), NAMED),
        (orjson.dumps(event(id=None)), NAMED),
    ],
    ids=[
        "too large", "too large, no tenant", "binary mode", "not JSON", "no object", "no object, named in headers",
        "named in headers", "whole event named in headers", "an impossible tenant", "no id",
    ],
)  # fmt: skip
def test_what_nobody_can_read_is_the_same_tenants_for_the_log_and_for_the_first_stage(body, headers):
    """Else it counts as waiting for ever: the stage moves the watermark of the tenant that it reads."""
    record = kept(body, headers=headers)
    logged = as_log_record(record, "log", "x.")
    try:
        value = read_record(record)
    except (InvalidInput, TooLarge):
        value = None
    place = KafkaIntake("log", 4, None, "x.").place(record, value, None)
    assert place.tenant == (logged.tenant if logged else None)


# strays


class Sent:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list = []

    async def send(self, topic, messages):
        self.messages += messages
        return []


def as_read(record: Kept) -> SimpleNamespace:
    """The record as a stage's consumer gets it."""
    return SimpleNamespace(**asdict(record), timestamp=record.timestamp_ms)


async def forwarded(stray: Kept, *, offset: int = 9, timestamp_ms: int = NOON_MS + 5_000) -> Kept:
    """Send a stray to where it belongs, and return the record that stands there then."""
    sent = Sent()
    await KafkaIntake("log", 4, sent, "x.").accept([(as_read(stray), parse_event(event()))], "x.cortex.events")
    [(partition, one)] = sent.messages
    assert partition == partition_of(b"acme/u1", 4)
    return Kept(stray.topic, partition, offset, timestamp_ms, one.key, one.value, one.headers)


@pytest.mark.anyio
async def test_a_stray_counts_where_it_is_sent_as_it_does_where_it_came():
    """A replay of the log meets it where it came first: else the store and one that is rebuilt tell two revisions."""
    stray = kept(orjson.dumps(event()), headers=(("mine", b"1"),))
    came, sent = as_log_record(stray, "log", "x."), as_log_record(await forwarded(stray), "log", "x.")
    assert (sent.revision, sent.recorded_at) == (came.revision, came.recorded_at)
    place = KafkaIntake("log", 4, None, "x.").place(as_read(await forwarded(stray)), event(), "acme/u1")
    assert (place.revision, place.recorded_at) == (came.revision, came.recorded_at)


@pytest.mark.anyio
async def test_a_stray_keeps_its_headers_and_what_it_counted_as_when_it_came_again():
    first = implied_revision(NOON_MS - 60_000, 3)
    headers = ((ORIGIN, b"token"), (ORIGIN_REVISION, str(first).encode()), ("mine", b"1"))
    sent = await forwarded(kept(orjson.dumps(event()), headers=headers))
    assert sent.headers[:-1] == headers
    assert as_log_record(sent, "log", "x.").revision == first


@pytest.mark.anyio
async def test_where_a_stray_is_sent_it_says_where_it_came_from_last():
    came = kept(orjson.dumps(event()), headers=((MOVED_FROM, b"an earlier place"),))
    sent = await forwarded(came)
    assert [name for name, _ in sent.headers].count(MOVED_FROM) == 1
    assert as_log_record(sent, "log", "x.").moved_from == as_log_record(came, "log", "x.").position
    assert as_log_record(sent, "another", "x.").moved_from is None, "only this log's own places count"


@pytest.mark.parametrize(("key", "strays"), [("acme/u1", True), ("acme/u2", False), (None, False)])
def test_a_record_strays_in_a_partition_that_its_key_does_not_name(key: str | None, strays: bool):
    partition = partition_of(b"acme/u2", 4)
    record = Kept("x.cortex.events", partition, 5, NOON_MS, b"", orjson.dumps(event()), ())
    place = KafkaIntake("log", 4, None, "x.").place(record, event(), key)
    assert (place.stray, place.position.partition, place.tenant) == (strays, partition, "acme")


# revisions


def test_what_was_appended_later_counts_as_more_whichever_topic_it_came_through():
    assert implied_revision(NOON_MS, 900) < implied_revision(NOON_MS + 1, 3)


def test_within_one_millisecond_the_offset_decides():
    assert implied_revision(NOON_MS, 7) < implied_revision(NOON_MS, 8)


def test_an_implied_revision_is_one_that_json_can_hold_for_two_centuries():
    far = datetime(2247, 1, 1, tzinfo=UTC)
    assert implied_revision(int(far.timestamp() * 1000), 1023) < 2**53


def test_an_event_that_comes_again_counts_as_what_it_was_first():
    assert revision_in({ORIGIN_REVISION: b"77"}, NOON_MS, 5) == 77


@pytest.mark.parametrize("odd", [b"", b"-1", b"seven", b"9" * 40, "٣".encode()])
def test_an_origin_that_is_no_number_is_not_believed(odd: bytes):
    assert revision_in({ORIGIN_REVISION: odd}, NOON_MS, 5) == implied_revision(NOON_MS, 5)


def test_an_event_that_comes_again_was_recorded_when_it_was_first():
    first = implied_revision(NOON_MS, 5)
    headers = {ORIGIN: b"token", ORIGIN_REVISION: str(first).encode()}
    assert recorded_in(headers, NOON_MS + 60_000) == NOON
    assert recorded_in({ORIGIN_REVISION: str(first).encode()}, NOON_MS + 60_000) == recorded_at(NOON_MS + 60_000)


def test_nothing_is_recorded_later_than_its_broker_says():
    far = implied_revision(NOON_MS + 10**9, 5)
    assert recorded_in({ORIGIN: b"token", ORIGIN_REVISION: str(far).encode()}, NOON_MS) == NOON


def test_a_record_says_when_it_was_appended():
    assert recorded_at(NOON_MS) == NOON


# records


def test_a_record_is_read_as_the_event_that_it_carries():
    record = as_log_record(kept(orjson.dumps(event())), "log-1", "x.")
    assert record is not None
    assert record.position == Position(log="log-1", topic="cortex.events", partition=2, number=5)
    assert (record.tenant, record.source, record.event_id, record.recorded_at) == ("acme", "wiki", "e1", NOON)
    assert record.revision == implied_revision(NOON_MS, 5)


def test_a_header_of_the_binary_mode_beside_a_whole_event_names_no_other():
    record = as_log_record(kept(orjson.dumps(event()), headers=(("ce_id", b"\xff"),)), "log-1", "x.")
    assert record is not None
    assert record.event_id == event()["id"]


def test_in_the_binary_mode_the_attributes_stand_in_headers():
    headers = (("ce_specversion", b"1.0"), ("ce_tenant", b"acme"), ("ce_source", b"wiki"), ("ce_id", b"e9"))
    record = as_log_record(kept(b'{"id": "u1"}', headers=headers), "log-1", "x.")
    assert record is not None
    assert (record.tenant, record.event_id) == ("acme", "e9")


def test_in_the_binary_mode_the_body_is_put_together_as_the_structured_one():
    headers = (("ce_specversion", b"1.0"), ("ce_tenant", b"acme"), ("ce_source", b"wiki"), ("ce_id", b"e9"))
    record = as_log_record(kept(b'{"id": "u1"}', headers=headers), "log-1", "x.")
    assert record is not None
    said = {"specversion": "1.0", "tenant": "acme", "source": "wiki", "id": "e9", "data": {"id": "u1"}}
    assert orjson.loads(record.body) == said


@pytest.mark.parametrize("value", [None, b"", b"not JSON", b"[1]", b'{"id": 5}', orjson.dumps(event(tenant=None))])
def test_what_names_no_event_is_not_one(value: bytes | None):
    assert as_log_record(kept(value), "log-1", "x.") is None


# the tail


def logged(
    number: int, *, tenant: str = "acme", topic: str = EVENTS, source: str = "wiki", name: str = ""
) -> LogRecord:
    position = Position(log="log-1", topic=topic, partition=0, number=number)
    return LogRecord(position, NOON, tenant, source, name or f"e{number}", "key", b"body")


def tail(*records: LogRecord, entries: int = 100, begun: int = 0) -> Tail:
    made = Tail(entries)
    for topic in (EVENTS, BULK):
        made.begin((topic, 0), begun)
    for record in records:
        made.add(record)
    return made


def test_lag_counts_a_tenants_own_events_above_its_watermark():
    known = tail(logged(0), logged(1, tenant="other"), logged(2), logged(3), logged(0, topic=BULK))
    assert known.pending("acme", {(EVENTS, 0): 0}) == {(EVENTS, 0): 2, (BULK, 0): 1}


def test_a_tenant_without_a_watermark_has_all_its_events_before_it():
    assert tail(logged(0), logged(1)).pending("acme", {}) == {(EVENTS, 0): 2}


def test_a_quiet_tenant_whose_watermark_is_far_back_has_no_lag():
    known = tail(logged(1_000, tenant="busy"), begun=1_000)
    assert known.pending("quiet", {(EVENTS, 0): 3}) == {(EVENTS, 0): 0}


def test_of_a_backlog_longer_than_memory_only_the_offsets_are_known():
    known = tail(*(logged(number) for number in range(10)), entries=4)
    assert known.pending("acme", {(EVENTS, 0): -1}) == {(EVENTS, 0): 10}
    assert known.find("acme", "e2", None) == []
    assert [record.position.number for record in known.find("acme", "e8", None)] == [8]


@pytest.mark.parametrize("stored", [{}, {(EVENTS, 0): 99}])
def test_a_backlog_that_began_before_what_is_remembered_is_told_whole(stored: dict):
    """A process that starts in it reads the newest events alone; of those before them the offsets are known."""
    known = Tail(100)
    known.begin((EVENTS, 0), 250_000, 100)
    for number in range(250_000, 250_003):
        known.add(logged(number))
    assert known.pending("acme", stored) == {(EVENTS, 0): 249_900 + 3}


def test_what_another_tenant_has_stored_behind_them_does_not_wait():
    """A partition is worked in order: what was forgotten since is no backlog of a tenant that has been quiet."""
    known = tail(*(logged(number, tenant="busy") for number in range(300)), entries=4)
    known.through("busy", {(EVENTS, 0): 297})
    assert known.pending("quiet", {(EVENTS, 0): 2}) == {(EVENTS, 0): 0}
    assert known.pending("new", {}) == {}
    assert known.pending("busy", {(EVENTS, 0): 297}) == {(EVENTS, 0): 2}


def test_an_event_is_found_by_its_id_once_a_source():
    known = tail(logged(0, name="e1"), logged(1, name="e1"), logged(2, name="e1", source="chat"))
    assert [(r.source, r.position.number) for r in known.find("acme", "e1", None)] == [("wiki", 0), ("chat", 2)]
    assert [r.source for r in known.find("acme", "e1", "chat")] == ["chat"]
    assert known.find("other", "e1", None) == [], "no tenant sees another's"


def test_an_event_that_was_sent_on_is_found_where_it_is_handled():
    first = logged(0, name="e1")
    known = tail(first, replace(logged(4, name="e1"), moved_from=first.position), logged(7, name="e1"))
    assert [record.position.number for record in known.find("acme", "e1", None)] == [4]


def test_what_is_stored_need_not_be_counted_again():
    known = tail(logged(0), logged(1), logged(2))
    known.through("acme", {(EVENTS, 0): 1})
    assert known.pending("acme", {(EVENTS, 0): 1}) == {(EVENTS, 0): 1}


# dead letters


def letter(name: str = "l1", *, minute: int = 0, tenant: str | None = "acme", **given: object) -> DeadLetter:
    fields = {
        "id": name, "stage": "embed", "cause": "invalid-input", "detail": "data.text: empty — not «text»", "attempts": 2,
        "topic": EVENTS, "partition": 1, "offset": 9, "tenant": tenant, "event_id": "e1", "event_source": "wiki",
        "failed_at": NOON + timedelta(minutes=minute), "body": b"\xff\x00", "headers": (("odd", b"\xff"),), "key": b"acme/u1",
    }  # fmt: skip
    return DeadLetter.model_validate(fields | given)


@pytest.mark.parametrize(
    "sent", [letter(), letter(tenant=None), letter(key=None, headers=()), letter(revision=2**52), letter(event_id=None)]
)
def test_a_letter_is_read_from_its_topic_as_it_was_written(sent: DeadLetter):
    record = letter_record(sent)
    assert letter_of(record.key, record.value, record.headers) == sent.model_copy(update={"key": sent.key or b"l1"})


def test_a_mark_is_read_as_it_was_written():
    mark = LetterMark(state=LetterState.DISCARDED, by="person-ana", at=NOON)
    record = mark_record(letter(), mark)
    assert letter_of(record.key, record.value, record.headers) == ("l1", mark)


@pytest.mark.parametrize("headers", [(), (("cortex-letter-id", b"l1"),), (("cortex-letter-mark", b"{}"),)])
def test_what_is_no_letter_is_passed_over(headers):
    assert letter_of(b"key", b"value", headers) is None


def test_a_letter_that_was_marked_shows_it_and_one_that_fails_again_is_open():
    shelf = LetterShelf()
    shelf.take(letter())
    shelf.take(("l1", LetterMark(state=LetterState.REPLAYED, by="ana", at=NOON)))
    known = shelf.get("l1")
    assert known is not None
    assert (known.state, known.resolved_by) == (LetterState.REPLAYED, "ana")
    shelf.take(letter(minute=5))
    again = shelf.get("l1")
    assert again is not None
    assert (again.state, again.attempts) == (LetterState.OPEN, 4)


def test_letters_are_listed_newest_first_page_by_page_and_not_beyond_thirty_days():
    shelf = LetterShelf()
    for number in range(4):
        shelf.take(letter(f"l{number}", minute=number))
    page = shelf.listed(LetterFilter(tenant="acme"), 2, None, NOON)
    assert [one.id for one in page] == ["l3", "l2"]
    assert [one.id for one in shelf.listed(LetterFilter(), 9, "l2", NOON)] == ["l1", "l0"]
    assert shelf.listed(LetterFilter(), 9, "gone", NOON) == []
    assert shelf.listed(LetterFilter(tenant="other"), 9, None, NOON) == []
    assert shelf.listed(LetterFilter(), 9, None, NOON + timedelta(days=31)) == []


# commands


def command(name: str, tenant: str = "acme", minute: int = 0) -> Command:
    at = NOON + timedelta(minutes=minute)
    return Command(id=name, tenant=tenant, requested_by="ana", requested_at=at, order=Replay())


def test_of_one_command_id_the_first_counts():
    shelf = CommandShelf()
    assert shelf.put(command("c1"))
    assert not shelf.put(command("c1", minute=1))
    assert shelf.put(command("c1", tenant="other"))
    shelf.take(command("c2", minute=2).model_dump_json().encode())
    shelf.take(b"not a command")
    assert [one.id for one in shelf.listed("acme", None, 10)] == ["c2", "c1"]
    assert [one.tenant for one in shelf.listed("other", "c1", 10)] == ["other"]


def test_of_a_tenants_commands_as_many_are_remembered_as_jobs_are_kept(monkeypatch):
    """Else the command of a job that was let go would be taken for one that has not begun."""
    monkeypatch.setattr(jobs_kept, "KEPT", 2)
    shelf = CommandShelf()
    for minute in range(5):
        shelf.put(command(f"c{minute}", minute=minute))
    shelf.put(command("c0", tenant="other"))
    assert [one.id for one in shelf.listed("acme", None, 10)] == ["c4", "c3"]
    assert [one.id for one in shelf.listed("other", None, 10)] == ["c0"]


def test_of_all_commands_a_bounded_number_is_remembered_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(kafka_shelves, "COMMANDS", 3)
    shelf = CommandShelf()
    for tenant in ("a", "b", "a", "c", "b"):
        shelf.put(command(f"c{len(shelf.listed(tenant, None, 10))}-{tenant}", tenant=tenant))
    assert [[one.id for one in shelf.listed(tenant, None, 10)] for tenant in "abc"] == [["c1-a"], ["c1-b"], ["c0-c"]]


def test_the_event_in_these_tests_is_one():
    assert parse_event(event()).key == "acme/u1"
