"""Background jobs on a real broker: what each kind does, and that none is done twice, lost or in the way."""

import asyncio
from pathlib import Path

import pytest

from schemas.commands import JobState, Reindex, Replay, ReplayLetters, Selection
from schemas.messages import Resolution
from schemas.status import LetterState
from shared import jobs_kept
from shared.errors import InvalidInput
from shared.kafka import CONTRADICTIONS, GRAPH, STORED
from shared.store import Resolving
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, asserted, retracted, running, until
from tests.integration.ordering import (
    cancel,
    job_of,
    letters_known,
    order,
    over,
    publish_command,
    reindex,
    running_with,
)

pytestmark = [pytest.mark.anyio, pytest.mark.integration]

MANY = 40  # units: three pages of embedding


def facts(count: int = MANY, scope: str = "core") -> list[dict]:
    """Return units whose ids sort as their numbers do."""
    return [asserted(f"{scope}{n:03}", f"The limit of part {n} of {scope} is {n}.", scope) for n in range(count)]


def computed(rig: Rig, word: str = "limit") -> int:
    return sum(count for text, count in rig.embedder.computed.items() if word in text)


@pytest.fixture
async def rig(broker: BrokerProcess, prefix: str, tmp_path: Path):
    async with running(Rig(broker.bootstrap, prefix, tmp_path)) as started:
        yield started


async def test_embedding_anew_computes_each_selected_text_once_and_tells_how_far_it_is(rig: Rig):
    await rig.say(*facts(20), *facts(5, "other"))
    await rig.settle()
    before = await rig.digest()
    command = await reindex(rig, "embed", scope="team/core")
    job = await over(rig, command)
    assert (job.state, job.total, job.done, job.failed) == (JobState.DONE, 20, 20, 0)
    assert (job.requested_by, job.reason, job.order) == ("person-ana", "a test", command.order)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert (computed(rig, "of core"), computed(rig, "of other")) == (40, 5)
    assert await rig.near("The limit of part 7 of core is 7.") != []
    assert await rig.digest() == before


async def test_a_text_that_cannot_be_embedded_is_counted_and_stops_no_other(rig: Rig):
    await rig.say(*facts(10))
    await rig.settle()
    rig.embedder.fault = lambda text: InvalidInput("no") if "part 3 " in text else None
    job = await over(rig, await reindex(rig, "embed"))
    assert (job.state, job.done, job.failed) == (JobState.DONE, 10, 1)
    assert computed(rig) == 10 + 9


async def test_a_selection_is_all_that_every_given_field_fits(rig: Rig):
    await rig.say(*facts(4), *facts(4, "other"), {**facts(1, "third")[0], "source": "crawler"})
    await rig.settle()
    by_ids = await over(rig, await reindex(rig, "embed", unit_ids=("core001", "other002", "absent"), scope="team/core"))
    by_source = await over(rig, await reindex(rig, "embed", source="crawler"))
    by_model = await over(rig, await reindex(rig, "embed", model=rig.embedder.model))
    of_none = await over(rig, await reindex(rig, "embed", model="another"))
    assert [job.done for job in (by_ids, by_source, by_model, of_none)] == [1, 1, 9, 0]


async def test_resolving_anew_makes_it_as_if_all_had_been_stored_now(rig: Rig):
    await rig.say(
        asserted("a", "The Payments Client uses port 5432."), asserted("b", "The Payments Client uses port 6543.")
    )
    await rig.settle()
    before = await rig.digest()
    async with rig.reader.snapshot("acme") as snapshot:
        known = await snapshot.select(Selection(), "", 10)
    await rig.writer.resolve_again(
        "acme", [Resolving(one.unit.id, one.version, one.revision, Resolution()) for one in known]
    )
    await rig.writer.record_contradictions("acme", None, rig.clock.now(), ["a", "b"], [])
    assert await rig.digest() != before, "as an older release would have left it"
    told = len(await rig.topic(GRAPH))
    job = await over(rig, await reindex(rig, "resolve"))
    after = await rig.digest()
    assert (job.state, job.done) == (JobState.DONE, 2)
    assert {part: after[part] for part in ("mentions", "contradictions")} == {
        part: before[part] for part in ("mentions", "contradictions")
    }
    fresh = [record.value for record in (await rig.topic(GRAPH)) if record.value and b'"remade":0' not in record.value]
    assert len(await rig.topic(GRAPH)) == told + 2
    assert sum(b'"remade"' in value for value in fresh) == 2
    assert sum(b'"a~b"' in (record.value or b"") for record in await rig.topic(CONTRADICTIONS)) == 2


async def test_what_changed_while_it_was_resolved_stays_as_it_is(rig: Rig):
    await rig.say(asserted("a", "The Payments Client uses port 5432."), asserted("gone", "The Mail Client is old."))
    await rig.settle()
    async with rig.reader.snapshot("acme") as snapshot:
        stale = await snapshot.select(Selection(), "", 10)
    await rig.say(asserted("a", "The Ledger uses port 5432."), retracted("gone"))
    await rig.settle()
    before = await rig.digest()
    answers = await rig.writer.resolve_again(
        "acme", [Resolving(one.unit.id, one.version, one.revision, Resolution()) for one in stale]
    )
    assert [(one.unit_id, one.written, one.contribution.removed) for one in answers] == [
        ("a", False, False),
        ("gone", False, True),
    ]
    assert await rig.digest() == before


async def test_a_command_that_comes_again_is_not_done_again(rig: Rig):
    await rig.say(*facts(5))
    await rig.settle()
    command = await reindex(rig, "embed")
    first = await over(rig, command)
    await publish_command(rig, "acme", command.model_dump_json().encode())
    assert await over(rig, await reindex(rig, "embed", unit_ids=("core001",)))  # behind it in the same lane
    assert await job_of(rig, command) == first
    assert computed(rig) == 5 + 5 + 1


async def test_a_command_whose_job_was_let_go_is_not_done_again(rig: Rig, monkeypatch):
    """The newest jobs are kept; that an older command was done is known from its place, whatever reads it once more."""
    monkeypatch.setattr(jobs_kept, "KEPT", 2)
    await rig.say(*facts(3))
    await rig.settle()
    commands = []
    for _ in range(4):
        commands.append(await reindex(rig, "embed"))
        await over(rig, commands[-1])
    assert [await job_of(rig, command) is None for command in commands] == [True, True, False, False]
    await rig.pipeline.stop()
    rig.pipeline = rig.make()  # without Kafka its pump reads all commands from their beginning
    await rig.pipeline.start()
    await publish_command(rig, "acme", commands[0].model_dump_json().encode(), number=1)
    last = await over(rig, await reindex(rig, "embed", unit_ids=("core001",)))
    assert last.state is JobState.DONE
    assert await job_of(rig, commands[0]) is None
    assert computed(rig) == 3 + 4 * 3 + 1
    await until(lambda: _commands_kept(rig, 2))


async def _commands_kept(rig: Rig, count: int) -> bool:
    return len(await rig.log.ordered("acme")) == count


async def test_a_job_whose_process_is_killed_goes_on_where_it_was(rig: Rig):
    """Everything that was told to the process is lost; what it made durable is not."""
    await rig.say(*facts())
    await rig.settle()
    rig.embedder.held["part 35 "] = asyncio.Event()  # on the third page
    command = await reindex(rig, "embed")
    await running_with(rig, command, 32)
    await until(lambda: rig.embedder.asked["The limit of part 35 of core is 35."] == 2)
    await rig.pipeline.stop(drain_s=0.01)  # no time to hand anything on: the work in hand is cut off
    del rig.embedder.held["part 35 "]
    rig.pipeline = rig.make()
    await rig.pipeline.start()
    job = await over(rig, command)
    assert (job.state, job.done, job.total) == (JobState.DONE, MANY, MANY)
    again = [rig.embedder.computed[f"The limit of part {n} of core is {n}."] - 1 for n in range(MANY)]
    assert again[:32] == [1] * 32, "what was durable is not computed again"
    assert min(again) >= 1


async def test_a_job_is_handed_on_between_two_pages_when_its_process_stops(rig: Rig):
    await rig.say(*facts())
    await rig.settle()
    gate = rig.embedder.held["part 20 "] = asyncio.Event()
    command = await reindex(rig, "embed")
    await until(lambda: rig.embedder.asked["The limit of part 20 of core is 20."] == 2)
    stopping = asyncio.create_task(rig.pipeline.stop(drain_s=20))
    await until(rig.pipeline._lanes["commands"]._draining)  # what is held may then go on
    gate.set()
    await stopping
    handed_on = await job_of(rig, command)
    assert handed_on is not None
    assert handed_on.state is JobState.RUNNING
    assert handed_on.done < MANY
    rig.pipeline = rig.make()
    await rig.pipeline.start()
    job = await over(rig, command)
    assert (job.state, job.done) == (JobState.DONE, MANY)
    assert computed(rig) == 2 * MANY, "no text was computed twice for it"


async def test_a_cancelled_job_ends_between_two_pages_and_one_that_waits_never_begins(rig: Rig):
    await rig.say(*facts())
    await rig.settle()
    gate = rig.embedder.held["part 20 "] = asyncio.Event()
    at_work = await reindex(rig, "embed")
    waiting = await reindex(rig, "resolve")
    await running_with(rig, at_work, 16)
    await cancel(rig, waiting)
    await cancel(rig, at_work)
    await until(lambda: seen(rig, at_work.id) and seen(rig, waiting.id))
    gate.set()
    job, never = await over(rig, at_work), await over(rig, waiting)
    assert (job.state, job.done) == (JobState.CANCELLED, 32)
    assert (never.state, never.started_at) == (JobState.CANCELLED, None)
    await rig.settle()


def seen(rig: Rig, job_id: str) -> bool:
    return ("acme", job_id) in rig.pipeline._ordering._cancellations


async def test_live_events_do_not_wait_for_a_job(rig: Rig):
    await rig.say(*facts(20))
    await rig.settle()
    gate = rig.embedder.held["part 5 "] = asyncio.Event()
    command = await reindex(rig, "embed")
    await until(lambda: rig.embedder.asked["The limit of part 5 of core is 5."] == 2)
    await rig.say(asserted("live", "A live event goes through."))
    await until(lambda: rig.units("live"))
    job = await job_of(rig, command)
    assert job is not None
    assert job.state is JobState.RUNNING
    gate.set()
    await over(rig, command)


async def test_a_record_that_is_no_command_is_buried_and_the_next_is_done(rig: Rig):
    await rig.say(*facts(2))
    await rig.settle()
    await publish_command(rig, "acme", b'{"id": 5}')
    job = await over(rig, await reindex(rig, "embed"))
    assert job.state is JobState.DONE
    (letter,) = await rig.letters()
    assert (letter.stage, letter.cause, letter.body) == ("commands", "not-a-command", b'{"id": 5}')
    assert "/id: Input should be a valid string" in letter.detail
    assert "/tenant: required, but not there" in letter.detail


async def test_a_job_that_cannot_succeed_fails_with_its_cause_and_the_next_is_done(rig: Rig, monkeypatch):
    await rig.say(*facts(2))
    await rig.settle()

    async def refuse(*_: object) -> int:
        raise InvalidInput("the disk does not like it")

    monkeypatch.setattr(rig.writer, "put_vectors", refuse, raising=False)
    failed = await over(rig, await reindex(rig, "embed"))
    assert (failed.state, failed.detail) == (JobState.FAILED, "invalid-input: the disk does not like it")
    done = await over(rig, await reindex(rig, "resolve"))
    assert done.state is JobState.DONE


async def test_replaying_a_scope_repeats_its_events_and_changes_nothing(rig: Rig):
    await rig.say(*facts(4), *facts(3, "other"), retracted("core001"), asserted("core002", "Newer.", "core"))
    await rig.settle()
    before, receipts = await rig.digest(), len(await rig.topic(STORED))
    job = await over(rig, await order(rig, Replay(scope="team/core")))
    await rig.settle()
    assert (job.state, job.done) == (JobState.DONE, 6)
    assert len(await rig.topic(STORED)) == receipts + 6
    assert await rig.digest() == before
    assert (await rig.units("core002"))["core002"].known.unit.text == "Newer."


async def test_checking_contradictions_again_finds_what_is_missing(rig: Rig):
    await rig.say(
        asserted("a", "The Payments Client uses port 5432."), asserted("b", "The Payments Client uses port 6543.")
    )
    await rig.settle()
    before = await rig.digest()
    await rig.writer.record_contradictions("acme", None, rig.clock.now(), ["a", "b"], [])
    assert await rig.digest() != before
    job = await over(rig, await order(rig, Replay(stage="contradictions")))
    assert (job.state, job.done) == (JobState.DONE, 2)
    assert await rig.digest() == before


async def test_letters_are_sent_again_by_a_command(rig: Rig):
    rig.embedder.fault = lambda text: InvalidInput("not yet") if "stubborn" in text else None
    async with letters_known(rig):
        await rig.say(asserted("u", "A stubborn text."))
        await until(rig.log.dead_letters)
        (letter,) = await rig.log.dead_letters()
        rig.embedder.fault = lambda _: None
        job = await over(rig, await order(rig, ReplayLetters(letters=(letter.id, "unknown"))))
        await until(lambda: rig.units("u"))
        assert (job.state, job.total, job.done, job.failed) == (JobState.DONE, 2, 2, 1)
        (letter,) = await rig.log.dead_letters()
        assert (letter.state, letter.job) == (LetterState.REPLAYED, job.id)


async def test_a_tenants_commands_are_done_in_their_order(rig: Rig):
    await rig.say(*facts(3))
    await rig.settle()
    commands = [await order(rig, Reindex(stage=stage)) for stage in ("embed", "resolve", "embed")]
    jobs = [await over(rig, command) for command in commands]
    ended = [job.finished_at for job in jobs]
    assert ended == sorted(ended)
