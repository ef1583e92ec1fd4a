"""Commands of those who look after a Cortex, and of those who wonder why: explain, trace, doctor, backup, restore."""

from typing import Annotated

import typer

from compose.cli.main import TENANT, URL, As, Json, Tenant, Token, Url

DataDir = Annotated[
    str, typer.Option("--data-dir", envvar="CORTEX_DATA_DIR", help="Folder of everything that is kept.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (explain, trace, doctor, backup, restore):
        app.command()(command)


def explain(
    question: Annotated[str, typer.Argument(help="The question.")],
    unit: Annotated[str, typer.Argument(help="The unit that you miss in its answer, or wonder about.")],
    principal: As = None,
    scope: Annotated[list[str] | None, typer.Option(help="Only this scope (repeatable): LEVEL/ENTITY.")] = None,
    as_of: Annotated[str | None, typer.Option(help="As of this moment, e.g. 2026-03-15.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Results.")] = 5,
    superseded: Annotated[bool, typer.Option("--superseded", help="Also what no longer holds.")] = False,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Show why a unit is or is not in an answer: stage by stage, each term of its score, and what would let it in."""
    from compose.cli.explain import run_explain  # noqa: PLC0415 - commands load what they need

    asked = {
        "q": question,
        "unit": unit,
        "principal": principal,
        "scopes": scope,
        "as_of": as_of,
        "limit": limit,
        "include_superseded": superseded,
    }
    raise typer.Exit(run_explain(asked, url=url, token=token, tenant=tenant, as_json=as_json))


def trace(
    event_id: Annotated[str, typer.Argument(help="The event's id.")],
    source: Annotated[str | None, typer.Option(help="Its source, where several use the same id.")] = None,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Follow an event: log, stages, dead letter, what it left in the store, and who may read that."""
    from compose.cli.explain import run_trace  # noqa: PLC0415

    raise typer.Exit(run_trace(event_id, source, url=url, token=token, tenant=tenant, as_json=as_json))


def doctor(
    data_dir: DataDir = ".cortex",
    port: Annotated[int | None, typer.Option(help="HTTP port, as for cortex up.")] = None,
    url: Annotated[
        str | None, typer.Option("--url", envvar="CORTEX_URL", help="Address of the service; default: by the port.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check each part, whether Cortex runs or not, and say what to do about each that fails.

    Exit code 0: all is well, or only warnings; 1: a check failed.
    """
    from compose.cli.doctor import run_doctor  # noqa: PLC0415

    raise typer.Exit(run_doctor(data_dir=data_dir, port=port, url=url, as_json=as_json))


def backup(
    target: Annotated[str, typer.Argument(help="A folder that is not there yet, best on another disk.")],
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Copy journal, knowledge and feeds' manifests to a new folder, while Cortex serves or while it is down."""
    from compose.cli.backup import run_backup  # noqa: PLC0415

    raise typer.Exit(run_backup(target, data_dir=data_dir, as_json=as_json))


def restore(
    source: Annotated[str, typer.Argument(help="A folder that cortex backup made.")],
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Make a data folder of a backup. It is checked first; nothing that is there is ever written over.

    Then: cortex up --data-dir FOLDER. Tokens from before are refused: what is accepted from here on is another history.
    """
    from compose.cli.backup import run_restore  # noqa: PLC0415

    raise typer.Exit(run_restore(source, data_dir=data_dir, as_json=as_json))
