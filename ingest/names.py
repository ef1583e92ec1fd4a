"""Whether two names may mean one thing, by how they are written and by what is declared."""

from collections.abc import Callable
from typing import Final

from ingest.vocabulary import NAME_FILLERS
from shared.identity import fold_key
from shared.text import fold, strip_accents

SameEntity = Callable[[str, str], bool]
"""Whether two names resolve to one declared entity."""

NICKNAME: Final = 3
"""Letters in which the short form of a name agrees with the long one: 'Ben' and 'Benjamin'."""


def may_be_one(name: str, other: str, same_entity: SameEntity) -> bool:
    """Say whether two names may mean one thing: declared so, spelling variants, initials, or one within the other."""
    if fold_key(name) == fold_key(other) or same_entity(name, other):
        return True
    ours, theirs = _parts(name), _parts(other)
    if not ours or not theirs:
        return True
    return (
        _within(ours, theirs)
        or _within(theirs, ours)
        or _initials(name) == _letters(other)
        or _initials(other) == _letters(name)
    )


def _within(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    return all(any(_short_for(part, other) for other in theirs) for part in ours)


def _short_for(part: str, other: str) -> bool:
    if any(character.isdigit() for character in part + other):
        return part == other
    short = min(len(part), len(other))
    return (
        part == other or (short >= NICKNAME and part[:short] == other[:short]) or (short == 1 and part[0] == other[0])
    )


def _parts(name: str) -> tuple[str, ...]:
    words = strip_accents(fold(name)).replace(".", " ").replace("-", " ").split()
    return tuple(word for word in words if word not in NAME_FILLERS)


def _initials(name: str) -> str:
    return "".join(part[0] for part in _parts(name))


def _letters(name: str) -> str:
    return fold(name).replace(".", "").replace(" ", "")
