"""Find and read documents in a folder: what is taken, and what is skipped and why."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from compose.feeds.markdown import Part, document_title, split_document, title_of
from compose.feeds.secrets import Withheld, secret_kinds
from schemas import limits

FILE_BYTES = 8 * 1024 * 1024  # a longer text is rather data than a document; it is reported, not cut
TOO_LARGE = f"larger than {FILE_BYTES // 1024 // 1024} MB"
SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".txt", ".rst", ".adoc"})
BARE_NAMES = frozenset(
    {"readme", "license", "licence", "changelog", "changes", "notice", "authors", "contributing", "news"}
)
DECISION_FOLDERS = frozenset({"adr", "adrs", "decisions"})
SEPARATOR = "\x1e"  # between parts when a document's hash is taken (schemas.events.DocumentCompletion)


@dataclass(frozen=True)
class Skipped:
    """A file that was not taken, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Document:
    """A read document. ``path`` is relative to the feed's root, with forward slashes. ``withheld``: parts with secrets."""

    path: str
    parts: tuple[Part, ...]
    modified_at: datetime
    hash: str
    is_decision: bool
    title: str
    withheld: tuple[Withheld, ...] = ()


def find_documents(root: Path, include: tuple[str, ...] = ()) -> Iterator[Document | Skipped]:
    """Yield the documents below a folder (or the one file), by path. Hidden ones are left out; links are not followed."""
    for path, relative in _files(root):
        if include and not any(fnmatch(relative, pattern) or fnmatch(path.name, pattern) for pattern in include):
            continue
        if is_document(path.name):
            yield read_document(path, relative)


def is_document(name: str) -> bool:
    """Say whether a file's name is one of a text: by suffix, or a bare README and its like."""
    path = PurePosixPath(name)
    return path.suffix.lower() in SUFFIXES or (not path.suffix and path.name.lower() in BARE_NAMES)


def read_document(path: Path, relative: str) -> Document | Skipped:
    """Read one file as UTF-8 text and split it."""
    try:
        if path.stat().st_size > FILE_BYTES:
            return Skipped(relative, TOO_LARGE)
        return parse_document(path.read_bytes(), relative, datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except OSError as error:
        return Skipped(relative, f"cannot be read: {error.strerror}")


def parse_document(content: bytes, relative: str, modified: datetime) -> Document | Skipped:
    """Split a document's bytes, which must be UTF-8 text. Parts that hold secrets are left out and named."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Skipped(relative, "not UTF-8 text")
    if "\x00" in text:
        return Skipped(relative, "binary")
    title = document_title(text, PurePosixPath(relative).stem)
    found = [(part, secret_kinds(part.text)) for part in split_document(text)]
    parts = tuple(part for part, kinds in found if not kinds)
    withheld = tuple(Withheld(f"{relative}: {title_of(part, title)}", kinds) for part, kinds in found if kinds)
    if not parts:
        return Skipped(relative, "every part holds a secret" if withheld else "empty")
    if len(parts) > limits.DOCUMENT_PARTS:
        return Skipped(relative, f"more than {limits.DOCUMENT_PARTS} parts")
    return Document(relative, parts, modified, document_hash(parts), _is_decision(relative, parts), title, withheld)


def document_hash(parts: tuple[Part, ...]) -> str:
    """Return the SHA-256 over the parts' texts, as ``document.completed`` states it."""
    return hashlib.sha256(SEPARATOR.join(part.text for part in parts).encode()).hexdigest()


def document_id(feed: str, relative: str) -> str:
    """Return the id of a document: the feed's name and the path, with what an id cannot hold percent-encoded.

    A path that is too long keeps its end and gets a hash of the whole.
    """
    made = f"{quote(feed, safe='')}/{quote(relative, safe='/')}"
    if len(made) <= 180:  # ids have 200 characters; the part's number needs some
        return made
    return f"{quote(feed, safe='')[:40]}/{hashlib.sha256(relative.encode()).hexdigest()[:16]}-{made[-100:].lstrip('/')}"


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    if root.is_file():
        yield root, root.name
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield path, path.relative_to(root).as_posix()


def _is_decision(relative: str, parts: tuple[Part, ...]) -> bool:
    """Tell an architecture decision record: by a folder of exactly that name, or by its headings."""
    folders = {folder.lower() for folder in relative.split("/")[:-1]}
    headings = {part.headings[-1].strip().lower() for part in parts if part.headings}
    return bool(folders & DECISION_FOLDERS) or {"status", "decision"} <= headings
