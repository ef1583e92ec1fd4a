"""Shell commands in documents, each with the words that lead to it: what people look for when they ask how to run a thing."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compose.feeds.documents import Document
from compose.feeds.markdown import title_of

COMMAND_CHARS: Final = 4_000  # of one block; a longer one is a program
LEAD_CHARS: Final = 400
_SHELLS: Final = frozenset(
    {"sh", "bash", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "fish"}
)
_BLOCK: Final = re.compile(
    r"^ {0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[^\n`]*)\n(?P<code>.*?)(?:^ {0,3}(?P=mark)[`~]*[ \t]*$|\Z)"
    r"|(?:^(?: {4}|\t)[^\n]*\S[^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.DOTALL,
)
"""A fenced block, or lines that are indented by four."""
_PROMPT: Final = re.compile(r"^\s*\$ \S")
_PROGRAMS: Final = frozenset({"make", "git", "curl", "wget", "pip", "pip3", "pipx", "uv", "npm", "npx", "yarn", "pnpm", "docker",
    "docker-compose", "podman", "kubectl", "helm", "cargo", "go", "python", "python3", "node", "ruby", "bundle", "java", "mvn",
    "gradle", "apt", "apt-get", "brew", "sudo", "ssh", "scp", "rsync", "psql", "redis-cli", "terraform", "ansible", "aws",
    "gcloud", "az", "systemctl", "journalctl", "cd", "ls", "cp", "mv", "mkdir", "export", "echo", "cat", "tar", "chmod", "grep",
    "pytest", "tox", "cortex", "bash", "sh", "./configure", "cmake", "ninja", "bazel"})  # fmt: skip
_STARTS: Final = re.compile(r"^(?:\w+=\S*\s+)*([\w./~-]+)")


@dataclass(frozen=True)
class Command:
    """A block of commands: its id's last part (a hash of what it says), its title and its text with the words before it."""

    key: str
    title: str
    text: str


def find_commands(document: Document) -> Iterator[Command]:
    """Yield the shell blocks of a document, each once: fenced ones of a shell, and others that hold nothing but commands."""
    seen = set()
    for part in document.parts:
        title = title_of(part, document.title)
        for lead, block in _blocks(part.text):
            text = f"{_last_words(lead)}\n\n{block[:COMMAND_CHARS]}".strip()
            key = hashlib.sha256(f"{title}\x1e{text}".encode()).hexdigest()[:16]
            if key not in seen:
                seen.add(key)
                yield Command(key, title, text)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield (words before, commands) of each block that holds commands."""
    before = 0
    for match in _BLOCK.finditer(text):
        lead = " ".join(text[before : match.start()].split())
        before = match.end()
        block = match["code"] if match["mark"] else re.sub(r"^(?: {4}|\t)", "", match[0], flags=re.MULTILINE)
        if _is_shell((match["language"] or "").strip().lower(), block.splitlines()):
            yield lead, block.strip("\n")


def _last_words(lead: str) -> str:
    """Return the last sentences of a text that fit LEAD_CHARS, or its last words."""
    if len(lead) <= LEAD_CHARS:
        return lead
    cut = lead[-LEAD_CHARS:]
    start = re.search(r"(?<=[.!?:])\s+(?=\S)", cut[: -LEAD_CHARS // 4]) or re.search(r"\s", cut)
    return cut[start.end() :] if start else cut


def _is_shell(language: str, block: list[str]) -> bool:
    lines = [line for line in block if line.strip()]
    if not lines:
        return False
    name = re.split(r"[\s{,]", language, maxsplit=1)[0]
    if name:
        return name in _SHELLS
    own = [line for line in lines if not line.startswith((" ", "\t", "#"))]  # the others go on, or comment
    return bool(own) and all(_is_command(line) for line in own)


def _is_command(line: str) -> bool:
    if _PROMPT.match(line):
        return True
    start = _STARTS.match(line)
    return start is not None and (
        start[1] in _PROGRAMS or bool(re.match(r"^\.{0,2}/?(?:[\w.-]+/)*bin/\w|^\./\w", start[1]))
    )
