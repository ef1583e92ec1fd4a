"""A rebuild against the real pipeline: what the stages made of a feed is what the log says, also while they go on."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from ingest.buried import buried_in
from ingest.rebuild import Rebuild
from ingest.verify import Side, Verdict, verify
from shared.clock import SystemClock
from shared.log import BULK, EventLog
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.conftest import BROKER
from tests.integration.ingesting import Rig, asserted, following, retracted, running

pytestmark = [pytest.mark.anyio, pytest.mark.integration]

OWNERS = ("Sam", "Ines", "Omar")


@pytest.fixture
async def rig(broker, prefix, tmp_path):
    async with running(await Rig(broker.bootstrap, prefix, tmp_path / "live").prepare()) as started:
        yield started


def feed() -> list[dict]:
    """Units with revisions, withdrawals, equal texts, contradictions, and names that are tied together late."""
    tickets = [asserted(f"t{n}", f"Ticket {n // 3} is owned by {OWNERS[n % 3]}.") for n in range(30)]
    limits = [
        asserted("five", "The retry limit for the Billing Service is 5."),
        asserted("six", "The retry limit for the Ledger Hub is 6."),
    ]
    declared = {"id": "billing", "type": "system", "name": "Billing Service", "aliases": ["Ledger Hub"]}
    numbered = [asserted("n", f"The build takes {n} minutes.", revision=n) for n in (2, 4, 1, 3)]
    said = [asserted("same", "Gates close at ten."), asserted("again", "Gates close at ten."), retracted("again")]
    changed = [asserted("t0", "Ticket 0 is owned by Zoe."), retracted("t4")]
    return [*tickets, *limits, *numbered, *said, {"type": "entity.declared", "data": declared}, *changed]


@asynccontextmanager
async def log_of(rig: Rig) -> AsyncIterator[EventLog]:
    """Give the rig's log with its dead letters: on Kafka as a process that has just been started sees them."""
    if BROKER != "kafka":
        yield rig.log
        return
    async with following(await rig.open_log()) as log:
        yield log


async def compare(rig: Rig, folder) -> tuple[Verdict, Rebuild]:
    """Compare the rig's store with one rebuilt in a folder."""
    writer = SqliteWriter(folder, SystemClock())
    reader = SqliteReader(folder, threads=1, vector_memory_mb=16)
    try:
        async with log_of(rig) as log:
            rebuild = Rebuild(log, writer, reader, rig.embedder, lender=rig.writer)

            async def replay(marks) -> set[str]:
                return await rebuild.run("acme", await buried_in(log, rig.reader, "acme"), marks)

            return await verify("acme", Side(rig.reader, rig.writer), Side(reader, writer), replay), rebuild
    finally:
        await reader.close()
        await writer.close()


async def test_the_store_is_what_the_log_says(rig: Rig, tmp_path):
    """Nothing is embedded again: every vector that is still in use is borrowed."""
    for event in feed():
        await rig.say(event)
    await rig.settle()
    rig.embedder.computed.clear()
    verdict, rebuild = await compare(rig, tmp_path / "fresh")
    assert verdict.differences == ()
    assert verdict.settled
    things = {part: one.things for part, one in verdict.parts.items()}
    assert things.pop("mentions") > 0
    assert things == {
        "units": 33, "history": 2, "tombstones": 2, "documents": 0, "entities": 1, "relations": 0, "contradictions": 29,
        "states": 33,
    }  # fmt: skip
    assert rebuild.tally.events == len(feed())
    gone = {"The build takes 2 minutes.", "The build takes 1 minutes.", "The build takes 3 minutes."}
    assert set(rig.embedder.computed) <= gone | {"Ticket 0 is owned by Sam.", "Ticket 1 is owned by Ines."}


async def test_a_store_that_is_written_meanwhile_is_compared_as_well(rig: Rig, tmp_path):
    await rig.say(*feed())
    done = asyncio.Event()

    async def go_on() -> None:
        for n in range(40):
            await rig.say(
                asserted(f"on-{n % 10}", f"Gate {n} opens at dawn."), topic=BULK if n % 2 else "cortex.events"
            )
        done.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(go_on())
        verdict, _ = await compare(rig, tmp_path / "fresh")
    assert verdict.differences == ()
    await rig.settle()
    assert done.is_set()
    verdict, _ = await compare(rig, tmp_path / "later")
    assert (verdict.differences, verdict.settled) == ((), True)


async def test_an_event_that_the_pipeline_buried_is_left_out_and_said_to_be_mended(rig: Rig, tmp_path):
    """The embedder refused one text for good; at the rebuild it works again."""
    rig.embedder.fault = lambda text: ValueError("not this one") if "stubborn" in text else None
    await rig.say(asserted("ok", "The build runs nightly."), asserted("no", "A stubborn text."))
    await rig.settle()
    rig.embedder.fault = lambda _: None
    verdict, rebuild = await compare(rig, tmp_path / "fresh")
    assert verdict.differences == ()
    assert len(rebuild.tally.mended) == 1


async def test_a_unit_that_the_store_has_lost_is_named_with_all_that_went_with_it(rig: Rig, tmp_path):
    await rig.say(*feed())
    await rig.settle()
    with closing(sqlite3.connect(tmp_path / "live" / "acme.db")) as damaged:
        damaged.execute("DELETE FROM unit WHERE unit_id = 'five'")
        damaged.commit()
    verdict, _ = await compare(rig, tmp_path / "fresh")
    found = {(one.part, one.identity): one for one in verdict.differences}
    assert set(found) == {
        ("units", "five"), ("mentions", "five"), ("states", "five"), ("contradictions", "five~six")
    }  # fmt: skip
    assert found["units", "five"].live is None
    assert "The retry limit for the Billing Service is 5." in found["units", "five"].rebuilt
    assert "5 ≠ 6" in found["contradictions", "five~six"].rebuilt
