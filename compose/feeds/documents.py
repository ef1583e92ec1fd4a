"""Find and read documents in a folder: what is taken, and what is skipped and why."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

from compose.feeds.markdown import Part, document_title, split_document
from schemas import limits

FILE_BYTES = 8 * 1024 * 1024  # a longer text is rather data than a document; it is reported, not cut
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
    """A read document. ``path`` is relative to the feed's root, with forward slashes."""

    path: str
    parts: tuple[Part, ...]
    modified_at: datetime
    hash: str
    is_decision: bool
    title: str


def find_documents(root: Path, include: tuple[str, ...] = ()) -> Iterator[Document | Skipped]:
    """Yield the documents below a folder (or the one file), by path. Hidden ones are left out; links are not followed."""
    for path, relative in _files(root):
        if include and not any(fnmatch(relative, pattern) or fnmatch(path.name, pattern) for pattern in include):
            continue
        if path.suffix.lower() not in SUFFIXES and not (not path.suffix and path.name.lower() in BARE_NAMES):
            continue
        yield read_document(path, relative)


def read_document(path: Path, relative: str) -> Document | Skipped:  # noqa: PLR0911 - one return a reason
    """Read one file as UTF-8 text and split it."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES:
            return Skipped(relative, f"larger than {FILE_BYTES // 1024 // 1024} MB")
        text = path.read_bytes().decode("utf-8-sig")
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except UnicodeDecodeError:
        return Skipped(relative, "not UTF-8 text")
    except OSError as error:
        return Skipped(relative, f"cannot be read: {error.strerror}")
    if "\x00" in text:
        return Skipped(relative, "binary")
    parts = tuple(split_document(text))
    if not parts:
        return Skipped(relative, "empty")
    if len(parts) > limits.DOCUMENT_PARTS:
        return Skipped(relative, f"more than {limits.DOCUMENT_PARTS} parts")
    title = document_title(text, path.stem)
    return Document(relative, parts, modified, document_hash(parts), _is_decision(relative, parts), title)


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
