"""Sending what is kept through the stages again: dead letters, and events of the log.

A replayed event keeps its revision: whatever was said later stays above it (invariant 2). Locally it keeps its place: the
journal's goes to where it stands, stamped anew. On Kafka it is appended to ``cortex.bulk``, and headers say where it stood
first and what it counts as. A record that never had a place, for nobody could read it or the log refused it, goes to the
topic it came from and is read as if it were new. The header `REPLAYS` says which letter a record is, so that a second
failure opens that one again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ingest.intake import JournalIntake
from ingest.letters import REPLAYS
from schemas.commands import Command
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.clock import Clock
from shared.kafka import Outgoing, Publisher
from shared.log import BULK, EVENTS, EventLog, LogRecord
from shared.logs.kafka_records import MOVED_FROM, ORIGIN, ORIGIN_REVISION, origin_headers
from shared.partitioner import partition_of

OURS: Final = frozenset({ORIGIN, ORIGIN_REVISION, MOVED_FROM, REPLAYS})


@dataclass(frozen=True)
class Means:
    """What replaying works with. ``intake``: the journal's, None on a durable Kafka; ``prefix``: of the topics' names."""

    log: EventLog
    publisher: Publisher
    clock: Clock
    intake: JournalIntake | None = None
    prefix: str = ""


class Outcome(StrEnum):
    """What came of replaying a letter: ``already`` and ``unknown`` changed nothing."""

    REPLAYED = "replayed"
    ALREADY = "already"
    UNKNOWN = "unknown"


async def replay_letter(letter_id: str, command: Command, means: Means) -> Outcome:
    """Send a letter's event through again, once a command; mark the letter with who asked for it and when.

    The mark is made first: a failure after it opens the letter again, and nothing can mark that failure as mended. When
    the same command is done again because a process died in it, the event is sent again, which changes nothing. A letter
    of another tenant is unknown. Raises LogUnavailable: then the same command can be done again.
    """
    letter = await means.log.dead_letter(letter_id)
    if letter is None or letter.tenant not in (None, command.tenant):
        return Outcome.UNKNOWN
    mark = LetterMark(state=LetterState.REPLAYED, by=command.requested_by, at=means.clock.now(), job=command.id)
    is_first = await means.log.mark_letter(letter_id, mark)
    if not is_first and not (letter.state is LetterState.REPLAYED and letter.job == command.id):
        return Outcome.ALREADY
    await _send(letter, means)
    return Outcome.REPLAYED


async def replay_record(row: LogRecord, means: Means) -> None:
    """Send a kept event through the stages again. Raises LogUnavailable."""
    place = row.position
    if means.intake is not None:
        await means.publisher.publish(place.topic, place.partition, [means.intake.stamp(row)])
        return
    await _append(Outgoing(row.key.encode(), row.body, origin_headers(place, row.revision)), place.partition, means)


async def _send(letter: DeadLetter, means: Means) -> None:
    is_event = letter.topic.removeprefix(means.prefix) in {EVENTS, BULK}
    place = Position(log=means.log.log_id, topic=letter.topic, partition=letter.partition, number=letter.offset)
    named = (REPLAYS, letter.id.encode())
    if is_event and means.intake is None:
        headers = (*_theirs(letter.headers), *origin_headers(place, letter.revision), named)
        await _append(Outgoing(letter.key, letter.body, headers), letter.partition, means)
        return
    row = await means.log.at(place) if is_event else None
    if row is not None and (row.tenant, row.event_id) == (letter.tenant, letter.event_id):
        await replay_record(row, means)
        return
    sent = Outgoing(letter.key, letter.body, (*_theirs(letter.headers), named))
    await means.publisher.publish(letter.topic.removeprefix(means.prefix), letter.partition, [sent])


async def _append(sent: Outgoing, partition: int, means: Means) -> None:
    """Append to bulk: live events do not wait for what is replayed."""
    number = partition if sent.key is None else partition_of(sent.key, means.log.partitions)
    await means.publisher.publish(BULK, number, [sent])


def _theirs(headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value) for name, value in headers if name not in OURS)
