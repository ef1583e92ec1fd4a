"""What becomes of a dead letter, as pure rules; and what is written into one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.status import DeadLetter, LetterMark, LetterState
from shared.letters import LetterFilter, buried, marked

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REPLAYED = LetterMark(state=LetterState.REPLAYED, by="ana", at=NOW, job="j-1")
DISCARDED = LetterMark(state=LetterState.DISCARDED, by="ben", at=NOW)


def letter(**changes):
    fields = {
        "id": "d", "stage": "embed", "cause": "transient", "detail": "", "attempts": 3, "topic": "cortex.events",
        "partition": 0, "offset": 1, "tenant": "acme", "event_id": "e", "event_source": "s", "failed_at": NOW,
        "body": b"x", "headers": (("h", b"1"),), "key": b"k",
    }  # fmt: skip
    return DeadLetter(**(fields | changes))


def test_the_first_failure_is_kept_as_it_is():
    assert buried(None, letter()) == letter()


def test_a_failure_after_a_replay_opens_the_letter_and_adds_attempts():
    known = marked(letter(), REPLAYED)
    again = buried(known, letter(attempts=2, stage="store", failed_at=NOW + timedelta(hours=1)))
    assert (again.state, again.attempts, again.stage, again.replays) == (LetterState.OPEN, 5, "store", 1)
    assert (again.resolved_by, again.resolved_at, again.job) == (None, None, None)


def test_the_same_failure_told_again_changes_neither_attempts_nor_what_was_done():
    assert buried(letter(attempts=6), letter()).attempts == 6
    discarded = marked(letter(), DISCARDED)
    assert buried(discarded, letter()) == discarded


def test_headers_and_key_stay_those_of_the_first_time():
    again = buried(letter(), letter(headers=(("cortex-origin", b"t"),), key=None))
    assert (again.headers, again.key) == ((("h", b"1"),), b"k")


@pytest.mark.parametrize(
    ("before", "mark", "changes"),
    [
        (None, REPLAYED, True), (None, DISCARDED, True), (DISCARDED, REPLAYED, True), (DISCARDED, DISCARDED, False),
        (REPLAYED, DISCARDED, False), (REPLAYED, REPLAYED, False),
    ],
)  # fmt: skip
def test_what_can_be_done_about_a_letter(before, mark, changes):
    """An open one everything, a discarded one replayed, a replayed one nothing until it fails again."""
    known = letter() if before is None else marked(letter(), before)
    done = marked(known, mark)
    assert (done is not known) is changes
    if changes:
        assert (done.state, done.resolved_by, done.resolved_at, done.job) == (mark.state, mark.by, mark.at, mark.job)


@given(st.lists(st.sampled_from(["bury", REPLAYED, DISCARDED]), max_size=12))
def test_replays_are_counted_and_attempts_never_fall(steps):
    known, replays = letter(), 0
    for step in steps:
        before = known
        known = buried(known, letter()) if step == "bury" else marked(known, step)
        replays += known.state is LetterState.REPLAYED and before.state is not LetterState.REPLAYED
        assert known.attempts >= before.attempts
        assert known.replays == replays
        assert (known.resolved_by is None) == (known.state is LetterState.OPEN)
    assert known.attempts <= 3 * (1 + replays)


def test_a_filter_asks_for_every_field_that_it_names():
    assert LetterFilter().fits(letter(tenant=None))
    assert LetterFilter(tenant="acme", event_id="e", state=LetterState.OPEN, stage="embed", cause="transient").fits(
        letter()
    )
    for name, other in (("tenant", "x"), ("event_id", "x"), ("stage", "x"), ("cause", "x"), ("state", "discarded")):
        assert not LetterFilter(**{name: other}).fits(letter()), name
