"""The history as commits, oldest first, streamed: one commit in memory at a time, whatever bytes its message holds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from compose.feeds.git_command import Git, GitFailed

FILES_KEPT: Final = 1_000  # of one commit; an import of a whole tree is counted, not listed
RENAMES: Final = 200  # files compared for a rename in one commit: git's search grows with the square
_FORMAT: Final = "%H%x00%P%x00%aN%x00%aE%x00%aI%x00%cI%x00%B%x00"
_HEADER_FIELDS: Final = 6  # of _FORMAT, after the hash
_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SUBMODULE: Final = "160000"


@dataclass(frozen=True)
class Change:
    """One file of a commit: A added, M modified, D deleted, R renamed (from ``old``), C copied, T its type changed."""

    status: str
    path: str
    old: str | None = None
    is_submodule: bool = False


@dataclass(frozen=True)
class Commit:
    """One commit. ``at``: when it was authored, with its offset, or None where the repository holds no real date.

    Merges have no files: what they bring is in their parents. ``file_count`` counts also those over FILES_KEPT.
    """

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: datetime | None
    message: str
    files: tuple[Change, ...] = ()
    file_count: int = 0


@dataclass
class _Draft:
    """A commit while its fields come in."""

    header: list[bytes] = field(default_factory=list)
    files: list[Change] = field(default_factory=list)
    file_count: int = 0


def read_commits(
    git: Git, revisions: list[str], *, since: str | None = None, limit: int | None = None
) -> Iterator[Commit]:
    """Yield the commits of a range, parents before children; with ``limit`` its newest. Raises GitFailed, DeadlineExceeded."""
    options = [
        "--reverse",
        "--topo-order",
        "-z",
        "--raw",
        "--no-abbrev",
        "-M",
        f"-l{RENAMES}",
        "--no-ext-diff",
        "--no-color",
    ]
    fields = git.stream("log", *options, f"--format={_FORMAT}", *window(since, limit), *revisions, "--")
    yield from parse_log(fields)


def window(since: str | None, limit: int | None) -> list[str]:
    """Return the options that narrow a range."""
    return [*([f"--since={since}"] if since else []), *([f"--max-count={limit}"] if limit is not None else [])]


def parse_log(fields: Iterator[bytes]) -> Iterator[Commit]:
    """Read the fields of ``git log -z --raw`` in _FORMAT: a commit's header, then per file ``:modes hashes status`` and paths."""
    draft: _Draft | None = None
    for raw in fields:
        if draft is not None and len(draft.header) <= _HEADER_FIELDS:
            draft.header.append(raw)
            continue
        entry = raw.lstrip(b"\n")
        if draft is not None and entry.startswith(b":"):
            _add_change(draft, entry, fields)
        elif entry:
            if draft is not None:
                yield _commit(draft)
            if not _HASH.fullmatch(entry.decode("ascii", "replace")):
                raise GitFailed("git log wrote something that is no commit")
            draft = _Draft([entry])
    if draft is not None and len(draft.header) > _HEADER_FIELDS:
        yield _commit(draft)


def decode(raw: bytes) -> str:
    """Read bytes as UTF-8, or else as Windows' Latin letters, which any bytes are; control characters but breaks go."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", text.replace("\r\n", "\n").replace("\r", "\n"))


def decode_path(raw: bytes) -> str:
    """Read a path as one line of text: odd bytes become a sign, so that two odd paths may share a name, never break one."""
    return re.sub(r"[\x00-\x1f\x7f]", "\ufffd", raw.decode("utf-8", "replace"))


def _add_change(draft: _Draft, entry: bytes, fields: Iterator[bytes]) -> None:
    modes = entry.decode("ascii", "replace").split(" ")
    status = modes[-1][:1]
    path = decode_path(next(fields, b""))
    old = None
    if status in {"R", "C"}:
        old, path = path, decode_path(next(fields, b""))
    draft.file_count += 1
    if path and len(draft.files) < FILES_KEPT:
        draft.files.append(Change(status, path, old, _SUBMODULE in {modes[0].lstrip(":"), modes[1]}))


def _commit(draft: _Draft) -> Commit:
    sha, parents, author, email, authored, committed, message = draft.header
    return Commit(
        sha=sha.decode("ascii"),
        parents=tuple(parents.decode("ascii", "replace").split()),
        author=" ".join(decode(author).split()),
        email=decode(email).strip().lower(),
        at=_moment(authored) or _moment(committed),
        message=decode(message),
        files=tuple(draft.files),
        file_count=draft.file_count,
    )


def _moment(raw: bytes) -> datetime | None:
    """Read a strict ISO date; broken ones (the year 10000, an offset of 99 hours, 1970 for none) are no date."""
    try:
        at = datetime.fromisoformat(raw.decode("ascii"))
        return at if at.tzinfo and at.astimezone(UTC).timestamp() > 0 else None
    except (ValueError, OverflowError):
        return None
