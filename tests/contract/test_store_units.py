"""Units in the store: revisions, retractions, redeliveries, history, shared texts."""

from datetime import timedelta

import pytest

from schemas.messages import ReceiptOutcome as Outcome
from shared.errors import InvalidInput
from tests.contract.knowledge_events import (
    CORE,
    NOW,
    TENANT,
    asserted,
    effect_of,
    marker_of,
    retracted,
    unit,
    vector_of,
    where,
)

pytestmark = pytest.mark.anyio


def outcomes(applied):
    return [item.receipt.outcome for item in applied]


async def test_a_stated_unit_is_found_by_its_words_and_by_its_vector(store):
    (applied,) = await store.apply(asserted(unit("u", "The retry limit is five")))
    assert (applied.receipt.outcome, applied.receipt.units) == (Outcome.STORED, ("u",))
    assert await store.keyword("retry") == [("u",)]
    assert await store.vector("The retry limit is five") == [("u",)]


async def test_what_is_known_about_a_unit_comes_from_its_event(store):
    await store.apply(asserted(unit("u", "text", title="Title"), source="crawler", time="2026-05-01T10:00:00Z"))
    known = (await store.known("u")).known
    assert known.state.source == "crawler"
    assert known.state.event_id == "event-1"
    assert known.state.recorded_at == NOW - timedelta(days=10) + timedelta(seconds=1)
    assert known.state.revision == 1
    assert known.unit.occurred_at.at.isoformat() == "2026-05-01T10:00:00+00:00"


async def test_a_higher_revision_replaces_a_lower_one_in_either_order(store):
    await store.apply(
        asserted(unit("up", "first wording", revision=1)), asserted(unit("up", "second wording", revision=2))
    )
    applied = await store.apply(
        asserted(unit("down", "second wording", revision=2)), asserted(unit("down", "first wording", revision=1))
    )
    assert outcomes(applied) == [Outcome.STORED, Outcome.STALE]
    assert await store.keyword("second") == [("down", "up")]
    assert await store.keyword("first") == []


async def test_without_revisions_the_later_position_wins(store):
    await store.apply(asserted(unit("u", "earlier")), asserted(unit("u", "later")))
    assert (await store.known("u")).known.unit.text == "later"


async def test_older_revisions_are_kept_as_history_newest_first(store):
    await store.apply(*(asserted(unit("u", f"wording {n}", revision=n)) for n in (2, 3, 1)))
    async with store.reader.snapshot(TENANT) as snapshot:
        history = await snapshot.history("u")
    assert [known.unit.text for known in history] == ["wording 2", "wording 1"]


async def test_history_keeps_the_newest_fifty(store):
    await store.apply(*(asserted(unit("u", f"wording {n}", revision=n)) for n in range(1, 60)))
    async with store.reader.snapshot(TENANT) as snapshot:
        history = await snapshot.history("u")
    assert [known.state.revision for known in history] == list(range(58, 8, -1))


async def test_a_retraction_removes_the_unit_from_every_arm(store):
    await store.apply(asserted(unit("u", "The Payments Client retries")), retracted("u"))
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.latest(where(), 5) == []
        assert await snapshot.about(["paymentsclient"], where(), 5) == {"paymentsclient": []}
        assert await snapshot.entity_keys(frozenset({CORE}), 5) == []
        assert await snapshot.history("u") == []
    assert await store.keyword("retries") == []
    assert await store.vector("The Payments Client retries") == []
    assert await store.known("u") is None
    assert await store.writer.contributions(TENANT) == []


async def test_a_retraction_names_the_unit_that_is_gone_and_withdraws_its_contribution(store):
    await store.apply(asserted(unit("u", "text")))
    (applied,) = await store.apply(retracted("u"))
    assert (applied.receipt.outcome, applied.receipt.retracted) == (Outcome.RETRACTED, ("u",))
    assert [(item.id, item.removed, item.revision) for item in applied.contributions] == [("unit:u", True, 2)]


async def test_retracting_what_never_was_names_nothing_gone(store):
    (applied,) = await store.apply(retracted("nobody"))
    assert (applied.receipt.outcome, applied.receipt.retracted) == (Outcome.RETRACTED, ())


async def test_a_tombstone_stops_older_revisions_for_ever(store):
    await store.apply(retracted("u", 5))
    applied = await store.apply(
        asserted(unit("u", "old news", revision=4)), asserted(unit("u", "same time", revision=5))
    )
    assert outcomes(applied) == [Outcome.STALE, Outcome.STALE]
    assert await store.known("u") is None
    await store.apply(asserted(unit("u", "new news", revision=6)))
    assert (await store.known("u")).known.unit.text == "new news"


async def test_the_same_event_again_changes_nothing_and_names_its_unit(store):
    await store.apply(asserted(unit("u", "text")))
    before = await store.writer.digest(TENANT)
    (applied,) = await store.again(1)
    assert (applied.receipt.outcome, applied.receipt.units) == (Outcome.UNCHANGED, ("u",))
    assert [item.id for item in applied.contributions] == ["unit:u"]
    assert await store.writer.digest(TENANT) == before


async def test_a_retraction_delivered_again_names_its_unit_again(store):
    await store.apply(asserted(unit("u", "text")), retracted("u"))
    (applied,) = await store.again(2)
    assert (applied.receipt.outcome, applied.receipt.retracted) == (Outcome.UNCHANGED, ("u",))


async def test_an_event_delivered_again_at_a_later_place_does_not_come_back_from_the_dead(store):
    event = asserted(unit("u", "text"), id="once")
    await store.writer.apply(TENANT, [effect_of(event, 1)])
    await store.writer.apply(TENANT, [effect_of(retracted("u"), 2)])
    (applied,) = await store.writer.apply(TENANT, [effect_of(event, 3)])
    assert applied.receipt.outcome is Outcome.STALE
    assert await store.known("u") is None


async def test_equal_texts_of_one_scope_are_one_passage_with_their_sources_counted(store):
    """Case C10: the same fact from two sources is one thing found, corroborated twice."""
    await store.apply(
        asserted(unit("one", "Deploy freeze starts Friday."), source="chat"),
        asserted(unit("two", "deploy  FREEZE starts friday."), source="wiki"),
        asserted(unit("three", "Deploy freeze starts Friday."), source="wiki"),
    )
    assert await store.keyword("freeze") == [("three", "two", "one")]
    assert await store.vector("Deploy freeze starts Friday.") == [("three", "two", "one")]
    assert [(await store.known(name)).known.state.corroborations for name in ("one", "two", "three")] == [2, 2, 2]
    assert (await store.counts()).passages == 1
    await store.apply(retracted("one"))
    assert (await store.known("two")).known.state.corroborations == 1


async def test_equal_texts_of_two_scopes_are_two_passages(store):
    await store.apply(asserted(unit("one", "same words")), asserted(unit("two", "same words", scope="team/other")))
    assert await store.keyword("words") == [("one",)]
    assert (await store.known("one")).known.state.corroborations == 1


async def test_a_text_stays_found_while_any_unit_has_it(store):
    await store.apply(asserted(unit("one", "shared words")), asserted(unit("two", "shared words")), retracted("one"))
    assert await store.keyword("shared") == [("two",)]
    assert await store.vector("shared words") == [("two",)]


async def test_of_thirty_near_identical_units_the_one_that_stayed_is_found(store):
    """Case C47: what was deleted takes no place among the results, and the count agrees."""
    await store.apply(*(asserted(unit(f"u{n}", f"Rotate the signing keys, step {n}")) for n in range(30)))
    await store.apply(*(retracted(f"u{n}") for n in range(29)))
    assert await store.keyword("rotate signing keys", limit=5) == [("u29",)]
    assert await store.vector("Rotate the signing keys, step 3", limit=5) == [("u29",)]
    counts = await store.counts()
    assert (counts.units, counts.passages, counts.by_scope) == (1, 1, {CORE: 1})


async def test_one_gone_and_one_come_in_the_same_transaction_are_both_seen(store):
    await store.apply(asserted(unit("old", "Rotate keys monthly")))
    assert await store.vector("Rotate keys monthly") == [("old",)]
    await store.apply(retracted("old"), asserted(unit("new", "Rotate keys weekly")))
    assert await store.keyword("rotate") == [("new",)]
    assert await store.vector("Rotate keys monthly") == [("new",)]


async def test_a_unit_that_moves_to_another_scope_is_found_there_alone(store):
    await store.apply(
        asserted(unit("u", "moving", revision=1)), asserted(unit("u", "moving", revision=2, scope="team/other"))
    )
    assert await store.keyword("moving") == []
    assert await store.keyword("moving", where("team/other")) == [("u",)]
    assert await store.vector("moving") == []
    assert await store.vector("moving", where("team/other")) == [("u",)]


async def test_vectors_are_known_by_text_and_model_until_the_text_is_gone(store):
    await store.apply(asserted(unit("u", "text")))
    key = (await store.known("u")).known.state.content_key
    known = await store.writer.known_vectors("test-model", TENANT, [key, "other"])
    assert known[key].tolist() == [vector_of("text").tolist()]
    assert await store.writer.known_vectors("another-model", TENANT, [key]) == {}
    await store.apply(retracted("u"))
    assert await store.writer.known_vectors("test-model", TENANT, [key]) == {}


async def test_vectors_that_come_with_a_redelivery_are_kept(store):
    bare = effect_of(asserted(unit("u", "text")), 1)
    await store.writer.apply(TENANT, [type(bare)(bare.message, bare.event, None)])
    assert await store.vector("text") == []
    await store.writer.apply(TENANT, [bare])
    assert await store.vector("text") == [("u",)]


async def test_watermarks_rise_with_every_event_and_never_go_back(store):
    await store.writer.apply(TENANT, [effect_of(asserted(unit("u", "text")), 7), marker_of("dead", 8)])
    await store.writer.apply(TENANT, [marker_of("moved", 3)])
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.watermarks() == {("cortex.events", 0): 8}
        assert await snapshot.watermarks("contradictions") == {}


async def test_markers_have_no_effect_but_their_outcome(store):
    applied = await store.writer.apply(TENANT, [marker_of("dead", 1), marker_of("moved", 2)])
    assert outcomes(applied) == [Outcome.DEAD, Outcome.MOVED]
    assert (await store.counts()).units == 0


async def test_an_event_of_another_tenant_is_refused_and_nothing_of_its_batch_stays(store):
    with pytest.raises(InvalidInput):
        await store.writer.apply(
            TENANT,
            [effect_of(asserted(unit("u", "text")), 1), effect_of(asserted(unit("v", "text")), 2, tenant="other")],
        )
    assert (await store.counts()).units == 0
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.watermarks() == {}


async def test_tenants_share_nothing(store):
    await store.writer.apply("one", [effect_of(asserted(unit("u", "secret")), 1, tenant="one")])
    await store.writer.apply("two", [effect_of(asserted(unit("v", "public")), 1, tenant="two")])
    assert await store.reader.tenants() == ["one", "two"]
    async with store.reader.snapshot("two") as snapshot:
        assert await snapshot.units(["u"]) == {}
        assert await snapshot.keyword(["secret"], where(), 5) == []


async def test_a_tenant_that_has_nothing_is_empty(store):
    assert await store.reader.tenants() == []
    await store.reader.ping()
    async with store.reader.snapshot("nobody") as snapshot:
        assert (await snapshot.counts()).units == 0
        assert await snapshot.vector(vector_of("x"), where(), 5) == []
        assert await snapshot.about(["x"], where(), 5) == {"x": []}
        assert await snapshot.entities() == (0, [])
        assert [item.scope for item in await snapshot.memberships("ann")] == ["personal/ann"]
        assert await snapshot.memberships(None) == []
    assert await store.writer.contributions("nobody") == []
    assert set((await store.writer.digest("nobody")).values()) == {(await store.writer.digest("nobody"))["units"]}


async def test_a_snapshot_does_not_see_what_is_written_after_it(isolating_store):
    await isolating_store.apply(asserted(unit("one", "words here")))
    assert await isolating_store.vector("words here") == [("one",)]
    async with isolating_store.reader.snapshot(TENANT) as before:
        await before.watermarks()
        await isolating_store.apply(asserted(unit("two", "words there")), retracted("one"))
        assert await isolating_store.vector("words here") == [("two",)]
        assert [hit.unit_ids for hit in await before.vector(vector_of("words here"), where(), 5)] == [("one",)]
        assert [hit.unit_ids for hit in await before.keyword(["words", "word"], where(), 5)] == [("one",)]
        assert set(await before.units(["one", "two"])) == {"one"}
