"""A kill between any two steps of the commit discipline (ingest/lanes.py), stage by stage: nothing is lost or done twice.

In each case one pipeline stands still right after a step of one stage, and is ended there as a crash would end it: what is
in hand is dropped, nothing more is published or committed. Another pipeline goes on. The same events through a pipeline
that nobody disturbed say what must be known then.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ingest.lanes import Lanes
from ingest.pipeline import Pipeline
from schemas.commands import JobState
from schemas.graph import Contribution
from shared.boards.memory import MemoryBoard
from shared.kafka import (
    CONTRADICTIONS,
    EMBEDDED,
    EPOCH_KEY,
    GRAPH,
    RESOLVED,
    STORED,
    Outgoing,
    Publisher,
    partition_of,
)
from shared.news import START
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, as_bytes, asserted, read, retracted
from tests.integration.ordering import job_of, over, reindex

# on Kafka alone: a group takes seconds to form on the embedded broker, and there are thirty of them
pytestmark = [pytest.mark.integration, pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(240)]

EVENTS_SAID: list[dict] = [
    *(asserted(f"u{n}", f"The limit of part {n} is {n}.") for n in range(16)),
    *(asserted(f"u{n}", f"The limit of part {n} was raised to {n + 50}.") for n in range(4)),
    retracted("u5"),
    asserted("a", "The port of Ledger is 5."),
    asserted("b", "The port of Ledger is 6."),
]


class Gap:
    """A step after which the world stands still, while it is open. ``reached`` is set then.

    It opens once the pipeline has started: a refill publishes to the compacted topics too.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = False

    async def stand_still(self) -> None:
        if self.open:
            self.reached.set()
            await asyncio.Event().wait()


class Halting(Publisher):
    """A publisher that stands still before or after what it publishes to a topic is acknowledged."""

    gap: Gap
    topic: str
    before = False

    async def publish(self, topic: str, partition: int, messages: Sequence[Outgoing]) -> None:
        if topic == self.topic and self.before:
            await self.gap.stand_still()
        await super().publish(topic, partition, messages)
        if topic == self.topic:
            await self.gap.stand_still()


class HaltingBefore(Halting):
    before = True


class Doomed(Pipeline):
    """A pipeline with a gap: ``publisher`` stands still at a topic, ``committing`` after the first commit of a stage."""

    gap: Gap
    publisher: tuple[type[Halting], str] | None = None
    committing: str | None = None

    async def _open_publisher(self, prefix: str, *, idempotent: bool) -> Publisher:
        if self.publisher is None:
            return await super()._open_publisher(prefix, idempotent=idempotent)
        kind, topic = self.publisher
        opened = await kind.open(self._bootstrap, prefix=prefix, idempotent=idempotent)
        opened.gap, opened.topic = self.gap, topic
        return opened

    def _add(self, stage, polling, tasks) -> None:
        super()._add(stage, polling, tasks)
        if stage.name == self.committing:
            _halt_after_commit(self._lanes[stage.name], self.gap)


def _halt_after_commit(lanes: Lanes, gap: Gap) -> None:
    commit = lanes._commit

    async def commit_and_halt() -> None:
        await commit()
        if any(lane.committed is not None for lane in lanes._lanes.values()):
            await gap.stand_still()

    lanes._commit = commit_and_halt


class Steered:
    """Another's methods, of which one stands still when it has done its work."""

    def __init__(self, inner: object, method: str, gap: Gap, *, before: bool = False) -> None:
        self._inner = inner
        self._method = method
        self._gap = gap
        self._before = before

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if name != self._method:
            return found

        async def call(*given: object, **named: object) -> object:
            if self._before:
                await self._gap.stand_still()
            answer = await found(*given, **named)
            await self._gap.stand_still()
            return answer

        return call


Arrange = Callable[["Case"], None]


class Case:
    """One installation with one gap."""

    def __init__(self, name: str, rig: Rig, arrange: Arrange) -> None:
        self.name = name
        self.rig = rig
        self.gap = Gap()
        self.board = MemoryBoard()
        self._arrange = arrange

    async def prepare(self) -> None:
        await self.rig.prepare()
        self.doom()
        self._arrange(self)

    def doom(self, **given: object) -> None:
        """Let the pipeline be one that stands still."""
        kind = type("DoomedHere", (Doomed,), {"gap": self.gap, **given})
        self.rig.pipeline = self.rig.make(kind, board=self.board)

    async def start(self) -> None:
        await self.rig.pipeline.start()
        self.gap.open = True

    async def crash(self) -> None:
        """End the pipeline where it stands, and begin another."""
        try:
            await asyncio.wait_for(self.gap.reached.wait(), 60)
        except TimeoutError:
            pytest.fail(f"the gap was never reached: {self.name}")
        pipeline = self.rig.pipeline
        for lanes in pipeline._lanes.values():
            lanes._commit = _nothing
        await pipeline.stop(drain_s=0)
        self.gap.open = False
        self.rig.pipeline = self.rig.make(board=self.board)
        await self.rig.pipeline.start()


async def _nothing() -> None:
    """Commit nothing."""


def publishing(topic: str, kind: type[Halting] = Halting) -> Arrange:
    return lambda case: case.doom(publisher=(kind, topic))


def committed(stage: str) -> Arrange:
    return lambda case: case.doom(committing=stage)


def writing(method: str, *, before: bool = False) -> Arrange:
    def arrange(case: Case) -> None:
        case.rig.writer = Steered(case.rig.writer, method, case.gap, before=before)
        case.doom()

    return arrange


def posting(*, before: bool) -> Arrange:
    def arrange(case: Case) -> None:
        board, case.board = case.board, Steered(case.board, "post", case.gap, before=before)
        case.doom()
        case.board = board

    return arrange


def journaling(case: Case) -> None:
    """Where the log is a journal: foreign events are in it, and nothing else has happened to them."""
    case.rig.log = Steered(case.rig.log, "append", case.gap)
    case.doom()


FIRST = {
    "embed: nothing handed on": publishing(EMBEDDED, HaltingBefore),
    "embed: output acknowledged": publishing(EMBEDDED),
    "embed: committed": committed("embed"),
    "resolve: nothing handed on": publishing(RESOLVED, HaltingBefore),
    "resolve: output acknowledged": publishing(RESOLVED),
    "resolve: committed": committed("resolve"),
}
SECOND = {
    "store: effects durable": writing("apply"),
    "store: graph told": publishing(GRAPH),
    "store: receipts acknowledged": publishing(STORED),
    "store: committed": committed("store"),
    "contradictions: durable": writing("record_contradictions"),
    "contradictions: none told": publishing(CONTRADICTIONS, HaltingBefore),
    "contradictions: told": publishing(CONTRADICTIONS),
    "contradictions: committed": committed("contradictions"),
    "news: not posted": posting(before=True),
    "news: posted": posting(before=False),
    "news: committed": committed("news"),
}


@pytest.mark.parametrize("gaps", [FIRST, SECOND], ids=["before the store", "from the store on"])
async def test_a_kill_in_any_gap_loses_nothing_and_doubles_nothing(
    gaps: dict[str, Arrange], broker: BrokerProcess, prefix: str, tmp_path: Path
):
    async with AsyncExitStack() as stack:
        calm, cases = await _installed(gaps, broker, prefix, tmp_path, stack)
        for rig in (calm, *(case.rig for case in cases)):
            await rig.log.append([_same(event, number) for number, event in enumerate(EVENTS_SAID)])
        await asyncio.gather(*(case.crash() for case in cases))
        await asyncio.gather(calm.settle(), *(case.rig.settle() for case in cases))
        for case in cases:
            await _expect_as(calm, case)


@pytest.mark.embedded_only("a record on Kafka is in the log already")
async def test_a_kill_after_foreign_records_are_journaled_loses_and_doubles_none(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    gaps = {"embed: foreign journaled": journaling, "embed: foreign journaled and committed": committed("embed")}
    async with AsyncExitStack() as stack:
        calm, cases = await _installed(gaps, broker, prefix, tmp_path, stack)
        await calm.log.append([_same(event, number) for number, event in enumerate(EVENTS_SAID)])
        for case in cases:
            for number, event in enumerate(EVENTS_SAID):
                said = _same(event, number)
                key = said.key.encode()
                body = as_bytes({**event, "id": said.id})
                await case.rig.produce((key, body, []), partition=partition_of(key, case.rig.settings.partitions))
        for case in cases:
            await asyncio.wait_for(case.gap.reached.wait(), 60)
            kept = await case.rig.log.read(0, 1_000)
            assert kept, case.name
            await case.crash()
            # the broker and what only it held are gone with the epoch; the producer was told nothing, and sends again
            await case.rig.log.append([_same(event, number) for number, event in enumerate(EVENTS_SAID)])
        await asyncio.gather(calm.settle(), *(case.rig.settle() for case in cases))
        for case in cases:
            await _expect_as(calm, case)


JOBS = {
    "commands: page durable": writing("resolve_again"),
    "commands: page told": publishing(GRAPH),
    "commands: cursor saved": writing("save_job"),
    "commands: committed": committed("commands"),
}


async def test_a_kill_in_any_gap_of_a_command_lets_it_go_on_and_end_once(
    broker: BrokerProcess, prefix: str, tmp_path: Path
):
    """The events are handled first, undisturbed; the gaps are those of a job that resolves them anew."""
    async with AsyncExitStack() as stack:
        calm, cases = await _installed(dict.fromkeys(JOBS, _nothing_yet), broker, prefix, tmp_path, stack)
        everyone = [calm, *(case.rig for case in cases)]
        for rig in everyone:
            await rig.log.append([_same(event, number) for number, event in enumerate(EVENTS_SAID)])
        await asyncio.gather(*(rig.settle() for rig in everyone))
        for case in cases:
            await case.rig.pipeline.stop()
            case.gap.open = False
            JOBS[case.name](case)
        async with asyncio.timeout(60):
            await asyncio.gather(*(case.start() for case in cases))
        commands = [await reindex(case.rig, "resolve") for case in cases]
        await asyncio.gather(*(case.crash() for case in cases))
        for case, command in zip(cases, commands, strict=True):
            job = await over(case.rig, command)
            assert (job.state, job.failed) == (JobState.DONE, 0), case.name
            assert job.done == (await _counted(case.rig)), case.name
            await case.rig.settle()
            assert (await job_of(case.rig, command)) == job, "an ended job is not done again"
            await _expect_as(calm, case, news=False)


def _nothing_yet(case: Case) -> None:
    case.rig.pipeline = case.rig.make(board=case.board)


async def _counted(rig: Rig) -> int:
    async with rig.reader.snapshot("acme") as snapshot:
        return (await snapshot.counts()).units


async def _installed(
    gaps: dict[str, Arrange], broker: BrokerProcess, prefix: str, folder: Path, stack: AsyncExitStack
) -> tuple[Rig, list[Case]]:
    """Start an undisturbed installation, and one for each gap."""
    calm = Rig(broker.bootstrap, f"{prefix}calm.", folder / "calm")
    cases = [
        Case(name, Rig(broker.bootstrap, f"{prefix}{number}.", folder / str(number)), arrange)
        for number, (name, arrange) in enumerate(gaps.items())
    ]
    for rig in (calm, *(case.rig for case in cases)):
        stack.push_async_callback(rig.close)
    for one in (
        calm,
        *cases,
    ):  # one after the other: a hundred topics at once take a busy broker longer than its clients wait
        await one.prepare()
    async with asyncio.timeout(60):
        await asyncio.gather(calm.pipeline.start(), *(case.start() for case in cases))
    return calm, cases


async def _expect_as(calm: Rig, case: Case, *, news: bool = True) -> None:
    """The state is the undisturbed one's; what was told agrees with it; nothing died of it."""
    rig = case.rig
    assert await rig.digest() == await calm.digest(), case.name
    assert await rig.letters() == [], case.name
    kept = {one.id: one for one in await rig.writer.contributions("acme")}
    assert await _graph(rig) == kept, case.name
    pairs = {record.key for record in await _newest(rig, CONTRADICTIONS)}
    assert b"acme/a~b" in pairs, f"{case.name}: a contradiction that is kept was told"
    if news:
        told = Counter(entry.item.kind for entry in await case.board.read("acme", START, f"{2**60}-0", 1_000))
        assert told["stored"] <= _UNITS, case.name
        assert told["retracted"] <= 1, case.name


_UNITS = len({event["data"]["id"] for event in EVENTS_SAID})


async def _newest(rig: Rig, topic: str) -> list:
    """Return the newest record of each key, as compaction leaves them."""
    newest = {record.key: record for record in await rig.topic(topic) if record.key != EPOCH_KEY}
    return [record for record in newest.values() if record.value is not None]


async def _graph(rig: Rig) -> dict[str, Contribution]:
    found = [Contribution.model_validate_json(record.value) for record in await _newest(rig, GRAPH)]
    # the store does not keep when a unit was read anew
    return {one.id: one.model_copy(update={"remade": 0}) for one in found}


def _same(event: dict, number: int):
    return read({**event, "id": f"event-{number}"})
