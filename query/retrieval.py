"""Retrieval: keyword and vector arms side by side, then the graph arm from what they found."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import structlog

from query.arms import ALL_ARMS, GRAPH, KEYWORD, VECTOR, arm_weights
from query.fuse import best_passages, fuse_ranks
from query.graph_arm import SEEDS, Nearness, Reached, expand
from query.search import DEPTH, ArmResult, SearchPlan, search_arm
from query.terms import Term
from schemas.answers import EntityMatch, LostSource
from schemas.intent import Purpose
from schemas.stream import EarlyHit
from shared.embedder import Vector
from shared.errors import CortexError
from shared.graph import GraphSnapshot
from shared.store import PassageHit, Snapshot
from shared.text import query_terms

log = structlog.get_logger()

EARLY: Final = 3
"""Hits shown before fusion: enough to begin to read, few enough to be withdrawn."""

SOON: Final = 30
"""The best direct hits, whose nearness is looked up with the graph's: ranking will ask for about so many."""

EARLY_CHARS: Final = 300


@dataclass(frozen=True)
class Found:
    """What the arms brought. ``vector`` None: the question could not be embedded. ``base``: the arms that
    stand alone, ``direct``: their ranks, fused; ``reached``: what the graph leads to from their hits; ``near``: cosines
    that were come by on the way.
    """

    arms: Mapping[str, Sequence[PassageHit]]
    base: tuple[ArmResult, ...]
    direct: Mapping[int, tuple[Term, ...]]
    reached: tuple[Reached, ...]
    lost: tuple[LostSource, ...]
    vector: Vector | None
    near: Mapping[int, float]


@dataclass(frozen=True)
class Retrieval:
    """One question's search over one snapshot. ``graph_deadline`` is monotonic, as the plan's; ``switched_on``: arms."""

    text: str
    snapshot: Snapshot
    graph: GraphSnapshot
    plan: SearchPlan
    graph_deadline: float
    switched_on: frozenset[str] = ALL_ARMS

    def start(self, vector: asyncio.Task[Vector]) -> "RunningArms":
        """Set the keyword and vector arms going."""
        keyword = asyncio.create_task(self._keyword(), name="keyword-arm")
        return RunningArms(self, vector, keyword, asyncio.create_task(self._vector(vector), name="vector-arm"))

    async def _keyword(self) -> ArmResult:
        wanted = query_terms(self.text)
        if not wanted or KEYWORD not in self.switched_on:
            return ArmResult(KEYWORD)
        return await search_arm(KEYWORD, lambda where, limit: self.snapshot.keyword(wanted, where, limit), self.plan)

    async def _vector(self, embedding: asyncio.Task[Vector]) -> ArmResult:
        await asyncio.wait([embedding], timeout=self.plan.remaining())
        if VECTOR not in self.switched_on:
            return ArmResult(VECTOR)
        if not embedding.done():
            return _without_vector("timeout", "the question was not embedded in time")
        if embedding.cancelled() or embedding.exception() is not None:
            return _without_vector("unavailable", str(embedding.exception() or ""))
        vector = embedding.result()
        return await search_arm(VECTOR, lambda where, limit: self.snapshot.vector(vector, where, limit), self.plan)

    async def expand(
        self,
        base: Sequence[ArmResult],
        direct: Mapping[int, tuple[Term, ...]],
        entities: Sequence[EntityMatch],
        vector: Vector | None,
        near: dict[int, float],
    ) -> tuple[tuple[Reached, ...], tuple[LostSource, ...]]:
        """Run the graph arm from the best hits of the others. Without a vector nothing can say what is near: empty.

        ``near``: cosines that are known; those that are looked up are added.
        """
        if vector is None or GRAPH not in self.switched_on:
            return (), ()
        broken = {source.scope for result in base for source in result.lost}
        where = replace(self.plan.where, scopes=frozenset(self.plan.where.scopes - broken))
        left = max(0.0, self.graph_deadline - self.plan.clock.monotonic())
        try:
            async with asyncio.timeout(left):
                soon = best_passages(direct, SOON)
                best = soon[:SEEDS]
                by_id = {hit.passage_id: hit for result in reversed(base) for hit in result.hits}
                units = await self.snapshot.units({by_id[passage].unit_ids[0] for passage in best})
                seeds = [
                    (by_id[passage], units[by_id[passage].unit_ids[0]])
                    for passage in best
                    if by_id[passage].unit_ids[0] in units
                ]
                hits = await expand(
                    self.snapshot,
                    self.graph,
                    seeds=seeds,
                    entities=entities,
                    nearness=Nearness(self.snapshot, vector, near, soon),
                    where=where,
                    limit=DEPTH,
                )
        except TimeoutError:
            return (), (_lost_graph("timeout", "no answer in time"),)
        except CortexError as error:
            return (), (_lost_graph("error", str(error)),)
        except Exception as error:
            log.exception("search.arm_failed", arm=GRAPH)
            return (), (_lost_graph("error", type(error).__name__),)
        return tuple(hits), ()


class RunningArms:
    """The arms on their way. Whoever starts them closes them."""

    def __init__(
        self,
        retrieval: Retrieval,
        embedding: asyncio.Task[Vector],
        keyword: asyncio.Task[ArmResult],
        vector: asyncio.Task[ArmResult],
    ) -> None:
        self._retrieval = retrieval
        self._embedding = embedding
        self._keyword = keyword
        self._vector = vector
        self._finding: asyncio.Task[Found] | None = None

    async def early_hits(self) -> tuple[EarlyHit, ...]:
        """Return the first keyword hits, before anything else is in."""
        result = await self._keyword
        best = [hit.unit_ids[0] for hit in result.hits[:EARLY]]
        if not best:
            return ()
        try:
            units = await self._retrieval.snapshot.units(best)
        except CortexError:
            return ()  # a courtesy: the results come anyway, and if the store is broken the arms say so
        shown = [units[unit_id].known.unit for unit_id in best if unit_id in units]
        return tuple(EarlyHit(unit_id=unit.id, title=unit.title, text=unit.text[:EARLY_CHARS]) for unit in shown)

    def go_on(self, entities: Sequence[EntityMatch], purpose: Purpose) -> None:
        """Let the graph arm begin where the other two end, without waiting for any of them."""
        self._finding = asyncio.create_task(self._find(entities, purpose), name="graph-arm")

    async def finish(self) -> Found:
        """Wait for all arms. Arms that are switched off are not there. `go_on` comes first."""
        assert self._finding is not None
        return await self._finding

    async def _find(self, entities: Sequence[EntityMatch], purpose: Purpose) -> Found:
        both = (await self._keyword, await self._vector)
        base = tuple(result for result in both if result.arm in self._retrieval.switched_on)
        vector = None
        if self._embedding.done() and not self._embedding.cancelled() and self._embedding.exception() is None:
            vector = self._embedding.result()
        near = {hit.passage_id: hit.score for hit in both[1].hits}
        arms: dict[str, Sequence[PassageHit]] = {result.arm: result.hits for result in base}
        direct = fuse_ranks(arms, arm_weights(purpose, arms.get(VECTOR, ())))
        reached, lost = await self._retrieval.expand(base, direct, entities, vector, near)
        return Found(
            arms={**arms, GRAPH: tuple(one.hit for one in reached)},
            base=base,
            direct=direct,
            reached=reached,
            lost=(*(source for result in base for source in result.lost), *lost),
            vector=vector,
            near=near,
        )

    async def close(self) -> None:
        """Stop what still runs and wait until it has."""
        running = [task for task in (self._finding, self._keyword, self._vector) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _lost_graph(reason: Literal["error", "timeout"], detail: str) -> LostSource:
    return LostSource(stage="search", arm=GRAPH, reason=reason, detail=detail)


def _without_vector(reason: str, detail: str) -> ArmResult:
    source = LostSource(
        stage="search", arm=VECTOR, reason="timeout" if reason == "timeout" else "unavailable", detail=detail
    )
    return ArmResult(VECTOR, lost=(source,))
