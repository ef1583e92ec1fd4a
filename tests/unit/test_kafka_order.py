"""The order in which a log of two topics is replayed: a rule over records, no broker."""

import random

import pytest

from shared.kafka_reading import Kept
from shared.logs.kafka_order import TimeOrder

EVENTS, BULK = "cortex.events", "cortex.bulk"
PLACES = [(topic, partition) for topic in (EVENTS, BULK) for partition in (0, 1)]


def kept(topic: str, partition: int, offset: int, at_ms: int) -> Kept:
    return Kept(topic, partition, offset, at_ms, b"acme/u1", b"{}", ())


def read(log: dict, seed: int) -> list[Kept]:
    """Read a log as a broker may hand it over: any of the places that are asked for, any number of records."""
    chance, at, found = random.Random(seed), dict.fromkeys(log, 0), []
    order, left = TimeOrder(PLACES), {place for place, records in log.items() if records}
    while left:
        hungry = order.hungry(left)
        assert hungry, "nothing is asked for, though there is more: it would never end"
        place = chance.choice(hungry)
        count = chance.randint(1, 3)
        order.take(log[place][at[place] : at[place] + count])
        at[place] += count
        left = {place for place in left if at[place] < len(log[place])}
        found += order.due(left)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_however_a_log_is_handed_over_a_partition_numbers_records_come_by_their_times(seed: int):
    times = random.Random(seed)
    log = {
        (topic, partition): [
            kept(topic, partition, offset, at_ms)
            for offset, at_ms in enumerate(sorted(times.choices(range(1_000), k=times.choice([0, 5, 40]))))
        ]
        for topic, partition in PLACES
    }
    found = read(log, seed + 1)
    assert len(found) == sum(len(records) for records in log.values())
    for number in (0, 1):
        mine = [record for record in found if record.partition == number]
        assert mine == sorted(mine, key=lambda one: (one.timestamp_ms, one.topic == BULK))


def test_what_was_told_in_two_topics_is_met_first_where_it_was_told_first():
    log = {place: [] for place in PLACES}
    log[EVENTS, 1], log[BULK, 1] = [kept(EVENTS, 1, 0, 10), kept(EVENTS, 1, 1, 30)], [kept(BULK, 1, 0, 20)]
    for seed in range(5):
        assert [record.timestamp_ms for record in read(log, seed)] == [10, 20, 30]
