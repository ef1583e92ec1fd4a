"""Incoming webhooks (C67, inbound): who may send, what comes twice, and how much."""

import asyncio
import base64
import hmac
import json
import secrets
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from query.app import create_app
from query.webhooks import BODY_BYTES
from schemas.commands import JobState, JoinJob, accepted
from shared.errors import InvalidInput
from shared.logs.memory import MemoryLog
from shared.settings import Settings
from shared.stores.memory import MemoryStore
from tests.integration.http_service import in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

PATH = "/v1/webhooks/reindex"
BODY = {"stage": "embed", "select": {"scope": "team/core"}, "reason": "the model was tuned"}


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


OLD, NEW, BETA = new_secret(), new_secret(), new_secret()


def signed(secret: str, message_id: str, body: bytes, at: datetime | None = None) -> dict[str, str]:
    """Return the headers that a sender makes."""
    at = at or datetime.now(UTC)
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, body.decode()),
    }


@pytest.fixture
def settings(tmp_path) -> Settings:
    path = tmp_path / "webhooks"
    lines = [("acme", OLD), ("acme", NEW), ("beta", BETA)]
    path.write_text("\n".join(json.dumps({"tenant": tenant, "secret": secret}) for tenant, secret in lines) + "\n")
    return Settings(webhook_secrets_file=path)


@pytest.fixture
def parts():
    plain = make_parts()
    return replace(plain, reader=MemoryStore(plain.clock))


@pytest.fixture
async def client(settings, parts):
    async with in_process(settings, parts) as client:
        yield client


async def send(client, body=BODY, *, secret=NEW, message_id="m-1", at=None, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(PATH, content=content, headers={**signed(secret, message_id, content, at), **headers})


async def commands(parts, tenant="acme"):
    return await parts.log.ordered(tenant, limit=2_000)


async def test_a_signed_message_orders_a_job_for_the_tenant_of_its_secret(client, parts):
    answer = await send(client)
    (command,) = await commands(parts)
    assert answer.status_code == 202
    assert answer.json()["address"] == f"/v1/jobs/{command.id}"
    assert (command.requested_by, command.reason) == ("webhook", "the model was tuned")
    assert (command.order.stage, command.order.select.scope) == ("embed", "team/core")
    assert (await send(client, secret=BETA, message_id="m-2")).status_code == 202
    assert len(await commands(parts, "beta")) == 1


async def test_both_secrets_count_while_they_are_rotated_and_any_signature_of_several(client):
    assert (await send(client, secret=OLD)).status_code == 202
    content = json.dumps(BODY).encode()
    headers = signed(NEW, "m-2", content)
    wrong = base64.b64encode(bytes(32)).decode()
    headers["webhook-signature"] = f"v1,{wrong} v1a,asymmetric {headers['webhook-signature']}"
    assert (await client.post(PATH, content=content, headers=headers)).status_code == 202


async def test_the_envelope_of_an_event_is_taken_too(client, parts):
    answer = await send(client, {"type": "reindex.requested", "timestamp": "2026-03-01T10:00:00Z", "data": BODY})
    assert answer.status_code == 202
    (command,) = await commands(parts)
    assert command.order.select.scope == "team/core"


@pytest.mark.parametrize("seconds", [-301, 301, -86_400])
async def test_a_timestamp_beyond_five_minutes_is_refused(client, parts, seconds):
    answer = await send(client, at=datetime.now(UTC) + timedelta(seconds=seconds))
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/bad-signature")
    assert await commands(parts) == []


async def test_a_timestamp_within_five_minutes_is_taken(client):
    assert (await send(client, at=datetime.now(UTC) - timedelta(seconds=280))).status_code == 202


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,%%%"},
        {"webhook-signature": "a,b,c"},
        {"webhook-signature": "v1,AAAA " * 2_000},
        {"webhook-signature": ""},
        {"webhook-id": "m-2"},
        {"webhook-id": ""},
        {"webhook-timestamp": "now"},
        {"webhook-timestamp": "nan"},
        {"webhook-timestamp": "1e400"},
        {"webhook-timestamp": ""},
    ],
    ids=str,
)
async def test_what_is_not_signed_is_refused_and_nothing_is_kept(client, parts, changed):
    answer = await send(client, **changed)
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/bad-signature")
    assert await commands(parts) == []


async def test_a_changed_body_another_secret_and_bytes_that_nobody_signed_are_refused(client, parts):
    content = json.dumps(BODY).encode()
    changed = await client.post(PATH, content=content.replace(b"core", b"card"), headers=signed(NEW, "m", content))
    stranger = await send(client, secret=new_secret())
    no_text = await client.post(PATH, content=b"\xff\xfe", headers=signed(NEW, "m", content))
    assert [answer.status_code for answer in (changed, stranger, no_text)] == [401, 401, 401]
    assert await commands(parts) == []


async def test_a_message_that_comes_again_changes_nothing_whatever_became_of_its_job(client, parts):
    first = await send(client)
    (command,) = await commands(parts)
    again = await send(client)
    assert (first.status_code, again.status_code) == (202, 200)
    assert (again.json()["duplicate"], again.json()["job"]["id"]) == (True, command.id)
    await parts.reader.save_job("acme", accepted(command).model_copy(update={"state": JobState.DONE}))
    late = await send(client)
    assert (late.status_code, late.json()["job"]["state"]) == (200, "done")
    assert await commands(parts) == [command]


async def test_that_a_message_has_come_survives_a_restart(settings, parts):
    for _ in range(2):
        async with in_process(settings, parts) as client:
            answer = await send(client)
    assert answer.json()["duplicate"]


async def test_a_joined_message_that_comes_again_after_the_job_orders_no_other(client, parts):
    await send(client, message_id="first")
    joined = await send(client, message_id="second")
    assert (joined.status_code, joined.json()["joined"]) == (202, True)
    second, first = await commands(parts)
    assert second.order == JoinJob(job=first.id)
    await parts.reader.save_job("acme", accepted(first).model_copy(update={"state": JobState.DONE}))
    again = await send(client, message_id="second")
    assert (again.status_code, again.json()["duplicate"], again.json()["job"]["id"]) == (200, True, first.id)
    assert (await client.get("/v1/jobs", params={"tenant": "acme"})).json()["jobs"][0]["id"] == first.id


async def test_a_message_equal_to_one_whose_job_runs_orders_another(client, parts):
    """Case C67: one job for equal requests, but never one whose pages are passed already."""
    await send(client, message_id="first")
    (first,) = await commands(parts)
    await parts.reader.save_job("acme", accepted(first).model_copy(update={"state": JobState.RUNNING, "done": 16}))
    answers = [await send(client, message_id=name) for name in ("second", "third")]
    assert [(answer.status_code, answer.json()["joined"]) for answer in answers] == [(202, False), (202, True)]
    assert len({answer.json()["job"]["id"] for answer in answers} | {first.id}) == 2


async def test_a_thousand_equal_calls_in_a_minute_make_one_job(client, parts):
    answers = await asyncio.gather(*(send(client, message_id=f"m-{number}") for number in range(1_000)))
    codes = Counter(answer.status_code for answer in answers)
    assert codes == {202: 60, 429: 940}
    assert len({answer.json()["job"]["id"] for answer in answers if answer.status_code == 202}) == 1
    jobs = [command for command in await commands(parts) if not isinstance(command.order, JoinJob)]
    assert len(jobs) == 1
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert (refused.json()["type"], refused.headers["retry-after"]) == ("/problems/rate-limited", "1")


async def test_the_same_message_a_thousand_times_makes_one_job_and_no_other_command(client, parts):
    answers = await asyncio.gather(*(send(client) for _ in range(1_000)))
    codes = Counter(answer.status_code for answer in answers)
    assert codes == {202: 1, 200: 59, 429: 940}
    assert len(await commands(parts)) == 1


async def test_a_tenants_share_comes_back_and_another_tenants_is_its_own(client, parts):
    codes = [(await send(client)).status_code for _ in range(61)]
    assert (codes[59], codes[60]) == (200, 429)
    assert (await send(client, secret=BETA)).status_code == 202
    parts.clock.advance(1)
    assert (await send(client)).status_code == 200


async def test_a_body_beyond_64_kb_is_refused_before_its_signature(client):
    large = await send(client, b" " * (BODY_BYTES + 1))
    huge = await client.post(PATH, content=b" " * 10_000_000)
    assert [(answer.status_code, answer.json()["extra"]["limit"]) for answer in (large, huge)] == [
        (413, BODY_BYTES)
    ] * 2


@pytest.mark.parametrize("body", [b"{", {"stage": "store"}, {"stage": "embed", "more": 1}, [], b"null"], ids=str)
async def test_a_wrong_body_is_refused_after_its_signature(client, parts, body):
    assert (await send(client, body)).status_code == 400
    assert await commands(parts) == []


def signed_bytes(secret: str, message_id: str, body: bytes, at: datetime) -> dict[str, str]:
    """Sign bytes that are no text, by the specification: HMAC-SHA256 over id, timestamp and body, joined by full stops."""
    seconds = str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.digest(key, b".".join((message_id.encode(), seconds.encode(), body)), "sha256")
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


async def test_signed_bytes_that_are_no_text_are_the_bodys_fault_and_not_the_signatures(client, parts):
    body = b'{"stage": "embed", "reason": "caf\xe9"}'
    now = datetime.now(UTC)
    answer = await client.post(PATH, content=body, headers=signed_bytes(NEW, "m-1", body, now))
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-input")
    assert "UTF-8" in fault["message"]
    assert f"byte {body.index(0xE9)} is 0xe9" in fault["message"], "where it is, counted from 0"
    for headers in (
        signed_bytes(new_secret(), "m-2", body, now),
        signed_bytes(NEW, "m-2", body, now - timedelta(seconds=301)),
        signed_bytes(NEW, "m-2", body + b" ", now),
    ):
        assert (await client.post(PATH, content=body, headers=headers)).status_code == 401
    assert await commands(parts) == []


async def test_without_secrets_there_are_no_webhooks(parts):
    async with in_process(Settings(), parts) as client:
        answer = await send(client)
    assert answer.status_code == 404
    assert "CORTEX_WEBHOOK_SECRETS_FILE" in answer.json()["detail"]


async def test_a_log_that_is_away_is_said_and_the_same_message_is_taken_later(settings, parts):
    await parts.log.close()
    async with in_process(settings, parts) as client:
        refused = await send(client)
    async with in_process(settings, replace(parts, log=MemoryLog(4, parts.clock))) as client:
        taken = await send(client)
    assert (refused.status_code, taken.status_code) == (503, 202)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        '{"tenant": "acme"}',
        '{"tenant": "acme", "secret": "hush"}',
        '{"tenant": "acme", "secret": "whsec_c2hvcnQ="}',
        f'{{"tenant": "acme", "secret": "{OLD}"}}\n{{"tenant": "beta", "secret": "{OLD}"}}',
    ],
    ids=["none", "incomplete", "not base64", "too short", "of two tenants"],
)
def test_a_secrets_file_that_cannot_be_used_stops_the_start_and_shows_no_secret(tmp_path, lines):
    path = tmp_path / "webhooks"
    path.write_text(lines)
    with pytest.raises(InvalidInput) as caught:
        create_app(Settings(webhook_secrets_file=path))
    assert "hush" not in str(caught.value)
    assert OLD not in str(caught.value)
