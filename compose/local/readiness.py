"""Asking the query process whether it is ready, without an HTTP client's 0.2 s of imports."""

import asyncio
import json
import time
from typing import Final

from shared.errors import NotReady

READY_S: Final = 60.0  # a start takes 2 to 5 s; a journal of 100,000 events and a slow disk may take 30
ASK_EVERY_S: Final = 0.1
ANSWER_S: Final = 5.0


async def ready(host: str, port: int, timeout_s: float = READY_S) -> None:
    """Wait until ``GET /readyz`` says 200; raises NotReady, with the reasons last given, when time is up."""
    deadline = time.monotonic() + timeout_s
    reasons = "it does not answer"
    while time.monotonic() < deadline:
        try:
            status, reasons = await _ask(host, port)
        except (OSError, TimeoutError, ValueError, IndexError):
            status = 0
        if status == 200:
            return
        await asyncio.sleep(ASK_EVERY_S)
    raise NotReady(f"Cortex is not ready after {timeout_s:g} s: {reasons}.")


async def _ask(host: str, port: int) -> tuple[int, str]:
    """Return the status and the reasons."""
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            named = f"[{host}]" if ":" in host else host
            writer.write(f"GET /readyz HTTP/1.1\r\nHost: {named}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), _reasons(body)


def _reasons(body: bytes) -> str:
    try:
        return "; ".join(f"{part}: {why}" for part, why in json.loads(body)["reasons"].items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return "it does not say why"
