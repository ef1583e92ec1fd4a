"""One run: publish, disturb, wait until all is handled, and compare with an undisturbed run of the same events."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.chaos.asking import Asker, differing_answers
from tests.chaos.checks import Verdict, judge, judge_graph, judge_letters, read_state
from tests.chaos.plan import Plan, draw
from tests.chaos.schedule import Act, Burst, Kind, draw_schedule
from tests.chaos.servers import Servers, serving
from tests.chaos.worlds import EmbeddedWorld, KafkaWorld

Broker = Literal["embedded", "kafka"]
LEAST, MOST = 2, 4  # members
REPLICAS = 2  # query processes, where any are asked
PATIENCE_S = 15.0  # for progress between two bursts: a group needs up to 10 s to notice a member's death
FROZEN_S = (11.0, 14.0)  # longer than a session of 10 s: the group goes on without it, and it does not know
LOOK_S = 0.5
ORDERLY = (
    0,
    128 + signal.SIGTERM,
    -signal.SIGTERM,
)  # the latter two: it was asked before it had taken anything, while it was starting
TWIN_DEADLINE_S = 600.0


@dataclass
class Options:
    """What is run."""

    broker: Broker
    events: int = 10_000
    kills: int = 100
    partitions: int = 12
    seed: int = 1
    weaviate: bool = False
    minutes: float = 40.0
    members: int = 3
    freezes: int | None = None
    patience_s: float = PATIENCE_S
    beside: bool = False  # the undisturbed run at the same time, not before


@dataclass
class Result:
    """What came of a run. Times in seconds."""

    options: Options
    events: int
    records: int
    done: Counter[Kind]
    verdict: Verdict
    calm_s: float
    struck_s: float
    drain_s: float
    members: int
    lag: dict[str, int] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    counted_too_many: int = 0

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        return not self.verdict.wrong

    def table(self) -> str:
        """Write it for a terminal."""
        options, verdict = self.options, self.verdict
        rows: list[tuple[str, object]] = [
            ("broker, store", f"{options.broker}, {'weaviate' if options.weaviate else 'sqlite'}"),
            ("seed", options.seed),
            ("events, records published", f"{self.events}, {self.records} over {options.partitions} partitions"),
            *((kind.value, count) for kind, count in sorted(self.done.items())),
            ("processes started", self.members),
            ("undisturbed run", f"{self.calm_s:.0f} s"),
            ("disturbed for, then drained in", f"{self.struck_s:.0f} s, {self.drain_s:.1f} s"),
            ("lost", len(verdict.lost)),
            ("doubled in effect", len(verdict.doubled)),
            ("digest equal", "no" if verdict.differing else "yes, each part"),
            ("dead letters", "as planned" if not verdict.letters else f"{len(verdict.letters)} wrong"),
            ("graph topic equals store", "yes" if not verdict.graph else f"{len(verdict.graph)} differ"),
            ("lag at the end", sum(self.lag.values())),
            ("units that the store counts too many", self.counted_too_many),
            *((f"answers: {kind}", count) for kind, count in sorted(self.asked.items())),
        ]
        lines = [f"{name:<38} {value}" for name, value in rows]
        return "\n".join([*lines, *(f"  {what}" for what in verdict.wrong[:40])])


Told = Callable[[str], None]


async def run(options: Options, folder: Path, tell: Told = lambda _: None) -> Result:
    """Do a run in an empty folder. Raises TimeoutError at the deadline; no process outlives it."""
    plan = draw(options.seed, options.events)
    schedule = draw_schedule(
        options.seed, options.kills, kafka=options.broker == "kafka", weaviate=options.weaviate, freezes=options.freezes
    )
    async with asyncio.timeout(options.minutes * 60), AsyncExitStack() as stack:
        servers = None
        if options.broker == "kafka":
            servers = await stack.enter_async_context(serving(folder, weaviate=options.weaviate))
        has_topics = asyncio.Event()
        twin = _calm(options, servers, folder / "calm", plan, tell, has_topics)
        struck = _struck(options, servers, folder / "struck", plan, schedule, tell, has_topics)
        if options.beside:
            async with asyncio.TaskGroup() as tasks:
                first, second = tasks.create_task(twin), tasks.create_task(struck)
            (calm, calm_s), result = first.result(), second.result()
        else:
            try:
                calm, calm_s = await twin
            except BaseException:
                struck.close()
                raise
            result = await struck
        state, found = result
        found.calm_s = calm_s
        verdict = judge(plan, state, calm, store_killed=found.done[Kind.STORE] > 0)
        found.counted_too_many = sum(state.said_counts.values()) - sum(state.unit_counts.values())
        for kind, wrong in vars(found.verdict).items():
            getattr(verdict, kind).extend(wrong)
        found.verdict = verdict
        return found


async def _calm(options, servers, folder: Path, plan: Plan, tell: Told, has_topics: asyncio.Event):
    """Let one consumer handle everything, undisturbed."""
    began = time.monotonic()
    async with _world(options, servers, folder, "calm.", weaviate=False).opened() as world:
        has_topics.set()
        await world.begin(1)
        for batch in plan.batches:
            await world.publish(batch)
        async with asyncio.timeout(TWIN_DEADLINE_S):
            await _until(world.drained)
        assert not world.members.crashed, world.members.crashed
        took_s = time.monotonic() - began
        tell(f"undisturbed: {plan.records} records in {took_s:.0f} s")
        await world.members.end()
        return await read_state(world.settings, plan), took_s


async def _struck(
    options, servers, folder: Path, plan: Plan, schedule: list[Burst], tell: Told, may_strike: asyncio.Event
):
    """Let several consumers handle it while they and the servers are struck: not before the other run has its topics."""
    async with _world(options, servers, folder, "struck.", weaviate=options.weaviate).opened() as world:
        await world.begin(options.members)
        asker = Asker(world, plan, options.seed) if options.weaviate else None
        if asker is not None:
            await world.replicas.start(REPLICAS)
        await may_strike.wait()
        began = time.monotonic()
        chaos = Chaos(world, plan, options.patience_s, tell)
        async with asyncio.TaskGroup() as tasks:
            asking = None if asker is None else tasks.create_task(asker.run())
            publishing = tasks.create_task(chaos.publish())
            await chaos.strike_all(schedule)
            await chaos.settle()
            await publishing
            struck_s = time.monotonic() - began
            tell("the last disturbance is over")
            while len(world.members.awake) < LEAST:
                await world.join()
            await _until(world.drained)
            drain_s = time.monotonic() - began - struck_s
            if asking is not None:
                asking.cancel()
        lag, letters, told = await world.lag(), await world.letters(), await world.graph()
        answers = [] if asker is None else [*asker.wrong, *await differing_answers(world.replicas, plan)]
        members = world.members
        count = members._number
        await members.end()
        state = await read_state(world.settings, plan)
        bad = [code for code in members.codes if code not in ORDERLY]
        others = [*answers, *members.crashed, *(f"a member that was asked to end did so with {code}" for code in bad)]
        verdict = Verdict(letters=judge_letters(plan, letters), graph=judge_graph(state, told), others=others)
        events = sum(1 for _ in plan.events())
        asked = Counter() if asker is None else asker.answers
        return state, Result(
            options, events, plan.records, chaos.done, verdict, 0.0, struck_s, drain_s, count, lag, asked
        )


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Look every now and then; whoever calls has a deadline."""
    while not await condition():  # noqa: ASYNC110 - other processes bring it about
        await asyncio.sleep(LOOK_S)


def _world(options, servers: Servers | None, folder: Path, prefix: str, *, weaviate: bool):
    folder.mkdir(parents=True)
    if servers is None:
        return EmbeddedWorld(folder, partitions=options.partitions)
    return KafkaWorld(folder, servers, prefix=prefix, partitions=options.partitions, weaviate=weaviate)


class Chaos:
    """Publishes a plan into a world, and does to its members what a schedule says."""

    def __init__(self, world, plan: Plan, patience_s: float, tell: Told) -> None:
        self._world = world
        self._plan = plan
        self._patience_s = patience_s
        self._tell = tell
        self._ahead = max(100, plan.records // 20)
        self._said = 0
        self._later: set[asyncio.Task[None]] = set()
        self.done: Counter[Kind] = Counter()

    async def publish(self) -> None:
        """Publish everything, never far ahead of what is handled: so that each kill meets work."""
        for batch in self._plan.batches:
            await _until(self._has_room)
            await self._world.publish(batch)
            self._said += len(batch)

    async def strike_all(self, schedule: list[Burst]) -> None:
        """Do burst after burst, each once so much is handled or patience has ended."""
        for burst in schedule:
            await self._reach(burst.after)
            for act in burst.acts:
                await self._strike(act)
                await asyncio.sleep(act.pause_s)
            self._tell(
                f"{await self._world.handled()} of {self._plan.records} handled; "
                + ", ".join(f"{kind.value} {count}" for kind, count in sorted(self.done.items()))
            )

    async def settle(self) -> None:
        """Wait for what was put off: those that come back, those that go on."""
        while self._later:
            await asyncio.gather(*self._later)

    async def _reach(self, share: float) -> None:
        async def reached() -> bool:
            return await self._world.handled() >= share * self._plan.records

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await _until(reached)

    async def _has_room(self) -> bool:
        return self._said - await self._world.handled() <= self._ahead

    async def _strike(self, act: Act) -> None:
        world, members = self._world, self._world.members
        while len(members.awake) < LEAST:
            await world.join()
        match act.kind:
            case Kind.JOIN:
                if len(members.alive) >= MOST:
                    return
                await world.join()
            case Kind.LEADER:
                await world.strike_leader()
            case Kind.BROKER:
                await world.strike_broker()
            case Kind.FLUSH:
                await world.flush_cache()
            case Kind.CACHE:
                self._put_off(world.strike_cache())
            case Kind.STORE:
                self._put_off(world.strike_store())
            case Kind.REPLICA:
                await world.replicas.strike(act.whom)
            case Kind.FREEZE:
                self._put_off(self._freeze(self._chosen(act), act))
            case Kind.KILL:
                await self._chosen(act).kill()
                self._put_off(self._back(act.back_s))
            case Kind.TERMINATE:
                chosen = self._chosen(act)
                self._put_off(members.terminate(chosen))
                chosen.doomed = True
                self._put_off(self._back(act.back_s))
        self.done[act.kind] += 1

    def _chosen(self, act: Act):
        """Choose a member that does not lead: the leader's end is that of its broker, a disturbance of its own."""
        others = [member for member in self._world.members.awake if not member.leads]
        return others[int(act.whom * len(others))]

    async def _back(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        if len(self._world.members.alive) < MOST:
            await self._world.join()

    async def _freeze(self, member, act: Act) -> None:
        member.freeze()
        await asyncio.sleep(FROZEN_S[0] + act.whom * (FROZEN_S[1] - FROZEN_S[0]))
        member.thaw()

    def _put_off(self, work) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)
