"""Rounds: who waits while others are served is served together with all who wait."""

import asyncio

import pytest

from ingest.rounds import Rounds

pytestmark = pytest.mark.anyio


class Worker:
    """Doubles numbers, a round at a time, each when it is let go."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.go = asyncio.Semaphore(0)
        self.fails = False

    async def work(self, items):
        self.rounds.append(list(items))
        await self.go.acquire()
        if self.fails:
            raise RuntimeError("the store is away")
        return [2 * item for item in items]


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def asked(rounds: Rounds, *requests: list[int]) -> list[asyncio.Task]:
    tasks = []
    for request in requests:
        tasks.append(asyncio.create_task(rounds.do(request)))
        await asyncio.sleep(0)
    return tasks


def let_all_go(worker: Worker) -> None:
    for _ in range(10):
        worker.go.release()


async def test_what_waits_while_a_round_runs_goes_together_into_the_next(worker):
    tasks = await asked(Rounds(worker.work, 100), [1], [2, 3], [], [4])
    let_all_go(worker)
    assert await asyncio.gather(*tasks) == [[2], [4, 6], [], [8]]
    assert worker.rounds == [[1], [2, 3, 4]]


async def test_a_round_is_bounded_and_no_request_is_divided(worker):
    tasks = await asked(Rounds(worker.work, 3), [1], [2, 3], [4, 5], [6], [7, 8, 9, 10])
    let_all_go(worker)
    assert await asyncio.gather(*tasks) == [[2], [4, 6], [8, 10], [12], [14, 16, 18, 20]]
    assert worker.rounds == [[1], [2, 3], [4, 5, 6], [7, 8, 9, 10]]


async def test_a_round_that_fails_fails_for_those_in_it_alone(worker):
    tasks = await asked(Rounds(worker.work, 100), [1], [2], [3])
    worker.go.release()
    assert await tasks[0] == [2]
    worker.fails = True
    worker.go.release()
    failed = await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert [str(one) for one in failed] == ["the store is away"] * 2
    worker.fails = False
    let_all_go(worker)
    assert await (await asked(Rounds(worker.work, 100), [4]))[0] == [8]


async def test_who_leaves_in_the_middle_of_a_round_hands_it_to_the_next(worker):
    first, *others = await asked(Rounds(worker.work, 100), [1], [2], [3])
    first.cancel()
    let_all_go(worker)
    assert await asyncio.gather(*others) == [[4], [6]]
    assert worker.rounds == [[1], [2, 3]]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_who_leaves_while_waiting_is_not_worked_for(worker):
    rounds = Rounds(worker.work, 100)
    first, second, third, fourth = await asked(rounds, [1], [2], [3], [4])
    third.cancel()
    worker.go.release()
    await first
    for _ in range(3):
        await asyncio.sleep(0)
    second.cancel()  # it has the turn, and others are in its round
    let_all_go(worker)
    assert await fourth == [8]
    assert worker.rounds == [[1], [2, 4], [4]]
