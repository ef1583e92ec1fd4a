"""Background jobs on a cluster: ordered at one replica, watched at the other, done by whichever ingest process is there."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from httpx_sse import connect_sse
from standardwebhooks import Webhook

from tests.e2e.cluster_product import HOOKED, MODEL, ClusterProduct
from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(300)]

FIRST = "hashed-terms/64"


def job_of(tenant: Tenant, address: str) -> dict:
    return dict(tenant.get(address).json())


def over(tenant: Tenant, address: str) -> dict:
    """Wait until a job is over, and return it."""
    return dict(tenant.eventually(lambda: _ended(job_of(tenant, address)), f"{address} is over"))


def _ended(job: dict) -> dict | None:
    return job if job.get("state") in {"done", "failed", "cancelled"} else None


def change(tenant: Tenant, model: str) -> str:
    """Order another embedding model; return the job's address."""
    address = {"tenant": tenant.name}
    taken = tenant.product.http.post("/v1/models/change", json={"model": model}, params=address)
    assert taken.status_code == 202, taken.text
    return str(taken.json()["address"])


def models(tenant: Tenant) -> list[tuple[str, bool]]:
    return [(one["name"], one["active"]) for one in tenant.get("/v1/models").json()["models"]]


def first(tenant: Tenant, question: str) -> str:
    answer = tenant.ask(question)
    assert answer["lost"] == []
    return str(answer["results"][0]["unit_id"])


def test_the_embedding_model_is_changed_while_serving_and_gone_back_from(cluster: ClusterProduct, tenant: Tenant):
    """Case C61: the old index answers until the new one is whole; then the switch; and back without computing anything."""
    embeddings = cluster.embeddings
    tenant.publish(*(tenant.unit(f"u{n}", f"Team {n} restarts the gateway of region {n}.") for n in range(60)))
    tenant.eventually(lambda: tenant.units() == 60, "all are stored")
    embeddings.held_after["words"] = embeddings.served["words"] + 20
    try:
        address = change(tenant, MODEL)
        tenant.eventually(lambda: job_of(tenant, address)["done"] >= 16, "the new index is being built")
        assert models(tenant) == [(FIRST, True), (MODEL, False)]
        assert first(tenant, "who restarts the gateway of region 7?") == "u7"
        tenant.tell(tenant.unit("late", "Team Umber trims the wicks of every lantern."))
        assert first(tenant, "who trims the wicks of every lantern?") == "late"
    finally:
        del embeddings.held_after["words"]
    job = over(tenant, address)
    assert (job["state"], job["failed"], job["done"]) == ("done", 0, job["total"])
    assert models(tenant) == [(MODEL, True), (FIRST, False)]
    asked = embeddings.served["words"]
    for question, expected in (
        ("which team restarts region 7's gateway?", "u7"),
        ("which team trims all the lantern wicks?", "late"),
    ):
        assert {first(tenant, question) for _ in cluster.query_ports} == {expected}, "at every replica"
    assert embeddings.served["words"] > asked, "questions are embedded by the index's model"
    back = over(tenant, change(tenant, FIRST))
    assert (back["state"], back["done"]) == ("done", 0), "its vectors were kept, and kept up"
    assert models(tenant) == [(FIRST, True), (MODEL, False)]
    assert first(tenant, "who trims the wicks of every lantern?") == "late"


def test_a_letter_that_is_replayed_twice_does_not_overwrite_the_newer_version(cluster: ClusterProduct, tenant: Tenant):
    """Case C35: version 1 of a document fails, version 2 succeeds; then the cause is mended and version 1 sent again."""
    tenant.tell(tenant.unit("other", "The mess opens at seven."))
    assert over(tenant, change(tenant, MODEL))["state"] == "done"
    cluster.embeddings.refused = "unspeakable"
    try:
        part, completed = tenant.document("manual", 1, ["The unspeakable winch holds 5 tonnes."])
        tenant.publish(part, completed)
        (letter,) = tenant.eventually(tenant.letters, "version 1 has its dead letter")
        tenant.tell(*tenant.document("manual", 2, ["The winch holds 6 tonnes."]))
    finally:
        cluster.embeddings.refused = None
    assert (letter["event_id"], letter["stage"], letter["state"]) == ("manual-0-1", "embed", "open")
    http, address = cluster.http, {"tenant": tenant.name}
    replay = f"/v1/dead-letters/{letter['id']}/replay"
    ordered = http.post(replay, params=address, json={"reason": "mended"})
    assert ordered.status_code == 202, ordered.text
    assert over(tenant, ordered.json()["jobs"][0]["job"])["state"] == "done"
    tenant.wait_state("manual-0-1", ("stale", "superseded"))
    tenant.eventually(lambda: tenant.letters()[0]["state"] != "open", "the letter is seen to")
    again = http.post(replay, params=address, json={"reason": "once more"})
    assert again.status_code in {200, 202}, again.text
    for one in again.json()["jobs"]:
        over(tenant, one["job"])
    (seen_to,) = tenant.letters()
    assert (seen_to["state"], seen_to["resolved_by"]) == ("replayed", "trusted caller")
    assert seen_to["resolved_at"] is not None
    assert tenant.units() == 2
    assert tenant.get("/v1/units/manual/0").json()["unit"]["text"] == "The winch holds 6 tonnes."
    assert "unspeakable" not in json.dumps(tenant.search("how much does the winch hold?"))


def test_a_webhooks_job_outlives_the_process_that_did_it_and_is_one_at_every_replica(cluster: ClusterProduct):
    """Case C67, inbound: signed, stale, forged and repeated messages at two replicas, and a kill in the middle."""
    tenant = Tenant(cluster, HOOKED)
    tenant.publish(*(tenant.unit(f"u{n}", f"Berth {n} is {n} metres long.") for n in range(120)))
    tenant.eventually(lambda: tenant.units() == 120, "all are stored")
    body = {"stage": "embed", "select": {"scope": "team/core"}, "reason": "tuned"}
    assert over(tenant, change(tenant, MODEL))["state"] == "done"
    cluster.embeddings.held_after["words"] = cluster.embeddings.served["words"] + 60
    try:
        with cluster.replica(0) as one, cluster.replica(1) as other:
            assert hook(cluster, other, "m-0", body, at=datetime.now(UTC) - timedelta(minutes=6)).status_code == 401
            assert hook(cluster, other, "m-0", body, forged=True).status_code == 401
            taken = hook(cluster, one, "m-1", body)
            assert taken.status_code == 202, taken.text
            address = taken.json()["address"]
            tenant.eventually(lambda: job_of(tenant, address)["done"] > 0, "the job has begun")
            repeated = hook(cluster, other, "m-1", body)
            assert (repeated.status_code, repeated.json()["address"]) == (200, address), "a replay is a no-op"
            queued = hook(cluster, other, "m-2", body)
            assert queued.status_code == 202
            joined = hook(cluster, other, "m-3", body)
            assert (joined.status_code, joined.json()["joined"]) == (202, True), "equal to one that has not begun"
            assert joined.json()["address"] == queued.json()["address"] != address
            for number in range(2):  # whichever of them has the job
                cluster.kill_ingest(number)
                cluster.start_ingest(number)
            del cluster.embeddings.held_after["words"]
            live = tenant.publish(tenant.unit("live", "The quay is closed on Sundays."))
            with connect_sse(other, "GET", f"{address}/stream", params={"tenant": HOOKED}) as source:
                events = [(event.event, json.loads(event.data)) for event in source.iter_sse()]
            assert events[-1][0] == "complete", events[-1]
            assert (events[-1][1]["state"], events[-1][1]["done"], events[-1][1]["total"]) == ("done", 120, 120)
            tenant.settle(live)
            assert over(tenant, queued.json()["address"])["state"] == "done"
            assert hook(cluster, other, "m-1", body).status_code == 200, "also when it is over"
    finally:
        cluster.embeddings.held_after.pop("words", None)
    assert tenant.found("how long is berth 117?")[0] == "u117"
    assert tenant.letters() == []


def hook(cluster: ClusterProduct, replica, message_id: str, body: dict, *, at=None, forged: bool = False):
    """Send a webhook as its sender does."""
    content, at = json.dumps(body), at or datetime.now(UTC)
    signature = Webhook(cluster.secret).sign(message_id, at, content)
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    return replica.post("/v1/webhooks/reindex", content=content + (" " if forged else ""), headers=headers)
