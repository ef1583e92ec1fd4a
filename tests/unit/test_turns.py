"""Live lanes go before bulk ones, bulk gets a quarter of the turns, and tenants take turns."""

import asyncio

import pytest

from ingest.turns import Turns

pytestmark = pytest.mark.anyio

BULK = "b"


async def served(order_of_arrival: str, capacity: int = 1) -> str:
    """Let lanes queue behind one that holds the turn, each a tenant's ('b': bulk); return the order of service."""
    turns = Turns(capacity)
    order: list[str] = []

    async def lane(name: str) -> None:
        async with turns.turn(name, bulk=name == BULK):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group, turns.turn("first", bulk=False):
        for name in order_of_arrival:
            group.create_task(lane(name))
        await asyncio.sleep(0)  # all of them queue
    return "".join(order)


async def test_bulk_gets_every_fourth_turn_while_live_work_waits():
    assert await served("bbbb" + "l" * 12) == "lllblllblllblllb"


async def test_bulk_alone_is_not_held_back():
    assert await served("bbbb") == "bbbb"


async def test_a_flood_of_one_tenant_leaves_every_second_turn_to_another():
    assert await served("xxxxxx" + "yyy") == "xyxyxyxxx"


async def test_many_tenants_go_round_whatever_the_order_in_which_they_came():
    assert await served("xxx" + "y" + "zz") == "xyzxzx"


async def test_a_turn_that_was_given_to_a_cancelled_lane_passes_on():
    turns = Turns(1)
    reached = asyncio.Event()

    async def lane(then: asyncio.Event | None) -> None:
        async with turns.turn("t", bulk=False):
            if then:
                then.set()

    async with turns.turn("t", bulk=False):
        first = asyncio.create_task(lane(None))
        second = asyncio.create_task(lane(reached))
        await asyncio.sleep(0)
    first.cancel()  # its future is set, it has not run yet
    async with asyncio.timeout(1):
        await reached.wait()
        await asyncio.gather(first, second, return_exceptions=True)


async def test_a_lane_that_is_cancelled_while_it_waits_gives_up_its_place():
    turns = Turns(1)

    async def lane() -> None:
        async with turns.turn("t", bulk=False):
            pass

    async with turns.turn("t", bulk=False):
        waiting = asyncio.create_task(lane())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), turns.turn("other", bulk=False):
        pass


async def test_never_more_lanes_work_than_the_capacity():
    turns = Turns(2)
    working = most = 0

    async def lane(number: int) -> None:
        nonlocal working, most
        async with turns.turn(str(number % 3), bulk=number % 2 == 0):
            working += 1
            most = max(most, working)
            await asyncio.sleep(0)
            working -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(lane(number))
    assert most == 2
