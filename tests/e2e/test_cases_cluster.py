"""Cases on the cluster set-up: two ingest and two query processes, real servers, met over HTTP."""

import json
from typing import Any

import httpx
import pytest

from schemas.positions import Position
from tests.e2e.cluster_product import ClusterProduct
from tests.e2e.product import until
from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(400)]

TURNS_S = 30.0  # what is promised


def test_one_event_delivered_three_times_and_said_again_by_another_source(tenant: Tenant):
    """Case C10: one unit a source, one text, two corroborations, whichever door and replica it came through."""
    text = "Deploy freeze starts Friday."
    event = tenant.unit("e1", text, source="urn:chat")
    for _ in range(3):
        tenant.publish(event)
    tenant.produce(json.dumps(event).encode(), key=f"{tenant.name}/e1".encode())
    tenant.wait_state(event["id"], "stored", "urn:chat")
    tenant.tell(tenant.unit("e2", text, source="urn:wiki"))
    assert tenant.units() == 2
    assert tenant.status()["counts"]["passages"] == 1
    (result,) = [one for one in tenant.search("When does the deploy freeze start?") if one["text"] == text]
    assert result["corroborations"] == 2


def test_a_shorter_version_of_a_document_leaves_no_tail(tenant: Tenant):
    """Case C14."""
    texts = [f"Section {n}. Its marker is MARK-{n:02d}." for n in range(1, 41)]
    tenant.tell(*tenant.document("manual", 1, texts))
    assert tenant.units() == 40
    edited = [*texts[:2], "Section 3 was rewritten. Its marker is MARK-03.", *texts[3:6]]
    tenant.tell(*tenant.document("manual", 2, edited))
    tenant.eventually(lambda: tenant.units() == 6, "the tail is gone")
    assert {one["text"] for one in tenant.search("MARK")} == set(edited)
    tenant.tell(*({**event, "id": f"again-{event['id']}"} for event in tenant.document("manual", 2, edited)))
    assert tenant.units() == 6


def test_poison_between_good_events_of_one_partition(tenant: Tenant):
    """Case C30."""
    good = [tenant.unit("e1", "The quail nests in May."), tenant.unit("e7", "The heron nests in June.")]
    bad = [b"{not json", json.dumps({**tenant.unit("e3", "x"), "type": "unit.guessed"}).encode()]
    bodies = [json.dumps(good[0]).encode(), *bad, json.dumps(good[1]).encode()]
    places = tenant.produce(*bodies, key=f"{tenant.name}/e1".encode())
    for event in good:
        tenant.wait_state(event["id"], "stored")
    (letter,) = tenant.eventually(tenant.letters, "it has its dead letter")
    assert (letter["stage"], letter["cause"], letter["attempts"]) == ("embed", "invalid-input", 1)
    assert (letter["partition"], letter["offset"]) == places[2]


def test_twenty_kills_of_ingest_processes_leave_nothing_in_between(cluster: ClusterProduct, tenant: Tenant):
    """Case C32: each time another process takes the place of the one that was killed, in the middle of 200 events."""
    accepted = []
    for number in range(20):
        said = [tenant.unit(f"u{number}-{n}", f"Locker {number * 10 + n} holds a rope.") for n in range(10)]
        accepted += tenant.publish(*said)
        cluster.kill_ingest(number % 2)
        cluster.start_ingest(number % 2)
    tenant.settle(accepted)
    assert tenant.units() == 200
    assert tenant.letters() == []
    tenant.eventually(lambda: not any(mark["lag"] for mark in tenant.status()["watermarks"]), "the lag is 0")


def test_while_redis_is_away_events_are_handled_and_questions_answered(cluster: ClusterProduct, tenant: Tenant):
    tenant.tell(tenant.unit("before", "The spare key hangs in the boathouse."))
    cluster.kill_redis()
    try:
        accepted = tenant.publish(*(tenant.unit(f"u{n}", f"Buoy {n} is painted green.") for n in range(20)))
        for answer in [tenant.ask("Where does the spare key hang?") for _ in cluster.query_ports]:
            assert [result["unit_id"] for result in answer["results"]][:1] == ["before"]
            assert (answer["degraded"], answer["lost"], answer["complete"]) == (True, [], True), "only slower"
        tenant.settle(accepted)
    finally:
        cluster.start_redis()
    tenant.eventually(lambda: not tenant.ask("Where does the spare key hang?")["degraded"], "the cache is back")
    assert tenant.units() == 21
    assert tenant.letters() == []


def test_what_was_written_through_one_replica_is_read_at_once_through_the_other(
    cluster: ClusterProduct, tenant: Tenant
):
    """By its token, in both directions; a token that nothing will reach is told as stale once the wait is over."""
    tenant.tell(tenant.unit("first", "The pilot boat is moored at berth 3."))
    with cluster.replica(0) as one, cluster.replica(1) as other:
        for number, (written, asked) in enumerate([(one, other), (other, one)] * 3):
            said = tenant.unit(f"tide-{number}", f"The tide table number {number} hangs in the mess.")
            taken = written.post("/v1/events", json=[said])
            assert taken.status_code == 202, taken.text
            token = taken.json()["accepted"][0]["token"]
            question = {"q": f"where does tide table number {number} hang?", "min_token": token}
            answer = ask_at(asked, tenant, **question, wait_ms=10_000)
            assert answer["stale"] is False
            assert f"tide-{number}" in [result["unit_id"] for result in answer["results"]]
        never = Position.from_token(token).model_copy(update={"number": 10**9}).token()
        for replica in (one, other):
            answer = ask_at(replica, tenant, q=question["q"], min_token=never, wait_ms=300)
            assert (answer["stale"], answer["complete"]) == (True, False)
            assert answer["results"], "what is there is given"


def ask_at(replica: httpx.Client, tenant: Tenant, **question: Any) -> dict[str, Any]:
    """Ask one replica."""
    response = replica.post("/v1/context", json=question, params={"tenant": tenant.name})
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_while_kafka_is_down_nothing_is_accepted_that_is_not_kept(cluster: ClusterProduct, tenant: Tenant):
    accepted = tenant.publish(*(tenant.unit(f"u{n}", f"Crane {n} lifts two tonnes.") for n in range(20)))
    cluster.kill_broker()
    try:
        refused = cluster.http.post("/v1/events", json=[tenant.unit("down", "Crane 99 is broken.")])
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        for port in cluster.ingest_ports:
            until(lambda port=port: not cluster.ready(port), TURNS_S, "readiness has turned")
    finally:
        cluster.start_broker()
    for port in (*cluster.ingest_ports, *cluster.query_ports):
        until(lambda port=port: cluster.ready(port), 2 * TURNS_S, "it is ready again, without a restart")
    tenant.settle([*accepted, *tenant.publish(tenant.unit("after", "Crane 100 works."))])
    for name in (*(f"u{n}" for n in range(20)), "after"):
        assert tenant.get(f"/v1/units/{name}").status_code == 200, name
