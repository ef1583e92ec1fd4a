"""Units and entities as resources: what is known about one, as JSON."""

import json
from typing import Any, Final
from urllib.parse import quote

from mcp.server.mcpserver import Context, MCPServer, ResourceSecurity
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from compose.mcp.service import Refusal, Service
from compose.mcp.shapes import NOTICE
from compose.mcp.tools import NOT_FOUND, authorization_of

JSON: Final = "application/json"
DOTS: Final = frozenset({".", ".."})
"""As a part of an address they would mean another address."""


def add_resources(server: MCPServer, service: Service, *, principal: str | None) -> None:
    """Register ``cortex://unit/{id}`` and ``cortex://entity/{id}``; ids may contain slashes."""

    async def read(path: str, ctx: Context) -> str:
        if DOTS & set(path.split("/")):
            raise ResourceNotFoundError("there is no such thing, or you may not see it")
        try:
            told = await service.get(
                f"/v1/{quote(path, safe='/')}", {"principal": principal}, authorization=authorization_of(ctx)
            )
        except Refusal as refusal:
            kind = ResourceNotFoundError if refusal.status == NOT_FOUND else ResourceError
            raise kind(str(refusal)) from refusal
        return _written(told)

    # an id goes, quoted, into an address of the API and never into a path of a file
    unguarded = ResourceSecurity(exempt_params={"unit_id", "entity_id"})

    @server.resource(
        "cortex://unit/{+unit_id}",
        name="unit",
        title="A unit of knowledge",
        description="The whole text of a unit, with its source, times, state and what contradicts it. "
        "Its address stands in the results of `context` and `search`.",
        mime_type=JSON,
        security=unguarded,
    )
    async def unit(unit_id: str, ctx: Context) -> str:
        return await read(f"units/{unit_id}", ctx)

    @server.resource(
        "cortex://entity/{+entity_id}",
        name="entity",
        title="A person, team, system or topic",
        description="What is declared about an entity, what stands next to it, and units about it.",
        mime_type=JSON,
        security=unguarded,
    )
    async def entity(entity_id: str, ctx: Context) -> str:
        return await read(f"entities/{entity_id}", ctx)


def _written(told: dict[str, Any]) -> str:
    return json.dumps({"notice": NOTICE, **told}, ensure_ascii=False, indent=1)
