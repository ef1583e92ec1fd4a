"""Events: the door for producers, and what became of what they sent."""

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Body, Call, Endpoint, Reply, json_response
from query.event_states import gather, status_of
from query.gateway import check_batch
from query.inputs import media_type, parse_json, read_body
from query.routes_context import TenantOnly
from schemas import limits
from schemas.events import Event
from schemas.positions import Position
from schemas.problems import FieldFault
from schemas.status import AcceptedBatch, DryRun, EventStatus
from shared.binary_mode import event_of_http, is_binary
from shared.errors import Fault, InvalidInput, InvalidToken, UnknownThing
from shared.letters import LetterFilter
from shared.log import BULK, LogRecord
from shared.log import EVENTS as EVENTS_TOPIC
from shared.retrying import RetryBoard

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


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
    token: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="the event's: finds it at once, where the log needs a moment to know it by its id"
    )


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
    traceparent = call.request.headers.get("traceparent")
    gateway = call.state["gateway"]
    return json_response(await gateway.accept(checked.events, topic, traceparent=traceparent, sizes=checked.sizes), 202)


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
    """Say where an accepted event is: on its way, stored and what has become of it since, or failed, and why."""
    record = await find_record(call)
    async with call.parts.reader.snapshot(record.tenant) as snapshot:
        parts = call.parts
        evidence = await gather(record, snapshot, parts.log, retry_board(call), parts.clock.now())
    return json_response(status_of(evidence))


async def find_record(call: Call) -> LogRecord:
    """Return the accepted event that a path and a source name. Raises UnknownThing, InvalidInput (which source?)."""
    event_id: str = call.request.path_params["id"]
    source: str | None = call.parameters.source
    records = await call.parts.log.find(call.who.tenant, event_id, source) or await _by_token(call, event_id)
    if not records:
        raise UnknownThing(await _why_unknown(call, event_id, source))
    if len({record.source for record in records}) > 1:
        raise InvalidInput(faults=(Fault("source", "several sources use this id: say which"),))
    return records[0]


async def _by_token(call: Call, event_id: str) -> list[LogRecord]:
    """Return the event at a token's position, if it is the one that is asked for. Raises InvalidToken."""
    token: str | None = call.parameters.token
    if token is None:
        return []
    try:
        position = Position.from_token(token)
    except ValueError as error:
        raise InvalidToken(f"token: {error}") from error
    row = await call.parts.log.at(position) if position.log == call.parts.log.log_id else None
    return [row] if row is not None and (row.tenant, row.event_id) == (call.who.tenant, event_id) else []


def retry_board(call: Call) -> RetryBoard | None:
    """Return where the stages note what they try again, if there is a cache."""
    return None if call.parts.cache is None else RetryBoard(call.parts.cache, call.parts.log.log_id)


async def _why_unknown(call: Call, event_id: str, source: str | None) -> str:
    """A record that came over Kafka and could not even be read was never accepted; its dead letter says why."""
    for letter in await call.parts.log.dead_letters(LetterFilter(tenant=call.who.tenant, event_id=event_id)):
        if source in (None, letter.event_source):
            return f"the event was never accepted: {letter.cause} at stage {letter.stage} (dead letter {letter.id})"
    return "no event of this id was accepted (yet)"


EVENTS = (
    Endpoint(
        "POST", "/v1/events", publish, "Publish one event or a batch; all are kept, or none",
        (
            Reply(202, "kept: on disk or on a quorum, each with the token of its place", {JSON_TYPE: AcceptedBatch}),
            Reply(200, "with validate=true: what is wrong; nothing was kept", {JSON_TYPE: DryRun}),
        ),
        Right.PUBLISH, PublishParameters,
        Body({EVENT_TYPE: Event, BATCH_TYPE: list[Event], JSON_TYPE: Event | list[Event]}, limits.BATCH_BYTES),
        (400, 408, 413, 415, 429, 503, 507), "events",
    ),
    Endpoint(
        "GET", "/v1/events/{id:path}", status, "What became of an event: its state, with stage and time",
        (Reply(200, "where the event is", {JSON_TYPE: EventStatus}),),
        Right.PUBLISH, StatusParameters, None, (400, 404, 503), "events",
    ),
)  # fmt: skip
