"""Fusion: scores from ranks, boosts within bounds, every term named."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.boosts import BOUND, BoostBasis, boost, identifiers_in
from query.duplicates import merge_duplicates, negations
from query.fuse import (
    LIFT_SHARE,
    RRF_K,
    best_passages,
    candidates_of,
    fuse_ranks,
    lift_by_graph,
    rank_candidates,
    result_of,
)
from query.gate import judge
from query.graph_arm import Reached
from query.terms import score_of
from schemas.intent import Intent, Purpose
from schemas.times import Moment
from schemas.units import Origin, SourceType, UnitType
from tests.unit.answering import NOW, candidate, hits, stored

LISTS = st.lists(st.permutations(range(8)).map(lambda order: order[:5]), min_size=1, max_size=3)


def basis(**given):
    fields = {"intent": Intent(), "scope_weights": {}, "at": NOW, "identifiers": frozenset(), **given}
    return BoostBasis(**fields)


def moment(days_ago):
    return Moment.model_validate(NOW - timedelta(days=days_ago))


def test_a_score_is_the_sum_of_weight_over_k_plus_rank():
    fused = fuse_ranks({"keyword": hits(1, 2), "vector": hits(2)}, {"vector": 2.0})
    # 1: 1/(10+1);  2: 1/(10+2) + 2/(10+1)
    assert score_of(fused[1]) == pytest.approx(1 / 11)
    assert score_of(fused[2]) == pytest.approx(1 / 12 + 2 / 11)
    assert best_passages(fused, 10) == [2, 1]


def test_ties_are_broken_by_passage_id():
    fused = fuse_ranks({"keyword": hits(7), "vector": hits(3)}, {})
    assert best_passages(fused, 10) == [3, 7]


def test_weight_zero_removes_an_arm_and_an_empty_list_adds_nothing():
    assert fuse_ranks({"keyword": hits(1), "vector": hits(2), "graph": []}, {"vector": 0.0}).keys() == {1}
    assert fuse_ranks({}, {}) == {}


@given(st.permutations(range(8)))
def test_fusing_one_list_keeps_its_order(order):
    assert best_passages(fuse_ranks({"keyword": hits(*order)}, {}), 8) == list(order)


@given(LISTS)
def test_scores_stay_in_range_and_the_order_of_arms_does_not_matter(lists):
    arms = {f"arm{place}": hits(*order) for place, order in enumerate(lists)}
    fused = fuse_ranks(arms, {})
    turned = fuse_ranks(dict(reversed(arms.items())), {})
    assert fused == turned
    assert all(0 < score_of(terms) <= len(lists) / (RRF_K + 1) + 1e-12 for terms in fused.values())


@given(LISTS, st.integers(0, 7))
def test_a_better_rank_never_scores_less(lists, passage):
    def score(place):
        rest = [other for other in lists[0] if other != passage]
        moved = [*rest[:place], passage, *rest[place:]]
        arms = {"first": hits(*moved)} | {f"arm{i}": hits(*order) for i, order in enumerate(lists[1:])}
        return score_of(fuse_ranks(arms, {})[passage])

    assert score(0) >= score(2) >= score(4)


@given(
    st.sampled_from(Purpose),
    st.sampled_from(UnitType),
    st.floats(0, 1),
    st.integers(0, 5000),
    st.integers(1, 500),
    st.booleans(),
    st.sampled_from(SourceType),
)
def test_boosts_stay_within_their_bound_and_their_product_is_the_score(
    purpose, kind, share, age, sources, trusted, source_type
):
    one = candidate(
        text="Set cache_ttl to 30.",
        type=kind,
        confidence=share,
        occurred_at=moment(age),
        origin=Origin(source_type=source_type, trusted=trusted),
        corroborations=sources,
        superseded_by="u9" if age % 2 else None,
    )
    weighed = basis(
        intent=Intent(purpose=purpose, horizon_days=30 if sources % 2 else None),
        scope_weights={"team/platform": share, "team/other": 1.0},
        identifiers=frozenset({"cache_ttl"}),
    )
    (ranked,) = rank_candidates([one], weighed)
    factors = [term.value for term in ranked.terms if not term.name.startswith(("rrf.", "graph."))]
    assert 1 - BOUND - 1e-9 <= math.prod(factors) <= 1 + BOUND + 1e-9
    assert ranked.score == pytest.approx(
        sum(t.value for t in ranked.terms if t.name == "rrf.keyword") * math.prod(factors)
    )
    assert len({term.name for term in ranked.terms}) == len(ranked.terms)


def test_the_explained_terms_give_the_score_to_a_millionth():
    ranked = rank_candidates(
        [candidate(type=UnitType.DECISION, occurred_at=moment(3), corroborations=4)],
        basis(intent=Intent(purpose=Purpose.ARCHITECTURE)),
    )
    shown = result_of(ranked[0], 1, basis=basis(), contested=False, visible=frozenset(), explain=True)
    assert {term.name for term in shown.terms} >= {"rrf.keyword", "type", "recency", "corroboration"}
    assert shown.score == pytest.approx(score_of(shown.terms), abs=1e-6)


def test_boosts_reorder_near_ties_and_never_a_clear_hit():
    old = candidate("old", occurred_at=moment(900), type=UnitType.CONVERSATION)
    new = candidate("new", passage=2, occurred_at=moment(1), type=UnitType.DECISION)
    weighed = basis(intent=Intent(purpose=Purpose.ARCHITECTURE))
    assert [c.unit.known.unit.id for c in rank_candidates([old, new], weighed)] == ["new", "old"]
    clear = candidate("clear", passage=3, occurred_at=moment(900), type=UnitType.CONVERSATION)
    clear.terms = (*clear.terms, clear.terms[0].model_copy(update={"name": "rrf.vector"}))
    assert rank_candidates([new, clear], weighed)[0].unit.known.unit.id == "clear"


def test_equal_scores_are_ordered_by_unit_id():
    ranked = rank_candidates([candidate("b"), candidate("a", passage=2)], basis())
    assert [c.unit.known.unit.id for c in ranked] == ["a", "b"]


def test_what_is_undated_is_neither_fresh_nor_stale():
    assert "recency" not in {term.name for term in boost(stored().known, 1, basis())}


def test_a_horizon_prefers_what_lies_within_it():
    within = boost(stored(occurred_at=moment(10)).known, 1, basis(intent=Intent(horizon_days=30)))
    beyond = boost(stored(occurred_at=moment(60)).known, 1, basis(intent=Intent(horizon_days=30)))
    assert within[0].value > 1 > beyond[0].value


def test_an_identifier_of_the_question_counts_only_when_it_stands_whole():
    asked = basis(identifiers=identifiers_in("Why does mw-2 return E1234 since v1.2?"))
    assert asked.identifiers == {"mw-2", "e1234", "v1.2"}
    named = {t.name for t in boost(stored(text="E1234 means that the disk is full.").known, 1, asked)}
    other = {t.name for t in boost(stored(text="E12345 in v1.20 on mw-21.").known, 1, asked)}
    assert "identifier" in named
    assert "identifier" not in other


def test_a_passage_shows_its_newest_unit_and_names_the_others():
    arms = {"keyword": [hits(1)[0].__class__(1, 3.0, ("new", "gone", "old"))]}
    units = {"new": stored("new", source="a"), "old": stored("old", source="b")}
    (found,) = candidates_of([1], fuse_ranks(arms, {}), arms, units, {1: 0.4})
    assert (found.unit.known.unit.id, found.also, found.sources) == ("new", ("old",), {"a", "b"})
    assert found.similarity == 0.4


def test_a_passage_without_a_live_unit_is_left_out():
    arms = {"keyword": hits(1)}
    assert candidates_of([1], fuse_ranks(arms, {}), arms, {}, {}) == []


def test_nearly_equal_texts_are_merged_and_their_sources_counted():
    merged = merge_duplicates(
        [
            candidate("a", "The cache is flushed every day at noon.", source="wiki"),
            candidate("b", "The cache is flushed every day at noon!", passage=2, source="chat"),
            candidate("c", "Deployments happen on Tuesdays.", passage=3),
        ]
    )
    assert [c.unit.known.unit.id for c in merged] == ["a", "c"]
    assert merged[0].also == ("b",)
    assert merged[0].corroborations == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The pool has 50 connections at most per node.", "The pool has 20 connections at most per node."),
        ("The old gateway is allowed to call the ledger.", "The old gateway is not allowed to call the ledger."),
        ("Restart mw-2 after the change to the config.", "Restart mw-3 after the change to the config."),
        ("Version v1.2 of the client is the supported one.", "Version v1.20 of the client is the supported one."),
    ],
)
def test_a_differing_number_identifier_or_negation_keeps_texts_apart(one, other):
    assert len(merge_duplicates([candidate("a", one), candidate("b", other, passage=2)])) == 2


def test_the_same_text_in_another_scope_is_not_merged():
    pair = [candidate("a", scope="team/platform"), candidate("b", scope="team/other", passage=2)]
    assert len(merge_duplicates(pair)) == 2


def test_negations_are_words_not_parts_of_words():
    assert negations("Do not note the knot; it can't hold.") == ("can't", "not")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"superseded_by": "u9"}, "superseded"),
        ({"superseded_by": "u9", "held_until": NOW - timedelta(days=1)}, "superseded"),
        ({"superseded_by": "u9", "held_until": NOW + timedelta(days=1)}, "current"),
        ({"held_until": NOW - timedelta(days=1)}, "ended"),
        ({"held_until": NOW + timedelta(days=1)}, "current"),
        ({}, "current"),
    ],
)
def test_the_status_says_what_no_longer_holds(fields, status):
    shown = result_of(candidate(**fields), 1, basis=basis(), contested=False, visible=frozenset(), explain=False)
    assert shown.status == status
    assert shown.superseded_by is None
    assert shown.terms == ()


def test_a_unit_that_supersedes_is_named_only_where_it_may_be_seen():
    shown = result_of(
        candidate(superseded_by="u9"), 1, basis=basis(), contested=True, visible=frozenset({"u9"}), explain=False
    )
    assert (shown.status, shown.superseded_by) == ("superseded", "u9")


def reached(passage, *, handed=0.0, ranked=0.0):
    return Reached(hits(passage)[0], handed, ranked)


class TestGraphLift:
    def test_what_the_graph_leads_to_comes_in_below_the_best_direct_hit(self):
        direct = fuse_ranks({"keyword": hits(1, 2, 3), "vector": hits(1, 3, 2)}, {})
        lifted = lift_by_graph(direct, [reached(9, handed=5.0)], 1.0)
        assert best_passages(lifted, 2)[0] == 1
        assert score_of(lifted[9]) == pytest.approx(LIFT_SHARE * score_of(direct[1]), rel=1e-3)

    @given(st.floats(0, 10), st.floats(0, 10), st.permutations(range(6)))
    def test_it_never_lowers_a_hit_nor_overtakes_the_best_by_titles_alone(self, handed, ranked, order):
        direct = fuse_ranks({"keyword": hits(*order)}, {})
        lifted = lift_by_graph(direct, [reached(passage, handed=handed) for passage in (order[3], 99)])
        assert best_passages(lifted, 1) == [order[0]]
        nudged = lift_by_graph(direct, [reached(passage, handed=handed, ranked=ranked) for passage in order])
        assert all(score_of(nudged[passage]) >= score_of(direct[passage]) for passage in order)

    def test_a_stronger_tie_never_scores_less(self):
        direct = fuse_ranks({"keyword": hits(1, 2)}, {})
        scores = [score_of(lift_by_graph(direct, [reached(9, handed=h)])[9]) for h in (0.01, 0.1, 0.5, 2.0)]
        assert scores == sorted(scores)
        assert len(set(scores)) == len(scores)

    def test_weight_zero_removes_the_arm_and_no_strength_adds_nothing(self):
        direct = fuse_ranks({"keyword": hits(1)}, {})
        assert lift_by_graph(direct, [reached(9, handed=1.0)], 0.0) == direct
        assert lift_by_graph(direct, [reached(9)]) == direct

    def test_without_a_direct_hit_the_graph_still_brings_its_own(self):
        assert best_passages(lift_by_graph({}, [reached(9, handed=1.0), reached(8, handed=0.5)]), 5) == [9, 8]


class TestGate:
    def test_nothing_found_is_said_so(self):
        verdict = judge("Who is on call?", [], has_vectors=True)
        assert verdict.low
        assert verdict.reason

    def test_one_good_hit_among_weak_ones_is_enough(self):
        """The best counts, never the mean: (0.9 + 9 × 0.05) / 10 would be 0.14."""
        good = candidate("good", similarity=0.9)
        weak = [candidate(f"w{i}", passage=i + 2, similarity=0.05) for i in range(9)]
        assert not judge("When is the cache flushed?", [*weak[:3], good, *weak[3:]], has_vectors=True).low

    def test_what_is_far_and_shares_no_words_is_low(self):
        assert judge("Which wine goes with lamb?", [candidate(similarity=0.1)], has_vectors=True).low

    def test_a_text_with_the_words_of_the_question_stands_though_its_vector_is_only_fairly_near(self):
        assert not judge("cache flushed noon", [candidate(similarity=0.3)], has_vectors=True).low

    def test_without_vectors_the_words_decide(self):
        assert not judge("cache flushed noon", [candidate(similarity=0.0)], has_vectors=False).low
        assert judge("wine lamb noon market", [candidate(similarity=0.0)], has_vectors=False).low
