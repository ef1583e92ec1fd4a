"""How much each arm's list counts in fusion: by what the question is for, and by how sure the arm is of itself."""

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.intent import Purpose
from shared.store import PassageHit

KEYWORD: Final = "keyword"
VECTOR: Final = "vector"
GRAPH: Final = "graph"

ALL_ARMS: Final = frozenset({KEYWORD, VECTOR, GRAPH})

PURPOSE_VECTOR: Final[Mapping[Purpose, float]] = {Purpose.HOW_TO: 1.3, Purpose.DEBUGGING: 1.3}
"""Who asks how to do something rarely uses the words of whoever knows it: there meaning counts more."""

PLACE: Final = 10
GAIN: Final = 8.0
LEAST: Final = 0.5
MOST: Final = 3.0
"""The vector arm's weight is 8 × (cosine of its best hit - cosine of its tenth), from 0.5 to 3: a best hit that stands
out knows the answer, a flat list guesses. Shared halves, plain RRF of two arms at weight 1 against this: StackFAQ MRR 85.5
to 90.4 (vectors alone 89.9), LoCoMo recall@10 73.7 to 74.7, 2Wiki unchanged."""


def arm_weights(purpose: Purpose, vector: Sequence[PassageHit]) -> Mapping[str, float]:
    """Return the weight of each arm; ``vector``: that arm's hits, best first, scores cosines.

    With fewer than ten hits nothing can stand out, and the arm weighs as much as the keyword arm.
    """
    sure = 1.0
    if len(vector) >= PLACE:
        sure = min(MOST, max(LEAST, GAIN * (vector[0].score - vector[PLACE - 1].score)))
    return {KEYWORD: 1.0, VECTOR: round(sure * PURPOSE_VECTOR.get(purpose, 1.0), 4), GRAPH: 1.0}
