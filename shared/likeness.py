"""Misspellings and other spellings of names: guarded, because similar is not same (invariant 4)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import OSA

MIN_LENGTH: Final = 5  # at four letters every second name is one edit from another (plan A, W10)
ONE_EDIT_UP_TO: Final = 8  # one edit in five to eight letters, two above

_DIGITS: Final = re.compile(r"\d+(?:[.,-]\d+)*")
_NAME_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass(frozen=True)
class Misspelling:
    """Whose name is misspelt, and how sure that is, in (0, 1). Several ids: the nearest names are equally near."""

    entity_ids: tuple[str, ...]
    confidence: float


class MisspellingIndex:
    """Finds the declared key that another one misspells.

    Only keys of the same first letter, the same digits and nearly the same length are compared, so a look-up touches few.
    """

    def __init__(self, claims: Mapping[str, tuple[tuple[str, ...], str | None]]) -> None:
        """Take key → (ids of its claimants, type of the entity)."""
        self._claims = claims
        self._buckets: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
        for key in sorted(claims):
            if len(key) >= MIN_LENGTH - 1:
                self._buckets.setdefault((key[0], len(key), _digits(key)), []).append(key)

    def find(self, key: str) -> Misspelling | None:
        """Return the unique nearest declared name, or None. A tie between entities is returned as a tie."""
        if len(key) < MIN_LENGTH or not key.isprintable():
            return None
        limit = _limit(key)
        digits = _digits(key)
        found: dict[int, set[str]] = {}
        for length in range(len(key) - limit, len(key) + limit + 1):
            for name in self._buckets.get((key[0], length, digits), ()):
                ids, entity_type = self._claims[name]
                distance = misspelling_distance(key, name, person=entity_type == "person")
                if distance is not None:
                    found.setdefault(distance, set()).update(ids)
        if not found:
            return None
        nearest = min(found)
        confidence = round(0.95 * (1 - nearest / len(key)) - 0.05 * (nearest - 1), 4)
        return Misspelling(tuple(sorted(found[nearest])), confidence)


def misspelling_distance(key: str, name: str, *, person: bool = False) -> int | None:
    """Return the edits (with transpositions) that turn a declared name into the key, or None where they may be another name.

    Guards: at least five letters; one edit up to eight letters, two above; the same digits; first and last letter equal
    (inside and outside, import and export, alpha and alphb differ there); never two replaced letters (east, west).
    Names of persons are near each other (Hansen, Hanson; Marie, Maria): for them only a transposition or a doubled letter.
    """
    shorter = min(len(key), len(name))
    if shorter < MIN_LENGTH or key[0] != name[0] or key[-1] != name[-1] or _digits(key) != _digits(name):
        return None
    limit = _limit(key if len(key) == shorter else name)
    distance = OSA.distance(key, name, score_cutoff=limit)
    if distance > limit or distance == 0:
        return None
    slips = _slips(key, name)
    replaced = _replaced(key, name)
    if person:
        return distance if distance == 1 and slips else None
    if distance == 1:
        # Replacing a letter of a short word makes another word (cache, cachi): a slip, or a longer word.
        return 1 if slips or replaced == 0 or shorter > ONE_EDIT_UP_TO else None
    return distance if replaced < 2 else None


def _limit(word: str) -> int:
    return 1 if len(word) <= ONE_EDIT_UP_TO else 2


def _digits(key: str) -> tuple[str, ...]:
    return tuple(_DIGITS.findall(key))


def _replaced(key: str, name: str) -> int:
    return sum(first != second for first, second in zip(key, name, strict=True)) if len(key) == len(name) else 0


def _slips(key: str, name: str) -> bool:
    """Say whether the one edit is a slip of the hand: two neighbours changed places, or a letter doubled or not."""
    if len(key) == len(name):
        differing = [at for at, (first, second) in enumerate(zip(key, name, strict=True)) if first != second]
        if len(differing) != 2 or differing[1] != differing[0] + 1:
            return False
        left, right = differing
        return key[left] == name[right] and key[right] == name[left]
    longer, shorter = (key, name) if len(key) > len(name) else (name, key)
    at = next((i for i, char in enumerate(shorter) if char != longer[i]), len(shorter))
    return longer[at] == longer[at - 1]


def alias_candidates(surfaces: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of names that may be one person: alike but for a middle name that one of them leaves out.

    ``John Doe`` and ``John T. Doe`` are a pair, ``John S. Doe`` and ``John T. Doe`` never. A proposal for people to
    confirm: keys stay apart (`fold_key` keeps initials). Sorted; the order of the input does not matter.
    """
    groups: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for surface in sorted(set(surfaces)):
        words = [word.casefold() for word in _NAME_WORD.findall(surface)]
        if 2 <= len(words) <= 4 and len(words[0]) > 1 and len(words[-1]) > 1:
            groups.setdefault((words[0], words[-1]), {})[surface] = tuple(words[1:-1])
    return tuple(
        (plain, full) if plain < full else (full, plain)
        for _, names in sorted(groups.items())
        for plain, none in sorted(names.items())
        if not none
        for full, middle in sorted(names.items())
        if middle
    )
