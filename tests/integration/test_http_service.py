"""The service about itself: routes, health, readiness, figures, first page, log."""

import anyio
import pytest
import structlog

from query.app import create_app
from shared.errors import DiskFull, Forbidden, StoreUnavailable
from shared.settings import Settings
from tests.integration.http_service import in_process, make_parts, until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

PROBLEM = "application/problem+json"


class Feed:
    caught_up = False


@pytest.fixture
def parts():
    return make_parts()


@pytest.fixture
async def client(parts):
    async with in_process(Settings(), parts) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/context/", 404),
        ("PUT", "/v1/context", 405),
        ("DELETE", "/v1/events", 405),
        ("HEAD", "/v1/context", 405),
        ("PATCH", "/v1/units/u", 405),
        ("BREW", "/", 405),
    ],
)
async def test_refusals_of_the_framework_are_problems_too(client, method, path, status):
    """One shape for everything that is refused."""
    response = await client.request(method, path)
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    if status == 405:
        assert response.headers["allow"]


async def test_every_response_has_an_id_that_problems_repeat(client):
    """So that a caller's report leads to the line in the log."""
    response = await client.get("/nothing")
    request_id = response.headers["cortex-request-id"]
    assert response.json()["instance"] == f"urn:cortex:request:{request_id}"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert (await client.get("/healthz")).headers["cortex-request-id"] != request_id


async def test_the_service_is_ready_when_every_part_is(client):
    assert (await client.get("/readyz")).json() == {"ready": True, "reasons": {}}
    assert (await client.get("/healthz")).json() == {"status": "ok", "failed": {}}


async def test_what_is_not_ready_is_named(parts):
    """503 with a reason for each part: the graph that reads, the store that fails, the log that cannot grow."""

    async def ping():
        raise StoreUnavailable("unreadable")

    async def full():
        raise DiskFull("full")

    parts.feed, parts.reader.ping, parts.log.ping = Feed(), ping, full
    async with in_process(Settings(), parts) as client:
        response = await client.get("/readyz")
        assert response.status_code == 503
        assert set(response.json()["reasons"]) == {"graph", "store", "log"}
        assert response.json()["reasons"]["store"] == "unreadable"
        parts.feed.caught_up = True
        assert "graph" not in (await client.get("/readyz")).json()["reasons"]
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("ending", ["raises", "returns"])
async def test_a_background_task_that_ends_makes_the_service_unhealthy(parts, ending):
    """Requests go on being answered; the health says that a restart is due."""

    async def run():
        if ending == "raises":
            raise RuntimeError("secret")

    parts.background["graph-feed"] = run
    async with in_process(Settings(), parts) as client:

        async def unhealthy():
            return (await client.get("/healthz")).status_code == 503

        await until(unhealthy)
        health = (await client.get("/healthz")).json()
        assert health["status"] == "failed"
        assert set(health["failed"]) == {"graph-feed"}
        assert "secret" not in str(health)
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.post("/v1/context", json={"q": "why?"})).status_code == 200


async def test_background_tasks_end_with_the_service(parts):
    """They are owned: nothing runs on."""
    ended = []

    async def run():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    parts.background["task"] = run
    async with in_process(Settings(), parts) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert ended == []
    assert ended == [True]


async def test_figures_tell_requests_stages_and_lag(client, parts):
    """By route and status; no label holds a tenant, a principal or a word of a question."""
    await client.post("/v1/context", json={"q": "a very private question", "principal": "ana"})
    await client.get("/v1/units/private-id")
    unit = {"id": "u", "text": "x", "type": "decision", "scope": {"level": "team", "entity_id": "a"}}
    event = {"id": "1", "source": "/s", "tenant": "demo", "type": "unit.asserted", "data": unit}
    await client.post("/v1/events", json=event)
    text = (await client.get("/metrics")).text
    for line in (
        'cortex_requests_total{method="POST",route="/v1/context",status="200"} 1.0',
        'cortex_requests_total{method="GET",route="/v1/units/{id:path}",status="404"} 1.0',
        'cortex_stage_seconds_count{stage="intent"} 1.0',
        'cortex_answers_total{outcome="complete"} 1.0',
        'cortex_events_appended_total{duplicate="false",topic="cortex.events"} 1.0',
        "cortex_degraded_answers_total 0.0",
        "cortex_running_answers 0.0",
        "cortex_graph_caught_up 1.0",
        "cortex_ingest_lag_events 1.0",
    ):
        assert line in text.splitlines(), line
    assert "private" not in text
    assert "ana" not in text
    parts.reader.marks["cortex.events", 0] = 10**9
    parts.reader.marks |= {("cortex.events", n): 10**9 for n in range(4)}
    assert "cortex_ingest_lag_events 0.0" in (await client.get("/metrics")).text


async def test_the_first_page_says_what_this_is_and_whom_it_trusts(client):
    """As JSON; a browser gets the page."""
    index = (await client.get("/")).json()
    assert index["trusted"] is True
    assert "trusts every caller" in index["access"]
    assert "POST /v1/context" in index["addresses"]
    page = await client.get("/", headers={"accept": "text/html,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    assert 'id="ask"' in page.text


async def test_a_page_of_another_site_is_refused_in_trusted_mode(client):
    """By the name it calls us (DNS rebinding), or by where it says it comes from."""
    rebound = await client.get("/v1/status", headers={"host": "evil.example"})
    assert (rebound.status_code, rebound.headers["content-type"]) == (421, PROBLEM)
    crossing = await client.post("/v1/events", content=b"[]", headers={"origin": "https://evil.example"})
    assert (crossing.status_code, crossing.json()["type"]) == (403, "/problems/forbidden")
    assert (await client.get("/readyz", headers={"host": "localhost:8420"})).status_code == 200


async def test_the_line_in_the_log_has_no_word_of_the_question(client):
    """Ids, route, status, time, outcome; the address with its question is not written either."""
    with structlog.testing.capture_logs() as lines:
        await client.get("/v1/context", params={"q": "a very private question"})
    (line,) = [line for line in lines if line["event"] == "http.request"]
    assert (line["route"], line["status"], line["method"]) == ("/v1/context", 200, "GET")
    assert "private" not in str(lines)


async def test_an_error_of_ours_is_a_problem_that_quotes_nothing(parts):
    """The traceback stands in the log under the request's id."""

    async def tenants():
        raise RuntimeError("password=hunter2")

    parts.reader.tenants = tenants
    async with in_process(Settings(), parts) as client:
        with structlog.testing.capture_logs() as lines:
            response = await client.get("/metrics")
    assert (response.status_code, response.json()["type"]) == (500, "/problems/internal")
    assert "hunter2" not in response.text
    (line,) = [line for line in lines if line["event"] == "request.broke"]
    assert line["request_id"] == response.headers["cortex-request-id"]
    assert "RuntimeError" in line["traceback"]


def test_an_address_beyond_loopback_without_tokens_is_refused_at_once():
    """The application is not even built."""
    with pytest.raises(Forbidden):
        create_app(Settings(host="0.0.0.0"))
