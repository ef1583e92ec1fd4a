"""The smallest change of a question that lets a unit into its answer: candidates are tried, and only what works is told."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import ValidationError

from query.assembly import Watch
from query.explain import Dissection
from query.inquiry import TRUSTED
from query.visible import visible_unit
from schemas import limits
from schemas.answers import Answer, KnownUnit
from schemas.explanations import Explanation, SuggestedChange
from schemas.questions import Question
from shared.errors import UnknownThing
from shared.store import KnowledgeReader, SearchFilter
from shared.text import query_terms, terms

WORDS: Final = 3
"""Words that are added to a question before it is given up: with more it is another question."""

WORDS_WEIGHED: Final = 12
COMMON: Final = 200
"""A word that so many passages have tells little: how often it occurs is not counted beyond that."""

_WORD: Final = re.compile(r"[\w][\w.-]*\w|\w")


@runtime_checkable
class Watchable(Protocol):
    """What answers questions and can be watched while it does."""

    async def watched(self, question: Question, *, tenant: str, principal: str | None, watch: Watch) -> Answer:
        """Return the whole answer; ``watch`` is shown search and ranking."""
        ...


@dataclass(frozen=True)
class Look:
    """One answer, and the unit's way through it."""

    answer: Answer
    way: Dissection
    shown: str

    @property
    def rank(self) -> int | None:
        """Its place in the answer, by itself or merged."""
        unit_id = self.way.unit_id
        ranks = (result.rank for result in self.answer.results if unit_id in {result.unit_id, *result.also})
        return next(ranks, None)

    @property
    def cited(self) -> bool:
        """Whether the context quotes it, or what it is merged into."""
        return any(citation.unit_id == self.shown for citation in self.answer.citations)


@dataclass(frozen=True)
class Inquest:
    """One unit, one question, one asker. ``unit`` is what he may see of it."""

    answers: Watchable
    reader: KnowledgeReader
    question: Question
    unit: KnownUnit
    tenant: str
    principal: str | None

    @classmethod
    async def open(
        cls,
        answers: Watchable,
        reader: KnowledgeReader,
        question: Question,
        unit_id: str,
        *,
        tenant: str,
        principal: str | None,
    ) -> "Inquest":
        """Look the unit up. Raises UnknownThing for one that is not there, and for one that may not be read, alike."""
        async with reader.snapshot(tenant) as snapshot:
            known = await visible_unit(snapshot, unit_id, principal, history=False)
        if known is None:
            raise UnknownThing("there is no such unit, or you may not see it")
        return cls(answers, reader, question, known, tenant, principal)

    async def explain(self) -> Explanation:
        """Answer the question, tell the unit's way, and find what would let it in."""
        look = await self.look(self.question)
        fell = look.way.fell_at
        changes = [change async for change in self._changes(look)]
        score, needed = look.way.score, look.way.needed
        return Explanation(
            question=self.question.q,
            unit_id=self.unit.unit.id,
            tenant=self.tenant,
            principal=self.principal or TRUSTED,
            answered=look.rank is not None,
            rank=look.rank,
            merged_into=look.way.merged_into,
            cited=look.cited,
            fell_at=fell.stage if fell else None,
            reason=_reason(look),
            stages=tuple(look.way.stages),
            score=score,
            needed=needed,
            terms=look.way.terms,
            changes=tuple(changes),
            low_confidence=look.answer.low_confidence,
            lost=look.answer.lost,
        )

    async def look(self, question: Question) -> Look:
        """Ask, and watch the unit on its way."""
        way = Dissection(self.unit.unit.id)
        answer = await self.answers.watched(question, tenant=self.tenant, principal=self.principal, watch=way.watch)
        if not way.stages:
            way.note("question", "fell", " ".join(answer.notes) or "nothing was searched")
        shown = way.merged_into or way.unit_id
        look = Look(answer, way, shown)
        if look.rank is not None:
            budget = question.budget_tokens
            used = f"the context uses {answer.context_tokens} of {budget} tokens"
            way.note("context", "passed" if look.cited else "fell", used, look.rank)
        return look

    async def _changes(self, look: Look) -> AsyncIterator[SuggestedChange]:
        """Yield what lets the unit in, tried: the filter first, then the limit, then words; or the budget."""
        if look.rank is not None:
            if not look.cited and (change := await self._budget()) is not None:
                yield change
            return
        needed: dict[str, Any] = {}
        for obstacle in look.way.obstacles:
            needed |= obstacle.change
        detail = "; ".join(obstacle.detail for obstacle in look.way.obstacles)
        if needed:
            if (change := await self._try(needed, detail)) is not None:
                yield change
                return
        elif look.way.fell_at is not None and look.way.fell_at.stage in {"question", "duplicates"}:
            return
        if (change := await self._wider(needed)) is not None:
            yield change
        if (change := await self._more_words(needed)) is not None:
            yield change

    async def _wider(self, needed: Mapping[str, Any]) -> SuggestedChange | None:
        """Find the smallest limit, on top of what is needed anyway."""
        if self.question.limit >= limits.RESULTS:
            return None
        widest = await self._look_changed({**needed, "limit": limits.RESULTS})
        if widest is None or widest.rank is None:
            return None
        for limit in dict.fromkeys((max(widest.rank, self.question.limit + 1), limits.RESULTS)):
            change = await self._try({**needed, "limit": limit}, "ask for more results")
            if change is not None:
                return change
        return None

    async def _more_words(self, needed: Mapping[str, Any]) -> SuggestedChange | None:
        """Add the unit's most telling words, one after the other, until it comes in."""
        added: list[str] = []
        for word in await self._telling_words():
            added.append(word)
            asked = f"{self.question.q.strip()} {' '.join(added)}"
            change = await self._try({**needed, "q": asked}, f"name {', '.join(added)}")
            if change is not None:
                return change
        return None

    async def _telling_words(self) -> list[str]:
        """Return the words of the unit that the question lacks, the rarest in what the asker reads first."""
        unit = self.unit.unit
        asked = set(query_terms(self.question.q))
        words: dict[str, str] = {}
        for word in _WORD.findall(f"{unit.title or ''}\n{unit.text}"):
            found = query_terms(word)
            if found and not asked & set(terms(word)):
                words.setdefault(found[0], word)
        longest = sorted(words.items(), key=lambda item: (-len(item[1]), item[0]))[:WORDS_WEIGHED]
        async with self.reader.snapshot(self.tenant) as snapshot:
            scopes = frozenset(entry.scope for entry in await snapshot.memberships(self.principal))
            where = SearchFilter(scopes=scopes, at=self.unit.state.recorded_at, include_superseded=True)
            counts = {term: len(await snapshot.keyword([term], where, COMMON)) for term, _ in longest}
        rarest = sorted(longest, key=lambda item: (counts[item[0]] or COMMON, -len(item[1]), item[0]))
        return [word for _, word in rarest[:WORDS]]

    async def _budget(self) -> SuggestedChange | None:
        """Find a budget in which the context has room for the unit."""
        roomy = await self._look_changed({"budget_tokens": limits.BUDGET_TOKENS})
        if roomy is None or not roomy.cited:
            return None
        for budget in dict.fromkeys(
            (max(roomy.answer.context_tokens, self.question.budget_tokens + 1), limits.BUDGET_TOKENS)
        ):
            look = await self._look_changed({"budget_tokens": budget})
            if look is not None and look.cited and look.rank is not None:
                return SuggestedChange(parameters={"budget_tokens": budget}, rank=look.rank, detail="give it more room")
        return None

    async def _try(self, changes: Mapping[str, Any], detail: str) -> SuggestedChange | None:
        look = await self._look_changed(changes)
        if look is None or look.rank is None:
            return None
        return SuggestedChange(parameters=dict(changes), rank=look.rank, detail=detail)

    async def _look_changed(self, changes: Mapping[str, Any]) -> Look | None:
        """Ask the changed question; None where the change is more than a question may be."""
        given = self.question.model_dump(mode="json", exclude_none=True) | dict(changes)
        try:
            changed = Question.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError:
            return None
        return await self.look(changed)


def _reason(look: Look) -> str:
    """Say in one sentence what happened."""
    fell = look.way.fell_at
    if look.rank is not None:
        merged = f", in the place of an equal text ({look.way.merged_into})" if look.way.merged_into else ""
        quoted = "" if look.cited else "; the context has no room for it"
        return f"it is result {look.rank}{merged}{quoted}"
    if fell is None:
        return "it is not in the answer"
    at = f", place {fell.rank}" if fell.rank else ""
    return f"it fell at {fell.stage}{at}: {fell.detail}"
