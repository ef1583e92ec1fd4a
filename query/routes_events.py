"""Events: the door for producers, and what became of what they sent."""

import base64
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Body, Call, Cursor, Endpoint, Reply, json_response
from query.gateway import check_batch
from query.inputs import media_type, parse_json, read_body
from query.routes_context import TenantOnly, TenantParameter
from schemas import limits
from schemas.base import Record, Strict
from schemas.events import Event
from schemas.problems import FieldFault
from schemas.status import AcceptedBatch, DeadLetter, DryRun, EventStatus
from shared.binary_mode import event_of_http, is_binary
from shared.errors import Fault, InvalidInput, UnknownThing
from shared.log import BULK, LogRecord
from shared.log import EVENTS as EVENTS_TOPIC

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"
LETTERS_MAX = 50  # with bodies of 256 kB each, a page stays under 20 MB


class PublishParameters(TenantOnly):
    """How events are to be taken."""

    validate_only: Annotated[bool, Field(alias="validate", description="check, and keep nothing")] = False
    topic: Literal["events", "bulk"] = Field(
        default="events", description="bulk: for feeds and imports, which give way to what people write"
    )


class StatusParameters(TenantOnly):
    """Which event is meant."""

    source: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="needed where several sources use the same id"
    )


class LetterParameters(Strict):
    """Which page of dead letters."""

    tenant: TenantParameter = None
    event_id: Annotated[str, Field(max_length=limits.ID_CHARS)] | None = None
    limit: Annotated[int, Field(ge=1, le=LETTERS_MAX)] = 20
    after: Cursor | None = None
    bodies: Annotated[bool, Field(description="with the original bytes, in base64")] = False


class Letter(Record):
    """A dead letter as JSON: bytes in base64."""

    id: str
    stage: str
    cause: str
    detail: str
    attempts: int
    topic: str
    partition: int
    offset: int
    tenant: str | None
    event_id: str | None
    event_source: str | None
    failed_at: Any
    body_bytes: int
    body: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Letters(Record):
    """A page of dead letters, newest first."""

    letters: tuple[Letter, ...]
    next: str | None = None


async def publish(call: Call) -> Response:
    """Take one event or a batch: everything is kept before the answer, or nothing.

    In binary content mode one event's attributes stand in headers ``ce-<name>``, percent-encoded, and its data in the body.
    """
    items, single = await _events_of_body(call.request)
    checked = check_batch(items, call.who, single=single)
    parameters: PublishParameters = call.parameters
    if parameters.validate_only:
        faults = tuple(FieldFault(field=f.field, message=f.message, limit=f.limit) for f in checked.faults)
        return json_response(DryRun(valid=len(checked.events), faults=faults))
    if checked.faults:
        raise InvalidInput(faults=checked.faults)
    topic = BULK if parameters.topic == "bulk" else EVENTS_TOPIC
    return json_response(await call.state["gateway"].accept(checked.events, topic), 202)


async def _events_of_body(request: Request) -> tuple[list[Any], bool]:
    kind = media_type(request)
    if is_binary(request.headers.keys(), kind):
        body = await read_body(request, limits.EVENT_BYTES)
        return [event_of_http(request.headers.raw, request.headers.get("content-type"), body)], True
    if kind not in {EVENT_TYPE, BATCH_TYPE, JSON_TYPE}:
        raise HTTPException(415, f"events are sent as {EVENT_TYPE}, {BATCH_TYPE} or {JSON_TYPE}")
    limit = limits.EVENT_BYTES if kind == EVENT_TYPE else limits.BATCH_BYTES
    value = parse_json(await read_body(request, limit))
    if isinstance(value, list) and kind != EVENT_TYPE:
        return value, False
    if isinstance(value, dict) and kind != BATCH_TYPE:
        return [value], True
    expected = "an array of events" if kind == BATCH_TYPE else "one event as a JSON object"
    raise InvalidInput(faults=(Fault("", f"{kind} carries {expected}"),))


async def status(call: Call) -> Response:
    """Say whether an accepted event is pending, stored (searchable) or failed, and why."""
    event_id: str = call.request.path_params["id"]
    source: str | None = call.parameters.source
    records = await call.parts.log.find(call.who.tenant, event_id, source)
    if not records:
        raise UnknownThing(await why_unknown(call, event_id, source))
    if len({record.source for record in records}) > 1:
        raise InvalidInput(faults=(Fault("source", "several sources use this id: say which"),))
    return json_response(await status_of(call, records[0]))


async def why_unknown(call: Call, event_id: str, source: str | None) -> str:
    """A record that came over Kafka and could not even be read was never accepted; its dead letter says why."""
    for letter in await call.parts.log.dead_letters(tenant=call.who.tenant, event_id=event_id):
        if source in (None, letter.event_source):
            return f"the event was never accepted: {letter.cause} at stage {letter.stage} (dead letter {letter.id})"
    return "no event of this id was accepted (yet)"


async def status_of(call: Call, record: LogRecord) -> EventStatus:
    """Read the watermark before the dead letters: a letter is written first, so no failure can pass for stored."""
    place = record.position
    async with call.parts.reader.snapshot(record.tenant) as snapshot:
        marks = await snapshot.watermarks()
    stored = marks.get((place.topic, place.partition), -1) >= place.number
    letter = await letter_of(call, record)
    return EventStatus(
        id=record.event_id,
        source=record.source,
        tenant=record.tenant,
        state="failed" if letter else "stored" if stored else "pending",
        accepted_at=record.recorded_at,
        token=place.token(),
        stage=letter.stage if letter else None,
        cause=letter.cause if letter else None,
        attempts=letter.attempts if letter else None,
    )


async def letter_of(call: Call, record: LogRecord) -> DeadLetter | None:
    """Return the dead letter of a kept event, where it has one."""
    letters = await call.parts.log.dead_letters(tenant=record.tenant, event_id=record.event_id)
    return next((letter for letter in letters if letter.event_source == record.source), None)


async def dead_letters(call: Call) -> Response:
    """List what could not be processed; letters whose tenant is unknown are shown to the trusted caller alone."""
    parameters: LetterParameters = call.parameters
    everybody = call.who.trusted and not call.who.named_tenant
    letters = await call.parts.log.dead_letters(
        tenant=None if everybody else call.who.tenant,
        event_id=parameters.event_id,
        limit=parameters.limit,
        after=parameters.after,
    )
    shown = tuple(shown_letter(letter, bodies=parameters.bodies) for letter in letters)
    more = letters[-1].id if len(letters) == parameters.limit else None
    return json_response(Letters(letters=shown, next=more))


def shown_letter(letter: DeadLetter, *, bodies: bool = False) -> Letter:
    """Write a dead letter as JSON."""
    fields = {name: getattr(letter, name) for name in Letter.model_fields if hasattr(letter, name)}
    fields["body_bytes"] = len(letter.body)
    fields["body"] = base64.b64encode(letter.body).decode() if bodies else None
    fields["headers"] = tuple((name, base64.b64encode(value).decode()) for name, value in letter.headers)
    return Letter(**fields)


EVENTS = (
    Endpoint(
        "POST", "/v1/events", publish, "Publish one event or a batch; all are kept, or none",
        (
            Reply(202, "kept: on disk or on a quorum, each with the token of its place", {JSON_TYPE: AcceptedBatch}),
            Reply(200, "with validate=true: what is wrong; nothing was kept", {JSON_TYPE: DryRun}),
        ),
        Right.PUBLISH, PublishParameters,
        Body({EVENT_TYPE: Event, BATCH_TYPE: list[Event], JSON_TYPE: Event | list[Event]}, limits.BATCH_BYTES),
        (400, 408, 413, 415, 503, 507), "events",
    ),
    Endpoint(
        "GET", "/v1/events/{id:path}", status, "What became of an event: pending, stored, or failed with its cause",
        (Reply(200, "where the event is", {JSON_TYPE: EventStatus}),),
        Right.PUBLISH, StatusParameters, None, (400, 404, 503), "events",
    ),
    Endpoint(
        "GET", "/v1/dead-letters", dead_letters, "What could not be processed, newest first",
        (Reply(200, "a page of dead letters", {JSON_TYPE: Letters}),),
        Right.ADMIN, LetterParameters, None, (400, 503), "events",
    ),
)  # fmt: skip
