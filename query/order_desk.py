"""Where orders to ingest are taken: kept durably before the answer, and one job for equal ones that have not begun."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from weakref import WeakValueDictionary

import anyio

from schemas.commands import (
    CancelJob,
    ChangeModel,
    Command,
    DropModel,
    Job,
    JobState,
    JoinJob,
    Order,
    Reindex,
    accepted,
)
from shared.clock import Clock
from shared.errors import LogUnavailable, UnknownThing
from shared.log import EventLog
from shared.store import KnowledgeReader

KEEP_S: Final = 10.0  # a commit takes milliseconds; a log that needs longer is not there
LOOKED_AT: Final = 100  # newest commands in which an equal one is looked for
MODEL_ORDERS: Final = (ChangeModel, DropModel)


class Novelty(StrEnum):
    """Whether an order made a job: a new one, one that was there and has not begun, or none, for it is the same request."""

    NEW = "new"
    JOINED = "joined"
    REPEATED = "repeated"


@dataclass(frozen=True)
class Placed:
    """The job that an order belongs to."""

    job: Job
    novelty: Novelty


class OrderDesk:
    """Takes orders, and knows the jobs that came of them: from the store, or, before ingest has taken one, from the log.

    Equal orders are joined within one query process; two processes that get equal orders at the same moment may make two
    jobs, and the second finds nothing left to change.
    """

    def __init__(self, log: EventLog, reader: KnowledgeReader, clock: Clock) -> None:
        self._log = log
        self._reader = reader
        self._clock = clock
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def place(
        self, tenant: str, order: Order, *, by: str, reason: str = "", command_id: str | None = None
    ) -> Placed:
        """Take an order; the same ``command_id`` again is the same request. Raises LogUnavailable, StoreUnavailable."""
        lock = self._locks.setdefault(tenant, anyio.Lock())
        try:
            with anyio.fail_after(KEEP_S):
                async with lock:
                    return await self._place(tenant, order, by, reason, command_id)
        except TimeoutError as error:
            raise LogUnavailable(f"the log took longer than {KEEP_S:g} s; send the same again") from error

    async def _place(self, tenant: str, order: Order, by: str, reason: str, command_id: str | None) -> Placed:
        if command_id is not None and (known := await self.find(tenant, command_id)) is not None:
            return Placed(known, Novelty.REPEATED)
        equal = await self._open_equal(tenant, order)
        command = Command(
            id=command_id or f"{order.kind}-{secrets.token_hex(12)}",
            tenant=tenant,
            requested_by=by,
            requested_at=self._clock.now(),
            reason=reason,
            order=order if equal is None else JoinJob(job=equal.id),
        )
        if equal is not None and command_id is None:
            return Placed(equal, Novelty.JOINED)
        is_new = await self._log.order(command)
        if equal is not None:
            return Placed(equal, Novelty.JOINED)
        return Placed(accepted(command), Novelty.NEW if is_new else Novelty.REPEATED)

    async def cancel(self, tenant: str, job_id: str, *, by: str) -> Job:
        """Order that a job ends between two pages of its work; one that is over stays as it ended. Raises UnknownThing."""
        job = await self.job(tenant, job_id)
        if not job.finished:
            command = Command(
                id=_cancellation_of(job.id),
                tenant=tenant,
                requested_by=by,
                requested_at=self._clock.now(),
                order=CancelJob(job=job.id),
            )
            await self._log.order(command)
        return job

    async def job(self, tenant: str, job_id: str) -> Job:
        """Return a job as it is now. Raises UnknownThing."""
        found = await self.find(tenant, job_id)
        if found is None:
            raise UnknownThing("there is no job of this id")
        return found

    async def find(self, tenant: str, job_id: str) -> Job | None:
        """Return a job as it is now, or None; what was joined to another is that one."""
        async with self._reader.snapshot(tenant) as snapshot:
            kept = await snapshot.jobs(1, job_id)
        if kept:
            return kept[0]
        for command in await self._log.ordered(tenant, command_id=job_id):
            if isinstance(command.order, JoinJob):
                return await self.find(tenant, command.order.job)
            if not isinstance(command.order, CancelJob):
                return accepted(command)
        return None

    async def jobs(self, tenant: str, limit: int) -> list[Job]:
        """Return jobs, newest first."""
        async with self._reader.snapshot(tenant) as snapshot:
            kept = await snapshot.jobs(limit)
            ordered = await self._log.ordered(tenant, limit=limit)
            waiting = [command for command in ordered if not isinstance(command.order, CancelJob | JoinJob)]
            begun = {job.id for job in kept} | {
                job.id for command in waiting for job in await snapshot.jobs(1, command.id)
            }
        found = [*kept, *(accepted(command) for command in waiting if command.id not in begun)]
        return sorted(found, key=lambda job: (job.requested_at, job.id), reverse=True)[:limit]

    async def _open_equal(self, tenant: str, order: Order) -> Job | None:
        """Return the newest job of an equal order that has not begun, nor is cancelled.

        One that runs has passed pages that this order is about too: what has changed since would be missed.
        """
        for job_id in _candidates(await self._log.ordered(tenant, limit=LOOKED_AT), order):
            job = await self.find(tenant, job_id)
            if (
                job is None
                or job.state is not JobState.ACCEPTED
                or job.order is None
                or _sign(job.order) != _sign(order)
            ):
                continue
            if not await self._log.ordered(tenant, command_id=_cancellation_of(job_id)):
                return job
        return None


def _candidates(commands: Iterable[Command], order: Order) -> Iterator[str]:
    """Yield, newest first, the jobs of equal orders; a joined one may be all that is left to see of an older job.

    Of orders about models the last one counts: none is joined before which another one would be done.
    """
    seen: set[str] = set()
    for command in commands:
        given = command.order
        if isinstance(given, JoinJob):
            job_id = given.job
        elif _sign(given) == _sign(order):
            job_id = command.id
        elif isinstance(given, MODEL_ORDERS) and isinstance(order, MODEL_ORDERS):
            return
        else:
            continue
        if job_id not in seen:
            seen.add(job_id)
            yield job_id


def _sign(order: Order) -> Order:
    """Return an order in the form in which equal ones are equal."""
    if isinstance(order, Reindex) and order.select.unit_ids is not None:
        ids = tuple(sorted(set(order.select.unit_ids)))
        return order.model_copy(update={"select": order.select.model_copy(update={"unit_ids": ids})})
    return order


def _cancellation_of(job_id: str) -> str:
    return f"cancel-{hashlib.sha256(job_id.encode()).hexdigest()[:32]}"
