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

HEAD_CHARS: Final = 2_000
"""Long texts are compared whole only where these first characters are alike: most are told apart by them."""

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
    heads: list[frozenset[str]] = []
    for candidate in ranked:
        head = _words(candidate.unit.known.unit.text[:HEAD_CHARS])
        place = next((i for i, other in enumerate(kept) if _same(candidate, head, other, heads[i])), None)
        if place is None:
            kept.append(candidate)
            heads.append(head)
        else:
            kept[place] = _absorb(kept[place], candidate)
    return kept


def _same(one: Candidate, one_head: frozenset[str], other: Candidate, other_head: frozenset[str]) -> bool:
    if abs(one.similarity - other.similarity) > SAME_NEARNESS:
        return False
    a, b = one.unit.known.unit, other.unit.known.unit
    if a.scope != b.scope or not _alike(one_head, other_head):
        return False
    if max(len(a.text), len(b.text)) > HEAD_CHARS and not _alike(_words(a.text), _words(b.text)):
        return False
    return negations(a.text) == negations(b.text) and not differs_in_identifier(a.text, b.text)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(fold(text)))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    fewer, more = sorted((len(one), len(other)))
    if fewer < SAME_WORDS * max(more, 1):
        return False
    shared = len(one & other)
    return shared > 0 and shared / (fewer + more - shared) >= SAME_WORDS


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
