"""Live lanes go before bulk ones, and bulk gets a quarter of the turns."""

import asyncio

import pytest

from ingest.turns import Turns

pytestmark = pytest.mark.anyio


async def served(kinds: str, capacity: int = 1) -> str:
    """Let lanes of the given kinds ('l' or 'b') queue behind one that holds the turn; return the order of service."""
    turns = Turns(capacity)
    order: list[str] = []

    async def lane(kind: str) -> None:
        async with turns.turn(bulk=kind == "b"):
            order.append(kind)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group, turns.turn(bulk=False):
        for kind in kinds:
            group.create_task(lane(kind))
        await asyncio.sleep(0)  # all of them queue
    return "".join(order)


async def test_bulk_gets_every_fourth_turn_while_live_work_waits():
    assert await served("bbbb" + "l" * 12) == "lllblllblllblllb"


async def test_bulk_alone_is_not_held_back():
    assert await served("bbbb") == "bbbb"


async def test_live_alone_is_served_in_order():
    assert await served("llll") == "llll"


async def test_a_turn_that_was_given_to_a_cancelled_lane_passes_on():
    turns = Turns(1)
    reached = asyncio.Event()

    async def lane(then: asyncio.Event | None) -> None:
        async with turns.turn(bulk=False):
            if then:
                then.set()

    async with turns.turn(bulk=False):
        first = asyncio.create_task(lane(None))
        second = asyncio.create_task(lane(reached))
        await asyncio.sleep(0)
    first.cancel()  # its future is set, it has not run yet
    async with asyncio.timeout(1):
        await reached.wait()
        await asyncio.gather(first, second, return_exceptions=True)


async def test_never_more_lanes_work_than_the_capacity():
    turns = Turns(2)
    working = most = 0

    async def lane(bulk: bool) -> None:
        nonlocal working, most
        async with turns.turn(bulk=bulk):
            working += 1
            most = max(most, working)
            await asyncio.sleep(0)
            working -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(lane(number % 2 == 0))
    assert most == 2
