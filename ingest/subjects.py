"""What a text's sentences are about although it is not written as a name: 'the payments client', 'deploy freeze'."""

from collections.abc import Iterator
from typing import Final

from ingest.claims import bare
from ingest.statements import read_statements
from ingest.vocabulary import FUNCTION_WORDS
from schemas.messages import Mention
from schemas.units import Claim
from shared.identity import fold_key

SUBJECT_WORDS: Final = 3
"""A longer subject describes something and does not name it."""
OPENINGS: Final = frozenset({"", "the", "our", "a", "an", "all"})
ADVERBS: Final = frozenset({"", "also", "no longer", "never", "now", "still", "already", "always", "only"})
"""What may stand before a plain subject, and between it and its verb: 'Yeah, it was' has another subject."""
SUBJECTS: Final = 32
"""Of one text, the first ones."""


def subject_mentions(text: str, claims: tuple[Claim, ...], taken: tuple[Mention, ...]) -> tuple[Mention, ...]:
    """Return mentions of the subjects of claims and of sentences in which no mention stands yet, each key once.

    Units that say something about one such subject become candidates of each other; ``taken``: mentions found already.
    """
    found: dict[str, Mention] = {}
    known = {mention.key for mention in taken}
    for start, end in (*_claimed(text, claims), *_spoken_of(text)):
        phrase = text[start:end]
        key = fold_key(phrase)
        if not key or key in known or key in found or not _is_plain(phrase):
            continue
        if not any(start < mention.end and mention.start < end for mention in taken):
            found[key] = Mention(key=key, surface=phrase, start=start, end=end)
    return tuple(found.values())[:SUBJECTS]


def _claimed(text: str, claims: tuple[Claim, ...]) -> Iterator[tuple[int, int]]:
    folded = text.lower()
    for claim in claims:
        phrase = bare(claim.subject)
        start = folded.find(phrase.lower()) if len(folded) == len(text) else text.find(phrase)
        if start >= 0:
            yield start, start + len(phrase)


def _spoken_of(text: str) -> Iterator[tuple[int, int]]:
    """Give what stands alone between the start of a clause and its main verb."""
    for statement in read_statements(text):
        words = [word for word in statement.words if word.subject]
        if not words or statement.main_verb >= len(statement.text):
            continue
        before, after = statement.text[: words[0].start], statement.text[words[-1].end : statement.main_verb]
        phrase = statement.text[words[0].start : words[-1].end]
        own = phrase.startswith(words[0].surface)  # not taken over from the clause before
        if own and before.strip().lower() in OPENINGS and after.strip().lower() in ADVERBS:
            at = text.find(phrase)
            if at >= 0:
                yield at, at + len(phrase)


def _is_plain(phrase: str) -> bool:
    words = phrase.lower().split()
    return 0 < len(words) <= SUBJECT_WORDS and FUNCTION_WORDS.isdisjoint(words) and phrase.replace(" ", "").isalpha()
