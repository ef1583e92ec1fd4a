"""A score spelled out: summands and factors, each with its name."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.answers import ScoreTerm

SUMMED: Final = ("rrf.", "graph.")
"""Terms whose names begin so are summed; all others multiply the sum."""


class Term(NamedTuple):
    """One named summand or factor: an answer's `ScoreTerm` before it is one, for hundreds are made and few are shown."""

    name: str
    value: float
    detail: str = ""


def score_of(terms: Iterable[Term | ScoreTerm]) -> float:
    """Return (sum of the terms in ``SUMMED``) × (product of the others): the score that the terms spell out. No terms: 0."""
    summed, product = 0.0, 1.0
    for term in terms:
        if term.name.startswith(SUMMED):
            summed += term.value
        else:
            product *= term.value
    return summed * product


def spelled_out(terms: Iterable[Term | ScoreTerm]) -> tuple[ScoreTerm, ...]:
    """Return the terms as an answer shows them."""
    return tuple(ScoreTerm(name=term.name, value=term.value, detail=term.detail) for term in terms)
