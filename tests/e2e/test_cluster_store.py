"""A cluster whose Weaviate dies or hangs: what was accepted waits and is searchable afterwards; what is lacking is said."""

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.cluster_product import ClusterProduct
from tests.e2e.product import until
from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(300)]

TURNS_S = 30.0  # what is promised
QUESTION = "Where is the signal lamp kept?"
KINDS = {"/problems/store-unavailable", "/problems/all-sources-lost", "/problems/deadline"}


@pytest.fixture
def known(tenant: Tenant) -> Tenant:
    """A tenant of which something is stored."""
    tenant.tell(tenant.unit("lamp", "The signal lamp is kept in the wheelhouse."))
    return tenant


def asked(cluster: ClusterProduct, tenant: Tenant) -> Iterator[httpx.Response]:
    """Ask each replica, which must answer within the client's half minute."""
    for number in range(len(cluster.query_ports)):
        with cluster.replica(number) as replica:
            yield replica.post("/v1/context", json={"q": QUESTION}, params={"tenant": tenant.name})


def assert_says_what_it_lacks(answer: httpx.Response) -> None:
    """Either a typed problem, or an answer that names what is lost: never an empty success."""
    if answer.status_code == 200:
        assert answer.json()["lost"], answer.text
        assert answer.json()["complete"] is False
    else:
        assert answer.status_code in {503, 504}
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] in KINDS


def assert_all_there(tenant: Tenant, accepted: list[dict]) -> None:
    """Everything accepted is stored and searchable, once, and nothing of it was given up."""
    tenant.settle(accepted)
    assert tenant.units() == 1 + len(accepted)
    assert tenant.letters() == []
    for number in range(len(accepted)):
        assert f"u{number}" in tenant.found(f"rope number {number}")
    assert tenant.found(QUESTION)[0] == "lamp"


def ropes(tenant: Tenant) -> list[dict]:
    return tenant.publish(*(tenant.unit(f"u{n}", f"Rope number {n} is {n + 20} metres long.") for n in range(20)))


def test_while_weaviate_is_dead_nothing_is_lost_and_nobody_is_told_that_nothing_is_known(
    cluster: ClusterProduct, known: Tenant
):
    cluster.kill_weaviate()
    try:
        accepted = ropes(known)
        for port in (*cluster.query_ports, *cluster.ingest_ports):
            until(lambda port=port: not cluster.ready(port), TURNS_S, f"readiness of {port} has turned")
            reasons = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10, trust_env=False).json()["reasons"]
            assert "store" in reasons
        for answer in asked(cluster, known):
            assert_says_what_it_lacks(answer)
    finally:
        cluster.start_weaviate()
    cluster.wait_ready()
    assert_all_there(known, accepted)


def test_while_weaviate_hangs_every_wait_ends_and_afterwards_all_is_there(cluster: ClusterProduct, known: Tenant):
    with cluster.frozen_weaviate():
        accepted = ropes(known)
        for port in (*cluster.query_ports, *cluster.ingest_ports):
            until(lambda port=port: not cluster.ready(port), TURNS_S, f"readiness of {port} has turned")
        for answer in asked(cluster, known):
            assert_says_what_it_lacks(answer)
    cluster.wait_ready()
    assert_all_there(known, accepted)
