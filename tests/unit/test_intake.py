"""How a record gets its position, and what cannot be an event."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from ingest.intake import JournalIntake, read_event, read_json, read_record
from ingest.letters import identity_in
from schemas.events import parse_event
from schemas.limits import EVENT_BYTES
from shared.clock import ManualClock
from shared.errors import InvalidInput, TooLarge, UnsupportedVersion
from shared.log import BULK, EVENTS
from shared.logs.memory import MemoryLog
from tests.unit.test_lanes import Stamped

pytestmark = pytest.mark.anyio

EVENT = {
    "specversion": "1.0",
    "type": "unit.asserted",
    "id": "e1",
    "source": "wiki/ä",
    "tenant": "acme",
    "data": {"id": "u1", "text": "Text.", "type": "context", "scope": {"level": "team", "entity_id": "core"}},
}


FOREIGN = (Stamped(0), parse_event(EVENT))


def as_record(stamped, topic: str, partition: int) -> Stamped:
    return Stamped(17, partition, topic, stamped.key, stamped.value, stamped.headers)


async def test_a_journaled_record_has_the_position_that_the_journal_gave():
    log = MemoryLog(4, ManualClock(datetime(2026, 6, 1, tzinfo=UTC)))
    intake = JournalIntake(log, "epoch-1", "x.")
    await intake.accept([FOREIGN], f"x.{BULK}")
    (row,) = await log.read(0, 10)
    assert row.position.topic == BULK
    place = intake.place(as_record(intake.stamp(row), f"x.{BULK}", row.position.partition))
    assert place is not None
    assert (place.position, place.recorded_at) == (row.position, row.recorded_at)
    assert (place.tenant, place.source, place.event_id) == ("acme", "wiki/ä", "e1")


async def test_a_record_of_another_epoch_or_without_one_is_foreign():
    log = MemoryLog(4, ManualClock(datetime(2026, 6, 1, tzinfo=UTC)))
    intake = JournalIntake(log, "epoch-2")
    await intake.accept([FOREIGN], EVENTS)
    (row,) = await log.read(0, 10)
    assert intake.place(as_record(JournalIntake(log, "epoch-1").stamp(row), EVENTS, 0)) is None
    assert intake.place(Stamped(0, headers=(("cortex-number", b"7"),))) is None


async def journaled(intake: JournalIntake, log: MemoryLog, topic: str = EVENTS) -> Stamped:
    """An event as the pump publishes it."""
    await intake.accept([FOREIGN], topic)
    (row,) = await log.read(0, 10)
    return as_record(intake.stamp(row), topic, row.position.partition)


STAMPS = ("cortex-mark", "cortex-number", "cortex-recorded-at", "cortex-tenant", "cortex-source", "cortex-id")
BRIDGED = {
    "other bytes": lambda record: replace(record, value=orjson.dumps({**EVENT, "id": "another"})),
    "no bytes": lambda record: replace(record, value=None),
    "another partition": lambda record: replace(record, partition=(record.partition + 1) % 4),
    "another topic": lambda record: replace(record, topic=BULK),
    "another number": lambda record: replace(record, headers=(*record.headers, ("cortex-number", b"999999"))),
    "no number": lambda record: replace(record, headers=(*record.headers, ("cortex-number", None))),
    "odd time": lambda record: replace(record, headers=(*record.headers, ("cortex-recorded-at", b"\xff"))),
    **{
        f"without {name}": lambda record, name=name: replace(
            record, headers=tuple(header for header in record.headers if header[0] != name)
        )
        for name in STAMPS
    },
}


@pytest.mark.parametrize("change", BRIDGED.values(), ids=BRIDGED)
async def test_what_a_bridge_made_of_a_journaled_record_is_foreign(change):
    """Its headers were copied onto another event, place or number: it must not stand in the original's."""
    log = MemoryLog(4, ManualClock(datetime(2026, 6, 1, tzinfo=UTC)))
    intake = JournalIntake(log, "epoch-1")
    record = await journaled(intake, log)
    assert intake.place(record) is not None
    assert intake.place(change(record)) is None


async def test_accepting_an_event_twice_keeps_it_once():
    log = MemoryLog(4, ManualClock(datetime(2026, 6, 1, tzinfo=UTC)))
    intake = JournalIntake(log, "epoch")
    for _ in range(2):
        await intake.accept([FOREIGN], EVENTS)
    assert len(await log.read(0, 10)) == 1


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (None, InvalidInput),
        (b"", InvalidInput),
        (b"  \n", InvalidInput),
        (b"{", InvalidInput),
        (b"\xff\xfe", InvalidInput),
        (b'{"a": NaN}', InvalidInput),
        (b'"\\ud800"', InvalidInput),
        (b"[" * 200_000, InvalidInput),
        (b" " * (EVENT_BYTES + 1) + b"1", TooLarge),
    ],
)
def test_what_is_not_json_is_a_typed_error(body, error):
    with pytest.raises(error):
        read_json(body)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "unit.guessed"}, "/type"),
        ({"tenant": None}, "/tenant"),
        ({"data": {**EVENT["data"], "text": " \t"}}, "/data/text"),
        ({"data": {**EVENT["data"], "text": "a\x00b"}}, "/data/text"),
        ({"data": {**EVENT["data"], "surprise": 1}}, "/data/surprise"),
    ],
)
def test_a_wrong_field_is_named(change, field):
    with pytest.raises(InvalidInput) as caught:
        read_event({**EVENT, **change})
    assert caught.value.faults[0].field == field


@pytest.mark.parametrize("version", ["2.0", "99", "9" * 5_000])
def test_an_unknown_major_version_is_told_apart_from_a_wrong_field(version):
    with pytest.raises(UnsupportedVersion):
        read_event({**EVENT, "schemaversion": version})


@pytest.mark.parametrize("value", [None, 1, [], "text", {}, {"type": []}])
def test_json_that_is_no_event_is_a_typed_error(value):
    with pytest.raises(InvalidInput):
        read_event(value)


def test_an_unusable_event_is_still_found_by_the_names_it_carries():
    assert identity_in(orjson.loads(orjson.dumps(EVENT))) == ("acme", "wiki/ä", "e1")
    assert identity_in({"tenant": 5, "id": "x" * 1_000, "source": "a\nb"}) == (None, None, None)
    assert identity_in([1]) == (None, None, None)
    for name in ("../etc", "Acme", "", "a" * 64, "a b", "-a"):
        assert identity_in({**EVENT, "tenant": name})[0] is None, "no store has such a tenant"


def test_a_record_in_binary_mode_is_the_same_event_as_in_structured_mode():
    """Attributes in headers ce_<name>, the data in the value."""
    attributes = {name: value for name, value in EVENT.items() if name != "data"}
    headers = tuple((f"ce_{name}", str(value).encode()) for name, value in attributes.items())
    record = Stamped(3, 0, EVENTS, b"acme/u1", orjson.dumps(EVENT["data"]), headers)
    assert read_event(read_record(record)) == parse_event(EVENT)
    structured = Stamped(
        4, 0, EVENTS, b"acme/u1", orjson.dumps(EVENT), (("content-type", b"application/cloudevents+json"), *headers)
    )
    assert read_event(read_record(structured)) == parse_event(EVENT)
    with pytest.raises(TooLarge):
        read_record(Stamped(5, 0, EVENTS, None, b" " * (EVENT_BYTES + 1), headers))
