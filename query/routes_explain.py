"""Explanations: why a unit is or is not in an answer."""

import structlog
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.middleware import NO_RESPONSE
from query.remedies import Inquest, Watchable
from query.routes_context import QuestionParameters
from query.stream import while_connected
from schemas.explanations import Explanation
from schemas.questions import Question
from schemas.units import Identifier
from shared.errors import NotReady, UnknownThing

_log = structlog.get_logger("cortex.query")


class ExplainParameters(QuestionParameters):
    """A question as for /v1/context, and the unit that is looked for in its answer."""

    unit: Identifier


async def explain_unit(call: Call) -> Response:
    """Tell at which stage a unit fell or rose, each term of its score, and the smallest change that would let it in.

    Changes were tried before they are told. A unit in a scope that may not be read is unknown, like one that does not
    exist.
    """
    answers = call.parts.answers
    if not isinstance(answers, Watchable):
        raise NotReady("this service cannot watch its own answers")
    asked: ExplainParameters = call.parameters
    question = Question.model_validate(asked.model_dump(exclude={"tenant", "unit"}))
    principal = call.who.asks_as(question.principal)
    desk = call.state["desk"]

    async def work() -> Explanation:
        async with desk.admission.slot():
            inquest = await Inquest.open(
                answers, call.parts.reader, question, asked.unit, tenant=call.who.tenant, principal=principal
            )
            return await inquest.explain()

    with desk.admission.place():
        try:
            found = await while_connected(call.request.receive, work)
        except UnknownThing:
            _log.warning("access.unknown", request_id=call.request_id, what="unit", principal=principal)
            raise
    if found is None:
        call.request.scope["cortex.outcome"] = "gone"
        return Response(status_code=NO_RESPONSE)
    return json_response(found)


EXPLAIN = (
    Endpoint(
        "GET", "/v1/explain", explain_unit, "Why a unit is or is not in an answer, and what would let it in",
        (Reply(200, "its way through the stages", {JSON_TYPE: Explanation}),),
        Right.ASK, ExplainParameters, None, (400, 404, 503, 504), "questions",
    ),
)  # fmt: skip
