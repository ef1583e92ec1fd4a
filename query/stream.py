"""Streams: one message a stage, then exactly one terminal event (design, section 8).

One task works (it iterates the assembly from beginning to end), one writes. Between them lies a queue that holds a whole
answer, so that a slow reader never holds a working slot. The first event is awaited before the response begins: what
fails until then is a problem response with its own status.

How a stream can end, and who wins when two come together: the first terminal to enter the queue. What was queued before
it is still sent; nothing is sent after it.

| what happens                          | before the first byte           | after it                                     |
|---------------------------------------|---------------------------------|----------------------------------------------|
| the answer is complete                | (the first event always leads)  | ``complete``, end                            |
| the assembly fails                    | problem response                | ``error``, end                               |
| the limit ``stream_limit_s``          | problem 504, work is cancelled  | ``error`` (deadline), work is cancelled      |
| no place, no slot                     | problem 503 and ``Retry-After`` | cannot happen: place and slot are held       |
| the client leaves                     | work is cancelled               | work is cancelled                            |
| the client stalls for ``send_s``      | cannot happen: nothing is sent  | given up; the work ended by itself           |
| the server shuts down                 | the stream still begins, then → | ``closing``, work is cancelled, end          |
| … and the farewell cannot be sent     |                                 | given up after ``grace_s``                   |
| complete or error, then shutdown      |                                 | ``complete`` or ``error`` wins               |
| shutdown, then complete or error      |                                 | ``closing`` wins                             |
| the client leaves, whatever else      | leaving wins                    | leaving wins                                 |

A client that reconnects with ``Last-Event-ID`` within five minutes gets what it lacks of a stream that was finished, from
any query process and without work (kept_streams.py); of one that was not, it is asked anew, and the ids begin again.
"""

import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio
import structlog
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from query.admission import Admission
from query.answer_traces import AnswerTraces
from query.kept_streams import KeptStreams, LastSeen, Sent
from query.metrics import Metrics
from query.problems import kind_of, problem_of
from schemas.answers import Answer
from schemas.questions import Question
from schemas.stream import TERMINAL, ClosingEvent, CompleteEvent, ErrorEvent, StreamEvent
from shared.errors import CortexError, DeadlineExceeded
from shared.settings import Settings

QUEUE_EVENTS = 32  # an answer has at most a dozen events: the worker never waits for the reader
SEND_S = 10.0  # a reader that takes nothing for so long is gone
GRACE_S = 5.0  # to say goodbye; shorter than the server's own 10 s
RETRY_MS = 1_000
CLIENT_CLOSED_REQUEST = 499  # nobody reads it; the access log tells it from a failure of ours

Value = TypeVar("Value")
_log = structlog.get_logger("cortex.query")


class Heartbeat(ServerSentEvent):
    """A comment without the empty line that ends a message: with it some clients report a message without data."""

    def encode(self) -> bytes:
        """Write the comment."""
        return b": ping\n"


class Answers(Protocol):
    """What answers questions: the assembly."""

    def stream(self, question: Question, *, tenant: str, principal: str | None) -> AsyncIterator[StreamEvent]:
        """Yield one event a stage and the complete answer last; raises typed errors."""
        ...

    async def answer(self, question: Question, *, tenant: str, principal: str | None) -> Answer:
        """Return the whole answer; raises typed errors."""
        ...


@dataclass(frozen=True)
class Asked:
    """A question with who asks it and the request that carries it."""

    question: Question
    tenant: str
    principal: str | None
    request_id: str
    traceparent: str | None = None
    last_seen: LastSeen | None = None

    @property
    def whose(self) -> tuple[str, str]:
        """The tenant, and who asks."""
        return self.tenant, self.principal or ""


@dataclass(frozen=True)
class StreamTimes:
    """The waits of a stream, in seconds."""

    heartbeat_s: float
    limit_s: float
    send_s: float = SEND_S
    grace_s: float = GRACE_S

    @classmethod
    def from_settings(cls, settings: Settings) -> "StreamTimes":
        """Take what can be set."""
        return cls(heartbeat_s=settings.heartbeat_s, limit_s=settings.stream_limit_s)


class Desk:
    """Where questions are taken: admission, the assembly, and the figures of both."""

    def __init__(
        self,
        answers: Answers,
        admission: Admission,
        metrics: Metrics,
        times: StreamTimes,
        *,
        traces: AnswerTraces | None = None,
        kept: KeptStreams | None = None,
    ) -> None:
        self.answers = answers
        self.traces = traces
        self.kept = kept or KeptStreams(None)
        self.admission = admission
        self.metrics = metrics
        self.times = times

    async def events(self, asked: Asked) -> AsyncGenerator[StreamEvent, None]:
        """Work on a question within a slot. The slot is free again when this generator is closed, however that comes."""
        work = self._events(asked) if self.traces is None else self._traced(asked, self.traces)
        async with aclosing(work) as events:
            async for event in events:
                yield event

    async def _traced(self, asked: Asked, traces: AnswerTraces) -> AsyncGenerator[StreamEvent, None]:
        with traces.answering(asked.traceparent) as span:
            async with aclosing(self._events(asked)) as events:
                async for event in events:
                    if isinstance(event, CompleteEvent):
                        await traces.cite(span, event.answer)
                    yield event

    async def _events(self, asked: Asked) -> AsyncGenerator[StreamEvent, None]:
        async with self.admission.slot():
            events = self.answers.stream(asked.question, tenant=asked.tenant, principal=asked.principal)
            try:
                async for event in events:
                    self.metrics.stage(event)
                    if isinstance(event, CompleteEvent):
                        self.metrics.answer(event.answer)
                    yield event
            finally:
                await _close(events)

    async def answer(self, asked: Asked, receive: Receive) -> Answer | None:
        """Return the whole answer, or None when the client left before it was ready."""

        async def work() -> Answer:
            with anyio.fail_after(self.times.limit_s):
                async with aclosing(self.events(asked)) as events:
                    async for event in events:
                        if isinstance(event, CompleteEvent):
                            return event.answer
            raise DeadlineExceeded("the answer ended without its last event")

        with self.admission.place():
            try:
                return await while_connected(receive, work)
            except TimeoutError as error:
                raise DeadlineExceeded(f"the answer took longer than {self.times.limit_s:g} s") from error


async def _close(events: AsyncIterator[StreamEvent]) -> None:
    """Close a generator in the task that iterated it, also while that task is being cancelled."""
    aclose = getattr(events, "aclose", None)
    if aclose is not None:
        await aclose()


async def while_connected(receive: Receive, work: Callable[[], Awaitable[Value]]) -> Value | None:
    """Work until done, or until the client leaves: then cancel the work and return None."""
    outcome: list[Value] = []
    failure: list[Exception] = []

    async def watch(scope: anyio.CancelScope) -> None:
        await departure(receive)
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        try:
            outcome.append(await work())
        except Exception as error:  # noqa: BLE001 - carried out of the task group, which would wrap it, and raised below
            failure.append(error)
        group.cancel_scope.cancel()
    if failure:
        raise failure[0]
    return outcome[0] if outcome else None


async def departure(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


class AnswerStream(Response):
    """A question's answer as server-sent events; see the module's table of endings."""

    media_type = "text/event-stream"

    def __init__(self, desk: Desk, asked: Asked) -> None:
        self._desk = desk
        self._asked = asked
        self.outcome = "gone"
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        failure: list[Exception] = []
        try:
            if await self._resume(scope, receive, send):
                return
            with self._desk.admission.place():
                async with anyio.create_task_group() as group:
                    try:
                        await self._run(group, scope, receive, send)
                    except Exception as error:  # noqa: BLE001 - the task group would wrap it; raised below
                        failure.append(error)
                    group.cancel_scope.cancel()
        finally:
            self._account(scope, failure)
        if failure:
            raise failure[0]

    async def _resume(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Send what a client lacks of a finished stream; False where there is none to resume."""
        seen = self._asked.last_seen
        if seen is None:
            return False
        events = await self._desk.kept.find(self._asked.whose, self._asked.question, seen.request_id)
        rest = [(number, event) for number, event in enumerate(events, 1) if number > seen.sequence]
        if not rest:
            return False

        async def messages() -> AsyncGenerator[ServerSentEvent, None]:
            for number, event in rest:
                yield _message(event.data, event.stage, seen.request_id, number)

        await EventSourceResponse(messages(), sep="\n", send_timeout=self._desk.times.send_s)(scope, receive, send)
        self.outcome = events[-1].stage
        return True

    async def _run(self, group: anyio.abc.TaskGroup, scope: Scope, receive: Receive, send: Send) -> None:
        queue_in, queue_out = anyio.create_memory_object_stream[StreamEvent | Exception](QUEUE_EVENTS)
        async with queue_in, queue_out:
            work = anyio.CancelScope()
            group.start_soon(self._work, work, queue_in)
            first = await while_connected(receive, queue_out.receive)
            if first is None:
                return
            if isinstance(first, Exception):
                raise first
            closing = anyio.Event()
            group.start_soon(self._close_at, closing, work, queue_in)
            response = EventSourceResponse(
                self._messages(first, queue_out),
                ping=self._desk.times.heartbeat_s,
                ping_message_factory=Heartbeat,
                sep="\n",
                send_timeout=self._desk.times.send_s,
                shutdown_event=closing,
                shutdown_grace_period=self._desk.times.grace_s,
            )
            try:
                await response(scope, receive, send)
            except SendTimeoutError:
                self.outcome = "stalled"

    async def _work(self, work: anyio.CancelScope, queue: ObjectSendStream[StreamEvent | Exception]) -> None:
        """Iterate the assembly in this one task; its end, however it comes, is the last thing in the queue."""
        limit_s = self._desk.times.limit_s
        end: Exception = CortexError("the answer ended without its last event")
        try:
            with work, anyio.fail_after(limit_s):
                sent: list[Sent] = []
                async with aclosing(self._desk.events(self._asked)) as events:
                    async for event in events:
                        sent.append(Sent(event.stage, event.model_dump_json()))
                        if isinstance(event, CompleteEvent):
                            await self._keep(sent)
                        await queue.send(event)
        except TimeoutError:
            end = DeadlineExceeded(f"the answer took longer than {limit_s:g} s")
        except Exception as error:  # noqa: BLE001 - told to the client, and logged where it is told
            end = error
        await queue.send(end)

    async def _keep(self, sent: list[Sent]) -> None:
        await self._desk.kept.keep(self._asked.whose, self._asked.question, self._asked.request_id, sent)

    async def _close_at(
        self, closing: anyio.Event, work: anyio.CancelScope, queue: ObjectSendStream[StreamEvent | Exception]
    ) -> None:
        await closing.wait()
        await queue.send(ClosingEvent(retry_ms=RETRY_MS))
        work.cancel()

    async def _messages(
        self, first: StreamEvent, queue: ObjectReceiveStream[StreamEvent | Exception]
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """Number the events and stop after the first terminal one."""
        item: StreamEvent | Exception = first
        sequence = 0
        while True:
            event = item if not isinstance(item, Exception) else self._error(item)
            sequence += 1
            yield _message(event.model_dump_json(), event.stage, self._asked.request_id, sequence)
            if event.stage in TERMINAL:
                self.outcome = event.stage
                return
            item = await queue.receive()

    def _error(self, error: Exception) -> ErrorEvent:
        trace = None if isinstance(error, CortexError) else "".join(traceback.format_exception(error))
        _log.error("stream.failed", request_id=self._asked.request_id, error=type(error).__name__, traceback=trace)
        return ErrorEvent(problem=problem_of(error, self._asked.request_id))

    def _account(self, scope: Scope, failure: list[Exception]) -> None:
        if failure:
            self.outcome = kind_of(failure[0]).name
        scope["cortex.outcome"] = self.outcome
        if self.outcome != "complete":
            self._desk.metrics.unanswered("error" if failure else self.outcome)


def _message(data: str, stage: str, request_id: str, sequence: int) -> ServerSentEvent:
    retry = RETRY_MS if sequence == 1 or stage == "closing" else None
    return ServerSentEvent(data, event=stage, id=f"{request_id}-{sequence}", retry=retry, sep="\n")
