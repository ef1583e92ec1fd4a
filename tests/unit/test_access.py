"""Who may do what: tokens, rights, tenants, principals."""

import json

import pytest
from starlette.datastructures import Headers

from query.access import Access, Right, hash_token
from query.middleware import is_loopback, refuse
from schemas.events import parse_event
from shared.errors import Forbidden, InvalidInput, Unauthenticated
from shared.settings import Settings


def entry(token, /, **changes: object):
    return {
        "sha256": hash_token(token), "tenant": "acme", "principal": "ana", "rights": ["ask", "publish"]
    } | changes  # fmt: skip


@pytest.fixture
def access(tmp_path):
    """Access with four tokens: a person's, an administrator's, a service's that is bound to nobody, and a reader's."""
    lines = [
        entry("t-ana"),
        entry("t-admin", principal="root", rights=["ask", "publish", "admin"]),
        entry("t-any", principal="*"),
        entry("t-reader", rights=["ask"]),
    ]
    path = tmp_path / "tokens.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    return Access.from_settings(Settings(tokens_file=path, host="0.0.0.0"))


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_token_says_tenant_principal_and_rights(access):
    """What the line says is what the caller may."""
    caller = access.caller(bearer("t-ana"), None)
    assert (caller.tenant, caller.principal, caller.trusted) == ("acme", "ana", False)
    assert caller.rights == {Right.ASK, Right.PUBLISH}


@pytest.mark.parametrize(
    "headers",
    [{}, bearer(""), bearer("wrong"), bearer("t-ana") | {"authorization": "Basic t-ana"}, bearer("x" * 5000),
     bearer(hash_token("t-ana")), bearer("\ud800")],
)  # fmt: skip
def test_anything_but_a_known_token_is_refused(access, headers):
    """Also the hash of a token is none."""
    with pytest.raises(Unauthenticated):
        access.caller(headers, None)


def test_a_right_that_is_missing_is_refused(access):
    """Asking does not include publishing."""
    caller = access.caller(bearer("t-reader"), None)
    caller.needs(Right.ASK)
    with pytest.raises(Forbidden, match="publish"):
        caller.needs(Right.PUBLISH)


def test_another_tenant_than_the_tokens_is_refused(access):
    """Naming the own one is fine, by parameter or header; contradicting oneself is not."""
    assert access.caller(bearer("t-ana"), "acme").tenant == "acme"
    with pytest.raises(Forbidden):
        access.caller(bearer("t-ana"), "globex")
    with pytest.raises(Forbidden):
        access.caller(bearer("t-ana") | {"cortex-tenant": "globex"}, None)
    with pytest.raises(InvalidInput):
        access.caller(bearer("t-ana") | {"cortex-tenant": "globex"}, "acme")


def test_choosing_who_asks_is_for_administrators(access):
    """A token that is bound to a principal asks as that one only."""
    ana = access.caller(bearer("t-ana"), None)
    assert ana.asks_as(None) == ana.asks_as("ana") == "ana"
    with pytest.raises(Forbidden):
        ana.asks_as("ben")
    assert access.caller(bearer("t-admin"), None).asks_as("ben") == "ben"


def test_a_token_bound_to_nobody_reads_the_tenant_and_may_narrow_that(access):
    """``*`` stands for every principal."""
    service = access.caller(bearer("t-any"), None)
    assert service.asks_as(None) is None
    assert service.asks_as("ben") == "ben"


def unit_event(tenant):
    unit = {"id": "u", "text": "x", "type": "decision", "scope": {"level": "team", "entity_id": "a"}}
    return parse_event(
        {"specversion": "1.0", "id": "1", "source": "s", "tenant": tenant, "type": "unit.asserted", "data": unit}
    )


def relation_event(relation, kind="relation.declared"):
    data = {"source_id": "a", "relation": relation, "target_id": "b"}
    return parse_event({"id": "1", "source": "s", "tenant": "acme", "type": kind, "data": data})


def test_events_of_another_tenant_are_refused(access):
    """The pointer says which event of the batch."""
    caller = access.caller(bearer("t-ana"), None)
    caller.may_publish(unit_event("acme"))
    with pytest.raises(Forbidden, match="/3/tenant"):
        caller.may_publish(unit_event("globex"), "/3")


@pytest.mark.parametrize("kind", ["relation.declared", "relation.retracted"])
@pytest.mark.parametrize("relation", ["member_of", "belongs_to", "part_of"])
def test_relations_that_decide_what_may_be_read_need_an_administrator(access, relation, kind):
    """Declaring oneself a member of a team would open its scope."""
    with pytest.raises(Forbidden, match="admin"):
        access.caller(bearer("t-ana"), None).may_publish(relation_event(relation, kind))
    access.caller(bearer("t-admin"), None).may_publish(relation_event(relation, kind))
    access.caller(bearer("t-ana"), None).may_publish(relation_event("depends_on", kind))


def test_without_tokens_everybody_is_trusted_on_loopback():
    """The caller names the tenant, or gets the default one."""
    access = Access.from_settings(Settings(tenant="demo"))
    assert access.trusts_everybody
    caller = access.caller({}, None)
    assert (caller.tenant, caller.principal, caller.trusted) == ("demo", None, True)
    assert access.caller({"cortex-tenant": "acme"}, None).tenant == "acme"
    caller.may_publish(unit_event("acme"))
    with pytest.raises(Forbidden):
        access.caller({"cortex-tenant": "demo"}, None).may_publish(unit_event("acme"))


@pytest.mark.parametrize("name", ["", "*", "Acme", "../x", "a" * 64, "null ", "ä"])
def test_a_tenants_name_is_checked(name):
    """It becomes a file's name."""
    with pytest.raises(InvalidInput) as caught:
        Access.from_settings(Settings()).caller({}, name)
    assert caught.value.faults[0].field == "tenant"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "cortex.example"])
def test_without_tokens_no_address_beyond_loopback(host):
    """Otherwise anybody in the network would be trusted."""
    with pytest.raises(Forbidden, match="CORTEX_TOKENS_FILE"):
        Access.from_settings(Settings(host=host))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no token"),
        ("not json", "line 1"),
        (json.dumps(entry("a")) + "\n" + json.dumps(entry("a")), "line 2"),
        (json.dumps(entry("a", rights=[])), "line 1 rights"),
        (json.dumps(entry("a", rights=["fly"])), "line 1 rights"),
        (json.dumps(entry("a", token="secret")), "line 1 token"),
        (json.dumps(entry("a", tenant="A")), "line 1 tenant"),
    ],
)
def test_a_tokens_file_that_cannot_be_used_is_refused_by_line(tmp_path, text, words):
    """A file without tokens never means: trust everybody."""
    path = tmp_path / "tokens.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words) as caught:
        Access.from_settings(Settings(tokens_file=path))
    assert "secret" not in str(caught.value)


def test_a_missing_tokens_file_is_refused(tmp_path):
    """A mistyped path never means: trust everybody."""
    with pytest.raises(InvalidInput, match="cannot be read"):
        Access.from_settings(Settings(tokens_file=tmp_path / "absent"))


LOCAL = {"host": "127.0.0.1:8420"}


@pytest.mark.parametrize(
    ("headers", "path", "refused"),
    [
        (LOCAL, "/v1/context", False),
        ({"host": "localhost"}, "/v1/context", False),
        ({"host": "[::1]:8420"}, "/v1/context", False),
        ({"host": "127.8.0.1:1"}, "/v1/context", False),
        ({"host": "evil.example"}, "/v1/context", True),
        ({"host": "127.0.0.1.evil.example"}, "/", True),
        ({"host": "localhost@evil.example"}, "/", True),
        ({"host": ""}, "/", True),
        ({}, "/", True),
        (LOCAL | {"origin": "http://127.0.0.1:8420"}, "/v1/events", False),
        (LOCAL | {"origin": "http://127.0.0.1:3000"}, "/v1/events", True),
        (LOCAL | {"origin": "https://evil.example"}, "/v1/events", True),
        (LOCAL | {"origin": "null"}, "/v1/events", True),
        (LOCAL | {"sec-fetch-site": "cross-site"}, "/v1/context", True),
        (LOCAL | {"sec-fetch-site": "same-site"}, "/v1/context", True),
        (LOCAL | {"sec-fetch-site": "same-origin"}, "/v1/context", False),
        (LOCAL | {"sec-fetch-site": "none"}, "/v1/context", False),
        (LOCAL | {"sec-fetch-site": "cross-site"}, "/", False),
    ],
)
def test_the_trusting_service_refuses_pages_of_other_sites(headers, path, refused):
    """Whoever reaches loopback through a browser must be a page of ours; a link to the first page may be followed."""
    assert (refuse(Headers(headers), path) is not None) is refused


@pytest.mark.parametrize("address", ["//[::1", "//[bad]", "//256.0.0.1", "//0.0.0.0", "//\x00"])
def test_an_unreadable_host_is_not_loopback(address):
    """Never an exception."""
    assert not is_loopback(address)
