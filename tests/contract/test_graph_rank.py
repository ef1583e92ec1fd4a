"""Distance and rank in an entity graph, and how far around the seeds is looked."""

import pytest

from shared.graphs.memory import MemoryGraph
from shared.graphs.replica import GraphReplica
from tests.contract.graph_worlds import BOTH, NONE, A, built, entity, relation, unit

# distance


def test_an_edge_costs_one_over_its_weight_and_at_most_two(graph):
    snapshot = built(
        graph,
        relation("ann", "member_of", "core", 0.8),
        relation("core", "part_of", "acme", 0.1),
        relation("x", "owns", "y"),
    )
    assert snapshot.proximity("ann", ["ann", "core", "acme", "y", "nobody"]) == pytest.approx(
        {"ann": 0.0, "core": 1.25, "acme": 3.25}
    )
    assert snapshot.proximity("acme", ["ann"]) == pytest.approx({"ann": 3.25})


def test_four_edges_are_reached_and_five_are_not(graph):
    chain = [relation(f"p{number}", "works_on", f"p{number + 1}") for number in range(5)]
    assert built(graph, *chain).proximity("p0", ["p4", "p5"]) == {"p4": 4.0}


def test_the_cheapest_of_the_short_ways_counts(graph):
    """A weak direct relation costs 2; two certain ones cost 2; three cost 3."""
    snapshot = built(
        graph, relation("a", "relates_to", "b", 0.6), relation("a", "owns", "c"), relation("c", "owns", "b")
    )
    assert snapshot.proximity("a", ["b"]) == pytest.approx({"b": 1 / 0.6})


def test_what_units_say_brings_nobody_nearer(graph):
    """Distance takes no scopes, so it must not rest on units that the asker may not read."""
    snapshot = built(graph, entity("ann", "ann"), unit("1", A, "ann", "core"))
    assert snapshot.proximity("ann", ["~core"]) == {}


# rank


def test_ranks_sum_to_one_and_fall_with_distance(graph):
    snapshot = built(
        graph, unit("1", A, "a", "b"), unit("2", A, "b", "c"), unit("3", A, "c", "d"), unit("4", A, "y", "z")
    )
    ranks = snapshot.pagerank({"~a": 1.0}, BOTH)
    assert sum(ranks.values()) == pytest.approx(1.0, abs=1e-6)
    assert ranks["~a"] > ranks["~b"] > ranks["~c"] > ranks["~d"] > 0
    assert not {"~y", "~z"} & set(ranks)


def test_no_known_seed_is_empty(graph):
    snapshot = built(graph, unit("1", A, "a", "b"))
    for seeds in ({}, {"~nobody": 1.0}, {"~a": 0.0}, {"~a": -1.0}, {"~a": float("nan")}, {"~a": float("inf")}):
        assert snapshot.pagerank(seeds, BOTH) == {}


def test_unknown_seeds_beside_known_ones_do_not_count(graph):
    snapshot = built(graph, unit("1", A, "a", "b"))
    assert snapshot.pagerank({"~a": 1.0, "~nobody": 9.0}, BOTH) == pytest.approx(snapshot.pagerank({"~a": 5.0}, BOTH))


def test_a_seed_without_edges_keeps_its_share(graph):
    snapshot = built(graph, unit("1", A, "a", "b"), unit("2", A, "alone"))
    ranks = snapshot.pagerank({"~a": 3.0, "~alone": 1.0}, BOTH)
    assert ranks["~alone"] == pytest.approx(0.25)
    assert sum(ranks.values()) == pytest.approx(1.0)


def test_a_hub_that_stands_everywhere_leads_nowhere_in_particular(graph):
    """Both were named with the question's entity once; the one that is named with everything ranks lower."""
    everywhere = [unit(f"n{number}", A, "hub", f"other{number}") for number in range(30)]
    snapshot = built(graph, unit("1", A, "question", "hub"), unit("2", A, "question", "rare"), *everywhere)
    ranks = snapshot.pagerank({"~question": 1.0}, BOTH)
    assert ranks["~rare"] > ranks["~hub"]


def test_more_support_is_stronger(graph):
    many = [unit(f"m{number}", A, "a", "often") for number in range(5)]
    snapshot = built(graph, *many, unit("1", A, "a", "once"))
    assert [near.entity_id for near in snapshot.neighbours("~a", BOTH, 5)] == ["~often", "~once"]
    assert [near.entity_id for near in snapshot.neighbours("~a", BOTH, 1)] == ["~often"]
    assert list(snapshot.neighbours("~a", BOTH, 0)) == []


def test_a_relation_is_told_with_its_direction(graph):
    snapshot = built(graph, relation("ann", "owns", "kube", 0.7), relation("kube", "depends_on", "etcd", 0.7))
    near_kube = [
        (near.entity_id, near.relation, near.outgoing, near.weight) for near in snapshot.neighbours("kube", NONE, 5)
    ]
    assert near_kube == [("ann", "owns", False, 0.7), ("etcd", "depends_on", True, 0.7)]


@pytest.mark.parametrize("limit", [2, 3, 5, 8])
def test_only_so_many_vertices_around_the_seeds_are_looked_at(limit):
    """Both implementations choose the same ones: the nearest layers, in the last the most promising."""
    units = [unit(f"{number}", A, "seed", f"n{number}", weight=(number + 1) / 10) for number in range(6)]
    units += [unit(f"far{number}", A, f"n{number}", f"far{number}") for number in range(6)]
    graphs = (MemoryGraph(pagerank_vertices=limit), GraphReplica(pagerank_vertices=limit))
    answers = [built(graph, *units).pagerank({"~seed": 1.0}, BOTH) for graph in graphs]
    assert len(answers[0]) == limit
    assert answers[1] == pytest.approx(answers[0], abs=1e-6)


def test_only_so_many_edges_among_them_are_looked_at():
    """Forty parallel relations between three entities: those at the seed count first, then the strongest."""
    related = [
        relation(source, f"r{number:02}", target, (number + 1) / 100)
        for number in range(40)
        for source, target in [("a", "b"), ("b", "c"), ("a", "c")]
    ]
    graphs = (MemoryGraph(pagerank_vertices=3), GraphReplica(pagerank_vertices=3))
    answers = [built(graph, *related).pagerank({"b": 1.0}, NONE) for graph in graphs]
    assert answers[1] == pytest.approx(answers[0], abs=1e-6)
    assert set(answers[0]) == {"a", "b", "c"}
