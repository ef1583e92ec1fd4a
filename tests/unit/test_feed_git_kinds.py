"""Commits become error fixes, decisions, patterns or context by whole words, not by letters that happen to occur."""

import pytest

from compose.feeds.git_kinds import kind_of

CASES = [
    # error fixes
    ("fix: retry the refund once", "", "error_fix"),
    ("fix(ledger): rounding of half cents", "", "error_fix"),
    ("Fix crash when the queue is empty", "", "error_fix"),
    ("Fixed a deadlock between journal and pump", "", "error_fix"),
    ("payments: fix rounding", "", "error_fix"),
    ("[API] Fix empty answer", "", "error_fix"),
    ("Crash fix for old browsers", "", "error_fix"),
    ("Add retries and fix the lost wakeup", "", "error_fix"),
    ("Prevent a race in the pump", "", "error_fix"),
    ("Avoid duplicates after a restart", "", "error_fix"),
    ("Handle KeyError in the parser", "", "error_fix"),
    ('Revert "Use two threads"', "This reverts commit 1234567.", "error_fix"),
    ("Roll back the new scheduler", "", "error_fix"),
    ("🐛 empty page", "", "error_fix"),
    ("Read the offset before the commit", "Fixes #12", "error_fix"),
    ("net: check the length first", 'Fixes: 1a2b3c4d5e6f ("net: new parser")', "error_fix"),
    ("hotfix: wrong certificate", "", "error_fix"),
    # decisions
    ("Switch to PostgreSQL for the ledger", "", "decision"),
    ("Migrate sessions from Redis to Valkey", "", "decision"),
    ("Replace Celery with FastStream", "", "decision"),
    ("Adopt structured logging", "", "decision"),
    ("Drop support for Python 3.9", "", "decision"),
    ("Use orjson instead of json", "", "decision"),
    ("feat!: one token a tenant", "", "decision"),
    ("feat: new door", "BREAKING CHANGE: the old one is gone", "decision"),
    ("Storage layer", "We decided to keep one file a tenant.", "decision"),
    ("Storage layer", "Plain files in favour of a server.", "decision"),
    ("decision: exact vectors up to 100,000 units", "", "decision"),
    # patterns
    ("refactor: one table of errors", "", "pattern"),
    ("Refactor the parser", "", "pattern"),
    ("Extract the lane from the stage", "", "pattern"),
    ("perf: reuse the matrix", "", "pattern"),
    ("Hold each third-party client to its one module", "", "pattern"),
    # what letters alone would take for one of these
    ("Add a prefix to topic names", "", "context"),
    ("Load fixtures from one folder", "", "context"),
    ("feature-flag cleanup", "", "context"),
    ("Defeat the final boss in the demo", "", "context"),
    ("Let suffixes and affixes pass", "", "context"),
    ("Add --fix to the command line", "", "context"),
    ("Add a fix command", "", "context"),
    ("Fixed-width columns in reports", "", "context"),
    ("Fixed price offers", "", "context"),
    ("Rename fix.py to mend.py", "", "context"),
    ("Clean up a switch statement", "", "context"),
    ("Switch statement cleanup", "", "context"),
    ("Adrian's notes on quadratic forms", "", "context"),
    ("The undecided voters sample", "", "context"),
    # negated, attempted, trivial
    ("I have not fixed it yet", "", "context"),
    ("Do not fix the seed", "", "context"),
    ("Try to fix the flaky checkout", "", "context"),
    ("Reproduce before we fix it", "", "context"),
    ("Fix typo in README", "", "context"),
    ("fix: typo", "", "context"),
    ("fix: crash in the typo checker", "", "error_fix"),
    ("Fix formatting", "", "context"),
    ("Notes", "We have not decided to move yet.", "context"),
    ("Notes", "I am using it for testing because it is quick.", "context"),
    ("The plan is cancelled", "", "context"),
    # nothing speaks
    ("feat: search by time", "", "context"),
    ("docs: how to deploy", "", "context"),
    ("Update dependencies", "", "context"),
    ("修正", "", "context"),
    ("", "", "context"),
]


@pytest.mark.parametrize(("subject", "body", "kind"), CASES)
def test_whole_words_tell_the_kind(subject, body, kind):
    assert kind_of(subject, body).value == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("docs/adr/0007-log.md", "decision"),
        ("decisions/log.md", "decision"),
        ("people/adrian.md", "context"),
        ("quadratic/adr.py", "context"),
        ("adr/tool.py", "context"),
    ],
)
def test_a_decision_record_among_the_files_makes_a_decision(path, kind):
    assert kind_of("Write it down", "", [path]).value == kind
