"""A sentence as the comparison sees it: content words, names, quantities, dates, and whether it is denied."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from ingest.dates import Day, find_days
from ingest.values import Quantity, find_quantities
from ingest.vocabulary import CESSATION, FUNCTION_WORDS, HEDGES, NEGATORS, NUMBERED, VERBS, holds_any
from shared.text import sentences, terms

STATEMENTS: Final = 60
"""Sentences of one unit that are compared: pairs grow with the square, and a unit is a passage, not a book."""
SENTENCE_CHARS: Final = 600
"""A longer 'sentence' is a table, a log or code: nothing here reads those."""

ACCENT_FORMS: Final = 2
"""Terms of one word outside ASCII: with accents and without. More are the bigrams of a script without spaces."""

ITEMS: Final = 12
"""A sentence with more numbers and dates is a table too."""

_TOKEN: Final = re.compile(r"[^\W_]+(?:[.'’+#/_-]+[^\W_]+)*[+#]*")
_INDEFINITE: Final = re.compile(
    r"(?:there (?:is|are) )?(?:an?|one|two|three|some|several|many|people|someone|somebody)\b", re.IGNORECASE
)
_CONTRAST: Final = re.compile(
    r"(?:,\s*(?:and\s+)?not\b(?!\s+only\b)|\s(?:instead of|rather than|as opposed to)\b)[^,;.]*", re.IGNORECASE
)
_CHOSEN_OVER: Final = re.compile(
    r"(\b(?:chose|chosen|prefer(?:s|red)?|picked|selected)\b[^,;.]*?)\sover\s[^,;.]*", re.IGNORECASE
)
_NO_DENIAL: Final = re.compile(
    r"\bnot\s+(?:only|just|merely|to mention)\b|\bno(?:t|t any)?\s+(?:more|less|fewer|later|earlier|longer)\s+than\b",
    re.IGNORECASE,
)
"""'Not only' affirms, and 'no more than 5' is a limit."""
_NEGATING: Final = NEGATORS | CESSATION | {"fails", "failed", "refuses"}
_CLAUSE: Final = re.compile(
    r"\s*(?:;|—|\s–\s|,?\s(?:but|however|although|though|whereas|while|because|since)\b|,\s(?:and|so|yet)\b)\s*,?",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(r"\W*(?:it|its|it's|this|that|these|those|he|his|she|her|they|their)\b", re.IGNORECASE)
_CONTINUES: Final = re.compile(r"\s+\w+ing\b", re.IGNORECASE)
_CONDITION: Final = re.compile(r"^\W*(?:if|when|whenever|unless|until|in case|should|assuming)\b", re.IGNORECASE)


class Word(NamedTuple):
    """A content word: its stem, how it stands in the text, and where. ``subject``: it stands before the main verb."""

    stem: str
    surface: str
    start: int
    end: int
    subject: bool
    name: bool


@dataclass(frozen=True, eq=False)
class Statement:
    """One clause. ``main_verb``: where the subject ends. ``antecedent``: what its pronoun ("It is", "Its limit is") stands
    for, as far as the text says: stems and numbers of what the sentences before it are about.
    """

    text: str
    words: tuple[Word, ...]
    verbs: tuple[tuple[int, str], ...]
    quantities: tuple[Quantity, ...]
    days: tuple[Day, ...]
    negations: int
    hedged: bool
    main_verb: int
    antecedent: frozenset[str] = frozenset()

    @cached_property
    def denied(self) -> bool:
        """Whether an odd number of negations stands in it: two cancel."""
        return self.negations % 2 == 1

    @cached_property
    def subject(self) -> frozenset[str]:
        """The stems before the main verb."""
        return frozenset(word.stem for word in self.words if word.subject)

    @cached_property
    def stems(self) -> frozenset[str]:
        """All stems."""
        return frozenset(word.stem for word in self.words)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """Numbers and dates that belong to what the sentence is about: 'Room 101', '2023 report'."""
        items: tuple[Quantity | Day, ...] = (*self.quantities, *self.days)
        return frozenset(item.surface.lower() for item in items if item.start < self.main_verb)

    @cached_property
    def indefinite(self) -> bool:
        """Whether it speaks of some thing or other: 'a service', 'two users'."""
        return _INDEFINITE.match(self.text) is not None

    def verb_before(self, position: int) -> str | None:
        """Return the nearest verb before a position, lower-case."""
        before = [verb for start, verb in self.verbs if start < position]
        return before[-1] if before else None


@lru_cache(maxsize=2_048)  # a unit is compared with up to 200 others, and each of those again later
def read_statements(text: str) -> tuple[Statement, ...]:
    """Read the clauses of a text's sentences, in order; questions, and sentences without content, are left out."""
    spans = sentences(text)[:STATEMENTS]
    found = (read_statement(text[start:end]) for start, end in spans if end - start <= SENTENCE_CHARS)
    stated = [statement for statement in found if statement.words and _is_prose(statement)]
    return tuple(clause for statement in _with_antecedents(stated) for clause in clauses_of(statement))


def _with_antecedents(stated: Sequence[Statement]) -> Iterator[Statement]:
    """Say of each sentence that begins with a pronoun what the last one with a subject of its own is about."""
    about: frozenset[str] = frozenset()
    for statement in stated:
        if not _PRONOUN.match(statement.text):
            about = (statement.subject or statement.stems) | statement.fixed
            yield statement
        else:
            yield replace(statement, antecedent=about)
            about = about or statement.stems | statement.fixed


def _is_prose(statement: Statement) -> bool:
    few = len(statement.quantities) + len(statement.days) <= ITEMS
    return few and not statement.text.rstrip().endswith("?")


def clauses_of(statement: Statement) -> tuple[Statement, ...]:
    """Split at 'but', 'however', ';' and the like: a negation reaches no further. A clause without a subject of its own
    takes over that of the clause before it.
    """
    parts = [part for part in _CLAUSE.split(statement.text) if part and part.strip(" ,.")]
    if len(parts) < 2:
        return (statement,)
    clauses: list[Statement] = []
    for part in parts:
        clause = read_statement(part)
        if clauses and clause.words and not clause.subject:
            inherited = tuple(word for word in clauses[-1].words if word.subject)
            clause = replace(clause, words=inherited + clause.words)
        clause = replace(clause, antecedent=statement.antecedent)
        if clause.words:
            clauses.append(clause)
    return tuple(clauses)


def read_statement(text: str) -> Statement:
    """Read one sentence or clause. What it only contrasts with ('not Y', 'instead of Y', 'over Y') is left out."""
    text = _CHOSEN_OVER.sub(r"\1", _CONTRAST.sub("", text.replace("’", "'"))).strip()
    days = find_days(text)
    quantities = find_quantities(text, tuple((day.start, day.end) for day in days))
    items: tuple[Quantity | Day, ...] = (*quantities, *days)
    taken = [(item.start, item.end) for item in items]
    tokens = [match for match in _TOKEN.finditer(text) if not (taken and _inside(match.start(), taken))]
    verbs = tuple((match.start(), match[0].lower()) for match in tokens if _is_verb(match, text))
    main_verb = _main_verb(verbs, text, items)
    first = tokens[0].start() if tokens else 0
    words = tuple(
        _word(match, subject=match.start() < main_verb, first=match.start() == first)
        for match in tokens
        if _has_content(match[0], text[match.end() :])
    )
    lowered = [match[0].lower() for match in tokens]
    return Statement(
        text=text,
        words=words,
        verbs=verbs,
        quantities=quantities,
        days=days,
        negations=_count_negations(_NO_DENIAL.sub(" ", text)),
        hedged=bool(_CONDITION.match(text)) or not HEDGES.isdisjoint(lowered),
        main_verb=main_verb,
    )


@lru_cache(maxsize=16_384)
def stem_of(word: str) -> str:
    """Return the word as the index has it: the first term of the one analyser; a script without spaces as it stands."""
    found = terms(word)
    return found[0] if found and (word.isascii() or len(found) <= ACCENT_FORMS) else word.casefold()


def _word(match: re.Match[str], *, subject: bool, first: bool) -> Word:
    surface = match[0].removesuffix("'s").removesuffix("'")
    return Word(
        stem=stem_of(surface),
        surface=surface,
        start=match.start(),
        end=match.start() + len(surface),
        subject=subject,
        name=is_name(surface, first=first),
    )


def is_name(surface: str, *, first: bool) -> bool:
    """Say whether a word is written as a name: a capital inside a sentence, mixed case, or letters with digits."""
    if surface.islower() and surface.isalpha():
        return False
    if not any(character.isalpha() for character in surface):
        return False
    mixed = any(character.isupper() or character.isdigit() for character in surface[1:]) or surface[0].isdigit()
    return mixed or (surface[0].isupper() and not first)


def _is_verb(match: re.Match[str], text: str) -> bool:
    word = match[0].lower()
    if word in VERBS:
        return not (match[0][0].isupper() and text[: match.start()].strip())
    return word.endswith("ed") and len(word) > 4 and match.start() > 0 and match[0].islower()


def _main_verb(verbs: tuple[tuple[int, str], ...], text: str, items: tuple[Quantity | Day, ...]) -> int:
    """Return where the subject ends. A verb in first place counts only where no other follows: 'Use X for Y'.

    Where no verb is known, the first number or date that is not part of a name ends it: 'Pool size: 50'.
    """
    later = [start for start, _ in verbs if start > 0]
    if later or verbs:
        return later[0] if later else 0
    return min((item.start for item in items if item.start > 0 and not in_name(text, item)), default=len(text))


def in_name(text: str, item: Quantity | Day) -> bool:
    """Say whether a number belongs to the word before it: 'Room 101', 'ticket 88'."""
    before = text[: item.start].rstrip(" #")
    if not isinstance(item, Quantity) or item.dimension or len(before) + 2 < item.start:
        return False
    word = re.split(r"[^\w]", before)[-1]
    return word.lower() in NUMBERED or (word[:1].isupper() and len(word) < len(before))


def _has_content(token: str, rest: str) -> bool:
    word = token.lower().removesuffix("'s")
    if word in CESSATION and _CONTINUES.match(rest):
        return False
    return word not in FUNCTION_WORDS and word not in NEGATORS


def _count_negations(text: str) -> int:
    if "n't" not in text.lower() and not holds_any(text, _NEGATING):
        return 0
    tokens = [match[0].lower() for match in _TOKEN.finditer(text)]
    count = 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token in NEGATORS or token.endswith("n't"):
            count += int(not token.startswith("nor"))
        elif (token in CESSATION and following.endswith("ing")) or (
            token in {"fails", "failed", "refuses"} and following == "to"
        ):
            count += 1
    return count


def _inside(position: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)
