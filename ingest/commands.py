"""commands: orders from ``cortex.commands``, each done page by page as a background job whose state is in the store.

A page's effect is durable before the cursor that says so, and doing a page twice changes nothing. So a job goes on where it
was when its process was killed, a revoke hands it to the next owner between two pages, and a job that is over is never done
again. A tenant's commands are done in their order; live events go on meanwhile, for they go through other lanes, and a job's
embedding waits for bulk's turns.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

import structlog
from pydantic import ValidationError

from ingest.cancellations import Cancellations
from ingest.command_pump import NUMBER
from ingest.delivery import Hopeless
from ingest.jobs import change_model, check_again, drop_model, embed_again, replay_events, replay_letters, resolve_again
from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from schemas.commands import CancelJob, Command, Job, JobState, JoinJob, accepted
from shared.clock import Clock
from shared.faults import told
from shared.jobs_kept import LOOKED_AT, done_before
from shared.kafka import Record

DIGITS: Final = 18  # of a number in the journal: what 64 bits hold
CAUGHT_UP_S: Final = 10.0  # the topic is short; longer, and the broker is away: the lane asks again

KINDS: Final[Mapping[str, Kind]] = {
    "reindex/embed": embed_again.KIND,
    "reindex/resolve": resolve_again.KIND,
    "replay/embed": replay_events.KIND,
    "replay/contradictions": check_again.KIND,
    "replay-letters": replay_letters.KIND,
    "change-model": change_model.KIND,
    "drop-model": drop_model.KIND,
}
"""How each kind of command, with its stage where it has one, is carried out."""

_log = structlog.get_logger(__name__)


class CommandStage:
    """The last of the lanes: it takes one command at a time."""

    def __init__(
        self, means: Means, cancellations: Cancellations, clock: Clock, kinds: Mapping[str, Kind] = KINDS
    ) -> None:
        self._means = means
        self._cancellations = cancellations
        self._clock = clock
        self._kinds = kinds

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Do the first command, to its end unless draining."""
        command = await self._read(records[0])
        if command is None or isinstance(command.order, CancelJob | JoinJob):
            return 1  # a cancellation was seen before; here, behind the job it is about, nothing is left of it to do
        if not await self._cancellations.caught_up(CAUGHT_UP_S):
            return 0
        number = _number(records[0])
        try:
            ended = await self._means.hop.delivery.attempt(lambda: self._go_on(command, number, draining))
        except Hopeless as reason:
            job = await self._known(command, number)
            if job is not None:
                await self._end(job, JobState.FAILED, f"{reason.cause}: {reason.detail}")
            return 1
        return int(ended)

    async def _read(self, record: Record) -> Command | None:
        hop = self._means.hop
        body = bytes(record.value or b"")
        try:
            return Command.model_validate_json(body)
        except ValidationError as error:
            reason = Hopeless("not-a-command", told(error, body), 1)
            await hop.letters.bury_record(hop.delivery, record, reason)
            return None

    async def _known(self, command: Command, number: int) -> Job | None:
        """Return a command's job as last saved, or as it begins; None where it was done so long ago that it was let go."""

        async def look() -> tuple[list[Job], list[Job]]:
            async with self._means.reader.snapshot(command.tenant) as snapshot:
                return await snapshot.jobs(1, command.id), await snapshot.jobs(LOOKED_AT)

        found, newest = await self._means.hop.delivery.insist(look)
        if found:
            return found[0]
        if done_before(number, command.requested_at, newest):
            return None
        return accepted(command).model_copy(update={"number": number})

    async def _go_on(self, command: Command, number: int, draining: Draining) -> bool:
        """Do what is left of a job, if anything; False when draining stopped it between two pages."""
        job = await self._known(command, number)
        if job is None or job.finished:
            return True
        kind = self._kinds.get(_name(command))
        if kind is None:
            raise Hopeless("unknown-order", f"this release does not know {_name(command)}", 1)
        if self._is_cancelled(job):
            return await self._end(job, JobState.CANCELLED)
        if job.state is JobState.ACCEPTED:
            job = await self._begin(job, await kind.total(self._means, command))
        elif kind.left is not None and job.total is not None:
            done = job.total - await kind.left(self._means, command)
            job = job.model_copy(update={"done": max(job.done, done)})  # made durable with the next page
        async with aclosing(kind.pages(self._means, command, job.cursor, draining)) as pages:  # type: ignore[type-var] # generators
            async for page in pages:
                job = await self._turn(job, page)
                if self._is_cancelled(job):
                    return await self._end(job, JobState.CANCELLED)
                if draining():
                    _log.info("job.handed_on", job=job.id, tenant=job.tenant, done=job.done)
                    return False
        return await self._end(job, JobState.DONE)

    def _is_cancelled(self, job: Job) -> bool:
        return (job.tenant, job.id) in self._cancellations

    async def _begin(self, job: Job, total: int | None) -> Job:
        _log.info("job.started", job=job.id, tenant=job.tenant, kind=job.kind, total=total)
        return await self._save(job, state=JobState.RUNNING, started_at=self._clock.now(), total=total)

    async def _turn(self, job: Job, page: Page) -> Job:
        """Note a page. What came meanwhile may make it more than was counted at the start."""
        done = job.done + page.done
        total = None if job.total is None else max(job.total, done)
        detail = page.detail or job.detail
        return await self._save(
            job, done=done, total=total, failed=job.failed + page.failed, cursor=page.cursor, detail=detail
        )

    async def _end(self, job: Job, state: JobState, detail: str = "") -> bool:
        ended = await self._save(job, state=state, finished_at=self._clock.now(), detail=detail or job.detail)
        _log.info(
            "job.ended",
            job=job.id,
            tenant=job.tenant,
            kind=job.kind,
            state=state.value,
            done=ended.done,
            failed=ended.failed,
        )
        return True

    async def _save(self, job: Job, **changed: object) -> Job:
        """Make a job's state durable. A total that is less than what was done at the end is no failure: units may go."""
        saved = job.model_copy(update=changed)
        await self._means.hop.delivery.insist(lambda: self._means.writer.save_job(saved.tenant, saved))
        return saved


def _name(command: Command) -> str:
    stage = getattr(command.order, "stage", None)
    return command.order.kind if stage is None else f"{command.order.kind}/{stage}"


def _number(record: Record) -> int:
    """Return a command's place among its tenant's: its number in the journal, or else its offset."""
    given = bytes(dict(record.headers).get(NUMBER) or b"")
    return int(given) if given.isdigit() and len(given) <= DIGITS else int(record.offset)
