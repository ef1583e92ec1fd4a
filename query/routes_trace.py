"""Traces: what became of an event, step by step."""

import orjson
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.event_states import gather, status_of
from query.routes_events import StatusParameters, find_record, retry_board
from query.trace import Onlooker, Progress, Way, trace
from schemas.events import parse_event
from schemas.explanations import Trace
from shared.store import CONTRADICTIONS


async def trace_event(call: Call) -> Response:
    """Follow an event: log, stages, dead letter, what it left in the store, and who may read that."""
    record = await find_record(call)
    place = (record.position.topic, record.position.partition)
    onlooker = Onlooker(call.who.principal, Right.ADMIN in call.who.rights)
    async with call.parts.reader.snapshot(record.tenant) as snapshot:
        stored = await snapshot.watermarks()
        checked = await snapshot.watermarks(CONTRADICTIONS)
        lags = await call.parts.log.pending(record.tenant, stored)
        now = call.parts.clock.now()
        evidence = await gather(record, snapshot, call.parts.log, retry_board(call), now)
        progress = Progress.read(place, stored, checked, lags)
        event = parse_event(orjson.loads(record.body))
        way = Way(record, event, evidence.letter, progress, status_of(evidence).state)
        found = await trace(way, snapshot, onlooker, now)
    return json_response(found)


TRACE = (
    Endpoint(
        "GET", "/v1/trace/{id:path}", trace_event, "An event's way: log, stages, dead letter, store, rights",
        (Reply(200, "the steps of its way", {JSON_TYPE: Trace}),),
        Right.PUBLISH, StatusParameters, None, (400, 404, 503), "events", Right.ADMIN,
    ),
)  # fmt: skip
