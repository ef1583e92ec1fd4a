"""What one unit says about pairs of entities: what it is about is tied strongly, what it only mentions weakly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.graph import Contribution, EdgeContribution, KeyWeight
from shared.graphs.rows import MENTIONED_WITH, PAIRS, Row, edges_of, keys_of


def unit(subject: str | None, *keys: tuple[str, float], edges: tuple[EdgeContribution, ...] = ()) -> Contribution:
    weighted = tuple(KeyWeight(key=key, weight=weight) for key, weight in keys)
    return Contribution(
        tenant="t", id="unit:1", revision=1, scope="team/a", subject=subject, keys=weighted, edges=edges
    )


def test_the_subject_is_tied_to_each_mention_and_the_mentions_weakly_to_each_other():
    rows = edges_of(unit("kafka", ("kafka", 1.0), ("disk", 1.0), ("zoo", 0.5)))
    assert [(row.source, row.target) for row in rows] == [("disk", "kafka"), ("kafka", "zoo"), ("disk", "zoo")]
    # 0.5 x 1.0, 0.5 x 0.5, 0.15 x 1.0 x 0.5
    assert [row.weight for row in rows] == pytest.approx([0.5, 0.25, 0.075])
    assert {row.relation for row in rows} == {MENTIONED_WITH}


def test_without_a_subject_there_are_only_weak_pairs():
    assert edges_of(unit(None, ("b", 1.0), ("a", 1.0))) == [Row("a", MENTIONED_WITH, "b", 0.15)]


def test_a_stated_edge_keeps_its_direction_and_weight():
    edge = EdgeContribution(source="=z", relation="owns", target="=a", weight=0.4)
    contribution = unit(None, edges=(edge,))
    assert edges_of(contribution) == [Row("=z", "owns", "=a", 0.4)]
    assert keys_of(contribution) == {"=z", "=a"}


def test_a_key_that_is_given_twice_counts_by_its_stronger_weight():
    assert edges_of(unit("s", ("m", 0.2), ("m", 0.8))) == [Row("m", MENTIONED_WITH, "s", pytest.approx(0.4))]


def test_nothing_to_tie_is_no_edge():
    assert edges_of(unit(None)) == edges_of(unit("alone", ("alone", 1.0))) == []


def test_of_many_mentions_the_strongest_pairs_are_kept():
    mentions = [(f"m{number:03}", 1.0 if number < 70 else 0.1) for number in range(100)]
    rows = edges_of(unit("subject", *mentions))
    assert len(rows) == PAIRS
    assert {row.weight for row in rows} == {0.5}


@given(st.permutations([(f"k{number}", (number % 3 + 1) / 3) for number in range(20)]))
def test_the_order_of_mentions_does_not_matter(keys):
    rows = edges_of(unit("k3", *keys))
    assert rows == edges_of(unit("k3", *sorted(keys)))
    assert len(rows) == PAIRS
    assert all(row.source < row.target and 0 < row.weight <= 1 for row in rows)
