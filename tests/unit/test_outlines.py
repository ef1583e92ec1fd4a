"""Outlines: what they rule out is never a pair in which the comparison finds a difference."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compose.company.loader import company_events
from ingest.claims import extract_claims
from ingest.differences import ComparedUnit, compare
from ingest.outlines import Outline, Words, _common, _words, may_differ, outline_of
from ingest.prepared import Prepared, PreparedUnits, entity_of, same_entity
from schemas.events import EntityDeclared, UnitAsserted
from shared.identity import AliasView, fold_key
from shared.store import UnitVersion
from tests.unit.test_contradiction_probes import AGREE, DISAGREE

TEXTS = sorted({text for first, second, *_ in (*DISAGREE, *AGREE) for text in (first, second)})

SUBJECTS = ("The payments client", "Atlas", "The retry limit of Atlas", "Kiran", "Ticket 88", "the Atlas launch", "")
PREDICATES = (
    "is", "is not", "are", "runs", "was moved from Rome to", "is owned by", "starts on", "no longer uses", "was founded in",
    "is enabled in", "is disabled in", "listens on port", "may be", "chose", "does not handle",
)  # fmt: skip
OBJECTS = (
    "5", "6 retries", "30 seconds", "45 s", "Friday", "3 May 2026", "2021", "Rome", "Electronic City", "Bob Smith",
    "the payments team", "enabled", "disabled", "the retry limit retry limit retry limit", "100 rps", "production",
)  # fmt: skip
JOINTS = (". ", ", but ", "; ", " and ", "? ")
CLAUSES = st.builds(
    lambda subject, predicate, rest: f"{subject} {predicate} {rest}".strip(),
    st.sampled_from(SUBJECTS),
    st.sampled_from(PREDICATES),
    st.sampled_from(OBJECTS),
)
WRITTEN = st.builds(
    lambda first, more: first + "".join(joint + clause for joint, clause in more) + ".",
    CLAUSES,
    st.lists(st.tuples(st.sampled_from(JOINTS), CLAUSES), max_size=2),
)
NAMES = AliasView()


def unit(unit_id: str, text: str, *, declared: bool = False) -> ComparedUnit:
    claims = extract_claims(text) if declared else ()
    return ComparedUnit(id=unit_id, text=text, keys=frozenset({"atlas"}), claims=claims)


def rules_out(a: ComparedUnit, b: ComparedUnit, names: AliasView = NAMES) -> bool:
    first, second = (outline_of(one, lambda name: entity_of(name, names)) for one in (a, b))
    assert may_differ(first, second) == may_differ(second, first)
    return not may_differ(first, second)


def test_no_labelled_pair_that_differs_is_ruled_out_nor_any_other_pair_of_their_texts():
    units = [unit(f"u{number}", text) for number, text in enumerate(TEXTS)]
    outlines = {one.id: outline_of(one, lambda name: entity_of(name, NAMES)) for one in units}
    ruled_out = 0
    for a, b in combinations(units, 2):
        if not may_differ(outlines[a.id], outlines[b.id]):
            ruled_out += 1
            assert compare(a, b, 1.0, same_entity(NAMES)) is None, (a.text, b.text)
    assert ruled_out > 0.8 * len(units) * (len(units) - 1) / 2, "outlines that rule out little are of no use"


def test_no_pair_of_the_sample_company_that_differs_is_ruled_out():
    events = company_events("demo")
    names = AliasView([event.data for event in events if isinstance(event, EntityDeclared)])
    stated = [event.data for event in events if isinstance(event, UnitAsserted)]
    units = [ComparedUnit(id=one.id, text=one.text, keys=frozenset({"x"}), claims=one.claims) for one in stated]
    found = 0
    for a, b in combinations(units, 2):
        if compare(a, b, 1.0, same_entity(names)) is not None:
            found += 1
            assert not rules_out(a, b, names), (a.text, b.text)
    assert found


@pytest.mark.parametrize(
    ("text", "other", "kind"),
    [
        (
            "Lynx was founded in 2019 by partners whom the board under Ann Smith had asked for money and advice twice.",
            "Lynx was founded in 2021.",
            "date",
        ),
        ("We chose Frankfurt Main West Campus South Hall Nord.", "We chose Dublin.", "name"),
        (
            "Kiran moved from Whitefield to Electronic City.",
            "Kiran lives in Whitefield, where the old office stood with a garden, a pond and a view of distant hills.",
            "claim",
        ),
    ],
)
def test_a_pair_that_only_one_rule_tells_apart_is_not_ruled_out(text, other, kind):
    """One side says much more, so that no other rule would let the pair through."""
    a, b = unit("a", text), unit("b", other)
    found = compare(a, b, 1.0, same_entity(NAMES))
    assert found is not None
    assert found.kind == kind
    assert not rules_out(a, b)


@settings(max_examples=400, deadline=None)
@given(WRITTEN, WRITTEN, st.booleans())
def test_no_written_pair_that_differs_is_ruled_out(text, other, declared):
    a, b = unit("a", text, declared=declared), unit("b", other, declared=declared)
    if rules_out(a, b):
        assert compare(a, b, 1.0, same_entity(NAMES)) is None


def test_no_pair_of_single_clauses_that_differs_is_ruled_out():
    clauses = [f"{SUBJECTS[1]} {predicate} {rest}." for predicate, rest in product(PREDICATES, OBJECTS)]
    units = [unit(f"u{number:03}", text) for number, text in enumerate(clauses)]
    outlines = {one.id: outline_of(one, fold_key) for one in units}
    for a, b in combinations(units[::3], 2):
        if not may_differ(outlines[a.id], outlines[b.id]):
            assert compare(a, b, 1.0, lambda name, other: fold_key(name) == fold_key(other)) is None, (a.text, b.text)


@given(*[st.lists(st.sampled_from([f"word{number}" for number in range(40)]), max_size=60)] * 2)
def test_what_two_bags_of_words_share_is_never_counted_too_low(left, right):
    shared = sum(min(left.count(word), right.count(word)) for word in set(left))
    assert _common(_words(left), _words(right)) >= shared


def test_words_that_meet_in_one_bit_still_count():
    crowded, other = Words(bits=0b1, size=3, hidden=2), Words(bits=0b1, size=2, hidden=1)
    assert _common(crowded, other) == 2


@pytest.mark.parametrize(("units", "characters"), [(2, 1_000), (100, 60)])
def test_prepared_units_are_kept_within_both_bounds_the_latest_used_longest(units, characters):
    kept = PreparedUnits(units, characters)
    keys = [("demo", 0, UnitVersion(f"u{number}", "1")) for number in range(3)]
    empty = Outline(frozenset(), ())
    made = [Prepared(unit(version.unit_id, "Atlas runs five replicas."), empty, 1, 1) for _, _, version in keys]
    kept.keep(zip(keys[:2], made[:2], strict=True))
    assert kept.get(keys[0]) is made[0]
    kept.keep([(keys[2], made[2])])
    assert kept.get(keys[1]) is None
    assert (kept.get(keys[0]), kept.get(keys[2])) == (made[0], made[2])
