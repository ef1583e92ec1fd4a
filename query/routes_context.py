"""Questions: an assembled answer as JSON or as a stream, and results alone."""

from typing import Annotated

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, SSE_TYPE, Body, Call, Endpoint, Reply, json_response, prefers_stream
from query.inputs import ASK_BYTES, media_type, parse_json, read_body, validate
from query.kept_streams import last_seen
from query.middleware import NO_RESPONSE
from query.stream import AnswerStream, Asked
from schemas.answers import Answer, LostSource, Result
from schemas.base import Record, Strict
from schemas.positions import PartitionWatermark
from schemas.questions import Question
from schemas.stream import StreamEvent
from schemas.units import TenantId

TenantParameter = Annotated[
    TenantId | None, Field(description="as the header Cortex-Tenant; a token's caller may only repeat its own")
]


class TenantOnly(Strict):
    """Names the tenant."""

    tenant: TenantParameter = None


class QuestionParameters(Question):
    """A question in the address. Repeat ``scopes``, ``types`` and ``levels`` for several."""

    tenant: TenantParameter = None


class Found(Record):
    """Results without a context. ``complete`` is false when anything in ``lost`` or ``stale`` qualifies them."""

    question: str
    tenant: str
    principal: str
    results: tuple[Result, ...]
    complete: bool
    degraded: bool
    lost: tuple[LostSource, ...] = ()
    stale: bool = False
    low_confidence: bool = False
    notes: tuple[str, ...] = ()
    watermarks: tuple[PartitionWatermark, ...] = ()
    timings_ms: dict[str, float] = Field(default_factory=dict)


async def ask(call: Call) -> Response:
    """Answer a question from a body, as JSON or as a stream, by ``Accept``."""
    streaming = prefers_stream(call.request)
    return await answer_question(call, await _question_of_body(call.request), streaming=streaming)


async def ask_by_address(call: Call) -> Response:
    """Answer a question from the address, as JSON or as a stream, by ``Accept``."""
    return await answer_question(call, _question_of(call.parameters), streaming=prefers_stream(call.request))


async def stream(call: Call) -> Response:
    """Stream the answer to a question from a body. `Last-Event-ID` resumes a finished one within five minutes."""
    return await answer_question(call, await _question_of_body(call.request), streaming=True)


async def stream_by_address(call: Call) -> Response:
    """Stream the answer to a question from the address. `Last-Event-ID` resumes a finished one within five minutes."""
    return await answer_question(call, _question_of(call.parameters), streaming=True)


async def search(call: Call) -> Response:
    """Give the results of a question without putting a context together."""
    return await search_question(call, _question_of(call.parameters))


async def search_question(call: Call, question: Question) -> Response:
    """Answer with results alone."""
    answer = await call.state["desk"].answer(asked_by(call, question), call.request.receive)
    if answer is None:
        return gone(call)
    return json_response(Found.model_validate(answer.model_dump(include=set(Found.model_fields))))


def asked_by(call: Call, question: Question) -> Asked:
    """Add to a question who asks it, and for which tenant. Raises Forbidden."""
    principal = call.who.asks_as(question.principal)
    return Asked(
        question=question,
        tenant=call.who.tenant,
        principal=principal,
        request_id=call.request_id,
        traceparent=call.request.headers.get("traceparent"),
        last_seen=last_seen(call.request.headers.get("last-event-id")),
    )


async def answer_question(call: Call, question: Question, *, streaming: bool) -> Response:
    """Answer as JSON or as a stream: what every address for questions ends in."""
    asked = asked_by(call, question)
    if streaming:
        return AnswerStream(call.state["desk"], asked)
    answer = await call.state["desk"].answer(asked, call.request.receive)
    return gone(call) if answer is None else json_response(answer)


def gone(call: Call) -> Response:
    """Account for a client that left before its answer was ready."""
    call.request.scope["cortex.outcome"] = "gone"
    call.state["metrics"].unanswered("gone")
    return Response(status_code=NO_RESPONSE)


def _question_of(parameters: QuestionParameters) -> Question:
    return Question.model_validate(parameters.model_dump(exclude={"tenant"}))


async def _question_of_body(request: Request) -> Question:
    if media_type(request) != JSON_TYPE:
        raise HTTPException(415, f"a question is sent as {JSON_TYPE}")
    return validate(Question, parse_json(await read_body(request, ASK_BYTES)))


_ANSWER = Reply(200, "the answer; one that lost a source says so", {JSON_TYPE: Answer, SSE_TYPE: StreamEvent})
_STREAM = Reply(200, "one message a stage, then exactly one of complete, error, closing", {SSE_TYPE: StreamEvent})
_BODY = Body({JSON_TYPE: Question}, limit_bytes=ASK_BYTES)
_ASKING = (400, 503, 504)

CONTEXT = (
    Endpoint(
        "POST", "/v1/context", ask, "Ask; the answer comes assembled, cited and within a budget",
        (_ANSWER,), Right.ASK, TenantOnly, _BODY, (*_ASKING, 406, 408, 413, 415), "questions",
    ),
    Endpoint(
        "GET", "/v1/context", ask_by_address, "Ask in the address; prefer POST for what should not stand in logs",
        (_ANSWER,), Right.ASK, QuestionParameters, None, (*_ASKING, 406), "questions",
    ),
    Endpoint(
        "POST", "/v1/context/stream", stream, "Ask; the answer comes stage by stage",
        (_STREAM,), Right.ASK, TenantOnly, _BODY, (*_ASKING, 408, 413, 415), "questions",
    ),
    Endpoint(
        "GET", "/v1/context/stream", stream_by_address, "Ask in the address; for EventSource, which can only GET",
        (_STREAM,), Right.ASK, QuestionParameters, None, _ASKING, "questions",
    ),
    Endpoint(
        "GET", "/v1/search", search, "Results alone, by relevance or by time, also within a window",
        (Reply(200, "the results, best first", {JSON_TYPE: Found}),),
        Right.ASK, QuestionParameters, None, _ASKING, "questions",
    ),
)  # fmt: skip
