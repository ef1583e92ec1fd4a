"""Search: deadlines, lost scopes, and what is left when all is lost."""

import asyncio
from datetime import UTC, datetime

import pytest

from query.search import DEPTH, ArmResult, SearchPlan, everything_lost, search_arm
from schemas.answers import LostSource, ScopeWeight
from shared.clock import SystemClock
from shared.errors import StoreUnavailable
from shared.store import PassageHit, SearchFilter

pytestmark = pytest.mark.anyio

SCOPES = ("team/good", "team/failing", "team/slow")


def plan(*scopes, deadline_s=5.0):
    clock = SystemClock()
    weights = tuple(ScopeWeight(scope=scope, proximity=1, bias=1, authority=1, weight=1, slots=7) for scope in scopes)
    where = SearchFilter(scopes=frozenset(scopes), at=datetime(2026, 3, 1, tzinfo=UTC))
    return SearchPlan(where, weights, clock.monotonic() + deadline_s, clock)


def hit(passage, score=1.0):
    return PassageHit(passage, score, (f"u{passage}",))


async def test_one_query_over_all_scopes_is_enough_when_it_answers():
    asked = []

    async def query(where, limit):
        asked.append((where.scopes, limit))
        return [hit(1)]

    result = await search_arm("keyword", query, plan(*SCOPES))
    assert asked == [(frozenset(SCOPES), DEPTH)]
    assert result == ArmResult("keyword", (hit(1),))


async def test_a_failing_and_a_slow_scope_are_named_and_the_good_one_still_answers():
    async def query(where, limit):
        if "team/failing" in where.scopes:
            raise StoreUnavailable("disk on fire")
        if "team/slow" in where.scopes:
            await asyncio.sleep(30)
        return [hit(2, 0.5), hit(1, 0.9)]

    result = await search_arm("keyword", query, plan(*SCOPES, deadline_s=0.3))
    assert result.hits == (hit(1, 0.9), hit(2, 0.5))
    assert [(source.scope, source.reason) for source in result.lost] == [
        ("team/failing", "error"),
        ("team/slow", "timeout"),
    ]
    assert result.lost[0].detail == "disk on fire"


async def test_scope_by_scope_each_brings_its_slots():
    limits = {}

    async def query(where, limit):
        if len(where.scopes) > 1:
            raise StoreUnavailable
        limits[next(iter(where.scopes))] = limit
        return []

    await search_arm("vector", query, plan(*SCOPES))
    assert limits == dict.fromkeys(SCOPES, 7)


async def test_an_error_that_nobody_foresaw_is_a_lost_source_too():
    async def query(where, limit):
        raise KeyError("surprise")

    result = await search_arm("keyword", query, plan("team/good"))
    assert [(source.reason, source.detail) for source in result.lost] == [("error", "KeyError")]


async def test_cancelling_is_never_taken_for_a_loss():
    started = asyncio.Event()

    async def query(where, limit):
        started.set()
        await asyncio.sleep(30)
        return []

    task = asyncio.create_task(search_arm("keyword", query, plan(*SCOPES)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_readable_scope_is_no_search_and_no_loss():
    async def query(where, limit):
        raise AssertionError("nothing may be searched")

    assert await search_arm("keyword", query, plan()) == ArmResult("keyword")


def lost(arm, *scopes):
    return ArmResult(
        arm, lost=tuple(LostSource(stage="search", arm=arm, scope=scope, reason="error") for scope in scopes)
    )


def test_all_is_lost_only_when_every_arm_is_lost_everywhere():
    weights = plan("a/1", "a/2").weights
    assert everything_lost([lost("keyword", "a/1", "a/2"), lost("vector", None)], weights)
    assert not everything_lost([lost("keyword", "a/1"), lost("vector", None)], weights)
    assert not everything_lost([lost("keyword", "a/1", "a/2"), ArmResult("vector")], weights)
    assert not everything_lost([ArmResult("keyword"), ArmResult("vector")], ())
