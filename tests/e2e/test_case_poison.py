"""Poison: what can never be processed is set aside with everything needed to mend it, and stops nothing."""

import base64
import json
import re

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

BEYOND = "9999-12-31T23:59:59-12:00"
HEADERS = [("trace", b"abc"), ("odd", b"\xff\x00")]


def as_bytes(event, **changes):
    return json.dumps({**event, **changes}).encode()


def text_of(tenant, unit_id, escape):
    """Write an event whose text holds a JSON escape as it stands."""
    return as_bytes(tenant.unit(unit_id, "Quail PLACE text.")).replace(b"PLACE", escape)


def letters_of(tenant, bodies):
    """Wait for a dead letter of each body; give them by body. Letters without a tenant are the trusted caller's."""

    def look():
        parameters = {"limit": 50, "bodies": "true"}
        page = tenant.product.http.get("/v1/dead-letters", params=parameters).json()["letters"]
        found = {base64.b64decode(letter["body"]): letter for letter in page}
        return {body: found[body] for body in bodies} if set(bodies) <= set(found) else None

    return tenant.eventually(look, "each has its dead letter")


def assert_well(tenant):
    """Nothing waits, nothing died."""
    metrics = tenant.product.http.get("/metrics").text
    tenant.eventually(lambda: not any(mark["lag"] for mark in tenant.status()["watermarks"]), "the lag is 0")
    assert tenant.product.http.get("/readyz").json() == {"ready": True, "reasons": {}}
    assert re.search(r"^cortex_running_answers 0\.0$", metrics, re.MULTILINE)
    assert "pipeline.failed" not in tenant.product.log()


def test_poison_between_good_events_of_one_partition(tenant):
    """Case C30."""
    good = [tenant.unit("e1", "The quail nests in May."), tenant.unit("e7", "The heron nests in June.")]
    poison = {
        b"{not json": "not JSON",
        as_bytes(tenant.unit("e3", "x"), type="unit.guessed"): "type",
        as_bytes(tenant.unit("e4", " \n\t\u2003 ")): "/data/text",
        text_of(tenant, "e5", rb"\ud800"): "surrogate",
        text_of(tenant, "e5b", rb"\u0000"): "/data/text",
        json.dumps({k: v for k, v in tenant.unit("e6", "x").items() if k != "tenant"}).encode(): "tenant",
    }
    bodies = [as_bytes(good[0]), *poison, as_bytes(good[1])]
    places = tenant.produce(*bodies, partition=1, key=b"k", headers=HEADERS)
    for event in good:
        tenant.wait_state(event["id"], "stored")
    assert set(tenant.found("Which bird nests when?")) == {"e1", "e7"}
    letters = letters_of(tenant, poison)
    for (partition, offset), body in zip(places, bodies, strict=True):
        if body not in poison:
            continue
        letter = letters[body]
        assert poison[body] in letter["detail"]
        assert (letter["stage"], letter["cause"], letter["attempts"]) == ("embed", "invalid-input", 1)
        assert (letter["topic"], letter["partition"], letter["offset"]) == ("cortex.events", partition, offset)
        assert [(name, base64.b64decode(value)) for name, value in letter["headers"]] == HEADERS
    assert tenant.get("/v1/events/e4-0").status_code == 404, "it was never accepted"
    assert "/data/text" not in tenant.get("/v1/events/e4-0").text
    assert "invalid-input" in tenant.get("/v1/events/e4-0").json()["detail"]
    assert_well(tenant)


def poisons(tenant):
    """Give more records that nobody can use: (name, bytes)."""
    event = tenant.unit("p", "Nobody reads this.")
    deep = b"[" * 400 + b"]" * 400
    return {
        "empty": b"",
        "white space": b" \n ",
        "not UTF-8": b"\xff\xfe" + as_bytes(event),
        "half": as_bytes(event)[:-9],
        "array": b"[" + as_bytes(event) + b"]",
        "number": b"1e400",
        "bottomless": b"[" * 100_000,
        "too large": as_bytes(tenant.unit("p", "x" * 300_000)),
        "later version": as_bytes(event, schemaversion="9.0"),
        "endless major version": as_bytes(event, schemaversion="9" * 5_000),
        "endless minor version": as_bytes(event, schemaversion="1." + "9" * 5_000),
        "nested attribute": as_bytes(event)[:-1] + b', "extension": ' + deep + b"}",
        "time beyond the calendar": as_bytes(tenant.unit("p", "x", occurred_at={"at": BEYOND, "original": "x"})),
        "time at year zero": as_bytes(tenant.unit("p", "x", occurred_at={"at": "0001-01-01", "zone": "Asia/Tokyo"})),
        "tenant as a path": as_bytes(event, tenant="../etc"),
        "no data": as_bytes(event, data=None),
        "endless id": as_bytes(event, id="x" * 5_000),
        "unit without id": as_bytes(tenant.unit("", "x")),
        "part without document": as_bytes(tenant.unit("p", "x", part=1)),
    }  # fmt: skip


@pytest.mark.broker
def test_no_record_of_any_kind_stops_the_lane_or_the_process(tenant):
    """Case C30, the kind: each stands between good events on every partition, and costs only itself."""
    bad = poisons(tenant)
    good = []
    for partition, kind in enumerate(bad):
        event = tenant.unit(f"g{partition}", f"Good event after {kind}.")
        good.append(event)
        tenant.produce(bad[kind], as_bytes(event), partition=partition % 4, key=b"k", headers=HEADERS)
    for event in good:
        tenant.wait_state(event["id"], "stored")
    letters = letters_of(tenant, bad.values())
    for kind, body in bad.items():
        assert letters[body]["cause"] in {"invalid-input", "unsupported-version", "too-large"}, kind
        assert letters[body]["detail"].isprintable(), kind
        assert letters[body]["attempts"] == 1, kind
    assert tenant.units() == len(good)
    assert_well(tenant)


def test_the_http_door_refuses_the_same_and_keeps_nothing(tenant):
    """Case C30, the kind: a problem that says what is wrong, and never a server error."""
    for kind, body in poisons(tenant).items():
        if kind == "array":  # which is a batch of one here
            continue
        response = tenant.product.http.post("/v1/events", content=body, headers={"content-type": "application/json"})
        assert response.status_code in {400, 413}, (kind, response.status_code, response.text[:200])
        assert response.headers["content-type"] == "application/problem+json"
    mixed = [tenant.unit("m1", "Good."), tenant.unit("m2", " "), tenant.unit("m3", "Good.")]
    response = tenant.product.http.post("/v1/events", json=mixed)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (400, "/1/data/text")
    assert tenant.get("/v1/units/m1").status_code == 404, "a batch is kept whole or not at all"


@pytest.mark.broker
def test_garbage_between_the_stages_stops_nothing(tenant):
    """Case C30, the kind: whoever writes to a topic of ours by mistake cannot stop it."""
    for topic in (
        "cortex.embedded",
        "cortex.resolved",
        "cortex.stored",
        "cortex.graph",
        "cortex.contradictions",
        "cortex.bulk",
    ):
        for body in (b"", b"garbage", b"{}", b'{"tenant": 5}', b"\x00" * 64):
            tenant.produce(body, topic=topic, partition=0, key=b"k", headers=HEADERS)
    event = tenant.unit("after", "The tern nests in July, says Ida Quist.")
    tenant.tell(event)
    assert tenant.found("When does the tern nest?") == ["after"]
    tenant.eventually(lambda: tenant.about("Ida Quist") == {"after"}, "the graph goes on too")
    assert_well(tenant)


@pytest.mark.broker
def test_odd_but_valid_text_is_knowledge(tenant):
    """Case C30, the kind turned round: what is only strange is kept as it is."""
    texts = {
        "emoji": "The 👩‍🔧 mends the pump 🐳.",
        "rtl": "המשאבה נמצאת במרתף",
        "controls": "A bell \x07 and a tab \t and \x1b[31mred\x1b[0m.",
        "combining": "Z̸a̷l̶g̵o̴ speaks.",
        "escape": "Backslash \\ud800 is six characters.",
        "long": "word " * 1_500,
        "symbols": "<<<>>> && || ;; -- '; DROP TABLE unit; --",
        "query": 'NEAR("a" b) OR title:* AND "',
    }
    tenant.tell(*(tenant.unit(unit_id, text) for unit_id, text in texts.items()))
    for unit_id, text in texts.items():
        assert tenant.get(f"/v1/units/{unit_id}").json()["unit"]["text"] == text
        assert tenant.get("/v1/search", q=text[:1_000]).status_code == 200, unit_id
    assert tenant.units() == len(texts)
