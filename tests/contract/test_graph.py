"""An entity graph is a function of the set of contributions: what is in it, for whom, and under which names."""

import pytest

from tests.contract.graph_worlds import BOTH, NONE, TENANT, A, B, built, entity, relation, removal, unit

# what there is


def test_an_unknown_tenant_is_empty(graph):
    snapshot = graph.snapshot("nobody")
    assert (snapshot.counts(), snapshot.version) == ((0, 0), 0)
    assert snapshot.pagerank({"~kafka": 1.0}, BOTH) == {}
    assert snapshot.proximity("alice", ["bob"]) == {}
    assert list(snapshot.neighbours("~kafka", BOTH, 5)) == []
    assert snapshot.resolve("kafka").entity_id == "~kafka"
    assert not snapshot.knows("kafka", BOTH)
    assert graph.refresh() is False


def test_what_is_applied_shows_after_the_next_refresh(graph):
    graph.apply([unit("1", A, "kafka", "zookeeper")])
    assert graph.snapshot(TENANT).counts() == (0, 0)
    assert graph.refresh() is True
    assert graph.snapshot(TENANT).counts() == (2, 1)
    assert graph.refresh() is False


def test_a_snapshot_in_hand_does_not_change(graph):
    before = built(graph, unit("1", A, "kafka", "zookeeper"))
    seen = before.pagerank({"~kafka": 1.0}, BOTH)
    after = built(graph, unit("2", A, "kafka", "postgres"), removal(unit("1", A, "kafka")))
    assert (before.counts(), before.pagerank({"~kafka": 1.0}, BOTH)) == ((2, 1), seen)
    assert after.version > before.version
    assert set(after.pagerank({"~kafka": 1.0}, BOTH)) == {"~kafka", "~postgres"}


def test_tenants_do_not_see_each_other(graph):
    built(graph, unit("1", A, "kafka", "zookeeper"), unit("1", A, "mongo", "redis", "etcd", tenant="globex"))
    assert graph.snapshot(TENANT).counts() == (2, 1)
    assert graph.snapshot("globex").counts() == (3, 3)
    assert not graph.snapshot(TENANT).knows("mongo", BOTH)


def test_only_tenants_that_changed_get_a_new_snapshot(graph):
    built(graph, unit("1", A, "kafka", "zookeeper"), unit("1", A, "mongo", "redis", tenant="globex"))
    before = graph.snapshot("globex")
    built(graph, unit("2", A, "kafka", "etcd"))
    assert graph.snapshot("globex") is before


def test_a_unit_of_one_entity_makes_a_node_and_no_edge(graph):
    assert built(graph, unit("1", A, "kafka")).counts() == (1, 0)


def test_a_page_that_lists_a_hundred_names_is_bounded(graph):
    entities, edges = built(graph, unit("1", A, None, *(f"name{number:03}" for number in range(100)))).counts()
    assert (entities, edges) == (100, 64)


# order, redelivery, removal


def test_the_highest_revision_stands_whatever_comes_last(graph):
    snapshot = built(graph, unit("1", A, "new", "x", revision=2), unit("1", A, "old", "x", revision=1))
    assert snapshot.knows("new", BOTH)
    assert not snapshot.knows("old", BOTH)


def test_removal_takes_nodes_and_edges_fully(graph):
    gone, stays = unit("1", A, "kafka", "zookeeper"), unit("2", A, "mongo", "redis")
    snapshot = built(graph, gone, stays, removal(gone))
    assert snapshot.counts() == (2, 1)
    assert not snapshot.knows("kafka", BOTH)
    assert snapshot.pagerank({"~kafka": 1.0}, BOTH) == {}
    assert built(graph, removal(stays)).counts() == (0, 0)


def test_a_removal_wins_at_the_same_revision_and_loses_to_a_higher_one(graph):
    first = unit("1", A, "kafka", "zookeeper", revision=3)
    assert built(graph, removal(first), first).counts() == (0, 0)
    assert built(graph, unit("1", A, "kafka", "zookeeper", revision=4)).counts() == (2, 1)


def test_an_edge_stays_while_one_unit_supports_it(graph):
    one, two = unit("1", A, "kafka", "zookeeper"), unit("2", A, "kafka", "zookeeper")
    built(graph, one, two)
    assert built(graph, removal(one)).neighbours("~kafka", BOTH, 5)[0].unit_ids == ("2",)
    assert list(built(graph, removal(two)).neighbours("~kafka", BOTH, 5)) == []


def test_a_reset_keeps_the_old_snapshot_until_the_refresh(graph):
    built(graph, unit("1", A, "kafka", "zookeeper"), unit("1", A, "x", "y", tenant="globex"))
    before = graph.snapshot(TENANT)
    graph.reset()
    graph.apply([unit("9", A, "mongo", "redis", "etcd", revision=0)])
    assert graph.snapshot(TENANT) is before
    assert graph.refresh() is True
    assert (graph.snapshot(TENANT).counts(), graph.snapshot("globex").counts()) == ((3, 3), (0, 0))
    assert graph.snapshot(TENANT).version > before.version


# scopes


def test_an_edge_of_an_unreadable_scope_does_not_exist(graph):
    snapshot = built(graph, unit("1", A, "kafka", "zookeeper"), unit("2", B, "kafka", "secret"))
    assert set(snapshot.pagerank({"~kafka": 1.0}, frozenset({A}))) == {"~kafka", "~zookeeper"}
    assert [near.entity_id for near in snapshot.neighbours("~kafka", frozenset({A}), 5)] == ["~zookeeper"]
    assert snapshot.pagerank({"~secret": 1.0}, frozenset({A})) == {}
    assert not snapshot.knows("secret", frozenset({A}))
    assert snapshot.knows("secret", frozenset({B}))


def test_unreadable_units_change_no_number(graph):
    """Not even the degree of a hub: an answer for team A is the same whether team B wrote anything or not."""
    ours = [unit("1", A, "kafka", "zookeeper", "postgres"), unit("2", A, "postgres", "redis")]
    alone = built(graph, *ours).pagerank({"~kafka": 1.0}, frozenset({A}))
    noise = [unit(f"b{number}", B, "kafka", "postgres", f"x{number}") for number in range(20)]
    beside = built(graph, *noise).pagerank({"~kafka": 1.0}, frozenset({A}))
    assert beside == pytest.approx(alone, abs=1e-6)


def test_support_counts_readable_units_only_and_names_the_newest_first(graph):
    units = [unit(f"a{day}", A, "kafka", "zookeeper", day=day) for day in range(3)]
    snapshot = built(
        graph, *units, unit("b", B, "kafka", "zookeeper", day=9), unit("old", A, "kafka", "zookeeper", day=None)
    )
    near = snapshot.neighbours("~kafka", frozenset({A}), 5)[0]
    assert (near.support, near.unit_ids) == (4, ("a2", "a1", "a0", "old"))


def test_the_ids_that_are_named_are_bounded_and_the_count_is_not(graph):
    snapshot = built(graph, *(unit(f"{number:02}", A, "kafka", "zookeeper") for number in range(30)))
    near = snapshot.neighbours("~kafka", BOTH, 5)[0]
    assert (near.support, len(near.unit_ids), near.unit_ids[0]) == (30, 20, "00")


def test_no_scope_leaves_the_declared_relations(graph):
    snapshot = built(graph, unit("1", A, "kafka", "zookeeper"), relation("kafka", "depends_on", "disk"))
    assert set(snapshot.pagerank({"kafka": 1.0}, NONE)) == {"kafka", "disk"}


# names


def test_an_alias_that_is_declared_later_relinks(graph):
    before = built(graph, unit("1", A, "k8s", "etcd"), unit("2", A, "kubernetes", "helm"))
    assert before.counts() == (4, 2)
    after = built(graph, entity("kube", "kubernetes", "k8s"))
    assert after.counts() == (3, 2)
    assert set(after.pagerank({"~etcd": 1.0}, BOTH)) == {"~etcd", "kube", "~helm"}
    assert after.keys_of("kube") == ("=kube", "k8s", "kube", "kubernetes")
    undone = built(graph, removal(entity("kube", "kubernetes", "k8s")))
    assert undone.counts() == (4, 2)


def test_two_keys_of_one_entity_are_no_edge(graph):
    assert built(graph, entity("kube", "kubernetes", "k8s"), unit("1", A, "k8s", "kubernetes")).counts() == (1, 0)


def test_a_unit_that_names_an_entity_twice_supports_its_edge_once(graph):
    snapshot = built(graph, entity("kube", "kubernetes", "k8s"), unit("1", A, "etcd", "k8s", "kubernetes"))
    assert [(near.entity_id, near.support) for near in snapshot.neighbours("~etcd", BOTH, 5)] == [("kube", 1)]


def test_a_key_that_two_entities_claim_is_neither(graph):
    snapshot = built(graph, entity("m1", "mercury"), entity("m2", "mercury"), unit("1", A, "mercury", "venus"))
    resolved = snapshot.resolve("mercury")
    assert (resolved.entity_id, resolved.candidates) == ("~mercury", ("m1", "m2"))
    assert [near.entity_id for near in snapshot.neighbours("~mercury", BOTH, 5)] == ["~venus"]


def test_declared_entities_have_names_and_are_known_without_units(graph):
    snapshot = built(graph, entity("kube", "kubernetes", kind="system"))
    assert snapshot.name_of("kube") == ("Kube", "system")
    assert snapshot.name_of("~etcd") == ("etcd", None)
    assert snapshot.knows("kubernetes", NONE)
    assert snapshot.pagerank({"kube": 2.0}, NONE) == {"kube": 1.0}


def test_a_mentioned_key_is_known_only_where_it_is_mentioned(graph):
    snapshot = built(graph, unit("1", A, "kafka", "zookeeper"))
    assert [snapshot.knows("zookeeper", scopes) for scopes in (frozenset({A}), frozenset({B}), NONE)] == [
        True,
        False,
        False,
    ]
