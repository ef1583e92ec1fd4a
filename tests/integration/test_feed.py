"""The live feed: who hears what, where it goes on, and what it says when something is missing."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest
from httpx_sse import aconnect_sse
from sse_starlette.sse import AppStatus

from query.app import create_app
from schemas.feed import NewsItem
from shared.boards.memory import MemoryBoard
from shared.errors import Overloaded
from shared.news import Mark, Post
from shared.settings import Settings
from tests.integration.feeding import CORE, NOW, OTHER, WAIT_S, newsroom
from tests.integration.http_service import in_process, make_parts, served

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


async def test_a_reader_hears_what_comes_after_he_sat_down():
    async with newsroom() as room:
        await room.post("before")
        async with room.reader() as heard:
            assert await heard.kinds(1) == ["open"]
            await room.post("a", "b")
            assert await heard.units(2) == ["a", "b"]


async def test_each_reader_hears_of_his_own_scopes_only():
    async with newsroom() as room, room.reader("ana") as ana, room.reader("eve") as eve, room.reader("zoe") as zoe:
        for heard in (ana, eve, zoe):
            await heard.next()
        await room.post("theirs", scope=OTHER)
        await room.post("ours", scope=CORE)
        assert await ana.units(1) == ["ours"]
        assert await eve.units(2) == ["theirs", "ours"]
        room.store.scopes["zoe"] = {CORE}
        await room.post("new")
        assert await zoe.units(1) == ["new"]  # nothing of what came before she was a member


async def test_a_reader_goes_on_after_the_last_thing_he_heard():
    """Also when much came in between, and what he may not read is no gap to him."""
    async with newsroom() as room:
        async with room.reader("ana") as heard:
            await heard.next()
            await room.post("a")
            await heard.next()
        await room.post("theirs", scope=OTHER)
        await room.post(*(f"u{n}" for n in range(450)))
        async with room.reader("ana", after=heard.last_id) as again:
            assert (await again.next()).resumed
            assert await again.units(450) == [f"u{n}" for n in range(450)]
            await room.post("live")
            assert await again.units(1) == ["live"]


async def test_a_reader_may_begin_with_what_came_last():
    """Of what he may read."""
    async with newsroom() as room:
        await room.post("a", "b", "c")
        await room.post("theirs", scope=OTHER)
        async with room.reader("ana", recent=2) as heard:
            assert await heard.kinds(1) == ["open"]
            await room.post("d")
            assert await heard.units(3) == ["b", "c", "d"]


async def test_who_was_away_for_too_long_is_told_so():
    async with newsroom(board=MemoryBoard(kept=3)) as room:
        async with room.reader() as heard:
            await heard.next()
            await room.post("a")
            await heard.next()
        await room.post("b", "c", "d", "e", "f")
        async with room.reader(after=heard.last_id) as again:
            opened, missed = await again.next(), await again.next()
            assert (opened.resumed, missed.kind, missed.reason, missed.count) == (False, "missed", "trimmed", None)
            assert await again.units(3) == ["d", "e", "f"]


async def test_a_slow_reader_is_told_how_many_he_missed_where_they_would_have_stood():
    """Counted are those that he may read; the others are none of his business."""
    async with newsroom(queue=5) as room, room.reader("ana") as slow, room.reader("eve") as quick:
        await slow.next()
        await quick.next()
        for number in range(12):
            await room.post(f"u{number}", scope=CORE)
            await room.post(f"x{number}", scope=OTHER)
            await quick.units(2)
        assert await slow.units(5) == ["u0", "u1", "u2", "u3", "u4"]
        missed = await slow.next()
        assert (missed.kind, missed.count, missed.reason) == ("missed", 7, "slow")
        await room.post("then")
        assert await slow.units(1) == ["then"]


async def test_a_board_that_goes_away_is_reported_and_found_again():
    async with newsroom() as room, room.reader() as heard:
        await heard.next()
        await room.board.fail(away=True)
        assert await heard.kinds(1) == ["degraded"]
        await room.board.fail(away=False)
        assert await heard.kinds(1) == ["live"]
        await room.post("a")
        assert await heard.units(1) == ["a"]


async def test_who_comes_while_the_board_is_away_is_told_and_hears_what_comes_later():
    async with newsroom() as room:
        await room.board.fail(away=True)
        async with room.reader(after="1-0") as heard:
            assert await heard.kinds(3) == ["open", "degraded", "missed"]
            await room.board.fail(away=False)
            assert await heard.kinds(1) == ["live"]
            await room.post("a")
            assert await heard.units(1) == ["a"]


async def test_news_that_was_lost_on_its_way_is_said_to_be_missing():
    """The writer could not reach the board for a while; everybody hears of it, whatever he may read."""
    async with newsroom() as room, room.reader("zoe") as heard:
        await heard.next()
        await room.board.post([gap()])
        missed = await heard.next()
        assert (missed.kind, missed.count, missed.reason) == ("missed", None, "outage")


def gap():
    return Post("demo", (NewsItem(kind="gap", unit_ids=(), scopes=(), recorded_at=NOW),), Mark("gap", 0))


async def test_tenants_do_not_hear_each_other():
    async with newsroom() as room, room.reader(tenant="acme") as heard:
        await heard.next()
        await room.post("theirs", tenant="demo")
        await room.post("ours", tenant="acme")
        assert await heard.units(1) == ["ours"]


async def test_readers_have_a_bound():
    async with newsroom(readers=1) as room, room.reader():
        with pytest.raises(Overloaded):
            async with room.reader():
                pass
    assert room.hub.readers == 0


@asynccontextmanager
async def reading(url):
    client = httpx.AsyncClient(base_url=url, timeout=WAIT_S)
    async with client, aconnect_sse(client, "GET", "/v1/feed") as source:
        yield source


def feed_parts():
    parts = make_parts()
    parts.board = MemoryBoard()
    return parts


async def test_over_http_the_feed_is_server_sent_events_and_says_goodbye(monkeypatch):
    parts = feed_parts()
    with served(lambda: create_app(Settings(), parts), parts) as service:
        async with reading(service.url) as source:
            messages = source.aiter_sse()
            first = await anext(messages)
            assert (first.event, json.loads(first.data)["live"], first.retry) == ("open", True, 1000)
            monkeypatch.setattr(AppStatus, "should_exit", True)
            async with asyncio.timeout(WAIT_S):
                assert [message.event async for message in messages] == ["closing"]


async def test_a_feed_has_a_lifetime():
    parts = feed_parts()
    with served(lambda: create_app(Settings(feed_limit_s=0.1), parts), parts) as service:
        async with reading(service.url) as source:
            assert [message.event async for message in source.aiter_sse()] == ["open", "closing"]


async def test_an_id_that_is_none_is_refused_by_name():
    async with in_process(Settings(), make_parts()) as client:
        response = await client.get("/v1/feed", headers={"last-event-id": "x"})
        assert response.status_code == 400
        assert response.json()["errors"][0]["field"] == "Last-Event-ID"
