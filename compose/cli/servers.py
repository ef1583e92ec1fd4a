"""Commands for whoever runs the servers that Cortex stands on: cluster, and topics plan, apply and check."""

from typing import Annotated

import typer

from compose.cli.main import Json

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", help="HOST:PORT of a broker; default: CORTEX_KAFKA_BOOTSTRAP.", show_default=False),
]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, max=256, help="Of each topic; default: CORTEX_PARTITIONS.", show_default=False),
]
Replication = Annotated[
    int | None,
    typer.Option(
        "--replication", min=1, max=9, help="Copies of each record; default: CORTEX_REPLICATION.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(cluster)
    topics = typer.Typer(
        no_args_is_help=True,
        help="Topics on Apache Kafka: what each should be stands in Cortex. Exit codes of plan and check: 0 all is in "
        "line, 6 something differs, 1 it could not be seen.",
    )
    for command in (plan, apply, check):
        topics.command()(command)
    app.add_typer(topics, name="topics")


def cluster(
    folder: Annotated[str, typer.Option(help="Folder of everything that the servers keep.")] = ".cortex-cluster",
    only: Annotated[
        str, typer.Option(help="Only these, separated by commas: kafka, weaviate, redis.")
    ] = "kafka,weaviate,redis",
    port: Annotated[int, typer.Option(min=0, max=65_000, help="First of nine ports in a row; 0: any.")] = 8430,
    partitions: Partitions = None,
    as_json: Json = False,
) -> None:
    """Start Kafka, Weaviate and Redis on this machine, without containers, and serve until Ctrl-C.

    Prints the variables with which Cortex uses them. Kafka is fetched and Weaviate built at the first time and kept in
    the user's cache folder (CORTEX_CACHE_DIR): that needs Java 17, Maven and Go.
    """
    from compose.cli.cluster import run_cluster_command  # noqa: PLC0415 - commands load what they need

    raise typer.Exit(run_cluster_command(folder=folder, only=only, port=port, partitions=partitions, as_json=as_json))


def plan(
    bootstrap: Bootstrap = None,
    partitions: Partitions = None,
    replication: Replication = None,
    as_json: Json = False,
) -> None:
    """Show what `apply` would do. Exit code 6 when there is something."""
    from compose.cli.topics import run_plan  # noqa: PLC0415

    raise typer.Exit(run_plan(bootstrap, partitions, replication, as_json=as_json))


def apply(
    bootstrap: Bootstrap = None,
    partitions: Partitions = None,
    replication: Replication = None,
    as_json: Json = False,
) -> None:
    """Make missing topics and set what is set otherwise. What cannot be changed without harm is refused, with the reason."""
    from compose.cli.topics import run_apply  # noqa: PLC0415

    raise typer.Exit(run_apply(bootstrap, partitions, replication, as_json=as_json))


def check(
    bootstrap: Bootstrap = None,
    partitions: Partitions = None,
    replication: Replication = None,
    as_json: Json = False,
) -> None:
    """Say whether every topic is as it should be. Exit code 6 when one is not: for scripts and health checks."""
    from compose.cli.topics import run_check  # noqa: PLC0415

    raise typer.Exit(run_check(bootstrap, partitions, replication, as_json=as_json))
