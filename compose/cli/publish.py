"""``cortex publish``."""

import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import quote

from rich.console import Console
from rich.progress import Progress

from compose.cli import exits
from compose.cli.client import Client, ProblemError
from compose.cli.lines import Refused, batches, read_lines
from schemas.positions import Position
from schemas.status import Accepted

WAIT_S = 300.0
PATIENCE_S = 300.0  # for one batch: a backlog of 200,000 events takes half an hour, but makes room all the time
PAUSE_LEAST_S = 0.2
PAUSE_MOST_S = 60.0  # the most that the service ever says
COME_AGAIN = frozenset({429, 503})
POLL_S = 0.1


def run_publish(
    file: str,
    *,
    scope: str,
    source: str,
    wait: bool,
    bulk: bool,
    url: str,
    token: str | None,
    tenant: str,
    as_json: bool,
) -> int:
    """Publish the lines of a file; return the exit code."""
    refused: list[Refused] = []
    try:
        with _open(file) as lines, Client(url, token, tenant) as client:
            good = _good(read_lines(lines, tenant=tenant, source=source, scope=scope), refused)
            taken = publish_all(client, good, bulk=bulk, quiet=as_json)
            searchable = wait_searchable(client, taken) if wait else None
    except OSError as error:
        sys.stderr.write(f"cannot read {file}: {error}\n")
        return exits.USAGE
    _tell(taken, refused, searchable, as_json=as_json)
    if searchable is False:
        return exits.TIMEOUT
    return exits.REFUSED if refused else exits.OK


def publish_all(client: Client, events: Iterable[dict[str, Any]], *, bulk: bool, quiet: bool) -> list[Accepted]:
    """Publish in batches with progress. An overloaded service is given a moment, then asked again."""
    taken: list[Accepted] = []
    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("publishing", total=None)
        for batch in batches(events):
            taken.extend(publish_patiently(client, batch, bulk=bulk))
            progress.update(task, advance=len(batch), description=f"publishing: {len(taken)} accepted")
    return taken


def wait_searchable(client: Client, taken: list[Accepted], timeout_s: float = WAIT_S) -> bool:
    """Wait until the last event of each partition is handled, and so all before it. False when time runs out."""
    last: dict[tuple[str, int], tuple[int, Accepted]] = {}
    for accepted in taken:
        position = Position.from_token(accepted.token)
        place = (position.topic, position.partition)
        if place not in last or last[place][0] < position.number:
            last[place] = (position.number, accepted)
    deadline = time.monotonic() + timeout_s
    waiting = [accepted for _, accepted in last.values()]
    while waiting:
        waiting = [accepted for accepted in waiting if _pending(client, accepted)]
        if waiting and time.monotonic() > deadline:
            return False
        if waiting:
            time.sleep(POLL_S)
    return True


def _pending(client: Client, accepted: Accepted) -> bool:
    named = {"source": accepted.source, "token": accepted.token}
    status = client.get(f"/v1/events/{quote(accepted.id, safe='/')}", named)
    return status["state"] in {"pending", "retrying"}


def publish_patiently(
    client: Client,
    batch: list[dict[str, Any]],
    *,
    bulk: bool,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Accepted]:
    """Publish a batch; a service that has no room or no share left is asked again when it says so.

    Raises ProblemError for any other refusal, and when no batch got in for ``patience_s``; UnreachableError.
    """
    waited_s = 0.0
    guess_s = PAUSE_LEAST_S
    while True:
        try:
            return list(client.publish(batch, bulk=bulk).accepted)
        except ProblemError as error:
            pause_s = min(max(error.retry_after_s or guess_s, PAUSE_LEAST_S), PAUSE_MOST_S)
            guess_s *= 2
            if error.problem.status not in COME_AGAIN or waited_s + pause_s > patience_s:
                raise
            sleep(pause_s)
            waited_s += pause_s


def _good(lines: Iterable[tuple[int, dict[str, Any]] | Refused], refused: list[Refused]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if isinstance(line, Refused):
            refused.append(line)
        else:
            yield line[1]


@contextmanager
def _open(file: str) -> Iterator[IO[str]]:
    """Open a file so that a byte that is not UTF-8 spoils its line alone."""
    if file == "-":
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
        yield sys.stdin
        return
    with open(file, encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - '-' and paths are one argument
        yield lines


def _tell(taken: list[Accepted], refused: list[Refused], searchable: bool | None, *, as_json: bool) -> None:
    again = sum(accepted.duplicate for accepted in taken)
    if as_json:
        document = {
            "accepted": [accepted.model_dump(mode="json") for accepted in taken],
            "refused": [line.__dict__ for line in refused],
            "searchable": searchable,
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    print(
        f"{len(taken) - again} accepted, {again} known before, {len({line.line for line in refused})} refused", end=""
    )
    print({True: "; all searchable", False: "; not all searchable yet", None: ""}[searchable])
    for line in refused:
        where = f" {line.field}" if line.field else ""
        sys.stderr.write(f"line {line.line}{where}: {line.message}\n")
