"""Whether two claims exclude each other: one subject, one predicate, and objects that cannot both be right."""

import re
from typing import Final, Literal, NamedTuple

from ingest.claims import ELSEWHERE, bare, is_definite
from ingest.dates import are_weeks_apart, find_days, may_be_the_same
from ingest.names import SameEntity, may_be_one
from ingest.statements import is_name, stem_of
from ingest.values import can_both_hold, find_quantities
from ingest.vocabulary import ADDITIVE_VERBS, FUNCTION_WORDS
from schemas.units import Claim
from shared.antonyms import are_antonyms
from shared.identity import fold_key

Kind = Literal["number", "date", "name", "negation", "antonym", "claim"]

FUNCTIONAL: Final = frozenset(
    {
        "is owned by",
        "is led by",
        "is assigned to",
        "is based in",
        "lives in",
        "reports to",
        "listens on",
        "starts on",
        "ends on",
        "expires on",
    }
)
"""Predicates that have one object at a time."""
PLACES: Final = frozenset({"is assigned to", "is based in", "lives in", "is owned by", "works at", "works on", "is in"})
"""What 'moved from A to B' may end."""
PREDICATE_SYNONYMS: Final = {
    "owner": "is owned by",
    "owned by": "is owned by",
    "owned_by": "is owned by",
    "lead": "is led by",
    "led by": "is led by",
    "assignee": "is assigned to",
    "assigned to": "is assigned to",
    "based in": "is based in",
    "located in": "is based in",
    "residence": "lives in",
    "manager": "reports to",
    "port": "listens on",
}
_ADDITIVE_STEMS: Final = frozenset(stem_of(verb) for verb in ADDITIVE_VERBS) | {
    "member",
    "alias",
    "also",
    "part",
    "tag",
    "relat",
}


_INDEFINITE: Final = re.compile(r"^an?\s", re.IGNORECASE)
"""'A large table' and 'a small table' may be two tables, and 'a man' two men: only one thing excludes its opposite."""


class Context(NamedTuple):
    """What two claims are compared with: their units' texts, days between them (None: unknown), and declared names."""

    texts: tuple[str, str]
    days_apart: float | None
    same_entity: SameEntity


class ClaimDifference(NamedTuple):
    """Kind, detail and attribute of a difference between two claims."""

    kind: Kind
    detail: str
    attribute: str


def differing_claims(claim: Claim, other: Claim, about: Context, *, declared: bool) -> ClaimDifference | None:
    """Name what two claims disagree in, or None. Symmetric, apart from the order of the values in the detail.

    ``declared``: both were given by producers, whose objects count whatever their form; of extracted claims only numbers,
    dates, antonyms, denials, and names of predicates with one object at a time.
    """
    if _disjoint(claim, other) or not _one_name(bare(claim.subject), bare(other.subject), about):
        return None
    moved = _moved_away(claim, other, about) or _moved_away(other, claim, about)
    if moved is not None:
        return moved
    if ELSEWHERE in {claim.predicate, other.predicate} or not _one_predicate(
        claim.predicate, other.predicate, about.texts
    ):
        return None
    if claim.polarity != other.polarity:
        return _denial(claim, other, about)
    if claim.polarity == "denied" or is_additive(claim.predicate):
        return None
    found = _objects(claim, other, about, declared=declared)
    some = _INDEFINITE.match(claim.subject) and _INDEFINITE.match(other.subject)
    return None if found and found.kind == "antonym" and some else found


def canonical(predicate: str) -> str:
    """Return the name of a predicate under which its spellings meet."""
    plain = " ".join(predicate.lower().replace("_", " ").split())
    return PREDICATE_SYNONYMS.get(plain, plain)


def is_additive(predicate: str) -> bool:
    """Say whether facts of this predicate add up, so that a second object never retires the first."""
    words = canonical(predicate).split()
    return any(stem_of(word) in _ADDITIVE_STEMS for word in words if word not in FUNCTION_WORDS or word == "has")


def _disjoint(claim: Claim, other: Claim) -> bool:
    return _ends_before(claim, other) or _ends_before(other, claim)


def _ends_before(claim: Claim, other: Claim) -> bool:
    return (
        claim.valid_until is not None and other.valid_from is not None and claim.valid_until.at <= other.valid_from.at
    )


def _one_name(name: str, other: str, about: Context) -> bool:
    return fold_key(name) == fold_key(other) or about.same_entity(name, other)


def _one_predicate(predicate: str, other: str, texts: tuple[str, str]) -> bool:
    """Equal, or one says it more fully and the other's text has the rest: 'Moody's credit rating' and 'credit rating'."""
    ours, theirs = canonical(predicate), canonical(other)
    if ours == theirs:
        return True
    if ours.endswith(" " + theirs):
        return _has_words(texts[1], ours.removesuffix(theirs))
    return theirs.endswith(" " + ours) and _has_words(texts[0], theirs.removesuffix(ours))


def _has_words(text: str, words: str) -> bool:
    present = {stem_of(word) for word in text.lower().replace("'s", "").split()}
    return all(stem_of(word.removesuffix("'s")) in present for word in words.split())


def _moved_away(claim: Claim, other: Claim, about: Context) -> ClaimDifference | None:
    if claim.predicate != ELSEWHERE or claim.polarity != "denied" or other.polarity == "denied":
        return None
    if canonical(other.predicate) not in PLACES or not may_be_one(claim.object, other.object, about.same_entity):
        return None
    return ClaimDifference("claim", f"moved from {claim.object}", _attribute(other))


def _denial(claim: Claim, other: Claim, about: Context) -> ClaimDifference | None:
    if _digits(claim.object) != _digits(other.object):
        return None
    if _stems(claim.object) != _stems(other.object) and not _one_name(claim.object, other.object, about):
        return None
    denied = claim if claim.polarity == "denied" else other
    return ClaimDifference("negation", f"denied: {denied.object}", _attribute(claim))


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


def _objects(claim: Claim, other: Claim, about: Context, *, declared: bool) -> ClaimDifference | None:
    left, right = claim.object, other.object
    detail, attribute = f"{left} ≠ {right}", _attribute(claim)
    kind, differ = _typed(left, right, about.days_apart)
    if kind is not None:
        return ClaimDifference(kind, detail, attribute) if differ else None
    if may_be_one(left, right, about.same_entity):
        return None
    one_name = declared or (_has_one_name(claim) and _has_one_name(other))
    if one_name and _is_name_phrase(left) and _is_name_phrase(right):
        return ClaimDifference("name", detail, attribute)
    functional = canonical(claim.predicate) in FUNCTIONAL
    return ClaimDifference("claim", detail, attribute) if functional or declared else None


def _typed(left: str, right: str, days_apart: float | None) -> tuple[Kind | None, bool]:
    """Compare objects that are one quantity, one date, or opposite words; (None, False) when they are neither."""
    days, other_days = find_days(left), find_days(right)
    if len(days) == len(other_days) == 1:
        differ = may_be_the_same(days[0], other_days[0]) is False
        return "date", differ and not are_weeks_apart(days[0], other_days[0], days_apart)
    numbers, other_numbers = find_quantities(left), find_quantities(right)
    if len(numbers) == len(other_numbers) == 1 and not days and not other_days:
        rest, other_rest = _stems(left), _stems(right)
        comparable = numbers[0].dimension == other_numbers[0].dimension and (rest <= other_rest or other_rest <= rest)
        return "number", comparable and not can_both_hold(numbers[0], other_numbers[0])
    ours, theirs = _stems(left) - _stems(right), _stems(right) - _stems(left)
    if (
        len(ours) == len(theirs) == 1
        and _opposite(left, right)
        and not (_INDEFINITE.match(left) or _INDEFINITE.match(right))
    ):
        return "antonym", True
    return None, False


def _opposite(left: str, right: str) -> bool:
    return any(are_antonyms(word, other) for word in left.lower().split() for other in right.lower().split())


def _has_one_name(claim: Claim) -> bool:
    """Whether a predicate takes one name at a time: a functional one, or an attribute in the singular of one thing."""
    predicate = canonical(claim.predicate)
    if predicate == "is":
        return is_definite(claim.subject) and not bare(claim.subject).endswith("s")
    return predicate in FUNCTIONAL or not (predicate.endswith("s") or predicate.split()[0] in {"is", *ADDITIVE_VERBS})


def _is_name_phrase(text: str) -> bool:
    words = [word.strip(".,") for word in bare(text).split()]
    content = [word for word in words if word.lower() not in FUNCTION_WORDS]
    joined = any(word.lower() in {"and", "or", "&"} for word in words) or "," in text
    return bool(content) and not joined and all(is_name(word, first=False) for word in content)


def _stems(text: str) -> frozenset[str]:
    words = [word.strip(".,") for word in text.lower().split()]
    return frozenset(stem_of(word) for word in words if word and word not in FUNCTION_WORDS and not word[0].isdigit())


def _attribute(claim: Claim) -> str:
    return f"{bare(claim.subject)} {'' if claim.predicate == 'is' else claim.predicate}".strip()
