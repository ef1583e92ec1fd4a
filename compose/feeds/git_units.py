"""A commit as a unit of knowledge: its message without what machines add, its kind, its main files, who and when."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from compose.feeds.documents import document_id
from compose.feeds.git_kinds import kind_of
from compose.feeds.git_log import Change, Commit
from compose.feeds.git_people import is_bot
from compose.feeds.secrets import secret_kinds
from schemas import limits

SUBJECT_CHARS_MIN: Final = 10  # "wip", "update": a shorter message without a body teaches nothing (plan A, 4.4)
TEXT_CHARS: Final = 8_000  # of a message: about 2,000 tokens; the rest is marked as cut
MAIN_FILES: Final = 8  # named in the text and tied to the unit; file_refs holds more
_KEYS: Final = (
    r"signed-off-by|co-authored-by|[a-z]+(?:-[a-z]+)*-by|change-id|cc|link|closes|refs?|see-also|git-svn-id|bug|issue|jira"
    r"|pr-url|reviewed-on|depends-on|commit-queue|tested-on|backport-of|ticket|task|stable|cr-commit-position|auto-submit"
)
_TRAILER: Final = re.compile(rf"^(?:(?:{_KEYS})(?::|\s#)|fixes:|\(cherry picked from commit )", re.IGNORECASE)
_CO_AUTHOR: Final = re.compile(
    r"^co-authored-by:\s*([^<\n]{0,200}?)\s*<([^<>\n]{1,200})>\s*$", re.IGNORECASE | re.MULTILINE
)
_MERGE: Final = re.compile(
    r"^Merge (?:(?:remote-tracking )?branch(?:es)?|pull request|tag|commit|remote|[0-9a-f]{7,40} into)\b"
    r"|^Merged in |^Merge \S+ into \S+$"
)
_AUTOSQUASH: Final = re.compile(r"^(?:fixup|squash|amend)! ")
_GENERATED: Final = re.compile(
    r"(?:^|/)(?:[^/]*lock(?:\.json|\.ya?ml)?|[^/]+\.(?:lock|min\.js|min\.css|map|snap|svg|png|jpg|gif|pdf|ico)|go\.sum)$"
    r"|(?:^|/)(?:vendor|node_modules|dist|__snapshots__)/",
    re.IGNORECASE,
)
_TEST: Final = re.compile(r"(?:^|/)(?:tests?|spec|__tests__)/|(?:^|/)test_[^/]+$|[._](?:test|spec)\.[^/.]+$")


@dataclass(frozen=True)
class Message:
    """What a commit says: its subject, its body without trailers, and who wrote it beside the author (name, address)."""

    subject: str
    body: str
    co_authors: tuple[tuple[str, str], ...]
    is_cut: bool


def read_message(commit: Commit) -> Message:
    """Read a commit's message. Trailers, conflict lists and a merge's list of commits are left out."""
    subject, _, rest = commit.message.strip().partition("\n")
    body = _without_trailers(rest.strip("\n"))
    if is_merge(commit):
        body = _without_lists(body)
    room = max(0, TEXT_CHARS - len(subject))
    co_authors = tuple((" ".join(name.split()), email.lower()) for name, email in _CO_AUTHOR.findall(rest[-20_000:]))
    return Message(subject.strip()[:TEXT_CHARS], body[:room].rstrip(), co_authors, len(body) > room)


def reason_to_skip(commit: Commit, message: Message) -> str | None:
    """Return why a commit is no knowledge, or None."""
    if is_merge(commit) and not message.body:
        return "merge"
    if _AUTOSQUASH.match(message.subject):
        return "to be squashed"
    if (
        not message.body
        and len(message.subject) < SUBJECT_CHARS_MIN
        and not any(ord(c) > 0x2E80 for c in message.subject)
    ):
        return "too short"  # four Chinese characters say what ten Latin letters do
    return None


def secrets_in(commit: Commit) -> tuple[str, ...]:
    """Return the kinds of secrets in a commit's message and paths."""
    return secret_kinds(commit.message, *(change.path for change in commit.files))


def is_merge(commit: Commit) -> bool:
    """Say whether a commit joins histories; a rebased one has lost its second parent and kept its subject."""
    return len(commit.parents) > 1 or bool(_MERGE.match(commit.message))


def commit_unit(
    commit: Commit, message: Message, *, feed: str, scope: str, revision: int, creator: str | None
) -> dict[str, Any]:
    """Return the unit of a commit, a pure function of it. ``creator``: the author's entity, None for a bot."""
    level, _, entity_id = scope.partition("/")
    main = main_files(commit.files)
    subject = message.subject
    if is_merge(commit) and message.body:  # a pull request's title is the body's first line
        subject = message.body.partition("\n")[0]
    paths = [change.path for change in commit.files if 0 < len(change.path) <= 500]
    unit: dict[str, Any] = {
        "id": unit_id(feed, commit.sha),
        "text": _text(message, main, commit.file_count),
        "type": kind_of(subject, message.body, [change.path for change in commit.files]).value,
        "scope": {"level": level, "entity_id": entity_id},
        "origin": {"source_type": "git_commit", "source_ref": commit.sha},
        "entity_links": [{"entity_id": module_id(feed, path), "weight": 0.5} for path in main],
        "revision": revision,
        "project": feed,
        "file_refs": list(dict.fromkeys(paths))[: limits.FILE_REFS],
        "metadata": _metadata(commit, message),
    }
    if commit.at is not None:
        unit["occurred_at"] = commit.at.isoformat()
    if creator is not None:
        unit["origin"]["creator_entity_id"] = creator
    else:
        unit["agent"] = commit.author[:100] or "bot"
    return unit


def main_files(files: Sequence[Change]) -> list[str]:
    """Return the paths that say most about a commit: sources before tests before what is generated or hidden, ties by path."""
    ranked = sorted({change.path for change in files if change.path}, key=lambda path: (_rank(path), path))
    return ranked[:MAIN_FILES]


def unit_id(feed: str, sha: str) -> str:
    """Return the id of a commit's unit."""
    return f"{quote(feed, safe='')}/{sha}"


def module_id(feed: str, path: str) -> str:
    """Return the id of a file's module: feed and path, shortened with a hash where it is too long."""
    return document_id(feed, "/".join(part for part in path.split("/") if part))


def _metadata(commit: Commit, message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"author": commit.author[: limits.NAME_CHARS], "files": commit.file_count}
    told |= {"merge": True} if is_merge(commit) else {}
    told |= {"bot": True} if is_bot(commit.author, commit.email) else {}
    return told | ({"cut": True} if message.is_cut else {})


def _text(message: Message, main: Sequence[str], count: int) -> str:
    parts = [message.subject, message.body + (" …" if message.is_cut else "")]
    if main:
        more = count - len(main)
        parts.append(f"Files: {', '.join(path[:300] for path in main)}{f' and {more} more' if more > 0 else ''}")
    return "\n\n".join(part for part in parts if part.strip())


def _without_trailers(body: str) -> str:
    """Drop the last paragraphs while they hold nothing but trailers and their continuation lines."""
    paragraphs = re.split(r"\n[ \t]*\n", body.strip())
    while paragraphs and _is_trailers(paragraphs[-1]):
        paragraphs.pop()
    return "\n\n".join(paragraphs).strip()


def _is_trailers(paragraph: str) -> bool:
    lines = [line for line in paragraph.splitlines() if line.strip()]
    return all(_TRAILER.match(line) or line[:1] in {" ", "\t"} for line in lines) and not paragraph[:1].isspace()


def _without_lists(body: str) -> str:
    """Drop a merge's list of conflicts and its list of merged commits."""
    kept, listing = [], False
    for line in body.splitlines():
        if re.match(r"^#|^(?:# )?Conflicts:|^\* (?:.+:|[0-9a-f]{7,40} )", line) or (
            listing and line[:1] in {" ", "\t"}
        ):
            listing = True
            continue
        listing = listing and not line.strip()
        kept.append(line)
    return "\n".join(kept).strip()


def _rank(path: str) -> int:
    if _GENERATED.search(path) or path.startswith("."):
        return 2
    return 1 if _TEST.search(path) else 0
