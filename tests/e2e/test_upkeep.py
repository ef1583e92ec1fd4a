"""Looking after a running Cortex: explain, trace, doctor, backup under load, and the other ways in."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from httpx_sse import connect_sse

from tests.e2e.conftest import PATIENT
from tests.e2e.product import SEARCHABLE_S, Product, unit, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
LOAD = 400  # events while the backup runs; each waits for its answer
QUESTION = "how often does the lighthouse at Skerry blink?"


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """A Cortex with two statements about a lighthouse, of which the later replaces the earlier."""
    product = Product(tmp_path_factory.mktemp("upkeep") / "data", env=PATIENT)
    try:
        product.start()
        events = [
            unit("old", "The lighthouse at Skerry blinks every nine seconds.", occurred_at="2026-01-01"),
            unit(
                "new", "The lighthouse at Skerry blinks every six seconds.", occurred_at="2026-02-01", supersedes="old"
            ),
            unit("cat", "The harbour cat of Skerry is called Pilot.", scope="personal/person-ana"),
        ]
        product.wait_stored(product.publish(*events))
        yield product
    finally:
        product.close()


def cortex(product, *arguments):
    """Run a command and return (exit code, standard output, standard error)."""
    env = {**os.environ, "CORTEX_URL": product.url, "CORTEX_DATA_DIR": str(product.folder), "COLUMNS": "200"}
    command = [sys.executable, "-m", "compose", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def ids(answer):
    return [result["unit_id"] for result in answer["results"]]


def test_explain_names_the_stage_and_a_change_that_works(product):
    code, out, _ = cortex(product, "explain", QUESTION, "old", "--json")
    explanation = json.loads(out)
    assert (code, explanation["fell_at"]) == (5, "filter")
    assert "superseded since 2026-02-01" in explanation["reason"]
    assert explanation["changes"][0]["parameters"] == {"include_superseded": True}
    assert "old" in ids(product.ask(QUESTION, **explanation["changes"][0]["parameters"]))
    code, out, _ = cortex(product, "explain", QUESTION, "new")
    assert code == 0
    assert "it is result 1" in out
    assert "rrf.keyword" in out


def test_explain_knows_nothing_of_a_unit_out_of_scope(product):
    """The same answer, to the letter, as for a unit that does not exist."""
    questions = [{"q": QUESTION, "unit": unit_id, "principal": "person-ben"} for unit_id in ("cat", "no-such-unit")]
    hidden, unknown = (product.http.get("/v1/explain", params=question) for question in questions)
    assert hidden.status_code == unknown.status_code == 404
    assert {**hidden.json(), "instance": None} == {**unknown.json(), "instance": None}


def test_trace_follows_an_event_to_its_readers(product):
    code, out, _ = cortex(product, "trace", "old-0", "--json")
    traced = json.loads(out)
    assert code == 0
    assert [(step["step"], step["outcome"]) for step in traced["steps"]] == [
        (step, "done") for step in ("log", "embed", "resolve", "store", "contradictions", "knowledge", "rights")
    ]
    assert traced["unit"]["state"] == "superseded"
    assert traced["unit"]["superseded_by"] == "new"
    personal = product.http.get("/v1/trace/cat-0").json()
    assert (personal["readers"], personal["readers_count"]) == (["person-ana"], 1)
    assert "cortex.events, partition" in cortex(product, "trace", "old-0")[1]
    assert product.http.get("/v1/trace/no-such-event").status_code == 404


def test_the_plans_addresses_give_the_same_answers(product):
    def body(response):
        assert response.status_code == 200, response.text
        changing = {"timings_ms", "context", "notes"}
        told = {name: value for name, value in response.json().items() if name not in changing}
        for result in told["results"]:
            del result["score"]  # it ages
        return told

    own = body(product.http.get("/v1/context", params={"q": QUESTION, "limit": 3, "budget_tokens": 800}))
    assert ids(own)[0] == "new"
    assert body(product.http.get("/api/cortex/context", params={"q": QUESTION, "limit": 3, "max_tokens": 800})) == own
    narrowed = {"q": QUESTION, "limit": 3, "max_tokens": 800, "workspace_id": "team-core"}
    assert ids(body(product.http.get("/api/cortex/context", params=narrowed))) == ["new"]
    assert ids(body(product.http.get("/api/cortex/search", params={"q": QUESTION, "layer": "workspace"})))[0] == "new"
    assert "new" not in ids(body(product.http.get("/api/cortex/search", params={"q": QUESTION, "layer": "personal"})))
    newest = body(product.http.get("/api/cortex/search"))
    assert {"new", "cat"} <= set(ids(newest))
    assert "old" not in ids(newest)
    unified = product.http.post(
        "/api/search", json={"query": QUESTION, "sessionId": "s1", "hints": {"domain": "sea", "format": "table"}}
    ).json()
    assert ids(unified)[0] == "new"
    assert unified["structured"][0]["kind"] == "table"
    assert any(note.startswith("hints.domain is not used") for note in unified["notes"])
    recent = product.http.post("/api/search", json={"query": QUESTION, "hints": {"horizonDays": 1}}).json()
    assert "new" not in ids(recent)


@pytest.mark.parametrize(
    ("address", "parameters", "field"),
    [
        ("/api/cortex/context", {"q": QUESTION, "workspace_id": "a b"}, "workspace_id"),
        ("/api/cortex/context", {"q": QUESTION, "max_tokens": 1}, "max_tokens"),
        ("/api/cortex/context", {}, "q"),
        ("/api/cortex/search", {"layer": "lobe"}, "layer"),
        ("/api/search", {"query": QUESTION, "horizonDays": 0}, "horizonDays"),
        ("/api/search", {"q": QUESTION}, "q"),
    ],
)
def test_a_wrong_parameter_of_the_plans_is_named_as_the_plans_name_it(product, address, parameters, field):
    response = product.http.get(address, params=parameters)
    assert response.status_code == 400
    assert field in {fault["field"] for fault in response.json()["errors"]}


def test_the_unified_search_streams(product):
    with connect_sse(product.http, "GET", "/api/search", params={"query": QUESTION, "stream": "true"}) as source:
        events = [(event.event, json.loads(event.data)) for event in source.iter_sse()]
    assert [name for name, _ in events][:2] == ["intent", "entities"]
    assert events[-1][0] == "complete"
    assert ids(events[-1][1]["answer"])[0] == "new"


def test_an_event_in_binary_mode_is_stored_over_http_and_over_kafka(product):
    def binary(unit_id, prefix):
        event = unit(unit_id, f"The buoy {unit_id} of Skerry is painted in stripes.", event_id=unit_id)
        return {f"{prefix}{name}": value for name, value in event.items() if name != "data"}, event["data"]

    headers, data = binary("binary-http", "ce-")
    response = product.http.post("/v1/events", json=data, headers=headers)
    assert response.status_code == 202, response.text
    kafka_headers, kafka_data = binary("binary-kafka", "ce_")

    async def produce():
        producer = AIOKafkaProducer(bootstrap_servers=product.kafka, acks="all")
        await producer.start()
        try:
            headers = [(name, value.encode()) for name, value in kafka_headers.items()]
            body = json.dumps(kafka_data).encode()
            await producer.send_and_wait("cortex.events", body, key=b"demo/binary-kafka", headers=headers)
        finally:
            await producer.stop()

    asyncio.run(produce())
    for event_id in ("binary-http", "binary-kafka"):
        until(
            lambda event_id=event_id: (product.status(event_id, "urn:test") or {}).get("state") == "stored",
            SEARCHABLE_S,
            f"{event_id} is stored",
        )
        assert product.http.get(f"/v1/units/{event_id}").status_code == 200


def test_the_topics_are_described(product):
    document = product.http.get("/asyncapi.json").json()
    assert document["asyncapi"] == "3.0.0"
    assert document["servers"]["kafka"]["host"] == product.kafka
    assert document["channels"]["events"]["address"] == "cortex.events"


def test_doctor_finds_a_running_cortex_well(product):
    code, out, _ = cortex(product, "doctor", "--json", "--port", str(product.port))
    told = json.loads(out)
    found = {finding["check"]: finding["state"] for finding in told["findings"]}
    assert (code, told["well"]) == (0, True)
    parts = ("journal", "store demo", "embedder", "broker", "cache", "service", "clock", "disk")
    assert {part: found[part] for part in parts} == dict.fromkeys(parts, "ok")


def test_backup_under_load_then_restore_elsewhere(product, tmp_path):
    """What was accepted before the backup began is in the restored Cortex, once; it answers the same and goes on."""
    accepted = product.publish(
        *(unit(f"load-{n}", f"Cargo manifest number {n} lists {n + 3} crates.") for n in range(40))
    )
    stop = threading.Event()
    later = []

    def keep_publishing():
        while not stop.is_set() and len(later) < LOAD:
            n = len(later)
            later.extend(product.publish(unit(f"later-{n}", f"Gull number {n} was ringed at the pier.")))

    load = threading.Thread(target=keep_publishing)
    load.start()
    try:
        code, out, err = cortex(product, "backup", str(tmp_path / "backup"), "--json")
    finally:
        stop.set()
        load.join(30)
    assert code == 0, err
    manifest = json.loads(out)
    code, _, err = cortex(product, "restore", str(tmp_path / "backup"), "--data-dir", str(product.folder))
    assert code == 1
    assert "in use by another Cortex" in err
    restored = Product(tmp_path / "restored", env=PATIENT)
    code, out, err = cortex(product, "restore", str(tmp_path / "backup"), "--data-dir", str(restored.folder))
    assert code == 0, err
    try:
        restored.start()
        restored.wait_stored(accepted)
        product.wait_stored(later)
        first = [ids(one.ask(QUESTION))[0] for one in (product, restored)]
        assert first == ["new", "new"]
        for n in (0, 20, 39):
            assert ids(restored.ask(f"cargo manifest number {n}", limit=50)).count(f"load-{n}") == 1
        kept = [event for event in later if restored.status(event["id"], event["source"])]
        assert kept == later[: len(kept)]  # a beginning of what came during the backup, without a gap
        restored.wait_stored(kept)
        assert restored.http.get("/v1/status").json()["counts"]["units"] == manifest["events"]
        again = restored.publish(unit("load-0", "Cargo manifest number 0 lists 3 crates."))
        assert again[0]["duplicate"] is True
        stale = restored.http.post("/v1/context", json={"q": QUESTION, "min_token": accepted[0]["token"]})
        assert (stale.status_code, stale.json()["type"]) == (400, "/problems/invalid-token")
        restored.wait_stored(restored.publish(unit("after", "The restored harbour opens at noon.")))
        assert "after" in ids(restored.ask("when does the restored harbour open?"))
    finally:
        restored.close()


def test_doctor_says_what_to_do_about_a_damaged_folder(product, tmp_path):
    """With the service down: the damage is named, everything else is still checked."""
    cortex(product, "backup", str(tmp_path / "backup"))
    folder = tmp_path / "broken"
    assert cortex(product, "restore", str(tmp_path / "backup"), "--data-dir", str(folder))[0] == 0
    well = cortex(
        product, "doctor", "--json", "--data-dir", str(folder), "--port", "19420", "--url", "http://127.0.0.1:9"
    )
    assert well[0] == 0, well[1]
    content = bytearray((folder / "knowledge" / "demo.db").read_bytes())
    for page in range(4_096, len(content) - 4_096, 8_192):
        content[page : page + 512] = bytes(512)
    (folder / "knowledge" / "demo.db").write_bytes(content)
    code, out, _ = cortex(
        product, "doctor", "--json", "--data-dir", str(folder), "--port", "19420", "--url", "http://127.0.0.1:9"
    )
    findings = {finding["check"]: finding for finding in json.loads(out)["findings"]}
    assert code == 1
    assert findings["store demo"]["state"] == "fail"
    assert "rebuilt from the journal" in findings["store demo"]["advice"]
    assert findings["embedder"]["state"] == "ok"
    assert findings["service"]["state"] == "skip"
