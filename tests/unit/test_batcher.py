"""The micro-batcher: one transaction for many lanes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from ingest.batcher import TRANSACTION_EFFECTS, Batcher
from schemas.messages import Receipt, ReceiptOutcome, StageMessage
from schemas.positions import Position
from shared.errors import StoreUnavailable
from shared.store import Applied, Effect

pytestmark = pytest.mark.anyio

AT = datetime(2026, 6, 1, tzinfo=UTC)


def effect(number: int) -> Effect:
    position = Position(log="l", topic="t", partition=0, number=number)
    return Effect(StageMessage(position=position, recorded_at=AT, key="k"), None)


class Writer:
    """Notes its transactions; refuses what it is told to."""

    def __init__(self) -> None:
        self.transactions: list[tuple[str, list[int]]] = []
        self.open = asyncio.Event()
        self.poison: dict[int, Exception] = {}

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        await self.open.wait()
        numbers = [one.message.position.number for one in effects]
        self.transactions.append((tenant, numbers))
        for number in numbers:
            if number in self.poison:
                raise self.poison[number]
        return [
            Applied(
                Receipt(position=one.message.position, recorded_at=AT, tenant=tenant, outcome=ReceiptOutcome.STORED)
            )
            for one in effects
        ]


@asynccontextmanager
async def batcher(writer: Writer) -> AsyncIterator[Batcher]:
    made = Batcher(writer)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def numbers(applied: list[Applied]) -> list[int]:
    return [one.receipt.position.number for one in applied]


async def test_what_waits_goes_together_and_everyone_gets_their_own_answers():
    writer = Writer()
    async with batcher(writer) as made:
        tasks = [asyncio.create_task(made.apply("a", [effect(n), effect(n + 100)])) for n in range(3)]
        tasks.append(asyncio.create_task(made.apply("b", [effect(50)])))
        await asyncio.sleep(0)
        writer.open.set()
        answers = await asyncio.gather(*tasks)
    assert [numbers(answer) for answer in answers] == [[0, 100], [1, 101], [2, 102], [50]]
    assert writer.transactions == [("a", [0, 100, 1, 101, 2, 102]), ("b", [50])]


async def test_a_transaction_is_bounded():
    writer = Writer()
    writer.open.set()
    half = [effect(n) for n in range(TRANSACTION_EFFECTS // 2 + 1)]
    async with batcher(writer) as made:
        await asyncio.gather(*(made.apply("a", half) for _ in range(4)))
    assert max(len(done) for _, done in writer.transactions) <= TRANSACTION_EFFECTS


async def test_only_the_one_whose_effect_it_was_hears_of_a_bug():
    writer = Writer()
    writer.poison[1] = KeyError("bug")
    async with batcher(writer) as made:
        tasks = [asyncio.create_task(made.apply("a", [effect(n)])) for n in range(3)]
        await asyncio.sleep(0)
        writer.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[1], KeyError)
    assert [numbers(answers[n]) for n in (0, 2)] == [[0], [2]]


async def test_everyone_hears_of_an_outage_at_once():
    writer = Writer()
    writer.poison[0] = StoreUnavailable()
    async with batcher(writer) as made:
        tasks = [asyncio.create_task(made.apply("a", [effect(n)])) for n in range(3)]
        await asyncio.sleep(0)
        writer.open.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert len(writer.transactions) == 1


async def test_what_a_cancelled_lane_asked_for_is_not_written():
    writer = Writer()
    async with batcher(writer) as made:
        first = asyncio.create_task(made.apply("a", [effect(0)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gone, stays = (asyncio.create_task(made.apply("a", [effect(n)])) for n in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        writer.open.set()
        await asyncio.gather(first, stays)
    assert [done for _, done in writer.transactions] == [[0], [2]]
