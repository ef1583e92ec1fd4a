"""What a tenant has, how far it is, and what failed: one page for people and for ``cortex status``."""

from pydantic import Field
from starlette.responses import Response

from query.access import Caller, Right
from query.endpoint import JSON_TYPE, Call, Endpoint, Reply, json_response
from query.routes_context import TenantOnly
from query.routes_health import readiness
from query.routes_letters import Letter, shown_letter
from query.visible import readable_scopes
from schemas.base import Record
from schemas.positions import PartitionWatermark
from schemas.status import DeadLetter, LetterState
from shared.letters import LetterFilter
from shared.store import Snapshot, StoreCounts

LETTERS_SHOWN = 10


class Counts(Record):
    """Totals. Whoever does not read the whole tenant gets the units of his own scopes, and no totals beside them."""

    units: int
    passages: int | None = None
    documents: int | None = None
    entities: int | None = None
    relations: int | None = None
    contradictions_open: int | None = None
    by_scope: dict[str, int] = Field(default_factory=dict)


class Status(Record):
    """Readiness of the service; counts and watermarks of the tenant; for administrators its newest open dead letters."""

    tenant: str
    ready: bool
    reasons: dict[str, str] = Field(default_factory=dict)
    counts: Counts
    watermarks: tuple[PartitionWatermark, ...]
    dead_letters: tuple[Letter, ...] = ()


async def service_status(call: Call) -> Response:
    """Say what the tenant has and how far it is."""
    caller = call.who
    reasons = await readiness(call.parts)
    async with call.parts.reader.snapshot(caller.tenant) as snapshot:
        counts = await _counts(snapshot, caller)
        stored = await snapshot.watermarks()
    lags = await call.parts.log.pending(caller.tenant, stored)
    places = sorted({*stored, *lags})
    watermarks = tuple(
        PartitionWatermark(topic=place[0], partition=place[1], number=stored.get(place, -1), lag=lags.get(place, 0))
        for place in places
    )
    letters = await _open_letters(call) if _sees_all(caller) else []
    return json_response(
        Status(
            tenant=caller.tenant,
            ready=not reasons,
            reasons=reasons,
            counts=counts,
            watermarks=watermarks,
            dead_letters=tuple(shown_letter(letter) for letter in letters),
        )
    )


async def _open_letters(call: Call) -> list[DeadLetter]:
    which = LetterFilter(tenant=call.who.tenant, state=LetterState.OPEN)
    return await call.parts.log.dead_letters(which, limit=LETTERS_SHOWN)


def _sees_all(caller: Caller) -> bool:
    return Right.ADMIN in caller.rights


async def _counts(snapshot: Snapshot, caller: Caller) -> Counts:
    totals: StoreCounts = await snapshot.counts()
    scopes = await readable_scopes(snapshot, caller.principal)
    by_scope = {scope: units for scope, units in sorted(totals.by_scope.items()) if scope in scopes}
    if caller.principal is not None and not _sees_all(caller):
        return Counts(units=sum(by_scope.values()), by_scope=by_scope)
    return Counts(
        units=totals.units,
        passages=totals.passages,
        documents=totals.documents,
        entities=totals.entities,
        relations=totals.relations,
        contradictions_open=totals.contradictions_open,
        by_scope=by_scope,
    )


STATUS = (
    Endpoint(
        "GET", "/v1/status", service_status, "What a tenant has, how far it is, and what failed",
        (Reply(200, "counts, watermarks, readiness", {JSON_TYPE: Status}),),
        Right.ASK, TenantOnly, None, (400, 503), "service",
    ),
)  # fmt: skip
