"""Replaying a log into an empty store: what is made, from what, what is left out, and what two stores of one log share."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

import pytest

from ingest.buried import Buried, buried_in, discarded_in
from ingest.rebuild import Rebuild
from ingest.verify import ROUNDS, STATES, Side, Verdict, verify
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.errors import EmbedderUnavailable
from shared.fingerprints import PARTS
from shared.log import BULK, EVENTS, LogRecord
from shared.logs.memory import MemoryLog
from shared.logs.rows import make_row
from shared.partitioner import partition_of
from shared.stores.memory import MemoryStore
from tests.unit.replaying_memory import TENANT, event, log_of, parsed, rebuilt, unit

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)

TEXTS = [
    unit(1, "a", "Ticket 88 is owned by Sam.", revision=1),
    unit(2, "a", "Ticket 88 is owned by Ines.", revision=2),
    unit(3, "b", "Ticket 88 is owned by Omar."),
    event(4, "unit.retracted", id="gone", revision=3),
    unit(5, "gone", "This was withdrawn before it came.", revision=2),
    event(6, "entity.declared", id="billing", type="system", name="Billing Service", aliases=["Ledger Hub"]),
    event(7, "relation.declared", source_id="team-core", relation="owns", target_id="billing"),
    unit(8, "c", "The retry limit for the Billing Service is 5."),
    unit(9, "d", "The retry limit for the Ledger Hub is 6."),
]


class Broken(HashedEmbedder):
    """An embedder that fails for some texts, or for all of them."""

    def __init__(self, word: str = "") -> None:
        super().__init__()
        self.word = word

    async def embed_text(self, text: str):
        if self.word in text:
            raise EmbedderUnavailable
        return await super().embed_text(text)


def side(store: MemoryStore) -> Side:
    return Side(store, store)


async def compared(log: MemoryLog, live: MemoryStore, fresh: MemoryStore | None = None, buried: Buried | None = None):
    """Compare a store with one made from the log; return the verdict and the rebuild."""
    fresh = fresh or MemoryStore()
    rebuild = Rebuild(log, fresh, fresh, HashedEmbedder(), lender=live)
    verdict = await verify(
        TENANT, side(live), side(fresh), lambda until: rebuild.run(TENANT, buried or Buried(), until), settle_s=0.01
    )
    return verdict, rebuild


async def pairs_of(store: MemoryStore) -> set[str]:
    return set(await store.fingerprints(TENANT, "contradictions"))


async def test_two_stores_of_one_log_are_equal_in_every_part():
    log = await log_of(TEXTS)
    live, _ = await rebuilt(log)
    verdict, _ = await compared(log, live)
    assert (verdict.differing, verdict.settled, verdict.rounds) == (0, True, 1)
    assert set(verdict.parts) == {*PARTS, STATES}
    full = {part for part, one in verdict.parts.items() if one.things}
    assert full == {*PARTS, STATES} - {"documents"}
    assert all(one.live == one.rebuilt for one in verdict.parts.values())


@pytest.mark.parametrize("order", list(permutations([TEXTS[5], TEXTS[7], TEXTS[8]])))
async def test_whichever_comes_last_the_same_contradictions_are_found(order):
    """A declaration that ties two names together after units were compared by them has these compared again."""
    log, store = await log_of([]), MemoryStore()
    for one in order:  # a run each: the events of one run are compared in one look
        await log.append(parsed([one]))
        await rebuilt(log, store)
    assert await pairs_of(store) == {"c~d"}


async def test_a_rebuild_goes_on_from_where_the_store_is():
    log = await log_of(TEXTS[:4])
    store, first = await rebuilt(log)
    await log.append(parsed(TEXTS[4:]), topic=BULK)
    _, second = await rebuilt(log, store)
    assert (first.tally.events, second.tally.events) == (4, 5)
    whole, _ = await rebuilt(log)
    assert await store.digest(TENANT) == await whole.digest(TENANT)


async def test_it_stops_at_the_watermarks_that_it_is_given():
    log = await log_of(TEXTS)
    store = MemoryStore()
    until = {("cortex.events", partition): 5 for partition in range(2)}
    await Rebuild(log, store, store, HashedEmbedder()).run(TENANT, Buried(), until)
    async with store.snapshot(TENANT) as snapshot:
        assert max((await snapshot.watermarks()).values()) <= 5
        assert await snapshot.entities() == (0, [])


class Listed(MemoryLog):
    """A log of two partitions that holds given records as they are."""

    def __init__(self, records: list[LogRecord]) -> None:
        super().__init__(2, SystemClock())
        self.records = records

    async def scan(self, tenant=None):
        yield self.records


def stray_of(log_id: str) -> tuple[LogRecord, LogRecord]:
    """Return an event in a partition that its key does not name, and what it was sent on as."""
    [said] = parsed([unit(1, "a", "Ticket 88 is owned by Sam.")])
    right = partition_of(said.key.encode(), 2)
    row = make_row(said, EVENTS, 2)
    came, sent = (Position(log=log_id, topic=EVENTS, partition=partition, number=3) for partition in (1 - right, right))
    first = LogRecord(came, NOON, TENANT, said.source, said.id, row.key, row.body, 7)
    return first, replace(first, position=sent, moved_from=came)


@pytest.mark.parametrize(
    ("reached", "units"), [({"came", "sent"}, {"a"}), ({"came"}, set()), ({"sent"}, {"a"}), (set(), set())]
)
async def test_a_stray_has_its_effect_where_it_was_sent_on_to(reached, units):
    """A store that has passed it where it came, and has not come to where it stands now, knows nothing of it."""
    came, sent = stray_of("log-1")
    until = {
        (EVENTS, record.position.partition): 3 if name in reached else 2
        for name, record in (("came", came), ("sent", sent))
    }
    store = MemoryStore()
    rebuild = Rebuild(Listed([came, sent]), store, store, HashedEmbedder())
    await rebuild.run(TENANT, Buried(), until)
    assert set(await store.fingerprints(TENANT, "units")) == units
    async with store.snapshot(TENANT) as snapshot:
        assert await snapshot.watermarks() == {place: 3 for place, number in until.items() if number == 3}
    await rebuild.run(TENANT, Buried())
    assert set(await store.fingerprints(TENANT, "units")) == {"a"}


async def test_strays_that_were_never_sent_on_are_replayed_where_they_stand():
    """As in a log that was written for another number of partitions."""
    came, _ = stray_of("log-1")
    store = MemoryStore()
    await Rebuild(Listed([came]), store, store, HashedEmbedder()).run(
        TENANT, Buried(), {(EVENTS, came.position.partition): 3}
    )
    assert set(await store.fingerprints(TENANT, "units")) == {"a"}


async def test_vectors_are_borrowed_and_only_what_is_missing_is_computed():
    log = await log_of(TEXTS[:3])
    live, _ = await rebuilt(log)
    await log.append(parsed([unit(10, "new", "Nobody has embedded this.")]))
    _, rebuild = await rebuilt(log, None, lender=live)
    assert (rebuild.tally.borrowed, rebuild.tally.computed) == (2, 2)  # of a's older text nothing is kept


async def test_an_event_that_cannot_be_used_has_no_effect_and_is_counted():
    log = await log_of([unit(1, "good", "The build runs nightly."), unit(2, "bad", "This one breaks it.")])
    store = MemoryStore()
    rebuild = Rebuild(log, store, store, Broken("breaks"))
    await rebuild.run(TENANT, Buried())
    assert dict(rebuild.tally.failed) == {"embedder-unavailable": 1}
    assert set(await store.fingerprints(TENANT, "units")) == {"good"}
    async with store.snapshot(TENANT) as snapshot:
        assert max((await snapshot.watermarks()).values()) == 2


async def test_an_embedder_that_works_for_nothing_buries_nobody():
    log = await log_of(TEXTS[:1])
    store = MemoryStore()
    with pytest.raises(EmbedderUnavailable):
        await Rebuild(log, store, store, Broken()).run(TENANT, Buried())
    assert await store.tenants() == []


async def test_what_the_live_store_buried_is_left_out_and_counted_as_mended():
    log = await log_of([unit(1, "good", "The build runs nightly."), unit(2, "bad", "This one breaks it.")])
    live = MemoryStore()
    await Rebuild(log, live, live, Broken("breaks")).run(TENANT, Buried())
    await log.bury(_letter("embed", 2, await _partition(log, "e2")))
    verdict, rebuild = await compared(log, live, buried=await buried_in(log, live, TENANT))
    assert verdict.differing == 0
    assert rebuild.tally.mended == ["tests e2"]


async def test_a_letter_that_was_replayed_with_success_leaves_nothing_out():
    log = await log_of([unit(1, "good", "The build runs nightly.")])
    live, _ = await rebuilt(log)
    await log.bury(_letter("embed", 1, await _partition(log, "e1")))
    assert not (await buried_in(log, live, TENANT)).without_effect


async def test_what_was_discarded_stays_away_from_a_store_that_is_made_for_good():
    log = await log_of([unit(1, "good", "The build runs nightly."), unit(2, "bad", "Nobody wants this.")])
    letter = _letter("embed", 2, await _partition(log, "e2"))
    await log.bury(letter)
    assert not (await discarded_in(log, TENANT)).without_effect
    mark = LetterMark(state=LetterState.DISCARDED, by="ana", at=SystemClock().now())
    assert await log.mark_letter(letter.id, mark)
    store = MemoryStore()
    await Rebuild(log, store, store, HashedEmbedder()).run(TENANT, await discarded_in(log, TENANT))
    assert set(await store.fingerprints(TENANT, "units")) == {"good"}


async def test_a_letter_of_a_record_that_never_entered_leaves_out_no_event_of_the_same_number():
    """What was refused before it had a place is named by the broker's offset, which is the number of another event."""
    log = await log_of([unit(1, "good", "The build runs nightly.")])
    live, _ = await rebuilt(log)
    letter = _letter("embed", 1, await _partition(log, "e1")).model_copy(update={"event_id": "refused"})
    await log.bury(letter)
    verdict, rebuild = await compared(log, live, buried=await buried_in(log, live, TENANT))
    assert (verdict.differing, rebuild.tally.mended) == (0, [])
    assert await log.mark_letter(letter.id, LetterMark(state=LetterState.DISCARDED, by="ana", at=SystemClock().now()))
    discarded = await discarded_in(log, TENANT)
    store = MemoryStore()
    await Rebuild(log, store, store, HashedEmbedder()).run(TENANT, discarded)
    assert set(await store.fingerprints(TENANT, "units")) == {"good"}
    [record] = [one async for page in log.scan(TENANT) for one in page]
    assert discarded.letter_of(record) is None


async def test_a_difference_is_located_with_what_both_sides_say():
    log = await log_of(TEXTS[:3])
    live, _ = await rebuilt(await log_of([*TEXTS[:2], unit(3, "b", "Ticket 88 is owned by Zoe.")]))
    verdict, _ = await compared(log, live)
    told = {(one.part, one.identity): one for one in verdict.differences}
    assert {part for part, _ in told} >= {"units", "mentions"}
    assert "Zoe" in told["units", "b"].live
    assert "Omar" in told["units", "b"].rebuilt
    assert ("units", "a") not in told


async def test_a_unit_that_one_side_lacks_is_told_as_not_there():
    log = await log_of(TEXTS[:3])
    live, _ = await rebuilt(log)
    fresh, _ = await rebuilt(log)
    await log.append(parsed([unit(11, "extra", "Only one of them has this.")]))
    await rebuilt(log, fresh)
    verdict, _ = await compared(log, live, fresh)
    told = {(one.part, one.identity): one for one in verdict.differences}
    assert told["units", "extra"].live is None
    assert "Only one of them" in told["units", "extra"].rebuilt


class Moving:
    """A store that is written while it is compared: each look at it finds one event more. ``lost``: a unit that is not in it."""

    def __init__(self, store: MemoryStore, log: MemoryLog, events: list[dict], lost: str = "") -> None:
        self._store, self._log, self._events, self._lost = store, log, events, lost

    async def fingerprints(self, tenant: str, part: str) -> dict[str, str]:
        if part == PARTS[0] and self._events:
            await self._log.append(parsed([self._events.pop()]))
            await rebuilt(self._log, self._store)
        found = await self._store.fingerprints(tenant, part)
        return {identity: one for identity, one in found.items() if identity != self._lost}


async def judged_while_moving(events: list[dict], lost: str = "") -> Verdict:
    """Compare a store that gets an event during each look."""
    log = await log_of(TEXTS)
    live, _ = await rebuilt(log)
    fresh = MemoryStore()
    rebuild = Rebuild(log, fresh, fresh, HashedEmbedder())
    moving = Side(live, Moving(live, log, events, lost))
    return await verify(TENANT, moving, side(fresh), lambda until: rebuild.run(TENANT, Buried(), until), settle_s=0.01)


async def test_what_is_only_on_its_way_is_no_difference():
    verdict = await judged_while_moving([unit(20 + n, f"more-{n}", f"Gate {n} opens at dawn.") for n in range(3)])
    assert (verdict.differing, verdict.moving) == (0, 0)


async def test_a_unit_that_is_stated_anew_during_every_look_is_no_difference():
    """It differs each time, and is right each time."""
    again = [unit(20 + n, "busy", f"Gate {n} opens at dawn.") for n in range(ROUNDS)]
    verdict = await judged_while_moving(again)
    assert (verdict.differing, verdict.settled, verdict.rounds) == (0, False, 2)
    assert verdict.moving > 0, "told, not passed over"


async def test_what_is_wrong_is_told_while_something_else_moves():
    again = [unit(20 + n, "busy", f"Gate {n} opens at dawn.") for n in range(ROUNDS)]
    verdict = await judged_while_moving(again, lost="c")
    assert {difference.identity for difference in verdict.differences} == {"c"}


async def test_what_moves_at_first_and_is_wrong_is_told_once_it_stands_still():
    verdict = await judged_while_moving([unit(20, "c", "The retry limit for the Billing Service is 5.")], lost="c")
    assert "c" in {difference.identity for difference in verdict.differences}
    assert verdict.moving == 0


async def _partition(log: MemoryLog, event_id: str) -> int:
    [record] = await log.find(TENANT, event_id)
    return record.position.partition


def _letter(stage: str, number: int, partition: int) -> DeadLetter:
    place = Position(log="any", topic="cortex.events", partition=partition, number=number)
    return DeadLetter(
        id=f"letter-{number}", stage=stage, cause="embedder-unavailable", detail="", attempts=3, topic=place.topic,
        partition=partition, offset=number, tenant=TENANT, event_id=f"e{number}", event_source="tests",
        failed_at=SystemClock().now(), body=b"{}",
    )  # fmt: skip
