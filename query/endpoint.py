"""One table row a route: from it come the route, its checks, and its entry in OpenAPI, so that they cannot differ."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict, cast

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from query.access import Access, Caller, Right
from query.feed_stream import FeedDesk
from query.gateway import Gateway
from query.inputs import query_parameters, read_parameters
from query.job_stream import JobStreams
from query.metrics import Metrics
from query.order_desk import OrderDesk
from query.parts import Parts
from query.stream import Desk
from query.webhooks import Webhooks
from schemas import limits
from schemas.base import Strict

PAGE_DEFAULT = 50
PAGE_MAX = 200
JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"

PageSize = Annotated[int, Field(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str, Field(max_length=2 * limits.ID_CHARS + 50, description="`next` of the page before")]


class State(TypedDict):
    """What the lifespan yields: everything a handler may use."""

    parts: Parts
    access: Access
    gateway: Gateway
    desk: Desk
    feed: FeedDesk
    metrics: Metrics
    orders: OrderDesk
    job_streams: JobStreams
    webhooks: Webhooks


class NoParameters(Strict):
    """The route takes none."""


@dataclass(frozen=True)
class Call:
    """One request, checked: who calls, with which parameters, and what the service has."""

    request: Request
    state: State
    parameters: Any
    caller: Caller | None
    request_id: str

    @property
    def who(self) -> Caller:
        """The caller of a route that needs a right."""
        assert self.caller is not None
        return self.caller

    @property
    def parts(self) -> Parts:
        """The capabilities."""
        return self.state["parts"]


@dataclass(frozen=True)
class Reply:
    """A way in which a route answers: status, words, and the model by media type (None: no fixed shape)."""

    status: int
    description: str
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Body:
    """A body that a route takes: the model by media type, and the bound in bytes."""

    content: Mapping[str, Any]
    limit_bytes: int


@dataclass(frozen=True)
class Endpoint:
    """A route. ``right`` None: open to everybody who reaches the service. ``or_right``: another that will do as well.

    ``signed``: instead of a token the message carries a signature.
    """

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    summary: str
    replies: tuple[Reply, ...]
    right: Right | None = None
    parameters: type[Strict] = NoParameters
    body: Body | None = None
    problems: tuple[int, ...] = ()
    tag: str = "service"
    or_right: Right | None = None
    signed: bool = False

    def route(self) -> Route:
        """Make the Starlette route."""
        route = Route(self.path, self._answer, methods=[self.method], name=f"{self.method} {self.path}")
        if self.right is not None and route.methods is not None:
            route.methods.discard("HEAD")  # Starlette adds it to every GET; a HEAD would do all the work for no reader
        return route

    async def _answer(self, request: Request) -> Response:
        request.scope["cortex.route"] = self.path
        state = cast(State, request.scope["state"])
        pairs = query_parameters(request)
        caller = None
        if self.right is not None:
            tenants = [text for name, text in pairs if name == "tenant"]
            caller = state["access"].caller(request.headers, tenants[0] if tenants else None)
            request.scope["cortex.caller"] = caller
            caller.needs(self.right, self.or_right)
        call = Call(
            request=request,
            state=state,
            parameters=read_parameters(self.parameters, pairs),
            caller=caller,
            request_id=request.scope["cortex.request_id"],
        )
        return await self.handler(call)


def json_response(value: BaseModel, status: int = 200) -> Response:
    """Answer with a model as JSON."""
    return Response(value.model_dump_json(), status_code=status, media_type=JSON_TYPE)


def prefers_stream(request: Request) -> bool:
    """Whether the caller would rather read server-sent events than JSON. Raises 406 when it takes neither.

    Where both are as welcome, the one that is named wins over one that only a wildcard covers, and then JSON.
    """
    accept = request.headers.get("accept", "*/*")
    stream, json = _quality(accept, SSE_TYPE), _quality(accept, JSON_TYPE)
    if max(stream, json) == (0.0, 0):
        raise HTTPException(406, f"this can be given as {JSON_TYPE} or {SSE_TYPE}")
    return stream > json


def _quality(accept: str, wanted: str) -> tuple[float, int]:
    """Return (q, how exactly it is named) of the most exact range that covers a media type (RFC 9110, 12.5.1)."""
    best = (0, 0.0)
    for entry in accept.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        exactness = {wanted: 3, f"{wanted.partition('/')[0]}/*": 2, "*/*": 1}.get(name.lower(), 0)
        quality = next((_number(p[2:]) for p in parameters if p.lower().startswith("q=")), 1.0)
        best = max(best, (exactness, quality)) if exactness else best
    exactness, quality = best
    return (quality, exactness) if quality > 0 else (0.0, 0)


def _number(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
