"""Which words Weaviate is asked for: common ones are left out once they are counted, and no question waits for that."""

import asyncio

import pytest

from shared.clock import SystemClock
from shared.errors import StoreUnavailable
from shared.stores.weaviate.search import TermCounts

pytestmark = pytest.mark.anyio

PASSAGES = 100_000


class SlowTable:
    """Counts when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.began = asyncio.Event()
        self.counted = 0
        self.away = False

    async def count(self, where) -> int:
        self.counted += 1
        self.began.set()
        await self.go.wait()
        if self.away:
            raise StoreUnavailable("away")
        return PASSAGES


async def test_a_count_that_takes_too_long_goes_on_for_the_next_question():
    table, counts = SlowTable(), TermCounts(SystemClock(), wait_s=0.01)
    for _ in range(3):
        assert await counts.telling(table, "acme", ["gate"]) == ["gate"], "nothing is known yet: it is searched for"
    assert table.counted == 1, "one count for all who ask"
    table.go.set()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "count of a term"))
    assert await counts.telling(table, "acme", ["gate"]) == ["gate"], (
        "a word that all have is searched for where it is alone"
    )
    assert table.counted == 2, "of all passages, and of the word"
    await counts.close()


async def test_a_question_that_is_given_up_does_not_end_the_count():
    table, counts = SlowTable(), TermCounts(SystemClock(), wait_s=30.0)
    asking = asyncio.create_task(counts.telling(table, "acme", ["gate"]))
    await table.began.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    table.go.set()
    await counts.telling(table, "acme", [])
    assert table.counted == 1, "what was begun for the one who left serves the next"
    await counts.close()


async def test_a_store_that_is_away_is_told_to_whoever_waits():
    table, counts = SlowTable(), TermCounts(SystemClock(), wait_s=30.0)
    table.away = True
    table.go.set()
    with pytest.raises(StoreUnavailable):
        await counts.telling(table, "acme", ["gate"])
    await counts.close()


async def test_the_end_ends_what_still_counts():
    table, counts = SlowTable(), TermCounts(SystemClock(), wait_s=0.01)
    await counts.telling(table, "acme", ["gate"])
    await counts.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "count of a term"]
