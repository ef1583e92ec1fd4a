"""Weighted distance over declared relations, in at most so many edges."""

import numpy as np

from shared.graphs.table import Floats, Ints


def distances(source: int, start: Ints, end: Ints, cost: Floats, vertices: int, hops: int) -> Floats:
    """Return the least cost of a path of at most ``hops`` edges from ``source`` to each vertex; infinite: none.

    Bellman and Ford's relaxation, ``hops`` rounds of it: unlike Dijkstra's algorithm it bounds the number of edges.
    """
    best = np.full(vertices, np.inf)
    best[source] = 0.0
    for _ in range(hops):
        longer = best.copy()
        np.minimum.at(longer, end, best[start] + cost)
        if np.array_equal(longer, best):
            break
        best = longer
    return best
