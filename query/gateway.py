"""The door for events: check everything, then keep everything or nothing, then answer with tokens (invariant 3).

Before anything is kept: is there room (query/backlog.py), and has the tenant a share left (query/quotas.py)? Where not, the
answer is 503 or 429 with the seconds after which the same is welcome.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
from pydantic import ValidationError

from query.access import Caller
from query.backlog import Backlog
from query.metrics import Metrics
from query.quotas import Amount, Quotas
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
from shared.errors import Fault, InvalidInput, LogUnavailable, Overloaded, RateLimited, TooLarge
from shared.faults import faults_of, nesting_fault
from shared.log import EVENTS, Appended, EventLog
from shared.tracing import parent_of

APPEND_DEADLINE_S = 10.0  # a commit takes milliseconds; a disk that needs longer is not there
SOURCE = "urn:cortex:http"  # the source of events that this door states itself


@dataclass(frozen=True)
class Checked:
    """Events that may be kept, each with its bytes as it came, and the faults of the others."""

    events: tuple[Event, ...]
    faults: tuple[Fault, ...]
    sizes: tuple[int, ...] = ()


class Gateway:
    """Takes events into the log. Without ``quotas`` and ``backlog`` there is no limit: tests."""

    def __init__(
        self,
        log: EventLog,
        metrics: Metrics,
        *,
        quotas: Quotas | None = None,
        backlog: Backlog | None = None,
        deadline_s: float = APPEND_DEADLINE_S,
    ) -> None:
        self._log = log
        self._metrics = metrics
        self._quotas = quotas
        self._backlog = backlog
        self._deadline_s = deadline_s

    async def accept(
        self,
        events: Sequence[Event],
        topic: str = EVENTS,
        *,
        traceparent: str | None = None,
        sizes: Sequence[int] | None = None,
    ) -> AcceptedBatch:
        """Keep events, all or none.

        ``traceparent``: of the request, for events that carry none of their own. ``sizes``: bytes of each, where known.

        A tenant with many live events waiting finds its next ones in bulk. Raises RateLimited, Overloaded, LogUnavailable
        or DiskFull; then the same batch can be sent again.
        """
        events = _with_parent(events, traceparent)
        topic = self._admit(events, topic, sizes)
        places = await self._keep(events, topic)
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
        self._count(events, places, topic)
        last = max(places, key=lambda place: place.position.number)
        return AcceptedBatch(accepted=accepted, token=last.position.token())

    def _admit(self, events: Sequence[Event], asked: str, sizes: Sequence[int] | None) -> str:
        """Ask for room and for a share, in this order: what there is no room for uses up nobody's share."""
        topic = asked
        try:
            if self._backlog is not None:
                topic = self._backlog.topic_for({event.tenant for event in events}, asked)
                self._backlog.admit(topic, len(events))
            if self._quotas is not None and not self._quotas.unlimited:
                self._quotas.take(_amounts(events, sizes))
        except Overloaded as error:
            reason = "rate" if isinstance(error, RateLimited) else "backlog"
            self._metrics.refused(reason, len(events))
            raise
        if topic != asked:
            self._metrics.demoted(len(events))
        return topic

    async def _keep(self, events: Sequence[Event], topic: str) -> list[Appended]:
        try:
            with anyio.fail_after(self._deadline_s), self._metrics.append_seconds.time():
                return await self._log.append(events, topic=topic)
        except TimeoutError as error:
            raise LogUnavailable(f"the log took longer than {self._deadline_s:g} s; send the same again") from error

    def _count(self, events: Sequence[Event], places: Sequence[Appended], topic: str) -> None:
        duplicates = sum(place.duplicate for place in places)
        self._metrics.appended(topic, fresh=len(places) - duplicates, duplicates=duplicates)
        if self._backlog is not None:
            for event, place in zip(events, places, strict=True):
                if not place.duplicate:
                    self._backlog.took(event.tenant, place.position)


def _with_parent(events: Sequence[Event], traceparent: str | None) -> Sequence[Event]:
    """Give events without a parent that of the request, where it is one."""
    if parent_of(traceparent) is None:
        return events
    update = {"traceparent": traceparent}
    return [event if event.traceparent else event.model_copy(update=update) for event in events]


def _amounts(events: Sequence[Event], sizes: Sequence[int] | None) -> Mapping[str, Amount]:
    """Return what is asked of each tenant's share: its events and their bytes."""
    if sizes is None:
        sizes = [len(event.model_dump_json(exclude_none=True)) for event in events]
    asked: dict[str, Amount] = {}
    for event, size in zip(events, sizes, strict=True):
        before = asked.get(event.tenant, Amount(0, 0))
        asked[event.tenant] = Amount(before.events + 1, before.size + size)
    return asked


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
    sizes: list[int] = []
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
        sizes.append(len(orjson.dumps(item)))
    return Checked(events=tuple(events), faults=tuple(faults), sizes=tuple(sizes))


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
