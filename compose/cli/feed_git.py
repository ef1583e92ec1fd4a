"""``cortex feed git``."""

import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from compose.cli import exits
from compose.cli.client import Client, ProblemError, UnreachableError
from compose.cli.publish import publish_all, wait_searchable
from compose.feeds.docs import Manifest
from compose.feeds.git import GitFeed, GitOutcome, feed_git, tip_of
from compose.feeds.git_command import Git, open_repository
from compose.feeds.git_state import GitState
from schemas.status import Accepted
from shared.errors import CortexError

SHOWN = 20  # withheld and refused commits that are named with --verbose; --json names up to a thousand
WAITED_CHANGES = 60.0  # seconds: the longest pause between looks at a repository that cannot be read for the moment


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    path: str
    scope: str
    name: str | None
    ref: str
    since: str | None
    limit: int | None
    documents: bool
    data_dir: str
    wait: bool
    watch: bool
    interval_s: float
    verbose: bool
    url: str
    token: str | None
    tenant: str
    as_json: bool


def run_feed_git(options: Options) -> int:
    """Feed a repository, once or whenever it changes; return the exit code."""
    path = Path(options.path).resolve()
    if not path.exists():
        sys.stderr.write(f"there is no {options.path}\n")
        return exits.USAGE
    git = open_repository(path)
    name = options.name or Path(git.root).name.removesuffix(".git") or "repository"
    feed = GitFeed(
        name, options.tenant, options.scope, ref=options.ref, since=options.since, limit=options.limit,
        documents=options.documents,
    )  # fmt: skip
    if not options.watch:
        return _feed_once(git, feed, options)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell began us with SIGINT ignored
    try:
        watch(lambda: tip_of(git, feed.ref), lambda: _feed_once(git, feed, options), options.interval_s, time.sleep)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    return exits.OK


def watch(
    tip: Callable[[], str | None], run: Callable[[], object], interval_s: float, sleep: Callable[[float], None]
) -> None:
    """Run whenever the tip has changed, for ever. What fails is told and tried again, after longer and longer pauses."""
    handled: list[str | None] = []
    pause = interval_s
    while True:
        try:
            now = tip()
            if handled != [now]:
                run()
                handled = [now]
            pause = interval_s
        except (CortexError, UnreachableError, ProblemError) as error:
            sys.stderr.write(f"{error}; trying again\n")
            pause = min(pause * 2, max(WAITED_CHANGES, interval_s))
        sleep(pause)


def _feed_once(git: Git, feed: GitFeed, options: Options) -> int:
    base = Path(options.data_dir) / "feeds" / f"{feed.tenant}.{re.sub(r'[^A-Za-z0-9._-]', '_', feed.name)}.git"
    state, manifest = (
        GitState.load(base.with_name(base.name + ".json")),
        Manifest(base.with_name(base.name + ".docs.json")),
    )
    start = time.monotonic()
    with Client(options.url, options.token, options.tenant) as client, _progress(options.as_json) as progress:
        task = progress.add_task("commits", total=None, rate="")

        def publish(events: Iterator[dict[str, Any]]) -> list[Accepted]:
            return publish_all(client, events, bulk=True, quiet=True)

        def tell(done: int, total: int) -> None:
            rate = f"{done / max(time.monotonic() - start, 0.001):.0f} a second"
            progress.update(task, completed=done, total=total, rate=rate)

        outcome = feed_git(git, feed, state, manifest, service=client, publish=publish, progress=tell)
        searchable = wait_searchable(client, list(outcome.accepted.values())) if options.wait else None
    _tell(outcome, searchable, time.monotonic() - start, options)
    return exits.TIMEOUT if searchable is False else exits.OK


def _progress(quiet: bool) -> Progress:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True)


def _tell(outcome: GitOutcome, searchable: bool | None, seconds: float, options: Options) -> None:
    if options.as_json:
        print(json.dumps(_document(outcome, searchable, seconds), ensure_ascii=False), flush=True)
        return
    documents = outcome.documents
    print(
        f"{outcome.published} commits published ({_counted(outcome.kinds)}), {outcome.known + outcome.repeated} known before, "
        f"{outcome.skipped.total()} skipped ({_counted(outcome.skipped)}), {outcome.retracted} retracted\n"
        f"{len(documents.published)} documents published, {len(documents.unchanged)} unchanged, "
        f"{len(documents.retracted)} retracted; {outcome.commands} commands; declared: {_counted(outcome.declared)}\n"
        f"{outcome.withheld_commits} commits and {len(documents.withheld)} parts of documents not published because they hold a "
        f"secret; {outcome.events} events, {seconds:.1f} s",
        flush=True,
    )
    for note in outcome.notes:
        sys.stderr.write(f"note: {note}\n")
    for refused in outcome.refused[:SHOWN]:
        sys.stderr.write(f"not published: {refused.path[:12]}: {refused.reason}\n")
    if options.verbose:
        for withheld in outcome.withheld:
            sys.stderr.write(f"holds a secret: {withheld.where} ({', '.join(withheld.kinds)})\n")
        for skipped in documents.skipped:
            sys.stderr.write(f"skipped {skipped.path}: {skipped.reason}\n")
    elif outcome.withheld:
        sys.stderr.write("--verbose names what was not published\n")
    if searchable is False:
        sys.stderr.write("not everything is searchable yet: cortex status shows what waits\n")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _document(outcome: GitOutcome, searchable: bool | None, seconds: float) -> dict[str, Any]:
    documents = outcome.documents
    return {
        "tip": outcome.tip,
        "published": outcome.published,
        "kinds": dict(sorted(outcome.kinds.items())),
        "known": outcome.known + outcome.repeated,
        "skipped": dict(sorted(outcome.skipped.items())),
        "retracted": outcome.retracted,
        "withheld": [item._asdict() for item in outcome.withheld],
        "withheld_commits": outcome.withheld_commits,
        "refused": [item.__dict__ for item in outcome.refused],
        "declared": dict(sorted(outcome.declared.items())),
        "documents": {
            "published": documents.published,
            "unchanged": len(documents.unchanged),
            "retracted": documents.retracted,
            "skipped": [item.__dict__ for item in documents.skipped],
        },
        "commands": outcome.commands,
        "events": outcome.events,
        "notes": outcome.notes,
        "searchable": searchable,
        "seconds": round(seconds, 3),
    }
