"""The entity graph in plain Python, for tests: each answer is worked out from the contributions, slowly and plainly."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log1p, prod, sqrt

from schemas.graph import Contribution
from shared.graph import MAX_HOPS, PAGERANK_VERTICES, Neighbour, Resolved
from shared.graphs.ledger import Ledger
from shared.graphs.meaning import alias_view, name_of
from shared.graphs.rows import MENTIONED_WITH, edges_of, keys_of

DAMPING = 0.5
EDGES_PER_VERTEX = 10
MOST_COST = 2.0
SUPPORT_UNITS = 20
SETTLED = 1e-12


@dataclass(frozen=True)
class Fact:
    """One contribution's support of one edge."""

    owner: str
    scope: str | None
    at: float
    weight: float


Edge = tuple[str, str, str]
"""(source, relation, target); `MENTIONED_WITH` with source < target."""
Steps = dict[str, list[tuple[str, float]]]
"""By entity: each visible edge's other end and weight for the walk."""


class MemoryGraph:
    """An `EntityGraph` that rebuilds everything at each refresh."""

    def __init__(self, *, pagerank_vertices: int = PAGERANK_VERTICES) -> None:
        self._pagerank_vertices = pagerank_vertices
        self._ledger = Ledger()
        self._dirty: set[str] = set()
        self._snapshots: dict[str, MemorySnapshot] = {}
        self._nothing = MemorySnapshot(0, [], pagerank_vertices)

    @property
    def refresh_interval_s(self) -> float:
        """How long to wait between refreshes."""
        return 0.0

    def apply(self, contributions: Iterable[Contribution]) -> None:
        """Take contributions in any order, any number of times."""
        self._dirty |= {taken.tenant for taken in contributions if self._ledger.take(taken)}

    def reset(self) -> None:
        """Forget everything, without changing what `snapshot` returns until the next refresh."""
        self._ledger = Ledger()
        self._dirty = set(self._snapshots)

    def refresh(self) -> bool:
        """Build and swap in new snapshots of tenants that changed. Returns whether anything was swapped."""
        changed, self._dirty = self._dirty, set()
        for tenant in changed:
            version = self.snapshot(tenant).version + 1
            self._snapshots[tenant] = MemorySnapshot(version, self._ledger.live(tenant), self._pagerank_vertices)
        return bool(changed)

    def snapshot(self, tenant: str) -> "MemorySnapshot":
        """Return the present snapshot; empty for an unknown tenant."""
        return self._snapshots.get(tenant, self._nothing)


class MemorySnapshot:
    """A `GraphSnapshot` over dictionaries."""

    def __init__(self, version: int, contributions: Sequence[Contribution], pagerank_vertices: int) -> None:
        self._version = version
        self._pagerank_vertices = pagerank_vertices
        self._aliases = alias_view(contributions)
        self._declared = {contribution.entity_id for contribution in contributions if contribution.entity_id}
        self._spoken: dict[str, set[str | None]] = defaultdict(set)
        self._facts: dict[Edge, list[Fact]] = defaultdict(list)
        for contribution in contributions:
            self._add(contribution)
        self._entities = self._declared | {self._means(key) for key in self._spoken}

    def _add(self, contribution: Contribution) -> None:
        for key in keys_of(contribution):
            self._spoken[key].add(contribution.scope)
        strongest: dict[Edge, float] = {}
        for row in edges_of(contribution):
            source, target = self._means(row.source), self._means(row.target)
            if row.relation == MENTIONED_WITH:
                source, target = min(source, target), max(source, target)
            if source != target:
                edge = (source, row.relation, target)
                strongest[edge] = max(strongest.get(edge, 0.0), row.weight)
        at = contribution.occurred_at.timestamp() if contribution.occurred_at else -inf
        for edge, weight in strongest.items():
            self._facts[edge].append(Fact(contribution.id, contribution.scope, at, weight))

    def _means(self, key: str) -> str:
        return self._aliases.resolve(key).entity_id

    @property
    def version(self) -> int:
        """Counts up with each swap."""
        return self._version

    def resolve(self, key: str) -> Resolved:
        """Say which entity a folded key means."""
        return self._aliases.resolve(key)

    def knows(self, key: str, scopes: frozenset[str]) -> bool:
        """Say whether a key is declared, or mentioned by a unit in ``scopes``."""
        return self._aliases.claims(key) or bool(self._spoken.get(key, set()) & {None, *scopes})

    def name_of(self, entity_id: str) -> tuple[str, str | None]:
        """Return display name and type; the key itself, or the id, and None for an undeclared one."""
        return name_of(self._aliases, entity_id)

    def keys_of(self, entity_id: str) -> tuple[str, ...]:
        """Return the keys that mean this entity, sorted."""
        mentioned = {key for key in self._spoken if self._means(key) == entity_id}
        return tuple(sorted({*self._aliases.keys_of(entity_id), *mentioned}))

    def proximity(self, source: str, targets: Collection[str]) -> Mapping[str, float]:
        """Return the weighted distance from an entity to each target within reach over declared relations."""
        if source not in self._entities:
            return {}
        steps: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for (left, relation, right), facts in self._facts.items():
            weights = [fact.weight for fact in facts if fact.scope is None]
            if weights and relation != MENTIONED_WITH:
                cost = min(1 / max(weights), MOST_COST)
                steps[left].append((right, cost))
                steps[right].append((left, cost))
        best = {source: 0.0}
        for _ in range(MAX_HOPS):
            longer = dict(best)
            for here, so_far in best.items():
                for there, cost in steps[here]:
                    longer[there] = min(longer.get(there, inf), so_far + cost)
            best = longer
        return {target: best[target] for target in targets if target in best}

    def pagerank(self, seeds: Mapping[str, float], scopes: frozenset[str]) -> Mapping[str, float]:
        """Return personalised PageRank by power iteration."""
        seen = {self._means(key) for key, said in self._spoken.items() if said & {None, *scopes}}
        visible = self._declared | seen
        known = {seed: weight for seed, weight in seeds.items() if seed in visible and 0 < weight < inf}
        if not known:
            return {}
        total = sum(known.values())
        start = {seed: weight / total for seed, weight in known.items()}
        walk = self._walk(scopes)
        inside = self._nearest(start, _steps(walk))
        among = [edge for edge in walk if edge[0] in inside and edge[2] in inside]
        among.sort(key=lambda edge: (not {edge[0], edge[2]} & set(start), -walk[edge], edge[0], edge[2], edge[1]))
        kept = {edge: walk[edge] for edge in among[: EDGES_PER_VERTEX * self._pagerank_vertices]}
        stays = {
            seed: share for seed, share in start.items() if not any(seed in (left, right) for left, _, right in walk)
        }
        walking = {seed: share for seed, share in start.items() if seed not in stays}
        ranks = stays | _iterate(walking, _steps(kept), inside)
        return {entity: rank for entity, rank in ranks.items() if rank > 0}

    def neighbours(self, entity_id: str, scopes: frozenset[str], limit: int) -> Sequence[Neighbour]:
        """Return the strongest neighbours by relation."""
        found = []
        for (left, relation, right), facts in self._facts.items():
            seen = [fact for fact in facts if fact.scope in {None, *scopes}]
            if entity_id not in (left, right) or not seen:
                continue
            other = right if entity_id == left else left
            units = sorted((-fact.at, fact.owner[5:]) for fact in seen if fact.owner.startswith("unit:"))
            name, kind = self.name_of(other)
            weight = round(1 - prod(1 - fact.weight for fact in seen), 9)
            outgoing = relation == MENTIONED_WITH or entity_id == left
            ids = tuple(unit for _, unit in units[:SUPPORT_UNITS])
            found.append(Neighbour(other, name, kind, relation, outgoing, weight, len(units), ids))
        found.sort(key=lambda near: (-near.weight, -near.support, near.entity_id, near.relation, near.outgoing))
        return found[: max(limit, 0)]

    def counts(self) -> tuple[int, int]:
        """Return (entities, edges)."""
        return len(self._entities), len(self._facts)

    def _walk(self, scopes: frozenset[str]) -> dict[Edge, float]:
        """Return the visible edges with their weights for the walk."""
        sums = {edge: sum(f.weight for f in facts if f.scope in {None, *scopes}) for edge, facts in self._facts.items()}
        sums = {edge: weight for edge, weight in sums.items() if weight > 0}
        degree = Counter(end for left, _, right in sums for end in (left, right))
        return {
            (left, relation, right): log1p(weight) / sqrt(degree[left] * degree[right])
            for (left, relation, right), weight in sums.items()
        }

    def _nearest(self, start: Mapping[str, float], steps: Steps) -> set[str]:
        """Return the vertices around the seeds, layer by layer, at most ``pagerank_vertices``."""
        limit = self._pagerank_vertices
        walking = [seed for seed in start if seed in steps]
        layer = sorted(walking, key=lambda seed: (-start[seed], seed))[:limit]
        promise = {seed: start[seed] for seed in layer}
        inside = set(layer)
        while layer and len(inside) < limit:
            fresh: dict[str, float] = {}
            for parent in layer:
                total = sum(weight for _, weight in steps[parent])
                for child, weight in steps[parent]:
                    if child not in inside:
                        fresh[child] = max(fresh.get(child, 0.0), promise[parent] * weight / total)
            layer = sorted(fresh, key=lambda child: (-fresh[child], child))[: limit - len(inside)]
            promise |= fresh
            inside |= set(layer)
        return inside


def _steps(walk: Mapping[Edge, float]) -> Steps:
    steps: Steps = defaultdict(list)
    for (left, _, right), weight in walk.items():
        steps[left].append((right, weight))
        steps[right].append((left, weight))
    return steps


def _iterate(start: Mapping[str, float], steps: Steps, inside: set[str]) -> dict[str, float]:
    """Walk until nothing moves; the ranks sum to what the start does, or to 0 without a start."""
    walking = {seed: share for seed, share in start.items() if seed in inside}
    rank = dict(walking)
    moved = inf
    while moved > SETTLED:
        following = defaultdict(float, {entity: (1 - DAMPING) * share for entity, share in walking.items()})
        for here, mass in rank.items():
            total = sum(weight for _, weight in steps[here])
            for there, weight in steps[here]:
                following[there] += DAMPING * mass * weight / total
        moved = sum(abs(following.get(entity, 0.0) - rank.get(entity, 0.0)) for entity in {*following, *rank})
        rank = following
    scale = sum(start.values()) / (sum(rank.values()) or 1.0)
    return {entity: share * scale for entity, share in rank.items()}
