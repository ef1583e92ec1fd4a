"""``cortex init``: the settings by which a project's agents find Cortex."""

import difflib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from compose.cli import exits
from compose.hooks.settings import (
    AGENTS,
    FILES,
    SettingsFile,
    Wiring,
    add,
    command_of,
    program,
    read_settings,
    remove,
    write_settings,
)
from shared.errors import InvalidInput

TOKEN_REFERENCE: Final = {"CORTEX_TOKEN": "${CORTEX_TOKEN}"}
"""Agents put the variable's value in; the token itself never stands in a file."""


@dataclass(frozen=True)
class Plan:
    """One file: what stands there, and what is to stand there. None: no file."""

    path: Path
    name: str
    before: str | None
    after: str | None


def run_init(
    folder: str,
    *,
    agents: tuple[str, ...],
    prompt: bool,
    learn: bool,
    mcp: bool,
    options: dict[str, str | None],
    yes: bool,
    dry_run: bool,
    undo: bool,
) -> int:
    """Show the change, ask, and make it; all files are read and understood before the first is written."""
    root = Path(folder)
    if not root.is_dir():
        sys.stderr.write(f"{folder} is no folder\n")
        return exits.USAGE
    unknown = [agent for agent in agents if agent not in AGENTS]
    if unknown:
        sys.stderr.write(f"no such agent: {', '.join(unknown)} (known: {', '.join(AGENTS)})\n")
        return exits.USAGE
    wiring = _wiring(options, prompt=prompt, learn=learn, mcp=mcp)
    files = [file for file in FILES if file.agent in _chosen(root, agents, undo=undo)]
    plans = [plan for file in files if (plan := _plan(root, file, wiring, undo=undo)).before != plan.after]
    if not plans:
        print("nothing to undo" if undo else "nothing to change: everything stands there already")
        return exits.OK
    for plan in plans:
        sys.stdout.write(_difference(plan))
    if dry_run:
        return exits.OK
    if not yes and not typer.confirm("\nWrite this?"):
        print("nothing was written")
        return exits.REFUSED
    for plan in plans:
        _write(plan)
    print(f"\n{'removed from' if undo else 'written:'} {', '.join(plan.name for plan in plans)}")
    if not undo:
        print("A new session of the agent uses it. Undo with: cortex init --undo")
    return exits.OK


def _chosen(root: Path, agents: tuple[str, ...], *, undo: bool) -> set[str]:
    """Return the agents that are meant: the named ones, else Claude Code and whichever has a folder here."""
    if agents:
        return set(agents)
    present = {file.agent for file in FILES if (root / file.path).parent.is_dir() and (root / file.path).parent != root}
    return set(AGENTS) if undo else {"claude", *present}


def _wiring(options: dict[str, str | None], *, prompt: bool, learn: bool, mcp: bool) -> Wiring:
    beside = sys.executable
    where = _arguments(options, ("--url", "--tenant", "--as"))
    entry: dict[str, Any] = {
        "command": program("cortex", find=shutil.which, beside=beside),
        "args": ["mcp", *where, *_arguments(options, ("--scope",))],
    }
    if os.environ.get("CORTEX_TOKEN"):
        entry["env"] = dict(TOKEN_REFERENCE)
    return Wiring(
        prompt=command_of("prompt", where, find=shutil.which, beside=beside) if prompt else None,
        learn=command_of("learn", [*where, *_arguments(options, ("--scope",))], find=shutil.which, beside=beside)
        if learn
        else None,
        server=entry if mcp else None,
    )


def _arguments(options: dict[str, str | None], names: tuple[str, ...]) -> list[str]:
    return [word for name in names for value in [options.get(name)] if value for word in (name, value)]


def _plan(root: Path, file: SettingsFile, wiring: Wiring, *, undo: bool) -> Plan:
    path = (root / file.path).resolve()  # a link stays one: what it leads to is written
    try:
        before = path.read_bytes().decode("utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file.path} is left untouched: {error}") from error
    old = read_settings(before, file.path)
    new = remove(old, file) if undo else add(old, file, wiring, file.path)
    after = before if new == old else write_settings(new, before)
    return Plan(path, file.path, before, after)


def _difference(plan: Plan) -> str:
    lines = difflib.unified_diff(
        (plan.before or "").splitlines(keepends=True),
        (plan.after or "").splitlines(keepends=True),
        plan.name if plan.before is not None else "/dev/null",
        plan.name if plan.after is not None else "/dev/null",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _write(plan: Plan) -> None:
    """Put a file in its place in one step, with the rights that it had; or take it away."""
    if plan.after is None:
        plan.path.unlink(missing_ok=True)
        return
    plan.path.parent.mkdir(parents=True, exist_ok=True)
    mode = plan.path.stat().st_mode & 0o777 if plan.path.exists() else 0o644
    handle, temporary = tempfile.mkstemp(dir=plan.path.parent, prefix=f".{plan.path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(plan.after.encode())
        Path(temporary).chmod(mode)
        Path(temporary).replace(plan.path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
