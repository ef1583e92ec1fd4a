"""The settings of agents: which files, and how Cortex stands in them. Pure: JSON in, JSON out, nothing of others lost."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.errors import InvalidInput

SERVER: Final = "cortex"
"""Our name among an agent's MCP servers."""
OURS: Final = re.compile(r"(?:^|[\s/\\\"'])cortex-hook(?:\.exe)?[\"']?\s+(?P<kind>prompt|learn)\b")


@dataclass(frozen=True)
class Wiring:
    """What is written: the commands of the two hooks (None: leave it out), and the MCP server's entry."""

    prompt: str | None
    learn: str | None
    server: dict[str, Any] | None


@dataclass(frozen=True)
class SettingsFile:
    """One file of an agent, relative to the project, and what it holds of ours."""

    agent: str
    path: str
    hooks: tuple[tuple[str, str], ...] = ()
    """(the agent's event, prompt or learn)"""
    timeouts: tuple[tuple[str, int], ...] = ()
    servers: bool = False


FILES: Final = (
    SettingsFile(
        "claude",
        ".claude/settings.json",
        hooks=(("UserPromptSubmit", "prompt"), ("Stop", "learn")),
        timeouts=(("prompt", 2), ("learn", 10)),  # seconds
    ),
    SettingsFile("claude", ".mcp.json", servers=True),
    SettingsFile(
        "gemini",
        ".gemini/settings.json",
        hooks=(("BeforeAgent", "prompt"), ("AfterAgent", "learn")),
        timeouts=(("prompt", 2_000), ("learn", 10_000)),  # milliseconds
        servers=True,
    ),
    SettingsFile("cursor", ".cursor/mcp.json", servers=True),
)
AGENTS: Final = tuple(dict.fromkeys(file.agent for file in FILES))


def read_settings(text: str | None, name: str) -> dict[str, Any]:
    """Read a settings file; an absent or empty one is an empty object. Raises InvalidInput for what we could not give back
    as it was: broken JSON, comments, a key that stands twice, or something else than an object.
    """
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is left untouched, for it is not plain JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} is left untouched, for it does not hold a JSON object")
    return value


def write_settings(value: dict[str, Any], before: str | None) -> str | None:
    """Write settings in the indentation of what stood there; None where nothing remains of a file."""
    if not value:
        return None
    indent = re.search(r"^([ \t]+)\S", before or "", re.MULTILINE)
    end = "" if before and not before.endswith("\n") else "\n"
    return json.dumps(value, ensure_ascii=False, indent=indent[1] if indent else 2) + end


def add(value: dict[str, Any], file: SettingsFile, wiring: Wiring, name: str) -> dict[str, Any]:
    """Return the settings with ours in them, each once and up to date. Raises InvalidInput."""
    changed = _copy(value)
    commands = {"prompt": wiring.prompt, "learn": wiring.learn}
    for event, kind in file.hooks:
        command = commands[kind]
        if command is None:
            continue
        groups = _list(_object(changed, "hooks", name), event, name)
        hook = {"type": "command", "command": command, "timeout": dict(file.timeouts)[kind]}
        if not _replace(groups, kind, hook):
            groups.append({"hooks": [hook]})
    if file.servers and wiring.server is not None:
        _object(changed, "mcpServers", name)[SERVER] = wiring.server
    return changed


def remove(value: dict[str, Any], file: SettingsFile) -> dict[str, Any]:
    """Return the settings without ours, and without what became empty by that."""
    changed = _copy(value)
    servers = changed.get("mcpServers")
    if file.servers and isinstance(servers, dict) and servers.pop(SERVER, None) is not None and not servers:
        del changed["mcpServers"]
    hooks = changed.get("hooks")
    if not isinstance(hooks, dict):
        return changed
    for event, _ in file.hooks:
        groups = hooks.get(event)
        if isinstance(groups, list) and any(_kind(hook) for group in groups for hook in _hooks_of(group)):
            hooks[event] = [kept for kept in map(_without_ours, groups) if kept is not None]
            if not hooks[event]:
                del hooks[event]
            if not hooks:
                del changed["hooks"]
    return changed


def command_of(kind: str, options: list[str], *, find: Callable[[str], str | None], beside: str) -> str:
    """Return the shell command of a hook: by its bare name where the agent's shell finds it, else by its whole path."""
    return shlex.join([program("cortex-hook", find=find, beside=beside), kind, *options])


def program(name: str, *, find: Callable[[str], str | None], beside: str) -> str:
    """Return how to call one of our programs. ``beside``: the running interpreter, in whose folder they are installed."""
    path = Path(beside).parent / name
    found = find(name)
    return name if found and Path(found).resolve() == path.resolve() else str(path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(value))
    return copied


def _object(value: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    inner = value.setdefault(key, {})
    if not isinstance(inner, dict):
        raise InvalidInput(f"{name} is left untouched: {key!r} is not an object there")
    return inner


def _list(value: dict[str, Any], key: str, name: str) -> list[Any]:
    inner = value.setdefault(key, [])
    if not isinstance(inner, list):
        raise InvalidInput(f"{name} is left untouched: {key!r} is not a list there")
    return inner


def _hooks_of(group: Any) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _kind(hook: Any) -> str | None:
    command = hook.get("command") if isinstance(hook, dict) else None
    match = OURS.search(command) if isinstance(command, str) else None
    return match["kind"] if match else None


def _replace(groups: list[Any], kind: str, hook: dict[str, Any]) -> bool:
    """Bring our hook of a kind up to date where it stands, with a time limit that a person may have given it."""
    found = False
    for group in groups:
        hooks = _hooks_of(group)
        for place, old in enumerate(hooks):
            if _kind(old) == kind:
                hooks[place] = {**hook, **old, "command": hook["command"]}
                found = True
    return found


def _without_ours(group: Any) -> Any:
    hooks = _hooks_of(group)
    kept = [hook for hook in hooks if _kind(hook) is None]
    if len(kept) == len(hooks):
        return group
    return {**group, "hooks": kept} if kept else None
