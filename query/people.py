"""Who-questions: what is declared about who owns, knows and works on the things that a question names."""

import re
from collections.abc import Sequence
from typing import Final

from query.quoting import quote_field
from schemas.answers import EntityMatch, GraphEdge, GraphNode, GraphResult
from schemas.entities import EntityType, Relation
from shared.graph import GraphSnapshot

_ASKED: Final = re.compile(
    r"(?<!\w)(?:who|whom|whose|(?:which|what) (?:team|teams|person|people|department|colleague)s?)(?!\w)"
)
_SAID: Final = {
    Relation.OWNS: "owns",
    Relation.EXPERT_IN: "is expert in",
    Relation.WORKS_ON: "works on",
    Relation.TOUCHES: "has changed",
    Relation.MEMBER_OF: "is a member of",
    Relation.BELONGS_TO: "belongs to",
}
_PEOPLE: Final = frozenset({EntityType.PERSON, EntityType.TEAM, EntityType.DEPARTMENT, EntityType.ORGANIZATION})
LOOKED_AT: Final = 64
"""Neighbours of a named entity among which people are looked for, the strongest first."""
SHOWN: Final = 12


def find_people(
    question: str, entities: Sequence[EntityMatch], graph: GraphSnapshot, scopes: frozenset[str]
) -> GraphResult | None:
    """Return people, teams and departments tied to the entities that a who-question names; None where none is known.

    Strongest ties first, ties by id. Only declared relations: that two names stand in one text says nothing about who.
    """
    if not _ASKED.search(question.casefold()):
        return None
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str, str], GraphEdge] = {}
    for match in entities:
        for near in graph.neighbours(match.entity_id, scopes, LOOKED_AT):
            if near.relation not in _SAID or near.outgoing or near.type not in _PEOPLE:
                continue
            nodes.setdefault(match.entity_id, GraphNode(id=match.entity_id, name=match.name, type=match.type))
            nodes.setdefault(near.entity_id, GraphNode(id=near.entity_id, name=near.name, type=near.type))
            edge = GraphEdge(source=near.entity_id, relation=near.relation, target=match.entity_id, weight=near.weight)
            edges[edge.source, edge.relation, edge.target] = edge
    if not edges:
        return None
    strongest = sorted(edges, key=lambda key: (-edges[key].weight, key))[:SHOWN]
    shown = {end for source, _, target in strongest for end in (source, target)}
    return GraphResult(
        title="Who is tied to what the question names",
        nodes=tuple(nodes[key] for key in sorted(shown)),
        edges=tuple(edges[key] for key in strongest),
    )


def say_ties(people: GraphResult | None) -> tuple[str, ...]:
    """Write each tie as a sentence for the context block, with the identity of the declared relation."""
    if people is None:
        return ()
    names = {node.id: quote_field(node.name) for node in people.nodes}
    return tuple(
        f"{names[edge.source]} {_SAID[Relation(edge.relation)]} {names[edge.target]} "
        f"(declared: {quote_field(edge.source)} {edge.relation} {quote_field(edge.target)})"
        for edge in people.edges
    )
