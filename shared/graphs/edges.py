"""The edges of a snapshot: rows of all contributions, gathered by (pair, relation) with their support by scope."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.graphs.proximity import Steps
from shared.graphs.table import EVERYWHERE, SPEAKS_OF, UNDIRECTED, Columns, Floats, Ints

CERTAIN = 1e-12  # what is left of doubt at weight 1, so that its logarithm exists


@dataclass(frozen=True)
class Support:
    """Supporting rows sorted by (edge, scope, owner), at most one an edge and owner; ``starts``: each edge's first."""

    starts: Ints
    owner: Ints
    scope: Ints
    weight: Floats

    def of(self, edges: Ints) -> tuple[Ints, Ints]:
        """Return the rows of these edges, edge by edge, and where each edge's begin among them; no edge is without."""
        ends = np.append(self.starts, len(self.owner))[edges + 1]
        return ranges(self.starts[edges], ends)

    def together(self, edges: Ints, readable: NDArray[np.bool_]) -> tuple[Floats, Ints]:
        """Return, of each edge (at least one), the weight of its readable rows together (noisy or) and how many are units."""
        rows, firsts = self.of(edges)
        seen = readable[self.scope[rows]]
        doubt = np.where(seen, np.log(np.maximum(1.0 - self.weight[rows], CERTAIN)), 0.0)
        units = seen & (self.scope[rows] != EVERYWHERE)
        weight = np.round(
            1.0 - np.exp(np.add.reduceat(doubt, firsts)), 9
        )  # equal support is equal however it was summed
        return weight, np.add.reduceat(units.astype(np.int64), firsts)


@dataclass(frozen=True)
class Edges:
    """Edges sorted by (left, right, relation), between vertex numbers; those of `MENTIONED_WITH` have left < right.

    ``share_*``: the sum of supporting weights by edge and scope. ``near_*``: each vertex's edges, from ``near_starts``.
    """

    left: Ints
    right: Ints
    relation: Ints
    support: Support
    share_starts: Ints
    share_scope: Ints
    share_weight: Floats
    near_starts: Ints
    near_edge: Ints

    def at(self, vertex: int) -> Ints:
        """Return the numbers of a vertex's edges."""
        return self.near_edge[self.near_starts[vertex] : self.near_starts[vertex + 1]]

    def other_end(self, edges: Ints, vertex: Ints | int) -> Ints:
        """Return the vertex across each edge."""
        other: Ints = np.where(self.left[edges] == vertex, self.right[edges], self.left[edges])
        return other

    def visible(self, readable: NDArray[np.bool_]) -> Floats:
        """Return the sum of each edge's support in the readable scopes; 0: the edge does not exist for the reader."""
        if not len(self.left):
            return np.zeros(0)
        shares = np.where(readable[self.share_scope], self.share_weight, 0.0)
        return np.add.reduceat(shares, self.share_starts)


def gather(rows: Columns, vertex_of_key: Ints, vertices: int, relations: int) -> Edges:
    """Gather rows to edges. Two keys of one entity make no edge; a contribution supports an edge once, by its strongest."""
    stated = rows.relation != SPEAKS_OF
    source, target = vertex_of_key[rows.source[stated]], vertex_of_key[rows.target[stated]]
    relation, owner, weight = rows.relation[stated], rows.owner[stated], rows.weight[stated]
    swap = (relation == UNDIRECTED) & (source > target)
    source, target = np.where(swap, target, source), np.where(swap, source, target)
    apart = source != target
    codes = (source[apart] * vertices + target[apart]) * relations + relation[apart]
    distinct, edge = np.unique(codes, return_inverse=True)
    support = _support(edge, owner[apart], weight[apart], rows.owner_scope, len(distinct))
    pair, relation_of = np.divmod(distinct, relations)
    left, right = np.divmod(pair, vertices)
    share_starts, share_scope, share_weight = _shares(support, len(distinct))
    near_starts, near_edge = _near(left, right, vertices)
    return Edges(
        left=_narrow(left),
        right=_narrow(right),
        relation=_narrow(relation_of),
        support=support,
        share_starts=_narrow(share_starts),
        share_scope=_narrow(share_scope),
        share_weight=share_weight,
        near_starts=_narrow(near_starts),
        near_edge=_narrow(near_edge),
    )


def _narrow(numbers: Ints) -> Ints:
    """Halve the memory of what is kept: a question's cost is reading it, and no number here comes near 2 ** 31."""
    return numbers.astype(np.int32)


def declared_steps(edges: Edges, most: float) -> Steps:
    """Return the steps along declared relations, both ways: one costs 1 / weight, at most ``most``."""
    edge = np.repeat(np.arange(len(edges.left)), _lengths(edges.support.starts, len(edges.support.owner)))
    declared = (edges.support.scope == EVERYWHERE) & (edges.relation[edge] != UNDIRECTED)
    cost = np.minimum(1.0 / edges.support.weight[declared], most)
    left, right = edges.left[edge[declared]], edges.right[edge[declared]]
    return Steps(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([cost, cost]))


def _support(edge: Ints, owner: Ints, weight: Floats, owner_scope: Ints, edges: int) -> Support:
    # owners numbered by scope first, so that one sort of one number orders by (edge, scope, owner)
    by_scope = np.argsort(owner_scope, kind="stable")
    rank = np.empty_like(by_scope)
    rank[by_scope] = np.arange(len(by_scope))
    codes = edge * max(len(owner_scope), 1) + rank[owner]
    order = np.argsort(codes)
    ordered = codes[order]
    firsts = np.flatnonzero(_changes(ordered))
    strongest = np.maximum.reduceat(weight[order], firsts) if len(firsts) else np.zeros(0)
    picked = order[firsts]
    starts = np.searchsorted(edge[picked], np.arange(edges))
    scope = owner_scope[owner[picked]]
    return Support(_narrow(starts), _narrow(owner[picked]), _narrow(scope), strongest)


def _shares(support: Support, edges: int) -> tuple[Ints, Ints, Floats]:
    edge = np.repeat(np.arange(edges), _lengths(support.starts, len(support.owner)))
    scopes = int(support.scope.max(initial=0)) + 1
    firsts = np.flatnonzero(_changes(edge * scopes + support.scope))
    sums = np.add.reduceat(support.weight, firsts) if len(firsts) else np.zeros(0)
    return np.searchsorted(edge[firsts], np.arange(edges)), support.scope[firsts], sums


def _near(left: Ints, right: Ints, vertices: int) -> tuple[Ints, Ints]:
    ends = np.concatenate([left, right])
    numbers = np.concatenate([np.arange(len(left)), np.arange(len(right))])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=vertices))])
    return starts, numbers[order]


def ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of all half-open ranges, one after the other, and where each range begins among them."""
    lengths = (ends - starts).astype(np.int64)
    firsts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - firsts, lengths), firsts


def _changes(ordered: Ints) -> NDArray[np.bool_]:
    return np.concatenate([np.ones(min(len(ordered), 1), dtype=np.bool_), ordered[1:] != ordered[:-1]])


def _lengths(starts: Ints, total: int) -> Ints:
    return np.diff(np.concatenate([starts, [total]]))
