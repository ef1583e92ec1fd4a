"""What kind of knowledge a commit is, by rules over whole words: "prefix" is no fix, "defeat" no feature, "adrian" no ADR.

The first that speaks decides: a conventional-commit type or sign of breaking, the verb that opens the subject, a fix or
a decision named elsewhere in it, an issue closed as fixed, a decision stated in the body. What nothing speaks for is
``context``. Negated, attempted and trivial fixes (of typos, format, tests' names) are context too.
"""

import re
from collections.abc import Sequence
from typing import Final

from schemas.units import UnitType

_CONVENTIONAL: Final = re.compile(r"^([A-Za-z]{2,20})(?:\([^()\n]{0,80}\))?(!)?:\s+(?=\S)")
_TYPES: Final = {
    "fix": UnitType.ERROR_FIX, "bugfix": UnitType.ERROR_FIX, "hotfix": UnitType.ERROR_FIX, "revert": UnitType.ERROR_FIX,
    "security": UnitType.ERROR_FIX, "sec": UnitType.ERROR_FIX, "refactor": UnitType.PATTERN, "perf": UnitType.PATTERN,
    "feat": UnitType.CONTEXT, "feature": UnitType.CONTEXT, "docs": UnitType.CONTEXT, "doc": UnitType.CONTEXT,
    "test": UnitType.CONTEXT, "tests": UnitType.CONTEXT, "chore": UnitType.CONTEXT, "build": UnitType.CONTEXT,
    "ci": UnitType.CONTEXT, "style": UnitType.CONTEXT, "release": UnitType.CONTEXT, "deps": UnitType.CONTEXT,
    "decision": UnitType.DECISION, "adr": UnitType.DECISION, "deprecate": UnitType.DECISION,
}  # fmt: skip
"""Types of conventional commits 1.0 and their usual additions. A ``feat`` that decides something is seen by its words."""

_GITMOJI: Final = {
    "🐛": UnitType.ERROR_FIX, ":bug:": UnitType.ERROR_FIX, "🚑": UnitType.ERROR_FIX, ":ambulance:": UnitType.ERROR_FIX,
    "🩹": UnitType.ERROR_FIX, "⏪": UnitType.ERROR_FIX, ":rewind:": UnitType.ERROR_FIX, "🔒": UnitType.ERROR_FIX,
    "💥": UnitType.DECISION, ":boom:": UnitType.DECISION, "♻": UnitType.PATTERN, ":recycle:": UnitType.PATTERN,
    "⚡": UnitType.PATTERN, ":zap:": UnitType.PATTERN,
}  # fmt: skip
_BREAKING: Final = re.compile(r"^BREAKING[ -]CHANGE:\s", re.MULTILINE)
_WORD: Final = re.compile(r"(?<![\w#/.-])[^\W\d_][\w'’]*(?:[-./][\w'’]+)*")
"""A whole word: compounds, paths and options stay in one piece, so "feature-flag", "fix.py" and "--fix" are no words of ours."""
_CLAUSE: Final = re.compile(r"[:;,(\]]\s+|\s+[-–—]\s+|\s+(?:and|also|then|&|\+)\s+")

_FIX: Final = frozenset({"fix", "fixes", "fixing", "bugfix", "bug-fix", "hotfix", "hot-fix"})
_FIX_VERBS: Final = frozenset(
    {
        *_FIX,
        "fixed",
        "repair",
        "repairs",
        "repaired",
        "mend",
        "mends",
        "mended",
        "revert",
        "reverts",
        "rollback",
        "roll",
    }
)
_AMENDS: Final = frozenset({"resolve", "resolves", "resolved", "correct", "corrects", "corrected", "prevent", "prevents",
    "avoid", "avoids", "stop", "handle", "handles", "guard", "work", "workaround", "survive", "eliminate", "cure", "solve",
    "solves", "solved"})  # fmt: skip
_FAULTS: Final = frozenset({"bug", "bugs", "crash", "crashes", "crashing", "deadlock", "deadlocks", "leak", "leaks", "leaking",
    "race", "races", "regression", "regressions", "segfault", "panic", "panics", "exception", "exceptions", "error", "errors",
    "failure", "failures", "failing", "hang", "hangs", "hanging", "corruption", "overflow", "underflow", "vulnerability",
    "fault", "faults", "freeze", "freezes", "outage", "defect", "injection", "npe", "oom", "nullpointerexception", "typeerror",
    "keyerror", "valueerror", "breakage", "broken", "flaky", "flakiness", "stall", "stalls", "loop", "duplicates"})  # fmt: skip
_TRIVIAL: Final = frozenset({"typo", "typos", "spelling", "grammar", "wording", "whitespace", "formatting", "format", "lint",
    "linter", "linting", "style", "indentation", "indent", "comment", "comments", "docstring", "docstrings", "readme",
    "changelog", "imports", "import", "nit", "nits", "capitalization", "punctuation", "mypy", "ruff", "flake8", "eslint",
    "typecheck"})  # fmt: skip
_NOT_A_FIX_OF: Final = frozenset({"command", "option", "flag", "script", "mode", "subcommand", "button", "suggestion",
    "suggestions", "version", "versions", "point", "points", "width", "size", "length", "price",
    "prices", "rate", "list"})  # fmt: skip
_NEGATIONS: Final = frozenset({"not", "no", "never", "without", "cannot", "can't", "won't", "don't", "doesn't", "didn't",
    "isn't", "wasn't", "haven't", "hasn't", "couldn't", "unable", "yet", "todo", "fixme", "try", "tries", "trying", "attempt",
    "attempts", "wip", "should", "must", "maybe", "might", "plan", "planned", "reproduce", "before", "until", "need",
    "needs"})  # fmt: skip
NEGATED_WITHIN: Final = 4  # words before the verb in which a negation or an attempt reaches it

_DECIDES: Final = frozenset({"decide", "decides", "decided", "choose", "chooses", "chose", "adopt", "adopts", "adopted",
    "migrate", "migrates", "migrated", "deprecate", "deprecates", "deprecated", "standardise", "standardize", "retire",
    "retires", "abandon", "abandons", "sunset"})  # fmt: skip
_DECIDES_WITH: Final = {
    "switch": frozenset({"to", "from", "over"}), "switches": frozenset({"to", "from", "over"}),
    "switched": frozenset({"to", "from", "over"}), "replace": frozenset({"with", "by"}), "replaces": frozenset({"with", "by"}),
    "replaced": frozenset({"with", "by"}), "drop": frozenset({"support"}), "drops": frozenset({"support"}),
    "dropped": frozenset({"support"}), "remove": frozenset({"support"}), "use": frozenset({"instead"}),
    "uses": frozenset({"instead"}), "prefer": frozenset({"over", "to"}), "pick": frozenset({"over"}),
    "standardize": frozenset({"on"}), "settle": frozenset({"on"}), "go": frozenset({"with"}),
}  # fmt: skip
"""Verbs that decide only in company: "switch to Kafka", not "switch statement"."""
_PATTERN: Final = frozenset({"refactor", "refactors", "refactored", "extract", "extracts", "unify", "unifies", "consolidate",
    "consolidates", "centralise", "centralize", "deduplicate", "generalise", "generalize", "simplify", "simplifies",
    "decouple", "factor", "always", "hold", "enforce", "enforces", "optimise", "optimize"})  # fmt: skip

_FIXES_ISSUE: Final = re.compile(
    r"^\W{0,3}(?:fix(?:es|ed)?|resolves?|resolved)\b:?\s+(?:[\w.-]+/[\w.-]+)?"
    r"(?:#\d+|gh-\d+|[A-Z][A-Z0-9]+-\d+|https?://\S+/issues/\d+|[0-9a-f]{8,40}\b)",
    re.IGNORECASE | re.MULTILINE,
)
_DECISION_SAID: Final = re.compile(
    r"\b(?:we|i|team|it was)(?: have| has| had|'ve)? "
    r"(?:decided (?:to|on|that|against)|chose|agreed (?:to|on|that)|settled on|opted (?:for|to))\b"
    r"|\bin favou?r of\b|\bdecision:\s|\bthe decision (?:is|was) to\b|\brationale:\s",
    re.IGNORECASE,
)
_UNSURE: Final = re.compile(
    r"\b(?:not|never|n't|until|before|if|once|whether|could have|might have)\b[^.\n]{0,40}$", re.IGNORECASE
)
ADR_FILE: Final = re.compile(r"(?:^|/)(?:adrs?|decisions)/[^/]+\.(?:md|markdown|txt|rst|adoc)$", re.IGNORECASE)


def kind_of(subject: str, body: str = "", files: Sequence[str] = ()) -> UnitType:
    """Return what kind of knowledge a commit message is."""
    plain, spoken, breaking = _opened(subject)
    if breaking or _BREAKING.search(body):
        return UnitType.DECISION
    if spoken in {UnitType.ERROR_FIX, UnitType.DECISION}:
        return UnitType.CONTEXT if _is_trivial(_words(plain)) else spoken
    said = _of_subject(plain) or _of_files_and_manner(plain, files, spoken)
    if said is not None:
        return said
    return UnitType.PATTERN if spoken is UnitType.PATTERN else _of_body(plain, body, issues=spoken is None)


def _of_subject(plain: str) -> UnitType | None:
    """Return what a clause of the subject says outright."""
    if plain.lower().startswith(("revert ", "roll back ", "rollback ")):
        return UnitType.ERROR_FIX
    clauses = [_words(clause) for clause in _CLAUSE.split(plain)]
    if any(_decides(clause) for clause in clauses):
        return UnitType.DECISION
    return UnitType.ERROR_FIX if any(_fixes(clause) for clause in clauses) else None


def _of_files_and_manner(plain: str, files: Sequence[str], spoken: UnitType | None) -> UnitType | None:
    if any(ADR_FILE.search(path) for path in files) or (spoken is None and _says_decision(plain)):
        return UnitType.DECISION
    clauses = (_words(clause) for clause in _CLAUSE.split(plain))
    return UnitType.PATTERN if any(clause and clause[0] in _PATTERN for clause in clauses) else None


def _of_body(plain: str, body: str, *, issues: bool) -> UnitType:
    """Return what the body says; ``issues``: whether an issue that it closes as fixed counts."""
    if issues and _FIXES_ISSUE.search(body) and not _is_trivial(_words(plain)):
        return UnitType.ERROR_FIX
    return UnitType.DECISION if _says_decision(body) else UnitType.CONTEXT


def _opened(subject: str) -> tuple[str, UnitType | None, bool]:
    """Return the subject without what opens it, the type that said, and whether it is breaking."""
    subject = re.sub(r"^\s*(?:\[[^\]\n]{1,40}\]\s*)+", "", subject).strip()
    for sign, kind in _GITMOJI.items():
        if subject.startswith(sign):
            return subject[len(sign) :].lstrip("\ufe0f :"), kind, kind is UnitType.DECISION
    match = _CONVENTIONAL.match(subject)
    if match is None:
        return subject, None, False
    named = _TYPES.get(match[1].lower())
    if named is None and not match[2]:  # "payments: fix rounding": an area, not a type
        return subject[match.end() :], None, False
    return subject[match.end() :], named, match[2] is not None


def _words(text: str) -> list[str]:
    return [match[0].lower().replace("’", "'") for match in _WORD.finditer(text)]


def _decides(clause: list[str]) -> bool:
    if not clause:
        return False
    company = _DECIDES_WITH.get(clause[0])
    return clause[0] in _DECIDES or (company is not None and bool(company & set(clause[1:])))


def _fixes(clause: list[str]) -> bool:
    """Say whether a clause is about a fix that was made."""
    if _is_trivial(clause):
        return False
    for at, word in enumerate(clause):
        if set(clause[max(0, at - NEGATED_WITHIN) : at]) & _NEGATIONS:
            continue
        follows = clause[at + 1] if at + 1 < len(clause) else ""
        if word in _FIX and follows not in _NOT_A_FIX_OF:
            return True
        if at == 0 and word in _FIX_VERBS and follows not in _NOT_A_FIX_OF and (word != "roll" or follows == "back"):
            return True
        if at == 0 and word in _AMENDS and set(clause) & _FAULTS:
            return True
    return False


def _is_trivial(words: list[str]) -> bool:
    """Say whether only the form of a text or of code was mended; a fault beside it is no trifle."""
    return bool(set(words) & _TRIVIAL) and not set(words) & _FAULTS


def _says_decision(text: str) -> bool:
    return any(not _UNSURE.search(text, max(0, m.start() - 60), m.start()) for m in _DECISION_SAID.finditer(text))
