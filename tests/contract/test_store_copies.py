"""Copies of one event at several places of the log: the one that was recorded first counts, whichever was handled first."""

from datetime import timedelta
from itertools import permutations

import pytest

from schemas.messages import ReceiptOutcome as Outcome
from tests.contract.knowledge_events import NOW, TENANT, asserted, completed, effect_of, parts, retracted, unit, where

pytestmark = pytest.mark.anyio

BEGUN = NOW - timedelta(days=10)


def recorded(number: int):
    """Return when `effect_of` has an event of this number recorded."""
    return BEGUN + timedelta(seconds=number)


async def tell(store, event: dict, *numbers: int) -> list[Outcome]:
    """Deliver copies of an event, one at a time, from these places; return what became of each."""
    said = []
    for number in numbers:
        (applied,) = await store.writer.apply(TENANT, [effect_of({"id": "copied", **event}, number)])
        said.append(applied.receipt.outcome)
    return said


@pytest.mark.parametrize("order", list(permutations([3, 5, 9])))
async def test_a_unit_is_known_since_its_first_copy_was_recorded(store, order):
    said = await tell(store, asserted(unit("u", "The gate is shut.", revision=2)), *order)
    assert said == [Outcome.STORED, Outcome.UNCHANGED, Outcome.UNCHANGED]
    state = (await store.known("u")).known.state
    assert (state.recorded_at, state.revision) == (recorded(3), 2)
    assert await store.keyword("gate") == [("u",)]
    assert await store.vector("The gate is shut.") == [("u",)]
    assert (await store.counts()).units == 1


@pytest.mark.parametrize("order", [(3, 9), (9, 3)])
async def test_what_was_known_by_then_follows_the_first_copy(store, order):
    await tell(store, asserted(unit("u", "The gate is shut.", revision=2)), *order)
    for at, found in ((recorded(2), []), (recorded(4), [("u",)]), (recorded(10), [("u",)])):
        assert await store.keyword("gate", where(known_at=at)) == found, at


@pytest.mark.parametrize("order", [(3, 9), (9, 3)])
async def test_an_older_revision_in_the_history_is_as_old_as_its_first_copy(store, order):
    first, second = order
    event = asserted(unit("u", "The gate is open.", revision=1))
    await tell(store, event, first)
    await store.writer.apply(TENANT, [effect_of(asserted(unit("u", "The gate is shut.", revision=2)), 20)])
    assert await tell(store, event, second) == [Outcome.STALE]
    async with store.reader.snapshot(TENANT) as snapshot:
        (older,) = await snapshot.history("u")
    assert older.state.recorded_at == recorded(3)
    assert (await store.known("u")).known.unit.text == "The gate is shut."


@pytest.mark.parametrize("order", [(3, 9), (9, 3)])
@pytest.mark.parametrize("completes_first", [True, False])
async def test_a_part_is_known_since_its_first_copy_was_recorded(store, order, completes_first):
    part, other = parts("D", 1, ["alpha", "beta"])
    first, second = order
    done = [effect_of(other, 30), effect_of(completed("D", 1, ["alpha", "beta"]), 31)]
    await tell(store, part, first)
    if completes_first:
        await store.writer.apply(TENANT, done)
    said = await tell(store, part, second)
    assert said == [Outcome.UNCHANGED if completes_first else Outcome.PENDING_DOCUMENT]
    if not completes_first:
        await store.writer.apply(TENANT, done)
    assert (await store.known("D#0")).known.state.recorded_at == recorded(3)
    assert (await store.known("D#1")).known.state.recorded_at == recorded(30)
    assert await store.keyword("alpha") == [("D#0",)]
    assert await store.vector("alpha") != []


@pytest.mark.parametrize("order", [(3, 9), (9, 3)])
async def test_copies_of_a_retraction_leave_the_unit_gone(store, order):
    await store.writer.apply(TENANT, [effect_of(asserted(unit("u", "The gate is shut.", revision=1)), 1)])
    assert await tell(store, retracted("u", revision=2), *order) == [Outcome.RETRACTED, Outcome.UNCHANGED]
    assert await store.known("u") is None
    assert await store.keyword("gate") == []


async def test_an_earlier_copy_leaves_the_digest_and_what_supersedes_as_they_were(store):
    successor = asserted(unit("new", "The gate is open again.", supersedes="old", revision=1))
    await store.writer.apply(TENANT, [effect_of(asserted(unit("old", "The gate is shut.", revision=1)), 1)])
    await tell(store, successor, 9)
    before = await store.writer.digest(TENANT)
    await tell(store, successor, 5)
    assert await store.writer.digest(TENANT) == before
    superseded = (await store.known("old")).known.state
    assert superseded.superseded_by == "new"
    assert superseded.held_until == recorded(5)
