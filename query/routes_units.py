"""Units by id: what is known about one, and its withdrawal."""

from typing import Annotated

import structlog
from pydantic import Field
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.gateway import retraction_of
from query.routes_context import TenantOnly
from query.visible import visible_unit
from schemas.answers import KnownUnit
from schemas.status import AcceptedBatch
from schemas.units import Identifier
from shared.errors import Fault, InvalidInput, UnknownThing

_log = structlog.get_logger("cortex.query")


class UnitParameters(TenantOnly):
    """Who looks, and how far back."""

    principal: Identifier | None = None
    history: Annotated[bool, Field(description="with the older revisions that are kept, newest first")] = False


class RetractParameters(TenantOnly):
    """Who withdraws."""

    principal: Identifier | None = None


async def get_unit(call: Call) -> Response:
    """Give one unit; in a scope that may not be read it is unknown, like one that does not exist."""
    return json_response(await _known(call, history=call.parameters.history))


async def retract_unit(call: Call) -> Response:
    """Withdraw a unit at its present revision; the answer's token tells when it is gone from searches."""
    known = await _known(call, history=False)
    if known.unit.document_id is not None:
        words = f"the unit is part {known.unit.part} of a document: withdraw that with document.completed and parts 0"
        raise InvalidInput(faults=(Fault("id", words),))
    event = retraction_of(known, call.who.tenant)
    return json_response(await call.state["gateway"].accept([event]), 202)


async def _known(call: Call, *, history: bool) -> KnownUnit:
    unit_id: str = call.request.path_params["id"]
    principal = call.who.asks_as(call.parameters.principal)
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        known = await visible_unit(snapshot, unit_id, principal, history=history)
    if known is None:
        _log.warning("access.unknown", request_id=call.request_id, what="unit", principal=principal)
        raise UnknownThing("there is no such unit, or you may not see it")
    return known


UNITS = (
    Endpoint(
        "GET", "/v1/units/{id:path}", get_unit, "What is known about a unit",
        (Reply(200, "the unit and its state", {JSON_TYPE: KnownUnit}),),
        Right.ASK, UnitParameters, None, (400, 404, 503), "units",
    ),
    Endpoint(
        "DELETE", "/v1/units/{id:path}", retract_unit, "Withdraw a unit",
        (Reply(202, "the retraction is kept; the unit goes once its token is stored", {JSON_TYPE: AcceptedBatch}),),
        Right.PUBLISH, RetractParameters, None, (400, 404, 429, 503, 507), "units",
    ),
)  # fmt: skip
