"""A job as server-sent events: ``progress`` whenever it has moved, then ``complete``.

It ends with the job, when the client leaves, when he takes nothing for `SEND_S`, after ``limit_s`` or when the server shuts
down; the last two say ``closing`` with a time to come back. What fails under way is one ``error`` with the problem.
"""

import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from query.problems import problem_json, problem_of
from query.stream import GRACE_S, RETRY_MS, SEND_S, Heartbeat
from schemas.commands import Job
from shared.errors import CortexError, Overloaded
from shared.settings import Settings

STREAMS: Final = 100  # open at a time: each looks at the store twice a second
LOOK_S: Final = 0.5

_log = structlog.get_logger("cortex.query")


@dataclass
class JobStreams:
    """The open streams: their number is bounded, and so is how long each lasts."""

    heartbeat_s: float
    limit_s: float
    open: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> "JobStreams":
        """Take what can be set."""
        return cls(settings.heartbeat_s, settings.stream_limit_s)


class JobStream(Response):
    """The stream of one job; ``look`` returns it as it is now."""

    media_type = "text/event-stream"

    def __init__(self, streams: JobStreams, look: Callable[[], Awaitable[Job]], request_id: str) -> None:
        self._streams = streams
        self._look = look
        self._request_id = request_id
        self.outcome = "gone"
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises Overloaded where too many are open."""
        if self._streams.open >= STREAMS:
            raise Overloaded(f"{STREAMS} streams of jobs are open already; ask for the job instead")
        self._streams.open += 1
        closing = anyio.Event()
        response = EventSourceResponse(
            self._messages(closing),
            ping=self._streams.heartbeat_s,
            ping_message_factory=Heartbeat,
            sep="\n",
            send_timeout=SEND_S,
            shutdown_event=closing,
            shutdown_grace_period=GRACE_S,
        )
        try:
            await response(scope, receive, send)
        except SendTimeoutError:
            self.outcome = "stalled"
        finally:
            self._streams.open -= 1
            scope["cortex.outcome"] = self.outcome

    async def _messages(self, closing: anyio.Event) -> AsyncGenerator[ServerSentEvent, None]:
        try:
            async for message in self._moves(closing):
                yield message
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told and logged
            trace = None if isinstance(error, CortexError) else traceback.format_exc()
            _log.error("job_stream.failed", request_id=self._request_id, error=type(error).__name__, traceback=trace)
            self.outcome = "error"
            problem = problem_json(problem_of(error, self._request_id)).decode()
            yield ServerSentEvent(problem, event="error", sep="\n")

    async def _moves(self, closing: anyio.Event) -> AsyncGenerator[ServerSentEvent, None]:
        told: Job | None = None
        ends_at = anyio.current_time() + self._streams.limit_s
        while True:
            job = await self._look()
            if job != told:
                told = job
                event = "complete" if job.finished else "progress"
                yield ServerSentEvent(job.model_dump_json(exclude_none=True), event=event, retry=RETRY_MS, sep="\n")
            if job.finished:
                self.outcome = "complete"
                return
            if closing.is_set() or anyio.current_time() >= ends_at:
                self.outcome = "closing"
                yield ServerSentEvent("{}", event="closing", retry=RETRY_MS, sep="\n")
                return
            with anyio.move_on_after(LOOK_S):
                await closing.wait()
