"""The arms of the search, each with a deadline: over all readable scopes at once, else scope by scope."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from schemas.answers import LostSource, ScopeWeight
from shared.clock import Clock
from shared.errors import CortexError
from shared.store import PassageHit, SearchFilter

DEPTH: Final = 100
"""Hits an arm brings to fusion (measured with k = 10)."""

JOINT_SHARE: Final = 0.5
"""Part of the search's deadline that the joint query over all scopes may use; the rest is for asking scope by scope."""

Query = Callable[[SearchFilter, int], Awaitable[list[PassageHit]]]

log = structlog.get_logger()


@dataclass(frozen=True)
class ArmResult:
    """What one arm brought: hits best first, and the scopes in which it was lost."""

    arm: str
    hits: tuple[PassageHit, ...] = ()
    lost: tuple[LostSource, ...] = ()


@dataclass(frozen=True)
class SearchPlan:
    """Where to search and how long: the filter over all readable scopes, their weights, and the deadline (monotonic)."""

    where: SearchFilter
    weights: tuple[ScopeWeight, ...]
    deadline: float
    clock: Clock

    def remaining(self) -> float:
        """Return the seconds left, never negative."""
        return max(0.0, self.deadline - self.clock.monotonic())


async def search_arm(arm: str, query: Query, plan: SearchPlan) -> ArmResult:
    """Run one arm over all readable scopes; where that fails or is late, scope by scope, so that a bad one is isolated.

    Hits are best first, ties by passage id. Lost scopes are named with 'error' or 'timeout'. Never raises but when
    cancelled.
    """
    if not plan.weights:
        return ArmResult(arm)
    joint, reason, detail = await _attempt(arm, query, plan.where, DEPTH, plan.remaining() * JOINT_SHARE)
    if joint is not None:
        return ArmResult(arm, tuple(joint))
    if len(plan.weights) == 1:
        return ArmResult(arm, lost=(_lost(arm, plan.weights[0].scope, reason, detail),))
    return await _by_scope(arm, query, plan)


async def _by_scope(arm: str, query: Query, plan: SearchPlan) -> ArmResult:
    left = plan.remaining()
    attempts = await asyncio.gather(
        *(
            _attempt(arm, query, replace(plan.where, scopes=frozenset({weight.scope})), weight.slots, left)
            for weight in plan.weights
        )
    )
    hits: list[PassageHit] = []
    lost: list[LostSource] = []
    for weight, (found, reason, detail) in zip(plan.weights, attempts, strict=True):
        if found is None:
            lost.append(_lost(arm, weight.scope, reason, detail))
        else:
            hits.extend(found)
    hits.sort(key=lambda hit: (-hit.score, hit.passage_id))
    return ArmResult(arm, tuple(hits[:DEPTH]), tuple(sorted(lost, key=lambda source: source.scope or "")))


async def _attempt(
    arm: str, query: Query, where: SearchFilter, limit: int, timeout_s: float
) -> tuple[list[PassageHit] | None, str, str]:
    try:
        async with asyncio.timeout(timeout_s):
            return await query(where, limit), "", ""
    except TimeoutError:
        return None, "timeout", f"no answer within {round(timeout_s * 1000)} ms"
    except CortexError as error:
        return None, "error", str(error)
    except Exception as error:
        log.exception("search.arm_failed", arm=arm, scopes=len(where.scopes))
        return None, "error", type(error).__name__


def _lost(arm: str, scope: str, reason: str, detail: str) -> LostSource:
    return LostSource(
        stage="search", arm=arm, scope=scope, reason="timeout" if reason == "timeout" else "error", detail=detail
    )


def everything_lost(results: Sequence[ArmResult], scopes: Sequence[ScopeWeight]) -> bool:
    """Tell whether no arm answered in any readable scope: then there is no answer, not even an empty one."""
    if not scopes:
        return False
    lost: Mapping[str, set[str]] = {
        result.arm: {source.scope for source in result.lost if source.scope is not None} for result in results
    }
    everywhere = {weight.scope for weight in scopes}
    whole = {result.arm for result in results if any(source.scope is None for source in result.lost)}
    return all(result.arm in whole or lost[result.arm] >= everywhere for result in results)
