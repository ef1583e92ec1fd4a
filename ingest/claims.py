"""Claims by rule: what a plainly built sentence asserts, as (subject, predicate, object). Nothing where in doubt."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

from ingest.vocabulary import FINITE, HEDGES
from schemas import limits
from schemas.units import Claim
from shared.text import sentences

SENTENCE_CHARS: Final = 240
"""Longer sentences are not plainly built."""
SENTENCES: Final = 200
"""Of one unit: its first claims, up to the limit of a unit, lie well within."""

Polarity = Literal["affirmed", "denied"]

_NP: Final = r"[^\s,;:.!?()][^,;:!?()]{0,80}?"
_VALUE: Final = r"[^\s,;:()][^;()]{0,80}?"
_IS: Final = r"(?:is|are)"
_NOW: Final = r"(?:\s(?:now|currently|today|already|still|again))?"
_NOT: Final = r"(?P<not>\s(?:not|no longer)|n't)?"
_END: Final = r"\s*[.!]?$"
_LEAD: Final = re.compile(
    r"^(?:however|but|also|so|and|now|today|currently|note(?: that)?|from today|as of today|from now on|since then),?\s+",
    re.IGNORECASE,
)
_ADJUNCT: Final = re.compile(
    r"(?:,|\s(?:since|because|but|while|as of|until|after|before|so that|which|who|whose"
    r"|from (?:now|today|january|february|march|april|may|june|july|august|september|october|november|december)))(?:\s|$).*$",
    re.IGNORECASE,
)
_PRESENT: Final = re.compile(
    r"\s(?:this (?:week|month|quarter|year)|at the moment|at present|these days)\b", re.IGNORECASE
)
_NOT_ONLY: Final = re.compile(r"\bnot (?:only|just|merely)\b", re.IGNORECASE)
_THE: Final = re.compile(r"^(?:the|our|their|its|his|her|my|your)\s+", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:the|a|an|our|their|its|his|her|my|your)\s+", re.IGNORECASE)
_DEFINITE: Final = re.compile(r"^(?:the|our)\s+", re.IGNORECASE)
_PRONOUN: Final = re.compile(
    r"^(?:it|its|this|that|these|those|he|his|she|her|we|they|their|my|your|i|you|there|here|what|who|which|one|someone"
    r"|everyone|nobody|nothing|no one"
    r"|everything|both|all|some|none|each|either|neither)\b",
    re.IGNORECASE,
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("^" + text + _END, re.IGNORECASE)


_ATTRIBUTE_OF: Final = _pattern(
    rf"(?:the|our)\s(?P<a>{_NP})\s(?:of|for)\s(?P<s>{_NP})\s{_IS}{_NOT}{_NOW}(?:\sset\sto)?\s(?P<v>{_VALUE})"
)
_FOR_IS: Final = _pattern(rf"(?P<a>{_NP})\sfor\s(?P<s>{_NP})\s{_IS}{_NOT}{_NOW}(?:\sset\sto)?\s(?P<v>{_VALUE})")
_POSSESSIVE: Final = _pattern(
    rf"(?:the\s)?(?P<s>{_NP})(?:'s|s')\s(?P<a>{_NP})\s{_IS}{_NOT}{_NOW}(?:\sset\sto)?\s(?P<v>{_VALUE})"
)
_IS_THE: Final = _pattern(rf"(?P<v>{_NP})\s{_IS}{_NOT}{_NOW}\s(?:the|our)\s(?P<a>{_NP})(?:\s(?:of|for)\s(?P<s>{_NP}))?")
_IS_VALUE: Final = _pattern(rf"(?P<s>{_NP})\s{_IS}{_NOT}{_NOW}(?:\sset\sto)?\s(?P<v>{_VALUE})")
_CHANGED: Final = _pattern(
    rf"(?:(?P<by>{_NP})\s)?(?:set|changed|raised|lowered|increased|decreased|reduced|upgraded|downgraded|bumped|cut)\s(?:the\s|our\s)?"
    rf"(?:(?P<owner>{_NP})(?:'s|s')\s)?(?P<a>{_NP})(?:\s(?:of|for)\s(?P<s>{_NP}))?(?:\sfrom\s{_NP})?\sto\s(?P<v>{_VALUE})"
)
_WAS_CHANGED: Final = _pattern(
    rf"(?:the\s|our\s)?(?P<a>{_NP})(?:\s(?:of|for)\s(?P<s>{_NP}))?\s(?:was|were|has been|have been|is being)\s"
    rf"(?:set|changed|raised|lowered|increased|decreased|reduced|upgraded|downgraded|bumped|cut)(?:\sfrom\s{_NP})?\sto\s(?P<v>{_VALUE})"
)
_MOVED: Final = _pattern(
    rf"(?P<s>{_NP})\s(?:has\s|was\s|have\s)?(?:moved|relocated|transferred|switched|migrated|reassigned)\sfrom\s(?P<from>{_NP})\sto\s(?P<v>{_NP})"
)
_HANDED: Final = _pattern(
    rf"(?P<s>{_NP})\s(?:was|were|has been|is)\s(?:now\s)?"
    rf"(?P<how>handed over|handed off|handed|transferred|reassigned|given)\sto\s(?P<v>{_NP})"
)

RELATIONS: Final = (
    ("is owned by", r"(?:is|are)", r"owned by"),
    ("is led by", r"(?:is|are)", r"(?:led|headed|managed|run) by"),
    ("is maintained by", r"(?:is|are)", r"maintained by"),
    ("is assigned to", r"(?:is|are)", r"assigned to"),
    ("is based in", r"(?:is|are)", r"(?:based|located|situated|headquartered) (?:in|at)"),
    ("lives in", r"", r"(?:lives|live|resides) in"),
    ("reports to", r"", r"(?:reports|report) to"),
    ("listens on", r"", r"(?:listens|listen) on(?: port)?"),
    ("expires on", r"", r"(?:expires|expire)(?: on| in| after)?"),
    ("starts on", r"", r"(?:starts|begins|start|begin)(?: on| at| in)?"),
    ("ends on", r"", r"(?:ends|end|finishes)(?: on| at| in)?"),
    ("uses", r"", r"(?:uses|use)"),
    ("works on", r"", r"(?:works|work) on"),
    ("works at", r"", r"(?:works|work) (?:at|for)"),
    ("administers", r"", r"(?:administers|administer)"),
    ("depends on", r"", r"(?:depends|depend|relies|rely) on"),
)  # fmt: skip
"""(predicate, auxiliary, verb): the predicate is named as the sentence has it in the third person."""

INVERSE: Final = {
    "owns": "is owned by",
    "own": "is owned by",
    "leads": "is led by",
    "lead": "is led by",
    "maintains": "is maintained by",
}

_RELATION_PATTERNS: Final = tuple(
    (
        name,
        _pattern(
            rf"(?P<s>{_NP})\s{auxiliary}{_NOT}{_NOW}\s{verb}\s(?P<v>{_VALUE})"
            if auxiliary
            else rf"(?P<s>{_NP})(?P<not>\s(?:does not|doesn't|do not|don't|no longer|never))?{_NOW}\s{verb}\s(?P<v>{_VALUE})"
        ),
    )
    for name, auxiliary, verb in RELATIONS
)
_INVERSE_PATTERN: Final = _pattern(
    rf"(?P<v>{_NP})(?P<not>\s(?:does not|doesn't|no longer|never))?{_NOW}\s(?P<verb>{'|'.join(INVERSE)})\s(?P<s>{_NP})"
)
_ANY_RELATION: Final = re.compile("|".join(rf"\s(?:{verb})\s" for _, _, verb in RELATIONS), re.IGNORECASE)
_ANY_CHANGE: Final = re.compile(
    r"\b(?:set|changed|raised|lowered|increased|decreased|reduced|upgraded|downgraded|bumped|cut)\b.*\sto\s",
    re.IGNORECASE,
)
_ANY_IS: Final = re.compile(r"\s(?:is|are)(?:n't)?\s", re.IGNORECASE)
"""A sentence without any of these makes no claim of the kind, and most have none."""
ELSEWHERE: Final = "is at"
"""Predicate of 'moved from A to B': denied for A, affirmed for B; which relation moved is not said."""


@lru_cache(maxsize=2_048)  # the comparison reads each unit's claims again for each of its candidates
def extract_claims(text: str) -> tuple[Claim, ...]:
    """Extract what is plainly asserted, in order of the text, each once, at most as many as a unit may have.

    Questions, conditions, guesses and past states assert nothing. 'Moved from A to B' denies A and affirms B.
    """
    found: dict[tuple[str, ...], Claim] = {}
    for start, end in sentences(text)[:SENTENCES]:
        for claim in _claims_of(text[start:end]):
            found.setdefault((claim.subject, claim.predicate, claim.object, claim.polarity), claim)
        if len(found) >= limits.CLAIMS:
            break
    return tuple(found.values())[: limits.CLAIMS]


def bare(phrase: str) -> str:
    """Return a phrase without its article."""
    return _ARTICLE.sub("", phrase.strip())


def is_definite(phrase: str) -> bool:
    """Say whether a phrase names one thing: 'the on-call lead'."""
    return _DEFINITE.match(phrase) is not None


def _claims_of(sentence: str) -> tuple[Claim, ...]:
    sentence = " ".join(sentence.replace("’", "'").split()).strip("*_-• ")
    if not sentence or len(sentence) > SENTENCE_CHARS or sentence.endswith("?") or _NOT_ONLY.search(sentence):
        return ()
    if not HEDGES.isdisjoint(re.findall(r"[a-z]+", sentence.lower())):
        return ()
    sentence = _PRESENT.sub("", _LEAD.sub("", sentence))
    sentence = _ADJUNCT.sub("", sentence).rstrip(" .!")
    for read in (_moved, _handed, _changed, _related, _owned, _attribute):
        claims = tuple(read(sentence))
        if claims:
            return claims
    return ()


def _moved(sentence: str) -> Iterator[Claim]:
    match = _MOVED.match(sentence)
    if match:
        yield from _claim(match["s"], ELSEWHERE, match["from"], "denied")
        yield from _claim(match["s"], ELSEWHERE, match["v"])


def _handed(sentence: str) -> Iterator[Claim]:
    match = _HANDED.match(sentence)
    if match:
        yield from _claim(
            match["s"], "is assigned to" if match["how"].lower() == "reassigned" else "is owned by", match["v"]
        )


def _changed(sentence: str) -> Iterator[Claim]:
    if not _ANY_CHANGE.search(sentence):
        return
    match = _WAS_CHANGED.match(sentence) or _CHANGED.match(sentence)
    if match:
        subject = match.groupdict().get("owner") or match["s"]
        if subject:
            yield from _claim(subject, bare(match["a"]), match["v"])
        else:
            yield from _claim(f"the {bare(match['a'])}", "is", match["v"])


def _related(sentence: str) -> Iterator[Claim]:
    if not _ANY_RELATION.search(sentence) or _PRONOUN.match(sentence):
        return
    for predicate, pattern in _RELATION_PATTERNS:
        match = pattern.match(sentence)
        if match:
            yield from _claim(match["s"], predicate, match["v"], "denied" if match["not"] else "affirmed")
            return


def _owned(sentence: str) -> Iterator[Claim]:
    match = _INVERSE_PATTERN.match(sentence)
    if match:
        polarity: Polarity = "denied" if match["not"] else "affirmed"
        yield from _claim(match["s"], INVERSE[match["verb"].lower()], match["v"], polarity)


def _attribute(sentence: str) -> Iterator[Claim]:
    if not _ANY_IS.search(sentence) or _PRONOUN.match(sentence):
        return
    for pattern in (_IS_THE, _ATTRIBUTE_OF, _FOR_IS, _POSSESSIVE, _IS_VALUE):
        match = pattern.match(sentence)
        if match is None:
            continue
        parts = match.groupdict()
        subject, attribute = parts.get("s"), parts.get("a")
        polarity: Polarity = "denied" if parts["not"] else "affirmed"
        if attribute is None:
            claims = tuple(_claim(subject or "", "is", parts["v"], polarity))
        elif subject is None:
            claims = tuple(_claim(f"the {bare(attribute)}", "is", parts["v"], polarity))
        else:
            claims = tuple(_claim(subject, bare(attribute), parts["v"], polarity))
        if claims:
            yield from claims
            return


def _claim(subject: str, predicate: str, value: str, polarity: Polarity = "affirmed") -> Iterator[Claim]:
    """Give the claim unless a part is a pronoun, a clause, or too long to be a phrase."""
    subject, predicate, value = (
        subject.strip(),
        " ".join(predicate.lower().split()),
        _THE.sub("", value.strip(" .!\"'")),
    )
    if not _is_phrase(subject, 8) or not _is_phrase(value, 8) or not _is_phrase(predicate, 6, among=_PREDICATES):
        return
    yield Claim(
        subject=subject[: limits.NAME_CHARS],
        predicate=predicate[: limits.NAME_CHARS],
        object=value[:1000],
        polarity=polarity,
    )


_PREDICATES: Final = frozenset(name for name, _, _ in RELATIONS) | {ELSEWHERE, "is"}


def _is_phrase(text: str, words: int, *, among: frozenset[str] = frozenset()) -> bool:
    parts = text.split()
    if text in among:
        return True
    if not parts or len(parts) > words or _PRONOUN.match(text):
        return False
    return not any(part.lower() in FINITE for part in parts)
