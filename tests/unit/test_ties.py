"""Ties in Weaviate's rankings: put in order as far as that is cheap, never followed to the end of a large store."""

from uuid import UUID

import pytest

from shared.stores.weaviate.search import TIED, ranked
from shared.stores.weaviate.table import Stored

pytestmark = pytest.mark.anyio


def stored(number: int, score: float) -> Stored:
    return Stored(UUID(int=number), {"pid": number, "unit_id": f"u{number}", "moment": number}, score=score)


class Ranking:
    """A store's answer, best first, and how much of it was asked for."""

    def __init__(self, objects: list[Stored]) -> None:
        self.objects = objects
        self.asked: list[int] = []

    async def search(self, count: int) -> list[Stored]:
        self.asked.append(count)
        return self.objects[:count]


async def test_a_tie_across_the_end_is_put_in_order_by_passage():
    objects = [stored(1_000, 2.0), *(stored(number, 1.0) for number in reversed(range(300)))]
    ranking = Ranking(objects)
    assert [hit.passage_id for hit in await ranked(ranking.search, 5)] == [1_000, 0, 1, 2, 3]
    assert len(ranking.asked) == 2


async def test_a_tie_of_thousands_is_not_read_to_its_end():
    ranking = Ranking([stored(7, 2.0), *(stored(number, 1.0) for number in range(100, 9_000))])
    hits = await ranked(ranking.search, 60)
    assert len(hits) == 60
    assert hits[0].passage_id == 7
    assert ranking.asked[1:] == [TIED]


async def test_without_a_tie_across_the_end_it_is_asked_once():
    ranking = Ranking([stored(number, 1_000.0 - number) for number in range(900)])
    assert [hit.passage_id for hit in await ranked(ranking.search, 3)] == [0, 1, 2]
    assert len(ranking.asked) == 1
