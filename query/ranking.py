"""Ranking: the arms' hits become the answer's results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from query.arms import GRAPH, VECTOR, arm_weights
from query.boosts import BoostBasis, identifiers_in
from query.conflicts import contested_ids, read_contradictions
from query.duplicates import merge_duplicates
from query.fuse import Candidate, best_passages, candidates_of, lift_by_graph, rank_candidates, result_of
from query.gate import FAR, Verdict, judge
from query.inquiry import Inquiry
from query.offload import offload
from query.retrieval import Found
from query.terms import Term
from schemas.answers import LostSource, Result, ScopeWeight
from schemas.intent import AnswerFormat, Intent
from shared.errors import CortexError
from shared.store import Snapshot, StoredContradiction, StoredUnit

POOL: Final = 10
POOL_A_RESULT: Final = 2
"""Passages that are read and boosted: ten more than twice the results. With boosts of ±15 % a hit of two arms at rank 17
can reach rank 10 (1.15/27 against 0.85/20), and one at rank 5 the first; what is merged away needs a few more."""

WIDE: Final = 50
"""Rows of an asked-for shape: it shows all that is near, not only the best few."""

NEAR_BEST: Final = 0.6
"""A row belongs to a shape when it is at least this near to the question, compared with the nearest."""


@dataclass(frozen=True)
class Ranking:
    """The results, more of them for shapes, the gate's verdict, and what conflicts are made of.

    For explanations, how it came about: the ``fused`` terms of every passage that an arm brought, the ``pool`` of those
    that were read (best first), and all candidates as they were ``ranked``.
    """

    results: tuple[Result, ...]
    wide: tuple[Result, ...]
    verdict: Verdict
    pairs: tuple[StoredContradiction, ...]
    units: Mapping[str, StoredUnit]
    readable: frozenset[str]
    fused: Mapping[int, tuple[Term, ...]]
    pool: Sequence[int]
    ranked: Sequence[Candidate]
    lost: tuple[LostSource, ...] = ()


async def rank(
    snapshot: Snapshot, inquiry: Inquiry, intent: Intent, weights: Sequence[ScopeWeight], found: Found
) -> Ranking:
    """Fuse, merge near-duplicates, boost, judge, and note what is contested."""
    question = inquiry.question
    readable = frozenset(weight.scope for weight in weights)
    weighed = arm_weights(intent.purpose, found.arms.get(VECTOR, ()))
    fused = lift_by_graph(found.direct, found.reached, weighed[GRAPH])
    shaped = intent.format is not AnswerFormat.DEFAULT
    order = best_passages(fused, max(POOL + POOL_A_RESULT * question.limit, 2 * WIDE if shaped else 0))
    ids = {hit.passage_id: hit.unit_ids for hits in found.arms.values() for hit in hits}
    units = await snapshot.units({unit_id for passage in order for unit_id in ids[passage]})
    similarities = dict(found.near)
    if found.vector is not None and (unknown := [passage for passage in order if passage not in similarities]):
        similarities |= await snapshot.similarities(found.vector, unknown)
    heaviest = max((weight.weight for weight in weights), default=1.0)
    basis = BoostBasis(
        intent=intent,
        scope_weights={weight.scope: weight.weight / heaviest for weight in weights},
        at=inquiry.at,
        identifiers=identifiers_in(inquiry.text),
    )

    def settle() -> tuple[list[Candidate], Verdict]:
        merged = merge_duplicates(candidates_of(order, fused, found.arms, units, similarities))
        ranked = rank_candidates(merged, basis)
        return ranked, judge(inquiry.text, ranked, has_vectors=found.vector is not None)

    ranked, verdict = await offload(settle, sum(len(stored.known.unit.text) for stored in units.values()))
    best = ranked[: question.limit]
    if question.order == "time":
        best.sort(key=_newest_first)
    wide = _near(ranked, best) if shaped else best
    pairs, lost = await _pairs(snapshot, wide, readable)
    contested = contested_ids(pairs)

    def results(chosen: Sequence[Candidate]) -> tuple[Result, ...]:
        return tuple(
            result_of(
                candidate,
                place,
                basis=basis,
                contested=candidate.unit.known.unit.id in contested,
                visible=frozenset(units),
                explain=question.explain,
            )
            for place, candidate in enumerate(chosen, start=1)
        )

    shown = {unit_id for candidate in best for unit_id in (candidate.unit.known.unit.id, *candidate.also)}
    return Ranking(
        results=results(best),
        wide=results(wide),
        verdict=verdict,
        pairs=tuple(pair for pair in pairs if shown & set(pair.found.units)),
        units=units,
        readable=readable,
        fused=fused,
        pool=order,
        ranked=ranked,
        lost=lost,
    )


def _near(ranked: Sequence[Candidate], best: Sequence[Candidate]) -> list[Candidate]:
    nearest = max((candidate.similarity for candidate in ranked), default=0.0)
    chosen = {candidate.passage_id for candidate in best}
    return [
        candidate
        for candidate in ranked
        if candidate.passage_id in chosen or candidate.similarity >= max(FAR, NEAR_BEST * nearest)
    ][:WIDE]


async def _pairs(
    snapshot: Snapshot, chosen: Sequence[Candidate], readable: frozenset[str]
) -> tuple[list[StoredContradiction], tuple[LostSource, ...]]:
    ids = [unit_id for candidate in chosen for unit_id in (candidate.unit.known.unit.id, *candidate.also)]
    try:
        return await read_contradictions(snapshot, ids, readable), ()
    except CortexError as error:
        return [], (LostSource(stage="conflicts", reason="error", detail=str(error)),)


def _newest_first(candidate: Candidate) -> tuple[float, str]:
    known = candidate.unit.known
    when = known.unit.occurred_at.at if known.unit.occurred_at else known.state.recorded_at
    return -when.timestamp(), known.unit.id
