"""The door for events: check everything, then keep everything or nothing, then answer with tokens (invariant 3)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
from pydantic import ValidationError

from query.access import Caller
from query.inputs import faults_of, nesting_fault
from query.metrics import Metrics
from schemas import limits
from schemas.answers import KnownUnit
from schemas.events import (
    SCHEMA_MAJOR,
    Event,
    EventType,
    UnitAsserted,
    UnitRetracted,
    UnitRetraction,
    extension_fault,
    parse_event,
    schema_major,
)
from schemas.status import Accepted, AcceptedBatch
from shared.errors import Fault, InvalidInput, LogUnavailable, TooLarge
from shared.log import EVENTS, EventLog

APPEND_DEADLINE_S = 10.0  # a commit takes milliseconds; a disk that needs longer is not there
SOURCE = "urn:cortex:http"  # the source of events that this door states itself


@dataclass(frozen=True)
class Checked:
    """Events that may be kept, and the faults of the others."""

    events: tuple[Event, ...]
    faults: tuple[Fault, ...]


class Gateway:
    """Takes events into the log."""

    def __init__(self, log: EventLog, metrics: Metrics, deadline_s: float = APPEND_DEADLINE_S) -> None:
        self._log = log
        self._metrics = metrics
        self._deadline_s = deadline_s

    async def accept(self, events: Sequence[Event], topic: str = EVENTS) -> AcceptedBatch:
        """Keep events, all or none. Raises LogUnavailable or DiskFull; then the same batch can be sent again."""
        try:
            with anyio.fail_after(self._deadline_s), self._metrics.append_seconds.time():
                places = await self._log.append(events, topic=topic)
        except TimeoutError as error:
            raise LogUnavailable(f"the log took longer than {self._deadline_s:g} s; send the same again") from error
        accepted = tuple(
            Accepted(
                id=event.id,
                source=event.source,
                token=place.position.token(),
                unit_id=event.data.id if isinstance(event, UnitAsserted | UnitRetracted) else None,
                duplicate=place.duplicate,
            )
            for event, place in zip(events, places, strict=True)
        )
        duplicates = sum(place.duplicate for place in places)
        self._metrics.appended(topic, fresh=len(places) - duplicates, duplicates=duplicates)
        last = max(places, key=lambda place: place.position.number)
        return AcceptedBatch(accepted=accepted, token=last.position.token())


def check_batch(items: Sequence[Any], caller: Caller, *, single: bool) -> Checked:
    """Check every event of a batch. Raises TooLarge for too many, Forbidden for what the caller may not publish.

    Pointers of faults lead into the body: ``/3/data/text`` in a batch, ``/data/text`` in a single event.
    """
    if not items:
        raise InvalidInput(faults=(Fault("", "the batch is empty", limit="at least 1 event"),))
    if len(items) > limits.BATCH_EVENTS:
        raise TooLarge(
            f"the batch has {len(items)} events, at most {limits.BATCH_EVENTS} are taken", limit=limits.BATCH_EVENTS
        )
    events: list[Event] = []
    faults: list[Fault] = []
    for index, item in enumerate(items):
        pointer = "" if single else f"/{index}"
        try:
            event = check_event(item, pointer)
        except InvalidInput as error:
            faults.extend(error.faults)
            continue
        caller.may_publish(event, pointer)
        events.append(event)
    return Checked(events=tuple(events), faults=tuple(faults))


def check_event(value: Any, pointer: str = "") -> Event:
    """Read one event as strictly as the door asks. Raises InvalidInput with faults below ``pointer``."""
    if not isinstance(value, dict):
        raise InvalidInput(faults=(Fault(pointer, "an event is a JSON object"),))
    if (major := schema_major(value)) != SCHEMA_MAJOR:
        fault = Fault(f"{pointer}/schemaversion", f"version {major} is not known to this release", limit="1.x")
        raise InvalidInput(faults=(fault,))
    if faults := (*_extension_faults(value, pointer), *_size_faults(value, pointer)):
        raise InvalidInput(faults=faults)
    try:
        return parse_event(value)
    except ValidationError as error:
        raise InvalidInput(faults=faults_of(error, value, pointer)) from error
    except RecursionError as error:
        raise InvalidInput(faults=(nesting_fault(pointer),)) from error


def _size_faults(value: dict[str, Any], pointer: str) -> tuple[Fault, ...]:
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # it was read from JSON, so only its depth can be at fault
        return (nesting_fault(pointer),)
    if size <= limits.EVENT_BYTES:
        return ()
    words = f"the event has {size} bytes; send a longer text as a document of several parts"
    return (Fault(pointer, words, limit=f"at most {limits.EVENT_BYTES} bytes"),)


def _extension_faults(value: dict[str, Any], pointer: str) -> tuple[Fault, ...]:
    faults = []
    for name, extension in value.items():
        found = extension_fault(name, extension)
        if found is not None:
            place = name.replace("~", "~0").replace("/", "~1")
            faults.append(Fault(f"{pointer}/{place}", found[0], limit=found[1]))
    return tuple(faults)


def retraction_of(known: KnownUnit, tenant: str) -> Event:
    """State that a unit is withdrawn at its present revision, where a retraction wins.

    The id is a function of unit and revision, so that asking twice gives the same event and the same token.
    """
    unit_id, revision = known.unit.id, known.state.revision
    digest = hashlib.sha256(unit_id.encode()).hexdigest()[:32]
    return UnitRetracted(
        id=f"retract-{digest}-{revision}",
        source=SOURCE,
        tenant=tenant,
        type=EventType.UNIT_RETRACTED,
        data=UnitRetraction(id=unit_id, revision=revision, reason="withdrawn over HTTP"),
    )
