"""The state of an accepted event: on its way, stored, and what has become of it since; with stage and time."""

from datetime import timedelta

import pytest

from query.event_states import gather, status_of
from schemas.events import parse_event
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.caches.memory import MemoryCache
from shared.errors import CacheUnavailable
from shared.retrying import KEPT_S, RetryBoard, Retrying
from shared.store import CONTRADICTIONS
from tests.integration.http_service import NOW
from tests.integration.test_http_units import TENANT, World

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

LATER = NOW + timedelta(minutes=5)


def unit(unit_id, **fields):
    scope = {"level": "team", "entity_id": "core"}
    return {"id": unit_id, "text": f"{unit_id} is stated.", "type": "context", "scope": scope, **fields}


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    yield world
    await world.close()


async def state(world, number=None, board=None):
    """The status of an event of the world: the newest, or that of a number."""
    (record,) = await world.log.find(TENANT, f"e-{number or world.number}")
    async with world.reader.snapshot(TENANT) as snapshot:
        return status_of(await gather(record, snapshot, world.log, board, world.clock.now()))


def letter(world, place, **changes):
    fields = {
        "id": "d-1", "stage": "resolve", "cause": "unexpected-error", "detail": "why", "attempts": 3,
        "topic": place.topic, "partition": place.partition, "offset": place.number, "tenant": TENANT,
        "event_id": f"e-{world.number}", "event_source": "/t", "failed_at": LATER, "body": b"{}",
    }  # fmt: skip
    return DeadLetter(**(fields | changes))


async def test_what_is_stored_says_since_when(world):
    await world.say("unit.asserted", unit("fact"))
    found = await state(world)
    assert (found.state, found.stage, found.at, found.outcome) == ("stored", "store", found.accepted_at, "stored")


async def test_what_was_compared_with_others_says_so(world):
    await world.say("unit.asserted", unit("fact"))
    (record,) = await world.log.find(TENANT, "e-1")
    await world.writer.record_contradictions(TENANT, record.position, NOW, ["fact"], [])
    assert (await state(world)).stage == CONTRADICTIONS


async def test_a_newer_revision_supersedes_and_an_older_one_is_stale(world):
    """Case C35: what comes late is an explicit no-op."""
    await world.say("unit.asserted", unit("fact", revision=2))
    await world.say("unit.asserted", unit("fact", revision=3))
    await world.say("unit.asserted", unit("fact", revision=1))
    assert [(await state(world, number)).state for number in (1, 2, 3)] == ["superseded", "stored", "stale"]
    assert (await state(world, 1)).at == (await state(world, 2)).accepted_at


async def test_a_unit_that_another_supersedes_is_superseded(world):
    await world.say("unit.asserted", unit("old", valid_from="2025-01-01"))
    await world.say("unit.asserted", unit("new", valid_from="2025-06-01", supersedes="old"))
    assert [(await state(world, number)).state for number in (1, 2)] == ["superseded", "stored"]


async def test_what_was_withdrawn_is_retracted_and_the_withdrawal_is_stored(world):
    await world.say("unit.asserted", unit("fact", revision=1))
    await world.say("unit.retracted", {"id": "fact", "revision": 2})
    assert [(await state(world, number)).state for number in (1, 2)] == ["retracted", "stored"]
    await world.say("unit.asserted", unit("fact", revision=3))
    assert [(await state(world, number)).state for number in (1, 2, 3)] == ["superseded", "superseded", "stored"]


async def test_declarations_are_stored_and_retracted(world):
    await world.say("entity.declared", {"id": "ana", "type": "person", "name": "Ana"})
    relation = {"source_id": "ana", "relation": "member_of", "target_id": "core"}
    await world.say("relation.declared", relation)
    assert [(await state(world, number)).state for number in (1, 2)] == ["stored", "stored"]
    await world.say("relation.retracted", relation)
    await world.say("entity.retracted", {"id": "ana"})
    assert [(await state(world, number)).state for number in (1, 2, 3)] == ["retracted", "retracted", "stored"]


async def test_a_part_that_waits_for_its_document_says_so(world):
    await world.say("unit.asserted", unit("part", document_id="doc", part=0, revision=1))
    found = await state(world)
    assert (found.state, found.outcome) == ("stored", "pending-document")


async def test_a_failure_names_stage_cause_attempts_and_letter(world):
    place = await world.fail("unit.asserted", unit("fact"))
    await world.log.bury(letter(world, place))
    found = await state(world)
    assert found.model_dump(include={"state", "stage", "cause", "attempts", "letter", "at"}) == {
        "state": "failed", "stage": "resolve", "cause": "unexpected-error", "attempts": 3, "letter": "d-1", "at": LATER,
    }  # fmt: skip


async def test_a_failure_stays_one_when_its_letter_is_discarded_or_let_go(world):
    place = await world.fail("unit.asserted", unit("fact"))
    assert (await state(world)).state == "failed"
    await world.log.bury(letter(world, place))
    await world.log.mark_letter("d-1", LetterMark(state=LetterState.DISCARDED, by="ana", at=LATER))
    found = await state(world)
    assert (found.state, found.letter) == ("failed", "d-1")


async def test_a_replayed_failure_is_pending_until_something_comes_of_it(world):
    place = await world.fail("unit.asserted", unit("fact"))
    await world.log.bury(letter(world, place))
    await world.log.mark_letter("d-1", LetterMark(state=LetterState.REPLAYED, by="ana", at=LATER, job="j"))
    found = await state(world)
    assert (found.state, found.at) == ("pending", LATER)
    (record,) = await world.log.find(TENANT, "e-1")
    said = {"id": "e-1", "source": "/t", "tenant": TENANT, "type": "unit.asserted", "data": unit("fact")}
    await world.store(parse_event(said), record)
    found = await state(world)
    assert (found.state, found.letter) == ("stored", None)


async def test_a_failed_comparison_is_a_failure_though_the_unit_is_searchable(world):
    await world.say("unit.asserted", unit("fact"))
    (record,) = await world.log.find(TENANT, "e-1")
    await world.log.bury(letter(world, record.position, stage=CONTRADICTIONS))
    found = await state(world)
    assert (found.state, found.stage, found.outcome) == ("failed", CONTRADICTIONS, "stored")


async def test_failing_to_do_again_what_was_done_does_not_undo_it(world):
    await world.say("unit.asserted", unit("fact"))
    (record,) = await world.log.find(TENANT, "e-1")
    await world.log.bury(letter(world, record.position, stage="embed"))
    assert (await state(world)).state == "stored"


async def test_a_record_that_was_never_accepted_says_nothing_of_one_that_was(world):
    """A broken record under an id over Kafka, and the mended event of that id over HTTP."""
    await world.say("unit.asserted", unit("fact"))
    (record,) = await world.log.find(TENANT, "e-1")
    await world.log.bury(letter(world, record.position.model_copy(update={"number": 4_711})))
    assert (await state(world)).state == "stored"


async def accepted(world):
    event = {"id": "e-9", "source": "/t", "tenant": TENANT, "type": "unit.asserted", "data": unit("fact")}
    await world.log.append([parse_event(event)])
    world.number = 9


async def test_what_is_tried_again_says_where_why_how_often_and_since_when(world):
    await accepted(world)
    assert (await state(world)).state == "pending"
    board = RetryBoard(MemoryCache(world.clock), world.log.log_id)
    assert (await state(world, board=board)).state == "pending"
    retrying = Retrying(stage="embed", attempts=4, cause="embedder-unavailable", since=LATER)
    await board.note(TENANT, "/t", "e-9", retrying)
    found = await state(world, board=board)
    assert found.model_dump(include={"state", "stage", "cause", "attempts", "at"}) == {
        "state": "retrying", "stage": "embed", "cause": "embedder-unavailable", "attempts": 4, "at": LATER,
    }  # fmt: skip
    await board.clear(TENANT, "/t", "e-9")
    assert (await state(world, board=board)).state == "pending"


async def test_a_note_of_a_process_that_died_is_forgotten(world):
    """Case C32: nothing is said to be tried by an owner that is gone."""
    await accepted(world)
    board = RetryBoard(MemoryCache(world.clock), world.log.log_id)
    await board.note(TENANT, "/t", "e-9", Retrying(stage="embed", attempts=1, cause="transient", since=NOW))
    world.clock.advance(KEPT_S + 1)
    assert (await state(world, board=board)).state == "pending"


async def test_without_the_cache_what_is_tried_again_is_pending(world):
    class Away(MemoryCache):
        async def get(self, key):
            raise CacheUnavailable

    await accepted(world)
    assert (await state(world, board=RetryBoard(Away(world.clock), world.log.log_id))).state == "pending"
