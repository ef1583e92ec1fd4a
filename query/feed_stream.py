"""The live feed as server-sent events.

It ends when the client leaves, when he takes nothing for ``send_s``, after ``limit_s`` (so that a stream that nobody
really reads does not stay for ever) or when the server shuts down; the last two say ``closing`` with a time to come back.
"""

import traceback
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import anyio
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from query.feed import FeedHub, Reader, Seat, Told
from query.metrics import Metrics
from query.problems import problem_of
from query.stream import GRACE_S, RETRY_MS, SEND_S, Heartbeat
from schemas.feed import FEED_END, FeedClosingEvent, FeedErrorEvent
from shared.errors import CortexError
from shared.settings import Settings

_log = structlog.get_logger("cortex.query")


@dataclass(frozen=True)
class FeedTimes:
    """The waits of a feed, in seconds."""

    heartbeat_s: float
    limit_s: float
    send_s: float = SEND_S
    grace_s: float = GRACE_S

    @classmethod
    def from_settings(cls, settings: Settings) -> "FeedTimes":
        """Take what can be set."""
        return cls(heartbeat_s=settings.heartbeat_s, limit_s=settings.feed_limit_s)


@dataclass(frozen=True)
class FeedDesk:
    """Where the feed is read."""

    hub: FeedHub
    times: FeedTimes
    metrics: Metrics


@dataclass(frozen=True)
class Listening:
    """Who reads, and after which id, or with how much of what came last."""

    tenant: str
    principal: str | None
    after: str | None
    recent: int
    request_id: str


class FeedStream(Response):
    """The feed of one reader."""

    media_type = "text/event-stream"

    def __init__(self, desk: FeedDesk, listening: Listening) -> None:
        self._desk = desk
        self._who = listening
        self.outcome = "gone"
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        who = self._who
        failure: list[Exception] = []
        try:
            async with self._desk.hub.join(who.tenant, who.principal, who.after, who.recent) as seat:
                self._desk.metrics.feed_readers.inc()
                try:
                    async with anyio.create_task_group() as group:
                        closing = anyio.Event()
                        group.start_soon(self._close_at, closing, seat.reader)
                        try:
                            await self._respond(seat, closing)(scope, receive, send)
                        except SendTimeoutError:
                            self.outcome = "stalled"
                        except Exception as error:  # noqa: BLE001 - the task group would wrap it; raised below
                            failure.append(error)
                        group.cancel_scope.cancel()
                finally:
                    self._desk.metrics.feed_readers.dec()
        finally:
            scope["cortex.outcome"] = self.outcome
        if failure:
            raise failure[0]

    def _respond(self, seat: Seat, closing: anyio.Event) -> EventSourceResponse:
        times = self._desk.times
        return EventSourceResponse(
            self._messages(seat),
            ping=times.heartbeat_s,
            ping_message_factory=Heartbeat,
            sep="\n",
            send_timeout=times.send_s,
            shutdown_event=closing,
            shutdown_grace_period=times.grace_s,
        )

    async def _close_at(self, closing: anyio.Event, reader: Reader) -> None:
        with anyio.move_on_after(self._desk.times.limit_s):
            await closing.wait()
        reader.note(FeedClosingEvent(retry_ms=RETRY_MS))

    async def _messages(self, seat: Seat) -> AsyncGenerator[ServerSentEvent, None]:
        try:
            async with aclosing(seat.events()) as events:
                async for told in events:
                    yield _message(told)
                    if told.event.kind in FEED_END:
                        self.outcome = told.event.kind
                        return
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told and logged
            trace = None if isinstance(error, CortexError) else traceback.format_exc()
            _log.error("feed.failed", request_id=self._who.request_id, error=type(error).__name__, traceback=trace)
            self.outcome = "error"
            yield _message(Told(FeedErrorEvent(problem=problem_of(error, self._who.request_id))))


def _message(told: Told) -> ServerSentEvent:
    return ServerSentEvent(
        told.event.model_dump_json(exclude_none=True),
        event=told.event.kind,
        id=told.id,
        retry=RETRY_MS if told.event.kind in {"open", "closing"} else None,
        sep="\n",
    )
