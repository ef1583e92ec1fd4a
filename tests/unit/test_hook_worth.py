"""What of an exchange is kept: decisions, fixes, conventions and commands, and nothing that only looks like one."""

import pytest

from compose.hooks.worth import Finding, is_convention, is_decision, is_fix, sentences, worth_keeping

DECISIONS = """\
We decided to use Valkey as the cache because Redis changed its licence.
Decision: keep the journal in rollback mode.
We have chosen PostgreSQL over MySQL for the ledger.
The team agreed on trunk-based development.
We decided not to use Kubernetes.
We decided against a second broker.
It was decided to freeze deploys on Fridays.
We're going with FastStream for the consumers.
We will go with option B because it needs no migration.
I chose SQLite because it needs no server.
We've switched from Redis to Valkey.
After the outage, we decided to pin the driver.
The decision is to ship weekly.
Ana decided to move the job to the night.
We have therefore settled on 4 partitions.
After comparing both, we settled on Kafka because replay matters more to us than latency.
The platform team has decided to retire the old gateway in March.
We agreed that every migration needs a rollback script.
I've decided to keep the retry logic in the client, since the server cannot know the deadline.
Decision: **use ISO dates** everywhere.
- We decided to drop Python 3.9.
We moved from Jenkins to GitHub Actions last week.
Marta and Jon agreed to split the service."""

NO_DECISIONS = """\
I am using it for testing because it is fast.
The plan is cancelled.
We have not decided on a database yet.
We haven't decided to move.
Should we use Redis or Valkey?
If we decided to use Redis, we would need a licence.
Have we decided to go with Kafka?
We could decide to drop it.
They never agreed to the change.
Nobody decided to use it.
We should decide on the schema tomorrow.
I asked whether we decided to keep it.
Once we have decided on the schema, I will write the migration.
We have decided nothing.
The function decides which lane is used.
I recommend that we use Postgres.
It remains to be decided whether we migrate.
We might have agreed to that.
We did not choose Redis for its speed.
The scheduler decided to kill the pod.
The two functions agreed on the format only by accident.
As soon as we have decided, I will update the docs.
I'd go with Postgres if we decided today.
The vote was moved to Friday.
We almost decided to use it.
Whatever we decided last year may be obsolete.
We're going with the flow here, nothing is fixed."""

FIXES = """\
I fixed the timeout by raising the pool size to 20.
Fixed the flaky test by waiting for the token.
The fix was to pin numpy below 2.
This is now fixed: the retry limit was read from the wrong key.
Setting CORTEX_HOST to ::1 resolved the error.
I've fixed it by closing the socket first.
The build failure was resolved by clearing the cache.
Fix: add a trailing slash to the base URL.
Upgrading the driver to 0.14 fixes the coordinator hang.
The crash is fixed now by guarding against an empty list.
I have corrected the off-by-one by using <= in the loop.
It was solved by bumping the heap to 4 GB.
The solution was to run the migration before the seed script.
Both are now fixed; the lock is taken before the read.
Replacing the regex with a parser solved the hang."""

NO_FIXES = """\
I have not fixed it yet.
This should fix the timeout.
I will fix it tomorrow.
Let me fix the import first.
It is not fixed by the upgrade.
Did you fix it?
I haven't resolved the conflict by hand.
To fix this, you could raise the limit.
We tried to fix it by restarting.
The price is fixed.
If this fixes it, tell me.
I hope this fixes the crash.
The upgrade fixed nothing.
This didn't fix the problem.
It uses a fixed size buffer.
The defect prefix was added.
Nothing I tried has fixed it.
The bug remains unresolved.
This would be fixed by an upgrade.
I'll get this fixed by tonight.
I think I fixed it, but the test still fails.
We only partially fixed it, the error happens again.
The time zone is fixed by the server.
Make sure the version is fixed by the lock file.
I couldn't fix it by restarting.
Not fixed by the restart."""

CONVENTIONS = """\
Always use uv to install packages, never pip.
From now on, run the linter before you commit.
Never push to main directly.
Our convention is to name tests as sentences.
Remember that the staging database is read-only.
We never deploy on Fridays."""

NO_CONVENTIONS = """\
Remember to buy milk please.
Never mind the last question.
Do we always use uv?
For now, always skip the slow tests.
Why do we never deploy on Fridays?
This has never worked for me."""


@pytest.mark.parametrize(
    ("rule", "given", "kept"),
    [
        (rule, line, kept)
        for rule, lines, kept in (
            (is_decision, DECISIONS, True),
            (is_decision, NO_DECISIONS, False),
            (is_fix, FIXES, True),
            (is_fix, NO_FIXES, False),
            (is_convention, CONVENTIONS, True),
            (is_convention, NO_CONVENTIONS, False),
        )
        for line in lines.splitlines()
    ],
)
def test_a_labelled_sentence(rule, given, kept):
    (sentence,) = sentences(given) or [given]
    assert rule(sentence) is kept


def test_an_error_and_its_fix_are_kept_as_one_pair():
    prompt = "The import fails with\nModuleNotFoundError: No module named 'foo'\nwhy?"
    answer = "The root cause was a missing extra. I fixed it by installing foo[bar]."
    assert worth_keeping(prompt, answer) == (
        Finding(
            "error_fix",
            "Error: ModuleNotFoundError: No module named 'foo'\n"
            "Fix: I fixed it by installing foo[bar]. The root cause was a missing extra.",
        ),
    )


def test_the_errors_words_may_stand_in_a_tools_output():
    (found,) = worth_keeping("make it pass", "I fixed it by closing the socket.", ("ok", "ResourceWarning: unclosed"))
    assert found.text == "Error: ResourceWarning: unclosed\nFix: I fixed it by closing the socket."


@pytest.mark.parametrize(
    "answer",
    [
        "I fixed it by raising the limit. The test still fails with the same error.",
        "I fixed it by raising the limit. That did not help, so I reverted it.",
        "I fixed it.",
    ],
)
def test_a_fix_that_is_taken_back_or_says_nothing_is_not_kept(answer):
    assert worth_keeping("ValueError: too many values to unpack", answer) == ()


def test_a_fix_of_nothing_that_was_wrong_is_not_kept():
    assert worth_keeping("please tidy up", "I resolved the imports to one block by sorting them.") == ()


def test_a_question_is_never_kept():
    assert worth_keeping("Why did we choose PostgreSQL for the ledger, and when?", "I do not know that.") == ()


def test_a_command_is_kept_with_its_purpose():
    answer = "To deploy the lamp, you can run the following command:\n\n```sh\n$ lampctl release\n```\n"
    assert worth_keeping("how do I deploy?", answer) == (Finding("command", "To deploy the lamp: `lampctl release`"),)


@pytest.mark.parametrize(
    "answer",
    [
        "Do not run this:\n```sh\nrm -rf build\n```",
        "To look around, run:\n```sh\nls -la\n```",
        "To parse it, use:\n```python\nprint(1)\n```",
        "```sh\nlampctl release\n```",
        "To set it up, run:\n```sh\na\nb\nc\nd\ne\n```",
    ],
)
def test_a_block_without_purpose_or_worth_is_not_kept(answer):
    assert worth_keeping("how?", answer) == ()


def test_what_stands_in_code_in_quotations_and_in_tables_is_nobodys_statement():
    answer = "```\n# We decided to use tabs.\n```\n> We decided to use spaces.\n\n| We decided to | use both |\n"
    assert worth_keeping("format?", answer) == ()


def test_the_same_statement_is_kept_once():
    assert len(worth_keeping("We decided to use tabs.", "Noted. We decided to use tabs.")) == 1


def test_a_long_answer_without_sentences_is_read_in_no_time():
    assert worth_keeping("x" * 100_000, "we " * 60_000 + "`" * 1_000) == ()
