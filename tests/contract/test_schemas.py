"""The wire formats: exported JSON Schemas, golden samples that parse for ever, and what the door refuses."""

import json
import struct
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas import limits
from schemas.events import dump_event, extension_fault, parse_event, schema_major
from schemas.export import FOLDER, render, schemas
from schemas.messages import Embedding, Marker, MarkerKind, StageMessage, decode_message, encode_message
from schemas.positions import Position
from schemas.questions import Question
from schemas.stream import EVENT_NAMES, TERMINAL

GOLDEN = sorted((Path(__file__).parent / "golden").glob("event-*.json"))
POSITION = Position(log="journal-1", topic="cortex.events", partition=3, number=42)
AT = datetime(2026, 3, 1, 9, tzinfo=UTC)


def event(**data):
    """Build the smallest assertion, changed by ``data``."""
    unit = {"id": "u", "text": "t", "type": "context", "scope": {"level": "team", "entity_id": "core"}, **data}
    return {"specversion": "1.0", "id": "e", "source": "s", "tenant": "acme", "type": "unit.asserted", "data": unit}


def places(fault: pytest.ExceptionInfo[ValidationError]) -> set[str]:
    """Return the last two parts of every location in a validation error."""
    return {".".join(str(part) for part in error["loc"][-2:]) for error in fault.value.errors()}


@pytest.mark.parametrize("name", sorted(schemas()))
def test_exported_schema_is_the_models_schema(name):
    """After a change of a model: python -m schemas.export."""
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == render(schemas()[name])


def test_no_exported_schema_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(schemas())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_event_parses_for_ever_and_survives_a_round_trip(path):
    parsed = parse_event(json.loads(path.read_text(encoding="utf-8")))
    assert parse_event(dump_event(parsed)) == parsed


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if "later-minor" not in path.stem], ids=lambda path: path.stem
)
def test_golden_event_is_valid_by_the_exported_schema_as_it_was_sent_and_as_it_is_kept(path):
    """Moments too: in every form that is taken, and as the objects that we write."""
    sent = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(sent, schemas()["event"])
    jsonschema.validate(dump_event(parse_event(sent)), schemas()["event"])


def test_extension_attributes_of_others_are_kept():
    assert dump_event(parse_event({**event(), "partnerref": "x"}))["partnerref"] == "x"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"text": "   \n"}, "data.text"),
        ({"text": "a\x00b"}, "data.text"),
        ({"text": "\ud800"}, "data.text"),
        ({"text": "x" * (limits.UNIT_TEXT_CHARS + 1)}, "data.text"),
        ({"type": "rumour"}, "data.type"),
        ({"scope": {"level": "planet", "entity_id": "x"}}, "scope.level"),
        ({"scope": {"level": "team", "entity_id": ""}}, "scope.entity_id"),
        ({"id": "with space"}, "data.id"),
        ({"confidence": 1.5}, "data.confidence"),
        ({"occurred_at": "yesterday"}, "data.occurred_at"),
        ({"occurred_at": True}, "data.occurred_at"),
        ({"occurred_at": {"at": "2026-01-01T00:00:00", "zone": "Mars/Olympus"}}, "data.occurred_at"),
        ({"unheard_of": 1}, "data.unheard_of"),
        ({"metadata": {"k": ["no", "lists"]}}, "k.int"),
        ({"claims": [{"subject": "", "predicate": "p", "object": "o"}]}, "0.subject"),
        ({"revision": -1}, "data.revision"),
        ({"revision": True}, "data.revision"),
        ({"confidence": True}, "data.confidence"),
    ],
)
def test_the_door_names_the_field(change, place):
    with pytest.raises(ValidationError) as fault:
        parse_event(event(**change))
    assert place in places(fault)


@pytest.mark.parametrize("name", ["id", "source"])
@pytest.mark.parametrize("mark", ["\n", "\x00", "\x1b", "\x7f", "\x85"], ids=ascii)
def test_an_event_is_not_named_with_control_characters(name, mark):
    """CloudEvents 1.0 (2.2) leaves them out of strings; and no address could ask for the event's status."""
    with pytest.raises(ValidationError) as fault:
        parse_event({**event(), name: f"a{mark}b"})
    assert any(name in place for place in places(fault))


@pytest.mark.parametrize(
    "change",
    [
        {"part": 0},
        {"document_id": "d", "part": 0},
        {"turn": 1},
        {"valid_from": "2026-02-01", "valid_until": "2026-01-01"},
    ],
)
def test_fields_that_belong_together_are_checked_together(change):
    with pytest.raises(ValidationError):
        parse_event(event(**change))


@pytest.mark.parametrize(
    ("given_time", "utc", "precision"),
    [
        ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00Z", "instant"),
        ("2026-03-01T09:30:00+09:00", "2026-03-01T00:30:00Z", "instant"),
        ("2026-03-01T09:15:00", "2026-03-01T09:15:00Z", "instant"),
        ("2026-03-01", "2026-03-01T00:00:00Z", "day"),
        (1772355600000, "2026-03-01T09:00:00Z", "instant"),
        ({"at": "2026-03-29T02:30:00", "zone": "Europe/Berlin"}, "2026-03-29T01:30:00Z", "instant"),
    ],
)
def test_every_form_of_a_time_is_read_as_utc_and_keeps_its_words(given_time, utc, precision):
    """Case C25. A local time that the clocks skipped is read with the offset from before the gap."""
    moment = dump_event(parse_event(event(occurred_at=given_time)))["data"]["occurred_at"]
    assert (moment["at"], moment["precision"]) == (utc, precision)
    words = f"{given_time['at']} {given_time['zone']}" if isinstance(given_time, dict) else str(given_time)
    assert moment["original"] == words


@pytest.mark.parametrize(
    ("origin", "trusted"),
    [
        ({}, True),
        ({"source_type": "document"}, True),
        ({"source_type": "web"}, False),
        ({"source_type": "web", "trusted": True}, True),
        ({"source_type": "manual", "trusted": False}, False),
    ],
)
def test_what_comes_from_the_web_is_untrusted_unless_vouched_for(origin, trusted):
    """Case C58."""
    parsed = parse_event(event(origin=origin))
    assert parsed.data.origin.trusted is trusted
    assert parse_event(dump_event(parsed)) == parsed


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("traceid", "abc", True), ("n", 2**63 - 1, True), ("flag", False, True), ("data", {"any": []}, True),
        ("n", 2**63, False), ("n", 1.5, False), ("n", None, False), ("nested", [[]], False), ("o", {}, False),
        ("Upper", "x", False), ("a b", "x", False), ("", "x", False), ("é", "x", False),
    ],
)  # fmt: skip
def test_attributes_of_others_are_simple(name, value, right):
    """Case C30: what nests or is no number of JSON's cannot be kept, so no door takes it."""
    assert (extension_fault(name, value) is None) is right


@pytest.mark.parametrize("version", ["9" * 5_000, "1." + "9" * 5_000, "1.0.0", "", "-1"])
def test_a_version_that_is_none_is_refused_and_never_a_crash(version):
    """Case C30."""
    with pytest.raises(ValidationError):
        parse_event({**event(), "schemaversion": version})


def test_an_unknown_major_version_can_be_told_before_parsing():
    assert schema_major({"schemaversion": "9" * 5_000}) > 1
    assert schema_major({"schemaversion": "2.0"}) == 2
    assert schema_major({"schemaversion": "1.9"}) == 1
    assert schema_major({}) == 1


def test_events_of_one_document_share_a_key():
    part = parse_event(event(document_id="d", part=3, revision=1))
    completion = {"id": "d", "revision": 1, "parts": 4, "hash": "0" * 64}
    done = parse_event({**event(), "type": "document.completed", "data": completion})
    assert part.key == done.key == "acme/d"


@given(st.text(min_size=1, max_size=64), st.integers(0, 255), st.integers(0, 2**60))
def test_a_token_reads_back_as_its_position(log, partition, number):
    position = Position(log=log, topic="cortex.events", partition=partition, number=number)
    assert Position.from_token(position.token()) == position


@given(st.text(max_size=100))
def test_anything_else_is_refused_as_a_token(text):
    if text:
        try:
            read = Position.from_token(text)
        except ValueError:
            return
        assert read.token().rstrip("=") == text.rstrip("=")


def test_a_stage_message_carries_vectors_as_raw_floats():
    vectors = struct.pack("<4f", 1, 2, 3, 4)
    message = StageMessage(
        position=POSITION, recorded_at=AT, key="acme/u", embedding=Embedding(model="m", content_key="c", rows=2, dims=2)
    )
    assert decode_message(encode_message(message, vectors)) == (message, vectors)


def test_a_stage_message_refuses_vectors_of_another_length():
    message = StageMessage(
        position=POSITION, recorded_at=AT, key="acme/u", marker=Marker(kind=MarkerKind.DEAD, stage="embed")
    )
    with pytest.raises(ValueError, match="the header says 0"):
        encode_message(message, b"1234")


@given(st.binary(max_size=64))
def test_anything_else_is_refused_as_a_stage_message(body):
    with pytest.raises(ValueError):  # noqa: PT011 - any ValueError is the contract
        decode_message(body)


@pytest.mark.parametrize(
    "change",
    [{"limit": 0}, {"limit": 51}, {"budget_tokens": 49}, {"wait_ms": -1}, {"scopes": ["planet/x"]}, {"q": "x" * 4001}],
)
def test_a_question_has_bounds(change):
    with pytest.raises(ValidationError):
        Question.model_validate({"q": "why", **change})


def test_terminal_events_are_events():
    assert set(EVENT_NAMES) >= TERMINAL
