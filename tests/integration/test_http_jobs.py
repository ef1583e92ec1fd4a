"""Ordering background jobs over HTTP, and hearing how far they are."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import orjson
import pytest
from httpx_sse import aconnect_sse

from query import job_stream
from query.access import hash_token
from query.app import create_app
from schemas.commands import CancelJob, Command, JobState, accepted
from shared.settings import Settings
from shared.stores.memory import MemoryStore
from tests.integration.http_service import in_process, make_parts, served

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@pytest.fixture
def parts():
    plain = make_parts()
    return replace(plain, reader=MemoryStore(plain.clock))


@pytest.fixture
async def client(parts):
    async with in_process(Settings(), parts) as client:
        yield client


async def commands(parts) -> list[Command]:
    return await parts.log.ordered("demo", limit=1_000)


async def ordered(client, **body) -> dict:
    answer = await client.post("/v1/reindex", json={"stage": "embed", **body})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def becomes(parts, job_id: str, state: JobState, **given):
    """Let ingest say how far a job is."""
    (command,) = await parts.log.ordered("demo", command_id=job_id)
    await parts.reader.save_job("demo", accepted(command).model_copy(update={"state": state, **given}))


async def test_an_order_is_kept_before_the_answer_and_has_a_job_at_once(client, parts):
    taken = await ordered(client, select={"scope": "team/core"}, reason="new release")
    (command,) = await commands(parts)
    assert (command.requested_by, command.reason, command.order.kind) == ("trusted caller", "new release", "reindex")
    assert taken == {
        "job": taken["job"],
        "address": f"/v1/jobs/{command.id}",
        "joined": False,
        "duplicate": False,
    }
    job = (await client.get(taken["address"])).json()
    assert (job["id"], job["state"], job["done"], job["total"]) == (command.id, "accepted", 0, None)
    assert job["order"]["select"]["scope"] == "team/core"


async def test_an_order_equal_to_one_that_has_not_begun_joins_its_job(client, parts):
    first = await ordered(client, select={"unit_ids": ["b", "a"]})
    again = await ordered(client, select={"unit_ids": ["a", "b", "b"]}, reason="another reason")
    other = await ordered(client, select={"unit_ids": ["a"]})
    assert (again["joined"], again["job"]["id"]) == (True, first["job"]["id"])
    assert not other["joined"]
    await becomes(parts, first["job"]["id"], JobState.DONE)
    assert not (await ordered(client, select={"unit_ids": ["a", "b"]}))["joined"]
    assert len(await commands(parts)) == 3


async def test_an_order_equal_to_one_that_runs_is_done_after_it(client, parts):
    """The pages that the running job has passed were made before this order: it would miss what changed since."""
    first = await ordered(client)
    await becomes(parts, first["job"]["id"], JobState.RUNNING, done=16)
    second = await ordered(client)
    third = await ordered(client)
    assert (second["joined"], second["job"]["state"]) == (False, "accepted")
    assert (third["joined"], third["job"]["id"]) == (True, second["job"]["id"])


async def test_changing_the_model_back_and_forth_ends_with_what_was_ordered_last(client, parts):
    """A change that waits is joined only by an equal one right behind it: another's would undo what it had ordered."""

    async def change(model: str) -> dict:
        answer = await client.post("/v1/models/change", json={"model": model})
        assert answer.status_code == 202, answer.text
        return answer.json()

    taken = [await change(model) for model in ("one", "two", "one", "one")]
    assert [answer["joined"] for answer in taken] == [False, False, False, True]
    assert [command.order.model for command in reversed(await commands(parts))] == ["one", "two", "one"]


async def test_many_equal_orders_at_once_make_one_job(client, parts):
    answers = await asyncio.gather(*(client.post("/v1/reindex", json={"stage": "resolve"}) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["job"]["id"] for answer in answers}) == 1
    assert len(await commands(parts)) == 1


async def test_jobs_are_listed_newest_first_begun_or_not(client, parts):
    names = []
    for scope in ("team/a", "team/b", "team/c"):
        names.append((await ordered(client, select={"scope": scope}))["job"]["id"])
        parts.clock.advance(1)
    await becomes(parts, names[0], JobState.DONE, done=7)
    await becomes(parts, names[1], JobState.RUNNING)
    found = (await client.get("/v1/jobs")).json()["jobs"]
    assert [(job["id"], job["state"]) for job in found] == [
        (names[2], "accepted"),
        (names[1], "running"),
        (names[0], "done"),
    ]
    assert [job["id"] for job in (await client.get("/v1/jobs", params={"limit": 1})).json()["jobs"]] == names[2:]


async def test_a_cancellation_is_kept_once_and_only_while_the_job_is_not_over(client, parts):
    job_id = (await ordered(client))["job"]["id"]
    answers = [await client.post(f"/v1/jobs/{job_id}/cancel") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [command.order for command in await commands(parts) if isinstance(command.order, CancelJob)] == [
        CancelJob(job=job_id)
    ]
    assert not (await ordered(client))["joined"], "nobody joins a job that is about to end"
    await becomes(parts, job_id, JobState.CANCELLED)
    late = await client.post(f"/v1/jobs/{job_id}/cancel")
    assert (late.status_code, late.json()["state"]) == (200, "cancelled")
    assert {job["id"] for job in (await client.get("/v1/jobs")).json()["jobs"]} > {job_id}


async def test_what_there_is_no_job_of_is_a_404(client):
    for method, path in (("GET", "/v1/jobs/no"), ("GET", "/v1/jobs/no/stream"), ("POST", "/v1/jobs/no/cancel")):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/reindex", {"stage": "store"}, "/stage"),
        ("/v1/reindex", {"stage": "embed", "select": {"scope": "core"}}, "/select/scope"),
        ("/v1/reindex", {"stage": "embed", "select": {"unit_ids": []}}, "/select/unit_ids"),
        ("/v1/reindex", {"stage": "embed", "also": 1}, "/also"),
        ("/v1/replay", {"stage": "resolve"}, "/stage"),
    ],
)
async def test_a_wrong_order_is_refused_with_its_field_and_nothing_is_kept(client, parts, path, body, field):
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert await commands(parts) == []


async def test_events_of_a_scope_can_be_ordered_to_be_replayed(client, parts):
    answer = await client.post("/v1/replay", json={"scope": "team/core", "reason": "repair"})
    assert answer.status_code == 202
    (command,) = await commands(parts)
    assert (command.order.kind, command.order.stage, command.order.scope) == ("replay", "embed", "team/core")


async def test_jobs_need_the_right_admin_and_show_the_callers_tenant_alone(parts, tmp_path):
    tokens = tmp_path / "tokens"
    entries = [("ask", "acme", ["ask", "publish"]), ("ann", "acme", ["admin"]), ("bob", "beta", ["admin"])]
    tokens.write_text(
        "\n".join(
            json.dumps({"sha256": hash_token(name), "tenant": tenant, "principal": f"person-{name}", "rights": rights})
            for name, tenant, rights in entries
        )
    )
    async with in_process(Settings(tokens_file=tokens), parts) as client:

        def as_(name):
            return {"authorization": f"Bearer {name}"}

        refused = await client.post("/v1/reindex", json={"stage": "embed"}, headers=as_("ask"))
        taken = await client.post("/v1/reindex", json={"stage": "embed"}, headers=as_("ann"))
        assert (refused.status_code, taken.status_code) == (403, 202)
        assert taken.json()["job"]["requested_by"] == "person-ann"
        address = taken.json()["address"]
        codes = {name: (await client.get(address, headers=as_(name))).status_code for name in ("ann", "bob", "ask")}
        assert codes == {"ann": 200, "bob": 404, "ask": 403}
        assert (await client.get("/v1/jobs", headers=as_("bob"))).json() == {"jobs": []}


# the stream, on a real server: in process a response comes whole


@asynccontextmanager
async def streamed(server, job_id):
    timeout = httpx.Timeout(30)
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=timeout) as client,
        aconnect_sse(client, "GET", f"/v1/jobs/{job_id}/stream") as source,
    ):
        yield source.aiter_sse()


async def an_order(parts) -> str:
    command = Command(
        id="job-1",
        tenant="demo",
        requested_by="person-ana",
        requested_at=parts.clock.now(),
        order={"kind": "reindex", "stage": "embed"},
    )
    assert await parts.log.order(command)
    return command.id


async def test_a_stream_tells_each_move_of_a_job_and_ends_with_it(parts):
    job_id = await an_order(parts)
    with served(lambda: create_app(Settings(), parts), parts) as server:
        async with streamed(server, job_id) as events:
            heard = [await anext(events)]
            await becomes(parts, job_id, JobState.RUNNING, done=1, total=2)
            heard.append(await anext(events))
            await becomes(parts, job_id, JobState.DONE, done=2, total=2)
            heard += [event async for event in events]
    assert [(event.event, orjson.loads(event.data)["done"]) for event in heard] == [
        ("progress", 0),
        ("progress", 1),
        ("complete", 2),
    ]


async def test_a_stream_that_lasts_too_long_says_so_and_when_to_come_back(parts):
    job_id = await an_order(parts)
    with served(lambda: create_app(Settings(stream_limit_s=0.2), parts), parts) as server:
        async with streamed(server, job_id) as events:
            heard = [event async for event in events]
    assert [event.event for event in heard] == ["progress", "closing"]
    assert heard[-1].retry == 1_000


async def test_streams_are_bounded_in_number(parts, monkeypatch):
    job_id = await an_order(parts)
    monkeypatch.setattr(job_stream, "STREAMS", 1)
    with served(lambda: create_app(Settings(), parts), parts) as server:
        async with streamed(server, job_id) as events, httpx.AsyncClient(base_url=server.url) as client:
            await anext(events)
            refused = await client.get(f"/v1/jobs/{job_id}/stream")
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
    assert "retry-after" in refused.headers
