"""The table of topics: what is kept for ever, what for a while, what in its newest state, and how much fits."""

import pytest

from schemas.limits import EVENT_BYTES
from shared.topics import (
    ALL_TOPICS,
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
    wanted_topics,
)

DAY_MS = 86_400_000
TABLE = {topic.name: topic for topic in wanted_topics(6, 3, "acme.")}


def configs(topic):
    return TABLE[f"acme.{topic}"].configs


def test_every_topic_is_in_the_table_with_the_partitions_of_events():
    assert set(TABLE) == {f"acme.{name}" for name in ALL_TOPICS}
    assert {topic.partitions for topic in TABLE.values()} == {6}
    assert {topic.replication for topic in TABLE.values()} == {3}


@pytest.mark.parametrize("topic", [EVENTS, BULK, COMMANDS])
def test_what_was_accepted_is_kept_for_ever_and_dated_by_the_broker(topic):
    assert configs(topic)["cleanup.policy"] == "delete"
    assert configs(topic)["retention.ms"] == configs(topic)["retention.bytes"] == "-1"
    assert configs(topic)["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.parametrize(("topic", "days"), [(EMBEDDED, 1), (RESOLVED, 1), (STORED, 1), (DEAD_LETTERS, 30)])
def test_what_can_be_made_anew_is_kept_for_a_while(topic, days):
    assert configs(topic)["cleanup.policy"] == "delete"
    assert configs(topic)["retention.ms"] == str(days * DAY_MS)


@pytest.mark.parametrize("topic", [EMBEDDED, RESOLVED, STORED])
def test_a_hop_is_cut_into_segments_that_go_before_a_second_day(topic):
    """A segment goes as a whole: one as long as the retention would be kept twice as long."""
    assert int(configs(topic)["segment.ms"]) <= int(configs(topic)["retention.ms"]) // 4


@pytest.mark.parametrize("topic", [GRAPH, CONTRADICTIONS])
def test_of_a_state_the_newest_is_kept(topic):
    assert topic in COMPACTED
    assert configs(topic)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(("replication", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "4")])
def test_one_broker_may_be_away_without_a_write_being_refused(replication, in_sync):
    table = wanted_topics(1, replication)
    assert {topic.configs["min.insync.replicas"] for topic in table} == {in_sync}


def test_a_topic_takes_the_largest_message_that_its_stage_writes():
    """A hop carries the event, vectors of 160 windows of 1,536 numbers, 512 mentions of 1.2 kB and 100 kB of claims."""
    largest = EVENT_BYTES + 160 * 1_536 * 4 + 512 * 1_200 + 100_000
    assert all(int(configs(topic)["max.message.bytes"]) >= largest for topic in (EMBEDDED, RESOLVED, GRAPH))
    assert int(configs(EVENTS)["max.message.bytes"]) >= 2 * EVENT_BYTES
    assert int(configs(DEAD_LETTERS)["max.message.bytes"]) > int(configs(EVENTS)["max.message.bytes"])
