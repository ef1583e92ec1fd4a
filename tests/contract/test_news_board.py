"""A board keeps a tenant's newest news in order, each piece once; in this process and on a real server."""

import asyncio
from datetime import UTC, datetime

import pytest

from schemas.feed import NewsItem
from shared.boards.memory import MemoryBoard
from shared.boards.redis import RedisBoard
from shared.errors import CacheUnavailable
from shared.news import START, Mark, Post
from tests.contract.test_cache import Server

pytestmark = pytest.mark.anyio
WAIT_S = 20.0
SOON_S = 0.05  # for a wait that should find nothing
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("board"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["memory", "valkey"])
async def board(request, valkey):
    """A board that keeps a hundred."""
    if request.param == "memory":
        yield MemoryBoard(kept=100)
        return
    opened = RedisBoard(valkey.url, prefix=f"{request.node.name}:", kept=100, answer_s=WAIT_S)
    yield opened
    await opened.close()


def post(number, *unit_ids, tenant="acme", place="events/0"):
    items = tuple(
        NewsItem(kind="stored", unit_ids=(unit_id,), scopes=("team/core",), recorded_at=NOW) for unit_id in unit_ids
    )
    return Post(tenant, items, Mark(place, number))


def ids(entries):
    return [entry.item.unit_ids[0] for entry in entries]


async def everything(board, tenant="acme"):
    return await board.read(tenant, START, await board.newest(tenant), 10_000)


async def test_news_comes_back_in_the_order_in_which_it_was_posted(board):
    await board.post([post(1, "a", "b"), post(2, "c")])
    assert ids(await everything(board)) == ["a", "b", "c"]


async def test_an_empty_board_has_no_newest_and_nothing_is_missing(board):
    assert await board.newest("acme") == START
    assert await board.follows("acme", START)
    assert await everything(board) == []


async def test_what_is_delivered_again_is_no_news(board):
    """The mark counts per place: another partition's numbers are its own."""
    await board.post([post(5, "a")])
    await board.post([post(5, "a"), post(4, "old"), post(6, "b"), post(1, "c", place="events/1")])
    assert ids(await everything(board)) == ["a", "b", "c"]


async def test_tenants_do_not_see_each_other(board):
    await board.post([post(1, "a"), post(1, "z", tenant="other")])
    assert ids(await everything(board)) == ["a"]
    assert ids(await everything(board, "other")) == ["z"]


async def test_a_reader_goes_on_after_an_id(board):
    await board.post([post(1, "a", "b", "c")])
    first, *_ = await everything(board)
    assert ids(await board.read("acme", first.id, await board.newest("acme"), 10)) == ["b", "c"]
    assert ids(await board.read("acme", first.id, await board.newest("acme"), 1)) == ["b"]
    assert await board.follows("acme", first.id)


async def test_the_latest_come_oldest_first(board):
    await board.post([post(1, "a", "b", "c")])
    newest = await board.newest("acme")
    assert ids(await board.latest("acme", newest, 2)) == ["b", "c"]
    assert await board.latest("other", START, 2) == []


async def test_waiting_ends_with_the_first_news(board):
    waiting = asyncio.create_task(board.wait("acme", await board.newest("acme"), 10, WAIT_S))
    await board.post([post(1, "a")])
    assert ids(await waiting) == ["a"]


async def test_waiting_for_nothing_ends_too(board):
    assert await board.wait("acme", START, 10, SOON_S) == []


async def test_a_long_quiet_is_no_outage(valkey):
    """The client's own socket timeout of five seconds must not end a wait."""
    board = RedisBoard(valkey.url, prefix="quiet:", answer_s=WAIT_S)
    assert await board.wait("acme", START, 1, 5.5) == []
    await board.close()


async def test_old_news_is_forgotten_and_whoever_stood_there_can_tell(board):
    await board.post([post(1, "first")])
    (first,) = await everything(board)
    for number in range(2, 40):
        await board.post([post(number, *(f"u{number}-{n}" for n in range(10)))])
    assert len(await everything(board)) < 300  # a stream is cut by whole nodes
    assert not await board.follows("acme", first.id)
    assert not await board.follows("acme", START)
    assert await board.follows("acme", await board.newest("acme"))


async def test_an_id_that_never_was_does_not_lead_on(board):
    await board.post([post(1, "a")])
    assert not await board.follows("acme", "7-7")


async def found_again(ask):
    """Ask until there is an answer: connections of before fail once."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await ask()
            except CacheUnavailable:
                await asyncio.sleep(0.01)


async def test_a_server_that_is_away_says_so_and_is_found_again(tmp_path):
    server = Server(tmp_path)
    board = RedisBoard(server.url, answer_s=2.0)
    try:
        for attempt in (board.newest("acme"), board.post([post(1, "a")]), board.wait("acme", START, 1, SOON_S)):
            with pytest.raises(CacheUnavailable):
                await attempt
        server.start()
        await board.post([post(1, "a")])
        last = await board.newest("acme")
        server.stop()
        server.start()
        assert await found_again(lambda: board.newest("acme")) == START
        assert not await board.follows("acme", last)
        await board.post([post(2, "b")])
        assert ids(await board.read("acme", last, await board.newest("acme"), 10)) == ["b"]
    finally:
        await board.close()
        server.stop()
