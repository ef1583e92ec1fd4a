"""Any set of contributions, in any order: the graph on arrays says what the one in plain Python says."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.graph import Contribution, EdgeContribution, KeyWeight
from shared.graphs.memory import MemoryGraph
from shared.graphs.replica import GraphReplica
from tests.contract.graph_worlds import DAY, TENANT, A, B, assert_same, batches, built, entity, relation, removal

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
