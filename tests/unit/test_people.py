"""Who-questions are answered from declared relations, and from nothing else."""

import pytest

from compose.company.loader import company_events
from query.entities import find_entities
from query.people import find_people, say_ties
from schemas.events import EntityDeclared, RelationDeclared
from shared.contributions import entity_contribution, relation_contribution
from shared.graphs.memory import MemoryGraph


@pytest.fixture(scope="module")
def graph():
    built = MemoryGraph()
    for number, event in enumerate(company_events("demo")):
        if isinstance(event, EntityDeclared):
            built.apply([entity_contribution("demo", event.data, number)])
        elif isinstance(event, RelationDeclared):
            built.apply([relation_contribution("demo", event.data, number)])
    built.refresh()
    return built.snapshot("demo")


def tied(graph, question):
    people = find_people(question, find_entities(question, graph, frozenset()), graph, frozenset())
    return [] if people is None else [(edge.source, edge.relation) for edge in people.edges]


def test_who_knows_about_a_system(graph):
    assert set(tied(graph, "who knows about the pier kiosks?")) == {
        ("person-gus", "expert_in"),
        ("team-booking", "owns"),
    }


def test_which_team_owns_it(graph):
    assert ("team-payments", "owns") in tied(graph, "which team owns the Ledger?")


def test_a_question_that_does_not_ask_for_people_gets_none(graph):
    assert tied(graph, "how do I restart a Pier Kiosk?") == []


def test_nobody_is_made_up(graph):
    assert tied(graph, "who knows about Kubernetes?") == []


def test_a_tie_is_said_with_the_relation_it_rests_on(graph):
    people = find_people(
        "who owns the Ledger?", find_entities("who owns the Ledger?", graph, frozenset()), graph, frozenset()
    )
    assert "Payments team owns Ledger (declared: team-payments owns sys-ledger)" in say_ties(people)
