"""The gate: whether anything that was found is good enough to stand as an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from query.fuse import Candidate
from shared.text import query_terms, terms

READ: Final = 5
"""How many of the best results the gate looks at: one good one is enough, so their best counts, never their mean."""

NEAR: Final = 0.50
"""From this cosine on the nearest text is about the question, whatever words it uses."""

FAR: Final = 0.25
"""Below this cosine no text is about the question, unless it has all its words."""

COVERED: Final = 0.5
"""Between the two, the best text must have this share of the question's words."""

READ_CHARS: Final = 8_000
"""So much of a text is looked through for the question's words: as much as an answer could ever quote."""

LONG_WORD: Final = 0.999
"""Without any vector, only a text with all (two or more) words of the question, or most of a longer one, is believed."""


@dataclass(frozen=True)
class Verdict:
    """``low``: nothing stands as an answer. ``similarity``: of the best result, in [-1, 1]; ``coverage`` in [0, 1], None
    where the nearness alone decided.
    """

    low: bool
    reason: str
    similarity: float
    coverage: float | None


def judge(question: str, ranked: Sequence[Candidate], *, has_vectors: bool) -> Verdict:
    """Judge the best candidates. Honest about an empty list; a lost vector arm is judged by words alone."""
    if not ranked:
        return Verdict(low=True, reason="nothing was found", similarity=0.0, coverage=0.0)
    read = ranked[:READ]
    similarity = max(candidate.similarity for candidate in read)
    if has_vectors and similarity >= NEAR:
        return Verdict(low=False, reason="", similarity=similarity, coverage=None)
    wanted = frozenset(query_terms(question))
    coverages = [_coverage(wanted, candidate) for candidate in read]
    coverage = max(coverages)
    if not has_vectors:
        low = coverage < (LONG_WORD if len(wanted) < 3 else COVERED)
        return Verdict(low, "" if not low else "few of the question's words were found", similarity, coverage)
    stands = any(
        (candidate.similarity >= FAR and covered >= COVERED) or (covered >= LONG_WORD and len(wanted) > 1)
        for candidate, covered in zip(read, coverages, strict=True)
    )
    reason = (
        ""
        if stands
        else f"the nearest text has a similarity of {similarity:.2f} and {coverage:.0%} of the question's words"
    )
    return Verdict(not stands, reason, similarity, coverage)


def _coverage(wanted: frozenset[str], candidate: Candidate) -> float:
    """Share of the question's terms that title and text have."""
    if not wanted:
        return 0.0
    unit = candidate.unit.known.unit
    return len(wanted & frozenset(terms(f"{unit.title or ''}\n{unit.text[:READ_CHARS]}"))) / len(wanted)
