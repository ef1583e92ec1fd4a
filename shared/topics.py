"""The topics: their names, and for each how it is kept. All have the partition count of ``cortex.events``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.log import BULK, EVENTS

__all__ = [
    "ALL_TOPICS",
    "BULK",
    "COMMANDS",
    "COMPACTED",
    "CONTRADICTIONS",
    "DEAD_LETTERS",
    "EMBEDDED",
    "EVENTS",
    "GRAPH",
    "RESOLVED",
    "STORED",
    "WantedTopic",
    "topic_name",
    "wanted_topics",
]

EMBEDDED: Final = "cortex.embedded"
RESOLVED: Final = "cortex.resolved"
STORED: Final = "cortex.stored"
GRAPH: Final = "cortex.graph"
CONTRADICTIONS: Final = "cortex.contradictions"
COMMANDS: Final = "cortex.commands"
DEAD_LETTERS: Final = "cortex.dead-letters"
ALL_TOPICS: Final = (EVENTS, BULK, EMBEDDED, RESOLVED, STORED, GRAPH, CONTRADICTIONS, COMMANDS, DEAD_LETTERS)
COMPACTED: Final = frozenset({GRAPH, CONTRADICTIONS})

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MIB: Final = 1024 * 1024

_TRUTH: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",  # the record of truth: everything can be rebuilt from it
    "retention.bytes": "-1",
    # a revision is made of this time where a producer gives none, so it must be the broker's
    "message.timestamp.type": "LogAppendTime",
    # an event is at most 256 kB; producers of any client may send batches of theirs, by default up to 1 MB
    "max.message.bytes": str(MIB),
}
# The largest message between stages: the event (256 kB), its vectors (32,000 characters in a script of one token a
# character: some 160 windows; 0.25 MB with 384 dimensions, 1 MB with 1,536), its mentions (at most 512, 0.6 MB) and claims
# (0.1 MB). A dead letter is what came in, up to 1 MB, and headers.
_OURS: Final = {"max.message.bytes": str(4 * MIB)}
_HOP: Final = {
    "cleanup.policy": "delete",
    # what a stopped stage has to catch up on; what is gone by then is made anew by replaying the events
    "retention.ms": str(DAY_MS),
    # a segment is deleted whole: with Kafka's week a quiet partition would keep seven days
    "segment.ms": str(6 * HOUR_MS),
    **_OURS,
}
_LATEST: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(DAY_MS),  # the open segment is never compacted
    **_OURS,
}
_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    EVENTS: _TRUTH,
    BULK: _TRUTH,
    COMMANDS: _TRUTH,
    EMBEDDED: _HOP,
    RESOLVED: _HOP,
    STORED: _HOP,
    GRAPH: _LATEST,
    CONTRADICTIONS: _LATEST,
    DEAD_LETTERS: {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS), **_OURS},
}


@dataclass(frozen=True)
class WantedTopic:
    """A topic as it should be: the name at the broker, and each configuration value that we rest on."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str] = field(default_factory=dict)


def topic_name(prefix: str, topic: str) -> str:
    """Return the name a topic has at the broker."""
    return f"{prefix}{topic}"


def wanted_topics(partitions: int, replication: int = 1, prefix: str = "") -> tuple[WantedTopic, ...]:
    """Return all topics as they should be.

    ``replication``: copies of each record. An acknowledgement then means all but one of them, so that one broker may be
    away without a write being refused, and none that was acknowledged is lost with it (from 3 copies on; with 2, one).
    """
    in_sync = str(max(1, replication - 1))
    return tuple(
        WantedTopic(
            topic_name(prefix, name), partitions, replication, {**_CONFIGS[name], "min.insync.replicas": in_sync}
        )
        for name in ALL_TOPICS
    )
