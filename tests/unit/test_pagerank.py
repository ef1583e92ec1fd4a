"""The walk over arrays: igraph, which solves the same equations in its own way, agrees."""

import igraph
import numpy as np
import pytest

from shared.graphs.pagerank import DAMPING, View, rank


def view(left, right, weight, vertices):
    """Return what a reader of all these edges sees."""
    ends, numbers = np.concatenate([left, right]), np.tile(np.arange(len(left)), 2)
    order = np.argsort(ends, kind="stable")
    strength = np.bincount(left, weight, vertices) + np.bincount(right, weight, vertices)
    return View(
        walk=weight,
        strength=strength,
        known=np.ones(vertices, dtype=np.bool_),
        starts=np.searchsorted(ends[order], np.arange(vertices + 1)),
        other=np.concatenate([right, left])[order],
        edge=numbers[order],
    )


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_igraph(seed):
    """A thousand vertices, parallel edges among them, weights over four orders of magnitude, seven seeds."""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 1_000, (2, 6_000))
    left, right = left[left != right], right[left != right]
    weight = 10.0 ** random.uniform(-3, 1, len(left))
    seeds = {int(vertex): float(share) for vertex, share in zip(left[:7], random.uniform(0.1, 2, 7), strict=True)}
    graph = igraph.Graph(n=1_000, edges=np.column_stack([left, right]))
    expected = graph.personalized_pagerank(
        damping=DAMPING,
        directed=False,
        reset=[seeds.get(vertex, 0.0) for vertex in range(1_000)],
        weights=weight.tolist(),
        implementation="prpack",
    )
    ranks = rank(view(left, right, weight, 1_000), seeds, 1_000)
    assert [ranks.get(vertex, 0.0) for vertex in range(1_000)] == pytest.approx(expected, abs=1e-6)
