"""Dead letters over HTTP: listed, shown, replayed and discarded, by whom and when, and by nobody else."""

import base64
import json
from datetime import timedelta

import pytest

from query.access import hash_token
from schemas.commands import Job, JobState
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.settings import Settings
from tests.integration.http_service import NOW, in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


def letter(name, /, **changes):
    fields = {
        "id": name, "stage": "embed", "cause": "embedder-unavailable", "detail": "it was away", "attempts": 3,
        "topic": "cortex.events", "partition": 0, "offset": 7, "tenant": "demo", "event_id": f"e-{name}",
        "event_source": "/tests", "failed_at": NOW, "body": b"\xff\x00", "headers": (("h", b"\xfe"),), "key": b"demo/u",
    }  # fmt: skip
    return DeadLetter(**(fields | changes))


@pytest.fixture
def parts():
    return make_parts()


@pytest.fixture
async def client(parts):
    async with in_process(Settings(), parts) as client:
        yield client


async def orders(parts):
    """What was ordered of ingest: (tenant, by whom, letters)."""
    return [(one.tenant, one.requested_by, one.order.letters) for _, one in await parts.log.orders(0, 100)]


async def test_letters_are_listed_by_page(client, parts):
    """Newest first; bytes in base64, when they are asked for."""
    for number in range(3):
        await parts.log.bury(letter(f"d-{number}", failed_at=NOW + timedelta(seconds=number), tenant=None))
    page = (await client.get("/v1/dead-letters", params={"limit": 2, "bodies": True})).json()
    assert [one["id"] for one in page["letters"]] == ["d-2", "d-1"]
    assert (page["letters"][0]["body"], page["letters"][0]["body_bytes"]) == ("/wA=", 2)
    rest = (await client.get("/v1/dead-letters", params={"after": page["next"]})).json()
    assert [(one["id"], one["body"]) for one in rest["letters"]] == [("d-0", None)]
    assert rest["next"] is None


async def test_letters_are_chosen_by_state_stage_and_cause(client, parts):
    await parts.log.bury(letter("a"))
    await parts.log.bury(letter("b", stage="store", cause="error"))
    await parts.log.mark_letter("a", LetterMark(state=LetterState.DISCARDED, by="ana", at=NOW))

    async def listed(**given):
        return [one["id"] for one in (await client.get("/v1/dead-letters", params=given)).json()["letters"]]

    assert await listed() == ["b", "a"]
    assert await listed(state="open") == ["b"]
    assert await listed(state="discarded") == ["a"]
    assert await listed(stage="store", cause="error") == ["b"]
    assert (await client.get("/v1/dead-letters", params={"state": "lost"})).status_code == 400


async def test_one_letter_has_everything_that_is_needed_to_mend_it(client, parts):
    """Case C30: cause, stage, attempts, original bytes and headers, topic, partition and offset."""
    await parts.log.bury(letter("d-1"))
    shown = (await client.get("/v1/dead-letters/d-1")).json()
    assert {name: shown[name] for name in ("state", "stage", "cause", "detail", "attempts", "replays")} == {
        "state": "open", "stage": "embed", "cause": "embedder-unavailable", "detail": "it was away", "attempts": 3,
        "replays": 0,
    }  # fmt: skip
    assert (shown["topic"], shown["partition"], shown["offset"]) == ("cortex.events", 0, 7)
    assert base64.b64decode(shown["body"]) == b"\xff\x00"
    assert base64.b64decode(shown["key"]) == b"demo/u"
    assert [(name, base64.b64decode(value)) for name, value in shown["headers"]] == [("h", b"\xfe")]
    unknown = await client.get("/v1/dead-letters/none")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")


async def test_a_replay_is_ordered_once(client, parts):
    """Case C35: the second time changes nothing, before ingest has taken the order and after."""
    await parts.log.bury(letter("d-1"))
    first = await client.post("/v1/dead-letters/d-1/replay")
    assert first.status_code == 202, first.text
    ordered = first.json()
    assert (ordered["chosen"], ordered["changed"], ordered["already"]) == (1, 1, False)
    assert ordered["jobs"][0]["job"].startswith("/v1/jobs/letters-")
    again = await client.post("/v1/dead-letters/d-1/replay")
    assert (again.status_code, again.json()["already"], again.json()["jobs"]) == (200, True, ordered["jobs"])
    job = ordered["jobs"][0]["job"].removeprefix("/v1/jobs/")
    await parts.log.mark_letter("d-1", LetterMark(state=LetterState.REPLAYED, by="trusted caller", at=NOW, job=job))
    third = await client.post("/v1/dead-letters/d-1/replay")
    assert (third.status_code, third.json()["already"], third.json()["jobs"]) == (200, True, ordered["jobs"])
    assert await orders(parts) == [("demo", "trusted caller", ("d-1",))]
    shown = (await client.get("/v1/dead-letters/d-1")).json()
    assert (shown["state"], shown["resolved_by"], shown["job"]) == ("replayed", "trusted caller", f"/v1/jobs/{job}")


async def test_a_letter_that_failed_again_can_be_replayed_again(client, parts):
    await parts.log.bury(letter("d-1"))
    await client.post("/v1/dead-letters/d-1/replay")
    await parts.log.mark_letter("d-1", LetterMark(state=LetterState.REPLAYED, by="ana", at=NOW, job="j"))
    await parts.log.bury(letter("d-1"))
    assert (await client.post("/v1/dead-letters/d-1/replay")).status_code == 202
    assert len(await orders(parts)) == 2


@pytest.mark.parametrize(("state", "status"), [("failed", 202), ("cancelled", 202), ("running", 200), ("done", 200)])
async def test_a_replay_whose_job_failed_or_was_cancelled_can_be_ordered_again(client, parts, state, status):
    await parts.log.bury(letter("d-1"))
    job = (await client.post("/v1/dead-letters/d-1/replay")).json()["jobs"][0]["job"].removeprefix("/v1/jobs/")
    parts.reader.saved = [
        Job(
            id=job, tenant="demo", kind="replay-letters", state=JobState(state), requested_by="ana", requested_at=NOW
        )
    ]  # fmt: skip
    assert (await client.post("/v1/dead-letters/d-1/replay")).status_code == status


async def test_a_letter_is_discarded_once_and_can_still_be_replayed(client, parts):
    await parts.log.bury(letter("d-1"))
    first = (await client.post("/v1/dead-letters/d-1/discard")).json()
    assert (first["changed"], first["already"]) == (1, False)
    again = await client.post("/v1/dead-letters/d-1/discard")
    assert (again.status_code, again.json()["changed"], again.json()["already"]) == (200, 0, True)
    shown = (await client.get("/v1/dead-letters/d-1")).json()
    assert (shown["state"], shown["resolved_by"]) == ("discarded", "trusted caller")
    assert shown["resolved_at"] is not None
    assert (await client.post("/v1/dead-letters/d-1/replay")).status_code == 202


async def test_many_letters_are_chosen_by_id_or_by_what_they_failed_of(client, parts):
    """A job a tenant; ids that are none are named, and nothing else is held up by them."""
    await parts.log.bury(letter("a"))
    await parts.log.bury(letter("b", tenant="other"))
    await parts.log.bury(letter("c", stage="store", cause="error"))
    await parts.log.bury(letter("d", tenant=None))
    answer = await client.post(
        "/v1/dead-letters/replay", json={"ids": ["a", "b", "d", "none", "a"], "reason": "mended"}
    )
    assert answer.status_code == 202, answer.text
    assert (answer.json()["chosen"], answer.json()["changed"], answer.json()["unknown"]) == (3, 3, ["none"])
    by_tenant = {tenant: set(letters) for tenant, _, letters in await orders(parts)}
    assert by_tenant == {"demo": {"a", "d"}, "other": {"b"}}, "a letter without a tenant goes with the caller's"
    discarded = (await client.post("/v1/dead-letters/discard", json={"stage": "store"})).json()
    assert (discarded["chosen"], discarded["changed"], discarded["more"]) == (1, 1, False)
    nothing = (await client.post("/v1/dead-letters/discard", json={"stage": "store"})).json()
    assert nothing["chosen"] == 0, "by stage and cause only open ones are meant"


async def test_a_choice_is_bounded_and_says_that_there_are_more(client, parts):
    for number in range(1_003):
        await parts.log.bury(letter(f"d-{number}"))
    first = (await client.post("/v1/dead-letters/discard", json={"cause": "embedder-unavailable"})).json()
    assert (first["chosen"], first["changed"], first["more"]) == (1_000, 1_000, True)
    rest = (await client.post("/v1/dead-letters/discard", json={"cause": "embedder-unavailable"})).json()
    assert (rest["changed"], rest["more"]) == (3, False)


@pytest.mark.parametrize(
    "choice", [{}, {"ids": []}, {"ids": ["a"], "stage": "embed"}, {"reason": "all"}, {"ids": ["a"] * 1_001}, [], "a"]
)
async def test_a_choice_that_chooses_nothing_or_two_ways_is_refused(client, choice):
    for action in ("replay", "discard"):
        answer = await client.post(f"/v1/dead-letters/{action}", json=choice)
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-input"), choice


@pytest.fixture
async def guarded(parts, tmp_path):
    """A service with tokens: an administrator of acme, one who may only publish, and an administrator of globex."""
    rights = {"admin": ("acme", ["admin"]), "pub": ("acme", ["publish"]), "globex": ("globex", ["admin"])}
    path = tmp_path / "tokens"
    lines = [
        {"sha256": hash_token(token), "tenant": tenant, "principal": f"person-{token}", "rights": given}
        for token, (tenant, given) in rights.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    async with in_process(Settings(tokens_file=path), parts) as client:
        yield client


CALLS = [
    ("GET", "/d-1", None), ("POST", "/d-1/replay", None), ("POST", "/d-1/discard", None),
    ("POST", "/replay", {"ids": ["d-1"]}), ("POST", "/discard", {"ids": ["d-1"]}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
@pytest.mark.parametrize("tenant", ["acme", None])
async def test_only_administrators_of_the_tenant_may_do_anything(guarded, parts, method, path, body, tenant):
    """Others meet 403, or a letter that does not exist (C54). One of no tenant is the trusted caller's alone."""
    await parts.log.bury(letter("d-1", tenant=tenant))

    async def call(token):
        headers = {"authorization": f"Bearer {token}"}
        return await guarded.request(method, f"/v1/dead-letters{path}", headers=headers, json=body)

    assert (await call("pub")).status_code == 403
    answer = await call("globex")
    assert answer.status_code == 404 if body is None else answer.json()["unknown"] == ["d-1"]
    if body is not None:
        assert answer.json()["already"] is False, "of a letter that is unknown nothing was asked before"
    answer = await call("admin")
    if tenant is None:
        assert answer.status_code == 404 if body is None else answer.json()["unknown"] == ["d-1"]
        return
    assert answer.status_code in {200, 202}
    found = await parts.log.dead_letter("d-1")
    assert found.resolved_by in {None, "person-admin"}
    assert [by for _, by, _ in await orders(parts)] == (["person-admin"] if "replay" in path else [])
