"""Dead letters on the running pipeline: what fails is told, kept and mended, and never stands above newer knowledge."""

import asyncio
import hashlib
from contextlib import asynccontextmanager

import orjson
import pytest

from query.event_states import gather, status_of
from schemas.commands import Command, ReplayLetters
from schemas.status import LetterState
from shared.caches.memory import MemoryCache
from shared.errors import EmbedderUnavailable, InvalidInput
from shared.kafka import EMBEDDED, Outgoing, Publisher
from shared.log import BULK
from shared.retrying import RetryBoard
from tests.integration.ingesting import Rig, as_bytes, asserted, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.integration]


@asynccontextmanager
async def at_work(broker, prefix, folder):
    """A pipeline whose retries are noted, and whose log sees what others write, as a process has it."""
    rig = Rig(broker.bootstrap, prefix, folder)
    await rig.prepare()
    rig.cache = MemoryCache(rig.clock)
    rig.reader = SteeredReader(rig.reader)
    rig.pipeline = rig.make(cache=rig.cache)
    following = asyncio.create_task(rig.log.follow()) if hasattr(rig.log, "follow") else None
    try:
        async with running(rig):
            yield rig
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


class SteeredReader:
    """A reader in which looking for units to compare with fails on demand."""

    def __init__(self, inner):
        self._inner = inner
        self.is_broken = False

    @asynccontextmanager
    async def snapshot(self, tenant):
        async with self._inner.snapshot(tenant) as snapshot:
            yield SteeredSnapshot(snapshot, self)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class SteeredSnapshot:
    def __init__(self, inner, reader):
        self._inner = inner
        self._reader = reader

    async def sharing(self, *given, **named):
        if self._reader.is_broken:
            raise RuntimeError("the index is broken")
        return await self._inner.sharing(*given, **named)

    def __getattr__(self, name):
        return getattr(self._inner, name)


async def status(rig, event_id):
    found = []

    async def is_known():
        found[:] = await rig.log.find("acme", event_id)
        return found

    await until(is_known)  # Kafka needs a moment to know an event by its id
    (record,) = found
    board = RetryBoard(rig.cache, rig.log.log_id)
    async with rig.reader.snapshot("acme") as snapshot:
        return status_of(await gather(record, snapshot, rig.log, board, rig.clock.now()))


async def states(rig, *event_ids):
    return {(await status(rig, event_id)).state for event_id in event_ids}


async def replay(rig, *letter_ids, by="person-ana", command_id="replay-1"):
    """Order a replay as the HTTP door does, and wait until its job is over."""
    command = Command(
        id=command_id, tenant="acme", requested_by=by, requested_at=rig.clock.now(),
        order=ReplayLetters(letters=letter_ids),
    )  # fmt: skip
    await rig.log.order(command)

    async def is_over():
        async with rig.reader.snapshot("acme") as snapshot:
            return any(job.finished for job in await snapshot.jobs(1, command_id))

    await until(is_over)
    await rig.settle()


async def open_letters(rig, **given):
    """The open letters, as soon as there is one."""
    found = []

    async def there():
        found[:] = await rig.letters(state=LetterState.OPEN, **given)
        return found

    await until(there)
    return found


async def test_while_the_embedder_is_away_nothing_is_lost_and_nothing_half_visible(broker, prefix, tmp_path):
    """Case C12: pending or retrying, never stored; then all are searchable once; a hopeless one has failed and says so."""
    async with at_work(broker, prefix, tmp_path) as rig:
        away = True
        rig.embedder.fault = lambda text: EmbedderUnavailable() if away or "hopeless" in text else None
        names = [f"e{number}" for number in range(20)]
        facts = [asserted(f"u-{name}", f"The marmot number {name} sleeps.", event={"id": name}) for name in names]
        await rig.say(*facts)

        async def is_noted():
            return (await status(rig, names[0])).state == "retrying"

        await until(is_noted)
        found = await status(rig, names[0])
        assert (found.stage, found.cause) == ("embed", "embedder-unavailable")
        assert found.attempts >= 1
        assert found.at >= found.accepted_at
        assert await states(rig, *names) <= {"pending", "retrying"}
        assert await rig.search("marmot") == await rig.near("marmot") == []
        assert await rig.letters() == [], "an outage makes no dead letters"
        async with rig.reader.snapshot("acme") as snapshot:
            assert (await snapshot.counts()).units == 0
            assert await snapshot.history("u-e0") == []
        away = False
        await rig.settle()
        assert await states(rig, *names) == {"stored"}
        async with rig.reader.snapshot("acme") as snapshot:
            assert (await snapshot.counts()).units == 20
        for name in names:
            assert (await rig.search(f"number {name}")).count(f"u-{name}") == 1

        await rig.say(asserted("u-never", "This one is hopeless.", event={"id": "never"}))
        await rig.settle()
        (letter,) = await open_letters(rig)
        failed = await status(rig, "never")
        assert failed.model_dump(include={"state", "stage", "cause", "attempts", "letter"}) == {
            "state": "failed", "stage": "embed", "cause": "embedder-unavailable", "attempts": 3, "letter": letter.id,
        }  # fmt: skip

        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id)
        assert await states(rig, "never") == {"stored"}
        assert await rig.search("hopeless") == ["u-never"]


async def test_replaying_a_letter_never_stands_above_what_was_said_later(broker, prefix, tmp_path):
    """Case C35, for units whose producer gives no revision: the place in the log decides, and a replay keeps it."""
    async with at_work(broker, prefix, tmp_path) as rig:
        rig.embedder.fault = lambda text: InvalidInput() if "8420" in text else None
        await rig.say(asserted("port", "The gateway listens on 8420.", event={"id": "v1"}))
        await rig.settle()
        await rig.say(asserted("port", "The gateway listens on 9000.", event={"id": "v2"}))
        await rig.settle()
        (letter,) = await open_letters(rig)
        before = await rig.digest()
        assert (await status(rig, "v1")).state == "failed"

        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id, by="person-ana")
        live = (await rig.units("port"))["port"].known
        assert live.unit.text == "The gateway listens on 9000."
        assert (await status(rig, "v1")).state == "stale"
        assert (await status(rig, "v2")).state == "stored"
        assert await rig.letters(state=LetterState.OPEN) == []
        (mended,) = await rig.letters()
        assert (mended.id, mended.state, mended.resolved_by, mended.replays) == (
            letter.id, LetterState.REPLAYED, "person-ana", 1
        )  # fmt: skip
        assert mended.resolved_at is not None
        after = await rig.digest()
        assert {part: digest for part, digest in after.items() if part != "history"} == {
            part: digest for part, digest in before.items() if part != "history"
        }, "v1 is older history of the unit, and nothing else"

        await replay(rig, letter.id, by="person-ben", command_id="replay-2")
        assert await rig.letters() == [mended], "the second replay changes nothing, not even who"
        assert await rig.digest() == after


async def test_replaying_a_part_of_an_older_document_leaves_the_newer_one(broker, prefix, tmp_path):
    """Case C35 with documents."""

    def document(revision, text):
        digest = hashlib.sha256(text.encode()).hexdigest()
        part = asserted(
            f"doc/{revision}", text, document_id="doc", part=0, revision=revision, event={"id": f"part-{revision}"}
        )
        data = {"id": "doc", "revision": revision, "parts": 1, "hash": digest}
        return part, {"type": "document.completed", "id": f"completed-{revision}", "data": data}

    async with at_work(broker, prefix, tmp_path) as rig:
        rig.embedder.fault = lambda text: InvalidInput() if "red" in text else None
        await rig.say(*document(1, "The door is red."), *document(2, "The door is blue."))
        await rig.settle()
        (letter,) = await open_letters(rig)
        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id)
        assert await rig.search("door") == ["doc/2"]
        await replay(rig, letter.id, command_id="replay-2")
        assert await rig.search("door") == ["doc/2"]


async def test_a_replay_that_fails_again_opens_the_same_letter(broker, prefix, tmp_path):
    async with at_work(broker, prefix, tmp_path) as rig:
        rig.embedder.fault = lambda text: EmbedderUnavailable() if "broken" in text else None
        await rig.say(asserted("u", "It is broken.", event={"id": "e"}))
        await rig.settle()
        (letter,) = await open_letters(rig)
        await replay(rig, letter.id)
        (again,) = await open_letters(rig)
        assert (again.id, again.attempts, again.replays) == (letter.id, 2 * letter.attempts, 1)
        assert (again.body, again.key) == (letter.body, letter.key)
        assert (await status(rig, "e")).state == "failed"
        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id, command_id="replay-2")
        assert (await status(rig, "e")).state == "stored"


async def test_a_record_that_nobody_can_read_keeps_one_letter_however_often_it_is_replayed(broker, prefix, tmp_path):
    """Its bytes, headers and first place stay as they came."""
    async with at_work(broker, prefix, tmp_path) as rig:
        await rig.produce((b"k", b"{not json", [("trace", b"abc")]), partition=1)
        await rig.settle()
        (letter,) = await open_letters(rig)
        for number in (1, 2):
            await replay(rig, letter.id, command_id=f"replay-{number}")
            (again,) = await open_letters(rig)
            assert (again.id, again.attempts, again.replays) == (letter.id, 1 + number, number)
            kept = ("topic", "partition", "offset", "body", "headers", "key")
            assert all(getattr(again, name) == getattr(letter, name) for name in kept)
        assert len(await rig.letters()) == 1


async def test_a_header_that_names_anothers_letter_opens_nothing(broker, prefix, tmp_path):
    """Anybody may write any header."""
    async with at_work(broker, prefix, tmp_path) as rig:
        await rig.produce((b"k", b"{not json", []), partition=1)
        await rig.settle()
        (letter,) = await open_letters(rig)
        await rig.produce((b"k", b"{neither", [("cortex-replays", letter.id.encode())]), partition=1)
        await rig.settle()
        await until(lambda: _count(rig, 2))
        assert {one.body for one in await rig.letters()} == {b"{not json", b"{neither"}


async def _count(rig, wanted):
    return len(await rig.letters()) == wanted


async def test_what_stood_between_the_stages_by_mistake_can_be_replayed_or_left(broker, prefix, tmp_path):
    async with at_work(broker, prefix, tmp_path) as rig:
        async with await Publisher.open(broker.bootstrap, prefix=prefix) as publisher:
            await publisher.publish(EMBEDDED, 0, [Outgoing(b"k", b"garbage")])
        (letter,) = await open_letters(rig)
        assert (letter.stage, letter.cause) == ("resolve", "not-a-stage-message")
        assert letter.detail.startswith("it is no message between stages: ")
        assert "Error" not in letter.detail
        await replay(rig, letter.id)
        (again,) = await open_letters(rig)
        assert (again.id, again.attempts) == (letter.id, 2)
        await rig.say(asserted("u", "The lane goes on."))
        await rig.settle()
        assert await rig.search("lane") == ["u"]


async def test_one_bad_event_costs_itself_and_is_named(broker, prefix, tmp_path):
    """Case C30: between good ones of one partition; each with cause, stage, attempts, bytes and place."""
    async with at_work(broker, prefix, tmp_path) as rig:
        good = [asserted(f"g{number}", f"Good fact {number}.") for number in range(2)]
        bad = [
            b"{not json",
            as_bytes({**asserted("x", "x"), "type": "unit.guessed"}),
            as_bytes(asserted("x", " \n ")),
            as_bytes(asserted("x", "PLACE")).replace(b"PLACE", rb"\ud800"),
            as_bytes(asserted("x", "x")).replace(b'"tenant":"acme",', b""),
        ]
        bodies = [as_bytes(good[0]), *bad, as_bytes(good[1])]
        await rig.produce(*((b"k", body, [("trace", b"\xff")]) for body in bodies), partition=1)
        await rig.settle()
        await until(lambda: _count(rig, len(bad)))
        letters = {letter.body: letter for letter in await rig.letters()}
        assert set(letters) == set(bad)
        for number, body in enumerate(bad):
            letter = letters[body]
            assert (letter.stage, letter.cause, letter.attempts) == ("embed", "invalid-input", 1)
            assert letter.topic.endswith("cortex.events")
            assert (letter.partition, letter.offset) == (1, number + 1)
            assert letter.headers == (("trace", b"\xff"),)
            assert "pydantic" not in letter.detail
            assert "/unit.asserted" not in letter.detail, "names of members of a union say nothing to a producer"
        assert "/type: not a kind of event that is known (limit: one of unit.asserted, " in letters[bad[1]].detail
        assert not any("unit.asserted" in letters[body].detail for body in bad if body != bad[1])
        await until(lambda: _all_live(rig, "g0", "g1"))


async def _all_live(rig, *unit_ids):
    return set(await rig.units(*unit_ids)) == set(unit_ids)


async def test_bulk_letters_go_back_to_where_they_were(broker, prefix, tmp_path):
    async with at_work(broker, prefix, tmp_path) as rig:
        rig.embedder.fault = lambda text: InvalidInput() if "broken" in text else None
        await rig.say(asserted("u", "It is broken.", event={"id": "e"}), topic=BULK)
        await rig.settle()
        (letter,) = await open_letters(rig)
        assert letter.topic == BULK
        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id)
        assert (await status(rig, "e")).state == "stored"


async def test_what_could_not_be_compared_keeps_the_events_bytes_and_is_compared_after_a_replay(
    broker, prefix, tmp_path
):
    async with at_work(broker, prefix, tmp_path) as rig:
        await rig.say(asserted("one", "The Quorra pool has 50 connections.", event={"id": "e1"}))
        await rig.settle()
        rig.reader.is_broken = True
        await rig.say(asserted("two", "The Quorra pool has 20 connections.", event={"id": "e2"}))
        await rig.settle()
        (letter,) = await open_letters(rig)
        assert (letter.stage, letter.cause, letter.event_id) == ("contradictions", "unexpected-error", "e2")
        assert orjson.loads(letter.body)["data"]["id"] == "two", "what was accepted, not what the stages say of it"
        failed = await status(rig, "e2")
        assert (failed.state, failed.stage, failed.outcome) == ("failed", "contradictions", "stored")
        assert await rig.search("20 connections"), "it is searchable all the same"
        rig.reader.is_broken = False
        await replay(rig, letter.id)
        found = await status(rig, "e2")
        assert (found.state, found.stage) == ("stored", "contradictions")
        async with rig.reader.snapshot("acme") as snapshot:
            (pair,) = await snapshot.contradictions()
        assert pair.found.units == ("one", "two")


async def test_a_letter_of_another_tenant_is_not_replayed(broker, prefix, tmp_path):
    async with at_work(broker, prefix, tmp_path) as rig:
        rig.embedder.fault = lambda text: InvalidInput() if "broken" in text else None
        await rig.say(asserted("u", "It is broken.", event={"id": "e"}), tenant="globex")
        await rig.settle()
        (letter,) = await open_letters(rig)
        rig.embedder.fault = lambda _: None
        await replay(rig, letter.id)
        assert await rig.letters() == [letter]
        assert await rig.units("u", tenant="globex") == {}
