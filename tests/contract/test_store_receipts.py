"""A receipt says what moved: where units are, where they were, and which parts say what they said before."""

import pytest

from schemas.messages import ReceiptOutcome as Outcome
from tests.contract.knowledge_events import CORE, asserted, completed, parts, retracted, unit

pytestmark = pytest.mark.anyio


async def receipt(store, *events):
    """Apply events; return the receipt of the last."""
    return (await store.apply(*events))[-1].receipt


async def test_a_new_unit_was_nowhere_before(store):
    said = await receipt(store, asserted(unit("u", "alpha")))
    assert (said.scopes, said.before, said.kept) == ({"u": CORE}, {}, ())


async def test_a_changed_unit_was_there_before(store):
    await store.apply(asserted(unit("u", "alpha", revision=1)))
    said = await receipt(store, asserted(unit("u", "beta", revision=2)))
    assert (said.scopes, said.before) == ({"u": CORE}, {"u": CORE})


async def test_a_unit_that_moves_names_both_scopes(store):
    await store.apply(asserted(unit("u", "alpha", revision=1)))
    said = await receipt(store, asserted(unit("u", "alpha", scope="team/other", revision=2)))
    assert (said.scopes, said.before) == ({"u": "team/other"}, {"u": CORE})


async def test_a_retracted_unit_is_told_where_it_was(store):
    """Whoever could read it may hear that it is gone, and nobody else."""
    await store.apply(asserted(unit("u", "alpha", revision=1)))
    said = await receipt(store, retracted("u", revision=1))
    assert (said.retracted, said.scopes, said.before) == (("u",), {}, {"u": CORE})


async def test_what_changes_nothing_moves_nothing(store):
    """An older revision, a redelivery and a retraction of nothing."""
    await store.apply(asserted(unit("u", "alpha", revision=2)))
    assert (await receipt(store, asserted(unit("u", "old", revision=1)))).before == {}
    (again,) = await store.again(1)
    assert (again.receipt.outcome, again.receipt.before) == (Outcome.UNCHANGED, {})
    assert (await receipt(store, retracted("never", revision=1))).before == {}


async def test_a_document_tells_its_kept_parts_from_its_changed_ones(store):
    await store.apply(*parts("D", 1, ["one", "two", "three"]), completed("D", 1, ["one", "two", "three"]))
    said = await receipt(store, *parts("D", 2, ["one", "deux"]), completed("D", 2, ["one", "deux"]))
    assert (said.units, said.kept, said.retracted) == (("D#0", "D#1"), ("D#0",), ("D#2",))
    assert said.before == {"D#0": CORE, "D#1": CORE, "D#2": CORE}
    assert said.scopes == {"D#0": CORE, "D#1": CORE}
