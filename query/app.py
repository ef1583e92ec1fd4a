"""The query service: one place that wires everything."""

import contextlib
import functools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from query.access import Access
from query.admission import Admission
from query.answer_traces import AnswerTraces
from query.asyncapi import build_asyncapi
from query.backlog import Backlog
from query.endpoint import Endpoint, State
from query.feed import FeedHub
from query.feed_stream import FeedDesk, FeedTimes
from query.gateway import Gateway
from query.job_stream import JobStreams
from query.kept_streams import KeptStreams
from query.metrics import Metrics
from query.middleware import LoopbackGuard, RequestLine
from query.openapi import build_openapi, plain_path
from query.order_desk import OrderDesk
from query.parts import Parts, kafka_bootstrap, open_parts
from query.problems import on_error
from query.quotas import Quotas
from query.routes_context import CONTEXT
from query.routes_events import EVENTS
from query.routes_explain import EXPLAIN
from query.routes_feed import FEED
from query.routes_graph import GRAPH
from query.routes_health import HEALTH, release
from query.routes_jobs import JOBS
from query.routes_letters import LETTERS
from query.routes_models import MODELS
from query.routes_page import PAGE
from query.routes_plans import PLANS
from query.routes_status import STATUS
from query.routes_trace import TRACE
from query.routes_units import UNITS
from query.routes_webhooks import WEBHOOKS
from query.stream import Desk, StreamTimes
from query.webhooks import Webhooks, configured_secrets
from shared.errors import CortexError
from shared.settings import Settings

ENDPOINTS: tuple[Endpoint, ...] = (
    *CONTEXT,
    *EXPLAIN,
    *UNITS,
    *GRAPH,
    *EVENTS,
    *LETTERS,
    *JOBS,
    *MODELS,
    *WEBHOOKS,
    *TRACE,
    *FEED,
    *PLANS,
    *STATUS,
    *HEALTH,
    *PAGE,
)
"""Every route; more exact paths stand before those that take the rest of the path."""


def create_app(settings: Settings, parts: Parts | None = None) -> Starlette:
    """Build the service. ``parts`` are opened by the lifespan unless they are given, and then closed by their owner.

    Raises Forbidden for an address beyond loopback without tokens, InvalidInput for a tokens or secrets file that cannot be
    used.
    """
    access = Access.from_settings(settings)
    secrets = configured_secrets(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[State]:
        async with _opened(settings, parts) as opened, anyio.create_task_group() as group:
            opened.start(group)
            hub = FeedHub(opened.board, opened.reader, readers=settings.feed_readers, queue=settings.feed_queue)
            group.start_soon(hub.run, name="feed-hub")
            backlog = Backlog(
                opened.unstored,
                opened.reader,
                opened.clock,
                bound=settings.backlog_events,
                live=settings.tenant_live_events,
            )
            group.start_soon(backlog.run, name="backlog")
            webhooks = Webhooks(secrets, settings.webhook_per_minute, opened.clock)
            yield _state(settings, access, opened, hub, backlog=backlog, webhooks=webhooks)
            group.cancel_scope.cancel()

    guards = [Middleware(LoopbackGuard)] if access.trusts_everybody else []
    app = Starlette(
        routes=[endpoint.route() for endpoint in ENDPOINTS],
        middleware=[Middleware(RequestLine), *guards],
        exception_handlers={CortexError: on_error, HTTPException: on_error},
        lifespan=lifespan,
    )
    # made when first asked for: it takes as long as the rest of the start
    app.state.openapi = functools.cache(lambda: build_openapi(ENDPOINTS, release(), trusted=access.trusts_everybody))
    app.state.asyncapi = functools.cache(
        lambda partitions: build_asyncapi(
            release(), host=kafka_bootstrap(settings), partitions=partitions, prefix=settings.topic_prefix
        )
    )
    app.state.addresses = {f"{one.method} {plain_path(one.path)}": one.summary for one in ENDPOINTS}
    app.router.redirect_slashes = False  # an address has one form; a redirect would hide the other's mistake
    return app


def _opened(settings: Settings, parts: Parts | None) -> AbstractAsyncContextManager[Parts]:
    return open_parts(settings) if parts is None else contextlib.nullcontext(parts)


def _state(
    settings: Settings, access: Access, parts: Parts, hub: FeedHub, *, backlog: Backlog, webhooks: Webhooks
) -> State:
    metrics = Metrics()
    quotas = Quotas(
        events_per_s=settings.tenant_events_per_s, bytes_per_s=settings.tenant_bytes_per_s, clock=parts.clock
    )
    admission = Admission(running=settings.concurrent_answers, waiting=settings.waiting_answers, metrics=metrics)
    return State(
        parts=parts,
        access=access,
        gateway=Gateway(parts.log, metrics, quotas=quotas, backlog=backlog),
        desk=Desk(
            parts.answers,
            admission,
            metrics,
            StreamTimes.from_settings(settings),
            traces=AnswerTraces(parts.traces, parts.reader, parts.log) if parts.traces.on else None,
            kept=KeptStreams(parts.cache),
        ),
        feed=FeedDesk(hub, FeedTimes.from_settings(settings), metrics),
        metrics=metrics,
        orders=OrderDesk(parts.log, parts.reader, parts.clock),
        job_streams=JobStreams.from_settings(settings),
        webhooks=webhooks,
    )
