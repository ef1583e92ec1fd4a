"""The query service for tests: doubles that a test can steer, in process or behind a real server on a free port."""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import uvicorn

from query.app import create_app
from query.fold import fold
from query.parts import Parts
from schemas.answers import Answer
from schemas.intent import Intent
from schemas.questions import Question
from schemas.stream import (
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EntitiesEvent,
    FusionEvent,
    IntentEvent,
    KeywordEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)
from shared.clock import ManualClock
from shared.graphs.memory import MemoryGraph
from shared.logs.memory import MemoryLog
from shared.settings import Settings
from shared.store import StoreCounts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOCAL = "http://127.0.0.1"


class EmptyStore:
    """A store with nothing in it but the watermarks and jobs that a test sets."""

    def __init__(self):
        self.marks = {}
        self.saved = []

    @asynccontextmanager
    async def snapshot(self, tenant):
        yield self

    async def watermarks(self, stage="stored"):
        return dict(self.marks)

    async def memberships(self, principal):
        return []

    async def units(self, unit_ids):
        return {}

    async def events(self, event_id, source=None):
        return []

    async def jobs(self, limit=100, job_id=None):
        return [job for job in self.saved if job_id in (None, job.id)]

    async def entities(self):
        return 0, []

    async def entity_keys(self, scopes, limit, after=None):
        return []

    async def counts(self):
        return StoreCounts(units=0, passages=0, documents=0, entities=0, relations=0, contradictions_open=0)

    async def tenants(self):
        return ["demo"]

    async def ping(self):
        return None


@dataclass
class SteeredAnswers:
    """Answers in eleven events. A question's words steer it; the test sees every call that a store would get.

    ``hold`` in the question: stop after the first event until ``resumed``. ``late``: stop before the first event until
    ``released``.
    ``fail first`` and ``fail then`` raise ``failure``. ``heavy``: an answer of several megabytes.
    """

    failure: Exception | None = None
    released: threading.Event = field(default_factory=threading.Event)
    resumed: threading.Event = field(default_factory=threading.Event)
    store_calls: list[str] = field(default_factory=list)
    begun: int = 0
    ended: int = 0

    async def answer(self, question: Question, *, tenant: str, principal: str | None) -> Answer:
        return fold([event async for event in self.stream(question, tenant=tenant, principal=principal)])

    async def stream(self, question: Question, *, tenant: str, principal: str | None) -> AsyncIterator[StreamEvent]:
        self.begun += 1
        try:
            events = []
            if "late" in question.q:
                await until(self.released.is_set, within_s=60)
            if "fail first" in question.q:
                raise self.failure
            for number, event in enumerate(answer_events(question, tenant, principal)):
                self.store_calls.append(question.q)
                events.append(event)
                yield event
                if number == 0 and "hold" in question.q:
                    await until(self.resumed.is_set, within_s=60)
                if number == 0 and "fail then" in question.q:
                    raise self.failure
            yield CompleteEvent(answer=fold(events))
        finally:
            self.ended += 1


def answer_events(question: Question, tenant: str, principal: str | None) -> Iterator[StreamEvent]:
    """Yield the stages of an answer that found nothing."""
    times = {"elapsed_ms": 1.0, "took_ms": 1.0}
    yield IntentEvent(
        question=question.q,
        tenant=tenant,
        principal=principal or "*",
        budget_tokens=question.budget_tokens,
        intent=Intent(),
        **times,
    )
    yield EntitiesEvent(entities=(), **times)
    yield WeightsEvent(scope_weights=(), **times)
    yield KeywordEvent(hits=(), **times)
    yield SearchEvent(arms={"keyword": 0}, **times)
    yield FusionEvent(results=(), **times)
    yield ConflictsEvent(conflicts=(), **times)
    yield StructuredEvent(structured=(), **times)
    context = "x" * 20_000_000 if "heavy" in question.q else "<cortex-context>\n</cortex-context>"
    yield ContextEvent(context=context, context_tokens=4, citations=(), **times)


def make_parts(answers: SteeredAnswers | None = None) -> Parts:
    """Parts in memory, with a clock that stands still."""
    clock = ManualClock(NOW)
    return Parts(
        clock=clock,
        reader=EmptyStore(),
        graph=MemoryGraph(),
        log=MemoryLog(4, clock),
        answers=answers or SteeredAnswers(),
    )


@asynccontextmanager
async def in_process(settings: Settings, parts: Parts) -> AsyncIterator[httpx.AsyncClient]:
    """Run the service in this event loop; responses come whole, so this is for JSON only."""
    app = create_app(settings, parts)
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope, receive, send):
            await app({**scope, "state": dict(state)}, receive, send)

        transport = httpx.ASGITransport(with_state, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
            yield client


@dataclass
class Served:
    """A running server: its address, and the parts and settings behind it."""

    url: str
    server: uvicorn.Server
    parts: Parts


@contextlib.contextmanager
def served(make: Callable[[], object], parts: Parts) -> Iterator[Served]:
    """Run an application on a real uvicorn in a thread of its own, on a free port of loopback."""
    config = uvicorn.Config(make(), host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="test-server")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", server, parts)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"


def wait_until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait until a condition holds; fail when it never does."""
    pause = threading.Event()
    for _ in range(int(within_s / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    msg = f"not within {within_s:g} s: {condition}"
    raise AssertionError(msg)


async def until(condition, within_s=10.0):
    """Wait in an event loop until a condition (which may be awaitable) holds; fail when it never does."""
    async with asyncio.timeout(within_s):
        while True:
            value = condition()
            if await value if inspect.isawaitable(value) else value:
                return
            await asyncio.sleep(0.01)
