"""Authors as people: one id a person, whatever names and addresses they commit with; bots are told from people.

Addresses never leave the machine: an id holds the beginning of a hash. An author is someone already seen with the same
address, or with the same full name (of two words or more: "root" and "dev" are many); else someone new. Commits are
read oldest first, so what is appended to a history never changes an id that was given. ``.mailmap`` is obeyed by git.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

from schemas import limits
from shared.identity import fold_key

ID_DIGITS: Final = 12  # 48 bits: ten thousand people meet with a chance of one in five million
_BOT: Final = re.compile(r"\[bot\]$|[-_]ro?bot$|^bot$|^bot[-_ ]", re.IGNORECASE)
_BOT_ADDRESS: Final = re.compile(r"\[bot\]@|[-_.+]bot@|^bot@|^(?:actions|action|noreply|no-reply)@github\.com$")
_BOTS: Final = frozenset({"dependabot", "dependabot-preview", "renovate", "renovate bot", "greenkeeper", "github actions",
    "github-actions", "github action", "github", "gitlab ci", "jenkins", "travis ci", "circleci", "pre-commit-ci",
    "allcontributors", "weblate", "hosted weblate", "mergify", "bors", "codecov", "imgbot", "snyk-bot", "web-flow", "pyup.io bot",
    "transifex", "automated", "autofix-ci"})  # fmt: skip


def is_bot(name: str, email: str) -> bool:
    """Say whether an author is a program. "Anna Bot" and "Talbot" are people."""
    return name.lower() in _BOTS or bool(_BOT.search(name) or _BOT_ADDRESS.search(email.lower()))


@dataclass
class Person:
    """Someone who commits: display name first, then the other names used; and how many commits."""

    id: str
    names: list[str] = field(default_factory=list)
    commits: int = 0


class People:
    """Everyone seen so far."""

    def __init__(self) -> None:
        self.known: dict[str, Person] = {}
        self._by_address: dict[str, str] = {}
        self._by_name: dict[str, str] = {}

    def person_of(self, name: str, email: str) -> str:
        """Return the id of an author, who is remembered with this name and address."""
        address = hashlib.sha256(email.lower().encode()).hexdigest()
        full = fold_key(name) if len(name.split()) > 1 else ""
        found = self._by_address.get(address) if email else None
        found = found or (self._by_name.get(full) if full else None)
        if found is None:
            seed = email.lower() or f"name:{fold_key(name)}"
            found = f"person-{hashlib.sha256(seed.encode()).hexdigest()[:ID_DIGITS]}"
        person = self.known.setdefault(found, Person(found))
        shown = (name or email.partition("@")[0] or "unknown")[: limits.NAME_CHARS]
        if shown not in person.names and len(person.names) <= limits.ALIASES:
            person.names.append(shown)
        if email:
            self._by_address.setdefault(address, found)
        if full:
            self._by_name.setdefault(full, found)
        return found

    def dump(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        people = [[person.id, person.names, person.commits] for person in self.known.values()]
        return {"people": people, "addresses": self._by_address, "names": self._by_name}

    @classmethod
    def load(cls, kept: dict[str, Any]) -> "People":
        """Read what `dump` returned. Raises KeyError, TypeError or ValueError for anything else."""
        people = cls()
        people.known = {str(one): Person(str(one), list(names), int(commits)) for one, names, commits in kept["people"]}
        people._by_address = dict(kept["addresses"])
        people._by_name = dict(kept["names"])
        return people
