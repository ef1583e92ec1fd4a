"""Which events had no effect in the life of a store, so that a rebuild that is compared with it treats them alike.

An event that was buried may succeed later: a cause that has gone (an embedder that was down) buries nobody twice. Its
effect would then be a difference that is none of the store's fault; so it is left out, and counted as mended.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from schemas.messages import ReceiptOutcome
from schemas.positions import Position
from schemas.status import DeadLetter, LetterState
from shared.errors import LogUnavailable
from shared.letters import LetterFilter
from shared.log import EventLog, LogRecord
from shared.store import KnowledgeReader, Snapshot

PAGE: Final = 500
CHECKING: Final = "contradictions"
"""The stage after the store: an event that it buried has its effect, but was compared with nothing."""


Key = tuple[Position, str | None, str | None]
"""An event: where it stands, its source and its id. The letter of a record that was refused before it had a place names
the broker's offset, which is the journal's number of another event; so the place alone tells nothing.
"""


@dataclass(frozen=True)
class Buried:
    """``without_effect``: events of which nothing is in the store; ``unchecked``: stored, and compared with nothing."""

    without_effect: Mapping[Key, DeadLetter] = field(default_factory=dict)
    unchecked: frozenset[Key] = frozenset()

    def letter_of(self, record: LogRecord) -> DeadLetter | None:
        """Return the letter for which a kept event has no effect."""
        return self.without_effect.get((record.position, record.source, record.event_id))


async def buried_in(log: EventLog, reader: KnowledgeReader, tenant: str) -> Buried:
    """Return what was buried in the life of a store: by its dead letters, and what the store says of their events.

    A letter that was replayed with success does not count. One that the log has let go of is not known any more.
    """
    without_effect: dict[Key, DeadLetter] = {}
    unchecked: set[Key] = set()
    async with reader.snapshot(tenant) as snapshot:
        async for letter in _letters(log, LetterFilter(tenant=tenant)):
            key = _key(log, letter)
            if letter.stage == CHECKING:
                if letter.state is not LetterState.REPLAYED:
                    unchecked.add(key)
            elif await _has_no_effect(snapshot, letter):
                without_effect[key] = letter
    return Buried(without_effect, frozenset(unchecked))


async def discarded_in(log: EventLog, tenant: str | None) -> Buried:
    """Return what somebody has discarded, of one tenant or of all: what is made anew for good does without it, and takes
    all else.
    """
    discarded = LetterFilter(tenant=tenant, state=LetterState.DISCARDED)
    found = {_key(log, letter): letter async for letter in _letters(log, discarded) if letter.stage != CHECKING}
    return Buried(found)


async def _letters(log: EventLog, which: LetterFilter) -> AsyncIterator[DeadLetter]:
    after: str | None = None
    while page := await log.dead_letters(which, limit=PAGE, after=after):
        for letter in page:
            if letter.event_id is not None and letter.event_source is not None:
                yield letter
        if page[-1].id == after:
            raise LogUnavailable("The log's dead letters cannot be listed to their end.")
        after = page[-1].id


async def _has_no_effect(snapshot: Snapshot, letter: DeadLetter) -> bool:
    assert letter.event_id is not None  # others are left out
    known = await snapshot.events(letter.event_id, letter.event_source)
    return all(event.outcome is ReceiptOutcome.DEAD for event in known)


def _key(log: EventLog, letter: DeadLetter) -> Key:
    place = Position(log=log.log_id, topic=letter.topic, partition=letter.partition, number=letter.offset)
    return place, letter.event_source, letter.event_id
