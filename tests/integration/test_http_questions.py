"""Questions over HTTP as JSON: what is refused and why, who asks, and how times are read."""

import json
from dataclasses import dataclass, field

import orjson
import pytest

from query.access import hash_token
from query.inputs import ASK_BYTES
from schemas import limits
from schemas.questions import Question
from shared.errors import AllSourcesLost, InvalidToken, StoreUnavailable
from shared.settings import Settings
from tests.integration.http_service import SteeredAnswers, in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@dataclass
class NotedAnswers(SteeredAnswers):
    """Answers, and notes who asked what."""

    asked: list[tuple[Question, str, str | None]] = field(default_factory=list)

    def stream(self, question, *, tenant, principal):
        self.asked.append((question, tenant, principal))
        return super().stream(question, tenant=tenant, principal=principal)


@pytest.fixture
def answers():
    return NotedAnswers()


@pytest.fixture
async def client(answers):
    async with in_process(Settings(), make_parts(answers)) as client:
        yield client


async def test_an_answer_as_json_says_what_was_asked_and_for_whom(client):
    """The whole answer in one body."""
    answer = (await client.post("/v1/context", json={"q": "Why blue?", "budget_tokens": 100})).json()
    assert (answer["question"], answer["tenant"], answer["principal"]) == ("Why blue?", "demo", "*")
    assert answer["budget_tokens"] == 100


async def test_every_option_of_a_question_can_stand_in_the_address(client, answers):
    """And means the same there as in a body."""
    whole = {
        "q": "why + how? ünï", "principal": "ana", "scopes": ["team/a", "personal/b"], "limit": 7, "budget_tokens": 900,
        "types": ["decision", "pattern"], "levels": ["team"], "as_of": "2026-03-01", "known_at": 1772355600000,
        "occurred_from": "2026-03-01T00:00Z", "occurred_until": {"at": "2026-03-29T02:30:00", "zone": "Europe/Berlin"},
        "include_superseded": True, "format": "table", "explain": True, "min_token": "abc", "wait_ms": 5, "order": "time",
    }  # fmt: skip
    assert set(whole) == set(Question.model_fields)
    in_address = {name: json.dumps(value) if isinstance(value, bool | dict) else value for name, value in whole.items()}
    assert (await client.post("/v1/context", json=whole)).status_code == 200
    assert (await client.get("/v1/context", params=in_address)).status_code == 200
    assert (await client.get("/v1/search", params=in_address)).status_code == 200
    first, second, third = (asked for asked, _, _ in answers.asked)
    assert first == second == third


MOMENTS = [
    ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00Z"),
    ("2026-03-01T09:30:00%2B09:00", "2026-03-01T00:30:00Z"),
    ("2026-03-01T09:30:00+09:00", "2026-03-01T00:30:00Z"),  # the plus arrives as a space
    ("2026-03-01T09:15:00", "2026-03-01T09:15:00Z"),
    ("2026-03-01", "2026-03-01T00:00:00Z"),
    ("1772355600000", "2026-03-01T09:00:00Z"),
    ("20260301", "2026-03-01T00:00:00Z"),
    ('{"at":"2026-03-29T02:30:00","zone":"Europe/Berlin"}', "2026-03-29T01:30:00Z"),
]


@pytest.mark.parametrize(("text", "instant"), MOMENTS)
async def test_times_are_read_in_an_address_as_in_a_body(client, answers, text, instant):
    """C25: one reading everywhere."""
    response = await client.get(f"/v1/context?q=when&as_of={text}")
    assert response.status_code == 200, response.text
    (asked, _, _) = answers.asked[0]
    assert asked.as_of.model_dump(mode="json")["at"] == instant


BAD_ADDRESSES = {
    "": "q",
    "q=a&colour=red": "colour",
    "q=a&q=b": "q",
    "q=abc&limit=0": "limit",
    "q=abc&limit=51": "limit",
    "q=abc&limit=many": "limit",
    "q=abc&scopes=red": "scopes/0",
    "q=abc&scopes=*": "scopes/0",
    "q=abc&scopes=": "scopes/0",
    "q=abc&as_of=yesterday": "as_of",
    "q=abc&as_of={": "as_of",
    "q=abc&as_of=99999999999999999999999999": "as_of",
    "q=abc&order=random": "order",
    "q=abc&tenant=../x": "tenant",
    "q=%FF": "",
    "q=abc&principal=a%20b": "principal",
    "&".join(["q=a"] * 300): "",
}


@pytest.mark.parametrize("address", BAD_ADDRESSES)
@pytest.mark.parametrize("path", ["/v1/context", "/v1/context/stream", "/v1/search"])
async def test_a_bad_parameter_is_named(client, answers, path, address):
    """400 with the parameter's name; unknown ones are never ignored."""
    response = await client.get(f"{path}?{address}")
    assert response.status_code == 400
    assert [fault["field"] for fault in response.json()["errors"]] == [BAD_ADDRESSES[address]]
    assert answers.asked == []


BAD_BODIES = {
    "not-json": (b"{", ""),
    "array": ([], ""),
    "no-question": ({}, "/q"),
    "unknown-field": ({"q": "abc", "tenant": "globex"}, "/tenant"),
    "too-long": ({"q": "x" * (limits.QUESTION_CHARS + 1)}, "/q"),
    "scope-null-in-list": ({"q": "abc", "scopes": [None]}, "/scopes/0"),
    "scope-star": ({"q": "abc", "scopes": ["*"]}, "/scopes/0"),
    "scope-text": ({"q": "abc", "scopes": ""}, "/scopes"),
    "window": ({"q": "abc", "occurred_from": "2026-03-02", "occurred_until": "2026-03-01"}, ""),
    "surrogate": (b'{"q": "\\ud800"}', ""),
    "nested": (b'{"q": "abc", "as_of": {"at": ' + b"[" * 900 + b"]" * 900 + b', "zone": "UTC"}}', "/as_of"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BODIES)
@pytest.mark.parametrize("path", ["/v1/context", "/v1/context/stream"])
async def test_a_bad_field_is_pointed_to(client, answers, path, name):
    """400 with a JSON Pointer, before any stream begins (C52: nothing widens a scope)."""
    value, pointer = BAD_BODIES[name]
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    response = await client.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400, response.text
    assert response.json()["errors"][0]["field"] == pointer
    assert answers.asked == []


async def test_a_body_over_the_limit_or_of_another_kind_is_refused(client):
    """413 and 415."""
    large = await client.post(
        "/v1/context", content=b" " * (ASK_BYTES + 1), headers={"content-type": "application/json"}
    )
    assert (large.status_code, large.json()["extra"]) == (413, {"limit": ASK_BYTES})
    form = await client.post("/v1/context", data={"q": "abc"})
    assert form.status_code == 415


async def test_what_can_not_be_given_is_refused(client):
    """406 names what can."""
    response = await client.get("/v1/context", params={"q": "abc"}, headers={"accept": "text/html"})
    assert (response.status_code, response.json()["type"]) == (406, "/problems/not-acceptable")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json, text/event-stream", "application/json"),
        ("text/event-stream, */*;q=0.1", "text/event-stream"),
        ("text/event-stream;q=0, */*", "application/json"),
        ("text/*", "text/event-stream"),
        ("application/json;q=nonsense, text/event-stream;q=0.1", "text/event-stream"),
    ],
)
async def test_the_better_accepted_form_is_given(client, accept, kind):
    """Quality first, then the more exact name, then JSON."""
    response = await client.get("/v1/context", params={"q": "abc"}, headers={"accept": accept})
    assert response.headers["content-type"].partition(";")[0] == kind


@pytest.mark.parametrize(
    ("failure", "status"),
    [(AllSourcesLost(), 503), (StoreUnavailable(), 503), (InvalidToken(), 400), (KeyError("x"), 500)],
)
async def test_a_failure_is_a_problem_and_never_an_empty_answer(client, answers, failure, status):
    """C41: an outage does not look like knowing nothing."""
    answers.failure = failure
    for path in ("/v1/context", "/v1/search"):
        response = await client.get(path, params={"q": "fail first"})
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")


async def test_results_alone_keep_every_warning(client):
    """A search says what it lost, as an answer does."""
    found = (await client.get("/v1/search", params={"q": "abc"})).json()
    assert {"results", "lost", "complete", "degraded", "stale", "low_confidence", "notes", "watermarks"} <= set(found)
    assert "context" not in found


async def test_the_trusted_caller_names_tenant_and_principal(client, answers):
    """By parameter or header."""
    await client.get("/v1/context", params={"q": "abc", "tenant": "acme", "principal": "ana"})
    await client.post("/v1/context?tenant=acme", json={"q": "abc"})
    await client.post("/v1/context", json={"q": "abc"}, headers={"cortex-tenant": "acme"})
    assert [asked[1:] for asked in answers.asked] == [("acme", "ana"), ("acme", None), ("acme", None)]


@pytest.fixture
async def guarded(answers, tmp_path):
    tokens = {
        "ana": ("acme", "ana", ["ask"]), "root": ("acme", "root", ["ask", "admin"]), "pub": ("acme", "ana", ["publish"]),
    }  # fmt: skip
    lines = [
        {"sha256": hash_token(token), "tenant": tenant, "principal": principal, "rights": rights}
        for token, (tenant, principal, rights) in tokens.items()
    ]
    path = tmp_path / "tokens"
    path.write_text("\n".join(map(json.dumps, lines)))
    async with in_process(Settings(tokens_file=path), make_parts(answers)) as client:
        yield client


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def test_a_token_decides_for_whom_the_answer_is(guarded, answers):
    """Asking as somebody else is for administrators."""
    assert (await guarded.post("/v1/context", json={"q": "abc"}, headers=bearer("ana"))).status_code == 200
    other = {"q": "abc", "principal": "ben"}
    assert (await guarded.post("/v1/context", json=other, headers=bearer("ana"))).status_code == 403
    assert (await guarded.post("/v1/context", json=other, headers=bearer("root"))).status_code == 200
    assert [asked[1:] for asked in answers.asked] == [("acme", "ana"), ("acme", "ben")]


@pytest.mark.parametrize("path", ["/v1/context", "/v1/context/stream", "/v1/search", "/v1/entities", "/v1/status"])
async def test_without_a_token_or_its_right_nothing_is_answered(guarded, answers, path):
    """401 and 403; the wrong token learns no more than none."""
    for headers, status in (({}, 401), (bearer("wrong"), 401), (bearer("pub"), 403)):
        response = await guarded.get(path, params={"q": "abc"} if path != "/v1/status" else {}, headers=headers)
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
    assert answers.asked == []


async def test_another_tenant_by_parameter_or_header_is_refused(guarded, answers):
    """C52."""
    for address, headers in (("?q=abc&tenant=globex", {}), ("?q=abc", {"cortex-tenant": "globex"})):
        response = await guarded.get(f"/v1/context{address}", headers=bearer("ana") | headers)
        assert response.status_code == 403
    assert answers.asked == []
