"""The service about itself: health, readiness, figures, its description, and a first page."""

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import anyio
from pydantic import Field
from starlette.responses import Response

from query import metrics as exposition
from query.access import Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.parts import Parts
from query.routes_page import HTML, PageAddress
from query.routes_page import page as page_for_people
from schemas.base import Record
from shared.errors import CortexError

CHECK_S = 2.0  # a part that needs longer to say that it is there is not
DISTRIBUTION = "cortex-knowledge"


class Health(Record):
    """Alive; ``failed`` names background tasks that died, which only a restart mends."""

    status: Literal["ok", "failed"]
    failed: dict[str, str] = Field(default_factory=dict)


class Readiness(Record):
    """Whether questions and events are taken; ``reasons`` names the parts that are not ready, and why."""

    ready: bool
    reasons: dict[str, str] = Field(default_factory=dict)


class Index(Record):
    """What this is, and where to go."""

    name: Literal["Cortex"] = "Cortex"
    what: str
    version: str
    trusted: bool
    access: str
    addresses: dict[str, str]


async def healthz(call: Call) -> Response:
    """Say whether the process and its background tasks live."""
    failed = dict(call.parts.failed)
    return json_response(Health(status="failed" if failed else "ok", failed=failed), 503 if failed else 200)


async def readyz(call: Call) -> Response:
    """Say whether questions and events can be taken now."""
    reasons = await readiness(call.parts)
    return json_response(Readiness(ready=not reasons, reasons=reasons), 503 if reasons else 200)


async def readiness(parts: Parts) -> dict[str, str]:
    """Return the parts that are not ready, each with its reason; each check has a deadline."""
    reasons = {name: f"background task died: {why}" for name, why in parts.failed.items()}
    if parts.feed is not None and not parts.feed.caught_up:
        reasons["graph"] = "the graph replica is still reading what was there at the start"
    if parts.warming is not None and not parts.warming.done:
        reasons["vectors"] = "the vectors are still being read"
    checks = {"store": parts.reader.ping, "log": parts.check_log}
    for name, check in checks.items():
        try:
            with anyio.fail_after(CHECK_S):
                await check()
        except TimeoutError:
            reasons[name] = f"no answer within {CHECK_S:g} s"
        except CortexError as error:
            reasons[name] = str(error)
    return reasons


async def metrics(call: Call) -> Response:
    """Give the figures to Prometheus."""
    figures = call.state["metrics"]
    feed = call.parts.feed
    figures.graph_caught_up.set(feed is None or feed.caught_up)
    try:
        with anyio.fail_after(CHECK_S):
            figures.ingest_lag.set(await call.parts.unstored())
    except (TimeoutError, CortexError):
        figures.ingest_lag.set(float("nan"))  # unknown is not zero
    return Response(figures.render(), media_type=exposition.CONTENT_TYPE)


async def openapi(call: Call) -> Response:
    """Describe every route."""
    document = call.request.app.state.openapi()
    return Response(json.dumps(document, ensure_ascii=False), media_type=JSON_TYPE)


async def asyncapi(call: Call) -> Response:
    """Describe every topic, its keys and its messages."""
    document = call.request.app.state.asyncapi(call.parts.log.partitions)
    return Response(json.dumps(document, ensure_ascii=False), media_type=JSON_TYPE)


async def index(call: Call) -> Response:
    """Give people the page, and programs what this is and where to go."""
    if HTML in call.request.headers.get("accept", ""):
        return page_for_people(call.request)
    trusted = call.state["access"].trusts_everybody
    page = Index(
        what="a live knowledge service: events go in, cited answers come out",
        version=release(),
        trusted=trusted,
        access=(
            "no tokens are configured: this service listens on loopback only and trusts every caller"
            if trusted
            else "a bearer token is needed for everything under /v1"
        ),
        addresses=dict(call.request.app.state.addresses),
    )
    return json_response(page)


def release() -> str:
    """The installed release, or what a bare checkout is."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+checkout"


_PROMETHEUS = "text/plain"

HEALTH = (
    Endpoint(
        "GET", "/", index, "The page for people, and for programs what this is",
        (Reply(200, "a first page", {JSON_TYPE: Index, HTML: None}),), parameters=PageAddress,
    ),
    Endpoint(
        "GET", "/healthz", healthz, "Whether the process lives",
        (
            Reply(200, "it lives", {JSON_TYPE: Health}),
            Reply(503, "a background task died: restart it", {JSON_TYPE: Health}),
        ),
    ),
    Endpoint(
        "GET", "/readyz", readyz, "Whether questions and events are taken",
        (Reply(200, "ready", {JSON_TYPE: Readiness}), Reply(503, "not ready, with reasons", {JSON_TYPE: Readiness})),
    ),
    Endpoint("GET", "/openapi.json", openapi, "This description", (Reply(200, "OpenAPI 3.1", {JSON_TYPE: None}),)),
    Endpoint("GET", "/asyncapi.json", asyncapi, "The topics", (Reply(200, "AsyncAPI 3.0", {JSON_TYPE: None}),)),
    Endpoint(
        "GET", "/metrics", metrics, "Figures for Prometheus",
        (Reply(200, "the text exposition format", {_PROMETHEUS: None}),), Right.ADMIN,
    ),
)  # fmt: skip
