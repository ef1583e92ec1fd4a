"""The question's path: intent → entities → weights → search → fuse → conflicts → format, one event a stage."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from query.arms import ALL_ARMS
from query.conflicts import find_conflicts
from query.entities import find_entities
from query.fold import fold
from query.format import CHARS_A_TOKEN, format_context
from query.gate import Verdict
from query.inquiry import Inquiry, TokenLog
from query.intent import IntentDetector, detect_intent
from query.offload import offload
from query.opening import Opener, weigh
from query.people import find_people, say_ties
from query.question_vector import QuestionVectors
from query.ranking import Ranking, rank
from query.retrieval import Found
from query.search import everything_lost
from query.stages import Stages
from query.structured import structure
from schemas.answers import Answer, LostSource, ScopeWeight
from schemas.intent import AnswerFormat, Intent
from schemas.positions import PartitionWatermark
from schemas.questions import Question
from schemas.stream import (
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EntitiesEvent,
    KeywordEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)
from shared.cache import Cache
from shared.clock import Clock
from shared.embedder import Alone, Embedder, Embedders, Vector
from shared.errors import AllSourcesLost, CortexError
from shared.graph import EntityGraph
from shared.settings import Settings
from shared.store import KnowledgeReader, Snapshot

TIER_TWO_S: Final = 0.1
"""How long the intent waits for the question's vector before the rules' reading stands."""

NAME_COST: Final = 64
"""Looking for names takes so many times what reading does: a character begins up to five names of several words."""

NO_WORDS: Final = "The question has fewer than 3 characters: nothing was searched."
NO_SCOPES: Final = "No scope is readable for this question: nothing was searched."

Value = TypeVar("Value")
Lag = Callable[[str, dict[tuple[str, int], int]], Awaitable[Mapping[tuple[str, int], int]]]


@dataclass(frozen=True)
class Seen:
    """What an explanation looks at: the question, its open snapshot, and what search and ranking made of it."""

    inquiry: Inquiry
    snapshot: Snapshot
    weights: tuple[ScopeWeight, ...]
    found: Found
    ranking: Ranking


Watch = Callable[[Seen], Awaitable[None]]


class Assembly:
    """Answers questions from one snapshot of the store each. Only query vectors are kept between questions.

    ``tokens``: of which log tokens are accepted; None accepts those of any. ``lag`` counts the events above the
    watermarks of a tenant (`EventLog.pending`); without it every lag is 0. ``arms``: those that search; one that is left
    out is not lost. ``embedder``: of new tenants, and of tier 2 of the intent; ``embedders``: of the models that indexes
    may be of, where there are others than that one.
    """

    def __init__(  # noqa: PLR0917 - one place wires it, in the order of the parts' table
        self,
        reader: KnowledgeReader,
        graph: EntityGraph,
        embedder: Embedder,
        cache: Cache,
        clock: Clock,
        settings: Settings,
        *,
        tokens: TokenLog | None = None,
        lag: Lag | None = None,
        arms: frozenset[str] = ALL_ARMS,
        embedders: Embedders | None = None,
    ) -> None:
        self._vectors = QuestionVectors(embedders or Alone(embedder), cache)
        search_s = settings.search_deadline_ms / 1000
        self._opener = Opener(reader, graph, clock, self._vectors, search_s=search_s, arms=arms)
        self._detector = IntentDetector(embedder)
        self._clock = clock
        self._settings = settings
        self._tokens = tokens
        self._lag = lag

    async def prepare(self) -> None:
        """Embed what tier 2 of the intent compares with; without it, tier 1 answers alone. Raises EmbedderUnavailable."""
        await self._detector.prepare()

    async def answer(self, question: Question, *, tenant: str, principal: str | None) -> Answer:
        """Return the whole answer: the stream's, folded."""
        async with aclosing(self._stages(question, tenant=tenant, principal=principal)) as stages:
            return fold([event async for event in stages])

    async def stream(
        self, question: Question, *, tenant: str, principal: str | None
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield one event a stage, in the order of design §8, then the whole answer.

        Raises InvalidToken (before any event), StoreUnavailable, AllSourcesLost, DeadlineExceeded. Closing the generator
        stops the work.
        """
        events: list[StreamEvent] = []
        async with aclosing(self._stages(question, tenant=tenant, principal=principal)) as stages:
            async for event in stages:
                events.append(event)
                yield event
        yield CompleteEvent(answer=fold(events))

    async def watched(self, question: Question, *, tenant: str, principal: str | None, watch: Watch) -> Answer:
        """Return the whole answer; on the way ``watch`` is shown the search and its ranking, while the snapshot is open."""
        async with aclosing(self._stages(question, tenant=tenant, principal=principal, watch=watch)) as stages:
            return fold([event async for event in stages])

    async def _stages(
        self, question: Question, *, tenant: str, principal: str | None, watch: Watch | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        inquiry = Inquiry.begin(question, tenant=tenant, principal=principal, clock=self._clock, tokens=self._tokens)
        stages = Stages(inquiry, self._clock, self._settings.answer_deadline_ms / 1000)
        if inquiry.is_too_short:
            for event in stages.nothing(detect_intent(inquiry.text), NO_WORDS):
                yield event
            return
        vector = asyncio.create_task(self._vectors.vector(tenant, inquiry.text), name="question-vector")
        try:
            async with aclosing(self._searched(inquiry, stages, vector, watch)) as searched:
                async for event in searched:
                    yield event
        finally:
            vector.cancel()
            await asyncio.gather(vector, return_exceptions=True)

    async def _searched(
        self, inquiry: Inquiry, stages: Stages, vector: asyncio.Task[Vector], watch: Watch | None
    ) -> AsyncGenerator[StreamEvent, None]:
        question = inquiry.question
        first = detect_intent(inquiry.text)
        async with self._opener.open(inquiry, stages, first.purpose, vector) as opening:
            intent = await self._settled(first, inquiry, vector)
            yield stages.intent(intent)

            opened = await opening
            snapshot, graph = opened.snapshot, opened.graph
            readable = frozenset(entry.scope for entry in opened.memberships)
            entities = await offload(
                lambda: tuple(find_entities(inquiry.text, graph, readable)), NAME_COST * len(inquiry.text)
            )
            yield EntitiesEvent(entities=entities, **stages.lap())

            weights = opened.weights
            if intent.purpose != first.purpose:
                weights = weigh(inquiry, intent.purpose, opened.memberships, graph)
            watermarks, lost = await stages.within(self._watermarks(inquiry.tenant, opened.stored))
            yield WeightsEvent(scope_weights=weights, watermarks=watermarks, stale=opened.stale, **stages.lap(lost))

            opened.arms.go_on(entities, intent.purpose)
            early = await stages.within(opened.arms.early_hits())
            yield KeywordEvent(hits=early, **stages.lap())

            found = await stages.within(opened.arms.finish())
            if everything_lost(found.base, weights):
                raise AllSourcesLost(f"No part of the search answered: {_reasons(found.lost)}.")
            counts = {arm: len(hits) for arm, hits in found.arms.items()}
            yield SearchEvent(arms=counts, degraded=self._vectors.cache_away, **stages.lap(found.lost))

            ranking = await stages.within(rank(snapshot, inquiry, intent, weights, found))
            if watch is not None:
                await stages.within(watch(Seen(inquiry, snapshot, weights, found, ranking)))
            yield stages.fusion(ranking, early, () if weights else (NO_SCOPES,))

            pairs, lost = await stages.attempt(
                "conflicts", find_conflicts(snapshot, ranking.pairs, ranking.units, ranking.readable), ()
            )
            yield ConflictsEvent(conflicts=pairs, **stages.lap(lost))

        shapes = structure(
            question.q,
            intent,
            ranking.wide if intent.format is not AnswerFormat.DEFAULT else ranking.results,
            verdict=ranking.verdict,
            graph=graph,
            entities=entities,
            scopes=ranking.readable,
            at=inquiry.at,
        )
        people = find_people(inquiry.text, entities, graph, ranking.readable)
        yield StructuredEvent(structured=(*shapes, *([people] if people else [])), **stages.lap())

        warnings = _warnings(ranking.verdict, stages.lost, stale=opened.stale)
        block = await offload(
            lambda: format_context(
                ranking.results,
                pairs,
                budget=question.budget_tokens,
                purpose=intent.purpose.value,
                as_of=inquiry.at,
                warnings=warnings,
                ties=say_ties(people),
            ),
            sum(min(len(result.text), CHARS_A_TOKEN * question.budget_tokens) for result in ranking.results),
        )
        yield ContextEvent(context=block.text, context_tokens=block.tokens, citations=block.citations, **stages.lap())

    async def _settled(self, intent: Intent, inquiry: Inquiry, vector: asyncio.Task[Vector]) -> Intent:
        """Add to the rules' reading: likeness to exemplars where they are unsure and the vector is there in time."""
        if self._detector.is_needed(intent):
            await asyncio.wait([vector], timeout=TIER_TWO_S)
            if vector.done() and not vector.cancelled() and vector.exception() is None:
                intent = self._detector.refine(intent, vector.result())
        if inquiry.question.format is not None:
            intent = intent.model_copy(update={"format": inquiry.question.format})
        return intent

    async def _watermarks(
        self, tenant: str, stored: dict[tuple[str, int], int]
    ) -> tuple[tuple[PartitionWatermark, ...], tuple[LostSource, ...]]:
        waiting: Mapping[tuple[str, int], int] = {}
        lost: tuple[LostSource, ...] = ()
        if self._lag is not None:
            try:
                waiting = await self._lag(tenant, stored)
            except CortexError as error:
                lost = (LostSource(stage="weights", arm="lag", reason="unavailable", detail=str(error)),)
        marks = tuple(
            PartitionWatermark(
                topic=topic,
                partition=partition,
                number=stored.get((topic, partition), -1),
                lag=waiting.get((topic, partition), 0),
            )
            for topic, partition in sorted(set(stored) | set(waiting))
        )
        return marks, lost


def _reasons(lost: Sequence[LostSource]) -> str:
    """Name what went wrong without naming scopes: this text goes into a problem and its logs."""
    return "; ".join(sorted({f"{source.arm}: {source.reason} {source.detail}".strip() for source in lost}))


def _warnings(verdict: Verdict, lost: Sequence[LostSource], *, stale: bool) -> list[str]:
    warnings = []
    if verdict.low:
        warnings.append("low confidence")
    if stale:
        warnings.append("stale")
    parts = sorted(
        {" in ".join(part for part in (source.arm or source.stage, source.scope) if part) for source in lost}
    )
    if parts:
        warnings.append(f"lost {', '.join(parts)}")
    return warnings
