"""How many background jobs and commands are kept of a tenant: rules that the stores, the logs and ingest share.

A job that is over is let go once there are `KEPT` newer ones of its tenant that are over too. Its command may still be
read again, from a journal or from Kafka's topic: that it has been done is known from its place, for a tenant's commands are
done in their order.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from schemas.commands import Job

KEPT: Final = 1_000
"""Jobs of a tenant that are over, the newest; and as many of its newest commands, so that none outlives its job by far."""
LOOKED_AT: Final = 10
"""Newest jobs among which the last one that is over is looked for: at most one of a tenant's runs at a time."""


def beyond(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs to let go: of those that are over, all but the newest `KEPT`; ties by id."""
    over = sorted((job for job in jobs if job.finished), key=lambda job: (job.requested_at, job.id), reverse=True)
    return over[KEPT:]


def done_before(number: int, requested_at: datetime, newest: Sequence[Job]) -> bool:
    """Tell whether the command of this place, of which no job is known, was done and its job let go.

    ``newest``: the tenant's last jobs. Both the place and the time must stand before a job that is over: places begin again
    where a topic is made anew, and clocks differ.
    """
    return any(
        job.finished and job.number is not None and number < job.number and requested_at <= job.requested_at
        for job in newest
    )


def done_up_to(newest: Sequence[Job]) -> int:
    """Return the place before which every command of the tenant is done; 0 where nothing says so."""
    return max((job.number for job in newest if job.finished and job.number is not None), default=0)
