"""The sample company is sound: it parses, its ids are unique, and what is planted in it is there."""

from collections import Counter

from compose.company.loader import company_events
from compose.company.questions import GOLDEN, TO_TRY
from schemas.events import EntityDeclared, RelationDeclared, UnitAsserted
from schemas.units import ScopeLevel, UnitType

EVENTS = company_events("demo")
UNITS = {event.data.id: event.data for event in EVENTS if isinstance(event, UnitAsserted)}
ENTITIES = {event.data.id for event in EVENTS if isinstance(event, EntityDeclared)}


def test_it_has_sixty_or_more_units_of_all_nine_types_in_all_four_levels():
    assert len(UNITS) >= 60
    assert {unit.type for unit in UNITS.values()} == set(UnitType)
    assert {unit.scope.level for unit in UNITS.values()} == set(ScopeLevel)


def test_every_event_has_an_id_of_its_own():
    assert max(Counter((event.source, event.id) for event in EVENTS).values()) == 1


def test_every_reference_leads_somewhere():
    for unit in UNITS.values():
        assert unit.scope.entity_id in ENTITIES
        assert {link.entity_id for link in unit.entity_links} <= ENTITIES
        assert unit.origin.creator_entity_id is None or unit.origin.creator_entity_id in ENTITIES
        assert unit.supersedes is None or unit.supersedes in UNITS
    for event in EVENTS:
        if isinstance(event, RelationDeclared):
            assert {event.data.source_id, event.data.target_id} <= ENTITIES


def test_golden_questions_name_units_that_exist():
    for golden in GOLDEN:
        assert {*golden.expected, *golden.absent, *(golden.conflict or ())} <= set(UNITS)
    assert set(TO_TRY) <= {golden.question for golden in GOLDEN}


def test_five_contradictions_are_planted():
    assert len({golden.conflict for golden in GOLDEN if golden.conflict}) == 5


def test_one_statement_comes_from_two_sources():
    said = [
        event for event in EVENTS if isinstance(event, UnitAsserted) and "summer timetable starts" in event.data.text
    ]
    sources = {event.source for event in said}
    assert len(sources) == 2


def test_the_untrusted_source_is_marked():
    assert [unit.id for unit in UNITS.values() if not unit.origin.trusted] == ["web-002", "web-001"]
