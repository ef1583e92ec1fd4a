"""What surrounds every request: an id, one line in the log, and in trusted mode a guard against other sites' pages."""

import ipaddress
import secrets
import time
import traceback
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query.problems import problem_response
from shared.errors import Forbidden

REQUEST_ID_BYTES = 8
FOREIGN_SITES = frozenset({"cross-site", "same-site"})
NO_RESPONSE = 499  # the client left before a response began

_log = structlog.get_logger("cortex.query")


class RequestLine:
    """Give the request an id, and write one line when it is over: ids, route, status, time, outcome; never its words."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["cortex.request_id"] = secrets.token_hex(REQUEST_ID_BYTES)
        started = time.monotonic()
        status = NO_RESPONSE
        sent = 0

        async def sending(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["Cortex-Request-Id"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            scope["cortex.outcome"] = "gone"
        except Exception as error:
            _log.error("request.broke", request_id=request_id, traceback=traceback.format_exc())
            if status != NO_RESPONSE:
                raise  # too late for a problem: the server drops the connection
            await problem_response(error, request_id)(scope, receive, sending)
        finally:
            self._finish(scope, request_id, status, sent, time.monotonic() - started)

    def _finish(self, scope: Scope, request_id: str, status: int, sent: int, seconds: float) -> None:
        route = scope.get("cortex.route", "unmatched")
        caller = scope.get("cortex.caller")
        state = scope.get("state") or {}
        if "metrics" in state:
            state["metrics"].request(method=_known(scope["method"]), route=route, status=status, seconds=seconds)
        _log.info(
            "http.request",
            request_id=request_id,
            method=_known(scope["method"]),
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            bytes=sent,
            tenant=caller.tenant if caller else None,
            principal=caller.principal if caller else None,
            outcome=scope.get("cortex.outcome"),
        )


def _known(method: str) -> str:
    """A method as a label: strangers share one, so that a caller cannot make labels."""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"


class LoopbackGuard:
    """Without tokens every local program is trusted, but no web page that a browser here shows is.

    A page of another site that was given a loopback address by its name server (DNS rebinding) still names its own host
    in ``Host``; a page that sends here across origins says so in ``Origin`` or ``Sec-Fetch-Site``. Both are refused.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        refusal = None if scope["type"] != "http" else refuse(Headers(scope=scope), scope["path"])
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(refusal, scope.get("cortex.request_id"))(scope, receive, send)


def refuse(headers: Headers, path: str) -> Exception | None:
    """Return why a request to the trusting service is refused, or None."""
    host = headers.get("host", "")
    if not is_loopback(f"//{host}"):
        return HTTPException(421, "without tokens this service answers to loopback names only, in the header Host")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return Forbidden("without tokens, pages of other origins may not call this service")
    if path != "/" and headers.get("sec-fetch-site") in FOREIGN_SITES:
        return Forbidden("without tokens, pages of other sites may not call this service")
    return None


def is_loopback(address: str) -> bool:
    """Whether the host of an address is this machine: localhost, 127.0.0.0/8 or ::1."""
    try:
        name = (urlsplit(address).hostname or "").rstrip(".")
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
