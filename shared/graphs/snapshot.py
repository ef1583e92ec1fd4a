"""One tenant's graph at one moment: arrays that never change, shared by all readers without a lock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.graph import MAX_HOPS, PAGERANK_VERTICES, Neighbour, Resolved
from shared.graphs.edges import Edges
from shared.graphs.meaning import name_of
from shared.graphs.pagerank import View, rank, view_of
from shared.graphs.proximity import Steps, distances
from shared.graphs.table import EVERYWHERE, UNDIRECTED, Floats, Ints
from shared.identity import AliasView

MOST_COST: Final = 2.0  # the weakest declared relation is as far as two strong ones
SUPPORT_UNITS: Final = 20  # ids named with a neighbour; ``support`` counts them all
VIEWS: Final = 8  # of scope sets, each some MB at 445,000 edges; people of one team share one
UNIT: Final = "unit:"


@dataclass(frozen=True)
class Vertices:
    """Entities sorted by id: an entity's place is its vertex number. ``spoken``: the scopes whose units name each key,
    from ``spoken_starts``.
    """

    ids: tuple[str, ...]
    number: Mapping[str, int]
    declared: NDArray[np.bool_]
    keys: Mapping[str, int]
    of_key: Ints
    keys_of: Mapping[int, tuple[str, ...]]
    spoken: Ints
    spoken_starts: Ints
    scopes: Mapping[str | None, int]


@dataclass(frozen=True)
class Names:
    """Of numbers in the arrays: relations, and contributions with their times (seconds; -inf: unknown)."""

    relations: tuple[str, ...]
    owners: Sequence[str]
    owner_at: Floats


class ReplicaSnapshot:
    """A `GraphSnapshot` over arrays."""

    def __init__(
        self,
        version: int,
        *,
        aliases: AliasView,
        vertices: Vertices,
        edges: Edges,
        names: Names,
        steps: Steps,
        pagerank_vertices: int = PAGERANK_VERTICES,
    ) -> None:
        self._version = version
        self._aliases = aliases
        self._vertices = vertices
        self._edges = edges
        self._names = names
        self._steps = steps
        self._pagerank_vertices = pagerank_vertices
        self._view = lru_cache(maxsize=VIEWS)(self._make_view)

    @property
    def version(self) -> int:
        """Counts up with each swap."""
        return self._version

    def resolve(self, key: str) -> Resolved:
        """Say which entity a folded key means."""
        return self._aliases.resolve(key)

    def knows(self, key: str, scopes: frozenset[str]) -> bool:
        """Say whether a key is declared, or mentioned by a unit in ``scopes``."""
        if self._aliases.claims(key):
            return True
        number = self._vertices.keys.get(key)
        if number is None:
            return False
        said = self._vertices.spoken[self._vertices.spoken_starts[number] : self._vertices.spoken_starts[number + 1]]
        return bool(self._readable(scopes)[said].any())

    def name_of(self, entity_id: str) -> tuple[str, str | None]:
        """Return display name and type; the key itself, or the id, and None for an undeclared one."""
        return name_of(self._aliases, entity_id)

    def keys_of(self, entity_id: str) -> tuple[str, ...]:
        """Return the keys that mean this entity, sorted: its declared names, and mentioned ones that resolve to it."""
        mentioned = self._vertices.keys_of.get(self._vertices.number.get(entity_id, -1), ())
        return tuple(sorted({*self._aliases.keys_of(entity_id), *mentioned}))

    def proximity(self, source: str, targets: Collection[str]) -> Mapping[str, float]:
        """Return the weighted distance from an entity to each target within reach over declared relations."""
        start = self._vertices.number.get(source)
        wanted = {target: self._vertices.number[target] for target in targets if target in self._vertices.number}
        if start is None or not wanted:
            return {}
        best = distances(start, self._steps, len(self._vertices.ids), MAX_HOPS)
        return {target: float(best[number]) for target, number in wanted.items() if np.isfinite(best[number])}

    def pagerank(self, seeds: Mapping[str, float], scopes: frozenset[str]) -> Mapping[str, float]:
        """Return personalised PageRank from the seeds that are known in these scopes."""
        view = self._view_of(scopes)
        numbers = {
            self._vertices.number[seed]: weight for seed, weight in seeds.items() if seed in self._vertices.number
        }
        known = {number: weight for number, weight in numbers.items() if view.known[number] and 0 < weight < np.inf}
        if not known:
            return {}
        ranks = rank(view, known, self._pagerank_vertices)
        return {self._vertices.ids[number]: share for number, share in ranks.items()}

    def neighbours(self, entity_id: str, scopes: frozenset[str], limit: int) -> Sequence[Neighbour]:
        """Return the strongest neighbours by relation; the weight is that of the support together (noisy or)."""
        vertex = self._vertices.number.get(entity_id)
        if vertex is None or limit <= 0:
            return []
        readable = self._readable(scopes)
        near = self._edges.at(vertex)
        near = near[self._view_of(scopes).walk[near] > 0]
        if not len(near):
            return []
        weights, support = self._edges.support.together(near, readable)
        others = self._edges.other_end(near, vertex)
        outgoing = (self._edges.left[near] == vertex) | (self._edges.relation[near] == UNDIRECTED)
        by_name = np.argsort(np.argsort(self._names.relations))
        keys = (outgoing, by_name[self._edges.relation[near]], others, -support, -weights)
        strongest = np.lexsort(keys)[:limit]
        newest = self._newest(near[strongest], readable)
        return [
            Neighbour(
                self._vertices.ids[others[place]],
                *self.name_of(self._vertices.ids[others[place]]),
                relation=self._names.relations[self._edges.relation[near[place]]],
                outgoing=bool(outgoing[place]),
                weight=float(weights[place]),
                support=int(support[place]),
                unit_ids=unit_ids,
            )
            for place, unit_ids in zip(strongest.tolist(), newest, strict=True)
        ]

    def counts(self) -> tuple[int, int]:
        """Return (entities, edges)."""
        return len(self._vertices.ids), len(self._edges.left)

    def _newest(self, edges: Ints, readable: NDArray[np.bool_]) -> list[tuple[str, ...]]:
        """Return of each edge the ids of the newest units that support it, ties by id."""
        rows, firsts = self._edges.support.of(edges)
        scope, owner = self._edges.support.scope[rows], self._edges.support.owner[rows]
        told = (readable[scope] & (scope != EVERYWHERE)).tolist()
        owners, times = owner.tolist(), self._names.owner_at[owner].tolist()
        spans = pairwise([*firsts.tolist(), len(rows)])
        return [
            tuple(
                unit_id
                for _, unit_id in sorted(
                    (-times[row], self._names.owners[owners[row]].removeprefix(UNIT))
                    for row in range(start, end)
                    if told[row]
                )[:SUPPORT_UNITS]
            )
            for start, end in spans
        ]

    def _readable(self, scopes: frozenset[str]) -> NDArray[np.bool_]:
        readable = np.zeros(len(self._vertices.scopes), dtype=np.bool_)
        readable[[self._vertices.scopes[scope] for scope in scopes if scope in self._vertices.scopes]] = True
        readable[EVERYWHERE] = True
        return readable

    def _view_of(self, scopes: frozenset[str]) -> View:
        return self._view(self._readable(scopes).tobytes())

    def _make_view(self, readable: bytes) -> View:
        mask = np.frombuffer(readable, dtype=np.bool_)
        starts = self._vertices.spoken_starts
        key = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        known = self._vertices.declared.copy()
        known[self._vertices.of_key[key[mask[self._vertices.spoken]]]] = True
        return view_of(self._edges, mask, known)
