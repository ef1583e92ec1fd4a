"""The rows of the table in query/stream.py that need a signal, a stalled reader, or two ends at once."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from httpx_sse import aconnect_sse
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.routing import Route

from query.admission import Admission
from query.metrics import Metrics
from query.stream import AnswerStream, Asked, Desk, StreamTimes
from schemas.questions import Question
from tests.integration.http_service import SteeredAnswers, make_parts, served, until, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

STREAM = "/v1/context/stream"


@asynccontextmanager
async def process():
    """Run the service as a process and end it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parents[2]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.http_process", str(port),
        cwd=root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            await until(lambda: answers(client), within_s=30)
            yield child, client
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def answers(client):
    """Whether the service answers a new connection."""
    try:
        return (await client.get("/healthz", headers={"connection": "close"})).status_code == 200
    except httpx.TransportError:
        return False


async def ended_cleanly(child):
    """The process is gone before any grace is over, and left no traceback or broken response in its log."""
    async with asyncio.timeout(8):
        _, log = await child.communicate()
    assert child.returncode in (0, -signal.SIGTERM), log.decode()
    assert b"Traceback" not in log
    assert b"without completing response" not in log


async def test_a_server_that_shuts_down_says_goodbye():
    """``closing`` with a time to come back, then the end, then the process is gone."""
    async with process() as (child, client):
        async with aconnect_sse(client, "POST", STREAM, json={"q": "hold"}) as source:
            messages = source.aiter_sse()
            assert (await anext(messages)).event == "intent"
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(8):
                rest = [message async for message in messages]
        assert [message.event for message in rest] == ["closing"]
        assert rest[0].retry == json.loads(rest[0].data)["retry_ms"] == 1000
        await ended_cleanly(child)


async def test_a_stream_that_had_not_begun_still_begins_and_says_goodbye():
    """Whoever asked before the signal learns more than that the connection broke."""
    async with process() as (child, client):
        asked = asyncio.create_task(client.post(STREAM, json={"q": "late hold"}))
        async with httpx.AsyncClient(base_url=client.base_url) as other:
            await until(lambda: runs(other))
            child.send_signal(signal.SIGTERM)

            async def refuses():
                return not await answers(other)

            await until(refuses)
        child.send_signal(signal.SIGUSR1)
        async with asyncio.timeout(8):
            response = await asked
        events = [line.removeprefix("event: ") for line in response.text.splitlines() if line.startswith("event: ")]
        assert events == ["intent", "closing"]
        await ended_cleanly(child)


async def runs(client):
    return "cortex_running_answers 1.0" in (await client.get("/metrics")).text


class Wire:
    """Both ends of one request in this event loop: what is sent waits until the reader takes it."""

    def __init__(self):
        self.taking = asyncio.Event()
        self.left = asyncio.Event()
        self.waiting = 0
        self.events = []
        self.finished = False

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.waiting += 1
        await self.taking.wait()
        body = message.get("body", b"").decode()
        self.events += [line.removeprefix("event: ") for line in body.splitlines() if line.startswith("event: ")]
        self.finished = message["type"] == "http.response.body" and not message.get("more_body")


@pytest.fixture
def steered():
    return SteeredAnswers()


@pytest.fixture
def metrics():
    return Metrics()


def desk_of(steered, metrics, **times):
    admission = Admission(running=1, waiting=1, metrics=metrics)
    return Desk(steered, admission, metrics, StreamTimes(**({"heartbeat_s": 60, "limit_s": 60} | times)))


def stream_of(desk, question):
    return AnswerStream(desk, Asked(Question(q=question), tenant="demo", principal=None, request_id="r"))


def outcomes(metrics):
    lines = metrics.render().decode().splitlines()
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("cortex_answers_total{")}


@asynccontextmanager
async def running(stream, wire):
    scope = {"type": "http", "method": "POST"}
    task = asyncio.create_task(stream(scope, wire.receive, wire.send))
    try:
        yield task
        async with asyncio.timeout(10):
            await task
    finally:
        task.cancel()


async def test_complete_then_shutdown_complete_wins(steered, metrics, monkeypatch):
    """The answer lay in the queue before the signal; a slow reader still gets all of it and no goodbye."""
    wire = Wire()
    async with running(stream_of(desk_of(steered, metrics), "why?"), wire):
        await until(lambda: steered.ended == 1 and wire.waiting)
        monkeypatch.setattr(AppStatus, "should_exit", True)
        wire.taking.set()
    assert (wire.events[-1], wire.finished) == ("complete", True)
    assert "closing" not in wire.events
    assert outcomes(metrics) == {"complete": 1}


async def test_shutdown_then_complete_closing_wins(steered, metrics, monkeypatch):
    """Nothing comes after the goodbye, and the work is cancelled."""
    wire = Wire()
    wire.taking.set()
    async with running(stream_of(desk_of(steered, metrics), "hold"), wire):
        await until(lambda: wire.events == ["intent"])
        monkeypatch.setattr(AppStatus, "should_exit", True)
        await until(lambda: "closing" in wire.events)
        steered.resumed.set()
    assert (wire.events, wire.finished) == (["intent", "closing"], True)
    assert steered.ended == 1
    assert outcomes(metrics) == {"closing": 1}


async def test_a_farewell_that_cannot_be_sent_is_given_up_after_the_grace(steered, metrics, monkeypatch):
    """A reader that takes nothing does not hold up the shutdown."""
    wire = Wire()
    async with running(stream_of(desk_of(steered, metrics, grace_s=0.2), "hold"), wire):
        await until(lambda: wire.waiting)
        monkeypatch.setattr(AppStatus, "should_exit", True)
    assert (wire.events, wire.finished, steered.ended) == ([], False, 1)


async def test_leaving_wins_over_everything(steered, metrics):
    """Also over a complete answer that was not read."""
    wire = Wire()
    async with running(stream_of(desk_of(steered, metrics), "why?"), wire):
        await until(lambda: steered.ended == 1 and wire.waiting)
        wire.left.set()
    assert (wire.events, wire.finished) == ([], False)


async def test_a_failure_then_shutdown_the_error_wins(steered, metrics, monkeypatch):
    """It was in the queue first."""
    steered.failure = RuntimeError("x")
    wire = Wire()
    async with running(stream_of(desk_of(steered, metrics), "fail then"), wire):
        await until(lambda: steered.ended == 1 and wire.waiting)
        monkeypatch.setattr(AppStatus, "should_exit", True)
        wire.taking.set()
    assert (wire.events, wire.finished) == (["intent", "error"], True)


async def test_a_cancelled_request_stops_the_work(steered, metrics):
    """The server may end a request by force: the slot is free again."""
    wire = Wire()
    wire.taking.set()
    desk = desk_of(steered, metrics)
    task = asyncio.create_task(stream_of(desk, "hold")({"type": "http", "method": "POST"}, wire.receive, wire.send))
    await until(lambda: wire.events == ["intent"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steered.ended == 1
    async with running(stream_of(desk, "why?"), wire):
        pass
    assert wire.events[-1] == "complete"


def test_a_reader_that_stalls_is_given_up(metrics):
    """After ``send_s`` without taking anything; the work ended long before by itself."""
    steered = SteeredAnswers()

    async def endpoint(_):
        return stream_of(desk_of(steered, metrics, send_s=0.3), "heavy")

    parts = make_parts(steered)
    with served(lambda: Starlette(routes=[Route("/", endpoint)]), parts) as service:
        host, port = service.url.removeprefix("http://").split(":")
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect((host, int(port)))
            stalled.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: outcomes(metrics).get("stalled") == 1)
            assert steered.ended == 1
