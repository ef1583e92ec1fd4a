"""The entity graph: a replica built from contributions, which only weighs and never decides what may be read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schemas.graph import Contribution

MAX_HOPS = 4
PAGERANK_VERTICES = 500  # the design allows 3,000; from 300 up the answers on 2Wiki are the same, 500 take 2 CPU-ms
PAGERANK_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Resolved:
    """What an entity key means. ``candidates``: several declared entities claim the key; then ``entity_id`` is the key's own."""

    entity_id: str
    name: str
    type: str | None
    method: str
    confidence: float
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Neighbour:
    """An entity next to another, by which relation, how strongly, and how many units support it."""

    entity_id: str
    name: str
    type: str | None
    relation: str
    outgoing: bool
    weight: float
    support: int
    unit_ids: tuple[str, ...] = ()


class GraphSnapshot(Protocol):
    """An immutable graph of one tenant. ``scopes`` restricts every answer to what those scopes' units support."""

    @property
    def version(self) -> int:
        """Counts up with each swap."""
        ...

    def resolve(self, key: str) -> Resolved:
        """Say which entity a folded key means: declared alias, guarded fuzzy alias, or the key itself."""
        ...

    def knows(self, key: str, scopes: frozenset[str]) -> bool:
        """Say whether a folded key is a declared name or alias (exactly, not fuzzily), or is mentioned by a unit in
        ``scopes``; with no scopes only declarations count, so that a question never learns of what it may not read.
        """
        ...

    def name_of(self, entity_id: str) -> tuple[str, str | None]:
        """Return display name and type; the id and None for an unknown one."""
        ...

    def keys_of(self, entity_id: str) -> tuple[str, ...]:
        """Return the keys that mean this entity, sorted."""
        ...

    def proximity(self, source: str, targets: Collection[str]) -> Mapping[str, float]:
        """Return the weighted distance in hops (an edge costs 1/weight, at most 2; at most MAX_HOPS edges) from an
        entity to each target that can be reached over declared relations; absent: cannot.
        """
        ...

    def pagerank(self, seeds: Mapping[str, float], scopes: frozenset[str]) -> Mapping[str, float]:
        """Personalised PageRank (damping 0.5) from weighted seed entities to PAGERANK_TOLERANCE, over at most
        PAGERANK_VERTICES vertices around them; sums to 1 over the returned entities; no known seed: empty.
        """
        ...

    def neighbours(self, entity_id: str, scopes: frozenset[str], limit: int) -> Sequence[Neighbour]:
        """Return the strongest neighbours, ties by id."""
        ...

    def counts(self) -> tuple[int, int]:
        """Return (entities, edges)."""
        ...


class EntityGraph(Protocol):
    """Holds contributions and hands out snapshots."""

    @property
    def refresh_interval_s(self) -> float:
        """How long to wait from one refresh to the next; grows with the time that a build takes, so ask each time."""
        ...

    def apply(self, contributions: Iterable[Contribution]) -> None:
        """Take contributions in any order, any number of times: per id the highest revision stands, removal wins ties."""
        ...

    def reset(self) -> None:
        """Forget everything, without changing what `snapshot` returns until the next refresh."""
        ...

    def refresh(self) -> bool:
        """Build and swap in new snapshots of tenants that changed. Returns whether anything was swapped."""
        ...

    def snapshot(self, tenant: str) -> GraphSnapshot:
        """Return the present snapshot; empty for an unknown tenant."""
        ...
