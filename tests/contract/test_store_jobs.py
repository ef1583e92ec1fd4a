"""A store keeps a bounded number of jobs that are over, and every one that is not."""

from datetime import timedelta

import pytest

from schemas.commands import Job, JobState
from shared import jobs_kept
from tests.contract.knowledge_events import NOW, TENANT

pytestmark = pytest.mark.anyio


def job(number: int, state: JobState) -> Job:
    return Job(
        id=f"j{number}", tenant=TENANT, kind="reindex", state=state, requested_by="ana",
        requested_at=NOW + timedelta(minutes=number), number=number,
    )  # fmt: skip


async def kept(store) -> list[Job]:
    async with store.reader.snapshot(TENANT) as snapshot:
        return await snapshot.jobs(100)


async def test_a_job_that_ends_lets_the_oldest_go_and_none_that_goes_on(store, monkeypatch):
    monkeypatch.setattr(jobs_kept, "KEPT", 3)
    await store.writer.save_job(TENANT, job(1, JobState.RUNNING))
    for number in range(2, 8):
        await store.writer.save_job(TENANT, job(number, JobState.RUNNING))
        await store.writer.save_job(TENANT, job(number, JobState.DONE))
    assert await kept(store) == [*(job(number, JobState.DONE) for number in (7, 6, 5)), job(1, JobState.RUNNING)]
    await store.writer.save_job(TENANT, job(1, JobState.CANCELLED))
    assert [one.id for one in await kept(store)] == ["j7", "j6", "j5"]
