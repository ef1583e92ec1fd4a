"""Dead letters: what could not be processed, and what an administrator does about it."""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from starlette.responses import Response

from query.access import Caller, Right
from query.endpoint import JSON_TYPE, Body, Call, Cursor, Endpoint, Reply, json_response
from query.inputs import parse_json, read_body, validate
from query.routes_context import TenantOnly, TenantParameter
from schemas import limits
from schemas.base import Record, Strict
from schemas.commands import Command, JobState, ReplayLetters
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.errors import UnknownThing
from shared.letters import LetterFilter

LETTERS_MAX: Final = 50  # with bodies of 256 kB each, a page stays under 20 MB
CHOSEN_PAGE: Final = 100  # letters in hand while a choice is gathered: with the largest bodies 26 MB
CHOICE_BYTES: Final = 64 * 1024  # a thousand ids of 32 characters, and room
TRIES: Final = 20  # a replay's job that failed or was cancelled can be ordered anew so often before the letter changes

LetterId = Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_CHARS)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class LetterParameters(Strict):
    """Which page of dead letters."""

    tenant: TenantParameter = None
    event_id: Annotated[str, Field(max_length=limits.ID_CHARS)] | None = None
    state: LetterState | None = None
    stage: Name | None = None
    cause: Name | None = None
    limit: Annotated[int, Field(ge=1, le=LETTERS_MAX)] = 20
    after: Cursor | None = None
    bodies: Annotated[bool, Field(description="with the original bytes, in base64")] = False


class Choice(Strict):
    """Letters to replay or discard: by id, or the open ones of a stage, a cause or both."""

    ids: Annotated[tuple[LetterId, ...], Field(min_length=1, max_length=limits.SELECTED_UNITS)] | None = None
    stage: Name | None = None
    cause: Name | None = None
    reason: Annotated[str, StringConstraints(max_length=500)] = ""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.ids is None) == (self.stage is None and self.cause is None):
            msg = "either ids, or a stage or a cause"
            raise ValueError(msg)
        return self


class Letter(Record):
    """A dead letter as JSON: bytes in base64."""

    id: str
    state: LetterState
    stage: str
    cause: str
    detail: str
    attempts: int
    topic: str
    partition: int
    offset: int
    tenant: str | None
    event_id: str | None
    event_source: str | None
    failed_at: datetime
    replays: int
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    job: str | None = Field(default=None, description="the address of the job that replays it")
    body_bytes: int
    body: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Letters(Record):
    """A page of dead letters, newest first."""

    letters: tuple[Letter, ...]
    next: str | None = None


class Ordered(Record):
    """Letters that a job sends through the stages again; its address says how far it is."""

    job: str
    letters: int


class Done(Record):
    """What came of a choice: how many letters it was about, and how many it changed.

    ``already``: it changes nothing, for it was asked for before. ``more``: there are more than are taken at a time; ask
    again.
    """

    chosen: int
    changed: int
    already: bool = False
    more: bool = False
    unknown: tuple[str, ...] = ()
    jobs: tuple[Ordered, ...] = ()


async def dead_letters(call: Call) -> Response:
    """List what could not be processed; letters whose tenant is unknown are shown to the trusted caller alone."""
    parameters: LetterParameters = call.parameters
    which = LetterFilter(
        tenant=_tenant(call.who),
        event_id=parameters.event_id,
        state=parameters.state,
        stage=parameters.stage,
        cause=parameters.cause,
    )
    letters = await call.parts.log.dead_letters(which, limit=parameters.limit, after=parameters.after)
    shown = tuple(shown_letter(letter, bodies=parameters.bodies) for letter in letters)
    more = letters[-1].id if len(letters) == parameters.limit else None
    return json_response(Letters(letters=shown, next=more))


async def one_letter(call: Call) -> Response:
    """Show one dead letter with its bytes."""
    return json_response(shown_letter(await _named(call), bodies=True))


async def replay_one(call: Call) -> Response:
    """Order that a letter's event goes through the stages again, with its original revision."""
    return await _replay(call, [await _named(call)])


async def discard_one(call: Call) -> Response:
    """Note that nothing more is to be done about a letter. Its event stays failed."""
    return await _discard(call, [await _named(call)])


async def replay_many(call: Call) -> Response:
    """Order it for letters by id, or for the open ones of a stage or a cause, a thousand at a time."""
    chosen, unknown, more, reason = await _chosen(call)
    return await _replay(call, chosen, unknown=unknown, more=more, reason=reason)


async def discard_many(call: Call) -> Response:
    """Discard letters by id, or the open ones of a stage or a cause, a thousand at a time."""
    chosen, unknown, more, _ = await _chosen(call)
    return await _discard(call, chosen, unknown=unknown, more=more)


def _tenant(who: Caller) -> str | None:
    """Return whose letters the caller may see; None: of every tenant, and those of which none is known."""
    return None if who.trusted and not who.named_tenant else who.tenant


async def _find(call: Call, letter_id: str) -> DeadLetter | None:
    letter = await call.parts.log.dead_letter(letter_id)
    tenant = _tenant(call.who)
    return letter if letter is not None and tenant in (None, letter.tenant) else None


async def _named(call: Call) -> DeadLetter:
    letter = await _find(call, call.request.path_params["id"])
    if letter is None:
        raise UnknownThing("there is no dead letter of this id")
    return letter


async def _chosen(call: Call) -> tuple[list[DeadLetter], tuple[str, ...], bool, str]:
    """Return the chosen letters without their bytes, ids that are none, whether there are more, and the reason."""
    choice = validate(Choice, parse_json(await read_body(call.request, CHOICE_BYTES)))
    if choice.ids is not None:
        ids = tuple(dict.fromkeys(choice.ids))
        found = {letter_id: await _find(call, letter_id) for letter_id in ids}
        letters = [_without_bytes(letter) for letter in found.values() if letter is not None]
        return letters, tuple(name for name in ids if found[name] is None), False, choice.reason
    which = LetterFilter(_tenant(call.who), state=LetterState.OPEN, stage=choice.stage, cause=choice.cause)
    letters = []
    while len(letters) <= limits.SELECTED_UNITS:
        after = letters[-1].id if letters else None
        page = await call.parts.log.dead_letters(which, limit=CHOSEN_PAGE, after=after)
        letters += [_without_bytes(letter) for letter in page]
        if len(page) < CHOSEN_PAGE:
            break
    return letters[: limits.SELECTED_UNITS], (), len(letters) > limits.SELECTED_UNITS, choice.reason


def _without_bytes(letter: DeadLetter) -> DeadLetter:
    return letter.model_copy(update={"body": b"", "headers": ()})


async def _replay(
    call: Call, letters: Sequence[DeadLetter], *, unknown: tuple[str, ...] = (), more: bool = False, reason: str = ""
) -> Response:
    """Order the replay of those that are not replayed, a job a tenant. The same letters again are the same order."""
    due: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        if letter.state is not LetterState.REPLAYED:
            due.setdefault(letter.tenant or call.who.tenant, []).append(letter)
    ordered = [await _order(call, tenant, mine, reason) for tenant, mine in sorted(due.items())]
    fresh = sum(job.letters for job, is_new in ordered if is_new)
    before = Counter(letter.job for letter in letters if letter.state is LetterState.REPLAYED and letter.job)
    jobs = (
        *(job for job, _ in ordered),
        *(Ordered(job=_job_address(job), letters=count) for job, count in sorted(before.items())),
    )
    done = Done(
        chosen=len(letters), changed=fresh, already=bool(letters) and not fresh, more=more, unknown=unknown, jobs=jobs
    )
    return json_response(done, 202 if fresh else 200)


async def _order(call: Call, tenant: str, letters: Sequence[DeadLetter], reason: str) -> tuple[Ordered, bool]:
    """Order a replay; the second value is False where it was ordered before, and its job has not failed since."""
    parts, who = call.parts, call.who
    is_new = False
    for number in range(TRIES):
        command_id = _command_id(letters, number)
        command = Command(
            id=command_id,
            tenant=tenant,
            requested_by=name_of(who),
            requested_at=parts.clock.now(),
            reason=reason,
            order=ReplayLetters(letters=tuple(letter.id for letter in letters)),
        )
        is_new = await parts.log.order(command)
        if is_new or not await _has_failed(call, tenant, command_id):
            break
    return Ordered(job=_job_address(command_id), letters=len(letters)), is_new


async def _has_failed(call: Call, tenant: str, job_id: str) -> bool:
    async with call.parts.reader.snapshot(tenant) as snapshot:
        jobs = await snapshot.jobs(1, job_id)
    return any(job.state in {JobState.FAILED, JobState.CANCELLED} for job in jobs)


def _command_id(letters: Sequence[DeadLetter], number: int) -> str:
    """Name an order by its letters and how often each has failed: once one has failed again, it is another order."""
    parts = sorted(f"{letter.id}:{letter.attempts}:{letter.replays}" for letter in letters)
    digest = hashlib.sha256("\n".join([*parts, str(number)]).encode()).hexdigest()
    return f"letters-{digest[:32]}"


def _job_address(job_id: str) -> str:
    return f"/v1/jobs/{job_id}"


async def _discard(
    call: Call, letters: Sequence[DeadLetter], *, unknown: tuple[str, ...] = (), more: bool = False
) -> Response:
    mark = LetterMark(state=LetterState.DISCARDED, by=name_of(call.who), at=call.parts.clock.now())
    changed = 0
    for letter in letters:
        changed += await call.parts.log.mark_letter(letter.id, mark)
    return json_response(
        Done(chosen=len(letters), changed=changed, already=bool(letters) and not changed, more=more, unknown=unknown)
    )


def name_of(who: Caller) -> str:
    """Return the name under which is noted what a caller has done."""
    if who.principal is not None:
        return who.principal
    return "trusted caller" if who.trusted else "administrator"


def shown_letter(letter: DeadLetter, *, bodies: bool = False) -> Letter:
    """Write a dead letter as JSON."""
    fields: dict[str, Any] = {name: getattr(letter, name) for name in Letter.model_fields if hasattr(letter, name)}
    fields["body_bytes"] = len(letter.body)
    fields["body"] = base64.b64encode(letter.body).decode() if bodies else None
    fields["key"] = None if letter.key is None else base64.b64encode(letter.key).decode()
    fields["headers"] = tuple((name, base64.b64encode(value).decode()) for name, value in letter.headers)
    fields["job"] = None if letter.job is None else _job_address(letter.job)
    return Letter(**fields)


_CHOICE = Body({JSON_TYPE: Choice}, CHOICE_BYTES)
_ORDERED = Reply(202, "ordered: the job's address says how far it is", {JSON_TYPE: Done})
_ALREADY = Reply(200, "it was asked for before, and nothing changes", {JSON_TYPE: Done})
_NOTED = Reply(200, "noted, with who and when", {JSON_TYPE: Done})
_ONE: tuple[int, ...] = (400, 404, 503, 507)
_MANY: tuple[int, ...] = (400, 408, 413, 415, 503, 507)
Method = Literal["GET", "POST"]


def _endpoint(
    method: Method, path: str, handler: Any, summary: str, replies: tuple[Reply, ...], **more: Any
) -> Endpoint:
    return Endpoint(
        method, f"/v1/dead-letters{path}", handler, summary, replies, Right.ADMIN, tag="events", **more
    )  # fmt: skip


LETTERS = (
    _endpoint(
        "GET", "", dead_letters, "What could not be processed, newest first",
        (Reply(200, "a page of dead letters", {JSON_TYPE: Letters}),),
        parameters=LetterParameters, problems=(400, 503),
    ),
    _endpoint(
        "GET", "/{id}", one_letter, "One dead letter with its bytes",
        (Reply(200, "the letter", {JSON_TYPE: Letter}),),
        parameters=TenantOnly, problems=(400, 404, 503),
    ),
    _endpoint(
        "POST", "/replay", replay_many, "Replay dead letters by id, stage or cause", (_ORDERED, _ALREADY),
        parameters=TenantOnly, body=_CHOICE, problems=_MANY,
    ),
    _endpoint(
        "POST", "/discard", discard_many, "Discard dead letters by id, stage or cause", (_NOTED,),
        parameters=TenantOnly, body=_CHOICE, problems=_MANY,
    ),
    _endpoint(
        "POST", "/{id}/replay", replay_one, "Replay a dead letter", (_ORDERED, _ALREADY),
        parameters=TenantOnly, problems=_ONE,
    ),
    _endpoint(
        "POST", "/{id}/discard", discard_one, "Discard a dead letter", (_NOTED,),
        parameters=TenantOnly, problems=_ONE,
    ),
)  # fmt: skip
