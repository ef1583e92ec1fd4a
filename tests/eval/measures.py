"""Recall, reciprocal rank and bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000  # the interval's ends move by about a tenth of a point between seeds
SEED = 20_260_301


@dataclass(frozen=True)
class Score:
    """A mean in percent with the 95 % interval of a bootstrap over questions."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:5.1f} [{self.low:4.1f}, {self.high:4.1f}]"


def recall_at(ranked: Sequence[frozenset[str]], gold: frozenset[str], k: int) -> float:
    """Return the share of gold ids among the first ``k`` places; a place holds the ids that were merged into it."""
    found = frozenset[str]().union(*ranked[:k]) if ranked[:k] else frozenset()
    return len(gold & found) / len(gold)


def all_at(ranked: Sequence[frozenset[str]], gold: frozenset[str], k: int) -> float:
    """Return 1.0 when every gold id is among the first ``k`` places."""
    return float(recall_at(ranked, gold, k) == 1.0)


def reciprocal_rank(ranked: Sequence[frozenset[str]], gold: frozenset[str], k: int) -> float:
    """Return 1/rank of the first place with a gold id, 0 beyond ``k``."""
    return next((1 / rank for rank, place in enumerate(ranked[:k], start=1) if place & gold), 0.0)


def interval(values: Sequence[float]) -> Score:
    """Return the mean in percent and its 95 % bootstrap interval."""
    array = np.asarray(values, dtype=np.float64) * 100
    if not len(array):
        return Score(float("nan"), float("nan"), float("nan"))
    picks = np.random.default_rng(SEED).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), [2.5, 97.5])
    return Score(float(array.mean()), float(low), float(high))


def overlap_at(first: Sequence[frozenset[str]], second: Sequence[frozenset[str]], k: int) -> float:
    """Return the share of ids that two rankings have in common among their first ``k`` places, of the longer one's ids."""
    one, other = (frozenset[str]().union(*ranked[:k]) for ranked in (first, second))
    return len(one & other) / max(len(one), len(other), 1) if one or other else 1.0
