"""The pure rules by which every store decides: which statement stands, which parts belong together, what is searched for."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Scope
from shared.effects import COMBINATIONS, HISTORY, Rank, choose_parts, digest_rows, document_hash, kept_ranks
from shared.passages import QUERY_TERMS, date_words, passage_id, telling_terms
from shared.validity import Successor, from_micros, micros, supersession

RANKS = st.builds(Rank, st.integers(0, 90), st.booleans(), st.sampled_from("ab"), st.just("s"), st.sampled_from("xy"))


def test_at_equal_revisions_a_retraction_wins_and_then_the_greater_digest():
    assertion, rival = Rank(3, False, "a", "s", "e"), Rank(3, False, "b", "s", "e")
    assert max([assertion, rival]) == rival
    assert max([rival, Rank(3, True, "0", "s", "e")]).retraction
    assert max([Rank(4, False, "a", "s", "e"), Rank(3, True, "b", "s", "e")]).revision == 4


@given(st.lists(RANKS, max_size=80), st.lists(RANKS, max_size=80))
def test_forgetting_early_or_late_keeps_the_same_statements(first, second):
    """Keeping some, then adding others, ends where keeping all at once ends."""
    assert kept_ranks({*kept_ranks(set(first)), *second}) == kept_ranks({*first, *second})


def test_nothing_below_a_retraction_is_kept():
    ranks = [Rank(n, n == 5, "d", "s", "e") for n in range(10)]
    assert [rank.revision for rank in kept_ranks(ranks)] == [9, 8, 7, 6, 5]
    assert len(kept_ranks([Rank(n, False, "d", "s", "e") for n in range(100)])) == HISTORY + 1


def test_parts_are_chosen_so_that_the_hash_agrees():
    candidates = {0: ["a", "b"], 1: ["c", "d"]}
    assert choose_parts(candidates, 2, document_hash(["b", "c"])) == ("b", "c")
    assert choose_parts(candidates, 2, document_hash(["x", "c"])) is None
    assert choose_parts({0: ["a"]}, 2, document_hash(["a"])) is None, "a part is missing"
    assert choose_parts(candidates, 0, "any") == (), "a retraction has no parts whose hash could agree"


def test_the_search_for_parts_is_bounded():
    many = {part: [str(text) for text in range(4)] for part in range(20_000)}
    wanted = document_hash(["3"] * 20_000)
    assert COMBINATIONS < 4**5
    assert choose_parts({part: many[part] for part in range(5)}, 5, document_hash(["3"] * 5)) is None
    assert choose_parts({part: ["3"] for part in many}, 20_000, wanted) is not None


@given(st.permutations(["a", "b", "c"]))
def test_digests_know_no_order_and_no_floats(rows):
    assert digest_rows([[row, 1, {"weight": 0.1}] for row in rows]) == digest_rows([[row, 1, {}] for row in "abc"])
    assert digest_rows([["a"]]) != digest_rows([["b"]])


def test_common_terms_are_left_out_unless_nothing_remains():
    assert telling_terms({"rare": 1, "edge": 1000, "common": 1001, "absent": 0}, 10_000) == ["rare", "edge"]
    assert telling_terms({"common": 6000, "more": 5000}, 10_000) == ["more", "common"]
    assert telling_terms({"name": 60, "rare": 1}, 100) == ["rare", "name"], "in a small store no term is common"
    assert telling_terms({"absent": 0}, 100) == []
    assert len(telling_terms({f"t{n}": 1 for n in range(1000)}, 100)) == QUERY_TERMS


def test_a_unit_is_superseded_from_the_earliest_start_by_scopes_as_wide():
    core, mine = Scope(level="team", entity_id="core"), Scope(level="personal", entity_id="ann")
    wide, other = Scope(level="organization", entity_id="acme"), Scope(level="team", entity_id="other")
    unit, later, earlier = Successor("a", core, 0), Successor("b", core, 20), Successor("c", wide, 10)
    assert supersession(unit, [later, earlier]) == (10, "c")
    assert supersession(unit, [later, Successor("a", core, 1)]) == (20, "b"), "not by itself"
    assert supersession(unit, [Successor("m", mine, 1), Successor("o", other, 1)]) == (None, None)
    assert supersession(unit, [Successor("z", core, 5), Successor("y", core, 5)]) == (5, "y")


def test_of_two_units_that_supersede_each_other_the_later_stands():
    core, wide = Scope(level="team", entity_id="core"), Scope(level="organization", entity_id="acme")
    old, new = Successor("a", core, 10, "b"), Successor("b", core, 20, "a")
    assert supersession(old, [new]) == (20, "b")
    assert supersession(new, [old]) == (None, None)
    assert supersession(new, [old, Successor("c", core, 30)]) == (30, "c"), "a third counts"
    assert supersession(Successor("b", core, 10, "a"), [old]) == (None, None), "ties by id"
    assert supersession(new, [Successor("a", wide, 10, "b")]) == (10, "a"), "a team does not replace what is wider"


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_are_kept_to_the_microsecond(at):
    assert from_micros(micros(at)) == at


def test_dates_are_written_as_people_ask():
    assert date_words(datetime(2023, 5, 8, tzinfo=UTC)) == "8 May 2023"


def test_passage_ids_fit_a_json_number():
    assert all(0 <= passage_id(f"key {n}") < 2**53 for n in range(1000))
    assert passage_id("key") == passage_id("key")
