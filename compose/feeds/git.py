"""``cortex feed git``: a repository's history, people, modules and documents as knowledge; a second run publishes only changes.

One walk, oldest commit first: each commit becomes a unit or is skipped with a reason, and is counted for its authors and
files. Then people, modules and touches are declared where they changed, and documents published. When the history only
grew, the walk begins after the last tip; when it was rewritten, everything is walked and what no ref reaches any more is
retracted. Ids are made of commits, so sending anything again changes nothing.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import quote

from pydantic import ValidationError

from compose.feeds.docs import Feed, Manifest, Outcome, Service
from compose.feeds.documents import Skipped
from compose.feeds.git_command import Git
from compose.feeds.git_docs import DocumentFeed, forget_documents, is_fed, is_vendored, read_tree
from compose.feeds.git_graph import Tally, changes, declarations
from compose.feeds.git_log import Commit, read_commits, window
from compose.feeds.git_people import is_bot
from compose.feeds.git_state import EDITIONS, RULES, GitState
from compose.feeds.git_units import Message, commit_unit, read_message, reason_to_skip, secrets_in, unit_id
from compose.feeds.secrets import Withheld
from schemas import limits
from schemas.events import parse_event
from schemas.positions import Position
from schemas.status import Accepted
from shared.errors import Fault, InvalidInput

BATCH: Final = 200  # events in one call: progress moves, and what a cut-off run repeats is little
NAMED: Final = 1_000  # withheld and refused commits that are listed; beyond, they are counted
FEED_CHARS: Final = 100  # of a feed's encoded name: ids hold it and a commit's hash

_SINCE: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,5}[ .](?:hour|day|week|month|year)s?(?:[ .]ago)?"
)
"""git itself takes any word for a date, and reads it as now."""

Publish = Callable[[Iterator[dict[str, Any]]], list[Accepted]]


class Progress(Protocol):
    """Is told how far the walk is."""

    def __call__(self, done: int, total: int) -> None:
        """Take commits handled and commits in all."""
        ...


@dataclass(frozen=True)
class GitFeed(Feed):
    """Where the history goes, and which part of it: ``since`` and ``limit`` narrow what is walked, ``ref`` names its end."""

    ref: str = "HEAD"
    since: str | None = None
    limit: int | None = None
    documents: bool = True

    @property
    def source(self) -> str:
        """The CloudEvents source of the feed."""
        return f"urn:cortex:feed:git:{quote(self.name, safe='')}"


@dataclass
class GitOutcome:
    """What one run did. ``accepted``: of each partition the last event, enough to wait for all."""

    tip: str | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    known: int = 0
    repeated: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    withheld: list[Withheld] = field(default_factory=list)
    withheld_commits: int = 0
    refused: list[Skipped] = field(default_factory=list)
    retracted: int = 0
    declared: Counter[str] = field(default_factory=Counter)
    documents: Outcome = field(default_factory=Outcome)
    commands: int = 0
    events: int = 0
    notes: list[str] = field(default_factory=list)
    accepted: dict[tuple[str, int], Accepted] = field(default_factory=dict)

    @property
    def published(self) -> int:
        """Commits that were published and not known before."""
        return self.kinds.total() - self.repeated


def tip_of(git: Git, ref: str) -> str | None:
    """Return the commit that a ref names; None while the repository has no commits. Raises InvalidInput for no such ref."""
    if git.succeeds("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"):
        return git.text("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    if ref == "HEAD":
        return None
    raise InvalidInput(faults=(Fault("ref", f"{ref!r} names no commit of this repository"),))


def feed_git(
    git: Git,
    feed: GitFeed,
    state: GitState,
    manifest: Manifest,
    *,
    service: Service,
    publish: Publish,
    progress: Progress,
) -> GitOutcome:
    """Publish what a repository's history says that was not published before, and retract what is gone.

    Raises InvalidInput, GitFailed and DeadlineExceeded; what was accepted until then stays, and the next run goes on.
    """
    if len(quote(feed.name, safe="")) > FEED_CHARS:
        raise InvalidInput(
            faults=(Fault("name", "the feed's name is too long", f"{FEED_CHARS} characters when encoded"),)
        )
    if feed.since is not None and not _SINCE.fullmatch(feed.since.strip()):
        raise InvalidInput(faults=(Fault("since", f"{feed.since!r} is no date", "2026-03-01, or '6 months ago'"),))
    return _Run(git, feed, state, manifest, service, publish, progress).run()


@dataclass
class _Run:
    """One run; its parts in the order in which they are called."""

    git: Git
    feed: GitFeed
    state: GitState
    manifest: Manifest
    service: Service
    publish: Publish
    progress: Progress
    outcome: GitOutcome = field(default_factory=GitOutcome)
    dates: dict[str, datetime] = field(default_factory=dict)
    unwanted: set[bytes] = field(default_factory=set)

    def run(self) -> GitOutcome:
        tip = self.outcome.tip = tip_of(self.git, self.feed.ref)
        if tip is None:
            self.outcome.notes.append("the repository has no commits yet")
            return self.outcome
        boundary = self._shallow()
        revisions, known = self._plan(tip, boundary)
        if known is None and self.state.tip == tip:
            self.outcome.documents.unchanged.extend(self.state.blobs)
            return self.outcome
        total = int(self.git.text("rev-list", "--count", *window(self.feed.since, self.feed.limit), *revisions, "--"))
        self._walk(revisions, known, boundary, total)
        if known:
            self._retract_vanished(tip, is_shallow=bool(boundary))
        self._declare(tip)
        if self.feed.documents:
            self._feed_documents(tip)
        self.state.tip = tip
        self.state.save()
        return self.outcome

    def _shallow(self) -> frozenset[str]:
        """Return the commits where a shallow clone's history is cut off; empty for a whole one."""
        if self.git.text("rev-parse", "--is-shallow-repository") != "true":
            return frozenset()
        self.outcome.notes.append("a shallow clone: what lies before it is not known, and nothing is retracted")
        return frozenset(self.git.lines_of("shallow"))

    def _plan(self, tip: str, boundary: frozenset[str]) -> tuple[list[str], dict[bytes, int] | None]:
        """Return what to walk, and what of it was published, or None when only what is new is walked."""
        state = self.state
        self._check_repository()
        narrow: list[Any] = [self.feed.since, self.feed.limit, self.feed.documents]
        cut = ",".join(sorted(boundary))
        same = (state.window, state.shallow, state.scope, state.rules) == (narrow, cut, self.feed.scope, RULES)
        if state.tip and same and self.git.succeeds("merge-base", "--is-ancestor", state.tip, tip):
            return [tip, f"^{state.tip}"], None
        known = state.published()
        if not state.is_new and (state.scope, state.rules) != (self.feed.scope, RULES):
            state.edition = max(state.edition + 1, RULES * EDITIONS)
            forget_documents(state, self.manifest)
        state.tip, state.window, state.shallow, state.scope, state.rules = None, narrow, cut, self.feed.scope, RULES
        state.tally = Tally()
        if state.is_new:
            self._recover_edition(tip)
        state.repository = self.git.root
        state.save()
        return [tip], known

    def _check_repository(self) -> None:
        """Refuse a feed's name that belongs to another repository: all of that one would seem to have vanished."""
        state, here = self.state, self.git.root
        if state.repository in {"", here} or (
            state.tip and self.git.succeeds("cat-file", "-e", f"{state.tip}^{{commit}}")
        ):
            return
        words = f"the feed {self.feed.name!r} belongs to another repository ({state.repository}): give this one another --name"
        raise InvalidInput(faults=(Fault("name", words),))

    def _recover_edition(self, tip: str) -> None:
        """Ask the service once where a lost state's units stood, so that a new scope gets a higher revision."""
        held = next(filter(None, map(self._held, self._first_commits(tip))), None)
        if held is not None:
            scope = f"{held['scope']['level']}/{held['scope']['entity_id']}"
            revision = int(held.get("revision") or 0)
            self.state.edition = max(self.state.edition, revision + (scope != self.feed.scope))

    def _first_commits(self, tip: str) -> Iterable[str]:
        roots = self.git.text("rev-list", "--max-parents=0", tip).split()[:2]
        return [tip, *roots]

    def _held(self, sha: str) -> dict[str, Any] | None:
        known = self.service.find(f"/v1/units/{unit_id(self.feed.name, sha)}")
        return known["unit"] if known else None

    def _walk(self, revisions: list[str], known: dict[bytes, int] | None, boundary: frozenset[str], total: int) -> None:
        feed = self.feed
        commits = read_commits(self.git, revisions, since=feed.since, limit=feed.limit)
        done = 0
        self.progress(done, total)
        while batch := list(itertools.islice(commits, BATCH)):
            events, accepted = [], []
            for commit in batch:
                event = self._event_of(
                    replace(commit, files=(), file_count=0) if commit.sha in boundary else commit, known
                )
                if event is not None:
                    events.append(event)
                    accepted.append((commit.sha, int(event["data"]["revision"])))
            self._send(events, commits=True)
            self.state.add_published(accepted)
            done += len(batch)
            self.progress(done, total)

    def _event_of(self, commit: Commit, known: dict[bytes, int] | None) -> dict[str, Any] | None:
        """Count a commit, and return its unit's event unless it is skipped, withheld, known or not to be had."""
        message = read_message(commit)
        persons = self._persons(commit, message.co_authors)
        self.state.tally.count(commit, persons)
        self._note_dates(commit)
        if self._is_left_out(commit, message):
            if known:
                self.unwanted.add(bytes.fromhex(commit.sha))
            return None
        revision = max(self.state.edition, self.state.retracted.get(commit.sha, -1) + 1)
        if known is not None and known.get(bytes.fromhex(commit.sha)) == revision:
            self.outcome.known += 1
            return None
        creator = persons[0] if persons and not is_bot(commit.author, commit.email) else None
        unit = commit_unit(
            commit, message, feed=self.feed.name, scope=self.feed.scope, revision=revision, creator=creator
        )
        return self._checked(self._event("unit.asserted", f"{unit['id']}@{revision}", unit), commit.sha)

    def _persons(self, commit: Commit, co_authors: Iterable[tuple[str, str]]) -> list[str]:
        """Return the people behind a commit, its author first; bots are none."""
        authors = [(commit.author, commit.email), *co_authors]
        people = [self.state.tally.people.person_of(*one) for one in authors if not is_bot(*one) and any(one)]
        return list(dict.fromkeys(people))

    def _note_dates(self, commit: Commit) -> None:
        if self.feed.documents and commit.at is not None:
            self.dates.update((one.path, commit.at) for one in commit.files if is_fed(one.path))

    def _is_left_out(self, commit: Commit, message: Message) -> bool:
        """Say whether a commit is skipped or withheld, and note why."""
        reason = reason_to_skip(commit, message)
        if reason is not None:
            self.outcome.skipped[reason] += 1
            return True
        kinds = secrets_in(commit)
        if kinds:
            self._withhold(commit, kinds)
        return bool(kinds)

    def _withhold(self, commit: Commit, kinds: tuple[str, ...]) -> None:
        self.outcome.withheld_commits += 1
        if len(self.outcome.withheld) < NAMED:
            self.outcome.withheld.append(Withheld(commit.sha, kinds))

    def _checked(self, event: dict[str, Any], where: str) -> dict[str, Any] | None:
        """Return an event that the door will take; one bad event would turn its whole batch away."""
        try:
            parse_event(event)
        except ValidationError as error:
            fault = error.errors()[0]
            if len(self.outcome.refused) < NAMED:
                self.outcome.refused.append(Skipped(where, f"{'/'.join(map(str, fault['loc'][1:]))}: {fault['msg']}"))
            return None
        return event

    def _retract_vanished(self, tip: str, *, is_shallow: bool) -> None:
        """Withdraw commits that no ref reaches any more, and those that the rules let through once and no longer do.

        A branch that is merely not checked out stays.
        """
        known = self.state.published()
        gone = {} if is_shallow else dict(known)
        for line in self.git.stream("log", "-z", "--format=%H", "--all", tip, "--"):
            gone.pop(bytes.fromhex(line.decode("ascii").strip()), None)
        gone |= {sha: known[sha] for sha in self.unwanted & known.keys()}
        events = []
        for commit, revision in sorted(gone.items()):
            unit = unit_id(self.feed.name, commit.hex())
            data = {"id": unit, "revision": revision, "reason": "the commit is gone from the repository"}
            events.append(self._event("unit.retracted", f"{unit}@{revision}-", data))
            self.state.retracted[commit.hex()] = revision
            del known[commit]
        self._send_some(iter(events))
        self.outcome.retracted += len(events)
        if gone:
            self.state.replace_published(known)

    def _declare(self, tip: str) -> None:
        present = {entry.path for entry in read_tree(self.git, tip) if not is_vendored(entry.path)}
        wanted = declarations(self.state.tally, present, self.feed.name)
        found = changes(wanted, self.state.declared)
        while batch := list(itertools.islice(found, BATCH)):
            events = [
                self._checked(self._event(kind, _declaration_id(data, revision, kind), data), kind)
                for kind, data, revision in batch
            ]
            self._send([event for event in events if event is not None])
            for kind, data, _ in batch:
                self.outcome.declared[data.get("type") or data.get("relation") or kind] += 1

    def _feed_documents(self, tip: str) -> None:
        fallback = datetime.fromtimestamp(int(self.git.text("log", "-1", "--format=%ct", tip)), UTC)
        feeding = DocumentFeed(self.git, self.feed, self.state, self.manifest, self._send_some, self.dates, fallback)
        entries = (entry for entry in read_tree(self.git, tip) if is_fed(entry.path))
        self.outcome.documents = feeding.run(entries, self.service)
        self.outcome.commands = feeding.commands
        self.outcome.withheld.extend(self.outcome.documents.withheld)

    def _send_some(self, events: Iterator[dict[str, Any]]) -> list[Accepted]:
        while batch := list(itertools.islice(events, BATCH)):
            self._send(batch)
        return []

    def _send(self, events: list[dict[str, Any]], *, commits: bool = False) -> None:
        if not events:
            return
        for accepted in self.publish(iter(events)):
            position = Position.from_token(accepted.token)
            self.outcome.accepted[position.topic, position.partition] = accepted
            self.outcome.events += not accepted.duplicate
            self.outcome.repeated += commits and accepted.duplicate
        if commits:
            self.outcome.kinds.update(event["data"]["type"] for event in events)

    def _event(self, kind: str, event_id: str, data: dict[str, Any]) -> dict[str, Any]:
        envelope = {
            "specversion": "1.0",
            "id": _bounded(event_id),
            "source": self.feed.source,
            "tenant": self.feed.tenant,
        }
        return {**envelope, "type": kind, "data": data}


def _bounded(event_id: str) -> str:
    """Return an event's id within its limit: the beginning of a longer one gives way to a hash of the whole."""
    if len(event_id) <= limits.ID_CHARS:
        return event_id
    return f"{hashlib.sha256(event_id.encode()).hexdigest()[:16]}-{event_id[17 - limits.ID_CHARS :]}"


def _declaration_id(data: dict[str, Any], revision: int, kind: str) -> str:
    """Return the id of a declaration's event; a retraction has its declaration's revision and a sign of its own."""
    named = data.get("id") or f"{data['source_id']}:{data['relation']}:{data['target_id']}"
    return f"{named}@{revision}{'-' if kind.endswith('retracted') else ''}"
