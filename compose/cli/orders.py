"""Orders to a running Cortex that become background jobs: given, followed and told the same way by every command."""

import json
import sys
from typing import Annotated, Any, Final, NoReturn

import typer

from compose.cli import exits
from compose.cli.client import Client

DONE: Final = "done"
NOT_DONE: Final = frozenset({"failed", "cancelled"})
"""States in which a job ends."""

Wait = Annotated[bool, typer.Option("--wait", help="Follow the job, and return when it is over.")]
Reason = Annotated[str, typer.Option(help="Why, for those who look later.")]


def place_order(client: Client, path: str, body: dict[str, Any], *, wait: bool, as_json: bool) -> NoReturn:
    """Send an order, follow its job where that is wanted, and exit with its code."""
    taken = client.post(path, body, ok=(200, 202))
    now = follow_job(client, taken["address"], quiet=as_json) if wait else taken["job"]
    if as_json:
        print_json({**taken, "job": now})
        raise typer.Exit(code_of(now))
    if taken["joined"]:
        print("an equal job has not begun yet: this order joins it")
    show_job(now)
    if not wait:
        print(f"follow it with: cortex jobs {now['id']} --follow")
    raise typer.Exit(code_of(now))


def follow_job(client: Client, path: str, *, quiet: bool) -> dict[str, Any]:
    """Hear of a job until it is over; a stream that ends before says so, and is opened again."""
    while True:
        for event in client.listen(f"{path}/stream"):
            if event.event not in {"progress", "complete"}:
                break
            now: dict[str, Any] = json.loads(event.data)
            if now["state"] in {DONE, *NOT_DONE}:
                return now
            if not quiet:
                sys.stderr.write(f"{_progress(now)}\n")


def code_of(job: dict[str, Any]) -> int:
    """Return the exit code that a job's state means."""
    return exits.REFUSED if job["state"] in NOT_DONE else exits.OK


def show_job(job: dict[str, Any]) -> None:
    """Print a job as a line: its id, kind, state and progress, and what it says of itself."""
    print(f"{job['id']}  {job['kind']}  {_progress(job)}{'  ' + job['detail'] if job.get('detail') else ''}")


def _progress(job: dict[str, Any]) -> str:
    total = f" of {job['total']}" if job.get("total") is not None else ""
    failed = f", {job['failed']} failed" if job["failed"] else ""
    return f"{job['state']}  {job['done']}{total} done{failed}"


def print_json(value: Any) -> None:
    """Print one JSON document for programs."""
    print(json.dumps(value, ensure_ascii=False))
