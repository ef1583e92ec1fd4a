"""``cortex cluster``."""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from compose.cli import exits
from compose.cli.read_settings import read_settings
from compose.native.cluster import exports, run_cluster


def run_cluster_command(*, folder: str, only: str, port: int, partitions: int | None, as_json: bool) -> int:
    """Start the servers and serve; return when they have ended. What to set goes to standard output, the rest does not."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that still starts is no error
    given: dict[str, Any] = {} if partitions is None else {"partitions": partitions}
    settings = read_settings(given)
    console = Console(stderr=True, highlight=False)

    async def on_ready(environment: Mapping[str, str]) -> None:
        print(json.dumps(environment) if as_json else exports(environment), end="\n" if as_json else "", flush=True)
        if "CORTEX_WEAVIATE_URL" in environment:
            console.print(
                "[yellow]Weaviate opens its gRPC port on every interface: shut it off where others reach you.[/]"
            )
        console.print(f"kept in {folder}; Ctrl-C ends everything")

    def on_progress(stage: str) -> None:
        console.print(f"[dim]· {stage}[/dim]")

    names = tuple(name.strip() for name in only.split(",") if name.strip())
    asyncio.run(
        run_cluster(
            Path(folder),
            names,
            first_port=port,
            partitions=settings.partitions,
            on_ready=on_ready,
            on_progress=on_progress,
        )
    )
    return exits.OK
