"""``cortex dead-letters``: what could not be processed, and what to do about it."""

import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from compose.cli import exits
from compose.cli.client import Client
from compose.cli.main import URL, Json, OwnTenant, Token, Url

PAGE: Final = 50  # what the service gives at a time
DETAIL_CHARS: Final = 200  # of what was wrong, in the list; `show` has all of it
SHOWN_BYTES: Final = 4_000  # of an event on a terminal; --json has all of it

letters = typer.Typer(
    no_args_is_help=True,
    help="What could not be processed: list and show it, send it through again once the cause is mended, or discard it. "
    "Each says who did it and when; the event keeps its place, so a replay never stands above newer knowledge.",
)

Ids = Annotated[list[str] | None, typer.Argument(help="Letters, by id.", show_default=False)]
Stage = Annotated[str | None, typer.Option(help="Only those that failed at this stage, e.g. embed.")]
Cause = Annotated[str | None, typer.Option(help="Only those that failed by this cause, e.g. embedder-unavailable.")]
State = Annotated[str, typer.Option(help="open, replayed, discarded, or all.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(letters, name="dead-letters")


@letters.command("list")
def list_letters(
    state: State = "open",
    stage: Stage = None,
    cause: Cause = None,
    event: Annotated[str | None, typer.Option(help="Only those of this event.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """List dead letters, newest first. Those of which no tenant is known are shown where no tenant is given."""
    chosen = {"state": None if state == "all" else state, "stage": stage, "cause": cause, "event_id": event}
    wanted = {name: value for name, value in chosen.items() if value is not None}
    with Client(url, token, tenant) as client:
        found = _listed(client, wanted, limit)
    if as_json:
        print(json.dumps({"letters": found}, ensure_ascii=False))
    else:
        Console().print(table_of(found) if found else "No dead letters.")
    raise typer.Exit(exits.OK)


@letters.command("show")
def show_letter(
    letter: Annotated[str, typer.Argument(help="The letter's id.")],
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter: what failed and why, where it stood, its headers and its bytes."""
    with Client(url, token, tenant) as client:
        found = client.get(_path(letter))
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _show_one(found)
    raise typer.Exit(exits.OK)


@letters.command("replay")
def replay_letters(
    ids: Ids = None,
    stage: Stage = None,
    cause: Cause = None,
    reason: Annotated[str, typer.Option(help="Why, for those who look later.")] = "",
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Send dead letters through the stages again: by id, or the open ones of a stage or a cause."""
    raise typer.Exit(_act("replay", ids, stage, cause, reason, url=url, token=token, tenant=tenant, as_json=as_json))


@letters.command("discard")
def discard_letters(
    ids: Ids = None,
    stage: Stage = None,
    cause: Cause = None,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    as_json: Json = False,
) -> None:
    """Note that nothing more is to be done about dead letters. Their events stay failed; a replay is still possible."""
    raise typer.Exit(_act("discard", ids, stage, cause, "", url=url, token=token, tenant=tenant, as_json=as_json))


def _act(
    action: str,
    ids: list[str] | None,
    stage: str | None,
    cause: str | None,
    reason: str,
    *,
    url: str,
    token: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    choice = {"ids": ids or None, "stage": stage, "cause": cause, "reason": reason or None}
    body = {name: value for name, value in choice.items() if value is not None}
    with Client(url, token, tenant) as client:
        done = client.post(f"/v1/dead-letters/{action}", body, ok=(200, 202))
    if as_json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        _tell(action, done)
    return exits.REFUSED if done["unknown"] else exits.OK


def _listed(client: Client, wanted: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = None
    while len(found) < limit:
        page = {**wanted, "limit": min(PAGE, limit - len(found)), **({"after": after} if after else {})}
        answer = client.get("/v1/dead-letters", page)
        found += answer["letters"]
        after = answer["next"]
        if after is None:
            break
    return found


def _path(letter: str) -> str:
    return f"/v1/dead-letters/{quote(letter, safe='')}"


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """Return a table of letters; each says what was wrong in words, cut where that is long.

    The id stands whole however narrow the terminal is: `show` and `replay` want it so.
    """
    whole = Column("id", no_wrap=True, min_width=max((len(letter["id"]) for letter in found), default=0))
    others = ("failed at", "event", "stage", "cause", "what was wrong", "attempts", "state")
    table = Table(whole, *(Column(name, overflow="fold") for name in others))
    for letter in found:
        event = letter["event_id"] or f"{letter['topic']}-{letter['partition']}-{letter['offset']}"
        detail = letter["detail"]
        words = detail if len(detail) <= DETAIL_CHARS else f"{detail[:DETAIL_CHARS]} …"
        cells = (letter["id"], letter["failed_at"], event, letter["stage"], letter["cause"], words)
        table.add_row(*(Text(cell) for cell in (*cells, str(letter["attempts"]), letter["state"])))
    return table


def _show_one(letter: dict[str, Any]) -> None:
    console = Console()
    lines = {
        "event": letter["event_id"],
        "source": letter["event_source"],
        "tenant": letter["tenant"],
        "from": f"{letter['topic']}, partition {letter['partition']}, offset {letter['offset']}",
        "failed": f"{letter['failed_at']} at {letter['stage']}: {letter['cause']}, {letter['attempts']} attempts",
        "detail": letter["detail"],
        "state": letter["state"],
        "by": f"{letter['resolved_by']}, {letter['resolved_at']}" if letter["resolved_by"] else None,
        "job": letter["job"],
        "replays": letter["replays"] or None,
        "key": _text(letter["key"]) if letter["key"] else None,
        **{f"header {name}": _text(value) for name, value in letter["headers"]},
    }
    console.print(Text(letter["id"], style="bold"))
    for name, value in lines.items():
        if value is not None:
            console.print(Text(f"  {name:<8} {value}"))
    console.print(Text(f"  {letter['body_bytes']} bytes:"))
    console.print(Text(_text(letter["body"])[:SHOWN_BYTES]))


def _text(encoded: str) -> str:
    """Write bytes that may be anything so that a terminal can show them."""
    text = base64.b64decode(encoded).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def _tell(action: str, done: dict[str, Any]) -> None:
    console = Console()
    word = {"replay": "sent through again", "discard": "discarded"}[action]
    console.print(
        f"{done['changed']} of {done['chosen']} {word}{'; nothing had to be done' if done['already'] else ''}"
    )
    for job in done["jobs"]:
        console.print(Text(f"  {job['letters']} by {job['job']}"))
    if done["more"]:
        console.print("There are more: run it again.")
    for letter in done["unknown"]:
        console.print(Text(f"  there is no dead letter {letter}", style="red"))
