"""An event goes in, a streamed, cited answer comes out, and nothing accepted is lost to a kill."""

import asyncio
import json
import re

import pytest
from aiokafka import AIOKafkaProducer
from httpx_sse import connect_sse

from compose.company.loader import company_events
from compose.company.questions import GOLDEN
from schemas.events import dump_event
from schemas.stream import EVENT_NAMES
from tests.e2e.product import SEARCHABLE_S, Product, running, unit, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    """A Cortex that holds the sample company."""
    with running(tmp_path_factory.mktemp("company") / "data") as product:
        events = [dump_event(event) for event in company_events("demo")]
        product.wait_stored(product.publish(*events))
        yield product


def ids(answer):
    return [result["unit_id"] for result in answer["results"]]


def stream(product, question):
    """Return the stream's events as (name, data, id)."""
    with connect_sse(product.http, "GET", "/v1/context/stream", params={"q": question}) as source:
        return [(event.event, json.loads(event.data), event.id) for event in source.iter_sse()]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden.principal or 'anyone'}: {golden.question}")
def test_the_company_answers_its_golden_questions(company, golden):
    options = {"principal": golden.principal} if golden.principal else {}
    answer = company.ask(golden.question, **options)
    merged = {other for result in answer["results"] for other in result["also"]}
    assert set(golden.expected) <= set(ids(answer)) | merged
    assert not set(golden.absent) & set(ids(answer))
    if golden.conflict:
        pairs = {tuple(sorted(side["unit_id"] for side in conflict["sides"])) for conflict in answer["conflicts"]}
        assert golden.conflict in pairs


def test_one_statement_from_two_sources_is_one_result_with_two_sources(company):
    """Case C10: said again is corroboration, not another unit in the answer."""
    answer = company.ask("when does the summer timetable start?")
    (result,) = [result for result in answer["results"] if "summer timetable starts" in result["text"]]
    assert {result["unit_id"], *result["also"]} == {"fact-011", "fact-012"}
    assert result["corroborations"] == 2


def test_every_citation_leads_to_the_text_it_quotes(company):
    """Case C65."""
    answer = company.ask("why was a traveller charged twice?")
    assert answer["citations"]
    for citation in answer["citations"]:
        text = company.http.get(f"/v1/units/{citation['unit_id']}").json()["unit"]["text"]
        quoted = text[citation["start"] : citation["end"]]
        assert quoted
        assert citation["label"] in answer["context"]
        assert {"unit_id", "scope", "source"} <= set(citation)


def test_the_stream_tells_the_stages_in_order_and_folds_to_the_answer(company):
    events = stream(company, "why did we choose PostgreSQL for the ledger?")
    names = [name for name, _, _ in events]
    assert [name for name in EVENT_NAMES if name in names] == names
    assert names[-1] == "complete"
    request = {event_id.rsplit("-", 1)[0] for _, _, event_id in events}
    assert len(request) == 1
    assert ids(events[-1][1]["answer"])[0] == "dec-001"


def test_an_untrusted_text_is_data_and_cannot_close_the_block(company):
    """Case C58."""
    answer = company.ask("what did the forum thread say about deploying ferries?")
    assert "web-001" in ids(answer)
    assert len(re.findall(r"</cortex-context", answer["context"], re.IGNORECASE)) == 1
    assert answer["context"].rstrip().endswith("</cortex-context>")
    assert "untrusted" in answer["context"].lower()
    assert answer["intent"]["purpose"] != "security"


def test_a_kafka_producer_needs_nothing_but_kafka(company):
    event = unit("kafka-1", "The lighthouse at Skerry blinks every nine seconds.", event_id="kafka-1")

    async def produce():
        producer = AIOKafkaProducer(bootstrap_servers=company.kafka, acks="all")
        await producer.start()
        try:
            await producer.send_and_wait("cortex.events", json.dumps(event).encode(), key=b"demo/kafka-1")
        finally:
            await producer.stop()

    asyncio.run(produce())
    until(
        lambda: (company.status("kafka-1", "urn:test") or {}).get("state") == "stored",
        SEARCHABLE_S,
        "the Kafka event is stored",
    )
    assert ids(company.ask("how often does the lighthouse at Skerry blink?"))[0] == "kafka-1"


def test_a_retracted_unit_is_gone_everywhere(company):
    company.wait_stored(company.publish(unit("gone-1", "The harbour cat is called Pilot.")))
    assert "gone-1" in ids(company.ask("what is the harbour cat called?"))
    response = company.http.delete("/v1/units/gone-1")
    assert response.status_code == 202, response.text
    until(lambda: company.http.get("/v1/units/gone-1").status_code == 404, SEARCHABLE_S, "the unit is gone")
    assert "gone-1" not in ids(company.ask("what is the harbour cat called?"))
    assert company.http.delete("/v1/units/gone-1").status_code == 404


def test_read_your_writes_by_token(company):
    (accepted,) = company.publish(unit("token-1", "The winter coat of the ferries is painted grey."))
    answer = company.ask("which colour is the winter coat of the ferries?", min_token=accepted["token"], wait_ms=10_000)
    assert answer["stale"] is False
    assert "token-1" in ids(answer)


@pytest.mark.parametrize("told", [True, False], ids=["length told", "in pieces"])
@pytest.mark.parametrize("path", ["/v1/events", "/v1/context"])
def test_a_body_that_is_far_too_large_is_answered_and_not_cut_off(company, path, told):
    """A sender that is still sending reads the answer only if it can send on."""
    piece, pieces = b"x" * 1_000_000, 20
    body = piece * pieces if told else (piece for _ in range(pieces))
    with company.another() as http:
        response = http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["status"]) == (413, 413)


@pytest.mark.parametrize("moment", ["at once", "when half is stored", "when all is stored"])
def test_what_was_accepted_survives_a_kill_of_the_whole_tree(tmp_path, moment):
    """SIGKILL of the parent takes every child along; the next start finds everything accepted, once."""
    product = Product(tmp_path / "data")
    events = [
        unit(f"kill-{n}", f"Buoy number {n} was painted in {'red' if n % 2 else 'green'} colour.") for n in range(60)
    ]
    try:
        product.start()
        accepted = product.publish(*events)
        if moment == "when half is stored":
            product.wait_stored(accepted[:30])
        elif moment == "when all is stored":
            product.wait_stored(accepted)
        product.kill()
        product.start()
        product.wait_stored(accepted)
        again = product.publish(*events)
        assert all(event["duplicate"] for event in again)
        for n in (0, 29, 59):
            found = product.ask(f"buoy number {n}", limit=50)
            assert ids(found).count(f"kill-{n}") == 1
        status = product.http.get("/v1/status").json()
        assert status["counts"]["units"] == 60
    finally:
        product.close()


def test_a_second_start_on_the_folder_is_refused_and_harms_nothing(company, tmp_path):
    second = Product(company.folder)
    try:
        with pytest.raises(AssertionError, match="ended with 1"):
            second.start()
        assert "running on this" in second.log() or "in use" in second.log().lower()
    finally:
        second.close()
    assert company.http.get("/readyz").status_code == 200


def test_ctrl_c_ends_every_process(tmp_path):
    product = Product(tmp_path / "data")
    try:
        product.start()
        assert product.stop() in {0, 130}
    finally:
        product.close()
