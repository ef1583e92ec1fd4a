"""Every row of the table in query/stream.py: how a stream ends, over a real server."""

import asyncio
import json
import socket

import httpx
import pytest
from httpx_sse import aconnect_sse
from pydantic import TypeAdapter

from query.app import create_app
from query.fold import fold
from schemas.answers import Answer
from schemas.stream import EVENT_NAMES, StreamEvent
from shared.errors import AllSourcesLost, StoreUnavailable
from shared.settings import Settings
from tests.integration.http_service import SteeredAnswers, make_parts, served, until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

STREAM = "/v1/context/stream"
EVENTS = TypeAdapter(StreamEvent)


@pytest.fixture
def answers():
    """Answers that a test steers; whatever still holds is released at the end."""
    steered = SteeredAnswers()
    yield steered
    steered.released.set()
    steered.resumed.set()


@pytest.fixture
def settings():
    return Settings(heartbeat_s=0.1, stream_limit_s=30, concurrent_answers=16, waiting_answers=400)


@pytest.fixture
def service(answers, settings):
    parts = make_parts(answers)
    with served(lambda: create_app(settings, parts), parts) as running:
        yield running


@pytest.fixture
async def client(service):
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=service.url, timeout=20, limits=limits) as client:
        yield client


async def read(client, question, **options):
    """Read a stream to its end."""
    async with aconnect_sse(client, "POST", STREAM, json={"q": question}, **options) as source:
        source.response.raise_for_status()
        return [message async for message in source.aiter_sse()]


async def figure(client, name):
    """Read one figure of /metrics."""
    text = (await client.get("/metrics")).text
    return float(next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")))


async def nothing_runs(client, within_s=2.0):
    """Wait until no answer is worked on."""

    async def idle():
        return not await figure(client, "cortex_running_answers") and not await figure(client, "cortex_waiting_answers")

    await until(idle, within_s)


async def test_a_complete_stream_has_numbered_stages_and_one_end(client):
    """Ids count within the request, names are stages, the last is ``complete``; the first tells when to come back."""
    messages = await read(client, "why blue?")
    assert [message.event for message in messages] == [*EVENT_NAMES[:9], "complete"]
    prefixes = {message.id.rpartition("-")[0] for message in messages}
    assert len(prefixes) == 1
    assert [message.id.rpartition("-")[2] for message in messages] == [str(n) for n in range(1, 11)]
    assert messages[0].retry == 1000


async def test_the_folded_stream_is_the_json_answer(client):
    """A caller who reads stages knows what a caller who waits knows."""
    messages = await read(client, "why blue?")
    events = [EVENTS.validate_json(message.data) for message in messages]
    answer = Answer.model_validate((await client.post("/v1/context", json={"q": "why blue?"})).json())
    assert fold(events) == answer
    assert events[-1].answer == answer


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/v1/context", "text/event-stream"),
        ("GET", STREAM, "*/*"),
        ("POST", "/v1/context", "text/event-stream"),
        ("POST", "/v1/context", "application/json;q=0.5, text/event-stream"),
        ("POST", STREAM, "application/json"),
    ],
)
async def test_a_stream_is_asked_for_by_address_or_by_accept(client, method, path, accept):
    """All four addresses give the same stream."""
    asked = {"params": {"q": "why?"}} if method == "GET" else {"json": {"q": "why?"}}
    response = await client.request(method, path, headers={"accept": accept}, **asked)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.count("event: complete\n") == 1


async def test_a_failure_before_the_first_event_is_a_problem_response(client, answers):
    """Its status and type say what failed; nothing claims to be a stream."""
    answers.failure = AllSourcesLost()
    response = await client.post(STREAM, json={"q": "fail first"})
    assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json")
    assert response.json()["type"] == "/problems/all-sources-lost"
    await nothing_runs(client)


async def test_a_failure_later_is_one_error_event_with_the_same_problem(client, answers):
    """Then the stream ends."""
    answers.failure = StoreUnavailable("gone for the moment")
    messages = await read(client, "fail then")
    assert [message.event for message in messages] == ["intent", "error"]
    problem = json.loads(messages[-1].data)["problem"]
    assert (problem["type"], problem["status"]) == ("/problems/store-unavailable", 503)
    await nothing_runs(client)


async def test_an_unknown_failure_keeps_its_words_to_itself(client, answers):
    """What we cannot name may quote what nobody should read."""
    answers.failure = RuntimeError("password=hunter2")
    early = await client.post(STREAM, json={"q": "fail first"})
    assert (early.status_code, early.json()["type"]) == (500, "/problems/internal")
    late = await read(client, "fail then")
    assert late[-1].event == "error"
    assert "hunter2" not in early.text + late[-1].data


async def test_a_heartbeat_keeps_an_idle_stream_alive(client, answers):
    """A comment, so that no client takes it for an event."""
    async with client.stream("POST", STREAM, json={"q": "hold"}) as response:
        async with asyncio.timeout(10):
            async for line in response.aiter_lines():
                if line == ": ping":
                    break
            assert line == ": ping"
    await nothing_runs(client)
    assert answers.begun == answers.ended


async def test_a_heartbeat_is_no_message(client, answers):
    """Not even an empty one, to a reader that keeps the last id."""
    async with aconnect_sse(client, "POST", STREAM, json={"q": "hold"}) as source:
        messages = source.aiter_sse()
        await anext(messages)
        pings = asyncio.create_task(asyncio.wait_for(anext(messages), 0.5))
        with pytest.raises(TimeoutError):
            await pings


async def test_a_client_that_leaves_after_the_first_event_stops_the_work(client, answers):
    """The generator is closed and makes no further call."""
    async with client.stream("POST", STREAM, json={"q": "hold"}) as response:
        await anext(response.aiter_lines())
        assert await figure(client, "cortex_running_answers") == 1
    await nothing_runs(client)
    assert (answers.ended, answers.store_calls) == (1, ["hold"])


@pytest.mark.parametrize("path", [STREAM, "/v1/context"])
async def test_a_client_that_leaves_before_the_first_byte_stops_the_work(client, answers, path):
    """As a stream and as JSON: a handler that runs on for nobody would hold its slot."""
    with pytest.raises(httpx.ReadTimeout):
        await client.post(path, json={"q": "late"}, timeout=httpx.Timeout(20, read=0.2))
    await nothing_runs(client)
    assert (answers.begun, answers.ended, answers.store_calls) == (1, 1, [])


@pytest.mark.parametrize("settings", [Settings(stream_limit_s=0.2)])
async def test_the_limit_before_the_first_byte_is_a_deadline_problem(client, answers, settings):
    """504, and the work is cancelled."""
    for path in (STREAM, "/v1/context"):
        response = await client.post(path, json={"q": "late"})
        assert (response.status_code, response.json()["type"]) == (504, "/problems/deadline")
    await nothing_runs(client)
    assert answers.ended == 2


@pytest.mark.parametrize("settings", [Settings(stream_limit_s=0.2)])
async def test_the_limit_after_the_first_byte_is_a_deadline_error_event(client, answers, settings):
    """The client is told, and the work is cancelled."""
    messages = await read(client, "hold")
    assert [message.event for message in messages] == ["intent", "error"]
    assert json.loads(messages[-1].data)["problem"]["status"] == 504
    await nothing_runs(client)


@pytest.mark.parametrize("settings", [Settings(concurrent_answers=1, waiting_answers=1)])
async def test_more_questions_than_places_are_refused_at_once(client, answers, settings):
    """503 with Retry-After; those who have a place are served."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.post(STREAM, json={"q": "late 1"}))
        await until(lambda: answers.begun == 1)
        waiting = group.create_task(client.post("/v1/context", json={"q": "2nd"}))
        await until(lambda: figure(client, "cortex_waiting_answers"))
        for path in (STREAM, "/v1/context"):
            refused = await client.post(path, json={"q": "3rd"})
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
            assert refused.headers["retry-after"] == "1"
        answers.released.set()
    assert running.result().status_code == waiting.result().status_code == 200
    assert answers.begun == 2


async def test_half_leave_a_quarter_leaves_early_and_all_slots_are_free_again(client, answers):
    """C39: 200 streams; after those who left, no store call comes, nothing runs, and 200 more questions are answered."""
    halves = asyncio.Semaphore(50)

    async def leave_after_first(number):
        async with halves, client.stream("POST", STREAM, json={"q": f"hold {number}"}) as response:
            await anext(response.aiter_lines())

    async def leave_before_first(number):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(STREAM, json={"q": f"late {number}"}, timeout=httpx.Timeout(20, read=0.3))

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(leave_after_first(number))
        for number in range(50):
            group.create_task(leave_before_first(number))
        stayed = [group.create_task(read(client, f"stay {number}")) for number in range(50)]
    assert [task.result()[-1].data[:300] for task in stayed if task.result()[-1].event != "complete"] == []
    await nothing_runs(client)
    calls = len(answers.store_calls)
    assert answers.begun == answers.ended

    more = await asyncio.gather(*(read(client, f"more {number}") for number in range(200)))
    assert all(messages[-1].event == "complete" for messages in more)
    assert len(answers.store_calls) == calls + 200 * 9
    await nothing_runs(client)


async def test_a_stalled_reader_holds_no_slot(service, client, answers):
    """The work runs to its end into the stream's own queue; the reader that takes nothing is not waited for."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as stalled:
        body = b'{"q": "heavy"}'
        head = f"POST {STREAM} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        stalled.sendall(head.encode() + body)
        await until(lambda: answers.ended == 1)
        await nothing_runs(client)
        assert (await read(client, "why?"))[-1].event == "complete"
