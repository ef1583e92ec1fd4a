"""The public HTTP API as the command line uses it."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
from httpx_sse import ServerSentEvent, connect_sse

from schemas.problems import Problem
from schemas.status import AcceptedBatch
from shared.errors import InvalidInput

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 2.0


class UnreachableError(Exception):
    """No Cortex answers at the address."""


class ProblemError(Exception):
    """The service refused; ``problem`` says why (RFC 9457), and ``retry_after_s`` when to come again, where it knows."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(problem.detail)


class Client:
    """One connection to a Cortex; all calls are bounded in time. Raises InvalidInput for what no header can carry."""

    def __init__(self, url: str, token: str | None = None, tenant: str | None = None) -> None:
        for name, value in (("token", token), ("tenant", tenant)):
            if value and not (value.isascii() and value.isprintable()):
                raise InvalidInput(f"the {name} has characters that no {name} has.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if tenant:
            headers["Cortex-Tenant"] = tenant
        self.url = url.rstrip("/")
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        # trust_env off: a proxy of the environment must not stand between us and loopback
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def get(self, path: str, params: dict[str, Any] | None = None, *, ok: Sequence[int] = (200,)) -> Any:
        """Return the JSON of a resource. Raises ProblemError, UnreachableError."""
        return self._call("GET", path, ok=ok, params=params)

    def post(self, path: str, body: dict[str, Any], *, ok: Sequence[int] = (200,)) -> Any:
        """Send JSON and return the answer's. Raises ProblemError, UnreachableError."""
        return self._call("POST", path, ok=ok, json=body)

    def find(self, path: str) -> Any | None:
        """Return the JSON of a resource, or None where there is none."""
        try:
            return self.get(path)
        except ProblemError as error:
            if error.problem.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def publish(self, events: Sequence[dict[str, Any]], *, bulk: bool = False) -> AcceptedBatch:
        """Publish events, all or none of them; they are on disk when this returns."""
        params = {"topic": "bulk"} if bulk else {}
        headers = {"Content-Type": "application/cloudevents-batch+json"}
        taken = self._call("POST", "/v1/events", ok=(202,), params=params, json=list(events), headers=headers)
        return AcceptedBatch.model_validate(taken)

    def ask(self, question: dict[str, Any]) -> Iterator[ServerSentEvent]:
        """Ask and yield the stream's events as they come. Raises ProblemError, UnreachableError."""
        try:
            with connect_sse(self._http, "POST", "/v1/context/stream", json=question) as source:
                if source.response.status_code != httpx.codes.OK:
                    source.response.read()
                    raise ProblemError(problem_of(source.response))
                yield from source.iter_sse()
        except httpx.TransportError as error:
            raise UnreachableError(self._unreachable(error)) from error

    def listen(self, path: str) -> Iterator[ServerSentEvent]:
        """Yield a stream's events as they come. Raises ProblemError, UnreachableError."""
        try:
            with connect_sse(self._http, "GET", path) as source:
                if source.response.status_code != httpx.codes.OK:
                    source.response.read()
                    raise ProblemError(problem_of(source.response))
                yield from source.iter_sse()
        except httpx.TransportError as error:
            raise UnreachableError(self._unreachable(error)) from error

    def _call(self, method: str, path: str, *, ok: Sequence[int], **options: Any) -> Any:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise UnreachableError(self._unreachable(error)) from error
        if response.status_code not in ok:
            raise ProblemError(problem_of(response), retry_after_s(response))
        return response.json()

    def _unreachable(self, error: httpx.TransportError) -> str:
        return unreachable(self.url, error)


def unreachable(url: str, error: httpx.TransportError) -> str:
    """Say that no Cortex answers, and how to start one."""
    return f"no Cortex answers at {url} ({type(error).__name__}); start one with: cortex up"


def retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of ``Retry-After``; None without it, and for a date, which this service never gives."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def problem_of(response: httpx.Response) -> Problem:
    """Return the problem of a refusal; one that is not ours is written as one."""
    try:
        return Problem.model_validate(response.json())
    except ValueError:
        title = response.reason_phrase or "Error"
        status = max(response.status_code, 400)
        return Problem(type="about:blank", title=title, status=status, detail=response.text[:500] or title)
