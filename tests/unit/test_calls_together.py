"""Calls to Weaviate that are made at once."""

import asyncio

import pytest

from shared.together import both, together

pytestmark = pytest.mark.anyio


async def test_answers_come_in_the_order_of_the_calls():
    first_may_end = asyncio.Event()

    async def first():
        await first_may_end.wait()
        return 1

    async def second():
        first_may_end.set()
        return 2

    assert await together([first, second]) == [1, 2]
    first_may_end.clear()
    assert await both(first, second) == (1, 2)


async def test_no_more_calls_are_under_way_than_may_be():
    under_way: list[int] = []
    most = 0

    async def call():
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.pop()

    await together([call] * 9, at_once=3)
    assert most == 3


@pytest.mark.parametrize("make", [lambda *calls: together(calls), both], ids=["together", "both"])
async def test_an_error_is_raised_when_all_have_ended(make):
    ended = []

    async def failing():
        raise ValueError("refused")

    async def other():
        await asyncio.sleep(0)
        ended.append("other")

    with pytest.raises(ValueError, match="refused"):
        await make(failing, other)
    assert ended == ["other"]


@pytest.mark.parametrize("make", [lambda *calls: together(calls), both], ids=["together", "both"])
async def test_cancelling_ends_every_call(make):
    begun, ended = asyncio.Event(), []

    async def call():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    running = asyncio.ensure_future(make(call, call))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == [1, 1]
