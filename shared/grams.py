"""Keys of word sequences: how names that are written like common words are found once somebody has declared them."""

import re
from collections.abc import Container, Iterator
from typing import Final

from schemas.messages import Mention
from shared.identity import fold_key
from shared.mention_shapes import words_of
from shared.scripts import UNSPACED, class_of
from shared.stopwords import ENGLISH

GRAM_WORDS: Final = 5
UNSPACED_GRAM_CHARS: Final = 8  # names in scripts without spaces are short; any stretch of a run may be one

_RUN: Final = re.compile(rf"[{class_of(UNSPACED)}]{{2,}}")
_GAP: Final = re.compile(r"[ \t\n\u00a0\u3000\-–/&+]{1,3}")
_INITIAL_GAP: Final = re.compile(r"\.[ \t]")


def grams(text: str, longest: int = GRAM_WORDS) -> Iterator[tuple[int, int]]:
    """Yield the spans of one to ``longest`` neighbouring words, and of two to eight characters of unspaced scripts."""
    words = words_of(text)
    for first, word in enumerate(words):
        for last in range(first, min(first + longest, len(words))):
            if last > first and not _neighbours(text, words[last - 1].start, words[last - 1].end, words[last].start):
                break
            yield word.start, words[last].end
    for run in _RUN.finditer(text):
        for start in range(run.start(), run.end() - 1):
            for end in range(start + 2, min(start + UNSPACED_GRAM_CHARS, run.end()) + 1):
                yield start, end


def find_known(text: str, known: Container[str], *, longest: int = GRAM_WORDS) -> tuple[Mention, ...]:
    """Find names whose key is in ``known``, longest first, in order, without overlaps; never inside a word.

    A lower-case stop word alone ("it", "who") is never a name, nor is a legal form part of one ("rate limited").
    """
    taken = bytearray(len(text))
    found: list[Mention] = []
    for start, end in sorted(set(grams(text, longest)), key=lambda span: (span[0] - span[1], span[0])):
        surface = text[start:end]
        key = fold_key(surface)
        if key in known and not any(taken[start:end]) and _may_be_name(surface, key):
            taken[start:end] = b"\x01" * (end - start)
            found.append(Mention(key=key, surface=surface, start=start, end=end))
    return tuple(sorted(found, key=lambda mention: mention.start))


def _may_be_name(surface: str, key: str) -> bool:
    words = surface.split()
    if len(words) == 1:
        return not (surface.islower() and surface in ENGLISH) and surface.lower() not in {"i", "a", "the"}
    # The same key without its first or last word: that word is an article or a legal form.
    return key not in {fold_key(" ".join(words[1:])), fold_key(" ".join(words[:-1]))}


def _neighbours(text: str, start: int, end: int, following: int) -> bool:
    gap = text[end:following]
    return _GAP.fullmatch(gap) is not None or (end - start == 1 and _INITIAL_GAP.fullmatch(gap) is not None)
