"""The description of the topics: well formed, complete, and true to what is written on them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from faststream.specification.asyncapi.v3_0_0.schema import ApplicationSchema
from jsonschema import Draft202012Validator

from ingest.flag import contradiction_record
from query.asyncapi import TOPICS, build_asyncapi
from schemas.messages import Receipt, StageMessage
from schemas.positions import Position
from shared.kafka import ALL_TOPICS, COMPACTED
from shared.store import FoundContradiction, StoredContradiction

GOLDEN = sorted((Path(__file__).parent / "golden").glob("event-*.json"))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLACE = Position(log="log-1", topic="cortex.events", partition=0, number=7)


@pytest.fixture(scope="module")
def document():
    return json.loads(json.dumps(build_asyncapi("1.2.3", host="127.0.0.1:8421", partitions=4, prefix="acme.")))


def validator(document, message):
    """A validator of a message's payload, whose references lead into the document."""
    payload = document["components"]["messages"][message]["payload"]
    return Draft202012Validator({**payload, "components": document["components"]})


def test_it_is_an_asyncapi_3_document(document):
    """FastStream's own model of the specification reads it (which wants the optional ``pathname`` of servers named)."""
    assert document["asyncapi"] == "3.0.0"
    servers = {name: {"pathname": "", **server} for name, server in document["servers"].items()}
    ApplicationSchema.model_validate({**document, "servers": servers})


def test_every_topic_is_described_with_its_prefix_and_cleanup(document):
    assert {topic.name for topic in TOPICS} == set(ALL_TOPICS)
    channels = {channel["address"]: channel for channel in document["channels"].values()}
    assert set(channels) == {f"acme.{name}" for name in ALL_TOPICS}
    for name in ALL_TOPICS:
        kafka = channels[f"acme.{name}"]["bindings"]["kafka"]
        assert kafka["partitions"] == 4
        policy = ["compact"] if name in COMPACTED else ["delete"]
        assert kafka["topicConfiguration"]["cleanup.policy"] == policy


def test_every_reference_leads_somewhere(document):
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert references
    for reference in references:
        place = document
        for part in reference.split("/"):
            assert part in place, reference
            place = place[part]


def test_producers_are_told_the_two_topics_they_may_write_to(document):
    received = {
        operation["channel"]["$ref"]
        for operation in document["operations"].values()
        if operation["action"] == "receive"
    }
    assert received == {"#/channels/events", "#/channels/bulk"}
    assert "murmur2" in document["info"]["description"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_schema_of_events_takes_the_golden_events(document, path):
    """As the service does: the same models made both."""
    value = json.loads(path.read_text(encoding="utf-8"))
    for message in ("events", "bulk"):
        if value.get("schemaversion", "1.0") == "1.0":
            validator(document, message).validate(value)
        assert not validator(document, message).is_valid({**value, "specversion": "0.3"})


def test_what_the_stages_write_fits_what_is_described(document):
    message = StageMessage(position=PLACE, recorded_at=NOW, key="demo/u1")
    validator(document, "embedded").validate(message.model_dump(mode="json", exclude_none=True))
    receipt = Receipt(position=PLACE, recorded_at=NOW, tenant="demo", outcome="stored", units=("u1",))
    validator(document, "stored").validate(receipt.model_dump(mode="json"))
    pair = FoundContradiction(("a", "b"), (1, 2), "number", "3 against 5", "limit", 0.9)
    record = contradiction_record("demo", StoredContradiction(pair, NOW, open=True))
    written = json.loads(record.value)
    validator(document, "contradictions").validate(written)
    assert set(written) == set(document["components"]["messages"]["contradictions"]["payload"]["properties"])
