"""One HTTP request over a bare socket: http.client and its e-mail parser would double the hook's start.

HTTP/1.0 is spoken on purpose: the answer then ends with the connection and is never sent in chunks.
"""

import json
import socket
import time
from typing import Any, Final, NamedTuple

CONNECT_S: Final = 0.04
"""A service that is up takes a connection at once; one that is gone shall not be waited for."""
ANSWER_BYTES: Final = 4 * 1024 * 1024
RECEIVE_BYTES: Final = 65_536


class NoAnswer(Exception):
    """Nothing usable came in time."""


class Reply(NamedTuple):
    """Status and JSON of an answer."""

    status: int
    body: Any


class Service(NamedTuple):
    """Where the service is and who we are; ``deadline`` is a `time.monotonic` instant that bounds every call."""

    url: str
    token: str | None
    tenant: str | None
    deadline: float

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Reply:
        """Send one request. Raises NoAnswer for whatever is no JSON answer within the deadline."""
        try:
            tls, host, port, base = split_url(self.url)
            request = self._request(method, host, base + path, body, kind)
            with _connected(host, port, self.deadline, tls=tls) as connection:
                connection.sendall(request)
                return _read(connection, self.deadline)
        except (OSError, ValueError) as error:
            raise NoAnswer(f"{self.url}: {error or type(error).__name__}") from error

    def _request(self, method: str, host: str, target: str, body: Any, kind: str) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.0", f"Host: {host}", "Accept: application/json", "Connection: close"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        if self.tenant:
            lines.append(f"Cortex-Tenant: {self.tenant}")
        if body is not None:
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(content)}"]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a line break in an address, token or tenant")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def split_url(url: str) -> tuple[bool, str, int, str]:
    """Return (whether TLS, host, port, path without a slash at its end). Raises ValueError."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"http", "https"}:
        raise ValueError("the address begins with neither http:// nor https://")
    authority, _, path = rest.partition("/")
    host, port = authority, ""
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    elif ":" in authority:
        host, _, port = authority.rpartition(":")
    base = f"/{path}".rstrip("/")
    return scheme == "https", host, int(port) if port else 443 if scheme == "https" else 80, base


def _connected(host: str, port: int, deadline: float, *, tls: bool) -> socket.socket:
    connection = socket.create_connection((host, port), min(CONNECT_S * (3 if tls else 1), _left(deadline)))
    if not tls:
        return connection
    import ssl  # noqa: PLC0415 - costs 20 ms, which loopback need not pay

    connection.settimeout(_left(deadline))
    return ssl.create_default_context().wrap_socket(connection, server_hostname=host)


def _read(connection: socket.socket, deadline: float) -> Reply:
    received = bytearray()
    while True:
        connection.settimeout(_left(deadline))
        piece = connection.recv(RECEIVE_BYTES)
        if not piece:
            break
        received += piece
        if len(received) > ANSWER_BYTES:
            raise ValueError("the answer is too long")
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if not separator or len(words) < 2 or not words[0].startswith(b"HTTP/"):
        raise ValueError("no HTTP answer")
    return Reply(int(words[1]), json.loads(body))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("out of time")
    return left
