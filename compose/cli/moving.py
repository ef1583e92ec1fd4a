"""Commands that prove and move what is known: rebuild, export, import, migrate."""

from typing import Annotated, Literal

import typer

from compose.cli.care import DataDir
from compose.cli.main import Json

OneTenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant. Default: all.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (rebuild, export, migrate):
        app.command()(command)
    app.command("import")(import_)


def rebuild(
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the live store with one rebuilt beside it, while it is served.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the rebuilt store in its place. Cortex must be down.")
    ] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the stores that were replaced before, and now.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", help="With --verify: keep the rebuilt store in this new folder.")
    ] = None,
    tenant: OneTenant = None,
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Build a store from the log: to prove that the live one is what the log says, or to take its place.

    Vectors are borrowed from the live store; only those of texts that it does not keep any more are computed.

    Exit code of --verify: 0 both are equal, 6 something differs: each part, and what both say of the first differences.
    """
    from compose.cli.rebuild import run_rebuild  # noqa: PLC0415 - commands load what they need

    raise typer.Exit(
        run_rebuild(
            verify=verify,
            replace=replace,
            drop_old=drop_old,
            keep=keep,
            tenant=tenant,
            data_dir=data_dir,
            as_json=as_json,
        )
    )


def export(
    target: Annotated[str, typer.Argument(help="A folder: a new one, or that of an earlier export of the same log.")],
    tenant: OneTenant = None,
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Write the log's events to a folder, with checksums, while Cortex serves. Again: only what has come since.

    What was interrupted goes on after its last complete file. The events are all: knowledge is made of them again.
    """
    from compose.cli.export import run_export  # noqa: PLC0415

    raise typer.Exit(run_export(target, tenant=tenant, data_dir=data_dir, as_json=as_json))


def import_(
    source: Annotated[str, typer.Argument(help="A folder that cortex export made.")],
    tenant_map: Annotated[
        list[str] | None,
        typer.Option("--tenant-map", help="OLD=NEW: import a tenant under another name (repeatable)."),
    ] = None,
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Append an export's events to this log, in their order; a Cortex that runs takes them in as bulk.

    Everything is checked first. What was interrupted goes on; the same events again change nothing.
    """
    from compose.cli.export import run_import  # noqa: PLC0415

    raise typer.Exit(run_import(source, tenant_map=tuple(tenant_map or ()), data_dir=data_dir, as_json=as_json))


def migrate(
    to: Annotated[Literal["weaviate", "sqlite"], typer.Option("--to", help="The store to move to.")],
    tenant: OneTenant = None,
    data_dir: DataDir = ".cortex",
    as_json: Json = False,
) -> None:
    """Build another store from the log while this one serves, compare both, and say how to switch.

    Again it goes on from where the other store is. Exit code: 0 both are equal, 6 something differs.
    """
    from compose.cli.rebuild import run_migrate  # noqa: PLC0415

    raise typer.Exit(run_migrate(to, tenant=tenant, data_dir=data_dir, as_json=as_json))
