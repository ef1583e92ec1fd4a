"""Background jobs: ordering that what is known is indexed or replayed anew, and how far each job is."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, SSE_TYPE, Body, Call, Endpoint, Reply, json_response
from query.inputs import parse_json, read_body, validate
from query.job_stream import JobStream
from query.order_desk import Novelty, Placed
from query.routes_context import TenantOnly
from query.routes_letters import name_of
from schemas.base import Record, Strict
from schemas.commands import Job, Reindex, Replay, ScopeKey, Selection
from schemas.problems import Problem

ORDER_BYTES: Final = 512 * 1024  # a thousand ids of 200 characters, escaped
JOBS_MAX: Final = 200

Reason = Annotated[str, StringConstraints(max_length=500)]


class JobsParameters(TenantOnly):
    """How many jobs."""

    limit: Annotated[int, Field(ge=1, le=JOBS_MAX)] = 50


class Jobs(Record):
    """Jobs, newest first."""

    jobs: tuple[Job, ...]


class ReindexRequest(Strict):
    """Do a stage's work anew for the selected units: ``embed`` computes vectors, ``resolve`` mentions, claims and graph."""

    stage: Literal["embed", "resolve"]
    select: Selection = Selection()
    reason: Reason = ""

    @property
    def order(self) -> Reindex:
        """What is ordered."""
        return Reindex(stage=self.stage, select=self.select)


class ReplayRequest(Strict):
    """Send kept events through the stages again; ``contradictions`` compares the units anew and repeats nothing else."""

    stage: Literal["embed", "contradictions"] = "embed"
    scope: ScopeKey | None = None
    source: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    reason: Reason = ""

    @property
    def order(self) -> Replay:
        """What is ordered."""
        return Replay(stage=self.stage, scope=self.scope, source=self.source)


class Taken(Record):
    """The job of an order, and where to ask for it.

    ``joined``: an equal one had not begun, and this is it. ``duplicate``: the same request had come before.
    """

    job: Job
    address: str
    joined: bool = False
    duplicate: bool = False


async def reindex(call: Call) -> Response:
    """Order that vectors, or mentions, claims and graph, of the selected units are made anew, in the background."""
    return await _order(call, validate(ReindexRequest, parse_json(await read_body(call.request, ORDER_BYTES))))


async def replay(call: Call) -> Response:
    """Order that kept events of a scope or source go through the stages again, each with its original revision."""
    return await _order(call, validate(ReplayRequest, parse_json(await read_body(call.request, ORDER_BYTES))))


async def jobs(call: Call) -> Response:
    """List background jobs, newest first."""
    found = await call.state["orders"].jobs(call.who.tenant, call.parameters.limit)
    return json_response(Jobs(jobs=tuple(found)))


async def job(call: Call) -> Response:
    """Say how far a job is."""
    return json_response(await _named(call))


async def follow_job(call: Call) -> Response:
    """Stream a job: `progress` whenever it has moved, then `complete`; `closing` with a time to come back."""
    await _named(call)
    return JobStream(call.state["job_streams"], lambda: _named(call), call.request_id)


async def cancel_job(call: Call) -> Response:
    """Order that a job ends between two pages of its work. What it has done stays; one that is over stays as it ended."""
    found = await call.state["orders"].cancel(call.who.tenant, call.request.path_params["id"], by=name_of(call.who))
    return json_response(found, 200 if found.finished else 202)


def taken(placed: Placed) -> Response:
    """Answer for an order."""
    answer = Taken(
        job=placed.job,
        address=f"/v1/jobs/{placed.job.id}",
        joined=placed.novelty is Novelty.JOINED,
        duplicate=placed.novelty is Novelty.REPEATED,
    )
    return json_response(answer, 200 if answer.duplicate else 202)


async def _order(call: Call, request: ReindexRequest | ReplayRequest) -> Response:
    placed = await call.state["orders"].place(
        call.who.tenant, request.order, by=name_of(call.who), reason=request.reason
    )
    return taken(placed)


async def _named(call: Call) -> Job:
    return await call.state["orders"].job(call.who.tenant, call.request.path_params["id"])


_TAKEN = Reply(202, "kept: the address says how far the job is", {JSON_TYPE: Taken})

JOBS = (
    Endpoint(
        "POST", "/v1/reindex", reindex, "Make vectors, or mentions and graph, of known units anew", (_TAKEN,),
        Right.ADMIN, TenantOnly, Body({JSON_TYPE: ReindexRequest}, ORDER_BYTES), (400, 408, 413, 415, 503, 507), "jobs",
    ),
    Endpoint(
        "POST", "/v1/replay", replay, "Send kept events through the stages again", (_TAKEN,),
        Right.ADMIN, TenantOnly, Body({JSON_TYPE: ReplayRequest}, ORDER_BYTES), (400, 408, 413, 415, 503, 507), "jobs",
    ),
    Endpoint(
        "GET", "/v1/jobs", jobs, "Background jobs, newest first",
        (Reply(200, "jobs", {JSON_TYPE: Jobs}),),
        Right.ADMIN, JobsParameters, None, (400, 503), "jobs",
    ),
    Endpoint(
        "GET", "/v1/jobs/{id}", job, "How far a job is",
        (Reply(200, "the job", {JSON_TYPE: Job}),),
        Right.ADMIN, TenantOnly, None, (400, 404, 503), "jobs",
    ),
    Endpoint(
        "GET", "/v1/jobs/{id}/stream", follow_job, "How far a job is, as it moves",
        (Reply(200, "progress whenever it moves, then complete; or closing, or error", {SSE_TYPE: Job | Problem}),),
        Right.ADMIN, TenantOnly, None, (400, 404, 503), "jobs",
    ),
    Endpoint(
        "POST", "/v1/jobs/{id}/cancel", cancel_job, "End a job between two pages of its work",
        (
            Reply(202, "kept: it will end", {JSON_TYPE: Job}),
            Reply(200, "it is over already, and stays as it ended", {JSON_TYPE: Job}),
        ),
        Right.ADMIN, TenantOnly, None, (400, 404, 503, 507), "jobs",
    ),
)  # fmt: skip
