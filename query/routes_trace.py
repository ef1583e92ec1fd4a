"""Traces: what became of an event, step by step."""

import orjson
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.routes_events import StatusParameters, letter_of, why_unknown
from query.trace import Onlooker, Progress, Way, trace
from schemas.events import parse_event
from schemas.explanations import Trace
from shared.errors import Fault, InvalidInput, UnknownThing
from shared.store import CONTRADICTIONS


async def trace_event(call: Call) -> Response:
    """Follow an event: journal, stages, dead letter, what it left in the store, and who may read that."""
    event_id: str = call.request.path_params["id"]
    source: str | None = call.parameters.source
    records = await call.parts.log.find(call.who.tenant, event_id, source)
    if not records:
        raise UnknownThing(await why_unknown(call, event_id, source))
    if len({record.source for record in records}) > 1:
        raise InvalidInput(faults=(Fault("source", "several sources use this id: say which"),))
    record = records[0]
    place = (record.position.topic, record.position.partition)
    onlooker = Onlooker(call.who.principal, Right.ADMIN in call.who.rights)
    async with call.parts.reader.snapshot(record.tenant) as snapshot:
        stored = await snapshot.watermarks()
        checked = await snapshot.watermarks(CONTRADICTIONS)
        lags = await call.parts.log.pending(record.tenant, stored)
        letter = await letter_of(call, record)
        progress = Progress.read(place, stored, checked, lags)
        way = Way(record, parse_event(orjson.loads(record.body)), letter, progress)
        found = await trace(way, snapshot, onlooker, call.parts.clock.now())
    return json_response(found)


TRACE = (
    Endpoint(
        "GET", "/v1/trace/{id:path}", trace_event, "An event's way: journal, stages, dead letter, store, rights",
        (Reply(200, "the steps of its way", {JSON_TYPE: Trace}),),
        Right.PUBLISH, StatusParameters, None, (400, 404, 503), "events", Right.ADMIN,
    ),
)  # fmt: skip
