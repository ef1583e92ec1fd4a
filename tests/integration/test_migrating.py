"""Moving to another store while the first one serves: the same knowledge, gone on with, and told where it differs."""

import pytest

from compose.local.folder import DataFolder
from compose.moving.migrating import migrate_store
from compose.native.weaviate import WeaviatePorts, start_weaviate
from ingest.buried import Buried
from ingest.rebuild import Rebuild
from schemas.events import parse_event
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.errors import InvalidInput
from shared.fingerprints import PARTS
from shared.logs.journal import Journal
from shared.settings import Settings
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.integration.ingesting import asserted, envelope, retracted

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(300)]

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
async def weaviate(tmp_path):
    server = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    yield server
    await server.stop()


async def serve(settings: Settings, events: list[dict]) -> None:
    """Do what a Cortex on the folder does: journal the events and store them."""
    clock = SystemClock()
    log = Journal.open(settings.journal_path, settings.partitions, clock)
    writer = SqliteWriter(settings.knowledge_dir, clock)
    reader = SqliteReader(settings.knowledge_dir, threads=1, vector_memory_mb=16)
    try:
        await log.append([parse_event(envelope(event)) for event in events])
        await Rebuild(log, writer, reader, HashedEmbedder()).run("acme", Buried())
    finally:
        await reader.close()
        await writer.close()
        await log.close()


async def test_everything_is_in_the_other_store_and_a_second_run_takes_what_came_since(weaviate, tmp_path):
    DataFolder.claim(tmp_path / "data").close()
    settings = Settings(
        data_dir=tmp_path / "data", embedder="hashed", weaviate_url=weaviate.url, weaviate_grpc=weaviate.grpc
    )
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


async def test_the_store_that_serves_is_no_target(tmp_path):
    with pytest.raises(InvalidInput, match="sqlite already"):
        await migrate_store(Settings(data_dir=tmp_path), "sqlite")
