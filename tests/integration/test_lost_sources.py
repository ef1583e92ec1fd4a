"""Sources that fail or are slow (case C41): what is lost is named, nothing lost is taken for nothing known, or kept."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from schemas.questions import Question
from shared.caches.memory import MemoryCache
from shared.errors import AllSourcesLost, CacheUnavailable, StoreUnavailable
from shared.settings import Settings
from tests.integration.knowledge import Knowledge, unit

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

SCOPES = ("team/one", "team/two", "team/three")
QUESTION = "Where is the harbour pump kept?"
ARMS = ("keyword", "vector")


class Faults:
    """A reader whose searches fail or hang in chosen scopes, until told otherwise."""

    def __init__(self, knowledge):
        self._knowledge = knowledge
        self.failing, self.slow, self.arms = set(), set(), set(ARMS)

    @asynccontextmanager
    async def snapshot(self, tenant):
        async with self._knowledge.reader.snapshot(tenant) as snapshot:
            yield _Snapshot(snapshot, self)


class _Snapshot:
    def __init__(self, snapshot, faults):
        self._snapshot, self._faults = snapshot, faults

    def __getattr__(self, name):
        method = getattr(self._snapshot, name)
        if name not in self._faults.arms:
            return method

        async def guarded(what, where, limit):
            if where.scopes & self._faults.failing:
                raise StoreUnavailable("this scope's shard is down")
            if where.scopes & self._faults.slow:
                await asyncio.Event().wait()  # for ever: only the deadline ends it
            return await method(what, where, limit)

        return guarded


@pytest.fixture
async def known(tmp_path):
    knowledge = Knowledge(tmp_path)
    await knowledge.teach(
        *(
            unit(f"pump-{n}", f"The harbour pump number {n} is kept in shed {n}.", scope)
            for n, scope in enumerate(SCOPES, 1)
        )
    )
    yield knowledge
    await knowledge.close()


@pytest.fixture
def faults(known):
    return Faults(known)


@pytest.fixture
def assembly(known, faults):
    return known.assembly(reader=faults, settings=Settings(search_deadline_ms=800, answer_deadline_ms=20_000))


async def ask(assembly, q=QUESTION):
    return await assembly.answer(Question(q=q, limit=10), tenant="demo", principal=None)


def ids(answer):
    return {result.unit_id for result in answer.results}


def lost(answer):
    return {(one.arm, one.scope, one.reason) for one in answer.lost}


async def test_one_scope_answers_one_fails_one_is_slow_and_nothing_of_it_is_kept(assembly, faults):
    """As JSON and as a stream; when the sources are back the same question has a complete answer."""
    faults.failing, faults.slow = {"team/two"}, {"team/three"}
    answer = await ask(assembly)
    assert ids(answer) == {"pump-1"}
    assert lost(answer) == {(arm, *what) for arm in ARMS for what in (("team/two", "error"), ("team/three", "timeout"))}
    assert (answer.degraded, answer.complete) == (True, False)
    stream = assembly.stream(Question(q=QUESTION, limit=10), tenant="demo", principal=None)
    events = [event async for event in stream]
    assert lost(events[-1].answer) == lost(answer)
    assert lost(next(event for event in events if event.stage == "search")) == lost(answer)

    faults.failing, faults.slow = set(), set()
    again = await ask(assembly)
    assert ids(again) == {"pump-1", "pump-2", "pump-3"}
    assert (again.lost, again.degraded, again.complete) == ((), False, True)


@pytest.mark.parametrize(
    ("failing", "slow"),
    [(SCOPES, ()), ((), SCOPES), (SCOPES[:1], SCOPES[1:])],
    ids=["all fail", "all are slow", "mixed"],
)
async def test_when_every_scope_is_lost_it_is_an_error_and_not_nothing_known(assembly, faults, failing, slow):
    faults.failing, faults.slow = set(failing), set(slow)
    with pytest.raises(AllSourcesLost):
        await ask(assembly)
    faults.failing, faults.slow = set(), set()
    assert ids(await ask(assembly)) == {"pump-1", "pump-2", "pump-3"}


@pytest.mark.parametrize("arm", ARMS)
async def test_an_arm_that_is_lost_everywhere_is_named_and_the_other_answers(assembly, faults, arm):
    faults.failing, faults.arms = set(SCOPES), {arm}
    answer = await ask(assembly)
    assert "pump-1" in ids(answer)
    assert {(name, reason) for name, _, reason in lost(answer)} == {(arm, "error")}
    assert (answer.degraded, answer.complete) == (True, False)


class AwayCache(MemoryCache):
    """A cache that does not answer while it is ``away``."""

    away = True

    async def get(self, key):
        if self.away:
            raise CacheUnavailable("away")
        return await super().get(key)

    async def put(self, key, value, ttl_s):
        if self.away:
            raise CacheUnavailable("away")
        await super().put(key, value, ttl_s)


async def test_an_answer_without_the_cache_lacks_nothing_and_says_that_it_was_made_without(known):
    cache = AwayCache(known.clock)
    assembly = known.assembly(cache=cache)
    answer = await ask(assembly)
    assert ids(answer) == {"pump-1", "pump-2", "pump-3"}
    assert (answer.degraded, answer.lost, answer.complete) == (True, (), True)
    stream = assembly.stream(Question(q=QUESTION, limit=10), tenant="demo", principal=None)
    events = [event async for event in stream]
    assert next(event for event in events if event.stage == "search").degraded is True
    assert events[-1].answer.degraded is True
    cache.away = False
    assert (await ask(assembly)).degraded is False


async def test_a_scope_that_answers_with_nothing_does_not_hide_that_the_others_were_lost(known, assembly, faults):
    """Nothing was found in what could be searched: the answer says what could not."""
    await known.teach(unit("tea", "The kettle takes four minutes.", "team/four"))
    faults.failing = set(SCOPES)
    answer = await ask(assembly)
    assert not ids(answer) & {"pump-1", "pump-2", "pump-3"}
    assert {scope for _, scope, _ in lost(answer)} == set(SCOPES)
    assert not answer.complete
    assert "lost" in answer.context
