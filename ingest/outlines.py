"""Outlines of units, small enough to keep for many thousands: they tell at once which pairs cannot differ.

`compare` reads sentences, numbers and names, and most candidates have nothing in common with a unit but an entity. An
outline keeps only what each rule of the comparison needs first: the entities that claims are about, and the words that
two statements must share. A set of words is kept as a number of `BITS` bits, one for each word by its hash; two words may
meet in one bit, so what two sets share is bounded from above, never guessed. Hence `may_differ` may say yes in vain, and
never says no to a pair in which `compare` finds a difference.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ingest.claim_differences import PLACES, canonical
from ingest.claims import ELSEWHERE, bare, extract_claims
from ingest.differences import OVERLAP, TIGHT_OVERLAP, ComparedUnit
from ingest.statements import Statement, read_statements
from schemas.units import Claim

EntityOf = Callable[[str], str]
"""The entity that a name resolves to."""

BITS: Final = 512
"""A sentence has ten to thirty content words: at this size two different words rarely meet."""


class Words(NamedTuple):
    """A bag of words. ``bits``: one for each word and repetition; ``hidden``: how many share a bit with another one."""

    bits: int
    size: int
    hidden: int


class StatementOutline(NamedTuple):
    """What of a statement decides which rules can apply. ``plain``: its words that are no names."""

    words: Words
    plain: Words
    subject: int
    denied: bool
    hedged: bool
    numbers: bool
    days: bool


class Outline(NamedTuple):
    """A unit's claims, as (entity, end of the predicate), and its statements."""

    claims: frozenset[tuple[str, str]]
    statements: tuple[StatementOutline, ...]


def outline_of(unit: ComparedUnit, entity_of: EntityOf) -> Outline:
    """Read a unit as `compare` does, and keep its outline."""
    claims = (*unit.claims, *extract_claims(unit.text))
    return Outline(
        claims=frozenset(pair for claim in claims for pair in _claim_pairs(claim, entity_of)),
        statements=tuple(_statement_outline(statement) for statement in read_statements(unit.text)),
    )


def may_differ(a: Outline, b: Outline) -> bool:
    """Say whether `compare` can find a difference, at any similarity, when names resolve as in the outlines. Symmetric."""
    if not a.claims.isdisjoint(b.claims):
        return True
    return any(_may_exclude(left, right) for left in a.statements for right in b.statements)


def _claim_pairs(claim: Claim, entity_of: EntityOf) -> Iterable[tuple[str, str]]:
    """Two claims can differ when they share a pair: predicates are equal, or one ends in the other.

    'Moved from A' stands against every predicate of a place.
    """
    entity = entity_of(bare(claim.subject))
    places = PLACES if claim.predicate == ELSEWHERE else ()
    return [(entity, _end_of(predicate)) for predicate in (claim.predicate, *places)]


def _end_of(predicate: str) -> str:
    return canonical(predicate).rpartition(" ")[2]


def _statement_outline(statement: Statement) -> StatementOutline:
    return StatementOutline(
        words=_words(word.stem for word in statement.words),
        plain=_words(word.stem for word in statement.words if not word.name),
        subject=_words(statement.subject).bits,
        denied=statement.denied,
        hedged=statement.hedged,
        numbers=bool(statement.quantities),
        days=bool(statement.days),
    )


def _words(stems: Iterable[str]) -> Words:
    bits = size = 0
    seen: Counter[str] = Counter()
    for stem in stems:
        # the first of its kind by the stem alone, so that sets of stems (the subject) have the same bits
        bits |= 1 << (hash((stem, seen[stem]) if seen[stem] else stem) % BITS)
        seen[stem] += 1
        size += 1
    return Words(bits, size, size - bits.bit_count())


def _common(left: Words, right: Words) -> int:
    """Return how many words two bags share, or more."""
    return (left.bits & right.bits).bit_count() + min(left.hidden, right.hidden)


def _may_exclude(left: StatementOutline, right: StatementOutline) -> bool:
    """Go through the rules of the comparison by what each of them asks first."""
    if left.subject & ~right.words.bits and right.subject & ~left.words.bits:
        return False  # each subject tells the two apart
    common, size = _common(left.words, right.words), left.words.size + right.words.size
    if not common:
        return False
    if not (left.hedged or right.hedged) and 2 * (common + 1) >= TIGHT_OVERLAP * size:
        return True  # a denial or a pair of opposites, which counts as one word more
    if left.denied or right.denied:
        return False
    if (left.days and right.days) or (left.numbers and right.numbers and 2 * common >= OVERLAP * size):
        return True
    plain = left.plain.size + right.plain.size
    return 2 * _common(left.plain, right.plain) >= TIGHT_OVERLAP * plain > 0
