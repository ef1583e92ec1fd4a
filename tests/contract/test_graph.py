"""An entity graph is a function of the set of contributions; each rule holds on arrays and in plain Python."""

import itertools
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.graph import Contribution, EdgeContribution, KeyWeight
from shared.graph import EntityGraph, GraphSnapshot
from shared.graphs.memory import MemoryGraph
from shared.graphs.replica import GraphReplica

TENANT = "acme"
DAY = datetime(2026, 3, 1, tzinfo=UTC)
A, B = "team/a", "team/b"
BOTH = frozenset({A, B})
NONE: frozenset[str] = frozenset()
IMPLEMENTATIONS: list[Callable[[], EntityGraph]] = [MemoryGraph, GraphReplica]


def unit(
    name: str,
    scope: str,
    subject: str | None,
    *mentions: str,
    revision: int = 1,
    weight: float = 1.0,
    tenant: str = TENANT,
    day: int | None = 0,
) -> Contribution:
    spoken = ((subject, 1.0),) if subject else ()
    return Contribution(
        tenant=tenant,
        id=f"unit:{name}",
        revision=revision,
        scope=scope,
        subject=subject,
        keys=tuple(KeyWeight(key=key, weight=w) for key, w in (*spoken, *((key, weight) for key in mentions))),
        occurred_at=None if day is None else DAY + timedelta(days=day),
    )


def entity(entity_id: str, *names: str, kind: str = "system", revision: int = 1) -> Contribution:
    return Contribution(
        tenant=TENANT,
        id=f"entity:{entity_id}",
        revision=revision,
        entity_id=entity_id,
        entity_type=kind,
        entity_name=entity_id.title(),
        names=names,
    )


def relation(source: str, name: str, target: str, weight: float = 1.0, revision: int = 1) -> Contribution:
    edge = EdgeContribution(source=f"={source}", relation=name, target=f"={target}", weight=weight)
    return Contribution(tenant=TENANT, id=f"relation:{source} {name} {target}", revision=revision, edges=(edge,))


def removal(contribution: Contribution, revision: int | None = None) -> Contribution:
    at = contribution.revision if revision is None else revision
    return Contribution(tenant=contribution.tenant, id=contribution.id, revision=at, removed=True)


@pytest.fixture(params=IMPLEMENTATIONS, ids=["memory", "replica"])
def graph(request: pytest.FixtureRequest) -> EntityGraph:
    return request.param()


def built(graph: EntityGraph, *contributions: Contribution) -> GraphSnapshot:
    graph.apply(contributions)
    graph.refresh()
    return graph.snapshot(TENANT)


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


# any set of contributions

KEYS = st.sampled_from(["a", "b", "c", "d", "e", "k8s", "=ann", "=kube"])
WEIGHTS = st.sampled_from([0.1, 0.5, 1.0])
REVISIONS = st.integers(0, 2)


@st.composite
def units(draw: st.DrawFn) -> Contribution:
    return Contribution(
        tenant=TENANT,
        id=f"unit:{draw(st.integers(0, 5))}",
        revision=draw(REVISIONS),
        scope=draw(st.sampled_from([A, B])),
        subject=draw(st.none() | KEYS),
        keys=tuple(KeyWeight(key=key, weight=draw(WEIGHTS)) for key in draw(st.lists(KEYS, max_size=4))),
        edges=tuple(
            EdgeContribution(source=draw(KEYS), relation="created_by", target=draw(KEYS), weight=draw(WEIGHTS))
            for _ in range(draw(st.integers(0, 1)))
        ),
        occurred_at=draw(st.none() | st.sampled_from([DAY, DAY + timedelta(days=1)])),
        removed=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def declarations(draw: st.DrawFn) -> Contribution:
    revision = draw(REVISIONS)
    if draw(st.booleans()):
        made = entity(
            draw(st.sampled_from(["kube", "ann"])),
            *draw(st.sets(st.sampled_from(["k8s", "a", "b"]))),
            revision=revision,
        )
    else:
        ends = draw(st.permutations(["ann", "kube", "core", "acme"]))
        made = relation(ends[0], draw(st.sampled_from(["owns", "part_of"])), ends[1], draw(WEIGHTS), revision=revision)
    return removal(made) if draw(st.sampled_from([False, False, False, True])) else made


CONTRIBUTIONS = st.lists(units() | declarations(), max_size=14)


IDS = ["~a", "~b", "~c", "~d", "~e", "~k8s", "ann", "kube", "core", "acme"]
SCOPE_SETS = [NONE, frozenset({A}), frozenset({B}), BOTH]
SEEDS = [("~a",), ("kube", "~b"), ("ann", "~c", "~k8s")]


def told(snapshot: GraphSnapshot) -> dict[object, object]:
    """All answers about the small world of these tests that must be equal to the letter."""
    return {
        "counts": snapshot.counts(),
        "names": [(snapshot.name_of(entity_id), snapshot.keys_of(entity_id)) for entity_id in IDS],
        "resolved": [snapshot.resolve(key) for key in ["a", "k8s", "=ann", "=core"]],
        "known": [snapshot.knows(key, scopes) for key in ["a", "k8s", "=ann"] for scopes in SCOPE_SETS],
        "neighbours": [list(snapshot.neighbours(entity_id, scopes, 50)) for entity_id in IDS for scopes in SCOPE_SETS],
    }


def weighed(snapshot: GraphSnapshot) -> dict[object, float]:
    """All answers that are sums in an order which may differ; a key of its own for each number."""
    near = {(source, target): far for source in IDS for target, far in snapshot.proximity(source, IDS).items()}
    ranks = {
        (seeds, scopes, entity_id): rank
        for seeds in SEEDS
        for scopes in SCOPE_SETS
        for entity_id, rank in snapshot.pagerank(dict.fromkeys(seeds, 1.0), scopes).items()
    }
    return near | ranks


def assert_same(one: GraphSnapshot, other: GraphSnapshot) -> None:
    assert told(one) == told(other)
    assert weighed(one) == pytest.approx(weighed(other), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(CONTRIBUTIONS)
def test_arrays_and_plain_python_agree(contributions):
    """The replica's answers are those of power iteration and of path relaxation on dictionaries, to 1e-6."""
    assert_same(built(GraphReplica(), *contributions), built(MemoryGraph(), *contributions))


@settings(max_examples=60, deadline=None)
@given(CONTRIBUTIONS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_order_and_redelivery_do_not_matter(contributions, random, every):
    """Shuffled, doubled, and with refreshes in between: the same answers."""
    straight = built(GraphReplica(), *contributions)
    again = [*contributions, *contributions]
    random.shuffle(again)
    graph = GraphReplica()
    for batch in batches(again, every):
        graph.apply(batch)
        graph.refresh()
    assert_same(graph.snapshot(TENANT), straight)


def batches(items: Iterable[Contribution], size: int) -> Iterable[list[Contribution]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


# the kept file (case C63)


def world(count: int) -> list[Contribution]:
    """Units that overlap in their entities, a few declarations and a removal."""
    made = [
        unit(f"{number}", (A, B)[number % 2], f"e{number % 17}", f"e{number % 5}", f"e{number % 23}")
        for number in range(count)
    ]
    return [*made, entity("kube", "e3", "e4"), relation("kube", "depends_on", "etcd"), removal(made[0])]


def test_a_graph_that_was_kept_is_the_graph_that_was(tmp_path):
    graph = GraphReplica()
    snapshot = built(graph, *world(60))
    graph.save(tmp_path / "graph", "topic 0: 63")
    again = GraphReplica()
    assert again.load(tmp_path / "graph") == "topic 0: 63"
    again.refresh()
    assert_same(again.snapshot(TENANT), snapshot)
    assert again.snapshot(TENANT).counts() == snapshot.counts()


def test_a_removal_is_kept_too(tmp_path):
    """Else a late redelivery of the older revision would bring the unit back."""
    graph = GraphReplica()
    first = unit("1", A, "kafka", "secret")
    built(graph, first, removal(first, 2))
    graph.save(tmp_path / "graph")
    assert b"secret" not in (tmp_path / "graph").read_bytes()
    again = GraphReplica()
    again.load(tmp_path / "graph")
    assert built(again, first).counts() == (0, 0)


def test_growth_and_removal_after_a_restart_equal_a_graph_built_from_the_log(tmp_path):
    """Keep, start again from it, add 50 that create entities, remove 20: as if there had been no restart."""
    old = world(300)
    new = [unit(f"n{number}", A, f"new{number}", f"e{number % 5}") for number in range(50)]
    gone = [removal(contribution) for contribution in old[10:30]]
    graph = GraphReplica()
    built(graph, *old)
    graph.save(tmp_path / "graph")
    again = GraphReplica()
    again.load(tmp_path / "graph")
    for step in (new, gone):
        again.apply(step)
        again.refresh()
    straight = built(GraphReplica(), *old, *new, *gone)
    assert again.snapshot(TENANT).counts() == straight.counts()
    seeds = {"~e1": 1.0, "~new7": 1.0, "kube": 1.0}
    assert again.snapshot(TENANT).pagerank(seeds, BOTH) == pytest.approx(straight.pagerank(seeds, BOTH), abs=1e-6)


def test_a_torn_or_damaged_file_is_not_taken(tmp_path):
    graph = GraphReplica()
    built(graph, *world(5))
    path = tmp_path / "graph"
    graph.save(path, "mark")
    whole = path.read_bytes()
    torn = [whole[:length] for length in range(0, len(whole), 97)]
    flipped = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 97)]
    for damaged in [*torn, *flipped, whole + b"\n", whole.replace(b"graph 1", b"graph 9")]:
        path.write_bytes(damaged)
        again = GraphReplica()
        assert again.load(path) is None
        assert again.refresh() is False
    assert GraphReplica().load(tmp_path / "never written") is None


def test_a_write_that_fails_leaves_the_older_file(tmp_path, monkeypatch):
    graph = GraphReplica()
    built(graph, *world(5))
    path = tmp_path / "graph"
    graph.save(path, "first")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shared.graphs.kept.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        graph.save(path, "second")
    assert GraphReplica().load(path) == "first"
    assert list(tmp_path.iterdir()) == [path]


# life


def test_refreshing_in_a_thread_while_contributions_arrive_loses_none():
    """`apply` on one thread, `refresh` on another, readers between: in the end everything is there, once."""
    graph = GraphReplica()
    contributions = [unit(f"{number}", A, f"s{number % 7}", f"m{number % 11}") for number in range(400)]
    done = threading.Event()

    def refresh() -> None:
        while not done.is_set():
            graph.refresh()
            graph.snapshot(TENANT).pagerank({"~s1": 1.0}, BOTH)

    worker = threading.Thread(target=refresh)
    worker.start()
    for batch in batches(contributions, 3):
        graph.apply(batch)
    done.set()
    worker.join(30)
    assert not worker.is_alive()
    graph.refresh()
    assert_same(graph.snapshot(TENANT), built(GraphReplica(), *contributions))


def test_many_changes_do_not_pile_up():
    """Rows of replaced revisions are cleared away, and what remains is right."""
    graph = GraphReplica()
    for revision in range(60):
        graph.apply(unit(f"{number}", A, f"s{number % 7}", *"abcdef", revision=revision) for number in range(40))
        graph.refresh()
    straight = built(
        GraphReplica(), *(unit(f"{number}", A, f"s{number % 7}", *"abcdef", revision=59) for number in range(40))
    )
    assert_same(graph.snapshot(TENANT), straight)


def test_builds_rest_in_proportion_to_their_time():
    graph = GraphReplica()
    assert graph.refresh_interval_s == 0.5
    graph._last_build_s = 0.3
    assert graph.refresh_interval_s == pytest.approx(6.0)


@pytest.mark.parametrize("make", IMPLEMENTATIONS)
def test_of_one_revision_what_was_made_last_stands_in_either_order(make: Callable[[], EntityGraph]) -> None:
    """A unit that is resolved anew keeps its revision; what it adds then replaces what it added before."""
    first, anew = unit("u", A, None, "payments"), unit("u", A, None, "a").model_copy(update={"remade": 5})
    for order in ((first, anew), (anew, first)):
        graph = make()
        graph.apply(order)
        graph.refresh()
        snapshot = graph.snapshot(TENANT)
        assert snapshot.knows("a", BOTH)
        assert not snapshot.knows("payments", BOTH)
