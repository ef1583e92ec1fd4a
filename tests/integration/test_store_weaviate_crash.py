"""Weaviate is killed within a write and has objects without their indexes; a repetition of the write makes them whole.

Each index has a log of its own, and a kill may come between two of them. That moment is too short to be met at will: here the
server is killed after the write, and the logs of indexes are cut to what they were before it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from compose.native.weaviate import WeaviatePorts, start_weaviate
from shared.clock import ManualClock
from shared.errors import StoreUnavailable
from shared.stores.memory import MemoryStore
from shared.stores.weaviate import WeaviateReader, WeaviateWriter
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.conditions import is_
from shared.stores.weaviate.records import object_id
from shared.stores.weaviate.schema import record_collection, unit_collection
from shared.stores.weaviate.table import Stored, Table
from tests.contract.knowledge_events import MODEL, NOW, TENANT, Store
from tests.contract.test_store_order import EFFECTS, _state

pytestmark = [pytest.mark.integration, pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(300)]
CLOCK = ManualClock(NOW)
HALF = len(EFFECTS) // 2
IDENTITIES = frozenset({"_id", "keys", "unit_id"})


class WithoutLedger(WeaviateWriter):
    """A process that is killed before the ledger has what it did."""

    async def _note(self, tenant, news):
        raise StoreUnavailable("killed here")


class WithoutLiveUnits(WeaviateWriter):
    """A process that is killed once it has written what was said, and nothing that follows from it."""

    async def _commit(self, tenant):
        commit = await super()._commit(tenant)
        commit._settle = self._killed
        return commit

    async def _killed(self, *_given):
        raise StoreUnavailable("killed here")


@pytest.fixture
async def server(tmp_path):
    running = await start_weaviate(tmp_path / "weaviate", WeaviatePorts.free())
    yield running
    await running.kill()


@dataclass(frozen=True)
class Cut:
    """A moment at which the server is killed. ``collection``: the one that is written then (a pattern of folder names).

    ``spared``: properties whose index was on disk.
    """

    prefix: str
    writer: type[WeaviateWriter]
    collection: str
    spared: frozenset[str] = frozenset()

    def logs(self, folder: Path) -> dict[Path, int]:
        """Return the size of the log of each index that is not spared."""
        names = {f"property_{name}" for name in self.spared}
        found = folder.glob(f"weaviate/data/{self.prefix.lower()}{self.collection}/*/lsm/property_*/*.wal")
        return {log: log.stat().st_size for log in found if log.parent.name not in names}

    def make(self, folder: Path, before: Mapping[Path, int]) -> int:
        """Take from each log what was not there before; return from how many something was taken."""
        grown = {log for log, size in self.logs(folder).items() if size > before.get(log, 0)}
        for log in grown:
            with log.open("r+b") as file:
                file.truncate(before.get(log, 0))
        return len(grown)


CUTS = (
    Cut("RecordsA", WithoutLiveUnits, "record"),
    Cut("RecordsB", WithoutLiveUnits, "record", IDENTITIES),
    Cut("UnitsA", WithoutLedger, "unit*"),
    Cut("UnitsB", WithoutLedger, "unit*", IDENTITIES),
)
"""What is searched is written once what was said is on disk with all its indexes; the ledger comes last."""


def seen(state: dict) -> dict:
    """Return what must agree: scores and counts are Weaviate's own, and the order of what scores alike follows them."""
    found = {name: value for name, value in state.items() if name != "counts" and name[0] not in {"keyword", "vector"}}
    near = {name: [(hit[0], round(hit[1], 5), hit[2]) for hit in hits]
            for name, hits in state.items() if name[0] == "vector"}  # fmt: skip
    return found | near | {name: {hit[2] for hit in hits} for name, hits in state.items() if name[0] == "keyword"}


async def test_what_a_killed_server_kept_without_indexes_is_whole_when_the_batch_comes_again(server, tmp_path):
    def opened(cut: Cut, writer: type[WeaviateWriter] = WeaviateWriter) -> WeaviateWriter:
        return writer(server.url, server.grpc, CLOCK, prefix=cut.prefix)

    before: dict[Path, int] = {}
    for cut in CUTS:
        async with closing(opened(cut)) as first, closing(opened(cut, cut.writer)) as killed:
            await first.apply(TENANT, EFFECTS[:HALF])
            before |= cut.logs(tmp_path)
            with pytest.raises(StoreUnavailable, match="killed here"):
                await killed.apply(TENANT, EFFECTS[HALF:])
    await server.kill()
    for cut in CUTS:
        assert cut.make(tmp_path, before) > 3
    await server.start()

    memory = MemoryStore(CLOCK)
    await memory.apply(TENANT, EFFECTS)
    expected = seen(await _state(Store(memory, memory)))
    for cut in CUTS:
        reader = WeaviateReader(server.url, server.grpc, clock=CLOCK, prefix=cut.prefix)
        async with closing(opened(cut)) as writer, closing(reader):
            await writer.apply(TENANT, EFFECTS[HALF:])
            found = seen(await _state(Store(writer, reader)))
            wrong = {name: (found[name], wanted) for name, wanted in expected.items() if found[name] != wanted}
            assert wrong == {}, cut


async def test_a_server_that_starts_is_unavailable_and_never_empty(server):
    """Whoever took "not loaded yet" for "not there" would withdraw what is known."""
    reader = WeaviateReader(server.url, server.grpc, clock=CLOCK)
    async with closing(WeaviateWriter(server.url, server.grpc, CLOCK)) as writer, closing(reader):
        await writer.apply(TENANT, EFFECTS[:HALF])
        await server.kill()
        starting = asyncio.create_task(server.start())
        answers = set()
        while not starting.done():
            try:
                async with reader.snapshot(TENANT) as snapshot:
                    answers.add(await snapshot.model())
            except StoreUnavailable:
                await asyncio.sleep(0)
        await starting
        assert answers <= {MODEL}


async def test_vectors_that_were_acknowledged_are_found_after_a_kill(server):
    """One batch, and nothing after it that would write the vector index's log out."""
    collection = unit_collection("Test", MODEL)
    async with closing(Client(server.url, server.grpc)) as client:
        await client.ensure(collection)
        table = Table(client, collection.name, TENANT)
        units = [Stored(object_id(n), {"unit_id": f"u{n}"}, (1.0, float(n))) for n in range(100)]
        await table.put(units)
        await server.kill()
        await server.start()
        lost = [
            n for n, one in enumerate(units) if not await table.near(one.vector, is_("unit_id", f"u{n}"), [], limit=1)
        ]
        assert lost == []


async def test_a_delete_that_failed_is_done_by_id_before_anything_else_is_written(server, tmp_path):
    """What lost its indexes and is still there is found by no filter, but by whoever reads everything."""
    collection = record_collection("Test")
    async with closing(Client(server.url, server.grpc)) as client:
        await client.ensure(collection)
        table = Table(client, collection.name, TENANT)
        one, other = (Stored(object_id(name), {"kind": name, "slot": 1}) for name in ("one", "other"))
        await table.put([one])
        await server.kill()
        assert Cut("Test", WeaviateWriter, "record").make(tmp_path, {})
        with pytest.raises(StoreUnavailable):
            await table.delete([one.id])
        await server.start()
        assert [stored.id async for stored in table.walk(["kind"])] == [one.id]
        await table.put([other])
        assert [stored.id async for stored in table.walk(["kind"])] == [other.id]


@asynccontextmanager
async def closing(opened):
    """Close it at the end."""
    try:
        yield opened
    finally:
        await opened.close()
