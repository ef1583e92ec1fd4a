"""Declarations, memberships and contradictions in the store."""

from datetime import timedelta

import pytest

from schemas.messages import ReceiptOutcome as Outcome
from shared.store import FoundContradiction, Membership
from tests.contract.knowledge_events import (
    CORE,
    NOW,
    TENANT,
    asserted,
    entity,
    entity_gone,
    place,
    relation,
    relation_gone,
    retracted,
    unit,
)

pytestmark = pytest.mark.anyio


async def memberships(store, principal):
    async with store.reader.snapshot(TENANT) as snapshot:
        return await snapshot.memberships(principal)


async def scopes(store, principal):
    return [membership.scope for membership in await memberships(store, principal)]


async def test_declared_entities_are_listed_by_id_with_a_version(store):
    await store.apply(entity("b", "team", "Bees"), entity("a", "system", "Ants", aliases=["Formica"]))
    async with store.reader.snapshot(TENANT) as snapshot:
        version, declared = await snapshot.entities()
    assert [item.id for item in declared] == ["a", "b"]
    await store.apply(entity_gone("b"))
    async with store.reader.snapshot(TENANT) as snapshot:
        later, declared = await snapshot.entities()
    assert [item.id for item in declared] == ["a"]
    assert later != version


async def test_a_declaration_contributes_its_names_folded(store):
    (applied,) = await store.apply(entity("sys-1", "system", "System Admin", aliases=["SysAdmin"]))
    (contribution,) = applied.contributions
    assert (applied.receipt.outcome, contribution.id) == (Outcome.DECLARED, "entity:sys-1")
    assert (contribution.entity_id, contribution.entity_type, contribution.entity_name) == (
        "sys-1",
        "system",
        "System Admin",
    )
    assert {"systemadmin", "sysadmin"} <= set(contribution.names)


async def test_an_older_declaration_does_not_replace_a_newer_one(store):
    await store.apply(entity("a", "team", "New", revision=2))
    applied = await store.apply(entity("a", "team", "Old", revision=1), entity_gone("a", 1))
    assert [item.receipt.outcome for item in applied] == [Outcome.STALE, Outcome.STALE]
    assert applied[0].contributions[0].entity_name == "New"
    (applied,) = await store.apply(entity_gone("a", 2))
    assert applied.receipt.outcome is Outcome.RETRACTED
    assert applied.contributions[0].removed


async def test_relations_are_one_edge_between_ids(store):
    (applied,) = await store.apply(relation("core", "owns", "billing", weight=0.5))
    (edge,) = applied.contributions[0].edges
    assert (edge.source, edge.relation, edge.target, edge.weight) == ("=core", "owns", "=billing", 0.5)
    await store.apply(relation("ann", "member_of", "core"), relation("billing", "depends_on", "ledger"))
    async with store.reader.snapshot(TENANT) as snapshot:
        assert [item.source_id for item in await snapshot.relations("billing")] == ["billing", "core"]
        assert len(await snapshot.relations()) == 3
    assert len(await store.writer.contributions(TENANT)) == 3
    await store.apply(relation_gone("core", "owns", "billing"))
    async with store.reader.snapshot(TENANT) as snapshot:
        assert len(await snapshot.relations()) == 2


async def test_memberships_lead_upwards_by_declared_relations(store):
    await store.apply(
        entity("core", "team"), entity("ops", "department"), entity("acme-corp", "organization"), entity("billing", "system"),
        relation("ann", "member_of", "core", role="lead"), relation("core", "belongs_to", "ops"),
        relation("ops", "part_of", "acme-corp"), relation("core", "owns", "billing"),
    )  # fmt: skip
    assert await memberships(store, "ann") == [
        Membership("personal/ann", 0),
        Membership("team/core", 1, "lead"),
        Membership("department/ops", 2),
        Membership("organization/acme-corp", 3),
    ]
    assert await scopes(store, "ops") == ["personal/ops", "organization/acme-corp"]


async def test_an_undeclared_group_is_the_scope_that_units_were_given_to(store):
    await store.apply(relation("ann", "member_of", "core"), relation("ann", "member_of", "ghosts"))
    assert await scopes(store, "ann") == ["personal/ann"]
    await store.apply(asserted(unit("u", "text")), asserted(unit("v", "mine", scope="personal/ghosts")))
    assert await scopes(store, "ann") == ["personal/ann", CORE]


async def test_whoever_is_trusted_reads_the_scopes_that_have_units_now(store):
    """A scope counts as long as any unit is left in it, whichever was seen there before."""
    await store.apply(
        asserted(unit("a", "one")), asserted(unit("b", "two")), asserted(unit("c", "x", scope="team/ops"))
    )
    assert await scopes(store, None) == [CORE, "team/ops"]
    await store.apply(asserted(unit("a", "one", scope="team/web", revision=2)), retracted("c"))
    assert await scopes(store, None) == [CORE, "team/web"]
    await store.apply(retracted("b"))
    assert await scopes(store, None) == ["team/web"]
    await store.apply(asserted(unit("a", "one", revision=3)))
    assert await scopes(store, None) == [CORE]


async def test_being_named_in_a_persons_relation_opens_nothing_of_theirs(store):
    await store.apply(
        entity("bob", "person"), relation("ann", "part_of", "bob"), asserted(unit("v", "mine", scope="personal/bob"))
    )
    assert await scopes(store, "ann") == ["personal/ann"]


async def test_circles_end(store):
    await store.apply(
        entity("a", "team"), entity("b", "team"), relation("ann", "member_of", "a"),
        relation("a", "part_of", "b"), relation("b", "part_of", "a"), relation("b", "part_of", "ann"),
    )  # fmt: skip
    assert await memberships(store, "ann") == [
        Membership("personal/ann", 0),
        Membership("team/a", 1),
        Membership("team/b", 2),
    ]


async def test_the_way_up_is_eight_steps_at_most(store):
    await store.apply(
        *(entity(f"t{n}", "team") for n in range(12)), *(relation(f"t{n}", "part_of", f"t{n + 1}") for n in range(11))
    )
    assert (await scopes(store, "t0"))[-1] == "team/t8"


async def test_an_ended_membership_opens_nothing(store):
    await store.apply(
        entity("old", "team"), entity("new", "team"), entity("next", "team"),
        relation("ann", "member_of", "old", valid_until="2026-05-31"),
        relation("ann", "member_of", "new", valid_from="2026-05-31"),
        relation("ann", "member_of", "next", valid_from="2026-06-02"),
    )  # fmt: skip
    assert await scopes(store, "ann") == ["personal/ann", "team/new"]


async def test_a_withdrawn_membership_opens_nothing(store):
    await store.apply(entity("core", "team"), relation("ann", "member_of", "core"))
    await store.apply(relation_gone("ann", "member_of", "core"))
    assert await scopes(store, "ann") == ["personal/ann"]


async def test_the_trusted_caller_reads_every_scope_that_has_units(store):
    await store.apply(
        asserted(unit("u", "text")), asserted(unit("v", "mine", scope="personal/ann")), entity("empty", "team")
    )
    assert await memberships(store, None) == [Membership("personal/ann", 0), Membership(CORE, 0)]
    await store.apply(retracted("v"))
    assert await scopes(store, None) == [CORE]


def pair(first: str, second: str, revisions=(1, 2), **given) -> FoundContradiction:
    return FoundContradiction(
        (first, second),
        revisions,
        **{"difference": "number", "detail": "5 ≠ 6", "attribute": "limit", "similarity": 0.9, **given},
    )


async def two_units(store, **given):
    """State a (revision 1) and b (revision 2), and record that they contradict."""
    await store.apply(asserted(unit("a", "limit is 5")), asserted(unit("b", "limit is 6", **given)))
    return await record(store, ["b"], [pair("a", "b")])


async def record(store, checked, found, number=2):
    return await store.writer.record_contradictions(TENANT, place(number), NOW - timedelta(days=1), checked, found)


async def listed(store, **given):
    async with store.reader.snapshot(TENANT) as snapshot:
        return await snapshot.contradictions(**given)


async def test_a_contradiction_is_kept_and_both_units_carry_it(store):
    (new,) = await two_units(store)
    assert (new.found, new.open) == (pair("a", "b"), True)
    assert await listed(store) == [new]
    assert (await store.known("a")).known.state.contradiction_refs == ("b",)
    assert (await store.known("b")).known.state.contradiction_refs == ("a",)
    assert (await store.counts()).contradictions_open == 1
    async with store.reader.snapshot(TENANT) as snapshot:
        assert await snapshot.watermarks("contradictions") == {("cortex.events", 0): 2}


async def test_a_pair_found_again_is_not_new(store):
    await two_units(store)
    assert await record(store, ["a"], [pair("a", "b")], 3) == []
    assert len(await listed(store)) == 1


async def test_what_another_lane_found_about_a_unit_stays_when_the_unit_itself_found_nothing(store):
    """Of two units the later commit sees the earlier; the earlier one's check may be recorded after it."""
    await two_units(store)
    await record(store, ["a"], [])
    assert [item.found.id for item in await listed(store)] == ["a~b"]


async def test_a_units_new_revision_leaves_nothing_of_the_pairs_of_its_old_one(store):
    await two_units(store)
    await store.apply(asserted(unit("a", "limit is 6")))
    await record(store, ["a"], [], 3)
    assert await listed(store, open_only=False) == []


async def test_a_unit_that_is_checked_again_loses_the_pairs_that_are_not_found_again(store):
    await two_units(store)
    await store.writer.record_contradictions(TENANT, None, NOW, ["a"], [])
    assert await listed(store) == []


async def test_a_pair_is_open_only_while_both_revisions_stand(store):
    await two_units(store)
    await store.apply(asserted(unit("a", "limit is 6")))
    assert await listed(store) == []
    assert [item.open for item in await listed(store, open_only=False)] == [False]
    assert (await store.known("b")).known.state.contradiction_refs == ()


async def test_a_pair_closes_when_a_side_is_superseded_or_ends(store):
    await two_units(store, valid_until="2026-06-02")
    assert len(await listed(store)) == 1
    await store.apply(asserted(unit("c", "limit is 7", supersedes="a")))
    assert await listed(store) == []
    await store.apply(retracted("c"))
    assert len(await listed(store)) == 1


async def test_a_pair_with_an_ended_side_is_closed(store):
    await two_units(store, valid_until="2026-05-31")
    assert await listed(store) == []


async def test_a_retracted_units_pairs_are_gone(store):
    await two_units(store)
    await store.apply(retracted("b"))
    assert await listed(store, open_only=False) == []
    assert (await store.known("a")).known.state.contradiction_refs == ()


async def test_contradictions_are_listed_by_unit_by_scope_and_page_by_page(store):
    await store.apply(
        *(asserted(unit(name, f"limit of {name}")) for name in "abc"),
        asserted(unit("x", "limit of x", scope="team/other")),
    )
    found = [pair("a", "b", (1, 2)), pair("a", "c", (1, 3)), pair("b", "x", (2, 4))]
    await record(store, ["a", "b", "x"], found)
    assert [item.found.id for item in await listed(store)] == ["a~b", "a~c", "b~x"]
    assert [item.found.id for item in await listed(store, unit_ids=["c", "x"])] == ["a~c", "b~x"]
    assert [item.found.id for item in await listed(store, scopes=frozenset({CORE}))] == ["a~b", "a~c"]
    assert [item.found.id for item in await listed(store, limit=1, after="a~b")] == ["a~c"]
    assert await listed(store, unit_ids=[]) == []
