"""Shell commands in documents, each with the words that lead to it: what people look for when they ask how to run a thing."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compose.feeds.documents import Document
from compose.feeds.markdown import FENCE, title_of

COMMAND_CHARS: Final = 4_000  # of one block; a longer one is a program
LEAD_CHARS: Final = 400
_SHELLS: Final = frozenset(
    {"sh", "bash", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "fish"}
)
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
            text = f"{lead[-LEAD_CHARS:]}\n\n{block[:COMMAND_CHARS]}".strip()
            key = hashlib.sha256(f"{title}\x1e{text}".encode()).hexdigest()[:16]
            if key not in seen:
                seen.add(key)
                yield Command(key, title, text)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield (paragraph before, commands). Blank lines end an indented block and a paragraph, but not a fenced block."""
    lead: list[str] = []
    block: list[str] = []
    fence: re.Match[str] | None = None
    for line in [*text.splitlines(), ""]:
        marker = FENCE.match(line)
        if fence is not None:
            if marker and marker[1][0] == fence[1][0] and len(marker[1]) >= len(fence[1]):
                if _is_shell(fence.string[fence.end() :].strip().lower(), block):
                    yield " ".join(lead), "\n".join(block)
                fence, block = None, []
            else:
                block.append(line)
            continue
        if block and not line.startswith("    "):
            if _is_shell("", block):
                yield " ".join(lead), "\n".join(block)
            block = []
        if marker:
            fence = marker
        elif line.startswith("    ") and line.strip():
            block.append(line[4:])
        elif line.strip():
            lead = [*lead[-5:], line.strip()] if lead and lead[-1] else [line.strip()]
        elif lead and lead[-1]:
            lead = [*lead, ""]


def _is_shell(language: str, block: list[str]) -> bool:
    lines = [line for line in block if line.strip()]
    if not lines:
        return False
    name = re.split(r"[\s{,]", language, maxsplit=1)[0]
    return name in _SHELLS or (not name and all(_is_command(line) for line in lines))


def _is_command(line: str) -> bool:
    """Say whether a line is a command, a comment, or goes on from one before it."""
    if _PROMPT.match(line) or line.lstrip().startswith("#") or line.startswith((" ", "\t")):
        return True
    start = _STARTS.match(line)
    return start is not None and (
        start[1] in _PROGRAMS or bool(re.match(r"^\.{0,2}/?(?:[\w.-]+/)*bin/\w|^\./\w", start[1]))
    )
