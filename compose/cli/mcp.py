"""``cortex mcp``."""

import asyncio
import sys

from compose.cli import exits
from compose.hooks.learn import local_principal
from compose.mcp.server import Address, serve_http, serve_stdio
from compose.mcp.tools import Standing


def run_mcp(
    *,
    http: bool,
    host: str,
    port: int,
    principal: str | None,
    scope: str | None,
    url: str,
    token: str | None,
    tenant: str | None,
) -> int:
    """Serve agents until the one on standard input leaves, or, over HTTP, until Ctrl-C."""
    cortex = Address(url, token, tenant)
    standing = Standing(principal=principal, author=local_principal(), scope=scope)
    if http:
        asyncio.run(serve_http(cortex, standing, host, port, _tell))
    else:
        asyncio.run(serve_stdio(cortex, standing))
    return exits.OK


def _tell(address: str) -> None:
    sys.stderr.write(f"MCP at {address}; Ctrl-C ends it\n")
    sys.stderr.flush()
