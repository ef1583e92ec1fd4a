"""AsyncAPI 3.0: what travels on the topics, made from the models that are exported, so that the two cannot differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from schemas.commands import Command
from schemas.events import Event
from schemas.graph import Contribution
from schemas.limits import EVENT_BYTES
from schemas.messages import Receipt, StageMessage
from shared.kafka import (
    BULK,
    COMMANDS,
    COMPACTED,
    CONTRADICTIONS,
    DEAD_LETTERS,
    EMBEDDED,
    EVENTS,
    GRAPH,
    RESOLVED,
    STORED,
    topic_name,
)

REF: Final = "#/components/schemas/{model}"
BINARY: Final = (
    'Body: the 4 bytes "CX1\\n", the header\'s length (4 bytes, big endian), the header as JSON (this schema), then the '
    "vectors as little-endian float32, row by row."
)
BODIES: Final[Mapping[str, Mapping[str, Any]]] = {
    DEAD_LETTERS: {"description": "the bytes of the record that could not be processed, unchanged"},
    CONTRADICTIONS: {
        "type": "object",
        "properties": {
            "version": {"const": 1},
            "tenant": {"type": "string"},
            "id": {"type": "string", "description": "the sorted ids of both units, joined by ~"},
            "units": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
            "revisions": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
            "difference": {"type": "string", "description": "number, date, name, negation, antonym or claim"},
            "detail": {"type": "string"},
            "attribute": {"type": "string"},
            "similarity": {"type": "number"},
            "recorded_at": {"type": "string", "format": "date-time"},
            "open": {"type": "boolean"},
        },
    },
}
"""What has no model of its own; a test holds it against what is written."""


@dataclass(frozen=True)
class Topic:
    """What is to be told of a topic. ``model`` None: its records have no schema. ``public``: others may write to it."""

    name: str
    key: str
    words: str
    model: Any = None
    content_type: str = "application/json"
    headers: tuple[str, ...] = ()
    public: bool = False


TOPICS: Final = (
    Topic(
        EVENTS, "<tenant>/<subject>", "What producers state: CloudEvents 1.0, structured, or binary with headers ce_*.",
        Event, public=True,
    ),
    Topic(
        BULK, "<tenant>/<subject>", "The same kinds of event from feeds and imports, which give way to cortex.events.",
        Event, public=True,
    ),
    Topic(EMBEDDED, "<tenant>/<subject>", f"Events with their vectors. {BINARY}", StageMessage, "application/octet-stream"),
    Topic(
        RESOLVED, "<tenant>/<subject>", f"Events with vectors, mentions and claims. {BINARY}",
        StageMessage, "application/octet-stream",
    ),
    Topic(STORED, "<tenant>/<subject>", "Receipts of the store: one an event, in the order of its partition.", Receipt),
    Topic(
        GRAPH, "<tenant>/<contribution id>",
        "What each unit and declaration adds to the graph. Compacted. Records with the key __epoch__ mark a refill: "
        '{"epoch": ..., "phase": "begin" or "complete"}; a null value withdraws.',
        Contribution,
    ),
    Topic(CONTRADICTIONS, "<tenant>/<pair id>", "Contradictions that were found, and their state. Compacted."),
    Topic(
        COMMANDS, "<tenant>", "Orders to ingest, with who gave them and why. Written by Cortex alone: over HTTP, where rights "
        "are checked.", Command,
    ),
    Topic(
        DEAD_LETTERS, "<tenant>/<subject>", "What could not be processed: original bytes and headers, and ours beside them.",
        content_type="application/octet-stream",
        headers=("letter", "stage", "cause", "detail", "attempts", "failed-at", "from", "dead-tenant"),
    ),
)  # fmt: skip


def build_asyncapi(version: str, *, host: str, partitions: int, prefix: str = "") -> dict[str, Any]:
    """Describe the topics. ``host``: where the broker is reached, HOST:PORT."""
    named = [topic for topic in TOPICS if topic.model is not None]
    adapters = [(topic.name, "validation", TypeAdapter[Any](topic.model)) for topic in named]
    made, rest = TypeAdapter.json_schemas(adapters, ref_template=REF)  # type: ignore[arg-type] # a literal's list is a list of str
    payloads = {name: schema for (name, _), schema in made.items()}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Cortex",
            "version": version,
            "description": (
                "The topics of Cortex. Producers write to the first two; every key is the partitioner's input: murmur2, "
                "the default of Java's client and of aiokafka (librdkafka: partitioner=murmur2_random)."
            ),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": {"host": host, "protocol": "kafka", "description": "speaks Kafka's protocol"}},
        "channels": {_id(topic): _channel(topic, partitions, prefix) for topic in TOPICS},
        "operations": {name: operation for topic in TOPICS for name, operation in _operations(topic).items()},
        "components": {
            "messages": {_id(topic): _message(topic, payloads) for topic in TOPICS},
            "schemas": rest.get("$defs", {}),
        },
    }


def _id(topic: Topic) -> str:
    return topic.name.removeprefix("cortex.")


def _channel(topic: Topic, partitions: int, prefix: str) -> dict[str, Any]:
    policy = ["compact"] if topic.name in COMPACTED else ["delete"]
    return {
        "address": topic_name(prefix, topic.name),
        "description": topic.words,
        "servers": [{"$ref": "#/servers/kafka"}],
        "messages": {_id(topic): {"$ref": f"#/components/messages/{_id(topic)}"}},
        "bindings": {
            "kafka": {
                "topic": topic_name(prefix, topic.name),
                "partitions": partitions,
                "topicConfiguration": {"cleanup.policy": policy},
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operations(topic: Topic) -> Mapping[str, dict[str, Any]]:
    """Say what Cortex does with a topic: it receives what others may write, and sends what others may read."""
    channel = {"$ref": f"#/channels/{_id(topic)}"}
    if topic.public:
        return {f"receive-{_id(topic)}": {"action": "receive", "channel": channel, "summary": "publish here"}}
    return {
        f"send-{_id(topic)}": {"action": "send", "channel": channel, "summary": "read here; written by Cortex alone"}
    }


def _message(topic: Topic, payloads: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": _id(topic),
        "title": topic.words.partition(":")[0].partition(".")[0],
        "contentType": topic.content_type,
        "payload": payloads[topic.name] if topic.model is not None else BODIES[topic.name],
        "bindings": {
            "kafka": {"key": {"type": "string", "description": topic.key}, "bindingVersion": "0.5.0"},
        },
    }
    if topic.public:
        message["description"] = f"at most {EVENT_BYTES} bytes"
    if topic.headers:
        fields = {f"cortex-{name}": {"type": "string"} for name in topic.headers}
        message["headers"] = {"type": "object", "properties": fields}
    return message
