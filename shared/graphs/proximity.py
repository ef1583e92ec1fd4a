"""Weighted distance over declared relations, in at most so many edges."""

from dataclasses import dataclass

import numpy as np

from shared.graphs.table import Floats, Ints


@dataclass(frozen=True)
class Steps:
    """Steps between vertex numbers and what each costs; parallel ones may occur."""

    start: Ints
    end: Ints
    cost: Floats


def distances(source: int, steps: Steps, vertices: int, hops: int) -> Floats:
    """Return the least cost of a path of at most ``hops`` steps from ``source`` to each vertex; infinite: none.

    Bellman and Ford's relaxation, ``hops`` rounds of it: unlike Dijkstra's algorithm it bounds the number of steps.
    """
    best = np.full(vertices, np.inf)
    best[source] = 0.0
    for _ in range(hops):
        longer = best.copy()
        np.minimum.at(longer, steps.end, best[steps.start] + steps.cost)
        if np.array_equal(longer, best):
            break
        best = longer
    return best
