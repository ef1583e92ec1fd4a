"""The stages of one answer: their times, what was lost on the way, and the deadline over all of them."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from query.inquiry import TRUSTED, Inquiry
from query.ranking import Ranking
from schemas.answers import LostSource
from schemas.intent import Intent
from schemas.stream import (
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
from shared.clock import Clock
from shared.errors import CortexError, DeadlineExceeded

Value = TypeVar("Value")


class Stages:
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
