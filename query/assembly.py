"""The question's path: intent → entities → weights → search → fuse → conflicts → format, one event a stage."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from query.conflicts import find_conflicts
from query.entities import find_entities
from query.fold import fold
from query.format import format_context
from query.gate import Verdict
from query.inquiry import TRUSTED, Inquiry
from query.intent import IntentDetector, detect_intent
from query.question_vector import QuestionVectors
from query.ranking import Ranking, rank
from query.retrieval import Found, Retrieval
from query.search import DEPTH, SearchPlan, everything_lost
from query.structured import structure
from query.weights import weigh_scopes
from schemas.answers import Answer, LostSource, ScopeWeight
from schemas.intent import AnswerFormat, Intent
from schemas.positions import PartitionWatermark
from schemas.questions import Question
from schemas.stream import (
    CompleteEvent,
    ConflictsEvent,
    ContextEvent,
    EarlyHit,
    EntitiesEvent,
    FusionEvent,
    IntentEvent,
    KeywordEvent,
    SearchEvent,
    StreamEvent,
    StructuredEvent,
    WeightsEvent,
)
from shared.cache import Cache
from shared.clock import Clock
from shared.embedder import Embedder, Vector
from shared.errors import AllSourcesLost, CortexError, DeadlineExceeded
from shared.graph import EntityGraph, GraphSnapshot
from shared.settings import Settings
from shared.store import KnowledgeReader, Membership, Snapshot

POLL_S: Final = 0.02
"""How often a question that waits for a write looks again; about the time that one batch takes to be stored."""

TIER_TWO_S: Final = 0.1
"""How long the intent waits for the question's vector before the rules' reading stands."""

GRAPH_SHARE: Final = 0.25
"""Part of the search's deadline kept for the graph arm, which begins where the other two end."""

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

    ``log_id`` names the log whose tokens are accepted; None accepts those of any. ``lag`` counts the events above the
    watermarks of a tenant (`EventLog.pending`); without it every lag is 0.
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
        log_id: str | None = None,
        lag: Lag | None = None,
    ) -> None:
        self._reader = reader
        self._graph = graph
        self._vectors = QuestionVectors(embedder, cache)
        self._detector = IntentDetector(embedder)
        self._clock = clock
        self._settings = settings
        self._log_id = log_id
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
        inquiry = Inquiry.begin(question, tenant=tenant, principal=principal, clock=self._clock, log_id=self._log_id)
        stages = _Stages(inquiry, self._clock, self._settings.answer_deadline_ms / 1000)
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
        self, inquiry: Inquiry, stages: "_Stages", vector: asyncio.Task[Vector], watch: Watch | None
    ) -> AsyncGenerator[StreamEvent, None]:
        question = inquiry.question
        intent = await self._intent(inquiry, vector)
        yield stages.intent(intent)

        async with AsyncExitStack() as stack:
            snapshot, stale = await self._fresh_snapshot(inquiry, stages, stack)
            graph = self._graph.snapshot(inquiry.tenant)
            memberships = await stages.within(snapshot.memberships(inquiry.principal))
            readable = frozenset(entry.scope for entry in memberships)
            entities = tuple(find_entities(inquiry.text, graph, readable))
            yield EntitiesEvent(entities=entities, **stages.lap())

            weights = _weigh(inquiry, intent, memberships, graph)
            watermarks, lost = await stages.within(self._watermarks(inquiry, snapshot))
            yield WeightsEvent(scope_weights=weights, watermarks=watermarks, stale=stale, **stages.lap(lost))

            retrieval = self._retrieval(inquiry, intent, snapshot, graph, weights)
            arms = await stages.within(retrieval.start(vector))
            try:
                early = await stages.within(arms.early_hits())
                yield KeywordEvent(hits=early, **stages.lap())
                found = await stages.within(arms.finish(entities))
            finally:
                await arms.close()
            if everything_lost(found.base, weights):
                raise AllSourcesLost(f"No part of the search answered: {_reasons(found.lost)}.")
            yield SearchEvent(arms={arm: len(hits) for arm, hits in found.arms.items()}, **stages.lap(found.lost))

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
        yield StructuredEvent(structured=shapes, **stages.lap())

        block = format_context(
            ranking.results,
            pairs,
            budget=question.budget_tokens,
            purpose=intent.purpose.value,
            as_of=inquiry.at,
            warnings=_warnings(ranking.verdict, stages.lost, stale=stale),
        )
        yield ContextEvent(context=block.text, context_tokens=block.tokens, citations=block.citations, **stages.lap())

    async def _intent(self, inquiry: Inquiry, vector: asyncio.Task[Vector]) -> Intent:
        """Rules first; likeness to exemplars where they are unsure and the vector is there in time."""
        intent = detect_intent(inquiry.text)
        if self._detector.is_needed(intent):
            await asyncio.wait([vector], timeout=TIER_TWO_S)
            if vector.done() and not vector.cancelled() and vector.exception() is None:
                intent = self._detector.refine(intent, vector.result())
        if inquiry.question.format is not None:
            intent = intent.model_copy(update={"format": inquiry.question.format})
        return intent

    async def _fresh_snapshot(
        self, inquiry: Inquiry, stages: "_Stages", stack: AsyncExitStack
    ) -> tuple[Snapshot, bool]:
        """Open the question's snapshot once its write is searchable; after ``wait_ms`` take what is there and say so."""
        until = self._clock.monotonic() + inquiry.question.wait_ms / 1000
        while True:
            attempt = await stages.within(stack.enter_async_context(AsyncExitStack()))
            snapshot = await stages.within(attempt.enter_async_context(self._reader.snapshot(inquiry.tenant)))
            if inquiry.wanted is None:
                return snapshot, False
            place = (inquiry.wanted.topic, inquiry.wanted.partition)
            reached = (await stages.within(snapshot.watermarks())).get(place, -1) >= inquiry.wanted.number
            if reached or self._clock.monotonic() >= until:
                return snapshot, not reached
            await attempt.aclose()
            await asyncio.sleep(POLL_S)
            stages.extend(POLL_S)

    async def _watermarks(
        self, inquiry: Inquiry, snapshot: Snapshot
    ) -> tuple[tuple[PartitionWatermark, ...], tuple[LostSource, ...]]:
        stored = await snapshot.watermarks()
        waiting: Mapping[tuple[str, int], int] = {}
        lost: tuple[LostSource, ...] = ()
        if self._lag is not None:
            try:
                waiting = await self._lag(inquiry.tenant, stored)
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

    def _retrieval(
        self,
        inquiry: Inquiry,
        intent: Intent,
        snapshot: Snapshot,
        graph: GraphSnapshot,
        weights: tuple[ScopeWeight, ...],
    ) -> Retrieval:
        now = self._clock.monotonic()
        whole = self._settings.search_deadline_ms / 1000
        where = inquiry.filter(frozenset(weight.scope for weight in weights))
        return Retrieval(
            text=inquiry.text,
            purpose=intent.purpose,
            snapshot=snapshot,
            graph=graph,
            plan=SearchPlan(where, weights, now + whole * (1 - GRAPH_SHARE), self._clock),
            graph_deadline=now + whole,
        )


def _weigh(
    inquiry: Inquiry, intent: Intent, memberships: Sequence[Membership], graph: GraphSnapshot
) -> tuple[ScopeWeight, ...]:
    return weigh_scopes(
        memberships,
        principal=inquiry.principal,
        graph=graph,
        purpose=intent.purpose,
        depth=DEPTH,
        narrow=inquiry.question.scopes,
        levels=inquiry.question.levels,
    )


class _Stages:
    """Times the stages, keeps what was lost on the way, and holds the whole answer to its deadline."""

    def __init__(self, inquiry: Inquiry, clock: Clock, deadline_s: float) -> None:
        self._inquiry = inquiry
        self._clock = clock
        self._last = inquiry.started
        self._deadline = inquiry.started + deadline_s
        self.lost: tuple[LostSource, ...] = ()

    def extend(self, seconds: float) -> None:
        """Add to the deadline what was spent waiting on the caller's wish."""
        self._deadline += seconds

    def lap(self, lost: Sequence[LostSource] = ()) -> dict[str, Any]:
        """End a stage: return its times and what it lost, as fields of its event."""
        now = self._clock.monotonic()
        took, self._last = now - self._last, now
        self.lost += tuple(lost)
        return {
            "elapsed_ms": round((now - self._inquiry.started) * 1000, 3),
            "took_ms": round(took * 1000, 3),
            "lost": tuple(lost),
        }

    async def within(self, work: Awaitable[Value]) -> Value:
        """Await work within what is left of the answer's deadline. Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout(max(0.0, self._deadline - self._clock.monotonic())):
                return await work
        except TimeoutError as error:
            raise DeadlineExceeded("The answer took longer than its deadline allows.") from error

    async def attempt(self, stage: str, work: Awaitable[Value], without: Value) -> tuple[Value, tuple[LostSource, ...]]:
        """Await work that the answer can do without: when it fails or is late, that is said and the answer goes on."""
        try:
            return await self.within(work), ()
        except DeadlineExceeded as error:
            return without, (LostSource(stage=stage, reason="timeout", detail=str(error)),)
        except CortexError as error:
            return without, (LostSource(stage=stage, reason="error", detail=str(error)),)

    def intent(self, intent: Intent) -> IntentEvent:
        """The first event."""
        asked = self._inquiry
        return IntentEvent(
            question=asked.question.q,
            tenant=asked.tenant,
            principal=asked.principal or TRUSTED,
            budget_tokens=asked.question.budget_tokens,
            as_of=asked.asked_as_of,
            intent=intent,
            **self.lap(),
        )

    def fusion(self, ranking: Ranking, early: Sequence[EarlyHit], notes: tuple[str, ...]) -> FusionEvent:
        """The results, and which of the early hits are not among them."""
        shown = {unit_id for result in ranking.results for unit_id in (result.unit_id, *result.also)}
        return FusionEvent(
            results=ranking.results,
            withdrawn=tuple(hit.unit_id for hit in early if hit.unit_id not in shown),
            low_confidence=ranking.verdict.low,
            notes=notes,
            **self.lap(ranking.lost),
        )

    def nothing(self, intent: Intent, note: str) -> list[StreamEvent]:
        """All stages of a question that is not searched for."""
        return [
            self.intent(intent),
            EntitiesEvent(entities=(), **self.lap()),
            WeightsEvent(scope_weights=(), **self.lap()),
            KeywordEvent(hits=(), **self.lap()),
            SearchEvent(arms={}, **self.lap()),
            FusionEvent(results=(), low_confidence=True, notes=(note,), **self.lap()),
            ConflictsEvent(conflicts=(), **self.lap()),
            StructuredEvent(structured=(), **self.lap()),
            ContextEvent(context="", context_tokens=0, citations=(), **self.lap()),
        ]


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
