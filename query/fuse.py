"""Fusion: ranked lists into one, with every term of a score named."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from query.boosts import BoostBasis, boost, is_superseded
from query.graph_arm import Reached
from query.terms import Term, score_of, spelled_out
from schemas.answers import Result
from schemas.units import Sensitivity
from shared.store import PassageHit, StoredUnit

RRF_K: Final = 10
"""Measured better than 60 on all eight sets."""

LIFT_SHARE: Final = 0.7
LIFT_GAIN: Final = 2.0
"""What the graph leads to by titles is lifted to at most 70 % of the best direct hit's score: it comes in among the first
ten and overtakes no hit at the top. Measured on the shared half of 2Wiki: recall@10 from 74.5 to 95.8, MRR unchanged;
reciprocal rank of the graph's list gives 93.8, and costs LoCoMo 4 points of recall, where it has nothing to say."""

RANK_NUDGE: Final = 0.05
NUDGE_SHARE: Final = 0.25
"""What PageRank finds near adds a little, at most a quarter of the best score: MRR of 2Wiki +1.5, of LoCoMo +0.2, of
StackFAQ -0.8 (its threads share hubs); twice as much costs StackFAQ twice as much and takes recall from LoCoMo."""


@dataclass
class Candidate:
    """A passage on its way to a result: its unit that is shown, its rank in each arm, its nearness to the question."""

    passage_id: int
    unit: StoredUnit
    arms: dict[str, int]
    terms: tuple[Term, ...]
    similarity: float = 0.0
    also: tuple[str, ...] = ()
    sources: frozenset[str] = field(default_factory=frozenset)
    corroborations: int = 1

    @property
    def score(self) -> float:
        """What the terms spell out."""
        return score_of(self.terms)


def fuse_ranks(arms: Mapping[str, Sequence[PassageHit]], weights: Mapping[str, float]) -> dict[int, tuple[Term, ...]]:
    """Fuse ranked lists by weighted reciprocal rank (Cormack et al. 2009): weight / (k + rank), rank from 1, k = 10.

    Returns per passage its summands, arms in name order. A weight of 0 removes an arm; an empty list adds nothing.
    """
    fused: dict[int, list[Term]] = {}
    for arm in sorted(arms):
        weight = weights.get(arm, 1.0)
        if weight <= 0:
            continue
        for rank, hit in enumerate(arms[arm], start=1):
            term = Term(name=f"rrf.{arm}", value=weight / (RRF_K + rank), detail=f"rank {rank}, weight {weight:g}")
            fused.setdefault(hit.passage_id, []).append(term)
    return {passage: tuple(terms) for passage, terms in fused.items()}


def lift_by_graph(
    fused: Mapping[int, tuple[Term, ...]], reached: Sequence[Reached], weight: float = 1.0
) -> dict[int, tuple[Term, ...]]:
    """Add to fused scores what the graph leads to: a nudge by rank, and a lift by titles to a bounded height.

    Without a direct hit nothing bounds the heights, and a best score of 1 / (k + 1) is assumed. Weight 0 removes the arm.
    """
    lifted = dict(fused)
    if weight <= 0:
        return lifted
    best = max((score_of(terms) for terms in fused.values()), default=1 / (RRF_K + 1))
    for one in reached:
        terms = fused.get(one.hit.passage_id, ())
        nudge = _bounded(weight * RANK_NUDGE * one.ranked, NUDGE_SHARE * best)
        height = _bounded(weight * LIFT_GAIN * one.handed, LIFT_SHARE * best)
        lift = max(0.0, height - score_of(terms))
        added = (
            Term(name="graph.near", value=nudge, detail="by rank around the question's entities"),
            Term(name="graph.lift", value=lift, detail="named by a good hit"),
        )
        lifted[one.hit.passage_id] = (*terms, *(term for term in added if term.value > 0))
    return {passage: terms for passage, terms in lifted.items() if terms}


def _bounded(value: float, bound: float) -> float:
    """Smoothly at most ``bound``, and near ``value`` where that is small: order is kept, ties are not made."""
    return bound * math.tanh(value / bound)


def best_passages(fused: Mapping[int, tuple[Term, ...]], limit: int) -> list[int]:
    """Return the passages with the highest fused scores, best first, ties by id."""
    return sorted(fused, key=lambda passage: (-score_of(fused[passage]), passage))[:limit]


def candidates_of(
    order: Sequence[int],
    fused: Mapping[int, tuple[Term, ...]],
    arms: Mapping[str, Sequence[PassageHit]],
    units: Mapping[str, StoredUnit],
    similarities: Mapping[int, float],
) -> list[Candidate]:
    """Make a candidate of each passage: its newest unit is shown, the others of the same text are ``also``.

    A passage none of whose units is live any more is left out.
    """
    ids: dict[int, tuple[str, ...]] = {}
    ranks: dict[int, dict[str, int]] = {}
    for arm in sorted(arms):
        for rank, hit in enumerate(arms[arm], start=1):
            ids.setdefault(hit.passage_id, hit.unit_ids)
            ranks.setdefault(hit.passage_id, {})[arm] = rank
    found = []
    for passage in order:
        live = [unit_id for unit_id in ids[passage] if unit_id in units]
        if not live:
            continue
        shown = units[live[0]]
        found.append(
            Candidate(
                passage_id=passage,
                unit=shown,
                arms=ranks[passage],
                terms=fused[passage],
                similarity=similarities.get(passage, 0.0),
                also=tuple(live[1:]),
                sources=frozenset(units[unit_id].known.state.source for unit_id in live),
                corroborations=shown.known.state.corroborations,
            )
        )
    return found


def rank_candidates(candidates: Sequence[Candidate], basis: BoostBasis) -> list[Candidate]:
    """Apply the bounded boosts and order by score, best first, ties by unit id."""
    for candidate in candidates:
        known = candidate.unit.known
        candidate.terms = (*candidate.terms, *boost(known, candidate.corroborations, basis))
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.unit.known.unit.id))


def result_of(
    candidate: Candidate, rank: int, *, basis: BoostBasis, contested: bool, visible: frozenset[str], explain: bool
) -> Result:
    """Make the answer's result of a candidate. ``superseded_by`` is named only when it is ``visible`` here."""
    unit, state = candidate.unit.known.unit, candidate.unit.known.state
    ended = state.held_until is not None and state.held_until <= basis.at
    superseded = is_superseded(state, basis.at)
    return Result(
        rank=rank,
        citation=f"[{rank}]",
        unit_id=unit.id,
        text=unit.text,
        title=unit.title,
        type=unit.type,
        scope=unit.scope.key,
        sensitivity=Sensitivity(unit.sensitivity),
        trusted=unit.origin.trusted,
        score=candidate.score,
        arms=dict(sorted(candidate.arms.items())),
        terms=spelled_out(candidate.terms) if explain else (),
        occurred_at=unit.occurred_at,
        recorded_at=state.recorded_at,
        valid_from=unit.valid_from,
        valid_until=unit.valid_until,
        status="superseded" if superseded else "ended" if ended else "contested" if contested else "current",
        superseded_by=state.superseded_by if superseded and state.superseded_by in visible else None,
        creator=unit.origin.creator_entity_id,
        source=state.source,
        source_ref=unit.origin.source_ref,
        document_id=unit.document_id,
        part=unit.part,
        corroborations=candidate.corroborations,
        also=candidate.also,
    )
