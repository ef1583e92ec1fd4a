"""How a pipeline begins and ends: members that come and go, restarts, crashes in every gap, a broker that dies."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.pipeline import Pipeline
from shared.errors import LogUnavailable
from shared.kafka import CONTRADICTIONS, EVENTS, GRAPH, STORED, Outgoing, Publisher
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, asserted, read, retracted, running, until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

NAMES = [f"u{n}" for n in range(30)]


def facts(names: Sequence[str] = NAMES) -> list[dict]:
    return [asserted(name, f"The limit of {name} is {len(name)}.") for name in names]


async def all_there(rig: Rig, names: Sequence[str] = NAMES) -> bool:
    return len(await rig.units(*names)) == len(names)


async def test_members_join_and_leave_under_load_and_nothing_is_lost_or_doubled(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as rig:
        second = rig.make(epoch=rig.pipeline.epoch, pump=False)
        names: list[str] = []
        done = asyncio.Event()

        async def load() -> None:
            while not done.is_set():
                fresh = [f"u{len(names) + n}" for n in range(5)]
                await rig.say(*facts(fresh))
                names.extend(fresh)
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            group.create_task(load())
            await until(lambda: len(names) > 50)
            await second.start()
            await until(lambda: handled(second) > 0)
            before = handled(rig.pipeline)
            await second.stop()
            await until(lambda: handled(rig.pipeline) > before)
            done.set()
        # while partitions are on their way from the one that left, nobody has them, and nobody says that they wait
        await until(lambda: all_there(rig, names))
        await rig.settle()
        assert await rig.letters() == []
        receipts = [record for record in await rig.topic(STORED) if record.value]
        assert len(receipts) == len(names), "each event was handled once: drained at each revoke, and no commit failed"
        assert failed_commits(rig.pipeline) + failed_commits(second) == 0


class Crash(Publisher):
    """A publisher that stops the world before, or right after, the receipts of the store stage are acknowledged."""

    after = False

    def watch(self) -> "Crash":
        self.reached = asyncio.Event()
        return self

    async def publish(self, topic: str, partition: int, messages: Sequence[Outgoing]) -> None:
        if topic == STORED and not self.after:
            await self._stop()
        await super().publish(topic, partition, messages)
        if topic == STORED:
            await self._stop()

    async def _stop(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


class CrashAfter(Crash):
    after = True


class Doomed(Pipeline):
    """A pipeline that stands still in a gap, and is then ended as a crash would end it: no drain, no commit."""

    publisher_kind: type[Crash] = Crash

    async def _open_publisher(self, prefix: str, *, idempotent: bool) -> Publisher:
        opened = await self.publisher_kind.open(self._bootstrap, prefix=prefix, idempotent=idempotent)
        self.crash = opened.watch()
        return opened


class DoomedAfter(Doomed):
    publisher_kind = CrashAfter


async def test_a_crash_in_any_gap_loses_nothing_and_doubles_nothing(broker: BrokerProcess, prefix: str, tmp_path: Path):
    """Effect durable | outputs acknowledged | offset committed: a crash at each bar, and then a new pipeline."""
    calm = Rig(broker.bootstrap, f"{prefix}calm.", tmp_path / "calm")
    rigs = {
        "durable": Rig(broker.bootstrap, f"{prefix}durable.", tmp_path / "durable"),
        "before": Rig(broker.bootstrap, f"{prefix}before.", tmp_path / "before"),
        "after": Rig(broker.bootstrap, f"{prefix}after.", tmp_path / "after"),
    }
    await asyncio.gather(*(rig.prepare() for rig in (calm, *rigs.values())))
    rigs["before"].pipeline = rigs["before"].make(Doomed)
    rigs["after"].pipeline = rigs["after"].make(DoomedAfter)
    rigs["durable"].writer.gap = True
    events = [*facts(), asserted("a", "The port of Ledger is 5."), asserted("b", "The port of Ledger is 6.")]
    everyone = [calm, *rigs.values()]
    try:
        await asyncio.gather(*(rig.pipeline.start() for rig in everyone))
        for rig in everyone:
            await rig.log.append([_same(event, n) for n, event in enumerate(events)])
        reached = {
            "durable": rigs["durable"].writer.reached,
            "before": rigs["before"].pipeline.crash.reached,
            "after": rigs["after"].pipeline.crash.reached,
        }
        for name, event in reached.items():
            await asyncio.wait_for(event.wait(), 30)
            await _kill(rigs[name].pipeline)
            assert (await rigs[name].digest())["units"], name
        rigs["durable"].writer.gap = False
        for rig in rigs.values():
            rig.pipeline = rig.make()
        await asyncio.gather(*(rig.pipeline.start() for rig in rigs.values()))
        await asyncio.gather(*(rig.settle() for rig in everyone))
        wanted = await calm.digest()
        for name, rig in rigs.items():
            assert await rig.digest() == wanted, name
            assert await rig.letters() == [], name
        async with calm.reader.snapshot("acme") as snapshot:
            assert [pair.found.id for pair in await snapshot.contradictions()] == ["a~b"]
    finally:
        for rig in everyone:
            await rig.close()


@pytest.mark.embedded_only("Kafka keeps its topics and has no epochs")
async def test_a_broker_dies_and_the_next_epoch_republishes_only_what_is_above_the_watermarks(
    own_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with running(Rig(own_broker.bootstrap, "", tmp_path / "knowledge")) as rig:
        await rig.say(*facts(), asserted("a", "The port of Ledger is 5."), asserted("b", "The port of Ledger is 6."))
        await rig.settle()
        digest, computed = await rig.digest(), rig.embedder.computed.total()
        own_broker.kill()
        late = [f"late{n}" for n in range(7)]
        await rig.say(*facts(late))
        await asyncio.wait_for(rig.pipeline.stop(), 20)
        rig.pipeline = rig.make()
        with pytest.raises(LogUnavailable):
            await rig.pipeline.start()
        own_broker.start()
        rig.pipeline = rig.make()
        await rig.pipeline.start()
        await rig.settle()
        assert await all_there(rig, [*NAMES, *late])
        assert len([record for record in await rig.topic(EVENTS) if record.value]) == len(late)
        assert rig.embedder.computed.total() == computed + len(late)
        refilled = {record.key for record in await rig.topic(GRAPH)}
        assert {f"acme/unit:{name}".encode() for name in NAMES} <= refilled, "the graph is whole again"
        assert b"acme/a~b" in {record.key for record in await rig.topic(CONTRADICTIONS)}
        await rig.say(*[retracted(name) for name in late])
        await rig.settle()
        assert {**await rig.digest(), "tombstones": None} == {**digest, "tombstones": None}
        monkeypatch.setattr(rig.log, "read", _broken)
        await asyncio.wait_for(rig.pipeline.failed.wait(), 20)  # whoever runs it begins the next epoch


async def _broken(after: int, limit: int) -> list:
    """Fail as nothing foresaw."""
    raise ZeroDivisionError(after, limit)


def _same(event: dict, number: int):
    return read({**event, "id": f"event-{number}"})


async def _kill(pipeline: Pipeline) -> None:
    """End it as SIGKILL would: what is in hand is dropped, and nothing more is committed."""
    for lanes in pipeline._lanes.values():
        lanes._commit = _nothing
    await pipeline.stop(drain_s=0)


async def _nothing() -> None:
    """Commit nothing."""


def handled(pipeline: Pipeline) -> float:
    """Return how many records the pipeline's store stage has finished."""
    value = pipeline.metrics.registry.get_sample_value("cortex_ingest_records_total", {"stage": "store"})
    return value or 0.0


def failed_commits(pipeline: Pipeline) -> float:
    """Return how many commits of the pipeline failed."""
    return sum(
        sample.value
        for metric in pipeline.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "cortex_ingest_commits_total" and sample.labels["outcome"] == "failed"
    )
