"""Which entities a question names: declared and mentioned names by their words, then misspellings, then names by shape."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from schemas.answers import EntityMatch
from schemas.messages import Mention
from shared.grams import find_known, grams
from shared.graph import GraphSnapshot, Resolved
from shared.identifiers import differs_in_identifier
from shared.identity import fold_key
from shared.mentions import find_mentions
from shared.scripts import UNSPACED, class_of
from shared.stopwords import ENGLISH

MENTIONED_CONFIDENCE: Final = 0.9  # nobody declared the name, but readable units use it
UNKNOWN_CONFIDENCE: Final = 0.3  # it looks like a name, and nothing that may be read knows it
AMBIGUOUS_CONFIDENCE: Final = 0.5  # several declared entities claim the name: none is preferred
FUZZY_WORDS: Final = 3  # longest sequence of words that is tried as a misspelt name
UNSPACED_CHARS: Final = 500
"""A question is read up to so many characters of scripts without spaces: at each of them seven names may begin."""

_UNSPACED: Final = re.compile(f"[{class_of(UNSPACED)}]")
ENTITIES: Final = 32  # of one question; the first ones, should it name more


class _Known:
    """The keys that a snapshot knows, as a container, asked once a key."""

    def __init__(self, snapshot: GraphSnapshot, scopes: frozenset[str]) -> None:
        self._snapshot = snapshot
        self._scopes = scopes
        self._answers: dict[str, bool] = {}

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str) or not any(char.isalpha() for char in key):
            return False
        if key not in self._answers:
            self._answers[key] = self._snapshot.knows(key, self._scopes)
        return self._answers[key]


def find_entities(
    question_text: str, snapshot: GraphSnapshot, scopes: frozenset[str] = frozenset()
) -> list[EntityMatch]:
    """Find the entities that a question names, in order of place, without overlaps; spans index the text as given.

    Exact names first (declared ones, and keys that units in ``scopes`` mention), longest first and by whole words only;
    then guarded misspellings of declared names; then what looks like a name, as unknown. A name that differs from a known
    one by a number or initial ("Room 102", where "Room" is known) is not that one.
    """
    question_text = _bounded(question_text)
    known = _Known(snapshot, scopes)
    shaped = _outermost(find_mentions(question_text))
    exact = [
        mention
        for mention in find_known(question_text, known)
        if not any(_is_more_exact(other, mention) and other.key not in known for other in shaped)
    ]
    taken = bytearray(len(question_text))
    matches = [_match(mention, snapshot, known) for mention in _free(exact, taken)]
    matches.extend(_misspelt(question_text, snapshot, taken))
    matches.extend(_match(mention, snapshot, known) for mention in _free(shaped, taken))
    return sorted(matches, key=lambda match: (match.start, match.end))[:ENTITIES]


def _bounded(text: str) -> str:
    ends = (match.end() for match in _UNSPACED.finditer(text))
    return text[: next(islice(ends, UNSPACED_CHARS, None), len(text))]


def _outermost(mentions: Sequence[Mention]) -> list[Mention]:
    """Leave out bare names inside names with a version or title."""
    outer: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if not outer or mention.start >= outer[-1].end:
            outer.append(mention)
    return outer


def _is_more_exact(longer: Mention, shorter: Mention) -> bool:
    inside = longer.start <= shorter.start and shorter.end <= longer.end and longer.key != shorter.key
    return inside and differs_in_identifier(longer.surface, shorter.surface)


def _free(mentions: Iterable[Mention], taken: bytearray) -> Iterable[Mention]:
    for mention in mentions:
        if not any(taken[mention.start : mention.end]):
            taken[mention.start : mention.end] = b"\x01" * (mention.end - mention.start)
            yield mention


def _misspelt(text: str, snapshot: GraphSnapshot, taken: bytearray) -> Iterable[EntityMatch]:
    """Yield word sequences that misspell a declared name, longest first."""
    for start, end in sorted(grams(text, FUZZY_WORDS), key=lambda span: (span[0] - span[1], span[0])):
        surface = text[start:end]
        if any(taken[start:end]) or any(word.lower() in ENGLISH for word in surface.split()):
            continue
        resolved = snapshot.resolve(fold_key(surface))
        if resolved.method == "fuzzy":
            taken[start:end] = b"\x01" * (end - start)
            yield _entity_match(Mention(key=fold_key(surface), surface=surface, start=start, end=end), resolved)


def _match(mention: Mention, snapshot: GraphSnapshot, known: _Known) -> EntityMatch:
    resolved = snapshot.resolve(mention.key)
    if resolved.candidates:
        return _entity_match(mention, resolved, method="exact", confidence=AMBIGUOUS_CONFIDENCE)
    if resolved.method in {"exact", "fuzzy"}:
        return _entity_match(mention, resolved)
    if mention.key in known:
        return _entity_match(mention, resolved, method="exact", confidence=MENTIONED_CONFIDENCE)
    return _entity_match(mention, resolved, confidence=UNKNOWN_CONFIDENCE)


def _entity_match(
    mention: Mention, resolved: Resolved, *, method: str | None = None, confidence: float | None = None
) -> EntityMatch:
    declared = resolved.type is not None
    return EntityMatch.model_validate(
        {
            "surface": mention.surface,
            "start": mention.start,
            "end": mention.end,
            "key": mention.key,
            "entity_id": resolved.entity_id,
            "name": resolved.name if declared else mention.surface,
            "type": resolved.type,
            "method": method or resolved.method,
            "confidence": resolved.confidence if confidence is None else confidence,
            "candidates": resolved.candidates,
        }
    )
