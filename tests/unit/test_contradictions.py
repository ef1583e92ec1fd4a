"""Checking a receipt: who is compared with whom, under which names, and what is found in which order."""

from dataclasses import replace
from itertools import permutations

import pytest

from ingest.contradictions import CANDIDATES, ContradictionCheck, check_receipt
from ingest.resolve import resolve_unit
from schemas.messages import Receipt, ReceiptOutcome
from shared.clock import ManualClock
from shared.embedders.hashed import HashedEmbedder
from shared.store import FoundContradiction
from shared.stores.memory import MemoryStore
from tests.contract.knowledge_events import CORE, NOW, TENANT, asserted, effect_of, entity, place, unit

pytestmark = pytest.mark.anyio


class Shelf:
    """A tenant's units in the store in memory, with mentions and vectors as the stages before it make them."""

    def __init__(self) -> None:
        self.store = MemoryStore(ManualClock(NOW))
        self.embedder = HashedEmbedder()
        self.number = 0

    async def put(self, unit_id: str, text: str, *, scope: str = CORE, **given: object) -> None:
        self.number += 1
        vectors = await self.embedder.embed_text(text)
        effect = effect_of(asserted(unit(unit_id, text, scope=scope, **given)), self.number, vectors=vectors)
        resolution = resolve_unit(effect.event.data)
        message = effect.message.model_copy(update={"resolution": resolution})
        await self.store.apply(TENANT, [replace(effect, message=message)])

    async def declare(self, entity_id: str, kind: str, name: str, *aliases: str) -> None:
        self.number += 1
        event = entity(entity_id, kind, name, aliases=aliases)
        await self.store.apply(TENANT, [effect_of(event, self.number)])


def receipt(*unit_ids: str, tenant: str | None = TENANT) -> Receipt:
    return Receipt(position=place(1), recorded_at=NOW, tenant=tenant, outcome=ReceiptOutcome.STORED, units=unit_ids)


async def found_in(texts: dict[str, str], *checked: str, names: tuple[str, ...] = ()) -> list[FoundContradiction]:
    shelf = Shelf()
    if names:
        await shelf.declare("thing", *names)
    for unit_id, text in texts.items():
        await shelf.put(unit_id, text)
    return await check_receipt(receipt(*checked), shelf.store)


LIMITS = {
    "five": "The retry limit for the payments client is 5.",
    "six": "The retry limit for the payments client is 6.",
}


async def test_a_changed_value_is_found_with_both_ids_and_revisions_in_order() -> None:
    shelf = Shelf()
    await shelf.put("six", LIMITS["six"], revision=7)
    await shelf.put("five", LIMITS["five"], revision=3)
    [pair] = await check_receipt(receipt("six"), shelf.store)
    assert (pair.units, pair.revisions) == (("five", "six"), (3, 7))
    assert (pair.difference, pair.detail, pair.attribute) == ("number", "5 ≠ 6", "payments client retry limit")
    assert pair.similarity > 0.5


async def test_either_unit_of_a_pair_finds_it() -> None:
    assert await found_in(LIMITS, "five") == await found_in(LIMITS, "six") != []


async def test_a_pair_within_one_receipt_is_found_once() -> None:
    assert len(await found_in(LIMITS, "five", "six")) == 1


async def test_pairs_come_in_the_order_of_their_ids_whatever_the_order_of_arrival() -> None:
    texts = {
        "a": "Ticket 88 is owned by Sam.",
        "b": "Ticket 88 is owned by Ines.",
        "c": "Ticket 88 is owned by Omar.",
    }
    results = [
        [pair.id for pair in await found_in({unit_id: texts[unit_id] for unit_id in order}, *order)]
        for order in permutations(texts)
    ]
    assert results == [["a~b", "a~c", "b~c"]] * 6


async def test_additive_facts_are_never_found() -> None:
    """C15: five facts that all hold."""
    texts = {
        "e1": "Maya works at Orion as head of compliance.",
        "e2": "Maya administers Orion's GitHub organisation.",
        "e3": "Maya imposed an audit requirement on Project Lynx.",
        "e4": "Service A uses Service B.",
        "e5": "Service B uses Service C.",
    }
    assert await found_in(texts, *texts) == []


async def test_things_that_differ_in_a_number_are_never_found() -> None:
    """C01: rooms and flights."""
    texts = {
        "e1": "Room 101 has a projector.",
        "e2": "Room 102 has a whiteboard.",
        "e3": "Flight UA123 leaves from gate B4.",
        "e4": "Flight UA124 leaves from gate C9.",
    }
    assert await found_in(texts, *texts) == []


async def test_a_reassignment_is_found_whatever_the_verb() -> None:
    """C17: moved, assigned, handed over."""
    texts = {
        "e1": "Kiran lives in Whitefield.",
        "e2": "Kiran moved from Whitefield to Electronic City.",
        "e3": "Kiran is assigned to Project Alpha.",
        "e4": "Kiran moved from Project Alpha to Project Beta.",
        "e5": "Ticket 88 is owned by Sam.",
        "e6": "Ticket 88 was handed over to Ines.",
    }
    assert [pair.id for pair in await found_in(texts, *texts)] == ["e1~e2", "e3~e4", "e5~e6"]


async def test_a_reversal_of_feeling_is_found() -> None:
    """C19: loves and hates."""
    [pair] = await found_in({"e1": "Nora loves Chinese food.", "e2": "Nora hates Chinese food."}, "e2")
    assert pair.difference == "antonym"


async def test_a_habit_that_ended_excludes_that_habit_alone() -> None:
    """C21: green tea ended; coffee and black tea are other things."""
    texts = {
        "e1": "Nicholas started drinking coffee.",
        "e2": "Nicholas is drinking green tea.",
        "e3": "Nicholas stopped drinking green tea.",
        "e4": "Nicholas drinks black tea.",
    }
    assert [pair.id for pair in await found_in(texts, *texts)] == ["e2~e3"]


async def test_two_names_of_one_declared_entity_share_their_candidates_and_are_no_difference() -> None:
    texts = {"a": "The Payments Client is enabled.", "b": "PayCli is disabled."}
    assert await found_in(texts, "a") == []
    [pair] = await found_in(texts, "a", names=("system", "Payments Client", "PayCli"))
    assert pair.difference == "antonym"
    owners = {"c": "Ticket 88 is owned by Bob Smith.", "d": "Ticket 88 is owned by Rob Dean."}
    assert len(await found_in(owners, "c")) == 1
    assert await found_in(owners, "c", names=("person", "Bob Smith", "Rob Dean")) == []


async def test_a_new_declaration_changes_the_view_of_a_running_check() -> None:
    shelf = Shelf()
    await shelf.put("a", "Ticket 88 is owned by Bob Smith.")
    await shelf.put("b", "Ticket 88 is owned by Rob Dean.")
    check = ContradictionCheck(shelf.store)
    assert len(await check.check(receipt("a"))) == 1
    await shelf.declare("p-1", "person", "Bob Smith", "Rob Dean")
    assert await check.check(receipt("a")) == []


async def test_a_superseded_value_is_no_contradiction_and_a_third_one_is() -> None:
    shelf = Shelf()
    await shelf.put("five", LIMITS["five"])
    await shelf.put("six", LIMITS["six"], supersedes="five")
    await shelf.put("seven", "The retry limit for the payments client is 7.")
    found = await check_receipt(receipt("five", "six", "seven"), shelf.store)
    assert [pair.id for pair in found] == ["five~seven", "seven~six"]


async def test_units_that_hold_later_or_held_once_are_compared_whatever_the_present() -> None:
    shelf = Shelf()
    await shelf.put("five", LIMITS["five"], valid_from="2020-01-01", valid_until="2021-01-01")
    await shelf.put("six", LIMITS["six"], valid_from="2020-06-01", valid_until="2022-01-01")
    await shelf.put("seven", "The retry limit for the payments client is 7.", valid_from="2090-01-01")
    found = await check_receipt(receipt("five", "six", "seven"), shelf.store)
    assert [pair.id for pair in found] == ["five~six"]


async def test_pairs_across_scopes_are_found_and_left_to_the_store_to_show() -> None:
    shelf = Shelf()
    await shelf.put("five", LIMITS["five"], scope="team/core")
    await shelf.put("six", LIMITS["six"], scope="organization/acme")
    assert len(await check_receipt(receipt("five"), shelf.store)) == 1


async def test_a_receipt_without_live_units_or_tenant_finds_nothing() -> None:
    assert await found_in(LIMITS) == []
    assert await found_in(LIMITS, "gone") == []
    assert await check_receipt(receipt("five", tenant=None), Shelf().store) == []


async def test_no_more_than_the_newest_candidates_are_compared() -> None:
    texts = {f"unit-{number:03}": f"Ticket 88 costs {number + 1} EUR." for number in range(CANDIDATES + 5)}
    newest = f"unit-{CANDIDATES + 4:03}"
    pairs = await found_in(texts, newest)
    assert len(pairs) == CANDIDATES
    assert min(pair.units[0] for pair in pairs) == "unit-004"


async def test_commits_of_one_history_tell_changes_and_contradict_a_document_but_not_each_other():
    shelf = Shelf()
    commit = {"origin": {"source_type": "git_commit"}, "project": "payments"}
    await shelf.put("older", LIMITS["five"], **commit)
    await shelf.put("newer", LIMITS["six"], **commit)
    assert await check_receipt(receipt("older", "newer"), shelf.store) == []
    await shelf.put("page", LIMITS["five"], origin={"source_type": "document"})
    found = await check_receipt(receipt("page"), shelf.store)
    assert [one.units for one in found] == [("newer", "page")]
    await shelf.put("elsewhere", LIMITS["five"], origin={"source_type": "git_commit"}, project="other")
    assert [one.units for one in await check_receipt(receipt("elsewhere"), shelf.store)] == [("elsewhere", "newer")]
