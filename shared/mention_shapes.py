"""Names by the shape of words: identifiers, acronyms, runs of capitals, names with numbers and versions."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from shared.namewords import (
    CALENDAR,
    EXCLAMATIONS,
    FOLLOWING_VERBS,
    GROUP_NOUNS,
    HONORIFICS,
    LEADERS,
    MODULE_EXTENSIONS,
    NUMBERED,
    OPENERS,
    PARTICLES,
    TITLES,
)
from shared.scripts import UNSPACED, class_of, marks_class
from shared.stopwords import ENGLISH
from shared.text import sentences

RUN_WORDS: Final = 8  # a longer run of capitals is a heading, not a name
SHOUTED_WORDS: Final = 5  # a sentence of so many words, all in capitals, says nothing by them

_LETTERS: Final = rf"(?:[^\W{class_of(UNSPACED)}]|[{marks_class()}])"
_NAME: Final = rf"{_LETTERS}+(?:(?:::|[-._@'’‐‑－．＿&]){_LETTERS}+)*(?:\+\+(?!\w)|\#(?!\w))?"
_WORD: Final = re.compile(_NAME)
# A path's segments are bounded, so that a long word without a slash is looked at once.
_TOKEN: Final = re.compile(
    rf"(?P<path>(?<![\w/.~])(?:~|\.{{1,2}})?/?(?:[\w.-]{{1,64}}/){{1,16}}[\w.-]{{0,63}}\w(?![\w/]))|(?P<word>{_NAME})"
)
_VERSION: Final = re.compile(r"[vV]\d+(?:\.\d+)*(?:[-.]?[a-z]{1,5}\.?\d*)?|\d+(?:\.\d+)+(?:[-.]?[a-z]{1,5}\.?\d*)?")
_INTEGER: Final = re.compile(r"\d{1,6}")
_MEASURE: Final = re.compile(
    r"\d+(?:[.,]\d+)*(?:st|nd|rd|th|s|am|pm|ms|us|ns|m|h|d|w|k|kb|mb|gb|tb|kib|mib|gib|x|px|cm|mm|km|kg|g|min|mins|hrs?|bn|mph)"
    r"|\d+(?:[.,]\d+)*(?:-[a-z]+)+|[a-z]+-\d+s|\d{4}-\d{2}-\d{2}t\d+\S*|\d+(?:[-.:,]\d+)+z?"
)
_ERROR: Final = re.compile(r"\w+(?:Error|Exception|Warning|Timeout|Fault)")
_CAMEL: Final = re.compile(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]")
_REGNAL: Final = re.compile(r"[IVX]{1,5}")
_OPENING: Final = frozenset('"“‘*#>:')
_RUN_ON: Final = re.compile(r"[a-z]+\.[A-Z][a-z]+")  # "done.Then": a forgotten space, not a dotted name
_JOINT: Final = re.compile(r"[ \t\u00a0\u3000]|[ \t]*\n[ \t]*(?=\S)")
_PRODUCT_ENDINGS: Final = frozenset({"js", "io", "ai", "net"})  # Node.js is a product, node.js a file


@dataclass(frozen=True, slots=True)
class Word:
    """A token and what its shape says. ``opens``: a capital here is due to the sentence's start."""

    start: int
    end: int
    text: str
    path: bool
    opens: bool

    @property
    def lower(self) -> str:
        """In lower case."""
        return self.text.lower()

    @property
    def capital(self) -> bool:
        """It begins with a capital."""
        return self.text[0].isupper()

    @property
    def acronym(self) -> bool:
        """Capitals only, two or more, perhaps with a plural s."""
        letters = self.text.removesuffix("s")
        return len(letters) >= 2 and letters.isupper() and letters.isalpha() and self.lower not in EXCLAMATIONS

    @property
    def camel(self) -> bool:
        """It has a capital inside."""
        return _CAMEL.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Found:
    """A span with its type guess. Lower ``rank`` wins where spans meet; ``base`` may lie inside another one."""

    start: int
    end: int
    rank: int
    type_guess: str | None = None
    base: bool = False


def words_of(text: str) -> list[Word]:
    """Cut a text into words, each knowing whether it opens a sentence; a possessive's ending is left out."""
    starts = [start for start, _ in sentences(text)]
    words: list[Word] = []
    sentence = -1
    for match in _tokens(text):
        start, end = match.span()
        at = bisect_right(starts, start)
        numbered = bool(words) and words[-1].opens and words[-1].text.isdigit()  # "1. Kafka ..."
        opens = at != sentence or numbered or _is_after_opener(text, start)
        sentence = at
        if end - start > 2 and text[end - 1] in "sS" and text[end - 2] in "'’":
            end -= 2
        words.append(Word(start, end, text[start:end], match.lastgroup == "path", opens))
    return words


def _is_after_opener(text: str, start: int) -> bool:
    """Say whether a quotation, heading, list item or what follows a colon begins here."""
    before = text[start - 1] if start else ""
    return before in _OPENING or (before.isspace() and start > 1 and text[start - 2] == ":")


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        if match.lastgroup == "path" and not _is_path(match[0]):
            match = _WORD.search(text, match.start())
            if match is None:
                return
        yield match
        position = match.end()


def _is_path(token: str) -> bool:
    name = token.rsplit("/", 1)[-1]
    rooted = token[0] in "/~." and any(char.isalpha() for char in token)
    return (
        rooted
        or file_type(name) is not None
        or (token.count("/") >= 2 and token.lower() == token and not token[0].isdigit())
    )


def file_type(token: str) -> str | None:
    """Return ``module`` for the name of a file, else None."""
    stem, dot, ending = token.rpartition(".")
    if not dot or not stem or ending.lower() not in MODULE_EXTENSIONS or " " in token:
        return None
    return None if token[0].isupper() and ending in _PRODUCT_ENDINGS else "module"


def by_shape(text: str, words: list[Word]) -> Iterator[Found]:
    """Find names by the shape of words and of what stands beside them."""
    evidence = _Evidence(text, words)
    handles = "@" in text
    at = 0
    while at < len(words):
        word = words[at]
        if _is_identifier(word) or (handles and _is_handle(text, word)):
            yield _identifier(text, word)
            at += 1
        elif _starts_run(word):
            end = _run_end(text, words, at)
            yield from _run(evidence, at, end)
            at = end
        else:
            if word.lower in NUMBERED and evidence.joined(at) and _is_number(words[at + 1]):
                yield Found(word.start, words[at + 1].end, rank=2)
                at += 1
            at += 1


def _is_identifier(word: Word) -> bool:
    token = word.text
    if word.path or token.isalpha():
        return word.path
    if any(char.isdigit() for char in token):
        return any(char.isalpha() for char in token) and _MEASURE.fullmatch(token.lower()) is None
    if "@" in token or "_" in token.strip("_") or "::" in token:
        return any(char.isalpha() for char in token)
    parts = token.split(".")
    return len(parts) > 1 and max(map(len, parts)) > 1 and _RUN_ON.fullmatch(token) is None and not token[0].isupper()


def _is_handle(text: str, word: Word) -> bool:
    before = text[max(0, word.start - 2) : word.start]
    return before.endswith("@") and not before[:-1].isalnum() and any(char.isalpha() for char in word.text)


def _identifier(text: str, word: Word) -> Found:
    return Found(word.start - _is_handle(text, word), word.end, rank=2, type_guess=_shape_type(word.text))


def _shape_type(token: str) -> str | None:
    if _ERROR.fullmatch(token):
        return "topic"
    return file_type(token.rsplit("/", 1)[-1])


def _starts_run(word: Word) -> bool:
    return word.capital or (not word.text.islower() and word.camel and word.text[0].isalpha())


def _is_number(word: Word) -> bool:
    return _INTEGER.fullmatch(word.text) is not None or _VERSION.fullmatch(word.text) is not None


def _run_end(text: str, words: list[Word], first: int) -> int:
    """Return the index after the last word of a run of capitals; particles count only between capitals."""
    end = first + 1
    while end < len(words):
        following = end
        while following < min(end + 2, len(words) - 1) and words[following].text in PARTICLES:
            following += 1
        gaps = range(end, following + 1)
        if not _starts_run(words[following]) or _is_identifier(words[following]):
            return end
        if not all(_is_joint(text, words[gap - 1], words[gap]) for gap in gaps) or words[following].opens:
            return end
        end = following + 1
    return end


def _is_joint(text: str, before: Word, after: Word) -> bool:
    gap = text[before.end : after.start]
    if gap.startswith(".") and (len(before.text) == 1 or before.lower in HONORIFICS):
        gap = gap[1:]
    return _JOINT.fullmatch(gap) is not None or gap == " & "


class _Evidence:
    """What the whole text says about a capital at a sentence's start."""

    def __init__(self, text: str, words: list[Word]) -> None:
        self.text = text
        self.words = words

    @cached_property
    def _inside(self) -> frozenset[str]:
        """Capitalised words that stand inside sentences."""
        return frozenset(word.text for word in self.words if word.capital and not word.opens)

    @cached_property
    def _lower(self) -> frozenset[str]:
        return frozenset(word.text for word in self.words if not word.capital)

    def joined(self, at: int) -> bool:
        """Say whether the word has a neighbour right after it."""
        return at + 1 < len(self.words) and _is_joint(self.text, self.words[at], self.words[at + 1])

    def names_alone(self, at: int) -> bool:
        """Say whether the single capitalised word is a name."""
        word = self.words[at]
        if word.camel or word.acronym:
            return True
        if len(word.text) < 2 or word.lower in CALENDAR or word.lower in GROUP_NOUNS or word.lower in EXCLAMATIONS:
            return False
        if not word.opens:
            return word.lower not in ENGLISH
        if word.lower in OPENERS or word.lower in self._lower:
            return False
        return word.text in self._inside or self._is_subject(at)

    def _is_subject(self, at: int) -> bool:
        """Say whether a sentence's first word is followed by what follows a singular subject, or speaks ("Ana: ...")."""
        word = self.words[at]
        after = self.text[word.end : word.end + 2]
        if after[:1] == ":" or after in {"'s", "’s"}:
            return True
        if not self.joined(at) or word.lower.endswith(("ing", "ly")):
            return False
        following = self.words[at + 1].text
        if following in FOLLOWING_VERBS:
            return True
        if len(following) < 4 or not following.isalpha() or not following.islower():
            return False
        # A plural noun has no verb in -s, but may have one in -ed: "Backups failed".
        plural = word.lower.endswith("s")
        return (following.endswith("s") and not following.endswith("ss")) or (following.endswith("ed") and not plural)


def _run(evidence: _Evidence, first: int, end: int) -> Iterator[Found]:
    """Yield what a run of capitalised words names: itself, with its group noun, number or version."""
    words = evidence.words
    start = _name_start(words, first, end)
    if start == end or _is_shouted(evidence, first, end):
        return
    last = words[end - 1]
    if all(word.lower in CALENDAR for word in words[start:end]):
        return
    if end - start > RUN_WORDS:
        yield from (Found(w.start, w.end, rank=3) for w in words[start:end] if w.camel or w.acronym)
        return
    if last.text == "I" and words[first].opens and end - first <= 2:
        return  # "Whenever I": a pronoun, not the first of her name
    span = (words[start].start, last.end)
    group = GROUP_NOUNS.get(words[end].lower) if end < len(words) and evidence.joined(end - 1) else None
    if group is not None:
        yield Found(span[0], words[end].end, rank=2, type_guess=group)
        return
    numbered = _numbered_end(evidence, start, end)
    if numbered is not None:
        yield Found(span[0], numbered, rank=2)
        if end - start > 1 or last.lower not in NUMBERED:
            yield Found(*span, rank=2, base=True)
    elif end - start > 1 or evidence.names_alone(start):
        yield Found(*span, rank=2, type_guess=_run_type(words, start, end))
        bare = _without_titles(words, start, end)
        if bare is not None and bare != span:
            yield Found(*bare, rank=2, base=True)


def _name_start(words: list[Word], first: int, end: int) -> int:
    """Skip words before the name: a sentence's leaders, articles and pronouns anywhere; ``IT`` and ``US`` are names."""
    start = first
    while start < end:
        word = words[start]
        leads = LEADERS if words[first].opens else ENGLISH
        if (
            word.lower not in leads
            or (word.acronym and word.lower != "i")
            or (end - start == 1 and not _is_leader(word))
        ):
            break
        start += 1
    while start < end and words[start].text in PARTICLES:
        start += 1
    return start


def _is_leader(word: Word) -> bool:
    return word.lower in OPENERS


def _is_shouted(evidence: _Evidence, first: int, end: int) -> bool:
    """Say whether the run is (part of) a line in capitals only."""
    words = evidence.words[first:end]
    return len(words) >= SHOUTED_WORDS and all(word.text.isupper() for word in words)


def _numbered_end(evidence: _Evidence, start: int, end: int) -> int | None:
    """Return where a number or version that belongs to the run ends: "Room 101", "Python 3.11", "Windows 11 is"."""
    words = evidence.words
    if end >= len(words) or not evidence.joined(end - 1) or not _is_number(words[end]):
        return None
    last = words[end - 1]
    if last.lower in CALENDAR:
        return None
    if _VERSION.fullmatch(words[end].text) or last.lower in NUMBERED:
        return words[end].end
    if end - start == 1 and not evidence.names_alone(start):
        return None
    counts = end + 1 < len(words) and evidence.joined(end) and words[end + 1].lower not in ENGLISH | FOLLOWING_VERBS
    return None if counts else words[end].end  # "In Paris 20 people": the number counts something else


def _without_titles(words: list[Word], start: int, end: int) -> tuple[int, int] | None:
    """Return the span of a person's name without what it is adorned with: "King ... Suramarit", "Lothair II of ..."."""
    while end - start > 1 and words[start + 1].capital and _adorns(words[start], end - start):
        start += 1
    regnal = next((at for at in range(start + 1, end - 1) if _REGNAL.fullmatch(words[at].text)), None)
    if regnal is not None and words[regnal + 1].text == "of":
        end = regnal + 1
    return (words[start].start, words[end - 1].end) if end > start else None


def _adorns(word: Word, length: int) -> bool:
    return word.lower in HONORIFICS or (word.lower in TITLES and length > 2)


def _run_type(words: list[Word], start: int, end: int) -> str | None:
    if end - start > 1:
        return GROUP_NOUNS.get(words[end - 1].lower) or ("team" if words[start].lower == "team" else None)
    return _shape_type(words[start].text)
