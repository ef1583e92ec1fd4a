"""The pure comparison of two units: a named difference that a reader can check, or none.

Similar is not same, and different is not contradictory. A difference is named only when both statements are about the
same thing and attribute and, after what they have in common is taken out, values are left that exclude each other.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ingest.claim_differences import Context, Kind, differing_claims
from ingest.claims import extract_claims
from ingest.dates import Day, are_weeks_apart, may_be_the_same
from ingest.names import SameEntity, may_be_one
from ingest.statements import Statement, Word, in_name, read_statements, stem_of
from ingest.values import Quantity, can_both_hold
from ingest.vocabulary import AUTHORED, CHOICE_VERBS, COPULAS, ONCE_WORDS, PLACED
from schemas.times import Moment
from schemas.units import Claim
from shared.antonyms import are_antonyms
from shared.identity import differs_in_identifier
from shared.text import fold

SIMILARITY: Final = 0.45
"""Cosine (MiniLM) below which two units are not taken to be about the same attribute. The words decide; from 0.60 down to
here precision stayed the same on four labelled sets while more was found, because one side often says much more."""
OVERLAP: Final = 0.5
"""Share of content words (Dice) that two statements must have in common for a number or a date."""
TIGHT_OVERLAP: Final = 0.6
"""The same for names, negations and antonyms, which carry no unit of measure to compare by."""


@dataclass(frozen=True)
class Difference:
    """What two units disagree in: the kind, both values in words, and the attribute."""

    kind: Kind
    detail: str
    attribute: str


@dataclass(frozen=True)
class ComparedUnit:
    """What the comparison needs of a unit. ``keys``: the entities it mentions or is about, aliases resolved."""

    id: str
    text: str
    keys: frozenset[str] = frozenset()
    title: str | None = None
    claims: tuple[Claim, ...] = ()
    occurred_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    supersedes: str | None = None


def compare(a: ComparedUnit, b: ComparedUnit, similarity: float, same_entity: SameEntity) -> Difference | None:
    """Name the difference that keeps two units from both holding, or None. Symmetric in the units.

    ``similarity``: cosine of the texts. Claims need none: the same subject and predicate say what they are about.
    """
    first, second = sorted((a, b), key=lambda unit: (unit.id, unit.text))
    if _is_history(first, second):
        return None
    if first.title and second.title and differs_in_identifier(first.title, second.title):
        return None
    found = _by_claims(first, second, same_entity)
    if found is None and similarity >= SIMILARITY:
        found = _by_statements(first, second, same_entity)
    if found is None or fold(first.text) == fold(second.text):
        return None
    return Difference(found.kind, found.detail + _newer(first, second), found.attribute)


def _is_history(a: ComparedUnit, b: ComparedUnit) -> bool:
    """One replaces the other by its producer's word, or their times of holding do not meet."""
    if a.supersedes == b.id or b.supersedes == a.id:
        return True
    return _ends_before(a, b) or _ends_before(b, a)


def _ends_before(a: ComparedUnit, b: ComparedUnit) -> bool:
    return a.valid_until is not None and b.valid_from is not None and a.valid_until.at <= b.valid_from.at


def _newer(a: ComparedUnit, b: ComparedUnit) -> str:
    if a.occurred_at is None or b.occurred_at is None or a.occurred_at.at == b.occurred_at.at:
        return ""
    newer = a if a.occurred_at.at > b.occurred_at.at else b
    return f" (newer: {newer.id})"


def _by_claims(a: ComparedUnit, b: ComparedUnit, same_entity: SameEntity) -> Difference | None:
    ours = [(claim, True) for claim in a.claims] + [(claim, False) for claim in extract_claims(a.text)]
    theirs = [(claim, True) for claim in b.claims] + [(claim, False) for claim in extract_claims(b.text)]
    about = Context(texts=(a.text, b.text), days_apart=_days_apart(a, b), same_entity=same_entity)
    for claim, declared in ours:
        for other, other_declared in theirs:
            found = differing_claims(claim, other, about, declared=declared and other_declared)
            if found is not None:
                return Difference(*found)
    return None


def _by_statements(a: ComparedUnit, b: ComparedUnit, same_entity: SameEntity) -> Difference | None:
    return next(_differences(a, b, same_entity), None)


def _differences(a: ComparedUnit, b: ComparedUnit, same_entity: SameEntity) -> Iterator[Difference]:
    days_apart = _days_apart(a, b)
    shared = bool(a.keys & b.keys)
    for left in read_statements(a.text):
        for right in read_statements(b.text):
            if not _about_the_same(left, right, shared):
                continue
            found = (
                _number_difference(left, right)
                or _date_difference(left, right, days_apart)
                or _polarity_difference(left, right)
                or _name_difference(left, right, same_entity)
            )
            if found is not None:
                yield found


def _about_the_same(left: Statement, right: Statement, shared: bool) -> bool:
    """Whether nothing in either subject tells the two apart, in words or in numbers, or in what a pronoun stands for."""
    if not left.antecedent <= _named(right) or not right.antecedent <= _named(left):
        return False
    if not left.subject <= right.stems and not right.subject <= left.stems:
        return False
    if left.stems.isdisjoint(right.stems) or not (shared or left.subject & right.subject):
        return False
    return left.fixed == right.fixed or not (left.fixed and right.fixed)


def _named(statement: Statement) -> frozenset[str]:
    return statement.antecedent | statement.stems | statement.fixed


# --- numbers and dates ------------------------------------------------------------------------------------------------


def _number_difference(left: Statement, right: Statement) -> Difference | None:
    if left.denied or right.denied or overlap(left, right) < OVERLAP or _days_differ(left, right):
        return None
    ours = [item for item in _values(left) if not any(_agree(left, item, right, other) for other in _values(right))]
    theirs = [item for item in _values(right) if not any(_agree(left, other, right, item) for other in _values(left))]
    for item in ours:
        for other in theirs:
            if _comparable(left, item, right, other) and not can_both_hold(item, other):
                attribute = _attribute(left, right)
                return Difference("number", f"{item.surface} ≠ {other.surface}", attribute)
    return None


def _values(statement: Statement) -> list[Quantity]:
    return [
        item for item in statement.quantities if item.start >= statement.main_verb and not in_name(statement.text, item)
    ]


def _agree(left: Statement, item: Quantity, right: Statement, other: Quantity) -> bool:
    return _comparable(left, item, right, other) and can_both_hold(item, other)


def _comparable(left: Statement, item: Quantity, right: Statement, other: Quantity) -> bool:
    """Whether two numbers measure the same: one dimension, or one thing counted, or the same word before both."""
    if item.dimension != other.dimension:
        return False
    ours, theirs = _counted(left, item), _counted(right, other)
    if ours and theirs:
        return ours == theirs
    if item.dimension:
        return True
    return bool(_near(left, item) & _near(right, other)) or len(_values(left)) == len(_values(right)) == 1


def _counted(statement: Statement, item: Quantity) -> str | None:
    if item.counted is None:
        return None
    stem = stem_of(item.counted)
    return stem if stem in statement.stems else None


def _near(statement: Statement, item: Quantity | Day) -> frozenset[str]:
    before = [word.stem for word in statement.words if word.end <= item.start]
    after = [word.stem for word in statement.words if word.start >= item.end]
    return frozenset(before[-1:] + after[:1])


def _days_differ(left: Statement, right: Statement) -> bool:
    """Whether both give dates and none of them agree: then they speak of different times."""
    if not left.days or not right.days:
        return False
    return not any(may_be_the_same(day, other) for day in left.days for other in right.days)


def _date_difference(left: Statement, right: Statement, days_apart: float | None) -> Difference | None:
    if left.denied or right.denied:
        return None
    ours = [day for day in left.days if not any(may_be_the_same(day, other) for other in right.days)]
    theirs = [day for day in right.days if not any(may_be_the_same(day, other) for other in left.days)]
    for day in ours:
        for other in theirs:
            if may_be_the_same(day, other) is not False or are_weeks_apart(day, other, days_apart):
                continue
            alone = len(left.days) == len(right.days) == 1 and overlap(left, right) >= OVERLAP
            if _event(left, day) & _event(right, other) or (alone and _happens_once(left, right)):
                return Difference("date", f"{day.surface} ≠ {other.surface}", _attribute(left, right))
    return None


def _event(statement: Statement, day: Day) -> frozenset[str]:
    """The word for what happens once, right before the date or, where the date leads, after it: 'founded in', 'born'."""
    words = [word.surface.lower() for word in statement.words if word.end <= day.start][-2:]
    verb = statement.verb_before(day.start)
    if not words:
        words = [verb for start, verb in statement.verbs if start > day.end and verb not in COPULAS][:1]
    return frozenset(stem_of(word) for word in {*words, verb or ""} & ONCE_WORDS)


def _happens_once(left: Statement, right: Statement) -> bool:
    ours = {word.surface.lower() for word in left.words}
    theirs = {word.surface.lower() for word in right.words}
    return not ONCE_WORDS.isdisjoint(ours & theirs)


def _days_apart(a: ComparedUnit, b: ComparedUnit) -> float | None:
    if a.occurred_at is None or b.occurred_at is None:
        return None
    return abs((a.occurred_at.at - b.occurred_at.at).total_seconds()) / 86_400


# --- negation and antonyms --------------------------------------------------------------------------------------------


def _polarity_difference(left: Statement, right: Statement) -> Difference | None:
    """Opposite words exclude each other where both are affirmed. A denial excludes what says at least as much: 'not
    enabled in staging' leaves 'enabled' alone.
    """
    if left.hedged or right.hedged or (left.denied and right.denied) or _numbers_differ(left, right):
        return None
    if 2 * (len(left.stems & right.stems) + 1) < TIGHT_OVERLAP * (len(left.stems) + len(right.stems)):
        return None
    ours, theirs = _leftover(left, right), _leftover(right, left)
    opposite = _opposites(left, ours, right, theirs)
    if opposite is not None:
        ours = [word for word in ours if word is not opposite[0]]
        theirs = [word for word in theirs if word is not opposite[1]]
    if (ours and theirs) or not _tight(left, right, opposite is not None, len(ours) + len(theirs)):
        return None
    if opposite is not None and left.denied == right.denied and not (left.indefinite and right.indefinite):
        return Difference("antonym", f"{opposite[0].surface} ≠ {opposite[1].surface}", _attribute(left, right))
    if opposite is None and left.denied != right.denied and not (ours if left.denied else theirs):
        which = left if left.denied else right
        return Difference("negation", f"denied: {_short(which.text)}", _attribute(left, right))
    return None


def _numbers_differ(left: Statement, right: Statement) -> bool:
    ours, theirs = _written(left), _written(right)
    return bool(ours - theirs and theirs - ours)


def _written(statement: Statement) -> set[str]:
    items: tuple[Quantity | Day, ...] = (*statement.quantities, *statement.days)
    return {item.surface.lower() for item in items}


def _opposites(left: Statement, ours: list[Word], right: Statement, theirs: list[Word]) -> tuple[Word, Word] | None:
    for word in ours:
        for other in theirs:
            if _indefinite(left, word) or _indefinite(right, other):
                continue
            if are_antonyms(word.surface.lower(), other.surface.lower()) or are_antonyms(word.stem, other.stem):
                return word, other
    return None


def _indefinite(statement: Statement, word: Word) -> bool:
    """'A large table' and 'a small table' may be two tables."""
    return statement.text[: word.start].lower().endswith((" a ", " an "))


def _tight(left: Statement, right: Statement, paired: bool, extra: int) -> bool:
    common = len(_common(left, right)) + paired
    return common >= 2 and extra <= common and 2 * common >= TIGHT_OVERLAP * (len(left.words) + len(right.words))


# --- names ------------------------------------------------------------------------------------------------------------


def _name_difference(left: Statement, right: Statement, same_entity: SameEntity) -> Difference | None:
    if left.denied or right.denied or overlap(left, right, without_names=True) < TIGHT_OVERLAP:
        return None
    ours, theirs = _leftover(left, right), _leftover(right, left)
    name, other = _phrase(left, ours), _phrase(right, theirs)
    if name is None or other is None or not (_exclusive(left, ours[0]) and _exclusive(right, theirs[0])):
        return None
    if may_be_one(name, other, same_entity):
        return None
    return Difference("name", f"{name} ≠ {other}", _attribute(left, right))


def _phrase(statement: Statement, words: list[Word]) -> str | None:
    """Return the one name that the leftover words make up in the predicate; None when they are anything else."""
    if not words or not all(word.name and not word.subject for word in words):
        return None
    phrase = statement.text[words[0].start : words[-1].end]
    return phrase if len(phrase.split()) <= len(words) + 2 and "," not in phrase else None


def _exclusive(statement: Statement, word: Word) -> bool:
    """Whether one name can stand here at a time: what was chosen, what something is, who made it, where it is."""
    verb = statement.verb_before(word.start) or ""
    before = re.findall(r"[\w']+", statement.text[: word.start].lower())[-2:]
    last = before[-1] if before else ""
    if verb in CHOICE_VERBS or (last == "by" and verb in AUTHORED):
        return True
    if last in {"in", "at"}:
        return verb in PLACED or verb in COPULAS
    return verb in COPULAS and (last in COPULAS or (last in {"the", "now", "currently"} and before[0] in COPULAS))


# --- what two statements have in common -------------------------------------------------------------------------------


def overlap(left: Statement, right: Statement, *, without_names: bool = False) -> float:
    """Return the Dice coefficient of the content words, in [0, 1]; ``without_names``: of those that are no names."""
    ours = Counter(word.stem for word in left.words if not (without_names and word.name))
    theirs = Counter(word.stem for word in right.words if not (without_names and word.name))
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 0.0


def _common(left: Statement, right: Statement) -> list[Word]:
    remaining = Counter(word.stem for word in right.words)
    common = []
    for word in left.words:
        if remaining[word.stem] > 0:
            remaining[word.stem] -= 1
            common.append(word)
    return common


def _leftover(left: Statement, right: Statement) -> list[Word]:
    remaining = Counter(word.stem for word in right.words)
    rest = []
    for word in left.words:
        if remaining[word.stem] > 0:
            remaining[word.stem] -= 1
        else:
            rest.append(word)
    return rest


def _attribute(left: Statement, right: Statement) -> str:
    return " ".join(dict.fromkeys(word.surface.lower() for word in _common(left, right)))[:200]


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79].rstrip() + "…"
