"""What tells two alike texts apart: numbers, identifiers, dates, initials. They veto any similarity (invariant 4)."""

import re
from functools import lru_cache
from typing import Final

from shared.text import compatible, strip_accents

_TOKEN: Final = re.compile(r"[-−]?\w+(?:[-._/:@,']\w+)*%?")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CAMEL: Final = re.compile(r"[a-z][A-Z]")
_NUMBER_WORDS: Final = {
    word: str(number)
    for number, word in enumerate(
        "zero - two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen twenty".split()
    )
    if word != "-"  # "one" is mostly a pronoun
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
_DAYS: Final = {day: day[:3] for day in "monday tuesday wednesday thursday friday saturday sunday".split()}
_MONTHS: Final = {
    month: month[:3]
    for month in "january february march april may june july august september october november december".split()
}
_DATE_WORDS: Final = _DAYS | _MONTHS | {"tomorrow": "tomorrow", "yesterday": "yesterday", "today": "today"}
_AMBIGUOUS: Final = frozenset({"may", "march", "august"})  # dates only with a capital


@lru_cache(maxsize=20_000)
def identifiers(text: str) -> frozenset[str]:
    """Return what identifies: numbers (``1,000`` as ``1000``, ``six`` as ``6``), versions, codes with digits, dotted, snake
    and camel-case names, week days and months, lone capitals (the B of ``Service B``). Folded; accents do not count.
    """
    found: set[str] = set()
    text = compatible(text)
    for match in _TOKEN.finditer(text):
        name = _identifying(match[0], starts=not text[: match.start()].strip() if match.start() < 8 else False)
        if name is not None:
            found.add(name)
    return frozenset(found)


def differs_in_identifier(first: str, second: str) -> bool:
    """Say whether one text has a number, identifier or date that the other lacks: then they are not the same."""
    return identifiers(first) != identifiers(second)


def _identifying(token: str, *, starts: bool) -> str | None:
    word = token.lower()
    if word in _NUMBER_WORDS:
        return _NUMBER_WORDS[word]
    if word in _DATE_WORDS and (token[0].isupper() or word not in _AMBIGUOUS):
        return _DATE_WORDS[word]
    if any(char.isdigit() for char in token):
        return _number_or_code(word)
    if len(token) == 1 and token.isupper() and token != "I" and not (starts and token == "A"):
        return word
    if any(mark in token for mark in "._/@") or _CAMEL.search(token):
        return strip_accents(word)
    return None


def _number_or_code(word: str) -> str:
    word = word.removesuffix("'s")
    if _GROUPED.fullmatch(word.lstrip("-−")):
        word = word.replace(",", "")
    return strip_accents(word.replace("−", "-"))
