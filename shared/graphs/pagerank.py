"""Personalised PageRank on the neighbourhood of the seeds: igraph's PRPACK, on arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import igraph
import numpy as np
from numpy.typing import NDArray

from shared.graphs.edges import Edges, ranges
from shared.graphs.table import Floats, Ints

DAMPING: Final = 0.5  # half the mass stays within a step of the question's entities, at a third of the time of 0.85
EDGES_PER_VERTEX: Final = 10  # what 3,000 vertices had where 17 CPU-ms were measured; dense worlds have many times that


@dataclass(frozen=True)
class View:
    """What a set of scopes may see. ``walk``: an edge's weight for the walk, 0 where it is not seen; ``known``: vertices."""

    walk: Floats
    strength: Floats
    known: NDArray[np.bool_]


def view_of(edges: Edges, readable: NDArray[np.bool_], known: NDArray[np.bool_]) -> View:
    """Weigh edges for the walk: log(1 + support), damped by the square root of both ends' degrees.

    The logarithm: the tenth unit that names two entities together adds less than the second. The degrees, counted among
    visible edges alone: a hub that stands in every text leads nowhere in particular. ``known``: seen without any edge.
    """
    vertices = len(known)
    sums = edges.visible(readable)
    seen = np.flatnonzero(sums)
    left, right = edges.left[seen], edges.right[seen]
    degree = _at_both_ends(left, right, None, vertices)
    damped = np.log1p(sums[seen]) / np.sqrt(degree[left] * degree[right])
    walk = np.zeros_like(sums)
    walk[seen] = damped
    return View(walk, _at_both_ends(left, right, damped, vertices), known | (degree > 0))


def _at_both_ends(left: Ints, right: Ints, weight: Floats | None, vertices: int) -> Floats:
    at_left, at_right = np.bincount(left, weight, vertices), np.bincount(right, weight, vertices)
    return (at_left + at_right).astype(np.float64)


def rank(edges: Edges, view: View, seeds: Mapping[int, float], limit: int) -> dict[int, float]:
    """Return the rank of each vertex near the seeds; ranks sum to 1. At most ``limit`` vertices and ten times the edges.

    ``seeds``: known vertices with positive weights. One without a visible edge keeps its share: a walk cannot leave it.
    """
    total = sum(seeds.values())
    shares = {vertex: weight / total for vertex, weight in sorted(seeds.items())}
    ranks = {vertex: share for vertex, share in shares.items() if view.strength[vertex] == 0}
    walking = {vertex: share for vertex, share in shares.items() if vertex not in ranks}
    if walking:
        chosen = neighbourhood(edges, view, walking, limit)
        ranks |= _walk(edges, view, walking, chosen, EDGES_PER_VERTEX * limit)
    return ranks


def neighbourhood(edges: Edges, view: View, seeds: Mapping[int, float], limit: int) -> Ints:
    """Return up to ``limit`` vertices around the seeds, sorted: layer by layer, in the last one the most promising.

    A vertex promises the largest of parent's promise times the chance to step from there to it; ties by number.
    """
    promise = np.zeros(len(view.strength))
    taken = np.zeros(len(view.strength), dtype=np.bool_)
    layer = np.array(sorted(seeds, key=lambda vertex: (-seeds[vertex], vertex))[:limit], dtype=np.int64)
    promise[layer] = [seeds[int(vertex)] for vertex in layer]
    taken[layer] = True
    count = len(layer)
    while len(layer) and count < limit:
        edge, parent = _fan_out(edges, layer)
        child = edges.other_end(edge, parent)
        fresh = ~taken[child] & (view.walk[edge] > 0)
        edge, parent, child = edge[fresh], parent[fresh], child[fresh]
        np.maximum.at(promise, child, promise[parent] * view.walk[edge] / view.strength[parent])
        layer = np.unique(child)
        if count + len(layer) > limit:
            layer = layer[np.argsort(-promise[layer], kind="stable")[: limit - count]]
        taken[layer] = True
        count += len(layer)
    return np.flatnonzero(taken)


def _fan_out(edges: Edges, layer: Ints) -> tuple[Ints, Ints]:
    """Return the edges of all vertices in the layer, and for each the vertex it was reached from."""
    starts, ends = edges.near_starts[layer], edges.near_starts[layer + 1]
    return edges.near_edge[ranges(starts, ends)[0]], np.repeat(layer, ends - starts)


def _walk(edges: Edges, view: View, shares: Mapping[int, float], chosen: Ints, limit: int) -> dict[int, float]:
    seeded = np.zeros(len(view.strength), dtype=np.bool_)
    seeded[list(shares)] = True
    inside = _strongest(edges, view, chosen, seeded, limit)
    left, right = edges.left[inside], edges.right[inside]
    reached = np.unique(np.concatenate([left, right, chosen[seeded[chosen]]]))
    local = np.zeros(len(view.strength), dtype=np.int64)
    local[reached] = np.arange(len(reached))
    graph = igraph.Graph(n=len(reached), edges=np.column_stack([local[left], local[right]]))
    ranks = graph.personalized_pagerank(
        damping=DAMPING,
        directed=False,
        reset=[shares.get(vertex, 0.0) for vertex in reached.tolist()],
        weights=view.walk[inside].tolist(),
        implementation="prpack",
    )
    stay = sum(shares.values())
    return {vertex: rank * stay for vertex, rank in zip(reached.tolist(), ranks, strict=True) if rank > 0}


def _strongest(edges: Edges, view: View, chosen: Ints, seeded: NDArray[np.bool_], limit: int) -> Ints:
    """Return up to ``limit`` visible edges among the chosen: those at a seed first, then by weight, ties by number."""
    among = np.zeros(len(view.strength), dtype=np.bool_)
    among[chosen] = True
    inside = np.flatnonzero(among[edges.left] & among[edges.right] & (view.walk > 0))
    if len(inside) <= limit:
        return inside
    at_seed = seeded[edges.left[inside]] | seeded[edges.right[inside]]
    worth = view.walk[inside] + np.where(at_seed, view.walk.max(), 0.0)
    least = np.partition(worth, len(worth) - limit)[len(worth) - limit]
    above, equal = np.flatnonzero(worth > least), np.flatnonzero(worth == least)
    kept: Ints = inside[np.sort(np.concatenate([above, equal[: limit - len(above)]]))]
    return kept
