"""Every failure as a problem (RFC 9457): the one place where typed errors meet HTTP statuses."""

import http
from dataclasses import dataclass

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from schemas.problems import FieldFault, Problem
from shared import errors

PROBLEM_TYPE = "application/problem+json"
ROOT = "/problems/"
FAULTS_SHOWN = 100  # a batch of 500 wrong events says enough with the first hundred faults

_log = structlog.get_logger("cortex.query")


@dataclass(frozen=True)
class Kind:
    """What an error is over HTTP. ``retry_after_s`` goes into the header ``Retry-After``."""

    name: str
    title: str
    status: int
    retry_after_s: int | None = None

    @property
    def type(self) -> str:
        """The problem's stable type, a relative reference."""
        return ROOT + self.name


KINDS: dict[type[errors.CortexError], Kind] = {
    errors.CortexError: Kind("internal", "Something went wrong here", 500),
    errors.InputError: Kind("bad-input", "The input cannot be used", 400),
    errors.InvalidInput: Kind("invalid-input", "The input has wrong fields", 400),
    errors.UnsupportedVersion: Kind("unsupported-version", "The schema version is not known", 400),
    errors.TooLarge: Kind("too-large", "The input is larger than the limit", 413),
    errors.InvalidToken: Kind("invalid-token", "The position token is not one of this service", 400),
    errors.UnknownThing: Kind("not-found", "There is no such thing, or you may not see it", 404),
    errors.AccessError: Kind("access", "Access is refused", 403),
    errors.Unauthenticated: Kind("unauthenticated", "A valid bearer token is needed", 401),
    errors.BadSignature: Kind("bad-signature", "The webhook's signature does not hold", 401),
    errors.Forbidden: Kind("forbidden", "You may not do this", 403),
    errors.Transient: Kind("unavailable", "A part is unavailable for the moment", 503, retry_after_s=2),
    errors.StoreUnavailable: Kind("store-unavailable", "The knowledge store does not answer", 503, retry_after_s=2),
    errors.LogUnavailable: Kind("log-unavailable", "The event log does not take events", 503, retry_after_s=2),
    errors.EmbedderUnavailable: Kind("embedder-unavailable", "The embedder does not answer", 503, retry_after_s=2),
    errors.CacheUnavailable: Kind("cache-unavailable", "The cache does not answer", 503, retry_after_s=2),
    errors.ModelChanged: Kind("model-changed", "The embedding model was changed on the way", 503, retry_after_s=1),
    errors.NotReady: Kind("not-ready", "The service is starting or catching up", 503, retry_after_s=2),
    errors.Overloaded: Kind("overloaded", "Too much at once", 503, retry_after_s=1),
    errors.RateLimited: Kind("rate-limited", "More events than a tenant's share", 429, retry_after_s=1),
    errors.DeadlineExceeded: Kind("deadline", "It took longer than the deadline allows", 504),
    errors.UnknownModel: Kind("unknown-model", "The index is of an embedding model that is not configured", 500),
    errors.AllSourcesLost: Kind("all-sources-lost", "No part of the search answered", 503, retry_after_s=2),
    errors.ToolMissing: Kind("tool-missing", "A program that is needed is not installed", 500),
    errors.DataFolderError: Kind("data-folder", "The data folder cannot be used", 500),
    errors.FolderInUse: Kind("folder-in-use", "Another Cortex uses the data folder", 500),
    errors.FolderReadOnly: Kind("folder-read-only", "The data folder cannot be written", 500),
    errors.FolderNewer: Kind("folder-newer", "The data folder belongs to a later release", 500),
    errors.DiskFull: Kind("disk-full", "The disk is full", 507, retry_after_s=30),
    errors.PortInUse: Kind("port-in-use", "A port is taken by another program", 500),
}
"""Every class of shared/errors.py has its own line (a test checks it)."""

STATUS_KINDS: dict[int, Kind] = {
    404: Kind("no-such-route", "There is no such address", 404),
    405: Kind("method-not-allowed", "The address does not know this method", 405),
    406: Kind("not-acceptable", "None of the accepted media types can be given", 406),
    408: Kind("request-timeout", "The request did not come in time", 408),
    415: Kind("unsupported-media-type", "The body's media type is not taken here", 415),
    421: Kind("misdirected", "The request was meant for another host", 421),
}
"""Refusals that come from HTTP itself and have no typed error."""

INTERNAL = KINDS[errors.CortexError]


def kind_of(error: BaseException) -> Kind:
    """Return the kind of an error: its own line, or the nearest base's; anything unknown is internal."""
    if isinstance(error, HTTPException):
        fallback = Kind("http", http.HTTPStatus(error.status_code).phrase, error.status_code)
        return STATUS_KINDS.get(error.status_code, fallback)
    for base in type(error).__mro__:
        if base in KINDS:
            return KINDS[base]
    return INTERNAL


def problem_of(error: BaseException, request_id: str | None = None) -> Problem:
    """Translate an error. The words of errors we do not know stay inside: they may quote what nobody should read."""
    kind = kind_of(error)
    faults = error.faults if isinstance(error, errors.InvalidInput) else ()
    if isinstance(error, errors.CortexError):
        detail = str(error)
    elif isinstance(error, HTTPException):
        detail = error.detail
    else:
        detail = "an error that this release does not know; the server's log has it under the request's id"
    if faults:
        detail = _summary(faults)
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=f"urn:cortex:request:{request_id}" if request_id else None,
        errors=tuple(FieldFault(field=f.field, message=f.message, limit=f.limit) for f in faults[:FAULTS_SHOWN]),
        extra=_extra(error),
    )


def retry_after(error: BaseException) -> int | None:
    """Return in how many seconds the same may succeed: what the error knows, or else what its kind says."""
    known = error.retry_after_s if isinstance(error, errors.Overloaded) else None
    return kind_of(error).retry_after_s if known is None else known


def _summary(faults: tuple[errors.Fault, ...]) -> str:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return f"{where}{first.message}{more}"


def _extra(error: BaseException) -> dict[str, int]:
    if isinstance(error, errors.TooLarge) and error.limit is not None:
        return {"limit": error.limit}
    return {}


def problem_json(problem: Problem) -> bytes:
    """Write a problem; what is empty is left out."""
    left_out = {name for name, value in (("errors", problem.errors), ("extra", problem.extra)) if not value}
    return problem.model_dump_json(exclude_none=True, exclude=left_out).encode()


def problem_response(error: BaseException, request_id: str | None = None) -> Response:
    """Answer with a problem and the headers that belong to its kind."""
    kind = kind_of(error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    retry_after_s = retry_after(error)
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    if kind.status == http.HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="cortex"'
    if kind.status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        headers["Connection"] = "close"  # the rest of the body is not read, so the connection is of no more use
    return Response(
        problem_json(problem_of(error, request_id)), status_code=kind.status, headers=headers, media_type=PROBLEM_TYPE
    )


async def on_error(request: Request, error: Exception) -> Response:
    """Answer for a handler that raised a typed error or one of HTTP's own."""
    request_id = request.scope.get("cortex.request_id")
    if kind_of(error).status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request.failed", request_id=request_id, error=type(error).__name__)
    return problem_response(error, request_id)
