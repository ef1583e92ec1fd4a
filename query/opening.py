"""Opening a question: its snapshot, what may be read in it, and the searches that can begin before all else is known."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from query.arms import ALL_ARMS
from query.inquiry import Inquiry
from query.question_vector import QuestionVectors
from query.retrieval import Retrieval, RunningArms
from query.search import DEPTH, SearchPlan
from query.stages import Stages
from query.weights import weigh_scopes
from schemas.answers import ScopeWeight
from schemas.intent import Purpose
from shared.clock import Clock
from shared.embedder import Vector
from shared.graph import EntityGraph, GraphSnapshot
from shared.store import KnowledgeReader, Membership, Snapshot
from shared.together import both

POLL_S: Final = 0.02
"""How often a question that waits for a write looks again; about the time that one batch takes to be stored."""

GRAPH_SHARE: Final = 0.25
"""Part of the search's deadline kept for the graph arm, which begins where the other two end."""


@dataclass(frozen=True)
class Opened:
    """What a question works with; ``stored``: the watermarks, ``stale``: the write it waited for is not in it;
    ``weights``: for the purpose as the rules read it.
    """

    snapshot: Snapshot
    stale: bool
    graph: GraphSnapshot
    memberships: Sequence[Membership]
    weights: tuple[ScopeWeight, ...]
    stored: dict[tuple[str, int], int]
    arms: RunningArms


@dataclass(frozen=True)
class Opener:
    """Opens questions. ``search_s``: the deadline of the search, ``arms``: those that are switched on."""

    reader: KnowledgeReader
    graph: EntityGraph
    clock: Clock
    vectors: QuestionVectors
    search_s: float
    arms: frozenset[str] = ALL_ARMS

    @asynccontextmanager
    async def open(
        self, inquiry: Inquiry, stages: Stages, purpose: Purpose, vector: asyncio.Task[Vector]
    ) -> AsyncIterator[asyncio.Task[Opened]]:
        """Yield the opening on its way: the keyword search runs while the question is still being embedded and understood.

        ``vector``: the question's by the wanted model; an index of another one is searched with that one's.
        ``purpose``, as the rules read it, decides nothing here but the slots of scopes that must be asked one by one. The
        end closes what was opened, however far it came.
        """
        async with AsyncExitStack() as stack:
            opening = asyncio.create_task(self._opened(inquiry, stages, purpose, vector, stack), name="opening")
            try:
                yield opening
            finally:
                opening.cancel()
                (came_to,) = await asyncio.gather(opening, return_exceptions=True)
                if isinstance(came_to, Opened):
                    await came_to.arms.close()

    async def _opened(
        self, inquiry: Inquiry, stages: Stages, purpose: Purpose, vector: asyncio.Task[Vector], stack: AsyncExitStack
    ) -> Opened:
        snapshot, stale = await self._fresh_snapshot(inquiry, stages, stack)
        memberships, stored = await stages.within(
            both(lambda: snapshot.memberships(inquiry.principal), snapshot.watermarks)
        )
        graph = self.graph.snapshot(inquiry.tenant)
        weights = weigh(inquiry, purpose, memberships, graph)
        searching = self.vectors.searching(inquiry.tenant, inquiry.text, vector, await snapshot.model())
        vector = await stack.enter_async_context(searching)
        now = self.clock.monotonic()
        retrieval = Retrieval(
            text=inquiry.text,
            snapshot=snapshot,
            graph=graph,
            plan=SearchPlan(
                inquiry.filter(frozenset(weight.scope for weight in weights)),
                weights,
                now + self.search_s * (1 - GRAPH_SHARE),
                self.clock,
            ),
            graph_deadline=now + self.search_s,
            switched_on=self.arms,
        )
        return Opened(snapshot, stale, graph, memberships, weights, stored, retrieval.start(vector))

    async def _fresh_snapshot(self, inquiry: Inquiry, stages: Stages, stack: AsyncExitStack) -> tuple[Snapshot, bool]:
        """Open the question's snapshot once its write is searchable; after ``wait_ms`` take what is there and say so."""
        until = self.clock.monotonic() + inquiry.question.wait_ms / 1000
        while True:
            attempt = await stages.within(stack.enter_async_context(AsyncExitStack()))
            snapshot = await stages.within(attempt.enter_async_context(self.reader.snapshot(inquiry.tenant)))
            if inquiry.wanted is None:
                return snapshot, False
            place = (inquiry.wanted.topic, inquiry.wanted.partition)
            reached = (await stages.within(snapshot.watermarks())).get(place, -1) >= inquiry.wanted.number
            if reached or self.clock.monotonic() >= until:
                return snapshot, not reached
            await attempt.aclose()
            await asyncio.sleep(POLL_S)
            stages.extend(POLL_S)


def weigh(
    inquiry: Inquiry, purpose: Purpose, memberships: Sequence[Membership], graph: GraphSnapshot
) -> tuple[ScopeWeight, ...]:
    """Weigh the scopes that the question may read and asks for."""
    return weigh_scopes(
        memberships,
        principal=inquiry.principal,
        graph=graph,
        purpose=purpose,
        depth=DEPTH,
        narrow=inquiry.question.scopes,
        levels=inquiry.question.levels,
    )
