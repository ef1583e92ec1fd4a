"""The order of a whole log on Kafka: that of the brokers' times, among the partitions that hold one key's events."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from shared.kafka_reading import Kept, Place


class TimeOrder:
    """Brings the records of several topics into one order, for each partition number by itself.

    A key has one partition number in every topic. What was told twice, in two topics, counts as what it was first: so the
    first must be met first, however fast each topic is read. ``places``: in the order that decides within a millisecond.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._held: dict[Place, deque[Kept]] = {place: deque() for place in places}
        self._numbers = sorted({partition for _, partition in places})

    def hungry(self, left: Collection[Place]) -> list[Place]:
        """Return the places, of those that have more, whose next record must be known to go on: some, while any is left."""
        return [place for place, held in self._held.items() if place in left and not held]

    def take(self, records: Iterable[Kept]) -> None:
        """Hold records; those of one place come in its order."""
        for record in records:
            self._held[record.topic, record.partition].append(record)

    def due(self, left: Collection[Place]) -> list[Kept]:
        """Return, in order, what no record of the places that have more can come before."""
        return [record for number in self._numbers for record in self._due(number, left)]

    def _due(self, number: int, left: Collection[Place]) -> Iterable[Kept]:
        group = {place: held for place, held in self._held.items() if place[1] == number}
        while not any(place in left and not held for place, held in group.items()):
            heads = [held for held in group.values() if held]
            if not heads:
                return
            yield min(heads, key=lambda held: held[0].timestamp_ms).popleft()
