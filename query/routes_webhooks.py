"""Incoming webhooks: a signed message orders that what is known is indexed anew."""

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from query.endpoint import JSON_TYPE, Body, Call, Endpoint, Reply
from query.inputs import parse_json, read_body, validate
from query.routes_jobs import ReindexRequest, Taken, taken
from query.webhooks import BODY_BYTES
from schemas.base import Strict
from schemas.times import Moment


class ReindexEvent(Strict):
    """The same in the envelope that Standard Webhooks recommends."""

    type: Literal["reindex.requested"]
    timestamp: Annotated[Moment | None, Field(description="when it happened there; the signature's own counts")] = None
    data: ReindexRequest


async def reindex_webhook(call: Call) -> Response:
    """Order a reindex by a message signed as Standard Webhooks says, with a secret that this service knows.

    Checked in this order: size, signature and timestamp (five minutes), the tenant's rate, content. The same `webhook-id`
    again changes nothing; an order equal to one whose job has not begun joins that job.
    """
    webhooks = call.state["webhooks"]
    webhooks.check_configured()
    body = await read_body(call.request, BODY_BYTES)
    signed = webhooks.verify(body, call.request.headers)
    webhooks.count(signed.tenant)
    request = _read(parse_json(body))
    placed = await call.state["orders"].place(
        signed.tenant, request.order, by="webhook", reason=request.reason, command_id=signed.command_id
    )
    return taken(placed)


def _read(value: Any) -> ReindexRequest:
    if isinstance(value, dict) and "data" in value:
        return validate(ReindexEvent, value).data
    return validate(ReindexRequest, value)


WEBHOOKS = (
    Endpoint(
        "POST", "/v1/webhooks/reindex", reindex_webhook, "Order a reindex by a signed message",
        (
            Reply(202, "kept: the address says how far the job is", {JSON_TYPE: Taken}),
            Reply(200, "the same message had come before, and nothing changes", {JSON_TYPE: Taken}),
        ),
        None, body=Body({JSON_TYPE: ReindexRequest | ReindexEvent}, BODY_BYTES),
        problems=(400, 401, 404, 408, 413, 415, 429, 503, 507), tag="jobs", signed=True,
    ),
)  # fmt: skip
