"""Personalised PageRank on the neighbourhood of the seeds: found on arrays, ranked by igraph."""

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
    """What a set of scopes may see. ``walk``: an edge's weight for the walk, 0 where it is not seen; ``known``: vertices.

    ``strength``: the sum of weights at each vertex. ``starts``, ``other``, ``edge``: each vertex's visible edges and the
    vertices across them, by edge number.
    """

    walk: Floats
    strength: Floats
    known: NDArray[np.bool_]
    starts: Ints
    other: Ints
    edge: Ints

    def around(self, vertices: Ints) -> tuple[Ints, Ints]:
        """Return the places of all edges of the vertices in ``edge`` and ``other``, and each one's vertex."""
        starts, ends = self.starts[vertices], self.starts[vertices + 1]
        return ranges(starts, ends)[0], np.repeat(vertices, ends - starts)


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
    near = np.flatnonzero(walk[edges.near_edge] > 0)
    edge = edges.near_edge[near]
    vertex = np.repeat(np.arange(vertices), np.diff(edges.near_starts))[near]
    return View(
        walk,
        _at_both_ends(left, right, damped, vertices),
        known | (degree > 0),
        starts=np.searchsorted(near, edges.near_starts),
        other=edges.other_end(edge, vertex),
        edge=edge,
    )


def _at_both_ends(left: Ints, right: Ints, weight: Floats | None, vertices: int) -> Floats:
    at_left, at_right = np.bincount(left, weight, vertices), np.bincount(right, weight, vertices)
    return (at_left + at_right).astype(np.float64)


def rank(view: View, seeds: Mapping[int, float], limit: int) -> dict[int, float]:
    """Return the rank of each vertex near the seeds; ranks sum to 1. At most ``limit`` vertices and ten times the edges.

    ``seeds``: known vertices with positive weights. One without a visible edge keeps its share: a walk cannot leave it.
    """
    total = sum(seeds.values())
    shares = {vertex: weight / total for vertex, weight in sorted(seeds.items())}
    ranks = {vertex: share for vertex, share in shares.items() if view.strength[vertex] == 0}
    walking = {vertex: share for vertex, share in shares.items() if vertex not in ranks}
    if walking:
        chosen = neighbourhood(view, walking, limit)
        ranks |= _walk(view, walking, chosen, EDGES_PER_VERTEX * limit)
    return ranks


def neighbourhood(view: View, seeds: Mapping[int, float], limit: int) -> Ints:
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
        place, parent = view.around(layer)
        fresh = ~taken[view.other[place]]
        place, parent = place[fresh], parent[fresh]
        child = view.other[place]
        np.maximum.at(promise, child, promise[parent] * view.walk[view.edge[place]] / view.strength[parent])
        reached = np.zeros(len(taken), dtype=np.bool_)
        reached[child] = True
        layer = np.flatnonzero(reached)
        if count + len(layer) > limit:
            layer = layer[np.argsort(-promise[layer], kind="stable")[: limit - count]]
        taken[layer] = True
        count += len(layer)
    return np.flatnonzero(taken)


def _walk(view: View, shares: Mapping[int, float], chosen: Ints, limit: int) -> dict[int, float]:
    """Rank the chosen vertices by the strongest edges among them."""
    local = np.full(len(view.strength), -1, dtype=np.int64)
    local[chosen] = np.arange(len(chosen))
    restart = np.zeros(len(chosen))
    seeded = [vertex for vertex in shares if local[vertex] >= 0]
    restart[local[seeded]] = [shares[vertex] for vertex in seeded]
    place, vertex = view.around(chosen)
    inside = local[view.other[place]] >= 0
    place, source, target = place[inside], local[vertex[inside]], local[view.other[place[inside]]]
    weight = view.walk[view.edge[place]]
    if len(place) > 2 * limit:  # each edge lies at both of its ends
        kept = _strongest(view.edge[place], weight, (restart[source] > 0) | (restart[target] > 0), limit)
        source, target, weight = source[kept], target[kept], weight[kept]
    ranks = _settle(source, target, weight, restart)
    stay = sum(shares.values()) / (ranks.sum() or 1.0)
    return {vertex: rank * stay for vertex, rank in zip(chosen.tolist(), ranks.tolist(), strict=True) if rank > 0}


def _strongest(edge: Ints, weight: Floats, at_seed: NDArray[np.bool_], limit: int) -> NDArray[np.bool_]:
    """Say which of the entries, two an edge, belong to the ``limit`` edges that count: those at a seed, then by weight."""
    worth = weight + np.where(at_seed, weight.max(), 0.0)
    least = np.partition(worth, len(worth) - 2 * limit)[len(worth) - 2 * limit]
    kept: NDArray[np.bool_] = worth > least
    equal = np.flatnonzero(worth == least)
    equal = equal[np.argsort(edge[equal], kind="stable")]  # ties by number; both entries of an edge stand together
    kept[equal[: 2 * limit - np.count_nonzero(kept)]] = True
    return kept


def _settle(source: Ints, target: Ints, weight: Floats, restart: Floats) -> Floats:
    """Return the rank of each vertex by igraph's exact solver (prpack): half of the mass is handed on, half restarts.

    ``source``, ``target``, ``weight``: each edge from both ends; igraph wants it once.
    """
    once = source < target
    graph = igraph.Graph(n=len(restart), edges=np.column_stack([source[once], target[once]]))
    ranks = graph.personalized_pagerank(
        damping=DAMPING,
        directed=False,
        reset=restart.tolist(),
        weights=weight[once].tolist(),
        implementation="prpack",
    )
    return np.asarray(ranks, dtype=np.float64)
