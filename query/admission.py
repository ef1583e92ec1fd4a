"""Who gets in: a bound on open questions, and a smaller one on those being worked on (design, invariant 11)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from query.metrics import Metrics
from shared.errors import Overloaded

SLOT_WAIT_S = 10.0  # told to come back before a caller's usual 30 s are over


class Admission:
    """``running`` slots for work and ``waiting`` places more for questions that wait, or whose reader is slow."""

    def __init__(self, *, running: int, waiting: int, metrics: Metrics, wait_s: float = SLOT_WAIT_S) -> None:
        self._places = running + waiting
        self._open = 0
        self._slots = anyio.CapacityLimiter(running)
        self._metrics = metrics
        self._wait_s = wait_s

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place from the question to the end of its response. Raises Overloaded when there is none."""
        if self._open >= self._places:
            raise Overloaded(f"{self._places} questions are open already; try again shortly")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot while working: first come, first served. Raises Overloaded after ``wait_s``."""
        borrower = object()
        with self._metrics.waiting.track_inprogress():
            try:
                with anyio.fail_after(self._wait_s):
                    await self._slots.acquire_on_behalf_of(borrower)
            except TimeoutError as error:
                raise Overloaded(f"no slot became free within {self._wait_s:g} s; try again shortly") from error
        try:
            with self._metrics.running.track_inprogress():
                yield
        finally:
            self._slots.release_on_behalf_of(borrower)
