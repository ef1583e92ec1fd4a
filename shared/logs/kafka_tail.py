"""The tail of the log: which events stand on Kafka and may not be stored yet. A replica without a group, in memory."""

from collections import deque

from shared.log import LogRecord

ENTRIES = 100_000
"""Events that are remembered one by one: some 40 MB. Of a longer backlog only the counts are known, from its offsets."""

Place = tuple[str, int]
"""(topic without prefix, partition)."""


class Tail:
    """The newest events, by partition and by name."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._most = entries
        self._order: deque[LogRecord] = deque()
        self._lanes: dict[tuple[str, str, int], deque[int]] = {}
        self._names: dict[tuple[str, str], list[LogRecord]] = {}
        self._waiting: dict[Place, int] = {}  # where the first event may stand that no tenant has stored
        self._forgotten: dict[Place, int] = {}

    def begin(self, place: Place, offset: int, waiting: int | None = None) -> None:
        """Begin to remember a partition at an offset.

        ``waiting``: the offset below which everything is stored; None: the same one. Of what stands between the two only the
        offsets are known, as of what is forgotten later.
        """
        self._waiting[place] = offset if waiting is None else waiting
        self._forgotten[place] = offset

    def add(self, record: LogRecord) -> None:
        """Remember an event."""
        place, offset = (record.position.topic, record.position.partition), record.position.number
        bare = record if len(record.body) == 0 else _without_body(record)
        self._order.append(bare)
        self._lanes.setdefault((record.tenant, *place), deque()).append(offset)
        self._names.setdefault((record.tenant, record.event_id), []).append(bare)
        while len(self._order) > self._most:
            self._forget(self._order.popleft())

    def find(self, tenant: str, event_id: str, source: str | None) -> list[LogRecord]:
        """Return the remembered events of an id, oldest first, one of each source, without their bodies.

        Of an event that was sent on to the partition of its key, the one there, for that is handled.
        """
        first: dict[str, LogRecord] = {}
        for record in self._names.get((tenant, event_id), ()):
            if source in (None, record.source):
                known = first.setdefault(record.source, record)
                if record.moved_from == known.position:
                    first[record.source] = record
        return list(first.values())

    def pending(self, tenant: str, stored: dict[Place, int]) -> dict[Place, int]:
        """Count a tenant's events above the given numbers.

        Of those that are not remembered only the offsets are known, so all of them are taken for this tenant's, but for
        what another tenant's stored events stand behind.
        """
        lags = dict.fromkeys(stored, 0)
        for place, first in self._waiting.items():
            number = stored.get(place, -1)
            waiting = sum(1 for offset in self._lanes.get((tenant, *place), ()) if offset > number)
            waiting += max(self._forgotten[place] - max(number + 1, first), 0)
            if waiting or place in stored:
                lags[place] = waiting
        return lags

    def through(self, tenant: str, stored: dict[Place, int]) -> None:
        """Forget a tenant's offsets that are stored: they are not counted again, and the store knows their events.

        A partition is worked in order, so what stands before them does not wait either, whosever it is (but for a window's
        few).
        """
        for place, number in stored.items():
            if place in self._waiting:
                self._waiting[place] = max(self._waiting[place], number + 1)
        for (owner, topic, partition), offsets in list(self._lanes.items()):
            if owner != tenant:
                continue
            number = stored.get((topic, partition), -1)
            while offsets and offsets[0] <= number:
                offsets.popleft()
            if not offsets:
                del self._lanes[owner, topic, partition]

    def _forget(self, record: LogRecord) -> None:
        place = (record.position.topic, record.position.partition)
        self._forgotten[place] = record.position.number + 1
        offsets = self._lanes.get((record.tenant, *place))
        if offsets and offsets[0] <= record.position.number:
            offsets.popleft()
        if offsets is not None and not offsets:
            del self._lanes[record.tenant, *place]
        named = self._names.get((record.tenant, record.event_id), [])
        if record in named:
            named.remove(record)
        if not named:
            self._names.pop((record.tenant, record.event_id), None)


def _without_body(record: LogRecord) -> LogRecord:
    return LogRecord(
        record.position,
        record.recorded_at,
        record.tenant,
        record.source,
        record.event_id,
        record.key,
        b"",
        record.revision,
        record.moved_from,
    )
