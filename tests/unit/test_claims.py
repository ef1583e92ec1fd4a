"""What plainly built sentences are taken to assert, and what is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.claims import extract_claims
from ingest.subjects import subject_mentions
from schemas import limits
from schemas.messages import Mention


def spoken(text: str) -> list[tuple[str, str, str, str]]:
    return [(claim.subject, claim.predicate, claim.object, claim.polarity) for claim in extract_claims(text)]


@pytest.mark.parametrize(
    ("text", "subject", "predicate", "value"),
    [
        ("The retry limit for the payments client is 5.", "the payments client", "retry limit", "5"),
        ("The retry limit for the payments client is set to 5.", "the payments client", "retry limit", "5"),
        ("Moody's credit rating for ACME is Baa2.", "ACME", "moody's credit rating", "Baa2"),
        ("Moody's upgraded ACME's credit rating to Baa1.", "ACME", "credit rating", "Baa1"),
        ("Atlas's primary region is Frankfurt.", "Atlas", "primary region", "Frankfurt"),
        ("The on-call lead this week is Ana.", "The on-call lead", "is", "Ana"),
        ("From today the on-call lead is Ben.", "the on-call lead", "is", "Ben"),
        ("Ben is the on-call lead for payments.", "payments", "on-call lead", "Ben"),
        ("We raised the retry limit of the gateway from 5 to 6.", "the gateway", "retry limit", "6"),
        ("The timeout was changed from 5 s to 10 s.", "the timeout", "is", "10 s"),
        ("Kiran lives in Whitefield.", "Kiran", "lives in", "Whitefield"),
        ("Kiran is assigned to Project Alpha.", "Kiran", "is assigned to", "Project Alpha"),
        ("Ticket 88 is owned by Sam.", "Ticket 88", "is owned by", "Sam"),
        ("Ticket 88 was handed over to Ines.", "Ticket 88", "is owned by", "Ines"),
        ("The platform team owns the gateway.", "the gateway", "is owned by", "platform team"),
        ("Dana leads the platform team.", "the platform team", "is led by", "Dana"),
        ("Service A uses Service B.", "Service A", "uses", "Service B"),
        ("Atlas depends on Redis.", "Atlas", "depends on", "Redis"),
        ("Deploy freeze starts Friday.", "Deploy freeze", "starts on", "Friday"),
        ("The maximum number of retries is five, since the outage.", "retries", "maximum number", "five"),
    ],
)
def test_a_plain_sentence_makes_one_claim(text: str, subject: str, predicate: str, value: str) -> None:
    assert spoken(text) == [(subject, predicate, value, "affirmed")]


@pytest.mark.parametrize(
    ("text", "predicate", "value"),
    [
        ("Redis is not enabled.", "is", "enabled"),
        ("Redis is no longer enabled.", "is", "enabled"),
        ("Redis isn't enabled.", "is", "enabled"),
        ("Atlas does not depend on Redis.", "depends on", "Redis"),
        ("Kiran no longer lives in Whitefield.", "lives in", "Whitefield"),
    ],
)
def test_a_negated_sentence_makes_a_denied_claim(text: str, predicate: str, value: str) -> None:
    [(_, found, what, polarity)] = spoken(text)
    assert (found, what, polarity) == (predicate, value, "denied")


def test_moving_denies_the_old_place_and_affirms_the_new_one() -> None:
    assert spoken("Kiran moved from Whitefield to Electronic City.") == [
        ("Kiran", "is at", "Whitefield", "denied"),
        ("Kiran", "is at", "Electronic City", "affirmed"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Is Redis enabled?",
        "If the cache is disabled, retry.",
        "The timeout might be 5 s.",
        "It is enabled.",
        "This is the way.",
        "The service is not only fast but cheap.",
        "The limit was 5.",
        "Some limits are 5.",
        "I think that the plan which we made is good.",
        "",
        "???",
    ],
)
def test_questions_conditions_guesses_pronouns_and_the_past_assert_nothing(text: str) -> None:
    assert spoken(text) == []


def test_each_sentence_is_read_and_the_same_claim_given_once() -> None:
    text = "Atlas uses Redis. Kiran lives in Whitefield. Atlas uses Redis."
    assert [value for _, _, value, _ in spoken(text)] == ["Redis", "Whitefield"]


def test_a_unit_has_no_more_claims_than_a_producer_could_give() -> None:
    text = " ".join(f"Service{number} uses Redis." for number in range(200))
    assert len(extract_claims(text)) == limits.CLAIMS


def test_a_subject_that_no_name_stands_in_becomes_a_mention() -> None:
    text = "The retry limit for the payments client is 5."
    [mention] = subject_mentions(text, extract_claims(text), ())
    assert (mention.surface, text[mention.start : mention.end]) == ("payments client", "payments client")


def test_a_subject_that_holds_a_name_is_left_to_the_name() -> None:
    text = "Kiran lives in Whitefield."
    taken = (Mention(key="kiran", surface="Kiran", start=0, end=5),)
    assert subject_mentions(text, extract_claims(text), taken) == ()


def test_the_words_before_the_verb_become_a_mention_where_no_claim_is_made() -> None:
    text = "Nicholas stopped drinking green tea. We like it. Is the gateway up?"
    [mention] = subject_mentions(text, extract_claims(text), ())
    assert (mention.key, mention.surface, mention.start) == ("nicholas", "Nicholas", 0)


@given(st.text(max_size=300))
def test_mentions_of_subjects_stand_where_they_say(text: str) -> None:
    for mention in subject_mentions(text, extract_claims(text), ()):
        assert text[mention.start : mention.end] == mention.surface


@given(st.text(max_size=300))
def test_any_text_is_read_without_failing(text: str) -> None:
    for claim in extract_claims(text):
        assert claim.subject.strip()
        assert claim.object.strip()


@given(st.text(alphabet="the is of for to not ' a,.;5s\n", max_size=400))
def test_any_run_of_function_words_is_read_without_failing(text: str) -> None:
    extract_claims(text)
