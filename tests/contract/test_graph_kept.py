"""A graph that is kept in a file is the graph that was (case C63); and one that lives long loses and piles up nothing."""

import threading
from collections.abc import Callable

import pytest

from shared.graph import EntityGraph
from shared.graphs.replica import GraphReplica
from tests.contract.graph_worlds import (
    BOTH,
    IMPLEMENTATIONS,
    TENANT,
    A,
    assert_same,
    batches,
    built,
    removal,
    unit,
    world,
)


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
