"""Work that is done anew on what a store knows: which units are meant, and what their texts were resolved to."""

import pytest

from schemas.commands import Job, JobState, Selection
from schemas.messages import Resolution
from shared.mentions import find_mentions
from shared.store import FoundContradiction, Resolving
from tests.contract.knowledge_events import (
    MODEL,
    NOW,
    TENANT,
    asserted,
    completed,
    parts,
    place,
    retracted,
    unit,
    where,
)

pytestmark = pytest.mark.anyio

OTHER = "team/other"


async def selected(store, after="", limit=10, **given):
    async with store.reader.snapshot(TENANT) as snapshot:
        found = await snapshot.select(Selection(**given), after, limit)
        assert await snapshot.count_selected(Selection(**given)) >= len(found)
    return found


async def ids(store, **given):
    return [one.unit.id for one in await selected(store, **given)]


def resolving(one, resolution=None):
    return Resolving(one.unit.id, one.version, one.revision, resolution or Resolution())


async def test_units_are_selected_by_all_that_is_given(store):
    await store.apply(
        asserted(unit("b", "The Payments Client retries")),
        asserted(unit("a", "The Ledger retries"), source="crawler"),
        asserted(unit("c", "The Mailer retries", scope=OTHER), source="crawler"),
        asserted(unit("gone", "Nothing")),
        retracted("gone"),
    )
    assert await ids(store) == ["a", "b", "c"]
    assert await ids(store, source="crawler") == ["a", "c"]
    assert await ids(store, source="crawler", scope=OTHER) == ["c"]
    assert await ids(store, unit_ids=("b", "c", "gone", "never")) == ["b", "c"]
    assert await ids(store, model=MODEL, scope=OTHER) == ["c"]
    assert await ids(store, model="another") == []
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.count_selected(Selection(source="crawler")) == 2


async def test_a_selection_comes_page_by_page_in_the_order_of_ids(store):
    await store.apply(*(asserted(unit(f"u{n}", f"Fact {n}")) for n in (3, 1, 2)))
    first = await selected(store, limit=2)
    assert [one.unit.id for one in first] == ["u1", "u2"]
    assert [one.unit.id for one in await selected(store, after="u2", limit=2)] == ["u3"]
    assert await selected(store, after="u3") == []


async def test_a_selected_unit_says_what_it_is_at_which_version(store):
    await store.apply(asserted(unit("u", "The Ledger retries", revision=4)))
    (one,) = await selected(store)
    known = (await store.known("u")).known
    assert (one.unit, one.revision, one.recorded_at) == (known.unit, 4, known.state.recorded_at)
    assert one.content_key == known.state.content_key
    await store.apply(asserted(unit("u", "The Ledger does not", revision=5)))
    assert (await selected(store))[0].version != one.version


async def test_a_tenant_that_has_nothing_has_nothing_to_select(store):
    assert await selected(store) == []


async def test_what_a_text_was_resolved_to_anew_replaces_what_was_found_before(store):
    await store.apply(asserted(unit("u", "The Payments Client calls the Ledger")))
    before = await store.writer.digest(TENANT)
    (one,) = await selected(store)
    (emptied,) = await store.writer.resolve_again(TENANT, [resolving(one)])
    assert emptied.written
    assert emptied.contribution.keys == ()
    key = find_mentions("The Payments Client calls the Ledger", None)[0].key
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.sharing([[key]], 5) == [[]]
        assert (await snapshot.about([key], where(), 5))[key] == []
        assert (await snapshot.units(["u"]))["u"].mentions == ()
    assert await store.keyword("payments") == [("u",)], "its words are as they were"
    assert await store.vector("The Payments Client calls the Ledger") == [("u",)]
    found = Resolution(mentions=find_mentions(one.unit.text, None))
    (again,) = await selected(store)
    assert again.version == emptied.version != one.version, "what was prepared from the former is not taken for it"
    (restored,) = await store.writer.resolve_again(TENANT, [resolving(again, found)])
    assert restored.written
    assert {weight.key for weight in restored.contribution.keys} == {mention.key for mention in found.mentions}
    assert await store.writer.digest(TENANT) == before
    async with store.reader.snapshot(TENANT) as snapshot:
        ((version,),) = await snapshot.sharing([[key]], 5)
        assert version.unit_id == "u"


async def test_nothing_is_written_for_a_unit_that_has_changed_or_gone_meanwhile(store):
    await store.apply(asserted(unit("changed", "The Ledger retries")), asserted(unit("gone", "The Mailer retries")))
    old = await selected(store)
    await store.apply(asserted(unit("changed", "The Ledger does not retry")), retracted("gone"))
    before = await store.writer.digest(TENANT)
    changed, gone = await store.writer.resolve_again(TENANT, [resolving(one) for one in old])
    assert (changed.written, gone.written) == (False, False)
    assert changed.version == (await selected(store))[0].version
    assert changed.contribution.keys, "what it contributes now, not what was handed in"
    assert (gone.version, gone.contribution.removed, gone.contribution.revision) == (None, True, old[1].revision)
    assert await store.writer.digest(TENANT) == before


async def test_a_part_of_a_document_is_resolved_anew_and_its_document_stands(store):
    texts = ["The Payments Client retries", "The Ledger does not"]
    await store.apply(*parts("d", 1, texts), completed("d", 1, texts))
    before = await store.writer.digest(TENANT)
    found = await selected(store)
    await store.writer.resolve_again(TENANT, [resolving(one) for one in found])
    assert await store.writer.digest(TENANT) != before
    restored = [
        resolving(one, Resolution(mentions=find_mentions(one.unit.text, None))) for one in await selected(store)
    ]
    await store.writer.resolve_again(TENANT, restored)
    assert await store.writer.digest(TENANT) == before
    newer = ["The Payments Client waits"]
    await store.apply(*parts("d", 2, newer), completed("d", 2, newer))
    assert await ids(store) == ["d#0"]


async def test_a_redelivery_leaves_what_was_resolved_anew(store):
    await store.apply(asserted(unit("u", "The Payments Client retries")))
    (one,) = await selected(store)
    await store.writer.resolve_again(TENANT, [resolving(one)])
    await store.again(1)
    assert (await store.known("u")).mentions == ()


async def test_checking_again_moves_no_watermark(store):
    await store.apply(asserted(unit("a", "one")), asserted(unit("b", "two")))
    pair = FoundContradiction(("a", "b"), (1, 2), "number", "1 or 2", "limit", 0.9)
    await store.writer.record_contradictions(TENANT, place(1), NOW, ["a"], [])
    new = await store.writer.record_contradictions(TENANT, None, NOW, ["b"], [pair])
    assert [kept.found for kept in new] == [pair]
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.watermarks("contradictions") == {("cortex.events", 0): 1}


def job(state: JobState, done: int = 0, job_id: str = "j1") -> Job:
    return Job(id=job_id, tenant=TENANT, kind="reindex", state=state, requested_by="ana", requested_at=NOW, done=done)


async def test_a_job_that_is_over_stays_as_it_ended(store):
    for state, done in ((JobState.RUNNING, 1), (JobState.RUNNING, 5), (JobState.DONE, 9), (JobState.RUNNING, 2)):
        await store.writer.save_job(TENANT, job(state, done))
    await store.writer.save_job(TENANT, job(JobState.RUNNING, 3, "j2"))
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.jobs() == [job(JobState.RUNNING, 3, "j2"), job(JobState.DONE, 9)]
        assert await snapshot.jobs(job_id="j1") == [job(JobState.DONE, 9)]
