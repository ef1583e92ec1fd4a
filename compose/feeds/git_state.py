"""What a git feed remembers of a repository between runs: two small files, which may be lost at the cost of sending again."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compose.feeds.git_graph import Declared, Tally

FORMAT: Final = 1
RULES: Final = 1  # counts up when texts, kinds or the rules on secrets change, so that all commits are published anew
EDITIONS: Final = 1_000  # revisions that one state of the rules has room for


@dataclass
class GitState:
    """Where the feed stands. ``tip``: all up to this commit was handled; None while a walk of everything is under way.

    ``edition``: revision of the units, counting up when the rules or the scope change. ``retracted``: by commit, the
    revision at which its unit was withdrawn. ``blobs`` and ``commands``: by document, its content's hash and the revisions
    of its command units.
    """

    path: Path
    repository: str = ""
    tip: str | None = None
    scope: str = ""
    rules: int = RULES
    edition: int = RULES * EDITIONS
    window: list[Any] = field(default_factory=list)
    shallow: str = ""
    tally: Tally = field(default_factory=Tally)
    declared: dict[str, Declared] = field(default_factory=dict)
    retracted: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    commands: dict[str, dict[str, int]] = field(default_factory=dict)
    is_new: bool = True

    @classmethod
    def load(cls, path: Path) -> "GitState":
        """Read the state; a missing or unreadable one is a new one."""
        state = cls(path)
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["format"] == FORMAT:
                plain = {name: kept[name] for name in _PLAIN}
                tally = Tally.load(kept["tally"])
                declared = {str(key): Declared(int(entry[0]), str(entry[1])) for key, entry in kept["declared"].items()}
                return cls(path, **plain, tally=tally, declared=declared, is_new=False)
        return state

    def save(self) -> None:
        """Write it in one step."""
        kept = {"format": FORMAT, "tally": self.tally.dump(), "declared": self.declared}
        _replace(self.path, [json.dumps(kept | {name: getattr(self, name) for name in _PLAIN})])
        self.is_new = False

    def published(self) -> dict[bytes, int]:
        """Return every published commit with its unit's revision: some 150 bytes each, needed only when all is walked."""
        known: dict[bytes, int] = {}
        with suppress(OSError), self._commits.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                with suppress(ValueError):
                    sha, revision = line.split()
                    known[bytes.fromhex(sha)] = int(revision)
        return known

    def add_published(self, commits: Iterable[tuple[str, int]]) -> None:
        """Note accepted commits at once: a run that is cut short goes on after them."""
        self._commits.parent.mkdir(parents=True, exist_ok=True)
        with self._commits.open("a", encoding="ascii") as file:
            file.writelines(f"{sha} {revision}\n" for sha, revision in commits)

    def replace_published(self, known: dict[bytes, int]) -> None:
        """Write the published commits anew, when some were withdrawn."""
        _replace(self._commits, (f"{sha.hex()} {revision}\n" for sha, revision in known.items()))

    @property
    def _commits(self) -> Path:
        return self.path.with_suffix(".commits")


_PLAIN: Final = (
    "repository", "tip", "scope", "rules", "edition", "window", "shallow", "retracted", "blobs", "commands",
)  # fmt: skip


def _replace(path: Path, texts: Iterable[str] | Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".new")
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(texts)
    draft.replace(path)
