"""The documents that a repository holds at a commit: parts by heading, decision records as decisions, shell blocks as commands.

What is published is what is committed: nothing untracked, nothing half-written. A document whose content's hash is the
one that was published is not even read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from compose.feeds.commands import find_commands
from compose.feeds.docs import EMPTY_HASH, Feed, Manifest, Outcome, Publish, Published, Service, feed_documents
from compose.feeds.documents import FILE_BYTES, TOO_LARGE, Document, Skipped, document_id, is_document, parse_document
from compose.feeds.git_command import Git
from compose.feeds.git_log import decode_path
from compose.feeds.git_state import GitState

VENDORED: Final = frozenset({"node_modules", "bower_components", "vendor", "vendored", "third_party", "third-party"})
_FILES = frozenset({"100644", "100755"})
"""Modes of plain files: links and submodules are none."""


@dataclass(frozen=True)
class Entry:
    """A file at a commit. ``size`` in bytes."""

    path: str
    blob: str
    size: int


def read_tree(git: Git, revision: str) -> Iterator[Entry]:
    """Yield the plain files of a commit by path. Raises GitFailed, DeadlineExceeded."""
    for raw in git.stream("ls-tree", "-r", "-l", "-z", "--full-tree", revision):
        meta, _, path = raw.partition(b"\t")
        mode, kind, blob, size = meta.decode("ascii", "replace").split()
        if kind == "blob" and mode in _FILES:
            yield Entry(decode_path(path), blob, int(size) if size.isdecimal() else 0)


def is_fed(path: str) -> bool:
    """Say whether a path is a document's; hidden files and folders are left out, as in ``cortex feed docs``."""
    hidden = any(part.startswith(".") for part in path.split("/"))
    return is_document(path.rpartition("/")[2]) and not hidden and not is_vendored(path)


def is_vendored(path: str) -> bool:
    """Say whether a path lies in a folder of other people's work, which says nothing about this repository."""
    return not VENDORED.isdisjoint(path.lower().split("/")[:-1])


@dataclass
class DocumentFeed:
    """Feeds the documents of one commit. ``dates``: when they were last changed, as far as the history was read."""

    git: Git
    feed: Feed
    state: GitState
    manifest: Manifest
    publish: Publish
    dates: Mapping[str, datetime]
    fallback: datetime
    commands: int = 0

    def run(self, entries: Iterable[Entry], service: Service) -> Outcome:
        """Publish changed documents and their commands, retract vanished ones."""
        documents = self._documents(entries)
        outcome = feed_documents(documents, self.feed, self.manifest, service, self.publish, complete=True)
        for path in outcome.retracted:
            self.state.blobs.pop(path, None)
            self.publish(iter(self._retractions(path, set())))
        return outcome

    def _documents(self, entries: Iterable[Entry]) -> Iterator[Document | Skipped]:
        """Yield each document; once it is published or found unchanged, publish its commands."""
        for entry in entries:
            known = self.manifest.known.get(entry.path)
            if known is not None and self.state.blobs.get(entry.path) == entry.blob:
                yield Document(entry.path, (), self.fallback, known.hash, is_decision=False, title="")
                continue
            document = self._read(entry)
            yield document
            if isinstance(document, Document):
                events = self._commands(document)
                if events:
                    self.publish(iter(events))
                self.state.blobs[entry.path] = entry.blob

    def _read(self, entry: Entry) -> Document | Skipped:
        if entry.size > FILE_BYTES:
            return Skipped(entry.path, TOO_LARGE)
        modified = self.dates.get(entry.path, self.fallback)
        return parse_document(self.git.content(entry.blob), entry.path, modified.astimezone(UTC))

    def _commands(self, document: Document) -> list[dict[str, Any]]:
        """Return events of a document's commands: those that are new, and retractions of those that are gone.

        An id says what the command is, so a revision only counts how often it came back.
        """
        level, _, entity_id = self.feed.scope.partition("/")
        held = self.state.commands.setdefault(document.path, {})
        events, keys = [], set()
        for command in find_commands(document):
            keys.add(command.key)
            last = held.get(command.key, 0)
            if last > 0:
                continue
            held[command.key] = revision = 1 - last
            unit = self._unit(document.path, command.key)
            data = {
                "id": unit, "text": command.text, "title": command.title, "type": "command", "revision": revision,
                "scope": {"level": level, "entity_id": entity_id}, "occurred_at": document.modified_at.isoformat(),
                "origin": {"source_type": "document", "source_ref": document.path}, "project": self.feed.name,
            }  # fmt: skip
            events.append(self._event("unit.asserted", f"{unit}@{revision}", data))
            self.commands += 1
        return [*events, *self._retractions(document.path, keys)]

    def _retractions(self, path: str, kept: set[str]) -> list[dict[str, Any]]:
        """Return retractions of a document's commands but those kept. A negative revision notes one that is withdrawn."""
        held = self.state.commands.get(path, {})
        events = []
        for key in sorted(set(held) - kept):
            revision = held[key]
            if revision > 0:
                held[key] = -revision
                unit = self._unit(path, key)
                events.append(self._event("unit.retracted", f"{unit}@{revision}-", {"id": unit, "revision": revision}))
        return events

    def _unit(self, path: str, key: str) -> str:
        return f"{document_id(self.feed.name, path)[:170]}#c-{key}"

    def _event(self, kind: str, event_id: str, data: dict[str, Any]) -> dict[str, Any]:
        envelope = {"specversion": "1.0", "id": event_id[-200:], "source": self.feed.source, "tenant": self.feed.tenant}
        return {**envelope, "type": kind, "data": data}


def forget_documents(state: GitState, manifest: Manifest) -> None:
    """Let all documents and commands be published anew, with higher revisions: their scope has changed."""
    state.blobs.clear()
    for path, last in manifest.known.items():
        if last.hash != EMPTY_HASH:
            manifest.known[path] = Published(last.revision, "")
    for held in state.commands.values():
        held.update({key: -abs(revision) for key, revision in held.items()})
