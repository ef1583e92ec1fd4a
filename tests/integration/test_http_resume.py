"""A stream that was lost at its end is gone on with, by any query process that shares the cache."""

import json

import pytest
from httpx_sse import aconnect_sse

from query.kept_streams import KeptStreams, Sent, last_seen
from schemas.questions import Question
from shared.caches.memory import MemoryCache
from shared.clock import SystemClock
from shared.errors import CacheUnavailable
from shared.settings import Settings
from tests.integration.http_service import SteeredAnswers, in_process, make_parts

pytestmark = [pytest.mark.integration, pytest.mark.anyio]
STREAM = "/v1/context/stream"


class Counted(SteeredAnswers):
    """Counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def stream(self, question, *, tenant, principal):
        self.asked += 1
        return super().stream(question, tenant=tenant, principal=principal)


async def read(client, question: str, last_id: str | None = None, **body) -> list:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with aconnect_sse(client, "POST", STREAM, json={"q": question, **body}, headers=headers) as source:
        source.response.raise_for_status()
        return [message async for message in source.aiter_sse()]


@pytest.fixture
async def replicas():
    """Two query processes with one cache, and how often each was asked to work."""
    cache = MemoryCache(SystemClock())
    settings, answers = Settings(), [Counted(), Counted()]
    parts = [make_parts(one) for one in answers]
    for one in parts:
        one.cache = cache
    async with in_process(settings, parts[0]) as first, in_process(settings, parts[1]) as second:
        yield first, second, answers


async def test_another_process_sends_the_rest_of_a_finished_answer_and_works_for_nothing(replicas):
    first, second, answers = replicas
    whole = await read(first, "why blue?")
    seen = whole[3].id
    rest = await read(second, "why blue?", seen)
    assert [(one.id, one.event, one.data) for one in rest] == [(one.id, one.event, one.data) for one in whole[4:]]
    assert rest[-1].event == "complete"
    assert [one.asked for one in answers] == [1, 0]


@pytest.mark.parametrize("changed", [{"question": "why red?"}, {"principal": "person-ben"}])
async def test_another_question_or_another_asker_is_answered_anew(replicas, changed: dict):
    first, second, answers = replicas
    whole = await read(first, "why blue?", principal="person-ana")
    asked = {"question": "why blue?", "principal": "person-ana", **changed}
    again = await read(second, asked["question"], whole[3].id, principal=asked["principal"])
    assert again[0].id != whole[0].id
    assert (again[0].event, again[-1].event) == (whole[0].event, "complete")
    assert [one.asked for one in answers] == [1, 1]


@pytest.mark.parametrize("last_id", ["", "-", "nothing", "0123456789abcdef-4", "x" * 500 + "-1", "a-" + "9" * 400])
async def test_an_id_that_nobody_gave_is_answered_anew(replicas, last_id: str):
    first, _, _ = replicas
    messages = await read(first, "why blue?", last_id)
    assert messages[-1].event == "complete"
    assert json.loads(messages[-1].data)["answer"]["question"] == "why blue?"


async def test_who_has_seen_everything_is_answered_anew(replicas):
    first, _, answers = replicas
    whole = await read(first, "why blue?")
    assert (await read(first, "why blue?", whole[-1].id))[0].id != whole[0].id
    assert answers[0].asked == 2


class Away(MemoryCache):
    """A cache that does not answer."""

    async def get(self, key):
        raise CacheUnavailable

    async def put(self, key, value, ttl_s):
        raise CacheUnavailable


async def test_without_the_cache_an_answer_is_streamed_all_the_same():
    kept = KeptStreams(Away(SystemClock()))
    await kept.keep(("acme", ""), Question(q="why?"), "id", [Sent("intent", "{}")])
    assert await kept.find(("acme", ""), Question(q="why?"), "id") == []


def test_the_header_names_a_stream_and_a_number():
    assert last_seen("abc-def-12") == ("abc-def", 12)
    assert [last_seen(odd) for odd in (None, "a-٣", "a-²")] == [None, None, None]
