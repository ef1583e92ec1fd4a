"""The addresses and parameter names of the two plans that Cortex grew from; behind them the handlers of /v1."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from query.access import Right
from query.browse import newest
from query.endpoint import JSON_TYPE, SSE_TYPE, Body, Call, Endpoint, Reply, json_response, prefers_stream
from query.inputs import ASK_BYTES, media_type, parse_json, read_body, validate
from query.routes_context import Found, TenantOnly, answer_question, asked_by, gone, search_question
from schemas import limits
from schemas.answers import Answer
from schemas.base import Strict
from schemas.intent import AnswerFormat
from schemas.questions import Question
from schemas.stream import StreamEvent
from schemas.units import Identifier, ScopeLevel
from shared.errors import Fault, InvalidInput

Layer = Literal["personal", "workspace", "team", "department", "organization"]
LAYERS: Final[Mapping[Layer, tuple[ScopeLevel, ...]]] = {
    "personal": (ScopeLevel.PERSONAL,),
    "workspace": (ScopeLevel.TEAM,),
    "team": (ScopeLevel.TEAM, ScopeLevel.DEPARTMENT, ScopeLevel.ORGANIZATION),
    "department": (ScopeLevel.DEPARTMENT,),
    "organization": (ScopeLevel.ORGANIZATION,),
}
"""Plan A's layers: its ``workspace`` is a team's, and in its ``team`` lay whatever was wider."""

Words = Annotated[str, StringConstraints(max_length=limits.QUESTION_CHARS)]
Limit = Annotated[int, Field(ge=1, le=limits.RESULTS)]
Workspace = Annotated[
    Identifier | None,
    Field(description="the entity whose scope is meant (any level), or LEVEL/ENTITY; it only ever narrows"),
]
HorizonDays = Annotated[
    int | None, Field(ge=1, le=36_500, description="only what is dated within so many days before now")
]
UNUSED: Final = "not used: the question's own words decide"


class ContextParameters(TenantOnly):
    """Plan A's question for a context."""

    q: Words
    limit: Limit = limits.RESULTS_DEFAULT
    max_tokens: Annotated[int, Field(ge=limits.BUDGET_TOKENS_MIN, le=limits.BUDGET_TOKENS)] = (
        limits.BUDGET_TOKENS_DEFAULT
    )
    workspace_id: Workspace = None


class LayerParameters(TenantOnly):
    """Plan A's search. Without words: what is newest."""

    q: Words = ""
    layer: Layer | None = None
    limit: Limit = limits.RESULTS_DEFAULT
    workspace_id: Workspace = None


class Hints(Strict):
    """Plan B's hints. ``domain`` is taken and not used; the answer's notes say so."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_alias=True)

    domain: Annotated[str, StringConstraints(max_length=100)] | None = None
    horizon_days: Annotated[HorizonDays, Field(alias="horizonDays")] = None
    format: AnswerFormat | None = None


class Unified(Strict):
    """Plan B's question. ``sessionId`` is taken and not used: no answer depends on the one before."""

    query: Words
    session_id: Annotated[str, StringConstraints(max_length=limits.ID_CHARS)] | None = Field(
        default=None, alias="sessionId"
    )
    hints: Hints = Hints()


class UnifiedParameters(Hints):
    """Plan B's question in the address."""

    query: Words
    stream: bool = False
    session_id: Annotated[str, StringConstraints(max_length=limits.ID_CHARS)] | None = Field(
        default=None, alias="sessionId"
    )
    tenant: Annotated[str | None, Field(description="as the header Cortex-Tenant")] = None


async def cortex_context(call: Call) -> Response:
    """Answer as `/v1/context` does: `max_tokens` is its `budget_tokens`, `workspace_id` narrows to one entity's scopes."""
    asked: ContextParameters = call.parameters
    question = _question(
        q=asked.q, limit=asked.limit, budget_tokens=asked.max_tokens, scopes=_scopes(asked.workspace_id)
    )
    return await answer_question(call, question, streaming=prefers_stream(call.request))


async def cortex_search(call: Call) -> Response:
    """Answer as `/v1/search` does; without words, with what is newest in the scopes that may be read."""
    asked: LayerParameters = call.parameters
    levels = LAYERS[asked.layer] if asked.layer else None
    scopes = _scopes(asked.workspace_id)
    if asked.q.strip():
        return await search_question(call, _question(q=asked.q, limit=asked.limit, scopes=scopes, levels=levels))
    principal = call.who.asks_as(None)
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        results = await newest(
            snapshot, principal, call.parts.clock.now(), limit=asked.limit, scopes=scopes, levels=levels
        )
    found = Found(
        question="", tenant=call.who.tenant, principal=principal or "*", results=results, complete=True, degraded=False
    )
    return json_response(found)


async def unified_search(call: Call) -> Response:
    """Answer as `/v1/context` does, as JSON or as a stream, by `Accept`."""
    if media_type(call.request) != JSON_TYPE:
        raise HTTPException(415, f"a question is sent as {JSON_TYPE}")
    streaming = prefers_stream(call.request)
    asked = validate(Unified, parse_json(await read_body(call.request, ASK_BYTES)))
    return await _unified(call, asked.query, asked.hints, asked.session_id, streaming=streaming)


async def unified_search_by_address(call: Call) -> Response:
    """Answer as `/v1/context` does; with `stream=true` as `/v1/context/stream`."""
    asked: UnifiedParameters = call.parameters
    return await _unified(call, asked.query, asked, asked.session_id, streaming=asked.stream)


async def _unified(call: Call, query: str, hints: Hints, session: str | None, *, streaming: bool) -> Response:
    since = None
    if hints.horizon_days is not None:
        since = (call.parts.clock.now() - timedelta(days=hints.horizon_days)).isoformat()
    question = _question(q=query, format=hints.format, occurred_from=since)
    if streaming:
        return await answer_question(call, question, streaming=True)
    answer = await call.state["desk"].answer(asked_by(call, question), call.request.receive)
    if answer is None:
        return gone(call)
    unused = [name for name, value in (("sessionId", session), ("hints.domain", hints.domain)) if value is not None]
    notes = (*answer.notes, *(f"{name} is {UNUSED}" for name in unused))
    return json_response(answer.model_copy(update={"notes": notes}))


def _scopes(workspace: str | None) -> tuple[str, ...] | None:
    """Return the scopes that a workspace may mean: those of all levels with that entity, or the one that is named."""
    if workspace is None:
        return None
    level, _, entity_id = workspace.partition("/")
    if entity_id and level in set(ScopeLevel):
        return (workspace,)
    return tuple(f"{level.value}/{workspace}" for level in ScopeLevel)


def _question(**given: Any) -> Question:
    try:
        return Question.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        named = {"scopes": "workspace_id", "budget_tokens": "max_tokens", "occurred_from": "horizonDays"}
        field = str(first["loc"][0]) if first["loc"] else ""
        raise InvalidInput(faults=(Fault(named.get(field, field), first["msg"]),)) from error


_ANSWER = Reply(200, "the answer of /v1/context", {JSON_TYPE: Answer, SSE_TYPE: StreamEvent})
_ASKING = (400, 503, 504)

PLANS = (
    Endpoint(
        "GET", "/api/cortex/context", cortex_context, "As GET /v1/context, with plan A's parameters",
        (_ANSWER,), Right.ASK, ContextParameters, None, (*_ASKING, 406), "plans",
    ),
    Endpoint(
        "GET", "/api/cortex/search", cortex_search, "As GET /v1/search, with plan A's parameters; without words, the newest",
        (Reply(200, "the results", {JSON_TYPE: Found}),), Right.ASK, LayerParameters, None, _ASKING, "plans",
    ),
    Endpoint(
        "POST", "/api/search", unified_search, "As POST /v1/context, with plan B's body",
        (_ANSWER,), Right.ASK, TenantOnly, Body({JSON_TYPE: Unified}, limit_bytes=ASK_BYTES),
        (*_ASKING, 406, 408, 413, 415), "plans",
    ),
    Endpoint(
        "GET", "/api/search", unified_search_by_address, "As GET /v1/context, or its stream, with plan B's parameters",
        (_ANSWER,), Right.ASK, UnifiedParameters, None, _ASKING, "plans",
    ),
)  # fmt: skip
