"""Entities of a question: whole words, exact before misspelt before unknown, nothing from unreadable scopes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.entities import (
    AMBIGUOUS_CONFIDENCE,
    ENTITIES,
    MENTIONED_CONFIDENCE,
    UNKNOWN_CONFIDENCE,
    UNSPACED_CHARS,
    find_entities,
)
from schemas.graph import Contribution, KeyWeight
from shared.graph import GraphSnapshot
from shared.graphs.memory import MemoryGraph
from shared.identity import fold_key

TENANT = "acme"
CORE, OTHER = "team/core", "team/other"
READABLE = frozenset({CORE})


def declared(entity_id: str, kind: str, *names: str) -> Contribution:
    return Contribution(
        tenant=TENANT, id=f"entity:{entity_id}", revision=1, entity_id=entity_id, entity_type=kind, entity_name=names[0],
        names=tuple(sorted(fold_key(name) for name in names)),
    )  # fmt: skip


def mentioned(scope: str, *names: str) -> Contribution:
    keys = tuple(KeyWeight(key=fold_key(name), weight=1.0) for name in names)
    return Contribution(tenant=TENANT, id=f"unit:{scope}", revision=1, scope=scope, keys=keys)


def build() -> GraphSnapshot:
    graph = MemoryGraph()
    graph.apply(
        [
            declared("sys-api", "system", "api", "rest"),
            declared("sys-pay", "system", "Payments Service", "paysvc"),
            declared("sys-k8s", "system", "Kubernetes", "k8s"),
            declared("p-al", "person", "Al"),
            declared("p-sam", "person", "Sam"),
            declared("p-who", "person", "Who"),
            declared("sys-auth", "system", "auth"),
            declared("sys-room", "system", "Room"),
            declared("p-doe", "person", "Doe"),
            declared("team-orion", "team", "Orion"),
            declared("proj-orion", "project", "orion"),
            declared("sys-订单", "system", "订单服务"),
            mentioned(CORE, "deploy freeze", "Room 101", "Lynx"),
            mentioned(OTHER, "secret plan"),
        ]
    )
    graph.refresh()
    return graph.snapshot(TENANT)


GRAPH = build()


def found(question: str, scopes: frozenset[str] = READABLE) -> list[tuple[str, str, str]]:
    return [(match.surface, match.entity_id, match.method) for match in find_entities(question, GRAPH, scopes)]


@pytest.mark.parametrize(
    "question",
    [
        "rapid capital restoration",
        "the author of the same catalog",
        "premonitory samples",
        "ux and sql",
        "aws, map and gap",
        "who is it?",
        "what is restful about apis",
        "",
    ],
)
def test_no_entity_is_found_inside_other_words_or_in_question_words(question):
    assert found(question) == []


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("is the api down?", [("api", "sys-api", "exact")]),
        ("why does the payments service retry", [("payments service", "sys-pay", "exact")]),
        ("Does PaymentsService retry?", [("PaymentsService", "sys-pay", "exact")]),
        ("what did Sam say about k8s", [("Sam", "p-sam", "exact"), ("k8s", "sys-k8s", "exact")]),
        ("how does kubernets schedule", [("kubernets", "sys-k8s", "fuzzy")]),
        ("when is the deploy freeze", [("deploy freeze", "~deployfreeze", "exact")]),
        ("What is in Room 101?", [("Room 101", "~room101", "exact")]),
        ("What is in Room 102?", [("Room 102", "~room102", "unknown")]),
        ("Where is John T. Doe?", [("John T. Doe", "~johntdoe", "unknown")]),
        ("Restart Zookeeper now?", [("Zookeeper", "~zookeeper", "unknown")]),
        ("Does Orion use Lynx?", [("Orion", "~orion", "exact"), ("Lynx", "~lynx", "exact")]),
        ("订单服务的超时时间是多少", [("订单服务", "sys-订单", "exact")]),
    ],
)
def test_names_are_found_by_whole_words(question, expected):
    assert found(question) == expected


def test_the_spans_index_the_question_as_given():
    question = "  Is the Ｋ８Ｓ cluster of İstanbul fine?"
    matches = find_entities(question, GRAPH, READABLE)
    assert [match.entity_id for match in matches] == ["sys-k8s", "~istanbul"]
    assert all(question[match.start : match.end] == match.surface for match in matches)


def test_an_ambiguous_name_lists_its_candidates_and_prefers_none():
    (match,) = find_entities("status of orion", GRAPH, READABLE)
    assert match.candidates == ("proj-orion", "team-orion")
    assert (match.entity_id, match.confidence) == ("~orion", AMBIGUOUS_CONFIDENCE)


def test_confidence_falls_from_declared_over_mentioned_to_unknown():
    matches = find_entities("Sam, Lynx and Zookeeper", GRAPH, READABLE)
    assert [match.confidence for match in matches] == [1.0, MENTIONED_CONFIDENCE, UNKNOWN_CONFIDENCE]
    assert [(match.name, match.type) for match in matches] == [("Sam", "person"), ("Lynx", None), ("Zookeeper", None)]


def test_what_only_unreadable_units_mention_is_not_known():
    assert found("about the secret plan") == []
    assert found("about the secret plan", frozenset({OTHER})) == [("secret plan", "~secretplan", "exact")]
    assert found("when is the deploy freeze", frozenset()) == []


def test_a_long_question_names_a_bounded_number_of_entities():
    question = " and ".join(f"Sam or Zoo{number}x" for number in range(100))
    assert len(find_entities(question, GRAPH, READABLE)) == ENTITIES


@given(
    st.lists(
        st.sampled_from(["Sam", "api", "Orion", "Room 102", "kubernets", "the", "deploy", "freeze", ",", "?"]),
        max_size=12,
    )
)
def test_matches_stand_in_order_and_never_overlap(words):
    question = " ".join(words)
    matches = find_entities(question, GRAPH, READABLE)
    assert all(question[match.start : match.end] == match.surface for match in matches)
    assert all(before.end <= after.start for before, after in pairwise(matches))


@pytest.mark.parametrize(("padding", "read"), [("文", False), ("w ", True), ("é ", True)])
def test_only_what_is_written_without_spaces_is_read_no_further_than_its_bound(padding, read):
    text = padding * (UNSPACED_CHARS + 2) + " Kubernetes"
    assert ("sys-k8s" in {match.entity_id for match in find_entities(text, build(), READABLE)}) is read
