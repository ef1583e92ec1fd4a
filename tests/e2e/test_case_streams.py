"""Streams: a client that goes away stops the work, and holds no place."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

QUESTION = "Which ferry leaves from which harbour in winter?"
AT_ONCE = 16


@pytest.fixture
def asked(tenant):
    """A tenant with enough to search."""
    tenant.tell(*(tenant.unit(f"u{n}", f"Ferry {n} leaves from harbour {n % 7} in winter.") for n in range(60)))
    return tenant


def figure(tenant, name):
    """Read a gauge or counter."""
    text = tenant.product.http.get("/metrics").text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def nothing_runs(tenant):
    """No question runs or waits any more."""
    return figure(tenant, "cortex_running_answers") == figure(tenant, "cortex_waiting_answers") == 0


def connect(tenant):
    """Send a question for a stream on a socket of its own; read nothing."""
    host, port = tenant.product.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    path = httpx.QueryParams({"q": QUESTION, "tenant": tenant.name})
    connection.sendall(f"GET /v1/context/stream?{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return connection


def leave_before_the_first_byte(tenant):
    connect(tenant).close()


def leave_without_goodbye(tenant):
    """Reset the connection, as a network that breaks does."""
    connection = connect(tenant)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()


def leave_after_the_first_event(tenant):
    with connect(tenant) as connection:
        read = b""
        while b"\n\n" not in read.replace(b"\r\n", b"\n").partition(b"event: ")[2]:
            received = connection.recv(256)
            assert received, "the stream began"
            read += received
    assert b"event: intent" in read


def leave_a_json_question(tenant):
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=tenant.product.url, trust_env=False) as client:
        client.get("/v1/context", params={"q": QUESTION, "tenant": tenant.name}, timeout=httpx.Timeout(30, read=0.001))


def stay(tenant):
    own = Tenant(tenant.product, tenant.name)
    events = own.stream(QUESTION)
    assert events[-1][0] == "complete", events[-1]
    assert events[-1][1]["answer"]["results"]


def each_at_once(tenant, *actions):
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for future in [threads.submit(action, tenant) for action in actions]:
            future.result()


def test_of_two_hundred_streams_most_leave_and_every_place_is_free_again(asked):
    """Case C39: half leave after the first stage, a quarter before the first byte; two hundred more are served."""
    each_at_once(
        asked, *[leave_after_the_first_event, stay, leave_after_the_first_event, leave_before_the_first_byte] * 50
    )
    asked.eventually(lambda: nothing_runs(asked), "nothing runs once the last has left")
    searched = figure(asked, "cortex_stage_seconds_count")
    each_at_once(asked, *[stay] * 40)
    asked.eventually(lambda: nothing_runs(asked), "nothing runs")
    stages = len(asked.stream(QUESTION)) - 1
    done = figure(asked, "cortex_stage_seconds_count")
    assert done == searched + 41 * stages, "nobody worked for those who had left"


@pytest.mark.parametrize("leave", [leave_before_the_first_byte, leave_without_goodbye, leave_after_the_first_event])
def test_more_leave_than_there_are_places(asked, leave):
    """Case C39, the kind: a place that leaked would be missed after a few rounds."""
    each_at_once(asked, *[leave] * 60)
    asked.eventually(lambda: nothing_runs(asked), "nothing runs once the last has left")
    each_at_once(asked, *[stay] * AT_ONCE)


def test_who_waits_for_a_write_and_leaves_holds_no_place(asked):
    """Case C39, the kind: the wait for a token ends with the client too."""
    (accepted,) = asked.publish(asked.unit("later", "A ferry."))
    token = accepted["token"]
    with httpx.Client(base_url=asked.product.url, trust_env=False) as client:
        parameters = {"q": QUESTION, "tenant": asked.name, "min_token": token, "wait_ms": 10_000}
        with client.stream("GET", "/v1/context/stream", params=parameters) as response:
            assert response.status_code == 200
    asked.eventually(lambda: nothing_runs(asked), "nothing runs once the last has left")
    assert asked.ask(QUESTION, min_token=token, wait_ms=10_000)["stale"] is False


def test_a_stream_and_a_json_answer_say_the_same(asked):
    """Case C39 and C65, the kind: whoever stays gets every stage in order, and then exactly the answer."""
    answer, events = asked.ask_both(QUESTION)
    streamed = events[-1][1]["answer"]
    assert [name for name, _ in events].count("complete") == 1
    for field in ("citations", "context_tokens", "conflicts", "lost", "complete", "entities"):
        assert streamed[field] == answer[field], field
    assert [one["unit_id"] for one in streamed["results"]] == [one["unit_id"] for one in answer["results"]]
