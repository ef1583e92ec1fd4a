"""CloudEvents in binary mode are read into the same event as in structured mode."""

import json

import pytest

from schemas.events import parse_event
from shared.binary_mode import decode_header, event_of_http, event_of_kafka, is_binary
from shared.errors import InvalidInput

DATA = {"id": "u1", "text": "Grüße", "type": "context", "scope": {"level": "team", "entity_id": "t"}}
ATTRIBUTES = {"specversion": "1.0", "id": "e1", "source": "urn:test", "tenant": "demo", "type": "unit.asserted"}


def http(**extra):
    return [(f"Ce-{name}".encode(), value.encode("latin-1")) for name, value in {**ATTRIBUTES, **extra}.items()]


def kafka(**extra):
    return [(f"ce_{name}", value.encode()) for name, value in {**ATTRIBUTES, **extra}.items()]


def test_both_bindings_give_the_structured_event():
    body = json.dumps(DATA).encode()
    structured = parse_event({**ATTRIBUTES, "data": DATA})
    assert parse_event(event_of_http(http(), "application/json; charset=utf-8", body)) == structured
    assert parse_event(event_of_kafka([*kafka(), ("content-type", b"application/json")], body)) == structured
    assert parse_event(event_of_kafka(kafka(), body)) == structured


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b"plain", "plain"),
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),  # the specification's own example
        (b'"quoted \\"twice\\""', 'quoted "twice"'),
        (b"%22", '"'),
        (b"100%", "100%"),
        (b"%zz", "%zz"),
        (b"%2525", "%25"),  # decoded once
        (b" spaced ", "spaced"),
        (b"%c3%bc", "ü"),
    ],
)
def test_a_header_is_unquoted_and_percent_decoded_once(sent, meant):
    assert decode_header("ce-subject", sent) == meant


@pytest.mark.parametrize("sent", [b"%ff", b"\xff", b"%E2%82", b"%ED%A0%80"])
def test_what_is_not_utf8_is_a_fault_that_names_the_header(sent):
    with pytest.raises(InvalidInput, match="ce-subject is not UTF-8"):
        decode_header("ce-subject", sent)


def test_kafka_headers_are_utf8_as_they_are():
    event = event_of_kafka(kafka(subject="100%25 ü"), b"{}")
    assert event["subject"] == "100%25 ü"
    with pytest.raises(InvalidInput, match="ce_subject is not UTF-8"):
        event_of_kafka([*kafka(), ("ce_subject", b"\xff")], b"{}")


def test_a_structured_content_type_wins_over_headers():
    names = ["ce-specversion"]
    assert is_binary(names, "application/json")
    assert is_binary(["Ce-SpecVersion"], None)
    assert not is_binary(names, "application/cloudevents+json; charset=utf-8")
    assert not is_binary(names, "Application/CloudEvents-Batch+json")
    assert not is_binary(["content-type"], "application/json")


@pytest.mark.parametrize(
    ("headers", "kind", "body", "field"),
    [
        ([*http(), (b"ce-id", b"e2")], "application/json", b"{}", "/id"),
        ([*http(), (b"ce-datacontenttype", b"text/plain")], "application/json", b"{}", "/datacontenttype"),
        ([*http(), (b"ce-data", b"x")], "application/json", b"{}", "/data"),
        (http(), "text/plain", b"hello", "/datacontenttype"),
        (http(), "application/json", b"{", "/data"),
    ],
    ids=["twice", "content type twice", "data in a header", "no JSON by name", "no JSON"],
)
def test_what_cannot_be_an_event_names_the_field(headers, kind, body, field):
    with pytest.raises(InvalidInput) as refused:
        event_of_http(headers, kind, body)
    assert [fault.field for fault in refused.value.faults] == [field]


def test_an_empty_body_is_missing_data():
    assert "data" not in event_of_http(http(), None, b" ")
