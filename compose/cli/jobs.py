"""``cortex reindex``, ``cortex replay`` and ``cortex jobs``: work on what is known, in the background."""

import json
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.main import URL, Json, OwnTenant, Token, Url

OVER = frozenset({"done", "failed", "cancelled"})

Wait = Annotated[bool, typer.Option("--wait", help="Follow the job, and return when it is over.")]
Reason = Annotated[str, typer.Option(help="Why, for those who look later.")]
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

    An order equal to one that is not over joins its job.
    """
    select = _given(scope=scope, source=source, model=model, unit_ids=unit or None)
    body = {"stage": stage, "select": select, "reason": reason}
    with Client(url, token, tenant) as client:
        raise typer.Exit(place_order(client, "/v1/reindex", body, wait=wait, as_json=as_json))


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
        raise typer.Exit(place_order(client, "/v1/replay", body, wait=wait, as_json=as_json))


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
            _print_json(found) if as_json else _show_table(found["jobs"])
            raise typer.Exit(exits.OK)
        path = _path(job)
        now = client.post(f"{path}/cancel", {}, ok=(200, 202)) if cancel else client.get(path)
        if follow:
            now = _follow(client, path, quiet=as_json)
        _print_json(now) if as_json else _show(now)
        raise typer.Exit(_code(now) if follow else exits.OK)


def place_order(client: Client, path: str, body: dict[str, Any], *, wait: bool, as_json: bool) -> int:
    """Send an order, and follow its job where that is wanted; return the exit code."""
    taken = client.post(path, body, ok=(200, 202))
    now = _follow(client, taken["address"], quiet=as_json) if wait else taken["job"]
    if as_json:
        _print_json({**taken, "job": now})
        return _code(now)
    if taken["joined"]:
        print("an equal job is not over yet: this order joins it")
    _show(now)
    if not wait:
        print(f"follow it with: cortex jobs {now['id']} --follow")
    return _code(now)


def _follow(client: Client, path: str, *, quiet: bool) -> dict[str, Any]:
    """Hear of a job until it is over; a stream that ends before says so, and is opened again."""
    while True:
        for event in client.listen(f"{path}/stream"):
            if event.event not in {"progress", "complete"}:
                break
            now: dict[str, Any] = json.loads(event.data)
            if now["state"] in OVER:
                return now
            if not quiet:
                sys.stderr.write(f"{_progress(now)}\n")


def _code(job: dict[str, Any]) -> int:
    return exits.REFUSED if job["state"] in {"failed", "cancelled"} else exits.OK


def _show(job: dict[str, Any]) -> None:
    print(f"{job['id']}  {job['kind']}  {_progress(job)}{'  ' + job['detail'] if job.get('detail') else ''}")


def _progress(job: dict[str, Any]) -> str:
    total = f" of {job['total']}" if job.get("total") is not None else ""
    failed = f", {job['failed']} failed" if job["failed"] else ""
    return f"{job['state']}  {job['done']}{total} done{failed}"


def _show_table(found: list[dict[str, Any]]) -> None:
    if not found:
        print("no jobs")
        return
    table = Table("job", "kind", "state", "done", "failed", "by", "reason")
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


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
