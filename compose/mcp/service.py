"""The public HTTP API as the MCP server uses it: asynchronous, one connection pool, refusals as errors of a tool."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Self

import httpx
from mcp.server.mcpserver.exceptions import ToolError

from compose.cli.client import CONNECT_TIMEOUT_S, ProblemError, UnreachableError, problem_of, unreachable
from schemas.problems import Problem

TIMEOUT_S: Final = 20.0
"""An agent's client gives a tool a minute; a question takes 2 s at most, and a wait for a write 5."""


class Refusal(ToolError):
    """The service refused, or does not answer. The message is written for the agent; ``status`` 0: no answer at all."""

    def __init__(self, message: str, status: int, kind: str = "") -> None:
        self.status = status
        self.kind = kind
        super().__init__(message)


class Identity(NamedTuple):
    """Who the service takes us for; ``principal`` None: nobody in particular."""

    tenant: str
    principal: str | None


class Service:
    """One Cortex. ``authorization`` is the header of the agent's own request, where it came with one (HTTP only)."""

    def __init__(self, http: httpx.AsyncClient, token: str | None) -> None:
        self._http = http
        self._token = token

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, token: str | None, tenant: str | None) -> AsyncIterator[Self]:
        """Open the connection pool and close it in the end."""
        headers = {"Cortex-Tenant": tenant} if tenant else {}
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        # trust_env off: a proxy of the environment must not stand between us and loopback
        async with httpx.AsyncClient(
            base_url=url.rstrip("/"), headers=headers, timeout=timeout, trust_env=False
        ) as http:
            yield cls(http, token)

    async def get(self, path: str, parameters: Mapping[str, Any] | None = None, *, authorization: str | None) -> Any:
        """Return the JSON of a resource; parameters that are None are left out. Raises Refusal."""
        given = {key: value for key, value in (parameters or {}).items() if value is not None}
        return await self._call("GET", path, authorization, params=given)

    async def post(
        self, path: str, body: Any, *, authorization: str | None, content_type: str = "application/json"
    ) -> Any:
        """Send JSON and return the answer's. Raises Refusal."""
        return await self._call("POST", path, authorization, json=body, headers={"Content-Type": content_type})

    async def who_am_i(self, authorization: str | None) -> Identity:
        """Say as whom we are known. A question of two characters is answered at once with nothing but who asked."""
        found = await self.get("/v1/search", {"q": "me"}, authorization=authorization)
        principal = str(found.get("principal") or "*")
        return Identity(str(found["tenant"]), None if principal == "*" else principal)

    async def _call(self, method: str, path: str, authorization: str | None, **options: Any) -> Any:
        own = f"Bearer {self._token}" if self._token else None
        sent = authorization or own
        headers = {**options.pop("headers", {}), **({"Authorization": sent} if sent else {})}
        try:
            response = await self._http.request(method, path, headers=headers, **options)
        except httpx.TransportError as error:
            raise Refusal(str(UnreachableError(unreachable(str(self._http.base_url), error))), 0) from error
        if response.is_success:
            return response.json()
        problem = problem_of(response)
        raise Refusal(told(problem), problem.status, problem.type) from ProblemError(problem)


def told(problem: Problem) -> str:
    """Write a problem for an agent: what, why, and each field with the limit that it met."""
    if not problem.errors:
        return problem.title if problem.detail in {"", problem.title} else f"{problem.title}: {problem.detail}"
    lines = [f"{problem.title}:"]
    for fault in problem.errors:
        limit = f" (limit: {fault.limit})" if fault.limit else ""
        lines.append(f"- {fault.field}: {fault.message}{limit}")
    return "\n".join(lines)
