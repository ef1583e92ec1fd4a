"""What happens, as it happens."""

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from query.access import Right
from query.endpoint import SSE_TYPE, Call, Endpoint, Reply
from query.feed_stream import FeedStream, Listening
from query.routes_context import TenantOnly
from schemas.feed import FeedEvent
from schemas.units import Identifier
from shared.errors import Fault, InvalidInput
from shared.news import ENTRY_ID


class FeedParameters(TenantOnly):
    """Who listens, and from where on."""

    principal: Identifier | None = None
    after: Annotated[str, Field(max_length=41)] | None = Field(
        default=None, description="an id of an earlier feed, where the header Last-Event-ID cannot be sent"
    )
    recent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description="begin with so much of what came last, where no id is given"
    )


async def feed(call: Call) -> Response:
    """Stream what was stored, changed, retracted and contradicted in the scopes that the caller may read.

    `Last-Event-ID` resumes after a piece of news. Whatever was missed is said: `missed`, with the count where it is known.
    """
    after = call.request.headers.get("last-event-id") or call.parameters.after
    if after is not None and not ENTRY_ID.match(after):
        raise InvalidInput(faults=(Fault("Last-Event-ID", "not an id of this feed", limit="two numbers with a '-'"),))
    listening = Listening(
        tenant=call.who.tenant,
        principal=call.who.asks_as(call.parameters.principal),
        after=after,
        recent=call.parameters.recent,
        request_id=call.request_id,
    )
    return FeedStream(call.state["feed"], listening)


FEED = (
    Endpoint(
        "GET", "/v1/feed", feed, "What is stored, changed, retracted and contradicted, as it happens",
        (Reply(200, "one message an event, until closing or error", {SSE_TYPE: FeedEvent}),),
        Right.ASK, FeedParameters, None, (400, 503), "feed",
    ),
)  # fmt: skip
