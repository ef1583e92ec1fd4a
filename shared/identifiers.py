"""What tells two alike texts apart: numbers, identifiers, dates, initials. They veto any similarity (invariant 4)."""

import re
from functools import lru_cache
from typing import Final

from shared.stopwords import words
from shared.text import compatible, strip_accents

_TOKEN: Final = re.compile(r"[-−]?\w+(?:[-._/:@,']\w+)*%?")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CAMEL: Final = re.compile(r"[a-z][A-Z]")
_COUNTED: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_TENS: Final = {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
}
_NUMBER_WORDS: Final = _TENS | {
    word: str(number)
    for number, word in enumerate(_COUNTED.split(" "))
    if word != "one"  # mostly a pronoun
}
_DAYS_AND_MONTHS: Final = words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december"
)
_DATE_WORDS: Final = {word: word[:3] for word in _DAYS_AND_MONTHS} | {
    word: word for word in ("today", "tomorrow", "yesterday")
}
_AMBIGUOUS: Final = frozenset({"may", "march", "august"})  # dates only with a capital


@lru_cache(maxsize=1_000)  # whole texts: a thousand of the longest are 32 MB
def identifiers(text: str) -> frozenset[str]:
    """Return what identifies: numbers (``1,000`` as ``1000``, ``six`` as ``6``), versions, codes with digits, dotted, snake
    and camel-case names, week days and months, lone capitals (the B of ``Service B``). Folded; accents do not count.
    """
    found: set[str] = set()
    text = compatible(text).lstrip()
    for match in _TOKEN.finditer(text):
        name = _identifying(match[0], starts=match.start() == 0)
        if name is not None:
            found.add(name)
    return frozenset(found)


def differs_in_identifier(first: str, second: str) -> bool:
    """Say whether one text has a number, identifier or date that the other lacks: then they are not the same."""
    return identifiers(first) != identifiers(second)


def _identifying(written: str, *, starts: bool) -> str | None:
    word = written.lower()
    if word in _NUMBER_WORDS:
        return _NUMBER_WORDS[word]
    if word in _DATE_WORDS and (written[0].isupper() or word not in _AMBIGUOUS):
        return _DATE_WORDS[word]
    if any(char.isdigit() for char in written):
        return _number_or_code(word)
    if len(written) == 1 and written.isupper():
        return None if written == "I" or (written == "A" and starts) else word
    if any(mark in written for mark in "._/@") or _CAMEL.search(written):
        return strip_accents(word)
    return None


def _number_or_code(word: str) -> str:
    word = word.removesuffix("'s")
    if _GROUPED.fullmatch(word.lstrip("-−")):
        word = word.replace(",", "")
    return strip_accents(word.replace("−", "-"))
