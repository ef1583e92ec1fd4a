"""The graph of a query process that is ended and started again: the same as that of one that never was (case C63)."""

import pytest

from tests.e2e.cluster_product import ClusterProduct
from tests.e2e.product import READY_S, until
from tests.e2e.tenant import Tenant

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(300)]

NAMES = [
    f"{first} {last}" for first in ("Ida", "Jon", "Mia", "Olaf") for last in ("Quist", "Berg", "Falk", "Lund", "Moe")
]
NEW = "Alca"
QUESTION = "What did Ida Quist hand to whom?"


def told(tenant: Tenant, number: int, *others: str) -> dict:
    """A unit that ties two or more people to each other."""
    people = [NAMES[number % 20], NAMES[(number * 7 + 3) % 20], *others]
    return tenant.unit(f"u{number}", f"{people[0]} handed pump {number} over to {' and '.join(people[1:])}.")


def view(cluster: ClusterProduct, tenant: Tenant, number: int) -> dict:
    """What a replica makes of the graph: entities, neighbours with their weights, and an answer with its scores."""
    with cluster.replica(number) as replica:
        address = {"tenant": tenant.name}
        listed = replica.get("/v1/entities", params={**address, "limit": 200}).json()
        named = replica.get("/v1/entities", params={**address, "q": "Ida Quist"}).json()["match"]
        page = replica.get(f"/v1/entities/{named['entity_id']}", params=address).json() if named else {}
        answer = replica.post("/v1/context", json={"q": QUESTION, "explain": True, "limit": 20}, params=address).json()
    return {
        "entities": {one["id"]: one for one in listed["entities"]},
        "neighbours": {one["name"]: (round(one["weight"], 6), one["support"]) for one in page.get("neighbours", ())},
        "scores": [(one["unit_id"], round(one["score"], 6)) for one in answer["results"]],
        "entities named": [one["name"] for one in answer["entities"]],
        "lost": answer["lost"],
    }


def agreed(cluster: ClusterProduct, tenant: Tenant, units: int, entities: int) -> dict:
    """Wait until everything is stored, and both replicas make the same of the graph, which follows by a moment; give it."""
    tenant.eventually(lambda: tenant.units() == units, f"{units} units are stored")

    def same() -> dict | None:
        one, other = view(cluster, tenant, 0), view(cluster, tenant, 1)
        return one if one == other and len(one["entities"]) == entities else None

    return dict(tenant.eventually(same, f"both replicas agree on {entities} entities"))


def restart(cluster: ClusterProduct, number: int) -> None:
    cluster.kill_query(number)
    cluster.start_query(number)
    until(lambda: cluster.ready(cluster.query_ports[number]), READY_S, "it has read the graph again")


def test_a_graph_read_again_after_a_kill_gives_the_same_scores_as_one_that_grew(
    cluster: ClusterProduct, tenant: Tenant
):
    """Case C63: 300 units; 50 more that bring new names, 20 fewer, and a kill in the middle of that."""
    tenant.publish(*(told(tenant, number) for number in range(300)))
    before = agreed(cluster, tenant, 300, len(NAMES))
    assert before["neighbours"], "there is something to walk along"
    assert before["lost"] == []
    restart(cluster, 1)
    assert agreed(cluster, tenant, 300, len(NAMES)) == before

    tenant.publish(*(told(tenant, number, f"{NEW}{number}") for number in range(300, 350)))
    for number in range(20):
        assert cluster.http.delete(f"/v1/units/u{number}", params={"tenant": tenant.name}).status_code == 202
    restart(cluster, 1)
    after = agreed(cluster, tenant, 330, len(NAMES) + 50)
    assert after["neighbours"] != before["neighbours"]
