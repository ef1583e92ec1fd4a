"""The six tools. Their descriptions are written for an agent: when to use each, and how to read what comes back."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from compose.cli.lines import complete
from compose.feeds.secrets import secret_kinds
from compose.mcp.rendering import conflicts_text, context_text, entity_text, explanation_text, hits_text
from compose.mcp.service import Identity, Refusal, Service
from compose.mcp.shapes import (
    AboutUnit,
    ContextAnswer,
    EntityFound,
    EntityNeighbour,
    OpenContradictions,
    Published,
    SearchHits,
    context_of,
    hit_of,
    named,
    unit_uri,
)
from schemas import limits
from schemas.answers import Answer, Conflict, Result
from schemas.explanations import Explanation
from schemas.units import UnitType

SOURCE: Final = "urn:cortex:mcp"
HIT_CHARS: Final = 1_200
"""Of a hit this much is shown: five hits then stay under 2,000 tokens; the resource has the rest."""
NEIGHBOURS: Final = 20
STORED_S: Final = 5.0
POLL_S: Final = 0.05
BATCH_TYPE: Final = "application/cloudevents-batch+json"
NOT_FOUND: Final = 404
NO_ROUTE: Final = "/problems/no-such-route"

Asked = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.QUESTION_CHARS,
        description="A whole question or statement in plain words, with the names that matter: 'why did we choose "
        "PostgreSQL for the ledger?' finds more than 'postgres'.",
    ),
]
Scopes = Annotated[
    list[str] | None,
    Field(description="Only these scopes, as LEVEL/ENTITY, e.g. team/team-payments. Leave out to search all readable."),
]
Types = Annotated[list[UnitType] | None, Field(description="Only these kinds of knowledge.")]
AsOf = Annotated[str | None, Field(description="Answer with what held at that date or RFC 3339 time instead of now.")]


class Standing(NamedTuple):
    """Who uses the tools. ``principal``: who asks, where the service trusts us to say so. ``author``: who publishes where
    the service knows nobody in particular. ``scope``: where publications go that name none; default: the author's own.
    """

    principal: str | None = None
    author: str | None = None
    scope: str | None = None


class Tools:
    """The tools on one Cortex. See `Standing` for who uses them."""

    def __init__(self, service: Service, standing: Standing) -> None:
        self._service = service
        self._principal = standing.principal
        self._standing = standing

    async def context(
        self,
        *,
        question: Asked,
        ctx: Context,
        as_of: AsOf = None,
        scopes: Scopes = None,
        types: Types = None,
        limit: Annotated[int, Field(ge=1, le=limits.RESULTS)] = limits.RESULTS_DEFAULT,
        budget_tokens: Annotated[
            int, Field(ge=limits.BUDGET_TOKENS_MIN, le=limits.BUDGET_TOKENS)
        ] = limits.BUDGET_TOKENS_DEFAULT,
        include_superseded: Annotated[bool, Field(description="Also what no longer holds, marked as such.")] = False,
        min_token: Annotated[str | None, Field(description="Wait until the write with this token is seen.")] = None,
    ) -> Annotated[CallToolResult, ContextAnswer]:
        """Ask for an assembled answer."""
        body = {
            "q": question,
            "principal": self._principal,
            "as_of": as_of,
            "scopes": scopes,
            "types": types,
            "limit": limit,
            "budget_tokens": budget_tokens,
            "include_superseded": include_superseded,
            "min_token": min_token,
        }
        given = {key: value for key, value in body.items() if value is not None}
        answer = Answer.model_validate(
            await self._service.post("/v1/context", given, authorization=authorization_of(ctx))
        )
        return _result(context_text(answer), context_of(answer))

    async def search(
        self,
        *,
        query: Asked,
        ctx: Context,
        scopes: Scopes = None,
        types: Types = None,
        limit: Annotated[int, Field(ge=1, le=limits.RESULTS)] = 10,
        as_of: AsOf = None,
        occurred_from: Annotated[str | None, Field(description="Only what happened at or after this date.")] = None,
        occurred_until: Annotated[str | None, Field(description="Only what happened before this date.")] = None,
        order: Annotated[
            Literal["relevance", "time"], Field(description="time: newest first, for 'what happened lately'.")
        ] = "relevance",
        include_superseded: Annotated[bool, Field(description="Also what no longer holds, marked as such.")] = False,
    ) -> Annotated[CallToolResult, SearchHits]:
        """Find units."""
        parameters = {
            "q": query,
            "principal": self._principal,
            "scopes": scopes,
            "types": types,
            "limit": limit,
            "as_of": as_of,
            "occurred_from": occurred_from,
            "occurred_until": occurred_until,
            "order": order,
            "include_superseded": include_superseded,
        }
        found = await self._service.get("/v1/search", parameters, authorization=authorization_of(ctx))
        hits = SearchHits(
            hits=tuple(hit_of(Result.model_validate(one), HIT_CHARS) for one in found["results"]),
            low_confidence=found["low_confidence"],
            complete=found["complete"],
            lost=tuple(found.get("lost", ())),
            notes=tuple(found.get("notes", ())),
        )
        return _result(hits_text(hits), hits)

    async def publish(
        self,
        *,
        text: Annotated[
            str,
            Field(
                max_length=limits.UNIT_TEXT_CHARS,
                description="One piece of knowledge that reads by itself months from now: who or what, the fact, the reason. "
                "'The payments gateway retries 3 times since 2026-03-02, because the bank throttles the fourth call.'",
            ),
        ],
        type: Annotated[  # noqa: A002 - the tool's argument is called as the field of a unit is
            UnitType,
            Field(
                description="decision: what was chosen, with why. error_fix: an error and what mended it. pattern: how we do "
                "things. command: a command and what it is for. preference: what somebody wants. context: any other fact."
            ),
        ],
        ctx: Context,
        title: Annotated[str | None, Field(max_length=limits.TITLE_CHARS)] = None,
        scope: Annotated[
            str | None,
            Field(description="Who it belongs to and who may read it, as LEVEL/ENTITY. Leave out for yourself alone."),
        ] = None,
        occurred_at: Annotated[
            str | None, Field(description="When it happened or was decided; leave out if you do not know.")
        ] = None,
        supersedes: Annotated[
            str | None, Field(description="unit_id of what this replaces, where you know that it does.")
        ] = None,
        about: Annotated[list[str] | None, Field(description="Ids of entities it is about.", max_length=16)] = None,
        source_ref: Annotated[
            str | None, Field(description="Where it can be checked: an issue, a commit, an address.")
        ] = None,
    ) -> Annotated[CallToolResult, Published]:
        """Keep one piece of knowledge."""
        kinds = secret_kinds(text, title or "", source_ref or "")
        if kinds:
            raise Refusal(
                f"not published: it seems to contain a secret ({', '.join(kinds)}). Take it out and try again.", 0
            )
        authorization = authorization_of(ctx)
        identity = await self._service.who_am_i(authorization)
        event = self._event(
            identity,
            agent=_agent(ctx),
            given={
                "text": text,
                "type": type.value,
                "title": title,
                "scope": scope,
                "occurred_at": occurred_at,
                "supersedes": supersedes,
                "entity_links": [{"entity_id": one} for one in about] if about else None,
                "source_ref": source_ref,
            },
        )
        taken = await self._service.post("/v1/events", [event], authorization=authorization, content_type=BATCH_TYPE)
        accepted = taken["accepted"][0]
        state, why = await self._settled(accepted, authorization)
        scope_key = f"{event['data']['scope']['level']}/{event['data']['scope']['entity_id']}"
        published = Published(
            unit_id=event["data"]["id"],
            uri=unit_uri(event["data"]["id"]),
            event_id=accepted["id"],
            token=accepted["token"],
            scope=scope_key,
            state=state,
            duplicate=accepted["duplicate"],
            detail=why,
        )
        return _result(_published_text(published), published)

    async def explain(
        self,
        *,
        question: Asked,
        unit_id: Annotated[str, Field(description="The unit that you expected, or wonder about.")],
        ctx: Context,
        as_of: AsOf = None,
        limit: Annotated[int, Field(ge=1, le=limits.RESULTS)] = limits.RESULTS_DEFAULT,
    ) -> Annotated[CallToolResult, Explanation]:
        """Say why a unit is or is not in an answer."""
        parameters = {"q": question, "unit": unit_id, "principal": self._principal, "as_of": as_of, "limit": limit}
        try:
            told = await self._service.get("/v1/explain", parameters, authorization=authorization_of(ctx))
        except Refusal as refusal:
            if refusal.kind != NO_ROUTE:
                raise
            raise Refusal("this Cortex is older than its MCP server and cannot explain answers", NOT_FOUND) from refusal
        explanation = Explanation.model_validate(told)
        return _result(explanation_text(explanation), explanation)

    async def entity(
        self,
        *,
        name: Annotated[
            str,
            Field(
                min_length=1,
                max_length=limits.NAME_CHARS,
                description="Name, alias or id of a person, team, system, project, module or topic.",
            ),
        ],
        ctx: Context,
    ) -> Annotated[CallToolResult, EntityFound]:
        """Look up an entity, or what a name may mean."""
        authorization = authorization_of(ctx)
        page = await self._service.get(
            "/v1/entities", {"q": name, "limit": NEIGHBOURS, "principal": self._principal}, authorization=authorization
        )
        match = page.get("match")
        entries = {entry["id"]: entry for entry in page["entities"]}
        ambiguous = bool(match and match["candidates"])
        if name in entries or (match and not ambiguous):
            found = await self._detail(name if name in entries else match["entity_id"], authorization)
        elif len(entries) == 1:
            found = await self._detail(next(iter(entries)), authorization)
        elif entries:
            wanted = set(match["candidates"]) if ambiguous else set(entries)
            chosen = [entry for one, entry in entries.items() if one in wanted] or list(entries.values())
            found = EntityFound(entity=None, candidates=tuple(named(entry) for entry in chosen))
        else:
            found = await self._detail(name, authorization)
        return _result(entity_text(found), found)

    async def contradictions(
        self,
        *,
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
        after: Annotated[str | None, Field(description="`next` of the page before.")] = None,
    ) -> Annotated[CallToolResult, OpenContradictions]:
        """List what contradicts what."""
        parameters = {"limit": limit, "after": after, "principal": self._principal}
        page = await self._service.get("/v1/contradictions", parameters, authorization=authorization_of(ctx))
        conflicts = tuple(Conflict.model_validate(one) for one in page["contradictions"])
        found = OpenContradictions(contradictions=conflicts, next=page.get("next"))
        return _result(conflicts_text(conflicts, found.next), found)

    async def _detail(self, entity_id: str, authorization: str | None) -> EntityFound:
        told = await self._service.get(
            f"/v1/entities/{quote(entity_id, safe='')}", {"principal": self._principal}, authorization=authorization
        )
        declaration = told.get("declaration") or {}
        return EntityFound(
            entity=named(told["entity"]),
            aliases=tuple(told["entity"].get("aliases", ())),
            description=declaration.get("description"),
            neighbours=tuple(EntityNeighbour.model_validate(one) for one in told.get("neighbours", ())[:NEIGHBOURS]),
            units=tuple(
                AboutUnit(unit_id=one["unit_id"], uri=unit_uri(one["unit_id"]), text=one["text"], scope=one["scope"])
                for one in told.get("units", ())[:NEIGHBOURS]
            ),
        )

    def _event(self, identity: Identity, *, agent: str, given: dict[str, Any]) -> dict[str, Any]:
        """Make an assertion whose ids come from what it says, so that saying it twice adds nothing."""
        creator = self._principal or identity.principal or self._standing.author
        scope = given.pop("scope") or self._standing.scope or (f"personal/{creator}" if creator else None)
        if scope is None:
            raise Refusal(
                "not published: nobody in particular is asking, so say whose knowledge it is: scope=LEVEL/ENTITY", 0
            )
        origin = {"source_type": "conversation", "source_ref": given.pop("source_ref"), "creator_entity_id": creator}
        unit = {key: value for key, value in given.items() if value is not None}
        digest = hashlib.blake2b(f"{scope}\x1e{given['text']}".encode("utf-8", "replace"), digest_size=10).hexdigest()
        unit["id"] = f"told/{digest}"
        unit["origin"] = {key: value for key, value in origin.items() if value is not None}
        return complete(unit | {"agent": agent}, tenant=identity.tenant, source=SOURCE, scope=scope)

    async def _settled(
        self, accepted: Mapping[str, Any], authorization: str | None
    ) -> tuple[Literal["stored", "pending", "failed"], str]:
        """Wait until the event is searchable or failed; say pending when that takes longer than an agent should wait."""
        with anyio.move_on_after(STORED_S):
            while True:
                path = f"/v1/events/{quote(accepted['id'], safe='')}"
                named = {"source": SOURCE, "token": accepted["token"]}
                status = await self._service.get(path, named, authorization=authorization)
                if status["state"] == "stored":
                    return "stored", "questions find it now"
                if status["state"] in {"superseded", "retracted", "stale"}:
                    return "stored", f"it is kept, and {status['state']}: other knowledge stands in its place"
                if status["state"] == "failed":
                    return "failed", f"{status['cause']} at stage {status['stage']}"
                await anyio.sleep(POLL_S)
        return "pending", "it is kept, and questions will find it soon; give the token to `context` to be sure"


def authorization_of(ctx: Context) -> str | None:
    """Return the bearer token of the agent's own request: over HTTP each agent is who it is, not who started us."""
    given = ctx.headers.get("authorization") if ctx.headers else None
    return given if given and given.lower().startswith("bearer ") else None


def _agent(ctx: Context) -> str:
    params = ctx.session.client_params
    return (params.client_info.name if params else "").strip()[:100] or "mcp"


def _published_text(published: Published) -> str:
    known = "known before, nothing was added" if published.duplicate else published.state
    return f"{known}: {published.unit_id} in {published.scope}; {published.detail}\ntoken {published.token}"


def _result(text: str, structured: BaseModel) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=json.loads(structured.model_dump_json())
    )
