"""Contributions to an entity graph for its tests, and everything that two graphs of them must say alike."""

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

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


def built(graph: EntityGraph, *contributions: Contribution) -> GraphSnapshot:
    graph.apply(contributions)
    graph.refresh()
    return graph.snapshot(TENANT)


def batches(items: Iterable[Contribution], size: int) -> Iterable[list[Contribution]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def world(count: int) -> list[Contribution]:
    """Units that overlap in their entities, a few declarations and a removal."""
    made = [
        unit(f"{number}", (A, B)[number % 2], f"e{number % 17}", f"e{number % 5}", f"e{number % 23}")
        for number in range(count)
    ]
    return [*made, entity("kube", "e3", "e4"), relation("kube", "depends_on", "etcd"), removal(made[0])]


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
