"""Which jobs are kept, and how it is known that a command was done whose job was let go."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.commands import Job, JobState
from shared import jobs_kept
from shared.jobs_kept import beyond, done_before, done_up_to

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def job(number: int, state: JobState = JobState.DONE, *, minute: int | None = None, placed: bool = True) -> Job:
    at = NOON + timedelta(minutes=number if minute is None else minute)
    return Job(
        id=f"j{number}", tenant="acme", kind="reindex", state=state, requested_by="ana", requested_at=at,
        number=number if placed else None,
    )  # fmt: skip


def test_of_those_that_are_over_the_newest_are_kept_and_of_the_others_all(monkeypatch):
    monkeypatch.setattr(jobs_kept, "KEPT", 2)
    jobs = [job(1, JobState.RUNNING), job(2), job(3, JobState.FAILED), job(4, JobState.CANCELLED), job(5)]
    assert [one.id for one in beyond(jobs)] == ["j3", "j2"]
    assert beyond(jobs[:3]) == []


@pytest.mark.parametrize(
    ("number", "minute", "jobs", "done"),
    [
        (3, 3, [job(5)], True),
        (3, 3, [job(4, JobState.RUNNING)], False),
        (5, 5, [job(5)], False),
        (6, 6, [job(5)], False),
        (3, 3, [job(5, placed=False)], False),
        (3, 3, [], False),
        (3, 99, [job(5)], False),
        (6, 1, [job(5)], False),
    ],
    ids=[
        "before one that is over", "before one that runs", "itself", "behind it", "of an older release", "no job",
        "a topic that was made anew", "a clock that is late",
    ],
)  # fmt: skip
def test_a_command_without_a_job_was_done_where_one_behind_it_is_over(number, minute, jobs, done):
    assert done_before(number, NOON + timedelta(minutes=minute), jobs) is done


def test_everything_before_the_last_one_that_is_over_is_done():
    assert done_up_to([job(9, JobState.RUNNING), job(8), job(7), job(10, placed=False)]) == 8
    assert done_up_to([job(9, JobState.RUNNING)]) == 0
