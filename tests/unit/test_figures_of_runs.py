"""How evaluations and benchmarks read what they have measured."""

import math

from tests.bench.cluster import Plan
from tests.bench.measuring import difference
from tests.bench.population import batches
from tests.eval.measures import interval, overlap_at


def places(*ids):
    return [frozenset(one.split("+")) for one in ids]


def test_rankings_of_the_same_ids_overlap_wholly_whatever_their_order():
    assert overlap_at(places("a", "b", "c"), places("c", "a", "b"), 3) == 1.0


def test_an_overlap_is_a_share_of_the_longer_one():
    assert overlap_at(places("a", "b", "c", "d"), places("a", "b"), 10) == 0.5


def test_what_was_merged_into_a_place_counts_wherever_it_stands_alone():
    assert overlap_at(places("a+b", "c"), places("a", "b", "c"), 10) == 1.0


def test_only_the_first_places_count():
    assert overlap_at(places("a", "b"), places("a", "x", "b"), 2) == 0.5


def test_two_empty_rankings_agree_and_one_empty_one_does_not():
    assert overlap_at([], [], 10) == 1.0
    assert overlap_at([], places("a"), 10) == 0.0


def test_the_interval_of_a_paired_difference_holds_its_mean():
    score = interval([0.0] * 90 + [-1.0] * 6 + [0.5] * 4)
    assert math.isclose(score.mean, -4.0)
    assert score.low < score.mean < score.high


def test_a_histogram_tells_what_came_in_between_bucket_by_bucket():
    before = {"<=0.1": 2, "<=0.5": 5, "<=inf": 5}
    after = {"<=0.1": 2, "<=0.5": 9, "<=inf": 10}
    assert difference(after, before) == {"<=0.5": 4, "<=inf": 1}


def test_every_store_is_given_the_same_units_and_vectors():
    (events, vectors), (again, same) = next(batches(7)), next(batches(7))
    assert [one.data.id for one in events] == [f"u-{n}" for n in range(7)]
    assert [one.data for one in events] == [one.data for one in again]
    assert (vectors == same).all()


def test_small_sizes_are_measured_briefly():
    assert Plan.of(2_000).questions < Plan.of(20_000).questions
