"""Moving to another store while the first one serves: the same knowledge, gone on with, and told where it differs."""

import shutil
import uuid

import numpy as np
import pytest

from compose.local.folder import DataFolder
from compose.moving.migrating import migrate_store
from compose.moving.parts import open_side
from ingest.buried import Buried
from ingest.rebuild import Rebuild
from schemas.commands import Job
from schemas.events import parse_event
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.errors import InvalidInput
from shared.fingerprints import PARTS
from shared.logs.journal import Journal
from shared.settings import Settings
from tests.conftest import WEAVIATE
from tests.integration.ingesting import asserted, envelope, retracted

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.integration,
    pytest.mark.cluster,
    pytest.mark.skipif(not WEAVIATE, reason="CORTEX_TEST_WEAVIATE names no server: make test-cluster does"),
]

FEED = [
    asserted("t1", "Ticket 88 is owned by Sam."),
    asserted("t2", "Ticket 88 is owned by Ines."),
    *[asserted("n", f"The build takes {n} minutes.", revision=n) for n in (2, 4, 3)],
    asserted("gone", "This is withdrawn."),
    retracted("gone"),
    {"type": "entity.declared", "data": {"id": "billing", "type": "system", "name": "Billing Service"}},
    {"type": "relation.declared", "data": {"source_id": "core", "relation": "owns", "target_id": "billing"}},
]


@pytest.fixture
def settings(tmp_path):
    """A data folder whose knowledge is in SQLite, and a Weaviate with collections of its own."""
    DataFolder.claim(tmp_path / "data").close()
    url, grpc = WEAVIATE.split(",")
    prefix = f"migrating-{uuid.uuid4().hex}."
    return Settings(
        data_dir=tmp_path / "data", embedder="hashed", topic_prefix=prefix, weaviate_url=url, weaviate_grpc=grpc
    )


def on_weaviate(settings: Settings) -> Settings:
    """The same installation after its switch."""
    return settings.model_copy(update={"store": "weaviate"})


async def serve(settings: Settings, events: list[dict]) -> None:
    """Do what a Cortex does: keep the events in the log and store them."""
    log = Journal.open(settings.journal_path, settings.partitions, SystemClock())
    try:
        await log.append([parse_event(envelope(event)) for event in events])
        async with open_side(settings) as side:
            await Rebuild(log, side.writer, side.reader, HashedEmbedder()).run("acme", Buried())
    finally:
        await log.close()


async def digest(settings: Settings) -> dict[str, str]:
    async with open_side(settings) as side:
        return await side.writer.digest("acme")


async def test_everything_is_in_the_other_store_and_a_second_run_takes_what_came_since(settings):
    await serve(settings, FEED)
    [first] = await migrate_store(settings, "weaviate")
    assert first.verdict.differences == ()
    assert first.tally.events == len(FEED)
    full = {part for part, one in first.verdict.parts.items() if one.things}
    assert full == {*PARTS, "states"} - {"documents"}
    await serve(settings, [asserted("t3", "Ticket 88 is owned by Zoe.")])
    [second] = await migrate_store(settings, "weaviate")
    assert second.verdict.differences == ()
    assert second.tally.events == 1
    assert second.verdict.parts["contradictions"].things == 3


async def test_there_and_back_again_is_the_same_knowledge(settings):
    """SQLite to Weaviate, which goes on alone; back into the files that were left behind, and into none."""
    await serve(settings, FEED)
    at_first = await digest(settings)
    await migrate_store(settings, "weaviate")
    assert await digest(on_weaviate(settings)) == at_first

    await serve(on_weaviate(settings), [asserted("t3", "Ticket 88 is owned by Zoe."), retracted("t1")])
    job = Job(
        id="c1", tenant="acme", kind="reindex", state="done", requested_by="ana", requested_at=SystemClock().now(),
    )  # fmt: skip
    async with open_side(on_weaviate(settings)) as side:
        await side.writer.save_job("acme", job)
    gone_on = await digest(on_weaviate(settings))
    assert gone_on != at_first
    [back] = await migrate_store(on_weaviate(settings), "sqlite")
    assert (back.verdict.differences, back.tally.events) == ((), 2)
    assert await digest(settings) == gone_on

    shutil.rmtree(settings.knowledge_dir)
    [anew] = await migrate_store(on_weaviate(settings), "sqlite")
    assert (anew.verdict.differences, anew.tally.events) == ((), len(FEED) + 2)
    assert anew.tally.computed == 4, "what t1 and gone said, and two revisions of n: nobody keeps those vectors"
    assert anew.tally.borrowed > 0
    assert await digest(settings) == gone_on
    async with open_side(settings) as side, side.reader.snapshot("acme") as snapshot:
        assert await snapshot.jobs(10) == [job]


async def test_a_store_whose_index_is_of_another_model_is_refused_before_anything_is_written(settings):
    """Its events would be taken for ones that cannot be stored."""
    await serve(settings, FEED)
    await migrate_store(settings, "weaviate")
    async with open_side(on_weaviate(settings)) as side:
        await side.writer.add_model("acme", "other/3", 3)
        texts = await side.writer.texts_without("acme", "other/3", 100)
        vectors = {one.content_key: np.eye(1, 3, dtype=np.float32) for one in texts}
        await side.writer.put_vectors("acme", "other/3", vectors)
        assert await side.writer.activate_model("acme", "other/3")
    await serve(settings, [asserted("t3", "Ticket 88 is owned by Zoe.")])
    before = await digest(on_weaviate(settings))
    with pytest.raises(InvalidInput, match="other/3"):
        await migrate_store(settings, "weaviate")
    assert await digest(on_weaviate(settings)) == before


async def test_the_store_that_serves_is_no_target(tmp_path):
    with pytest.raises(InvalidInput, match="sqlite already"):
        await migrate_store(Settings(data_dir=tmp_path), "sqlite")
