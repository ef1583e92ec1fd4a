"""The door for events: what is kept, what is refused and why, and what becomes of what was kept."""

import json
from datetime import timedelta

import httpx
import orjson
import pytest

from query.access import hash_token
from query.app import create_app
from schemas import limits
from schemas.positions import Position
from schemas.status import DeadLetter
from shared.errors import DiskFull, LogUnavailable
from shared.settings import Settings
from tests.integration.http_service import NOW, in_process, make_parts, served

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

EVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def event(number=1, /, tenant="demo", **data):
    """A unit of the platform team."""
    unit = {"id": f"u-{number}", "text": f"Fact {number}.", "type": "decision"}
    unit |= {"scope": {"level": "team", "entity_id": "platform"}}
    return {
        "specversion": "1.0",
        "id": f"e-{number}",
        "source": "/tests",
        "type": "unit.asserted",
        "tenant": tenant,
        "data": unit | data,
    }


@pytest.fixture
def parts():
    return make_parts()


@pytest.fixture
async def client(parts):
    async with in_process(Settings(), parts) as client:
        yield client


async def post(client, value, kind=BATCH, **parameters):
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    return await client.post("/v1/events", content=body, headers={"content-type": kind}, params=parameters)


async def kept(parts):
    return [record.event_id for record in await parts.log.read(0, 1000)]


@pytest.mark.parametrize("kind", [EVENT, "application/json", "application/cloudevents+json; charset=utf-8"])
async def test_one_event_is_kept_and_its_token_is_its_place(client, parts, kind):
    """202 comes after the event is in the log."""
    response = await post(client, event(), kind)
    assert response.status_code == 202
    accepted = response.json()["accepted"][0]
    (record,) = await parts.log.read(0, 10)
    assert Position.from_token(accepted["token"]) == record.position
    assert accepted == {
        "id": "e-1", "source": "/tests", "token": accepted["token"], "unit_id": "u-1", "duplicate": False
    }  # fmt: skip
    assert json.loads(record.body)["data"]["text"] == "Fact 1."


@pytest.mark.parametrize("kind", [BATCH, "application/json"])
async def test_a_batch_is_kept_as_a_whole_with_a_token_each(client, parts, kind):
    """In order; the batch's own token is the last one's."""
    response = await post(client, [event(n) for n in range(5)], kind)
    tokens = [one["token"] for one in response.json()["accepted"]]
    assert len(set(tokens)) == 5
    assert response.json()["token"] == tokens[-1]
    assert await kept(parts) == [f"e-{n}" for n in range(5)]


async def test_the_same_event_again_is_a_duplicate_with_the_first_token(client, parts):
    """So that a producer who heard nothing can send everything again."""
    first = (await post(client, [event()])).json()["accepted"][0]
    again = (await post(client, [event(), event(2)])).json()["accepted"]
    assert again[0] == first | {"duplicate": True}
    assert await kept(parts) == ["e-1", "e-2"]


async def test_one_bad_event_and_nothing_of_the_batch_is_kept(client, parts):
    """The faults say which events and which fields, all of them at once."""
    batch = [event(1), event(2, text="  "), event(3), event(4, confidence=7, colour="red"), "no event"]
    response = await post(client, batch)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == "/problems/invalid-input"
    assert {fault["field"] for fault in problem["errors"]} == {
        "/1/data/text", "/3/data/confidence", "/3/data/colour", "/4"
    }  # fmt: skip
    assert await kept(parts) == []


async def test_a_dry_run_tells_the_faults_and_keeps_nothing(client, parts):
    """Also when everything is right."""
    response = await post(client, [event(1), event(2, text="")], validate="true")
    assert response.status_code == 200
    assert response.json()["valid"] == 1
    assert [fault["field"] for fault in response.json()["faults"]] == ["/1/data/text"]
    assert (await post(client, event(), EVENT, validate="true")).json() == {"valid": 1, "faults": []}
    assert await kept(parts) == []


async def test_feeds_can_use_the_slower_lane(client, parts):
    """``topic=bulk`` leads to cortex.bulk."""
    await post(client, [event()], topic="bulk")
    (record,) = await parts.log.read(0, 10)
    assert record.position.topic == "cortex.bulk"


POISON = {
    "not-json": (b"\xff\xfe", ""),
    "cut-short": (b'{"specversion": "1.0"', ""),
    "nan": (b'{"id": NaN}', ""),
    "lone-surrogate": (orjson.dumps(event()).replace(b"Fact", b"\\ud800"), ""),
    "nested": (b'{"ext":' + b"[" * 3000 + b"]" * 3000 + b"}", ""),
    "nested-in-an-extension": (orjson.dumps(event()).replace(b"}}}", b'}},"ext":' + b"[" * 900 + b"]" * 900 + b"}"), "/ext"),
    "nested-in-a-moment": (
        orjson.dumps(event(occurred_at={"at": "@", "zone": "UTC"})).replace(b'"@"', b"[" * 900 + b"]" * 900), None,
    ),
    "nul": (event(text="a\x00b"), "/data/text"),
    "white-space": (event(text=" \n\t"), "/data/text"),
    "unknown-kind": (event() | {"type": "unit.invented"}, "/type"),
    "no-tenant": ({k: v for k, v in event().items() if k != "tenant"}, "/tenant"),
    "later-major-version": (event() | {"schemaversion": "2.0"}, "/schemaversion"),
    "extension-with-structure": (event() | {"color": {"a": 1}}, "/color"),
    "extension-with-a-bad-name": (event() | {"data_base64": "aa"}, "/data_base64"),
    "too-large": (event() | {"ext": "x" * limits.EVENT_BYTES}, ""),
    "array": ([], ""),
    "number": (b"7", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", POISON)
async def test_poison_is_refused_at_the_door(client, parts, name):
    """C30: the problem points to the field, nothing is kept, and the next good event is."""
    value, pointer = POISON[name]
    response = await post(client, value, "application/json")
    assert response.status_code == 400, response.text
    faults = response.json()["errors"]
    assert pointer is None or [fault["field"] for fault in faults][:1] == [pointer]
    assert all(fault["message"] for fault in faults)
    assert (await post(client, [event()])).status_code == 202
    assert await kept(parts) == ["e-1"]


async def test_bounds_are_told(client):
    """More events than the limit, more bytes than the limit: 413, and the limit in a field of its own."""
    many = await post(client, [event(n) for n in range(limits.BATCH_EVENTS + 1)])
    assert (many.status_code, many.json()["extra"]) == (413, {"limit": limits.BATCH_EVENTS})
    large = await post(client, b" " * (limits.BATCH_BYTES + 1))
    assert (large.status_code, large.json()["extra"]) == (413, {"limit": limits.BATCH_BYTES})
    one = await post(client, b" " * (limits.EVENT_BYTES + 1), EVENT)
    assert (one.status_code, one.json()["extra"]) == (413, {"limit": limits.EVENT_BYTES})


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_is_refused_before_it_is_read(declared):
    """Over a real connection, with its length declared and in chunks: the answer comes, and the server goes on."""
    parts = make_parts()
    sent = 0

    def endless():
        nonlocal sent
        for _ in range(64):
            sent += 1
            yield b" " * limits.EVENT_BYTES

    with served(lambda: create_app(Settings(), parts), parts) as service, httpx.Client(base_url=service.url) as client:
        headers = {"content-type": BATCH} | ({"content-length": str(64 * limits.EVENT_BYTES)} if declared else {})
        try:
            response = client.post("/v1/events", content=endless(), headers=headers)
            assert response.status_code == 413
        except httpx.TransportError:
            assert sent < 64  # the server closed the connection while the client was still sending
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "", "application/xml", "multipart/form-data"])
async def test_other_media_types_are_refused(client, kind):
    """415, also for what a form of another site could send."""
    response = await post(client, event(), kind)
    assert (response.status_code, response.json()["type"]) == (415, "/problems/unsupported-media-type")


async def test_encoded_bodies_are_refused(client):
    """Instead of being misread."""
    response = await client.post("/v1/events", json={}, headers={"content-encoding": "gzip"})
    assert response.status_code == 415


def binary(structured):
    """The headers of an event in binary content mode."""
    return {f"ce-{name}": value for name, value in structured.items() if name != "data"}


async def test_an_event_in_binary_mode_is_kept_like_the_same_one_in_structured_mode(client, parts):
    """Attributes in ce- headers, percent-encoded; the data is the body."""
    headers = binary(event()) | {"ce-source": "/te%C3%BCsts", "ce-traceparent": "00-ab-cd-01"}
    response = await client.post("/v1/events", json=event()["data"], headers=headers)
    assert response.status_code == 202, response.text
    (record,) = await parts.log.read(0, 10)
    assert orjson.loads(record.body)["data"] == event()["data"] | orjson.loads(record.body)["data"]
    assert (record.source, record.event_id) == ("/teüsts", "e-1")
    again = await post(client, event() | {"source": "/teüsts"}, EVENT)
    assert again.json()["accepted"][0]["duplicate"] is True


@pytest.mark.parametrize(
    ("headers", "body", "field"),
    [
        ({"ce-tenant": ""}, b"{}", "/tenant"),
        ({"ce-source": "%ff"}, b"{}", "/source"),
        ({"content-type": "text/plain"}, b"hello", "/datacontenttype"),
        ({}, b"{nope", "/data"),
        ({}, b"", "/data"),
        ({"ce-specversion": "2.0"}, b"{}", "/specversion"),
    ],
)
async def test_a_fault_in_binary_mode_names_the_attribute(client, parts, headers, body, field):
    """By its place in the structured form."""
    given = {"content-type": "application/json"} | binary(event()) | headers
    response = await client.post("/v1/events", content=body, headers=given)
    assert response.status_code == 400, response.text
    assert field in {fault["field"] for fault in response.json()["errors"]}
    assert await kept(parts) == []


async def test_a_single_event_and_a_batch_are_told_apart_by_their_media_type(client):
    """An array is no event, an event is no batch."""
    assert (await post(client, [event()], EVENT)).status_code == 400
    assert (await post(client, event(), BATCH)).status_code == 400


@pytest.mark.parametrize(("failure", "status"), [(LogUnavailable(), 503), (DiskFull(), 507)], ids=["log", "disk"])
async def test_a_log_that_takes_nothing_is_said(parts, failure, status):
    """Never a 202 for what is not kept."""

    async def append(events, *, topic=""):
        raise failure

    parts.log.append = append
    async with in_process(Settings(), parts) as client:
        response = await post(client, [event()])
    assert response.status_code == status
    assert int(response.headers["retry-after"]) > 0


async def test_an_event_is_pending_then_stored(client, parts):
    """Stored means: the watermark of its partition has passed it, so it is searchable."""
    await post(client, [event()])
    status = (await client.get("/v1/events/e-1", params={"source": "/tests"})).json()
    assert (status["state"], status["tenant"]) == ("pending", "demo")
    position = Position.from_token(status["token"])
    parts.reader.marks[position.topic, position.partition] = position.number
    assert (await client.get("/v1/events/e-1")).json()["state"] == "stored"


def letter(**changes):
    fields = {
        "id": "d-1", "stage": "resolve", "cause": "invalid", "detail": "why", "attempts": 3, "topic": "cortex.events",
        "partition": 0, "offset": 7, "tenant": "demo", "event_id": "e-1", "event_source": "/tests",
        "failed_at": NOW + timedelta(seconds=1), "body": b"\xff\x00", "headers": (("h", b"\xfe"),),
    }  # fmt: skip
    return DeadLetter(**(fields | changes))


async def test_an_event_that_failed_says_where_and_why(client, parts):
    """A dead letter wins over the watermark, which passes it as well."""
    token = (await post(client, [event()])).json()["token"]
    position = Position.from_token(token)
    parts.reader.marks[position.topic, position.partition] = position.number
    await parts.log.bury(letter(partition=position.partition, offset=position.number))
    status = (await client.get("/v1/events/e-1")).json()
    assert {name: status[name] for name in ("state", "stage", "cause", "attempts")} == {
        "state": "failed", "stage": "resolve", "cause": "invalid", "attempts": 3
    }  # fmt: skip


async def test_an_event_is_found_by_its_token_before_the_log_knows_its_id(client, parts):
    """Kafka has no index by id: a process learns of it from the log, a moment later."""
    token = (await post(client, [event()])).json()["token"]
    parts.log.find = none_found
    assert (await client.get("/v1/events/e-1")).status_code == 404
    assert (await client.get("/v1/events/e-1", params={"token": token})).json()["state"] == "pending"
    assert (await client.get("/v1/events/e-2", params={"token": token})).status_code == 404
    other = Position.from_token(token).model_copy(update={"log": "another"}).token()
    assert (await client.get("/v1/events/e-1", params={"token": other})).status_code == 404
    broken = await client.get("/v1/events/e-1", params={"token": "no token"})
    assert (broken.status_code, broken.json()["type"]) == (400, "/problems/invalid-token")


async def none_found(tenant, event_id, source=None):
    return []


async def test_an_unknown_event_is_not_found_and_a_refused_one_says_why(client, parts):
    """What came over Kafka and could not be read was never accepted."""
    assert (await client.get("/v1/events/e-1")).status_code == 404
    await parts.log.bury(letter())
    response = await client.get("/v1/events/e-1")
    assert response.status_code == 404
    assert "invalid at stage resolve" in response.json()["detail"]


async def test_an_id_of_several_sources_asks_which(client):
    """CloudEvents are named by source and id together; ids may hold slashes."""
    await post(client, [event() | {"id": "a/b"}, event(2) | {"id": "a/b", "source": "/other"}])
    response = await client.get("/v1/events/a/b")
    assert (response.status_code, response.json()["errors"][0]["field"]) == (400, "source")
    assert (await client.get("/v1/events/a%2Fb", params={"source": "/other"})).json()["source"] == "/other"


@pytest.fixture
async def guarded(parts, tmp_path):
    """A service with tokens: a publisher and an administrator of acme, and one of globex."""
    rights = {
        "pub": ("acme", ["publish"]),
        "admin": ("acme", ["publish", "admin"]),
        "globex": ("globex", ["publish", "admin"]),
    }
    path = tmp_path / "tokens"
    lines = [
        {"sha256": hash_token(token), "tenant": tenant, "principal": "ana", "rights": given}
        for token, (tenant, given) in rights.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    async with in_process(Settings(tokens_file=path), parts) as client:
        yield client


def bearer(token):
    return {"authorization": f"Bearer {token}", "content-type": BATCH}


async def test_a_token_publishes_for_its_own_tenant_only(guarded, parts):
    """One event of another tenant, and nothing of the batch is kept."""
    batch = orjson.dumps([event(1, tenant="acme"), event(2, tenant="globex")])
    response = await guarded.post("/v1/events", content=batch, headers=bearer("pub"))
    assert (response.status_code, response.json()["type"]) == (403, "/problems/forbidden")
    assert "/1/tenant" in response.json()["detail"]
    assert await kept(parts) == []
    anonymous = await guarded.post("/v1/events", content=batch, headers={"content-type": BATCH})
    assert (anonymous.status_code, anonymous.headers["www-authenticate"]) == (401, 'Bearer realm="cortex"')


async def test_declaring_memberships_needs_an_administrator(guarded, parts):
    """Otherwise a publisher could make himself a member of any team."""
    relation = {"source_id": "ana", "relation": "member_of", "target_id": "board"}
    declared = event(1, tenant="acme") | {"type": "relation.declared", "data": relation}
    for token, status in (("pub", 403), ("admin", 202)):
        response = await guarded.post("/v1/events", content=orjson.dumps([declared]), headers=bearer(token))
        assert response.status_code == status


async def test_events_and_dead_letters_of_another_tenant_do_not_exist(guarded, parts):
    """404 for the event, an empty list for the letters, as if there were none (C54)."""
    await guarded.post("/v1/events", content=orjson.dumps([event(1, tenant="acme")]), headers=bearer("pub"))
    await parts.log.bury(letter(tenant="acme"))
    await parts.log.bury(letter(id="d-2", tenant=None))
    assert (await guarded.get("/v1/events/e-1", headers=bearer("pub"))).status_code == 200
    unknown = await guarded.get("/v1/events/e-1", headers=bearer("globex"))
    absent = await guarded.get("/v1/events/e-9", headers=bearer("globex"))
    assert unknown.status_code == absent.status_code == 404
    assert {**unknown.json(), "instance": ""} == {**absent.json(), "instance": ""}
    assert (await guarded.get("/v1/dead-letters", headers=bearer("globex"))).json()["letters"] == []
    assert len((await guarded.get("/v1/dead-letters", headers=bearer("admin"))).json()["letters"]) == 1
    assert (await guarded.get("/v1/dead-letters", headers=bearer("pub"))).status_code == 403
