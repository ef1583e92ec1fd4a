"""Who works where: people, modules and the repository as entities, and how strongly a person touches a module.

A touch grows with the commits and is bounded by 1; a commit of very many files (an import, a reformatting) says nothing
about who knows them. What is declared is compared with what was declared last, so only changes are published.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from compose.feeds.git_log import Commit
from compose.feeds.git_people import People
from compose.feeds.git_units import module_id
from schemas import limits

KEPT_SHARE: Final = 0.8  # a touch weighs 1 - 0.8^commits: 0.2 for one, 0.67 for five, 0.99 for twenty
FILES_TOUCHED: Final = 100  # a commit of more files touches none of them in particular
MODULES: Final = 5_000  # declared, those with the most commits: names beyond are seldom asked for
TOUCHES: Final = 200_000  # pairs kept in memory, about 30 MB; beyond, those of a single commit are forgotten


class Declaration(NamedTuple):
    """An entity or relation as it should be declared: a key that names it, event data, and how many commits are behind it."""

    key: str
    kind: str
    data: dict[str, Any]
    commits: int


class Declared(NamedTuple):
    """What was declared last: revision and digest of the content; ``digest`` empty: it was retracted."""

    revision: int
    digest: str


@dataclass
class Tally:
    """Commits by person and module, along renames and deletions."""

    people: People = field(default_factory=People)
    touches: dict[str, Counter[str]] = field(default_factory=dict)
    pairs: int = 0

    def count(self, commit: Commit, persons: Collection[str]) -> None:
        """Count one commit for its authors. Of the oldest commit of a shallow clone, pass one without its files."""
        for person in persons:
            self.people.known[person].commits += 1
        for change in commit.files:
            if change.status == "D":
                self._drop(change.path)
            elif change.status == "R" and change.old is not None:
                self._move(change.old, change.path)
        if commit.file_count > FILES_TOUCHED:
            return
        for change in commit.files:
            if change.status != "D" and not change.is_submodule:
                self._touch(change.path, persons)
        if self.pairs > TOUCHES:
            self._forget_single()

    def _touch(self, path: str, persons: Collection[str]) -> None:
        by = self.touches.setdefault(path, Counter())
        before = len(by)
        by.update(persons)
        self.pairs += len(by) - before

    def _drop(self, path: str) -> None:
        self.pairs -= len(self.touches.pop(path, ()))

    def _move(self, old: str, new: str) -> None:
        moved = self.touches.pop(old, None)
        if moved is not None:
            self._drop(new)
            self.touches[new] = moved

    def _forget_single(self) -> None:
        kept = {path: Counter({who: n for who, n in by.items() if n > 1}) for path, by in self.touches.items()}
        self.touches = {path: by for path, by in kept.items() if by}
        self.pairs = sum(map(len, self.touches.values()))

    def dump(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {"people": self.people.dump(), "touches": self.touches}

    @classmethod
    def load(cls, kept: dict[str, Any]) -> "Tally":
        """Read what `dump` returned. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        touches = {
            str(path): Counter({str(who): int(n) for who, n in by.items()}) for path, by in kept["touches"].items()
        }
        return cls(People.load(kept["people"]), touches, sum(map(len, touches.values())))


def declarations(tally: Tally, present: Collection[str], feed: str) -> Iterator[Declaration]:
    """Yield what should be declared now: the repository, its people, its modules that still exist, and who touches them."""
    project = f"project-{quote(feed, safe='')}"
    yield Declaration(project, "entity", {"id": project, "type": "project", "name": feed}, 1)
    for person in sorted(tally.people.known.values(), key=lambda one: one.id):
        if person.commits:
            data = {"id": person.id, "type": "person", "name": person.names[0], "aliases": person.names[1:]}
            yield Declaration(person.id, "entity", data, person.commits)
            yield _relation(person.id, "works_on", project, person.commits)
    totals = {path: by.total() for path, by in tally.touches.items() if path in present}
    chosen = sorted(totals, key=lambda path: (-totals[path], path))[:MODULES]
    named = Counter(PurePosixPath(path).name for path in chosen)
    for path in sorted(chosen):
        name = PurePosixPath(path).name
        aliases = [name] if named[name] == 1 and name != path and "." in name else []
        module = module_id(feed, path)
        shown = path if len(path) <= limits.NAME_CHARS else "…" + path[1 - limits.NAME_CHARS :]
        data = {
            "id": module,
            "type": "module",
            "name": shown,
            "aliases": [alias[: limits.NAME_CHARS] for alias in aliases],
        }
        yield Declaration(module, "entity", data, totals[path])
        for person_id, commits in sorted(tally.touches[path].items()):
            yield _relation(person_id, "touches", module, commits)


def weight_of(commits: int) -> float:
    """Return how strongly so many commits tie a person to a module or repository; in [0.2, 1]."""
    return min(1.0, round(1 - KEPT_SHARE**commits, 2))


def changes(wanted: Iterator[Declaration], declared: dict[str, Declared]) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield (event type, data, revision) of what differs from what was declared, which is updated as events are taken.

    Revisions rise whatever becomes of the counts: at least the commits behind a declaration, so that the same history
    gives the same revisions without any memory, and more than the last.
    """
    seen = set()
    for one in wanted:
        seen.add(one.key)
        digest = _digest(one.data)
        last = declared.get(one.key)
        if last is not None and last.digest == digest:
            continue
        revision = max(one.commits, last.revision + 1 if last else 0)
        yield f"{one.kind}.declared", {**one.data, "revision": revision}, revision
        declared[one.key] = Declared(revision, digest)
    for key in sorted(set(declared) - seen):
        last = declared[key]
        if last.digest:
            kind, data = _retraction(key)
            yield f"{kind}.retracted", {**data, "revision": last.revision}, last.revision
            declared[key] = Declared(last.revision, "")


def _relation(source: str, relation: str, target: str, commits: int) -> Declaration:
    data = {"source_id": source, "relation": relation, "target_id": target, "weight": weight_of(commits)}
    return Declaration(f"{source} {relation} {target}", "relation", data, commits)


def _retraction(key: str) -> tuple[str, dict[str, Any]]:
    """Ids hold no white space: a key of three words names a relation."""
    parts = key.split(" ")
    if len(parts) == 1:
        return "entity", {"id": key}
    return "relation", {"source_id": parts[0], "relation": parts[1], "target_id": parts[2]}


def _digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
