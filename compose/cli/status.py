"""``cortex status``."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from compose.cli import exits
from compose.cli.client import Client


def run_status(*, url: str, token: str | None, tenant: str, as_json: bool) -> int:
    """Print the status; exit 0 when ready, 1 when not."""
    with Client(url, token, tenant) as client:
        status = client.get("/v1/status")
    if as_json:
        print(json.dumps(status, ensure_ascii=False))
    else:
        _show(Console(), client.url, status)
    return exits.OK if status["ready"] else exits.REFUSED


def _show(console: Console, url: str, status: dict[str, Any]) -> None:
    ready = "[green]ready[/green]" if status["ready"] else f"[red]not ready: {', '.join(status['reasons'])}[/red]"
    console.print(f"{url}  tenant {status['tenant']}  {ready}")
    counts = {key: value for key, value in status["counts"].items() if isinstance(value, int)}
    console.print("  ".join(f"{key.replace('_', ' ')} {value}" for key, value in counts.items()))
    table = Table("topic", "partition", "stored up to", "waiting")
    for mark in status["watermarks"]:
        table.add_row(mark["topic"], str(mark["partition"]), str(mark["number"]), str(mark["lag"]))
    if status["watermarks"]:
        console.print(table)
    for letter in status["dead_letters"]:
        console.print(
            f"[red]failed[/red] {letter['event_id'] or letter['id']} at {letter['stage']}: {letter['cause']} {letter['detail']}"
        )
