"""Epochs of the embedded broker: when one ends, in which order, and what begins after it.

The broker is real, the pipeline has no stages.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from compose.local.broker_epoch import BrokerEpochs
from compose.local.children import Child, broker_command, listening
from compose.local.ports import free_port
from shared.errors import DiskFull, LogUnavailable, NotReady

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

BOUND_S = 30.0


class Recorder:
    """Writes down what happens, and lets tests wait for it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._more = asyncio.Condition()

    async def tell(self, what: str) -> None:
        async with self._more:
            self.told.append(what)
            self._more.notify_all()

    async def until(self, what: str, times: int = 1) -> None:
        async with asyncio.timeout(BOUND_S), self._more:
            await self._more.wait_for(lambda: self.told.count(what) >= times)


class RecordingPipeline:
    """A pipeline without stages: it says when it is started and stopped, and whether its broker answers then."""

    def __init__(self, recorder: Recorder, port: int) -> None:
        self.failed = asyncio.Event()
        self.lags = {"pump": 0}
        self.start_error: Exception | None = None
        self.hangs = False
        self._recorder = recorder
        self._port = port

    async def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        if self.hangs:
            await self._recorder.tell("hangs")
            await asyncio.Event().wait()
        await self._recorder.tell(f"start, broker {self._broker()}")

    async def stop(self) -> None:
        await self._recorder.tell(f"stop, broker {self._broker()}")

    def lag(self) -> dict[str, int]:
        return self.lags

    def _broker(self) -> str:
        with socket.socket() as probe:
            return "up" if probe.connect_ex(("127.0.0.1", self._port)) == 0 else "gone"


class Rig:
    """Epochs on a real broker, each with a new recording pipeline."""

    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder()
        self.stop = asyncio.Event()
        self.begun = asyncio.Event()
        self.kind = Child
        self.port = free_port("127.0.0.1", 0, "kafka_port")
        self.brokers: list[Child] = []
        self.pipelines: list[RecordingPipeline] = []
        self.prepare: Callable[[RecordingPipeline], None] = lambda _: None
        self._folder = folder

    def epochs(self, limit_mb: float = 500) -> BrokerEpochs:
        return BrokerEpochs(
            self._start_broker, self._make_pipeline, limit_mb=limit_mb, drain_s=1, on_running=self.begun.set
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.epochs().run(self.stop))
        try:
            yield task
        finally:
            self.stop.set()
            await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), BOUND_S)
        assert all(broker.ended for broker in self.brokers)

    def broker_pid(self) -> int:
        [command] = psutil.Process(self.brokers[-1].guard_pid).children()
        return int(command.pid)

    async def _start_broker(self) -> Child:
        child = await self.kind.start(broker_command(self.port, self._folder), output=asyncio.subprocess.DEVNULL)
        self.brokers.append(child)
        await listening(child, self.port, BOUND_S)
        return child

    def _make_pipeline(self) -> RecordingPipeline:
        pipeline = RecordingPipeline(self.recorder, self.port)
        self.prepare(pipeline)
        self.pipelines.append(pipeline)
        return pipeline


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


UP, STOPPED = "start, broker up", "stop, broker up"


async def test_asked_to_stop_the_pipeline_goes_before_the_broker(rig: Rig) -> None:
    async with rig.running() as task:
        await rig.recorder.until(UP)
        rig.stop.set()
        await asyncio.wait_for(task, BOUND_S)
    assert rig.recorder.told == [UP, STOPPED]


async def test_asked_to_stop_while_starting_it_does_not_wait_for_the_start(rig: Rig) -> None:
    rig.prepare = lambda pipeline: setattr(pipeline, "hangs", True)
    async with rig.running() as task:
        await rig.recorder.until("hangs")
        rig.stop.set()
        await asyncio.wait_for(task, BOUND_S)
    assert rig.recorder.told == ["hangs", STOPPED]


async def test_a_broker_that_is_killed_is_replaced_and_the_pipeline_begins_anew(rig: Rig) -> None:
    async with rig.running():
        await rig.recorder.until(UP)
        os.kill(rig.broker_pid(), signal.SIGKILL)
        await rig.recorder.until(UP, times=2)
    assert rig.recorder.told == [UP, "stop, broker gone", UP, STOPPED]
    assert len(rig.pipelines) == 2


async def test_a_pipeline_whose_part_died_is_replaced_together_with_the_broker(rig: Rig) -> None:
    async with rig.running():
        await rig.recorder.until(UP)
        rig.pipelines[0].failed.set()
        await rig.recorder.until(UP, times=2)
    assert rig.recorder.told == [UP, STOPPED, UP, STOPPED]
    assert len(rig.brokers) == 2


class GrowingBroker(Child):
    """A broker that says it has grown to 600 MB once it is told to, and how often it was asked."""

    looks: asyncio.Semaphore | None = None

    def memory_mb(self) -> float:
        if self.looks is None:
            return super().memory_mb()
        self.looks.release()
        return 600.0


async def test_a_broker_over_its_limit_is_renewed_once_nothing_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compose.local.broker_epoch.LOOK_EVERY_S", 0.02)
    rig.kind = GrowingBroker
    async with rig.running():
        await asyncio.wait_for(rig.begun.wait(), BOUND_S)
        rig.pipelines[0].lags["store"] = 3
        first = rig.brokers[0]
        assert isinstance(first, GrowingBroker)
        first.looks = asyncio.Semaphore(0)
        for _ in range(3):  # looked at three times, and still the first epoch
            await asyncio.wait_for(first.looks.acquire(), BOUND_S)
        assert rig.recorder.told == [UP]
        rig.pipelines[0].lags["store"] = 0
        await rig.recorder.until(UP, times=2)
    assert rig.recorder.told == [UP, STOPPED, UP, STOPPED]


async def test_a_pipeline_that_never_starts_ends_the_process_after_a_few_tries(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compose.local.restarts.FIRST_WAIT_S", 0.001)
    rig.prepare = lambda pipeline: setattr(pipeline, "start_error", LogUnavailable("no topics"))
    async with rig.running() as task:
        with pytest.raises(NotReady, match="no topics"):
            await asyncio.wait_for(asyncio.shield(task), BOUND_S)
    assert len(rig.pipelines) == 6


async def test_an_error_of_the_data_folder_is_not_tried_again(rig: Rig) -> None:
    rig.prepare = lambda pipeline: setattr(pipeline, "start_error", DiskFull())
    async with rig.running() as task:
        with pytest.raises(DiskFull):
            await asyncio.wait_for(asyncio.shield(task), BOUND_S)
    assert rig.recorder.told == [STOPPED]
