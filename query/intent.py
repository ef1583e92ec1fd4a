"""What a question is after: tier 1 by rules, tier 2 by likeness to exemplars where the rules are unsure."""

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from query.exemplars import EXEMPLARS
from query.intent_rules import RULES, THRESHOLD
from query.intent_shapes import read_comparison, read_format, read_horizon
from query.intent_words import CJK_RULES, DOMAINS, MASKS
from schemas.intent import Intent, Purpose
from shared.embedder import Embedder, Vector

SPECIFICITY: Final = (
    Purpose.SECURITY,
    Purpose.POLICY,
    Purpose.REVIEW,
    Purpose.DEBUGGING,
    Purpose.ARCHITECTURE,
    Purpose.HOW_TO,
    Purpose.ONBOARDING,
)
"""At equal scores the narrower purpose wins: a how-to about security is a security question, not the reverse."""

READ_CHARS: Final = 1_000
"""A purpose shows in the first words; the rules read no further, so that a pasted log costs no time."""

COMPARES: Final = 2.0
"""Two things held against each other are a choice, whatever words hold them: as much as a rule that needs no witness."""

CLOSE: Final = 1.0
"""A runner-up within one point is named as the secondary purpose."""

SURE_SLOPE: Final = 0.75
SURE_OFFSET: Final = -0.1
"""Confidence of a purpose = 1 / (1 + e^-(offset + slope × margin)): fitted on the labelled questions (tests/unit)."""

SILENT_CONFIDENCE: Final = 0.55
"""Confidence of 'general' when no rule spoke at all: the rules' recall on wordings they have not seen."""

DOUBTFUL: Final = 0.65
"""Under this confidence tier 2 is asked."""

EXEMPLAR_NEAR: Final = 0.55
EXEMPLAR_LEAD: Final = 0.04
"""Tier 2 speaks when the nearest exemplar has this cosine and leads the next purpose's by this much."""


def detect_intent(text: str) -> Intent:
    """Read a question's intent by rules alone: pure, deterministic, well under a millisecond.

    Never fails: an empty or unreadable text is a general question of confidence 0.
    """
    shown = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).strip()[:READ_CHARS]
    folded = shown.casefold().replace("\u2019", "'")
    if not folded:
        return Intent()
    scores = score_purposes(folded)
    targets = read_comparison(shown)
    if targets:
        scores = {**scores, Purpose.ARCHITECTURE: scores[Purpose.ARCHITECTURE] + COMPARES}
    purpose, secondary, confidence = _decide(scores)
    shape, words = read_format(folded)
    return Intent(
        purpose=purpose,
        secondary=secondary,
        domains=tuple(name for name, pattern in DOMAINS if pattern.search(folded)),
        format=shape,
        requested_format=words,
        horizon_days=read_horizon(folded),
        comparison_targets=targets,
        complexity=_complexity(folded, bool(targets)),
        confidence=confidence,
    )


def score_purposes(folded: str) -> Mapping[Purpose, float]:
    """Sum the weights of the rules that match a case-folded question, per purpose."""
    masked = folded
    for mask in MASKS:
        masked = mask.sub("~", masked)
    scores = dict.fromkeys(SPECIFICITY, 0.0)
    for rule in RULES:
        if rule.pattern.search(masked):
            scores[rule.purpose] += rule.weight
    if not folded.isascii():
        for purpose, weight, pattern in CJK_RULES:
            if pattern.search(folded):
                scores[purpose] += weight
    return scores


def _decide(scores: Mapping[Purpose, float]) -> tuple[Purpose, Purpose | None, float]:
    ranked = sorted(SPECIFICITY, key=lambda purpose: (-scores[purpose], SPECIFICITY.index(purpose)))
    best, runner_up = ranked[0], ranked[1]
    if scores[best] < THRESHOLD:
        doubt = scores[best] / THRESHOLD * 0.2
        return Purpose.GENERAL, best if scores[best] > 0 else None, round(SILENT_CONFIDENCE - doubt, 3)
    margin = scores[best] - max(scores[runner_up], THRESHOLD - CLOSE)
    confidence = 1 / (1 + math.exp(-(SURE_OFFSET + SURE_SLOPE * margin)))
    close = scores[runner_up] >= max(THRESHOLD, scores[best] - CLOSE)
    return best, runner_up if close else None, round(confidence, 3)


def _complexity(folded: str, compares: bool) -> Literal["simple", "medium", "complex"]:
    words = len(folded.split())
    reasons = len(re.findall(r"(?<!\w)(?:why|how|compare|versus|vs|and|or|before|after|because|while)(?!\w)", folded))
    points = (words > 12) + (words > 25) + (reasons > 1) + (reasons > 3) + compares
    return "simple" if points == 0 else "medium" if points == 1 else "complex"


class IntentDetector:
    """Tier 2: where the rules are unsure, the purpose of the exemplars that are nearest to the question's vector.

    Exemplars are embedded once, by `prepare`; until then, and wherever the embedder fails, tier 1 stands.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._purposes: tuple[Purpose, ...] = ()
        self._vectors: NDArray[np.float32] | None = None

    async def prepare(self) -> None:
        """Embed the exemplars. Raises EmbedderUnavailable; then tier 1 stands alone and this may be tried again."""
        rows = [(purpose, sentence) for purpose in Purpose for sentence in EXEMPLARS.get(purpose, ())]
        vectors = [await self._embedder.embed_query(sentence) for _, sentence in rows]
        self._purposes = tuple(purpose for purpose, _ in rows)
        self._vectors = np.stack(vectors)

    def is_needed(self, intent: Intent) -> bool:
        """Tell whether tier 2 could say more than the rules did."""
        return self._vectors is not None and intent.confidence < DOUBTFUL

    def refine(self, intent: Intent, vector: Vector) -> Intent:
        """Return the intent with the purpose of the nearest exemplars, or as it was where none is near enough."""
        if self._vectors is None:
            return intent
        nearness = self._vectors @ vector
        best: dict[Purpose, float] = {}
        for purpose, near in zip(self._purposes, nearness.tolist(), strict=True):
            best[purpose] = max(best.get(purpose, -1.0), near)
        ranked = sorted(best, key=lambda purpose: (-best[purpose], purpose.value))
        first, second = ranked[0], ranked[1]
        if best[first] < EXEMPLAR_NEAR or best[first] - best[second] < EXEMPLAR_LEAD:
            return intent
        return intent.model_copy(
            update={
                "purpose": first,
                "secondary": intent.purpose if intent.purpose not in (first, Purpose.GENERAL) else None,
                "confidence": round(min(0.95, best[first]), 3),
                "tier": 2,
            }
        )
