"""The graph arm: from what is named to what it leads to.

Two ways lead on from the seeds. *Titles*: a good hit that mentions an entity hands part of its strength to the passages
that are about that entity. *Rank*: personalised PageRank from the entities of the question and of the best hits weighs
the entities around them, and passages about those come in. In both a passage must also be near to the question, and the
more passages an entity has, the less each of them gets.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schemas.answers import EntityMatch
from shared.embedder import Vector
from shared.graph import GraphSnapshot
from shared.store import PassageHit, SearchFilter, Snapshot, StoredUnit
from shared.together import both

SEEDS: Final = 5
HANDED_ON: Final = 0.8
"""The five best hits hand 0.8 / (rank + 1) × cosine × 2 / √neighbours on (measured: all gold in the best ten of 2Wiki
rises from 36 to 93 %)."""

KEYS_A_SEED: Final = 24
PASSAGES_A_KEY: Final = 32
"""Bounds of the expansion: a text that names more is a list, an entity that has more is a hub; both say little."""

RANKED_ENTITIES: Final = 12
RANK_SHARE: Final = 0.5
"""PageRank reaches further and is less sure than a title: half of the weight."""

QUESTION_SEED: Final = 1.0
HIT_SEED: Final = 0.5
"""Restart weight of an entity named in the question, and of one named in the best hit (then 1/(rank + 1) of it)."""


@dataclass(frozen=True)
class Nearness:
    """The cosines of passages to the question: those that are ``known``, and others looked up once.

    ``soon``: passages that ranking will ask for, looked up together with the graph's.
    """

    snapshot: Snapshot
    vector: Vector
    known: dict[int, float]
    soon: Sequence[int] = ()

    async def of(self, passages: Iterable[int]) -> Mapping[int, float]:
        """Return what is known once these passages are; one without a vector stays absent."""
        unknown = set(passages).difference(self.known)
        if unknown:
            self.known.update(await self.snapshot.similarities(self.vector, unknown))
        return self.known


@dataclass(frozen=True)
class Reached:
    """A passage that the graph leads to: how strongly by titles, and how strongly by rank. Both 0 or more."""

    hit: PassageHit
    handed: float
    ranked: float


@dataclass
class _Reach:
    """Strengths on their way: summed over all that lead to a passage."""

    hits: dict[int, PassageHit] = field(default_factory=dict)
    handed: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    ranked: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def strongest(self, limit: int) -> list[Reached]:
        strength = {
            passage: self.handed.get(passage, 0.0) + RANK_SHARE * self.ranked.get(passage, 0.0) for passage in self.hits
        }
        best = sorted((-strong, passage) for passage, strong in strength.items() if strong > 0)[:limit]
        return [
            Reached(self.hits[passage], self.handed.get(passage, 0.0), self.ranked.get(passage, 0.0))
            for _, passage in best
        ]


async def expand(
    snapshot: Snapshot,
    graph: GraphSnapshot,
    *,
    seeds: Sequence[tuple[PassageHit, StoredUnit]],
    entities: Sequence[EntityMatch],
    nearness: Nearness,
    where: SearchFilter,
    limit: int,
) -> list[Reached]:
    """Return passages that the seeds and the question's entities lead to, strongest first, ties by passage id.

    ``seeds``: the best hits of the other arms, best first. No seeds and no entities: empty.
    """
    seeds = seeds[:SEEDS]
    mentioned = [_mentioned_keys(unit, graph) for _, unit in seeds]
    keys = {key for names in mentioned for key in names}

    async def about_ranked() -> tuple[list[tuple[tuple[str, ...], float]], dict[str, list[PassageHit]]]:
        ranked = await asyncio.to_thread(_ranked_entities, seeds, mentioned, entities, graph, where)
        return ranked, await _about(snapshot, {key for names, _ in ranked for key in names} - keys, where)

    about, (ranked, about_those) = await both(lambda: _about(snapshot, keys, where), about_ranked)
    about |= about_those
    near = await nearness.of([*nearness.soon, *(hit.passage_id for hits in about.values() for hit in hits)])
    reach = _Reach()
    _hand_on_titles(reach, seeds, mentioned, about, near)
    _hand_on_rank(reach, ranked, about, near)
    return reach.strongest(limit)


async def _about(snapshot: Snapshot, keys: Collection[str], where: SearchFilter) -> dict[str, list[PassageHit]]:
    return await snapshot.about(keys, where, PASSAGES_A_KEY) if keys else {}


def _mentioned_keys(unit: StoredUnit, graph: GraphSnapshot) -> tuple[str, ...]:
    """The keys that a unit mentions, in its own order, with the other names of the entities they mean."""
    keys: dict[str, None] = {}
    for mention in unit.mentions:
        keys.setdefault(mention.key)
        if len(keys) >= KEYS_A_SEED:
            break
    for key in list(keys):
        resolved = graph.resolve(key)
        if not resolved.candidates:
            keys.update(dict.fromkeys(graph.keys_of(resolved.entity_id)))
    return tuple(keys)


def _hand_on_titles(
    reach: _Reach,
    seeds: Sequence[tuple[PassageHit, StoredUnit]],
    mentioned: Sequence[tuple[str, ...]],
    about: Mapping[str, list[PassageHit]],
    near: Mapping[int, float],
) -> None:
    for rank, ((seed, _), keys) in enumerate(zip(seeds, mentioned, strict=True)):
        neighbours = {
            hit.passage_id: hit
            for key in keys
            for hit in about.get(key, ())
            if hit.score >= 1.0 and hit.passage_id != seed.passage_id
        }
        share = HANDED_ON / (rank + 1) * 2 / math.sqrt(max(1, len(neighbours)))
        for passage, hit in neighbours.items():
            reach.hits.setdefault(passage, hit)
            reach.handed[passage] += share * max(0.0, near.get(passage, 0.0))


def _ranked_entities(
    seeds: Sequence[tuple[PassageHit, StoredUnit]],
    mentioned: Sequence[tuple[str, ...]],
    entities: Sequence[EntityMatch],
    graph: GraphSnapshot,
    where: SearchFilter,
) -> list[tuple[tuple[str, ...], float]]:
    """The entities that PageRank finds around the question, as (keys, weight), the strongest first; weights up to 1."""
    restart: dict[str, float] = {}
    for match in entities:
        for entity in match.candidates or (match.entity_id,):
            share = QUESTION_SEED * match.confidence / max(1, len(match.candidates))
            restart[entity] = max(restart.get(entity, 0.0), share)
    for rank, ((_, unit), keys) in enumerate(zip(seeds, mentioned, strict=True)):
        named = ([unit.subject] if unit.subject else []) + list(keys)
        for key in named:
            entity = graph.resolve(key).entity_id
            restart[entity] = restart.get(entity, 0.0) + HIT_SEED / (rank + 1) / len(named)
    weights = graph.pagerank(restart, where.scopes) if restart else {}
    strongest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:RANKED_ENTITIES]
    top = strongest[0][1] if strongest else 1.0
    return [(graph.keys_of(entity), weight / top) for entity, weight in strongest if weight > 0]


def _hand_on_rank(
    reach: _Reach,
    ranked: Sequence[tuple[tuple[str, ...], float]],
    about: Mapping[str, list[PassageHit]],
    near: Mapping[int, float],
) -> None:
    for keys, weight in ranked:
        hits: dict[int, PassageHit] = {}
        for key in keys:
            for hit in about.get(key, ()):
                if hit.passage_id not in hits or hits[hit.passage_id].score < hit.score:
                    hits[hit.passage_id] = hit
        specificity = 1 / math.sqrt(max(1, len(hits)))
        for passage, hit in hits.items():
            reach.hits.setdefault(passage, hit)
            reach.ranked[passage] += weight * specificity * hit.score * max(0.0, near.get(passage, 0.0))
