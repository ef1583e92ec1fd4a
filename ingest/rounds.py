"""Work for many at once: what is asked for while a round runs goes together into the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Request(Generic[Item, Answer]):
    items: Sequence[Item]
    answers: "asyncio.Future[Sequence[Answer]]"


class Rounds(Generic[Item, Answer]):
    """Shares each round of work among all who wait. It needs no task of its own: whoever has the turn works for the others."""

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], most: int) -> None:
        """``work`` answers each of some items; ``most``: items of a round, unless a single request has more."""
        self._work = work
        self._most = most
        self._waiting: deque[_Request[Item, Answer]] = deque()
        self._turn = asyncio.Lock()

    async def do(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Return the answers to items, in their order. Raises what the work raises, as all do who share its round.

        Who leaves meanwhile costs the others nothing: the next of them goes on.
        """
        request: _Request[Item, Answer] = _Request(items, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        try:
            async with self._turn:
                while not request.answers.done():
                    await self._round()
        finally:
            request.answers.cancel()  # nobody asks any more; of no effect on one that is done
        return request.answers.result()

    async def _round(self) -> None:
        taken: list[_Request[Item, Answer]] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0].items) <= self._most):
            request = self._waiting.popleft()
            if not request.answers.done():
                taken.append(request)
                size += len(request.items)
        try:
            answers = await self._work([item for request in taken for item in request.items])
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            for request in taken:
                if not request.answers.done():
                    request.answers.set_exception(error)
            return
        except BaseException:  # whoever had the turn leaves
            self._waiting.extendleft(reversed(taken))
            raise
        start = 0
        for request in taken:
            end = start + len(request.items)
            if not request.answers.done():
                request.answers.set_result(answers[start:end])
            start = end
