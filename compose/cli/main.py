"""``cortex``: the commands, and what they share: where the service is, and how failures are told."""

import sys
from typing import Annotated

import typer

from compose.cli import exits

app = typer.Typer(
    name="cortex",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "A live knowledge service: publish what you learn, ask what is known.\n\n"
        "**First steps**\n\n"
        "`cortex up --company` starts everything on this machine with a sample company.\n\n"
        '`cortex ask "why did we choose PostgreSQL for the ledger?"` streams the answer.\n\n'
        "`cortex publish facts.jsonl --wait` publishes your own: one JSON object a line, "
        '`{"text": "The deploy freeze starts on Friday."}` at the least.\n\n'
        f"{exits.HELP}"
    ),
)
feed = typer.Typer(
    no_args_is_help=True, help="Publish what lies in folders and repositories; a second run publishes only changes."
)
app.add_typer(feed, name="feed")

hook = typer.Typer(
    no_args_is_help=True,
    help="What an agent calls at a prompt and after an answer. `cortex init` writes it into the agent's settings, as "
    "`cortex-hook`, which does the same and starts quicker. Exit code 0, whatever happens.",
)
app.add_typer(hook, name="hook")

Url = Annotated[str, typer.Option("--url", envvar="CORTEX_URL", help="Address of the service.")]
Token = Annotated[str | None, typer.Option("--token", envvar="CORTEX_TOKEN", help="Bearer token.", show_default=False)]
Tenant = Annotated[
    str, typer.Option("--tenant", envvar="CORTEX_TENANT", help="Tenant: the hard wall around knowledge.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.")]
OwnTenant = Annotated[
    str | None, typer.Option("--tenant", envvar="CORTEX_TENANT", help="Tenant; default: the service's or the token's.")
]
As = Annotated[
    str | None, typer.Option("--as", envvar="CORTEX_PRINCIPAL", help="Who you are: an entity, e.g. person-ana.")
]
OwnScope = Annotated[
    str | None,
    typer.Option("--scope", envvar="CORTEX_SCOPE", help="Where to publish what names none. Default: personal, yours."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Say on standard error why nothing came.")]

URL = "http://127.0.0.1:8420"
TENANT = "demo"


@app.command()
def up(
    company: Annotated[bool, typer.Option(help="Publish the sample company and wait until it is searchable.")] = False,
    data_dir: Annotated[
        str, typer.Option(envvar="CORTEX_DATA_DIR", help="Folder of everything that is kept.")
    ] = ".cortex",
    port: Annotated[
        int | None,
        typer.Option(
            min=1, help="HTTP port; Kafka, cache and ingest's figures take this plus 1, 2 and 4. Default 8420."
        ),
    ] = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Start Cortex on embedded defaults and serve until Ctrl-C.

    One process tree: a Kafka-protocol broker, Valkey, the ingest and the query service. What was accepted is kept in the
    data folder; a second start goes on from there.
    """
    from compose.cli.up import run_up  # noqa: PLC0415 - commands load what they need: `cortex --help` stays quick

    raise typer.Exit(run_up(company=company, data_dir=data_dir, port=port, tenant=tenant, as_json=as_json))


@app.command()
def publish(
    file: Annotated[str, typer.Argument(help="JSON lines, or - for standard input.")],
    scope: Annotated[str, typer.Option(help="Scope of lines that name none: LEVEL/ENTITY.")] = "organization/org",
    source: Annotated[str, typer.Option(help="Source of lines that name none.")] = "urn:cortex:cli",
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything is searchable.")] = False,
    bulk: Annotated[bool, typer.Option("--bulk", help="Give way to single events: for large loads.")] = False,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Publish knowledge: one CloudEvent a line, or a unit in short.

    `{"text": "The retry limit is 3.", "type": "context", "scope": "team/team-payments"}`

    The same line again changes nothing. Lines that are refused are named with their field; the others are published.
    """
    from compose.cli.publish import run_publish  # noqa: PLC0415

    raise typer.Exit(
        run_publish(
            file, scope=scope, source=source, wait=wait, bulk=bulk, url=url, token=token, tenant=tenant, as_json=as_json
        )
    )


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    principal: Annotated[str | None, typer.Option("--as", help="Who asks: an entity, e.g. person-ana.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="Only this scope (repeatable): LEVEL/ENTITY.")] = None,
    as_of: Annotated[str | None, typer.Option(help="Answer with what held then, e.g. 2026-03-15.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Results.")] = 5,
    budget: Annotated[int, typer.Option(min=50, max=20_000, help="Tokens of the context block.")] = 1_500,
    superseded: Annotated[bool, typer.Option("--superseded", help="Also what no longer holds, marked.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show each term of each score.")] = False,
    context: Annotated[bool, typer.Option("--context", help="Print the context block only, for a prompt.")] = False,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Ask, and see each stage as it happens; ends with the answer, its citations, and what contradicts it."""
    from compose.cli.ask import Asking, run_ask  # noqa: PLC0415

    asking = Asking(
        question=question,
        principal=principal,
        scopes=tuple(scope or ()),
        as_of=as_of,
        limit=limit,
        budget=budget,
        superseded=superseded,
        explain=explain,
    )
    raise typer.Exit(run_ask(asking, context=context, url=url, token=token, tenant=tenant, as_json=as_json))


@app.command()
def status(url: Url = URL, token: Token = None, tenant: Tenant = TENANT, as_json: Json = False) -> None:
    """Show whether Cortex is ready, how much it holds, what waits, and what failed."""
    from compose.cli.status import run_status  # noqa: PLC0415

    raise typer.Exit(run_status(url=url, token=token, tenant=tenant, as_json=as_json))


@feed.command("git")
def feed_git(
    path: Annotated[str, typer.Argument(help="A git repository, or a folder in one.")],
    scope: Annotated[str, typer.Option(help="Scope of what is published: LEVEL/ENTITY.")] = "organization/org",
    name: Annotated[
        str | None, typer.Option(help="Name of the feed; default: the repository's folder. Ids begin with it.")
    ] = None,
    ref: Annotated[str, typer.Option(help="Branch, tag or commit whose history is read.")] = "HEAD",
    since: Annotated[
        str | None, typer.Option(help="Only commits since then, e.g. 2026-03-01 or '6 months ago'.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest so many commits.")] = None,
    documents: Annotated[bool, typer.Option("--docs/--no-docs", help="Also the documents that are committed.")] = True,
    data_dir: Annotated[
        str, typer.Option(envvar="CORTEX_DATA_DIR", help="Where the feed keeps what it published.")
    ] = ".cortex",
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything is searchable.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on whenever the history changes, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between looks with --watch.")] = 5.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name what was not published, and why.")] = False,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Publish a repository's history: commits, who works on what, and its documents. A second run publishes only changes.

    Commits become error fixes, decisions, patterns or context; authors people, files modules. What was rewritten away is
    retracted. What holds a secret is not published: it is counted, and --verbose says where it is, never what.
    """
    from compose.cli.feed_git import Options, run_feed_git  # noqa: PLC0415

    raise typer.Exit(
        run_feed_git(
            Options(
                path=path,
                scope=scope,
                name=name,
                ref=ref,
                since=since,
                limit=limit,
                documents=documents,
                data_dir=data_dir,
                wait=wait,
                watch=watch,
                interval_s=interval,
                verbose=verbose,
                url=url,
                token=token,
                tenant=tenant,
                as_json=as_json,
            )
        )
    )


@feed.command("docs")
def feed_docs(
    path: Annotated[str, typer.Argument(help="A folder of Markdown and text, or one file.")],
    scope: Annotated[str, typer.Option(help="Scope of the documents: LEVEL/ENTITY.")] = "organization/org",
    name: Annotated[
        str | None, typer.Option(help="Name of the feed; default: the folder's. Ids begin with it.")
    ] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only files that match this pattern (repeatable).")] = None,
    data_dir: Annotated[
        str, typer.Option(envvar="CORTEX_DATA_DIR", help="Where the feed's manifest is kept.")
    ] = ".cortex",
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything is searchable.")] = False,
    url: Url = URL,
    token: Token = None,
    tenant: Tenant = TENANT,
    as_json: Json = False,
) -> None:
    """Publish a folder of documents, in parts by heading. A second run publishes only what changed.

    Files that vanished are retracted. What is skipped is named with its reason.
    """
    from compose.cli.feed import run_feed_docs  # noqa: PLC0415

    raise typer.Exit(
        run_feed_docs(
            path,
            scope=scope,
            name=name,
            include=tuple(include or ()),
            data_dir=data_dir,
            wait=wait,
            url=url,
            token=token,
            tenant=tenant,
            as_json=as_json,
        )
    )


@app.command()
def mcp(
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of standard input and output.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond loopback each agent needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of --http.")] = 8423,
    principal: As = None,
    scope: OwnScope = None,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
) -> None:
    """Serve agents by the Model Context Protocol: tools to ask, search, publish and explain; units as resources."""
    from compose.cli.mcp import run_mcp  # noqa: PLC0415

    raise typer.Exit(
        run_mcp(http=http, host=host, port=port, principal=principal, scope=scope, url=url, token=token, tenant=tenant)
    )


@hook.command("prompt")
def hook_prompt(
    plain: Annotated[bool, typer.Option("--plain", help="Print the block itself, not the agent's JSON.")] = False,
    tokens: Annotated[int, typer.Option(min=50, max=20_000, help="Tokens of the block.")] = 1_500,
    principal: As = None,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    verbose: Verbose = False,
) -> None:
    """Read an agent's prompt on standard input; print the context block, or nothing, in time."""
    from compose.cli.hook import run_cli_hook  # noqa: PLC0415

    run_cli_hook(
        "prompt",
        url=url,
        token=token,
        tenant=tenant,
        principal=principal,
        tokens=tokens,
        plain=plain,
        verbose=verbose,
    )


@hook.command("learn")
def hook_learn(
    principal: As = None,
    scope: OwnScope = None,
    url: Url = URL,
    token: Token = None,
    tenant: OwnTenant = None,
    verbose: Verbose = False,
) -> None:
    """Read a finished exchange on standard input; publish the decisions, fixes, rules and commands in it."""
    from compose.cli.hook import run_cli_hook  # noqa: PLC0415

    run_cli_hook("learn", url=url, token=token, tenant=tenant, principal=principal, scope=scope, verbose=verbose)


@app.command()
def init(
    folder: Annotated[str, typer.Argument(help="The project.")] = ".",
    agent: Annotated[
        list[str] | None,
        typer.Option(help="claude, gemini or cursor (repeatable). Default: claude, and those with a folder here."),
    ] = None,
    prompt: Annotated[bool, typer.Option(help="The hook that adds what is known to a prompt.")] = True,
    learn: Annotated[bool, typer.Option(help="The hook that publishes what an exchange taught.")] = True,
    mcp: Annotated[bool, typer.Option(help="The MCP server.")] = True,
    url: Annotated[
        str | None, typer.Option("--url", help="Address of the service, written where it is not the default.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Tenant, where it is not the service's.")] = None,
    principal: Annotated[str | None, typer.Option("--as", help="Who you are: an entity, e.g. person-ana.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Where agents publish. Default: personal, yours.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change and write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take out what it wrote.")] = False,
) -> None:
    """Write Cortex into the settings of a project's agents: hooks and MCP. Shows the change first; again changes nothing."""
    from compose.cli.init import run_init  # noqa: PLC0415

    raise typer.Exit(
        run_init(
            folder,
            agents=tuple(agent or ()),
            prompt=prompt,
            learn=learn,
            mcp=mcp,
            options={"--url": url, "--tenant": tenant, "--as": principal, "--scope": scope},
            yes=yes,
            dry_run=dry_run,
            undo=undo,
        )
    )


def run() -> None:
    """Run the command line: failures are one clear line and an exit code, never a traceback."""
    from compose.cli.care import register  # noqa: PLC0415 - it uses the options above
    from compose.cli.client import ProblemError, UnreachableError  # noqa: PLC0415
    from compose.cli.jobs import register as register_jobs  # noqa: PLC0415
    from compose.cli.letters import register as register_letters  # noqa: PLC0415
    from compose.cli.members import register as register_members  # noqa: PLC0415
    from compose.cli.model import register as register_model  # noqa: PLC0415
    from compose.cli.moving import register as register_moving  # noqa: PLC0415
    from compose.cli.render import tell_problem  # noqa: PLC0415
    from compose.cli.servers import register as register_servers  # noqa: PLC0415
    from shared.errors import CortexError  # noqa: PLC0415

    register(app)
    register_servers(app)
    register_letters(app)
    register_jobs(app)
    register_model(app)
    register_moving(app)
    register_members(app)
    try:
        app()
    except UnreachableError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exits.UNREACHABLE)
    except ProblemError as error:
        tell_problem(error.problem)
        sys.exit(exits.REFUSED)
    except CortexError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exits.REFUSED)
    except UnicodeEncodeError as error:  # bytes of an argument that are no text, or an output that cannot take one
        sys.stderr.write(f"this cannot be written as {error.encoding}: {error.object[error.start : error.end]!a}\n")
        sys.exit(exits.USAGE)
    except BrokenPipeError:
        sys.exit(exits.OK)
