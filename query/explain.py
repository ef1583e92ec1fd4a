"""Why a unit is, or is not, in an answer: the question's own path, watched from that one unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from query.arms import GRAPH, KEYWORD, VECTOR
from query.assembly import Seen
from query.fuse import Candidate, best_passages
from query.search import DEPTH
from query.terms import score_of, spelled_out
from schemas.answers import ScoreTerm
from schemas.explanations import ExplainedStage, ExplainedStageName
from schemas.times import Moment
from schemas.units import Unit
from shared.store import PassageHit, SearchFilter, StoredUnit
from shared.text import query_terms, terms
from shared.validity import Held, from_micros, held, micros

DEEP: Final = 1_000
"""How far below an arm's hundred a unit is looked for: further down no word that is added would bring it up alone."""

WORDS_SHOWN: Final = 8

Outcome = Literal["passed", "rose", "sank", "missed", "lost", "fell"]


@dataclass(frozen=True)
class Obstacle:
    """Why the filter leaves a unit out, and which parameters would let it pass."""

    detail: str
    change: Mapping[str, Any]


@dataclass
class Dissection:
    """The way of one unit through one question, filled while the snapshot is open."""

    unit_id: str
    stages: list[ExplainedStage] = field(default_factory=list)
    obstacles: tuple[Obstacle, ...] = ()
    terms: tuple[ScoreTerm, ...] = ()
    needed: float | None = None
    merged_into: str | None = None
    place: int | None = None

    @property
    def score(self) -> float | None:
        """What the terms spell out; None where nothing was added up."""
        return score_of(self.terms) if self.terms else None

    @property
    def fell_at(self) -> ExplainedStage | None:
        """The stage at which it went no further."""
        return next((stage for stage in self.stages if stage.outcome == "fell"), None)

    def note(self, stage: ExplainedStageName, outcome: Outcome, detail: str, rank: int | None = None) -> None:
        """Add a stage."""
        self.stages.append(ExplainedStage(stage=stage, outcome=outcome, detail=detail, rank=rank))

    async def watch(self, seen: Seen) -> None:
        """Look at the search and its ranking."""
        stored = (await seen.snapshot.units([self.unit_id])).get(self.unit_id)
        if stored is None:  # withdrawn since it was looked up
            self.note("scope", "fell", "the unit has just been withdrawn")
            return
        where = seen.inquiry.filter(frozenset(weight.scope for weight in seen.weights))
        if self._scope(seen, stored) and self._filter(stored, where):
            await self._arms(seen, stored, where)
            self._ranking(seen, stored)

    def _scope(self, seen: Seen, stored: StoredUnit) -> bool:
        scope = stored.known.unit.scope.key
        weight = next((weight for weight in seen.weights if weight.scope == scope), None)
        if weight is None:
            asked = [
                name
                for name, value in (("scopes", seen.inquiry.question.scopes), ("levels", seen.inquiry.question.levels))
                if value is not None
            ]
            self.obstacles = (Obstacle(f"{scope} is not searched", dict.fromkeys(asked)),)
            self.note("scope", "fell", f"{scope} is readable, but {' and '.join(asked)} of the question leave it out")
            return False
        place = 1 + [one.scope for one in seen.weights].index(scope)
        self.note("scope", "passed", f"{scope} weighs {weight.weight:.3g}", place)
        return True

    def _filter(self, stored: StoredUnit, where: SearchFilter) -> bool:
        self.obstacles = obstacles_of(stored, where)
        if self.obstacles:
            self.note("filter", "fell", "; ".join(one.detail for one in self.obstacles))
        else:
            self.note("filter", "passed", f"it holds at {where.at.isoformat(timespec='seconds')}")
        return not self.obstacles

    async def _arms(self, seen: Seen, stored: StoredUnit, where: SearchFilter) -> None:
        lost = {source.arm: source for source in seen.found.lost if source.scope in {None, stored.known.unit.scope.key}}
        for arm in (KEYWORD, VECTOR, GRAPH):
            rank = _rank_in(seen.found.arms.get(arm, ()), stored.passage_id)
            if rank is not None:
                self.note(_stage(arm), "passed", f"among the first {DEPTH}", rank)
            elif arm in lost:
                self.note(_stage(arm), "lost", f"{lost[arm].reason} {lost[arm].detail}".strip())
            else:
                detail, deep = await self._missed(arm, seen, stored, where)
                self.note(_stage(arm), "missed", detail, deep)

    async def _missed(self, arm: str, seen: Seen, stored: StoredUnit, where: SearchFilter) -> tuple[str, int | None]:
        if arm == KEYWORD:
            wanted = query_terms(seen.inquiry.text)
            shared = sorted(set(wanted) & set(terms(_words_of(stored.known.unit))))
            if not shared:
                return f"it has none of the question's words: {', '.join(wanted[:WORDS_SHOWN])}", None
            rank = _rank_in(await seen.snapshot.keyword(wanted, where, DEEP), stored.passage_id)
            named = ", ".join(shared[:WORDS_SHOWN])
            return f"it shares only {named}; the first {DEPTH} are taken", rank
        if arm == VECTOR and seen.found.vector is not None:
            near = await seen.snapshot.similarities(seen.found.vector, [stored.passage_id])
            hits = seen.found.arms[VECTOR]
            if stored.passage_id in near and hits:
                own, last = near[stored.passage_id], hits[-1].score
                return f"its nearness is {own:.3f}, that of the last of {len(hits)} taken {last:.3f}", None
            return "its text has no vector", None
        if arm == VECTOR:
            return "the question has no vector", None
        return "no named entity and no good hit leads to it", None

    def _ranking(self, seen: Seen, stored: StoredUnit) -> None:
        ranking, passage = seen.ranking, stored.passage_id
        if passage not in ranking.fused:
            self.note("fusion", "fell", "no arm brought it")
            return
        self.terms = spelled_out(ranking.fused[passage])
        order = best_passages(ranking.fused, len(ranking.fused))
        rank = order.index(passage) + 1
        if passage not in ranking.pool:
            self.needed = score_of(ranking.fused[ranking.pool[-1]])
            self.note("fusion", "fell", f"of {len(order)} found, the best {len(ranking.pool)} are read", rank)
            return
        self.note("fusion", "passed", f"of {len(order)} found, the best {len(ranking.pool)} are read", rank)
        own = next((one for one in ranking.ranked if self.unit_id in {one.unit.known.unit.id, *one.also}), None)
        if own is None:
            self.note("duplicates", "fell", "it was withdrawn while the question was answered")
            return
        self._boosts(seen, own, before=rank)

    def _boosts(self, seen: Seen, own: Candidate, *, before: int) -> None:
        ranked, limit = seen.ranking.ranked, seen.inquiry.question.limit
        shown = own.unit.known.unit.id
        if shown != self.unit_id:
            self.merged_into = shown
            self.note("duplicates", "passed", f"says the same as {shown}, in whose place it stands")
        self.terms = spelled_out(own.terms)
        self.place = [one.unit.known.unit.id for one in ranked].index(shown) + 1
        outcome: Outcome = "rose" if self.place < before else "sank" if self.place > before else "passed"
        boosts = [f"{one.name} ×{one.value:.3f}" for one in own.terms if not one.name.startswith(("rrf.", "graph."))]
        self.note("boosts", outcome, ", ".join(boosts) or "none applies", self.place)
        if self.place > limit:
            self.needed = ranked[limit - 1].score
            self.note("limit", "fell", f"the answer takes the first {limit} of {len(ranked)}", self.place)
        else:
            self.note("limit", "passed", f"the answer takes the first {limit} of {len(ranked)}", self.place)


def obstacles_of(stored: StoredUnit, where: SearchFilter) -> tuple[Obstacle, ...]:
    """Return everything for which the filter leaves a unit of a searched scope out; empty: it passes."""
    unit, state = stored.known.unit, stored.known.state
    times = held(unit, state.recorded_at)
    found: list[Obstacle] = []
    if where.types is not None and unit.type not in where.types:
        wider = sorted({kind.value for kind in where.types} | {unit.type.value})
        found.append(Obstacle(f"its type {unit.type.value} is not among those asked for", {"types": wider}))
    if (early := _not_yet(times, where)) is not None:
        found.append(early)
    if not where.include_superseded and state.held_until is not None and state.held_until <= where.at:
        word = "superseded" if state.superseded_by else "ended"
        found.append(Obstacle(f"{word} since {_day(state.held_until)}", {"include_superseded": True}))
    if where.known_at is not None and state.recorded_at > where.known_at:
        found.append(Obstacle(f"recorded only on {_day(state.recorded_at)}", {"known_at": None}))
    if where.occurred is not None and not _occurred_within(times, where):
        when = _day(unit.occurred_at.at) if unit.occurred_at else "at an unknown time"
        change = {"occurred_from": None, "occurred_until": None}
        found.append(Obstacle(f"it occurred {when}, outside the window", change))
    return tuple(found)


def _not_yet(times: Held, where: SearchFilter) -> Obstacle | None:
    """What begins, or occurred, only after the instant that is asked about."""
    at = micros(where.at)
    later = [start for start in (times.begins,) if start is not None and start > at]
    if where.past and times.occurred_start is not None and times.occurred_start > at:
        later.append(times.occurred_start)
    if not later:
        return None
    since = from_micros(max(later))
    return Obstacle(f"it holds only from {_day(since)} on", {"as_of": since.isoformat()})


def _occurred_within(times: Held, where: SearchFilter) -> bool:
    if times.occurred_start is None or times.occurred_end is None or where.occurred is None:
        return False
    since, until = where.occurred
    return (until is None or times.occurred_start < micros(until)) and (
        since is None or times.occurred_end > micros(since)
    )


def _rank_in(hits: Sequence[PassageHit], passage: int) -> int | None:
    return next((place for place, hit in enumerate(hits, start=1) if hit.passage_id == passage), None)


def _stage(arm: str) -> ExplainedStageName:
    names: Mapping[str, ExplainedStageName] = {KEYWORD: "keyword", VECTOR: "vector", GRAPH: "graph"}
    return names[arm]


def _words_of(unit: Unit) -> str:
    return f"{unit.title or ''}\n{unit.text}"


def _day(moment: Any) -> str:
    instant = moment.at if isinstance(moment, Moment) else moment
    return str(instant.date().isoformat())
