"""``cortex reindex``, ``cortex replay`` and ``cortex jobs``: work on what is known, in the background."""

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column, Table

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.main import URL, Json, OwnTenant, Token, Url
from compose.cli.orders import Reason, Wait, code_of, follow_job, place_order, print_json, show_job

Scope = Annotated[str | None, typer.Option(help="Only this scope: LEVEL/ENTITY.")]
Source = Annotated[str | None, typer.Option(help="Only what came from this source.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (reindex, replay, jobs):
        app.command()(command)


def reindex(
    stage: Annotated[
        str, typer.Option(help="embed: vectors anew; resolve: mentions, claims, graph and contradictions.")
    ] = "embed",
    scope: Scope = None,
    source: Source = None,
    model: Annotated[str | None, typer.Option(help="Only texts that have vectors of this embedding model.")] = None,
    unit: Annotated[list[str] | None, typer.Option(help="Only this unit (repeatable).")] = None,
    reason: Reason = "",
    wait: Wait = False,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Index known units anew, in the background, while events and questions go on. Without a choice: all of the tenant's.

    An order equal to one that has not begun joins its job.
    """
    select = _given(scope=scope, source=source, model=model, unit_ids=unit or None)
    body = {"stage": stage, "select": select, "reason": reason}
    with Client(url, token, tenant) as client:
        place_order(client, "/v1/reindex", body, wait=wait, as_json=as_json)


def replay(
    stage: Annotated[
        str, typer.Option(help="embed: through all stages; contradictions: only compare the units anew.")
    ] = "embed",
    scope: Scope = None,
    source: Source = None,
    reason: Reason = "",
    wait: Wait = False,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Send kept events through the stages again, in the background; each keeps its revision, so nothing newer is lost."""
    body = {"stage": stage, **_given(scope=scope, source=source), "reason": reason}
    with Client(url, token, tenant) as client:
        place_order(client, "/v1/replay", body, wait=wait, as_json=as_json)


def jobs(
    job: Annotated[str | None, typer.Argument(help="One job, by its id. Default: the newest.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show a job's progress until it is over.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a job between two pages of its work.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many.")] = 20,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """List background jobs, newest first, or show, follow or cancel one."""
    if job is None and (follow or cancel):
        raise typer.BadParameter("--follow and --cancel need the id of a job")
    with Client(url, token, tenant) as client:
        if job is None:
            found = client.get("/v1/jobs", {"limit": limit})
            print_json(found) if as_json else _show_table(found["jobs"])
            raise typer.Exit(exits.OK)
        path = _path(job)
        now = client.post(f"{path}/cancel", {}, ok=(200, 202)) if cancel else client.get(path)
        if follow:
            now = follow_job(client, path, quiet=as_json)
        print_json(now) if as_json else show_job(now)
        raise typer.Exit(code_of(now) if follow else exits.OK)


def _show_table(found: list[dict[str, Any]]) -> None:
    if not found:
        print("no jobs")
        return
    whole = Column("job", no_wrap=True, min_width=max(len(job["id"]) for job in found))  # it is typed again
    others = ("kind", "state", "done", "failed", "by", "reason")
    table = Table(whole, *(Column(name, overflow="fold") for name in others))
    for job in found:
        total = f" of {job['total']}" if job.get("total") is not None else ""
        table.add_row(
            job["id"],
            job["kind"],
            job["state"],
            f"{job['done']}{total}",
            str(job["failed"]),
            job["requested_by"],
            job["reason"],
        )
    Console().print(table)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
