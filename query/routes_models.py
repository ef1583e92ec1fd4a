"""Embedding models: which one a tenant's index is of, which others are kept or can be had, and changing it."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints
from starlette.responses import Response

from query.access import Right
from query.endpoint import JSON_TYPE, Body, Call, Endpoint, Reply, json_response
from query.inputs import parse_json, read_body, validate
from query.routes_context import TenantOnly
from query.routes_jobs import Reason, Taken, taken
from query.routes_letters import name_of
from schemas.base import Record, Strict
from schemas.commands import ChangeModel, DropModel, Job, JobState
from shared.errors import Fault, InvalidInput
from shared.vector_models import KnownModel

ORDER_BYTES: Final = 8 * 1024  # a name and a reason
JOBS_LOOKED_AT: Final = 200  # newest jobs in which the last change to a model is looked for

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class IndexModel(Record):
    """A model whose vectors a tenant keeps. ``active``: searches use it.

    ``building``: a job gives it the vectors that it lacks. ``incomplete``: such a job was cancelled or has failed, so going to
    it means building the rest. ``kept``: to go back to. ``done`` of ``total``: how many of the texts that lacked its vectors
    when the job began have them.
    """

    name: str
    dims: int
    active: bool
    state: Literal["searched", "building", "incomplete", "kept"]
    done: int | None = None
    total: int | None = None


class Models(Record):
    """The models of a tenant's index, the active one first; none before its first unit."""

    models: tuple[IndexModel, ...]
    wanted: str | None = Field(default=None, description="the model of new tenants")
    configured: tuple[str, ...] = Field(default=(), description="models that can be changed to")


class ModelRequest(Strict):
    """Which model is meant, by its full name."""

    model: ModelName
    reason: Reason = ""


async def models(call: Call) -> Response:
    """Show which embedding model is searched, which others are kept, and which can be changed to."""
    embedders = call.parts.embedders
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        kept, jobs = await snapshot.models(), await snapshot.jobs(JOBS_LOOKED_AT)
    shown = tuple(_shown(one, jobs) for one in kept)
    configured = embedders.names() if embedders else ()
    return json_response(
        Models(models=shown, wanted=embedders.wanted.model if embedders else None, configured=configured)
    )


async def change(call: Call) -> Response:
    """Order that a model's vectors are built beside the present ones, and searched once every text has them. The model
    before is kept: ordering it again goes back at once.
    """
    request = await _request(call)
    embedders = call.parts.embedders
    known = {one.name for one in await _kept(call)} | set(embedders.names() if embedders else ())
    if known and request.model not in known:
        raise InvalidInput(faults=(Fault("/model", f"is not configured; known are {', '.join(sorted(known))}"),))
    return await _order(call, ChangeModel(model=request.model), request.reason)


async def drop(call: Call) -> Response:
    """Order that the vectors of a model that is not searched are forgotten; what comes is not embedded by it any more."""
    request = await _request(call)
    kept = {one.name: one for one in await _kept(call)}
    if request.model in kept and kept[request.model].active:
        raise InvalidInput(faults=(Fault("/model", "is the model that is searched; change to another one first"),))
    return await _order(call, DropModel(model=request.model), request.reason)


def _shown(model: KnownModel, jobs: Sequence[Job]) -> IndexModel:
    """Say what a model is for, by the newest of the ``jobs`` that has begun to change to it."""
    said = IndexModel(
        name=model.name, dims=model.dims, active=model.active, state="searched" if model.active else "kept"
    )
    order = ChangeModel(model=model.name)
    last = next((job for job in jobs if job.order == order and job.started_at is not None), None)
    if model.active or last is None or last.state is JobState.DONE:
        return said
    progress = {"done": last.done, "total": last.total}
    if not last.finished:
        return said.model_copy(update={"state": "building", **progress})
    is_whole = last.total is not None and last.done >= last.total
    return said if is_whole else said.model_copy(update={"state": "incomplete", **progress})


async def _request(call: Call) -> ModelRequest:
    return validate(ModelRequest, parse_json(await read_body(call.request, ORDER_BYTES)))


async def _kept(call: Call) -> list[KnownModel]:
    async with call.parts.reader.snapshot(call.who.tenant) as snapshot:
        return await snapshot.models()


async def _order(call: Call, order: ChangeModel | DropModel, reason: str) -> Response:
    return taken(await call.state["orders"].place(call.who.tenant, order, by=name_of(call.who), reason=reason))


_TAKEN = Reply(202, "kept: the address says how far the job is", {JSON_TYPE: Taken})

MODELS = (
    Endpoint(
        "GET", "/v1/models", models, "The embedding models of the index",
        (Reply(200, "models", {JSON_TYPE: Models}),),
        Right.ADMIN, TenantOnly, None, (400, 503), "jobs",
    ),
    Endpoint(
        "POST", "/v1/models/change", change, "Build the index of another embedding model, and switch to it", (_TAKEN,),
        Right.ADMIN, TenantOnly, Body({JSON_TYPE: ModelRequest}, ORDER_BYTES), (400, 408, 413, 415, 503, 507), "jobs",
    ),
    Endpoint(
        "POST", "/v1/models/drop", drop, "Forget the vectors of a model that is not searched", (_TAKEN,),
        Right.ADMIN, TenantOnly, Body({JSON_TYPE: ModelRequest}, ORDER_BYTES), (400, 408, 413, 415, 503, 507), "jobs",
    ),
)  # fmt: skip
