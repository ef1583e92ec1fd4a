"""Several calls at once: a round trip costs what a small query does, so what does not need each other's answer goes together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Value = TypeVar("Value")
Other = TypeVar("Other")

AT_ONCE = 16
"""Calls that one read or write has under way: beyond that they wait in the server anyhow."""


async def together(calls: Iterable[Callable[[], Awaitable[Value]]], at_once: int = AT_ONCE) -> list[Value]:
    """Make calls, several at a time, and return their answers in order.

    All have ended when it returns or raises; of several errors the first one, by order, is raised.
    """
    gate = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[Value]]) -> Value:
        async with gate:
            return await call()

    answers: list[Value] = []
    for answer in await asyncio.gather(*(one(call) for call in calls), return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
        answers.append(answer)
    return answers


async def both(first: Callable[[], Awaitable[Value]], second: Callable[[], Awaitable[Other]]) -> tuple[Value, Other]:
    """Make two calls at once; both have ended when it returns or raises."""
    one, two = await asyncio.gather(first(), second(), return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(two, BaseException):
        raise two
    return one, two
