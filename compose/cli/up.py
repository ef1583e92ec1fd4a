"""``cortex up``."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.main import URL
from compose.cli.publish import publish_all, wait_searchable
from compose.cli.read_settings import read_settings
from schemas.events import dump_event
from shared.settings import Settings


def run_up(*, company: bool, data_dir: str, port: int | None, tenant: str, as_json: bool) -> int:
    """Start the local runtime and serve; return when it ended."""
    from compose.local.supervisor import run_local  # noqa: PLC0415 - after the options were checked

    options: dict[str, Any] = {"data_dir": Path(data_dir), "tenant": tenant}
    if port is not None:
        options |= {"http_port": port, "kafka_port": port + 1, "cache_port": port + 2, "ingest_port": port + 4}
    settings = read_settings(options)
    console = Console(stderr=as_json)

    async def on_ready(url: str) -> None:
        if company:
            await asyncio.to_thread(_feed_company, console, url, tenant)
        _greet(console, settings, url, company=company, as_json=as_json)

    def on_progress(stage: str) -> None:
        console.print(f"[dim]· {stage}[/dim]")

    asyncio.run(run_local(settings, on_ready=on_ready, on_progress=on_progress))
    return exits.OK


def _feed_company(console: Console, url: str, tenant: str) -> None:
    """Publish the sample company and wait for it: the same events at every start, so later ones are no-ops."""
    from compose.company.loader import company_events  # noqa: PLC0415

    events = [dump_event(event) for event in company_events(tenant)]
    console.print(f"[dim]· publishing the sample company ({len(events)} events)[/dim]")
    with Client(url, tenant=tenant) as client:
        taken = publish_all(client, events, bulk=False, quiet=True)
        if not wait_searchable(client, taken, timeout_s=60):
            console.print("[yellow]the sample company is not searchable yet; cortex status shows what waits[/yellow]")


def _greet(console: Console, settings: Settings, url: str, *, company: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": url, "kafka": f"{settings.host}:{settings.kafka_port}"}), flush=True)
        return
    console.print(f"\n[bold green]Cortex serves at {url}[/bold green]   Kafka at {settings.host}:{settings.kafka_port}")
    console.print(f"kept in {settings.data_dir}; Ctrl-C ends everything\n")
    if company:
        from compose.company.questions import TO_TRY  # noqa: PLC0415

        command = sys.argv[0] if Path(sys.argv[0]).name == "cortex" else "cortex"
        console.print("Try:")
        where = "" if url == URL else f" --url {url}"
        for question in TO_TRY:
            console.print(f'  {command} ask "{question}"{where}', highlight=False, soft_wrap=True)
        console.print()
