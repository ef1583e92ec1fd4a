"""``cortex feed docs``: publish a folder's documents; a second run publishes only what changed."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from compose.feeds.documents import Document, Skipped, document_id, find_documents
from compose.feeds.markdown import title_of
from compose.feeds.secrets import Withheld
from schemas.status import Accepted

EMPTY_HASH = "0" * 64  # of a document without parts: nothing is compared


class Service(Protocol):
    """What the feed needs of a Cortex."""

    def find(self, path: str) -> Any | None:
        """Return the JSON of a resource, or None."""
        ...


Publish = Callable[[Iterator[dict[str, Any]]], list[Accepted]]


@dataclass(frozen=True)
class Feed:
    """Where the documents go: a name that begins their ids, and a tenant and scope."""

    name: str
    tenant: str
    scope: str

    @property
    def source(self) -> str:
        """The CloudEvents source of the feed."""
        return f"urn:cortex:feed:docs:{quote(self.name, safe='')}"


@dataclass
class Outcome:
    """What one run did."""

    published: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    parts: int = 0
    accepted: list[Accepted] = field(default_factory=list)


@dataclass(frozen=True)
class Published:
    """What the feed published of a document last: revision and content hash."""

    revision: int
    hash: str


class Manifest:
    """What was published, by path: a small file that saves asking the service. It may be lost without harm."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, Published] = {}
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            self.known = {name: Published(**entry) for name, entry in read.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self.known = {}

    def save(self) -> None:
        """Write it in one step."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.write_text(
            json.dumps({name: entry.__dict__ for name, entry in sorted(self.known.items())}), encoding="utf-8"
        )
        draft.replace(self._path)


def feed_docs(
    root: Path, feed: Feed, manifest: Manifest, service: Service, publish: Publish, *, include: tuple[str, ...] = ()
) -> Outcome:
    """Publish what changed below ``root`` since the last run, and retract what vanished.

    A document's revision is the time of publishing in milliseconds, or one more than the last: it rises whatever the
    files' times say. The manifest is written after each accepted document, so a run that was cut short goes on.
    """
    complete = not include and root.is_dir()
    return feed_documents(find_documents(root, include), feed, manifest, service, publish, complete=complete)


def feed_documents(
    documents: Iterable[Document | Skipped],
    feed: Feed,
    manifest: Manifest,
    service: Service,
    publish: Publish,
    *,
    complete: bool,
) -> Outcome:
    """Publish those documents that changed; ``complete``: what is not among them has vanished and is retracted."""
    outcome = Outcome()
    seen = set()
    for found in documents:
        if isinstance(found, Skipped):
            outcome.skipped.append(found)
            continue
        seen.add(found.path)
        outcome.withheld.extend(found.withheld)
        last = manifest.known.get(found.path) or _ask(service, document_id(feed.name, found.path))
        if last and last.hash == found.hash:
            manifest.known[found.path] = last
            outcome.unchanged.append(found.path)
            continue
        revision = _next_revision(last)
        outcome.accepted.extend(publish(document_events(found, feed, revision)))
        manifest.known[found.path] = Published(revision, found.hash)
        manifest.save()
        outcome.published.append(found.path)
        outcome.parts += len(found.parts)
    if complete:
        _retract_vanished(seen, feed, manifest, publish, outcome)
    manifest.save()
    return outcome


def document_events(document: Document, feed: Feed, revision: int) -> Iterator[dict[str, Any]]:
    """Yield a document's parts and its completion."""
    name = document_id(feed.name, document.path)
    level, _, entity_id = feed.scope.partition("/")
    for number, part in enumerate(document.parts):
        yield _event(
            feed,
            "unit.asserted",
            f"{name}@{revision}#{number}",
            {
                "id": f"{name}#{number}",
                "text": part.text,
                "type": "decision" if document.is_decision else "context",
                "scope": {"level": level, "entity_id": entity_id},
                "title": title_of(part, document.title),
                "document_id": name,
                "part": number,
                "revision": revision,
                "occurred_at": document.modified_at.isoformat(),
                "origin": {"source_type": "document", "source_ref": document.path},
                "metadata": {"document_hash": document.hash},
            },
        )
    yield _completed(feed, name, revision, len(document.parts), document.hash)


def _completed(feed: Feed, name: str, revision: int, parts: int, content: str) -> dict[str, Any]:
    data = {"id": name, "revision": revision, "parts": parts, "hash": content}
    return _event(feed, "document.completed", f"{name}@{revision}", data)


def _event(feed: Feed, kind: str, event_id: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": event_id[-200:],
        "source": feed.source,
        "tenant": feed.tenant,
        "type": kind,
        "data": data,
    }


def _retract_vanished(seen: set[str], feed: Feed, manifest: Manifest, publish: Publish, outcome: Outcome) -> None:
    skipped = {item.path for item in outcome.skipped}
    for path in sorted(set(manifest.known) - seen - skipped):
        last = manifest.known[path]
        if last.hash == EMPTY_HASH:
            continue
        revision = _next_revision(last)
        outcome.accepted.extend(
            publish(iter([_completed(feed, document_id(feed.name, path), revision, 0, EMPTY_HASH)]))
        )
        manifest.known[path] = Published(
            revision, EMPTY_HASH
        )  # kept: should the file come back, its revision must be higher
        outcome.retracted.append(path)


def _next_revision(last: Published | None) -> int:
    now = time.time_ns() // 1_000_000
    return max(now, last.revision + 1) if last else now


def _ask(service: Service, name: str) -> Published | None:
    """Return what the service holds of a document: the manifest may be lost or another machine's."""
    known = service.find(f"/v1/units/{quote(name + '#0', safe='/')}")
    if known is None:
        return None
    unit = known["unit"]
    content = unit.get("metadata", {}).get("document_hash")
    return Published(int(unit["revision"]), str(content)) if content and unit.get("revision") is not None else None
