"""Commands that run one process of a cluster: ingest and query."""

import asyncio
from typing import Annotated

import typer

from compose.cli import exits

Port = Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="Its HTTP port.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(ingest)
    app.command()(query)


def ingest(port: Port = None) -> None:
    """Run one ingest process on Apache Kafka; run as many as wanted. Its figures and readiness are on --port (8424).

    Settings are variables: CORTEX_KAFKA_BOOTSTRAP, CORTEX_REDIS_URL, CORTEX_STORE and what the store needs.
    """
    from compose.cli.read_settings import read_settings  # noqa: PLC0415 - commands load what they need
    from compose.cluster.ingest_member import run_member  # noqa: PLC0415 - as above
    from compose.local.log_files import configure_logging  # noqa: PLC0415 - as above

    settings = read_settings({} if port is None else {"ingest_port": port})
    configure_logging("ingest", None)
    asyncio.run(run_member(settings))
    raise typer.Exit(exits.OK)


def query(port: Port = None) -> None:
    """Run one query process of a cluster on --port (8420); run as many as wanted, behind a proxy."""
    from compose.cli.read_settings import read_settings  # noqa: PLC0415 - as above
    from compose.cluster.query_member import run_query_member  # noqa: PLC0415 - as above
    from compose.local.log_files import configure_logging  # noqa: PLC0415 - as above

    settings = read_settings({} if port is None else {"http_port": port})
    configure_logging("query", None)
    asyncio.run(run_query_member(settings))
    raise typer.Exit(exits.OK)
