"""``cortex feed docs``."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TextColumn

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.publish import publish_all, wait_searchable
from compose.feeds.docs import Feed, Manifest, Outcome, feed_docs
from schemas.status import Accepted

SHOWN = 20  # skipped files that are named in the terminal; --json names all


def run_feed_docs(
    path: str,
    *,
    scope: str,
    name: str | None,
    include: tuple[str, ...],
    data_dir: str,
    wait: bool,
    url: str,
    token: str | None,
    tenant: str,
    as_json: bool,
) -> int:
    """Feed a folder; return the exit code."""
    root = Path(path).resolve()
    if not root.exists():
        sys.stderr.write(f"there is no {path}\n")
        return exits.USAGE
    feed = Feed(name or root.name, tenant, scope)
    manifest = Manifest(Path(data_dir) / "feeds" / f"{tenant}.{re.sub(r'[^A-Za-z0-9._-]', '_', feed.name)}.docs.json")
    start = time.monotonic()
    with Client(url, token, tenant) as client, _progress(as_json) as progress:
        task = progress.add_task("feeding", total=None)
        parts = 0

        def publish(events: Iterator[dict[str, Any]]) -> list[Accepted]:
            nonlocal parts
            taken = publish_all(client, events, bulk=True, quiet=True)
            parts += len(taken)
            rate = parts / max(time.monotonic() - start, 0.001)
            progress.update(task, advance=1, description=f"feeding: {parts} events, {rate:.0f} a second")
            return taken

        outcome = feed_docs(root, feed, manifest, client, publish, include=include)
        searchable = wait_searchable(client, outcome.accepted) if wait else None
    _tell(outcome, searchable, time.monotonic() - start, as_json=as_json)
    return exits.TIMEOUT if searchable is False else exits.OK


def _progress(quiet: bool) -> Progress:
    return Progress(TextColumn("{task.description}"), console=Console(stderr=True), disable=quiet, transient=True)


def _tell(outcome: Outcome, searchable: bool | None, seconds: float, *, as_json: bool) -> None:
    if as_json:
        document = {
            "published": outcome.published,
            "unchanged": len(outcome.unchanged),
            "retracted": outcome.retracted,
            "skipped": [item.__dict__ for item in outcome.skipped],
            "withheld": [item._asdict() for item in outcome.withheld],
            "parts": outcome.parts,
            "searchable": searchable,
            "seconds": round(seconds, 3),
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    print(
        f"{len(outcome.published)} documents published in {outcome.parts} parts, {len(outcome.unchanged)} unchanged, "
        f"{len(outcome.retracted)} retracted, {len(outcome.skipped)} skipped, {seconds:.1f} s",
    )
    for item in outcome.skipped[:SHOWN]:
        sys.stderr.write(f"skipped {item.path}: {item.reason}\n")
    for withheld in outcome.withheld[:SHOWN]:
        sys.stderr.write(f"not published, holds a secret: {withheld.where} ({', '.join(withheld.kinds)})\n")
    if len(outcome.skipped) > SHOWN:
        sys.stderr.write(f"... and {len(outcome.skipped) - SHOWN} more: --json names them all\n")
    if searchable is False:
        sys.stderr.write("not everything is searchable yet: cortex status shows what waits\n")
