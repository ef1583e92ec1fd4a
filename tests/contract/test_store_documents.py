"""Documents in the store: a revision answers when it is complete, and leaves nothing of the one before."""

import pytest

from schemas.messages import ReceiptOutcome as Outcome
from tests.contract.knowledge_events import CORE, TENANT, asserted, completed, parts, retracted, unit

pytestmark = pytest.mark.anyio

MARKS = [f"Section {n} holds MARK-{n:02d}" for n in range(1, 41)]


async def test_parts_wait_until_their_document_is_complete(store):
    applied = await store.apply(*parts("D", 1, ["alpha", "beta"]))
    assert [item.receipt.outcome for item in applied] == [Outcome.PENDING_DOCUMENT] * 2
    assert await store.keyword("alpha") == []
    (applied,) = await store.apply(completed("D", 1, ["alpha", "beta"]))
    assert (applied.receipt.outcome, applied.receipt.units) == (Outcome.STORED, ("D#0", "D#1"))
    assert sorted(item.id for item in applied.contributions) == ["unit:D#0", "unit:D#1"]
    assert await store.keyword("alpha") == [("D#0",)]


async def test_a_late_part_completes_its_document(store):
    first, second = parts("D", 1, ["alpha", "beta"])
    await store.apply(completed("D", 1, ["alpha", "beta"]), second)
    (applied,) = await store.apply(first)
    assert (applied.receipt.outcome, applied.receipt.units) == (Outcome.STORED, ("D#0", "D#1"))


async def test_every_part_is_kept_and_a_new_version_leaves_no_tail(store):
    """Case C14."""
    await store.apply(*parts("D", 1, MARKS), completed("D", 1, MARKS))
    for part, text in enumerate(MARKS):
        assert await store.keyword(text.rpartition(" ")[2], limit=1) == [(f"D#{part}",)]
    shorter = [*MARKS[:2], "Section 3 holds MARK-03, edited", *MARKS[3:6]]
    (*_, applied) = await store.apply(*parts("D", 2, shorter), completed("D", 2, shorter))
    assert len(applied.receipt.units) == 6
    assert applied.receipt.retracted == tuple(sorted(f"D#{part}" for part in range(6, 40)))
    counts = await store.counts()
    assert (counts.units, counts.documents, counts.by_scope) == (6, 1, {CORE: 6})
    assert await store.keyword("edited") == [("D#2",)]
    assert await store.vector(MARKS[30], limit=50) != []
    assert all(unit_id in applied.receipt.units for hit in await store.vector(MARKS[30], limit=50) for unit_id in hit)
    before = await store.writer.digest(TENANT)
    again = await store.again(*range(42, 49))
    assert {item.receipt.outcome for item in again} == {Outcome.UNCHANGED}
    assert again[-1].receipt.retracted == applied.receipt.retracted
    assert await store.writer.digest(TENANT) == before


async def test_until_the_new_revision_is_complete_the_old_one_answers(store):
    await store.apply(*parts("D", 1, ["alpha old"]), completed("D", 1, ["alpha old"]))
    await store.apply(*parts("D", 2, ["alpha new"]))
    assert (await store.known("D#0")).known.unit.text == "alpha old"
    await store.apply(completed("D", 2, ["alpha new"]))
    assert (await store.known("D#0")).known.unit.text == "alpha new"


async def test_a_hash_that_does_not_agree_completes_nothing(store):
    await store.apply(*parts("D", 1, ["alpha"]))
    (applied,) = await store.apply(completed("D", 1, ["something else"]))
    assert applied.receipt.outcome is Outcome.PENDING_DOCUMENT
    assert await store.known("D#0") is None


async def test_an_older_revision_that_comes_late_is_stale(store):
    await store.apply(*parts("D", 2, ["new"]), completed("D", 2, ["new"]))
    applied = await store.apply(*parts("D", 1, ["old"]), completed("D", 1, ["old"]))
    assert [item.receipt.outcome for item in applied] == [Outcome.STALE, Outcome.STALE]
    assert (await store.counts()).units == 1


async def test_no_parts_retract_the_document(store):
    await store.apply(*parts("D", 1, ["alpha", "beta"]), completed("D", 1, ["alpha", "beta"]))
    (applied,) = await store.apply(completed("D", 2, []))
    assert (applied.receipt.outcome, applied.receipt.retracted) == (Outcome.RETRACTED, ("D#0", "D#1"))
    assert all(item.removed for item in applied.contributions)
    counts = await store.counts()
    assert (counts.units, counts.passages, counts.documents) == (0, 0, 0)
    applied = await store.apply(*parts("D", 2, ["alpha"]))
    assert applied[0].receipt.outcome is Outcome.STALE


async def test_a_documents_retraction_needs_no_agreeing_hash(store):
    await store.apply(*parts("D", 1, ["alpha"]), completed("D", 1, ["alpha"]))
    event = completed("D", 2, [])
    (applied,) = await store.apply({**event, "data": {**event["data"], "hash": "0" * 64}})
    assert applied.receipt.outcome is Outcome.RETRACTED


async def test_a_revision_sent_anew_with_other_texts_counts_once_it_is_completed_anew(store):
    await store.apply(*parts("D", 1, ["alpha", "tail"]), completed("D", 1, ["alpha", "tail"]))
    await store.apply(*parts("D", 1, ["omega", "tail"]))
    assert (await store.known("D#0")).known.unit.text == "alpha"
    (applied,) = await store.apply(completed("D", 1, ["omega", "tail"]))
    won = applied.receipt.outcome is Outcome.STORED  # of two completions at one revision the digest decides
    assert (await store.known("D#0")).known.unit.text == ("omega" if won else "alpha")
    assert await store.keyword("tail") == [("D#1",)]


async def test_unchanged_parts_keep_their_vectors_over_revisions(store):
    await store.apply(*parts("D", 1, ["alpha", "beta"]), completed("D", 1, ["alpha", "beta"]))
    key = (await store.known("D#1")).known.state.content_key
    await store.apply(*parts("D", 2, ["gamma", "beta"]))
    assert set(await store.writer.known_vectors("test-model", TENANT, [key])) == {key}
    await store.apply(completed("D", 2, ["gamma", "beta"]))
    assert set(await store.writer.known_vectors("test-model", TENANT, [key])) == {key}
    assert await store.vector("beta", limit=1) == [("D#1",)]


async def test_a_retracted_part_stays_away_while_its_document_stands(store):
    await store.apply(*parts("D", 1, ["alpha", "beta"]), completed("D", 1, ["alpha", "beta"]), retracted("D#0", 1))
    assert await store.keyword("alpha") == []
    await store.apply(*parts("D", 2, ["alpha", "beta"]), completed("D", 2, ["alpha", "beta"]))
    assert await store.keyword("alpha") == [("D#0",)]


async def test_titles_are_words_too(store):
    await store.apply(asserted(unit("u", "It has a lock.", title="Journal")), asserted(unit("v", "It has a lock.")))
    assert await store.keyword("journal") == [("u",)], (
        "the same words under another title, or none, are another passage"
    )
