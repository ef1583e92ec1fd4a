"""Ranks on a neighbourhood: plain power iteration, written out here, agrees."""

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


def power_iteration(left, right, weight, restart, rounds=200):
    """Return the ranks by the definition: half of the mass restarts, half goes along edges by their weight."""
    size = len(restart)
    strength = np.bincount(left, weight, size) + np.bincount(right, weight, size)
    ranks = restart.copy()
    for _ in range(rounds):
        share = np.divide(ranks, strength, out=np.zeros(size), where=strength > 0)
        moved = np.bincount(right, weight * share[left], size) + np.bincount(left, weight * share[right], size)
        ranks = (1 - DAMPING) * restart + DAMPING * moved
    return ranks


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_the_definition(seed):
    """A thousand vertices, parallel edges among them, weights over four orders of magnitude, seven seeds."""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 1_000, (2, 6_000))
    left, right = left[left != right], right[left != right]
    weight = 10.0 ** random.uniform(-3, 1, len(left))
    seeds = {int(vertex): float(share) for vertex, share in zip(left[:7], random.uniform(0.1, 2, 7), strict=True)}
    restart = np.zeros(1_000)
    restart[list(seeds)] = np.array(list(seeds.values())) / sum(seeds.values())
    ranks = rank(view(left, right, weight, 1_000), seeds, 1_000)
    expected = power_iteration(left, right, weight, restart)
    assert [ranks.get(vertex, 0.0) for vertex in range(1_000)] == pytest.approx(list(expected), abs=1e-6)
