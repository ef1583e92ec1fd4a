"""The comparison of two units: symmetric, gated, and silent about history and about other things."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.dates import find_days, may_be_the_same
from ingest.differences import SIMILARITY, ComparedUnit, compare
from ingest.values import can_both_hold, find_quantities
from schemas.times import Moment
from schemas.units import Claim
from shared.antonyms import are_antonyms

KEYS = frozenset({"~payments"})


def never_same(_name: str, _other: str) -> bool:
    return False


def unit(unit_id: str, text: str, **fields: object) -> ComparedUnit:
    return ComparedUnit(unit_id, text, **{"keys": KEYS, **fields})


def day(text: str) -> Moment:
    return Moment.model_validate(text)


FIVE = "The retry limit of the payments client is 5."
SIX = "The retry limit of the payments client is 6."
POOL = ("The payments pool holds 50 connections.", "The payments pool holds 20 connections.")

SUBJECTS = st.sampled_from(["Atlas", "the payments client", "Room 101", "Room 102", "Nora", "the deploy freeze", "we"])
VERBS = st.sampled_from(
    ["is", "is not", "uses", "runs", "starts", "lives in", "chose", "is owned by", "allows up to", "no longer is"]
)
OBJECTS = st.sampled_from(
    [
        "enabled",
        "disabled",
        "5 retries",
        "6 retries",
        "500 ms",
        "2 s",
        "Friday",
        "2026-03-02",
        "Ana",
        "Ben Kovač",
        "PostgreSQL",
        "MySQL",
    ]
)
TAILS = st.sampled_from([".", ", but not in staging.", " in March.", " since 2019.", "?", " instead of Redis."])
SENTENCES = st.builds("{} {} {}{}".format, SUBJECTS, VERBS, OBJECTS, TAILS)


@given(SENTENCES, SENTENCES, st.floats(-1, 1))
def test_either_order_names_the_same_difference(text: str, other: str, similarity: float) -> None:
    a, b = unit("a", text), unit("b", other)
    assert compare(a, b, similarity, never_same) == compare(b, a, similarity, never_same)


@given(SENTENCES)
def test_a_unit_never_contradicts_its_own_text(text: str) -> None:
    assert compare(unit("a", text), unit("b", text.upper()), 1.0, never_same) is None
    assert compare(unit("a", text), unit("b", text), 1.0, never_same) is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_compared_without_failing(text: str, other: str) -> None:
    a, b = unit("a", text), unit("b", other)
    assert compare(a, b, 1.0, never_same) == compare(b, a, 1.0, never_same)


def test_the_difference_names_both_values_and_the_attribute() -> None:
    found = compare(unit("a", FIVE), unit("b", SIX), 0.9, never_same)
    assert found is not None
    assert (found.kind, found.detail, found.attribute) == ("number", "5 ≠ 6", "payments client retry limit")


def test_the_later_statement_is_named_where_both_are_dated() -> None:
    march, april = day("2026-03-01"), day("2026-04-01")
    found = compare(unit("a", FIVE, occurred_at=march), unit("b", SIX, occurred_at=april), 0.9, never_same)
    assert found is not None
    assert found.detail == "5 ≠ 6 (newer: b)"


def test_texts_that_are_not_near_in_meaning_are_not_compared_by_their_words() -> None:
    a, b = unit("a", POOL[0]), unit("b", POOL[1])
    assert compare(a, b, SIMILARITY, never_same) is not None
    assert compare(a, b, SIMILARITY - 0.01, never_same) is None


def test_claims_of_one_subject_and_predicate_need_no_similarity() -> None:
    assert compare(unit("a", FIVE), unit("b", SIX), 0.0, never_same) is not None


def test_units_about_nothing_in_common_are_never_compared() -> None:
    a = unit("a", "Nothing was said about the pool of 50 connections.", keys=frozenset({"~a"}))
    b = unit("b", "Everything works with a pool of 20 connections.", keys=frozenset({"~b"}))
    assert compare(a, b, 1.0, never_same) is None


def test_a_unit_that_supersedes_the_other_does_not_contradict_it() -> None:
    assert compare(unit("a", FIVE), unit("b", SIX, supersedes="a"), 0.9, never_same) is None
    assert compare(unit("a", FIVE, supersedes="b"), unit("b", SIX), 0.9, never_same) is None


def test_intervals_that_do_not_meet_are_history() -> None:
    before = unit("a", FIVE, valid_from=day("2026-01-01"), valid_until=day("2026-04-01"))
    after = unit("b", SIX, valid_from=day("2026-04-01"))
    assert compare(before, after, 0.9, never_same) is None


def test_intervals_that_meet_or_are_unknown_are_no_excuse() -> None:
    before = unit("a", FIVE, valid_from=day("2026-01-01"), valid_until=day("2026-04-02"))
    assert compare(before, unit("b", SIX, valid_from=day("2026-04-01")), 0.9, never_same) is not None
    assert compare(before, unit("b", SIX), 0.9, never_same) is not None


def test_titles_that_differ_in_a_number_are_two_things() -> None:
    a, b = unit("a", POOL[0], title="Runbook 1"), unit("b", POOL[1], title="Runbook 2")
    assert compare(a, b, 1.0, never_same) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        ("Section 1 of the manual. Its marker is M-01.", "Section 2 of the manual. Its marker is M-02.", False),
        ("Room 101 is bright. It seats 20 people.", "Room 102 is bright. It seats 30 people.", False),
        ("This is about Alpha. It costs 20 euros.", "This is about Beta. It costs 30 euros.", False),
        (
            "Atlas is stable. Their timeout is 30 s, but not in staging.",
            "Boreas is stable. Their timeout is 40 s.",
            False,
        ),
        ("The ledger has a pool. Its limit is 20.", "The ledger has a pool. Its limit is 30.", True),
        ("The ledger is old. Its limit is 20.", "The limit of the ledger is 30.", True),
        ("Its limit is 20 requests.", "Its limit is 30 requests.", True),
    ],
)
def test_a_pronoun_stands_for_what_the_text_was_about(ours: str, theirs: str, differ: bool) -> None:
    """Case C14: the sections of a manual, built alike, do not contradict each other."""
    a, b = unit("a", ours, keys=frozenset({"manual"})), unit("b", theirs, keys=frozenset({"manual"}))
    assert (compare(a, b, 0.9, never_same) is not None) is differ


def test_two_names_of_one_declared_entity_are_not_a_difference() -> None:
    a, b = unit("a", "The on-call lead is Bob Smith."), unit("b", "The on-call lead is Robert Jones.")
    assert compare(a, b, 0.9, never_same) is not None
    assert compare(a, b, 0.9, lambda name, other: {name, other} == {"Bob Smith", "Robert Jones"}) is None


def test_weekdays_of_statements_weeks_apart_are_two_days() -> None:
    texts = ("The payments freeze begins again Friday.", "The payments freeze begins again Monday.")
    first = day("2026-03-01")
    soon, later = (Moment.model_validate(first.at + timedelta(days=days)) for days in (2, 30))
    a = unit("a", texts[0], occurred_at=first)
    assert compare(a, unit("b", texts[1], occurred_at=soon), 0.9, never_same) is not None
    assert compare(a, unit("b", texts[1], occurred_at=later), 0.9, never_same) is None


# --- claims that producers give ---------------------------------------------------------------------------------------


def claimed(unit_id: str, *claim: str, **fields: object) -> ComparedUnit:
    return unit(
        unit_id,
        f"Text of {unit_id} says so.",
        claims=(Claim(**dict(zip(("subject", "predicate", "object"), claim, strict=True)), **fields),),
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (("payments client", "retry limit", "5"), ("Payments Client", "retry_limit", "6"), "number"),
        (("deploy freeze", "starts on", "Friday"), ("deploy freeze", "starts on", "Monday"), "date"),
        (("billing", "owner", "Ana"), ("billing", "owned by", "Ben"), "name"),
        (("billing", "state", "enabled"), ("billing", "state", "disabled"), "antonym"),
        (("billing", "storage", "object store"), ("billing", "storage", "relational database"), "claim"),
    ],
)
def test_declared_claims_with_other_objects_exclude_each_other(ours, theirs, kind: str) -> None:
    found = compare(claimed("a", *ours), claimed("b", *theirs), 0.0, never_same)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    "predicate", ["uses", "works on", "works_at", "administers", "knows", "depends_on", "member of"]
)
def test_declared_claims_that_add_up_never_exclude_each_other(predicate: str) -> None:
    assert (
        compare(claimed("a", "Maya", predicate, "Orion"), claimed("b", "Maya", predicate, "Lynx"), 1.0, never_same)
        is None
    )


def test_a_denied_claim_excludes_the_same_claim_affirmed() -> None:
    found = compare(
        claimed("a", "Atlas", "uses", "Redis"),
        claimed("b", "Atlas", "uses", "Redis", polarity="denied"),
        0.0,
        never_same,
    )
    assert found is not None
    assert found.kind == "negation"


def test_claims_that_hold_one_after_the_other_are_history() -> None:
    a = claimed("a", "billing", "owner", "Ana", valid_until="2026-03-01")
    assert compare(a, claimed("b", "billing", "owner", "Ben", valid_from="2026-03-01"), 0.0, never_same) is None


# --- quantities, dates, antonyms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "dimension", "bound"),
    [
        ("30 seconds", 30.0, "time", "exact"),
        ("30s", 30.0, "time", "exact"),
        ("1,500 ms", 1.5, "time", "exact"),
        ("up to 5 retries", 5.0, None, "at most"),
        ("at least 2 GB", 2e9, "bytes", "at least"),
        ("about 100 rps", 100.0, "rate", "about"),
        ("100 requests per second", 100.0, "rate", "exact"),
        ("$1.5 million", 1.5e6, "money-usd", "exact"),
        ("99.9%", 99.9, "percent", "exact"),
        ("twenty people", 20.0, None, "exact"),
        ("5-10 days", 5 * 86_400.0, "time", "range"),
        ("no more than 3 tries", 3.0, None, "at most"),
    ],
)
def test_a_quantity_is_read_with_unit_and_bound(text: str, value: float, dimension: str | None, bound: str) -> None:
    [found] = find_quantities(text)
    assert (pytest.approx(found.value), found.dimension, found.bound) == (value, dimension, bound)


@pytest.mark.parametrize("text", ["v1.2", "UA123", "mw-3", "10.0.0.1", "2026-03-01T09:00", "no one knows", "sha1abc"])
def test_identifiers_are_not_quantities(text: str) -> None:
    assert find_quantities(text) == ()


@pytest.mark.parametrize(
    ("left", "right", "agree"),
    [
        ("1 s", "1000 ms", True),
        ("1 min", "60 s", True),
        ("1 GB", "1000 MB", True),
        ("up to 5", "4", True),
        ("up to 5", "6", False),
        ("at least 5", "at least 6", False),
        ("5-10", "7", True),
        ("5-10", "11", False),
        ("about 100", "110", True),
        ("about 100", "150", False),
        ("1.5 million", "1,512,300", True),
        ("5", "6", False),
        ("5 s", "5 MB", True),
    ],
)
def test_two_quantities_agree_when_one_thing_can_have_both(left: str, right: str, agree: bool) -> None:
    [ours], [theirs] = find_quantities(left), find_quantities(right)
    assert can_both_hold(ours, theirs) is agree
    assert can_both_hold(theirs, ours) is agree


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("1 March 2026", "2026-03-01", True),
        ("1 March 2026", "March 2, 2026", False),
        ("March 2026", "2026-03-09", True),
        ("Q1 2026", "March 2026", True),
        ("Q2 2026", "March 2026", False),
        ("Friday", "2026-03-06", True),
        ("Monday", "2026-03-06", False),
        ("the 1990s", "in 1995.", True),
        ("10:00", "2 pm", False),
        ("2 pm", "14:00", True),
        ("Friday", "14:00", None),
    ],
)
def test_two_dates_are_compared_in_what_both_say(left: str, right: str, same: bool | None) -> None:
    [ours], [theirs] = find_days(left), find_days(right)
    assert may_be_the_same(ours, theirs) is same
    assert may_be_the_same(theirs, ours) is same


@pytest.mark.parametrize("text", ["it may work", "they march on", "last Friday", "in 2000 requests", "he sat down"])
def test_words_that_only_look_like_dates_are_none(text: str) -> None:
    assert [found for found in find_days(text) if found.year or found.day or found.weekday is not None] == []


@pytest.mark.parametrize(
    ("left", "right", "opposite"),
    [
        ("enabled", "disabled", True),
        ("stable", "unstable", True),
        ("encrypted", "unencrypted", True),
        ("important", "portant", False),
        ("design", "sign", False),
        ("fast", "fast", False),
        ("fast", "green", False),
    ],
)
def test_antonyms_are_symmetric(left: str, right: str, opposite: bool) -> None:
    assert are_antonyms(left, right) is opposite
    assert are_antonyms(right, left) is opposite


def test_a_day_is_always_in_utc() -> None:
    assert day("2026-03-01").at == datetime(2026, 3, 1, tzinfo=UTC)
