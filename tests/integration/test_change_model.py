"""C61: the embedding model is changed while everything goes on; two models are never mixed, and one can go back."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ingest.models import check_models
from query.assembly import Assembly
from schemas.commands import ChangeModel, DropModel, Job, JobState
from schemas.questions import Question
from shared.caches.memory import MemoryCache
from shared.clock import SystemClock
from shared.embedder import Alone
from shared.embedders.catalogue import Catalogue
from shared.embedders.endpoint import EndpointEmbedder
from shared.embedders.hashed import HashedEmbedder
from shared.errors import UnknownModel
from shared.graphs.replica import GraphReplica
from shared.settings import Settings
from shared.store import Applied, Effect, KnowledgeWriter, SearchFilter
from shared.vector_models import Coverage, KnownModel, ModelState
from tests.endpoint_server import EndpointServer
from tests.endpoint_server import running as serving
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, asserted, retracted, running, until
from tests.integration.ordering import order, over, running_with

# on Kafka alone, for its time; tests/e2e/test_model.py changes a model on the embedded broker
pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster]

UNITS = 200
SMALL, WIDE, OTHER = "small/384", "wide/768", "other/384"
PLACES = ("gateway", "ledger", "mailer", "search", "billing")
ACTS = ("owns", "restarts", "measures", "guards", "rebuilds", "watches", "feeds", "drains")
QUESTIONS = [
    f"who {act} the {place} of region {number}?" for act, place, number in zip(ACTS, PLACES * 2, range(8), strict=False)
]


def facts(count: int = UNITS) -> list[dict]:
    return [
        asserted(f"u{n:03}", f"Team {n} {ACTS[n % 8]} the {PLACES[n % 5]} of region {n // 8}.", event={"id": f"e{n}"})
        for n in range(count)
    ]


class HeldWriter:
    """A writer whose transactions can be made to wait, or its notes of jobs; look-ups go on."""

    def __init__(self, inner: KnowledgeWriter) -> None:
        self._inner = inner
        self._open = asyncio.Event()
        self._open.set()
        self.waiting = False
        self.noting = True
        self.unnoted = False

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        self.waiting = not self._open.is_set()
        await self._open.wait()
        return await self._inner.apply(tenant, effects)

    async def save_job(self, tenant: str, job: Job) -> None:
        self.unnoted = not self.noting
        if self.unnoted:
            await asyncio.Event().wait()  # until its process dies
        await self._inner.save_job(tenant, job)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class ModelRig(Rig):
    """A rig whose embedders are behind endpoints; ``wanted``: the model of new tenants."""

    def __init__(self, broker: BrokerProcess, prefix: str, folder: Path, server: EndpointServer, wanted: str) -> None:
        names = {f"{model}/{dims}": server.endpoint(model) for model, dims in server.models.items()}
        self.server = server
        self.catalogue = Catalogue(EndpointEmbedder(names[wanted]), tuple(names.values()), 1)
        super().__init__(broker.bootstrap, prefix, folder)

    def make(self, *given: object, **more: object):
        self.embedder = self.catalogue.wanted
        if not isinstance(self.writer, HeldWriter):
            self.writer = HeldWriter(self.writer)
        return super().make(*given, embedders=self.catalogue, **more)

    async def close(self) -> None:
        await super().close()
        await self.catalogue.close()

    async def model(self) -> str | None:
        async with self.reader.snapshot("acme") as snapshot:
            return await snapshot.model()

    async def found(self, question: str, limit: int = 12) -> list[tuple[str, float]]:
        """Return unit ids and cosines, by the model that the snapshot is of."""
        where = SearchFilter(scopes=frozenset({"team/core"}), at=self.clock.now())
        async with self.reader.snapshot("acme") as snapshot:
            embedder = await self.catalogue.of(await snapshot.model())
            hits = await snapshot.vector(await embedder.embed_query(question), where, limit)
        return [(unit_id, round(hit.score, 5)) for hit in hits for unit_id in hit.unit_ids]

    async def all_found(self) -> list[list[tuple[str, float]]]:
        return [await self.found(question) for question in QUESTIONS]

    async def change(self, model: str):
        return await over(self, await order(self, ChangeModel(model=model)))


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    models = {"small": 384, "wide": 768, "other": 384}
    with serving(EndpointServer(models, turned=frozenset({"other"}))) as one:
        yield one


@pytest.fixture
async def rig(broker: BrokerProcess, prefix: str, tmp_path: Path, server: EndpointServer):
    async with running(ModelRig(broker, prefix, tmp_path / "changed", server, SMALL)) as started:
        yield started


@asynccontextmanager
async def fresh(rig: ModelRig, broker: BrokerProcess, folder: Path, model: str) -> AsyncIterator[ModelRig]:
    """An installation that never had another model."""
    name = model.replace("/", "-")
    async with running(ModelRig(broker, f"{rig.prefix}{name}.", folder / name, rig.server, model)) as other:
        yield other


async def searchable(rig: ModelRig, unit_id: str, text: str) -> None:
    """Wait until a unit is found by its vector."""

    async def found() -> bool:
        return unit_id in [near for near, _ in await rig.found(text, 3)]

    await until(found)


async def test_two_changes_and_the_way_back_while_questions_and_events_go_on(rig, broker, tmp_path, server):
    said = facts()
    await rig.say(*said)
    await rig.settle()
    with_small, digest = await rig.all_found(), await rig.digest()
    assert await rig.model() == SMALL
    late: list[dict] = []
    for model in (WIDE, OTHER):
        name = model.partition("/")[0]
        before, of_before = await rig.model(), await rig.all_found()
        server.held_after[name] = server.served[name] + 50
        command = await order(rig, ChangeModel(model=model))
        await running_with(rig, command, 32)
        assert await rig.model() == before
        assert await rig.all_found() == of_before, "questions are answered from the old index"
        late.append(asserted(f"late-{name}", f"Team late joined while {name} was built.", event={"id": name}))
        await rig.say(late[-1])
        await searchable(rig, f"late-{name}", f"Team late joined while {name} was built.")
        assert await rig.model() == before
        del server.held_after[name]
        job = await over(rig, command)
        assert (job.state, job.failed) == (JobState.DONE, 0)
        assert job.done == job.total
        assert await rig.model() == model
        async with fresh(rig, broker, tmp_path, model) as one:
            await one.say(*said, *late)
            await one.settle()
            assert await rig.all_found() == await one.all_found()
            assert (await rig.digest())["units"] == (await one.digest())["units"]
    assert server.served["small"] > 0
    job = await rig.change(SMALL)
    assert (job.state, job.done, await rig.model()) == (JobState.DONE, 0, SMALL), "its vectors were kept, and kept up"
    await rig.say(*(retracted(event["data"]["id"]) for event in late))
    await rig.settle()
    assert await rig.all_found() == with_small
    after = await rig.digest()
    assert {part: after[part] for part in digest if part != "tombstones"} == {
        part: digest[part] for part in digest if part != "tombstones"
    }


async def test_the_whole_answer_follows_the_index_from_question_to_question(rig, server):
    """The process that answers is told nothing: each question asks with the model of the snapshot that it opened."""
    await rig.say(*facts(40))
    await rig.settle()
    parts = (rig.reader, GraphReplica(), rig.catalogue.wanted, MemoryCache(rig.clock), SystemClock(), Settings())
    following, alone = Assembly(*parts, embedders=rig.catalogue), Assembly(*parts)
    question = Question(q="who restarts the ledger of region 3?")
    for model in (SMALL, WIDE, OTHER, SMALL):
        assert (await rig.change(model)).state is JobState.DONE
        answer = await following.answer(question, tenant="acme", principal=None)
        assert answer.lost == ()
        assert "u025" in [result.unit_id for result in answer.results][:3]
    await rig.change(OTHER)
    answer = await alone.answer(question, tenant="acme", principal=None)
    (lost,) = [source for source in answer.lost if source.arm == "vector"]
    assert OTHER in (lost.detail or ""), "a service that knows one model says so, and does not ask with it"
    assert answer.results, "by keyword"


async def test_a_change_whose_process_is_killed_goes_on_where_it_was(rig, server):
    await rig.say(*facts(80))
    await rig.settle()
    server.held_after["wide"] = 50
    command = await order(rig, ChangeModel(model=WIDE))
    await running_with(rig, command, 48)
    await rig.pipeline.stop(drain_s=0.01)
    del server.held_after["wide"]
    rig.pipeline = rig.make()
    await rig.pipeline.start()
    job = await over(rig, command)
    assert (job.state, job.done, await rig.model()) == (JobState.DONE, 80, WIDE)
    texts = [text for body in server.asked if body["model"] == "wide" for text in body["input"] if "Team" in text]
    assert len(texts) - len(set(texts)) <= 16, "a page at the most is embedded twice"


async def test_what_was_done_and_not_noted_before_a_kill_is_counted(rig, server):
    await rig.say(*facts(40))
    await rig.settle()
    server.held_after["wide"] = 20
    command = await order(rig, ChangeModel(model=WIDE))
    await running_with(rig, command, 16)
    rig.writer.noting = False
    del server.held_after["wide"]
    await until(lambda: rig.writer.unnoted)
    await rig.pipeline.stop(drain_s=0.01)
    rig.writer.noting = True
    rig.pipeline = rig.make()
    await rig.pipeline.start()
    job = await over(rig, command)
    assert (job.state, job.done, job.total) == (JobState.DONE, 40, 40)


async def test_a_text_that_the_new_model_refuses_keeps_the_old_one_in_use(rig, server):
    """Nothing is searched that lacks a unit; the job names it."""
    await rig.say(*facts(20), asserted("bad", "An unspeakable text."))
    await rig.settle()
    server.refused = "unspeakable"
    job = await rig.change(WIDE)
    assert (job.state, await rig.model()) == (JobState.FAILED, SMALL)
    assert "bad" in job.detail
    await rig.say(retracted("bad"))
    await rig.settle()
    assert (await rig.change(WIDE)).state is JobState.DONE
    assert await rig.model() == WIDE


async def test_a_model_that_nobody_configured_or_whose_endpoint_is_wrong_builds_nothing(rig, server):
    await rig.say(*facts(5))
    await rig.settle()
    job = await rig.change("unheard-of/12")
    assert (job.state, job.done) == (JobState.FAILED, 0)
    assert "unheard-of/12" in job.detail
    assert SMALL in job.detail
    server.models["wide"] = 700  # it answers with another length than is configured
    job = await rig.change(WIDE)
    assert job.state is JobState.FAILED
    assert "768 dimensions" in job.detail
    assert await rig.writer.models("acme") == [KnownModel(SMALL, 384, ModelState.ACTIVE)]


async def test_events_go_on_when_the_model_that_is_built_fails(rig, server):
    """Only the change waits for its endpoint."""
    await rig.say(*facts(20))
    await rig.settle()
    await rig.writer.add_model("acme", WIDE, 768)
    server.models.pop("wide")
    await rig.say(asserted("new", "Team new owns the mailer."))
    await rig.settle()
    assert (await rig.found("Team new owns the mailer."))[0][0] == "new"
    assert await rig.letters() == []
    server.models["wide"] = 768
    job = await rig.change(WIDE)
    assert (job.state, job.done, await rig.model()) == (JobState.DONE, 21, WIDE)


async def test_what_was_embedded_before_the_switch_is_stored_with_the_new_models_vectors(rig, server):
    await rig.say(*facts(20))
    await rig.settle()
    rig.writer.hold()  # events are embedded, and wait before the store
    await rig.say(asserted("between", "Team between owns the mailer."))
    await until(lambda: rig.writer.waiting)
    assert (await rig.change(WIDE)).state is JobState.DONE
    rig.writer.release()
    await rig.settle()
    assert (await rig.found("Team between owns the mailer."))[0][0] == "between"
    assert await rig.writer.coverage("acme", WIDE) == Coverage(21, 0)
    assert await rig.writer.coverage("acme", SMALL) == Coverage(21, 0), "and the old index is whole"
    assert await rig.letters() == []


async def test_a_dropped_model_is_not_kept_up_any_more(rig, server):
    await rig.say(*facts(20))
    await rig.settle()
    await rig.change(WIDE)
    job = await over(rig, await order(rig, DropModel(model=WIDE)))
    assert (job.state, await rig.model()) == (JobState.FAILED, WIDE), "it is searched"
    job = await over(rig, await order(rig, DropModel(model=SMALL)))
    assert (job.state, job.done) == (JobState.DONE, 20)
    asked = server.served["small"]
    await rig.say(asserted("new", "Team new owns the mailer."))
    await rig.settle()
    assert server.served["small"] == asked
    assert await rig.writer.models("acme") == [KnownModel(WIDE, 768, ModelState.ACTIVE)]


async def test_an_index_of_an_unknown_model_is_refused_at_the_start(rig):
    """By a message that names both models and what to do; what is known is never added to by another model."""
    await rig.say(*facts(3))
    await rig.settle()
    await check_models(rig.writer, rig.reader, rig.catalogue)
    other = HashedEmbedder()
    with pytest.raises(UnknownModel, match=f"{SMALL}.*{other.model}.*cortex model change {other.model}"):
        await check_models(rig.writer, rig.reader, Alone(other))
