"""A finished exchange between a person and an agent, read from what the agents hand to their hooks."""

import json
import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

TRANSCRIPT_BYTES: Final = 2 * 1024 * 1024
"""Of a transcript only its end is read: the last exchange lies there."""
TEXT_CHARS: Final = 200_000
OUTPUT_CHARS: Final = 20_000
"""Of a tool's output the end is kept, where errors stand."""

PROMPTS: Final = ("prompt", "user_prompt", "userPrompt", "question")
RESPONSES: Final = (
    "response",
    "prompt_response",
    "last_assistant_message",
    "last-assistant-message",
    "assistant_response",
    "answer",
)
SESSIONS: Final = ("session_id", "sessionId", "thread-id", "thread_id", "conversation_id")
AGENTS: Final = (
    ("gemini", ("AfterAgent", "BeforeAgent")),
    ("codex", ("agent-turn-complete",)),
    ("claude-code", ("Stop",)),
)
NOT_SAID: Final = (
    "<command-",
    "<local-command",
    "<system-reminder",
    "<bash-",
    "<environment_context",
    "<user_instructions",
)
"""Beginnings of what an agent itself writes in a user's name."""


class Exchange(NamedTuple):
    """What was asked, what was answered, and what tools put out in between."""

    prompt: str
    response: str
    outputs: tuple[str, ...] = ()
    session: str | None = None
    agent: str = "agent"
    project: str | None = None
    at: str | None = None


def read_exchange(given: str) -> Exchange | None:
    """Return the exchange of a hook's JSON: from its own fields, or from the transcript that it names. None: neither."""
    value = json.loads(given)
    if not isinstance(value, dict):
        return None
    prompt, response = _first_text(value, PROMPTS), _first_text(value, RESPONSES)
    if not prompt and isinstance(value.get("input-messages"), list):
        prompt = "\n".join(one for one in value["input-messages"] if isinstance(one, str))
    outputs: tuple[str, ...] = ()
    at: str | None = None
    path = value.get("transcript_path") or value.get("transcriptPath")
    if isinstance(path, str) and path and not (prompt and response):
        told = last_exchange(tail_lines(path))
        prompt, response = prompt or told.prompt, told.response or response
        outputs, at = told.outputs, told.at
    if not response:
        return None
    cwd = value.get("cwd")
    return Exchange(
        prompt=prompt[:TEXT_CHARS],
        response=response[:TEXT_CHARS],
        outputs=outputs,
        session=_first_text(value, SESSIONS) or None,
        agent=_agent_of(value),
        project=PurePath(cwd).name or None if isinstance(cwd, str) else None,
        at=at,
    )


def tail_lines(path: str) -> list[str]:
    """Return the whole lines at the end of a file. Raises OSError."""
    with Path(path).expanduser().open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - TRANSCRIPT_BYTES)
        file.seek(start)
        lines = file.read(TRANSCRIPT_BYTES).decode("utf-8", "replace").split("\n")
    return lines[1:] if start else lines


def last_exchange(lines: Iterable[str]) -> Exchange:
    """Return the last exchange of a transcript in JSON lines: what a person said last, and everything after it."""
    prompt, at = "", None
    answers: list[str] = []
    outputs: list[str] = []
    for entry in _entries(lines):
        role, content = _said(entry)
        texts, results = _parts(content)
        said = [text for text in texts if not text.lstrip().startswith(NOT_SAID)]
        if role == "user" and said and not results:
            prompt, answers, outputs = "\n".join(said), [], []
            at = None
        elif role == "user":
            outputs += results
        elif role == "assistant":
            answers += texts
        stamp = entry.get("timestamp")
        at = stamp if isinstance(stamp, str) else at
    return Exchange(prompt, "\n\n".join(answers), tuple(output[-OUTPUT_CHARS:] for output in outputs), at=at)


def _entries(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            entry = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and not entry.get("isMeta") and not entry.get("isSidechain"):
            yield entry


def _said(entry: dict[str, Any]) -> tuple[str, Any]:
    """Return (role, content) of Claude's ``message``, of Codex's ``payload``, and of a plain record."""
    for holder in (entry.get("message"), entry.get("payload"), entry):
        if isinstance(holder, dict) and "content" in holder:
            role = holder.get("role") or entry.get("type")
            return {"gemini": "assistant", "model": "assistant"}.get(str(role), str(role)), holder["content"]
    return "", None


def _parts(content: Any) -> tuple[list[str], list[str]]:
    """Return (texts, outputs of tools) of a content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return [content] if content.strip() else [], []
    texts: list[str] = []
    results: list[str] = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_result":
            inner, _ = _parts(block.get("content"))
            results += inner
        elif isinstance(block.get("text"), str) and block["text"].strip():
            texts.append(block["text"])
    return texts, results


def _agent_of(value: dict[str, Any]) -> str:
    told = value.get("agent")
    if isinstance(told, str) and told.strip():
        return told.strip()[:100]
    kinds = (value.get("hook_event_name"), value.get("type"))
    return next((name for name, events in AGENTS if any(kind in events for kind in kinds)), "agent")


def _first_text(value: dict[str, Any], fields: Iterable[str]) -> str:
    return next((value[field] for field in fields if isinstance(value.get(field), str) and value[field].strip()), "")
