"""What an answer says when a part of it is missing: never as if nothing were known."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from schemas.questions import Question
from shared.errors import AllSourcesLost, CacheUnavailable, EmbedderUnavailable, StoreUnavailable
from shared.settings import Settings
from tests.integration.small_company import STAGES, ask, ids, small_company

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


@pytest.fixture
async def known(tmp_path):
    knowledge = await small_company(tmp_path)
    yield knowledge
    await knowledge.close()


class TestLoss:
    """C41: an outage never looks like 'nothing known'."""

    def broken(self, known, failing=(), slow=(), arms=("keyword", "vector", "about")):
        class Snapshot:
            def __init__(self, snapshot):
                self._snapshot = snapshot

            def __getattr__(self, name):
                method = getattr(self._snapshot, name)
                if name not in arms:
                    return method

                async def guarded(what, where, limit):
                    if where.scopes & set(failing):
                        raise StoreUnavailable("this scope's shard is down")
                    if where.scopes & set(slow):
                        await asyncio.sleep(5)
                    return await method(what, where, limit)

                return guarded

        class Reader:
            @asynccontextmanager
            async def snapshot(self, tenant):
                async with known.reader.snapshot(tenant) as snapshot:
                    yield Snapshot(snapshot)

        return known.assembly(reader=Reader(), settings=Settings(search_deadline_ms=600, answer_deadline_ms=20_000))

    async def test_a_failing_and_a_slow_scope_are_named_and_the_rest_answers(self, known):
        assembly = self.broken(known, failing=["team/platform"], slow=["personal/ana"])
        question = Question(q="Who approves deployments of the ledger?")
        events = [event async for event in assembly.stream(question, tenant="demo", principal="ana")]
        assert [event.stage for event in events] == STAGES
        answer = events[-1].answer
        assert ids(answer) == ["rules"]
        assert {(lost.arm, lost.scope, lost.reason) for lost in answer.lost} == {
            (arm, scope, reason)
            for arm in ("keyword", "vector")
            for scope, reason in (("team/platform", "error"), ("personal/ana", "timeout"))
        }
        assert answer.degraded
        assert not answer.complete
        assert "lost" in answer.context

    async def test_when_everything_is_lost_it_is_an_error(self, known):
        assembly = self.broken(known, failing=["team/platform", "personal/ana", "department/engineering"])
        with pytest.raises(AllSourcesLost):
            await ask(known, "deploy the ledger", assembly=assembly)

    async def test_a_graph_arm_that_fails_is_named_and_the_others_answer(self, known):
        assembly = self.broken(known, failing=["team/platform"], arms=("about",))
        answer = await ask(known, "Who leads the ledger project in Platform?", assembly=assembly)
        assert answer.results
        assert [(lost.arm, lost.reason) for lost in answer.lost] == [("graph", "error")]

    async def test_without_the_embedder_words_alone_answer_and_it_is_said(self, known):
        class Gone:
            model, dims = "gone", 256

            async def embed_query(self, text):
                raise EmbedderUnavailable("no weights")

        answer = await ask(known, "How do we deploy the ledger?", assembly=known.assembly(embedder=Gone()))
        assert "deploy" in ids(answer)
        assert [(lost.arm, lost.reason) for lost in answer.lost] == [("vector", "unavailable")]

    async def test_a_cache_that_is_down_costs_nothing_but_time(self, known):
        class Down:
            async def get(self, key):
                raise CacheUnavailable

            async def put(self, key, value, ttl_s):
                raise CacheUnavailable

        answer = await ask(known, "How do we deploy the ledger?", assembly=known.assembly(cache=Down()))
        assert (answer.complete, answer.degraded) == (True, True)
        whole = await ask(known, "How do we deploy the ledger?")
        assert answer == whole.model_copy(update={"degraded": True})

    async def test_a_store_that_cannot_be_opened_is_an_error(self, known):
        class Closed:
            @asynccontextmanager
            async def snapshot(self, tenant):
                raise StoreUnavailable
                yield

        with pytest.raises(StoreUnavailable):
            await ask(known, "deploy the ledger", assembly=known.assembly(reader=Closed()))
