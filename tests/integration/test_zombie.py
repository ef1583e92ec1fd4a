"""A process that stands still past its session and then goes on, not knowing that another has taken its place."""

import asyncio
import contextlib
import fcntl
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from schemas.events import parse_event
from shared.log import EVENTS
from shared.logs.rows import make_row
from shared.store import STORED
from tests.chaos.checks import judge_graph, read_state
from tests.chaos.members import Member
from tests.chaos.plan import TENANTS, Plan, Said
from tests.chaos.servers import serving
from tests.chaos.worlds import EmbeddedWorld, KafkaWorld
from tests.conftest import BROKER
from tests.integration.ingesting import until

# on Kafka alone, for its time; the long chaos run freezes members on the embedded broker too
pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(300)]

UNITS = 300
PATIENCE_S = 90.0
TENANT = TENANTS[0]


def statement(number: int, revision: int) -> Said:
    name = f"unit-{number}"
    scope = {"level": "team", "entity_id": "core"}
    text = f"Shelf {number} holds {revision * 100 + number} boxes."
    data = {"id": name, "text": text, "type": "context", "scope": scope, "revision": revision}
    envelope = {"specversion": "1.0", "id": f"{name}-{revision}", "source": "urn:test", "tenant": TENANT}
    event = parse_event({**envelope, "type": "unit.asserted", "data": data})
    return Said(TENANT, event.key.encode(), make_row(event, EVENTS, 1).body, event)


async def test_a_process_that_stood_still_past_its_session_overwrites_and_doubles_nothing(tmp_path: Path):
    """It is frozen in the middle of its work; another takes over, and handles newer revisions of the same units."""
    old, new = ([statement(number, revision) for number in range(UNITS)] for revision in (1, 2))
    plan = Plan(0, [old, new])
    plan.live[TENANT] = {said.event.data.id: said.event.data.text for said in new}
    folder = tmp_path / "world"
    folder.mkdir()
    async with AsyncExitStack() as stack:
        if BROKER == "kafka":
            servers = await stack.enter_async_context(serving(tmp_path, weaviate=False))
            made = KafkaWorld(folder, servers, prefix="zombie.", partitions=4)
        else:
            made = EmbeddedWorld(folder, partitions=4)
        world = await stack.enter_async_context(made.opened())
        await world.begin(2)
        zombie = world.members.alive[-1]
        await until(lambda: _takes_part(folder, zombie.name), PATIENCE_S)
        await world.publish(old)
        await until(lambda: _some_are_handled(world), PATIENCE_S)
        await until(lambda: _frozen_without_the_files(zombie, world.settings.knowledge_dir), PATIENCE_S)
        await world.publish(new)
        await until(world.drained, PATIENCE_S)
        at_the_takeover = await world.watermarks(STORED)
        zombie.thaw()
        # it goes on with what it had in hand, finds its commits refused, and joins again: only then it gets partitions
        await until(lambda: _times_assigned(folder, zombie.name) > 1, PATIENCE_S)
        last = statement(UNITS, 1)
        plan.live[TENANT][last.event.data.id] = last.event.data.text
        plan.batches.append([last])
        await world.publish([last])
        await until(lambda: _stored(world, last), PATIENCE_S)
        await until(world.drained, PATIENCE_S)
        assert world.members.crashed == []
        for place, number in at_the_takeover[TENANT].items():
            assert (await world.watermarks(STORED))[TENANT][place] >= number, "a watermark never goes back"
        assert await world.letters() == []
        await world.members.end()  # in order: what they have in hand is told first
        told = await world.graph()
        state = await read_state(world.settings, plan)
        assert state.texts[TENANT] == plan.live[TENANT], "no older revision has come back"
        assert state.unit_counts[TENANT] == UNITS + 1
        assert set(state.corroborations[TENANT].values()) == {1}
        assert len(state.fingerprints[TENANT]["history"]) == UNITS, "each unit has the one older revision, once"
        assert state.events[TENANT] == {(one.source, one.id) for one in plan.events()}
        assert judge_graph(state, told) == []


async def _frozen_without_the_files(zombie: Member, knowledge: Path) -> bool:
    """Freeze it; let it go on where it holds the turn at the knowledge files, which nobody else could write then.

    Those who write one SQLite take turns: who stands still within one is not overtaken, but waited for.
    """
    zombie.freeze()
    free = [await asyncio.to_thread(_is_free, knowledge / name) for name in ("writers.turn", "writers.hold")]
    if not all(free):
        zombie.thaw()
    return all(free)


def _is_free(path: Path) -> bool:
    """Whether a lock can be had within a second, as the others' transactions take milliseconds."""
    deadline = time.monotonic() + 1.0
    with path.open() as file:
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(0.001)
    return False


async def _some_are_handled(world) -> bool:
    return await world.handled() > 0


async def _stored(world, said: Said) -> bool:
    async with world.reader.snapshot(TENANT) as snapshot:
        return said.event.data.id in await snapshot.units([said.event.data.id])


def _takes_part(folder: Path, name: str) -> bool:
    return _times_assigned(folder, name) > 0


def _times_assigned(folder: Path, name: str) -> int:
    """How often a member's store stage was given partitions, as its log says."""
    lines = (folder / f"{name}.log").read_text().splitlines()
    return sum("lanes.assigned" in line and '"store"' in line for line in lines)
