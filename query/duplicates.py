"""Near-duplicates: the same thing said twice takes one place in an answer, and its sources are counted."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from query.fuse import Candidate
from shared.identity import differs_in_identifier
from shared.text import fold

SAME_WORDS: Final = 0.85
"""Share of words in common (of all words of both) from which two texts are near-duplicates."""

SAME_NEARNESS: Final = 0.05
"""Two texts whose cosine to each other is 0.95 or more differ by little in their cosine to any question; a larger
difference rules a duplicate out before any word is compared."""

_WORD: Final = re.compile(r"\w+|[<>=≤≥±+%$€£#]")

_NEGATION: Final = re.compile(
    r"(?<!\w)(?:no|not|never|none|nor|neither|without|cannot|nobody|nothing|[a-z]+n't|un\w+|dis\w+|non\w+|nicht|kein\w*|ne|pas|jamais|sin)(?!\w)|不|没|非|ない|ません",
    re.IGNORECASE,
)


def merge_duplicates(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Merge each candidate into the first better one of the same scope that says the same; order is kept.

    Similar is not same: a differing number, identifier, date or negation keeps two texts apart whatever their words share.
    """
    kept: list[Candidate] = []
    words: list[frozenset[str]] = []
    for candidate in ranked:
        own = frozenset(_WORD.findall(fold(candidate.unit.known.unit.text)))
        place = next((i for i, other in enumerate(kept) if _same(candidate, own, other, words[i])), None)
        if place is None:
            kept.append(candidate)
            words.append(own)
        else:
            kept[place] = _absorb(kept[place], candidate)
    return kept


def _same(one: Candidate, one_words: frozenset[str], other: Candidate, other_words: frozenset[str]) -> bool:
    if abs(one.similarity - other.similarity) > SAME_NEARNESS:
        return False
    a, b = one.unit.known.unit, other.unit.known.unit
    if a.scope != b.scope:
        return False
    if min(len(one_words), len(other_words)) < SAME_WORDS * max(len(one_words), len(other_words), 1):
        return False
    both = one_words | other_words
    if not both or len(one_words & other_words) / len(both) < SAME_WORDS:
        return False
    return negations(a.text) == negations(b.text) and not differs_in_identifier(a.text, b.text)


def negations(text: str) -> tuple[str, ...]:
    """Return the negating words of a text, case-folded and sorted."""
    return tuple(sorted(match.group(0).casefold() for match in _NEGATION.finditer(text)))


def _absorb(better: Candidate, other: Candidate) -> Candidate:
    added = other.sources - better.sources
    return replace(
        better,
        also=(*better.also, other.unit.known.unit.id, *other.also),
        sources=better.sources | other.sources,
        corroborations=max(better.corroborations + len(added), len(better.sources | other.sources)),
    )
