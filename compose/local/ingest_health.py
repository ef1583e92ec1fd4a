"""Figures and readiness of an ingest process over HTTP: ``/metrics``, ``/healthz``, ``/readyz``."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.health import IngestHealth
from query.access import Access, Right
from query.middleware import LoopbackGuard
from query.problems import on_error
from shared.errors import CortexError, PortInUse

BACKLOG: Final = 64  # connections that wait: a scraper and an orchestrator have one each
FAREWELL_S: Final = 2  # an answer takes milliseconds

_log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    """Signals are the process's own business, which ends its pipeline first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def create_health_app(health: IngestHealth, access: Access) -> Starlette:
    """Build the application. With tokens ``/metrics`` needs the right ``admin``, for it names tenants."""

    async def metrics(request: Request) -> Response:
        access.caller(request.headers, None).needs(Right.ADMIN)
        return Response(generate_latest(health.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        reasons = await health.troubles()
        return JSONResponse({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)],
        middleware=[Middleware(LoopbackGuard)] if access.trusts_everybody else [],
        exception_handlers={CortexError: on_error},
    )


@asynccontextmanager
async def serving_health(health: IngestHealth, access: Access, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the block runs; yields the port (0 was given: any free one). Raises PortInUse.

    A server that ends by itself is told in the log; handling events goes on without it.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        create_health_app(health, access),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=FAREWELL_S,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="ingest-health")
    task.add_done_callback(_tell_end)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        _, late = await asyncio.wait({task}, timeout=2 * FAREWELL_S)
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise PortInUse(
            f"Port {port} on {host} cannot be used ({error.strerror}): stop the program that has it, "
            "or set CORTEX_INGEST_PORT to another."
        ) from error
    return listener


def _tell_end(task: "asyncio.Task[None]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("health.ended", error=repr(error))
