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
from shared.log import EventLog
from shared.store import KnowledgeReader, Snapshot

PAGE: Final = 500
CHECKING: Final = "contradictions"
"""The stage after the store: an event that it buried has its effect, but was compared with nothing."""


@dataclass(frozen=True)
class Buried:
    """Events by their position. ``without_effect``: nothing of them is in the store; ``unchecked``: stored, and compared
    with nothing.
    """

    without_effect: Mapping[Position, DeadLetter] = field(default_factory=dict)
    unchecked: frozenset[Position] = frozenset()


async def buried_in(log: EventLog, reader: KnowledgeReader, tenant: str) -> Buried:
    """Return what was buried in the life of a store: by its dead letters, and what the store says of their events.

    A letter that was replayed with success does not count. One that the log has let go of is not known any more.
    """
    without_effect: dict[Position, DeadLetter] = {}
    unchecked: set[Position] = set()
    async with reader.snapshot(tenant) as snapshot:
        async for letter in _letters(log, LetterFilter(tenant=tenant)):
            position = _position(log, letter)
            if letter.stage == CHECKING:
                if letter.state is not LetterState.REPLAYED:
                    unchecked.add(position)
            elif await _has_no_effect(snapshot, letter):
                without_effect[position] = letter
    return Buried(without_effect, frozenset(unchecked))


async def discarded_in(log: EventLog, tenant: str | None) -> Buried:
    """Return what somebody has discarded, of one tenant or of all: what is made anew for good does without it, and takes
    all else.
    """
    discarded = LetterFilter(tenant=tenant, state=LetterState.DISCARDED)
    found = {_position(log, letter): letter async for letter in _letters(log, discarded) if letter.stage != CHECKING}
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


def _position(log: EventLog, letter: DeadLetter) -> Position:
    return Position(log=log.log_id, topic=letter.topic, partition=letter.partition, number=letter.offset)
