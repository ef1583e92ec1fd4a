"""What of an exchange is worth keeping: decisions, fixes with their errors, commands with their purpose, conventions.

Rules over sentences, in English. Precision comes first, for nobody looks over what a hook publishes: questions, wishes,
plans, conditions and what is denied are never kept, and what no rule names is not kept either.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

Kind = Literal["decision", "error_fix", "command", "preference"]
SENTENCE_CHARS: Final = range(15, 600)
"""Shorter ones say nothing without what stood before; longer ones are tables, logs or lists."""
ERROR_CHARS: Final = 300
FINDINGS: Final = 8
"""An exchange that seems to hold more is a report; its first findings are kept."""


class Finding(NamedTuple):
    """One piece worth keeping. ``text`` reads by itself."""

    kind: Kind
    text: str


# a fence of three or more, to its like or to the end
_FENCE: Final = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=fence)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_TABLE: Final = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
_LIST: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|^[ \t]*#+[ \t]+", re.MULTILINE)
_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?…]+[\"')\]*_]*(?=\s|$)|\n|$)")
_MARKS: Final = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")
_CLAUSE: Final = re.compile(r"[,;:—–]|\s-\s|\b(?:but|however|although|though|while|whereas)\b", re.IGNORECASE)

_NEGATED: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|hardly|cannot|yet to|fail(?:s|ed|ing)? to|unable to|far from"
    r"|instead of|rather than)\b|n['’]t\b",
    re.IGNORECASE,
)
_UNREAL: Final = re.compile(
    r"\b(?:if|whether|unless|once|until|when|would|could|should|might|may|can|must|let me"
    r"|try(?:ing)? to|tried to|want(?:s|ed)? to"
    r"|need(?:s|ed)? to|have to|has to|hop(?:e|es|ed|ing)|plan(?:s|ned|ning)? to|about to"
    r"|perhaps|maybe|possibly|probably|seems?|apparently"
    r"|suppose|imagine|pretend|example|e\.g\.|todo|suggest(?:s|ed)?|propos(?:e|es|ed|al)|recommend(?:s|ed)?|consider(?:s|ed|ing)?|wonder"
    r"|asked|before we|in case|almost|nearly|partially|partly)\b",
    re.IGNORECASE,
)
_FUTURE: Final = re.compile(r"\b(?:will|going to|gonna|'ll|’ll|next|later|tomorrow|soon|shall)\b", re.IGNORECASE)
_QUESTION: Final = re.compile(
    r"\?[\"')\]*_]*$|^(?:who|what|when|where|why|which|how|is|are|was|were|do|does|did|has|have|can|could|should|shall|would|will"
    r"|may|might|am)\b(?!\s*:)",
    re.IGNORECASE,
)

_ADVERB: Final = (
    r"(?:\s+(?:therefore|finally|also|just|already|now|then|explicitly|both|all|jointly|eventually|thus|recently))?"
)
_DECIDED: Final = re.compile(
    rf"\b(?:we|i|they|team|everyone|everybody|group|(?-i:[A-Z][a-zà-ÿ]+))(?:['’]ve)?{_ADVERB}\s+(?:(?:have|has|had){_ADVERB}\s+)?"
    r"(?P<verb>decided|chose|chosen|agreed|settled|opted|standardi[sz]ed|committed)\b"
    r"(?:\s+(?:to|on|for|against|that|not|upon|the|a|an|as|[A-Z`])|\s+\S+\s+(?:over|as|because|for))"
    rf"|\b(?:we|team)(?:['’]ve)?{_ADVERB}\s+(?:(?:have|has){_ADVERB}\s+)?(?:switched|migrated|moved)\s+(?:from|to|over)\b"
    r"|\b(?:we['’]re|we are|we['’]ll|we will)\s+"
    r"(?:going with(?! the flow)|go with|standardi[sz]ing on|sticking with|stick with)\b"
    r"|\b(?:it was|has been|was|been)\s+(?:decided|agreed)\s+(?:to|that|on|against)\b"
    r"|\bthe decision\s+(?:is|was)\s+(?:to|that|against)\b"
    r"|^(?:final\s+)?decision\s*:\s*\S",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(r"\b(?:what|which|who|how|where)(?:ever)?\b|\bas soon as\b", re.IGNORECASE)
_UNDECIDED: Final = re.compile(r"\b(?:nothing|no decision|undecided|later|whether|which|pending)\b", re.IGNORECASE)

_ERROR: Final = re.compile(
    r"\b[A-Za-z_][\w.]*(?:Error|Exception|Warning|Fault|Panic)\b(?::\s*\S.*)?|\b(?:error|fatal|panic|failed|FAILED|ERR!?)\b\s*[:\[(].{3,}"
    r"|\bE[A-Z]{4,}\b:?.*|\bexit(?:ed with)?\s+(?:code|status)\s+[1-9]\d*"
    r"|\bsegmentation fault\b|\bHTTP\s+[45]\d\d\b.*|\bcommand not found\b.*",
)
_COMPLAINT: Final = re.compile(
    r"\b(?:fails?|failing|failed|crash(?:es|ed|ing)?|hangs?|hung|broken|breaks?"
    r"|times? out|timed out|timeout|leaks?|deadlocks?|stuck|flaky"
    r"|error|exception|bug|wrong|refused|denied|does(?:n['’]t| not) work)\b",
    re.IGNORECASE,
)
_FIXED: Final = re.compile(
    r"\b(?:i|we)(?:['’]ve| have| had)?(?:\s+(?:now|also|just|finally))*\s+(?:fixed|resolved|solved|corrected|repaired)\b"
    r"|^(?:now\s+|both\s+)?(?:fixed|resolved|solved|corrected)\b(?!\s+(?:price|size|width|number|point|cost|length|rate|position|in\b.*\?))"
    r"|\b(?:it|this|that|both|they|all|bug|issue|problem|crash|error|failure|test|build|hang|leak|race|conflict|regression"
    r"|warning|timeout)s?\s+(?:is|are|was|were|has been|have been|got)\s+(?:(?:now|finally|both|all)\s+)?"
    r"(?:fixed|resolved|solved)\b(?:\s+now)?(?:\s+(?:by|with|in|through|via)\b|\s*[:;,]|[.!]|$)"
    r"|\bthe\s+(?:actual\s+|real\s+)?(?:fix|solution|remedy)\s+(?:is|was)\s+(?:to|that|in|simply|a|an)\b"
    r"|\b(?:this|that|which|it)\s+(?:fixes|fixed|resolves|resolved|solves|solved)\b"
    r"|^(?:fix|solution|resolution)\s*:\s*\S"
    r"|\b\w+ing\b[^,;]{3,80}\s(?:fixes|fixed|resolves|resolved|solves|solved)\s+(?:it|this|that|the)\b",
    re.IGNORECASE,
)
_HOW: Final = re.compile(
    r"\b(?:by|because|caused|cause|since|so that|to|with|from|instead|changed?|set|added?|removed?|pinn?ed|replaced?|updated?)\b",
    re.IGNORECASE,
)
_CAUSE: Final = re.compile(
    r"\b(?:root cause|the cause|caused by|was caused|because|due to|culprit|turned out|the (?:bug|problem|issue) was)\b",
    re.IGNORECASE,
)
_STILL: Final = re.compile(
    r"\b(?:still|keeps?|again)\b[^.!?\n]{0,40}\b(?:fail\w*|error\w*|crash\w*|broken|hang\w*|see\w*|same|happen\w*|flaky|there)\b"
    r"|\b(?:did|does|do|is|are|was|has|have)(?:n['’]t| not)\b[^.!?\n]{0,30}"
    r"\b(?:help|work|enough|fixed|resolved|solved|fix|resolve|solve)\b"
    r"|\bno (?:effect|difference|luck)\b|\breverted\b",
    re.IGNORECASE,
)

_RULE: Final = re.compile(
    r"^(?:please\s+)?(?:from now on|in (?:the )?future|going forward|as a (?:rule|convention)|by convention"
    r"|remember(?: that)?|note for later)\b"
    r"|^(?:please\s+|and\s+)?(?:always|never)\s+\w+"
    r"|\b(?:our|the team['’]s|the|project['’]s) (?:convention|rule|policy|standard|style) (?:here )?is\b"
    r"|\b(?:we|i) (?:always|never|strongly prefer|prefer)\s+\w+",
    re.IGNORECASE,
)
_TASK: Final = re.compile(
    r"^(?:please\s+)?remember\s+to\b|^never\s*mind\b|\bjust this once\b|\bfor now\b", re.IGNORECASE
)

_SHELL: Final = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "fish", "powershell"})
_PURPOSE: Final = re.compile(
    r"^(?:to\s+\w+.{4,}|(?:\w+\s+){0,3}(?:by running|with this command|with the command)\b.*)$", re.IGNORECASE
)
_TRIVIAL: Final = re.compile(
    r"^(?:cd|ls|pwd|cat|echo|clear|exit|git (?:status|diff|log|add|commit|push|pull)|which|export)\b"
)
_RUN: Final = re.compile(
    r",?\s*(?:you can\s+)?(?:please\s+)?(?:run|use|execute|type|call)"
    r"(?:\s+(?:the following|this|these|it)(?:\s+commands?)?)?$",
    re.IGNORECASE,
)
COMMAND_LINES: Final = 4
"""A longer block is a script, and belongs into a file."""


def worth_keeping(prompt: str, response: str, outputs: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Return what an exchange teaches, in the order fix, decisions, conventions, commands; texts that are equal once."""
    said, answered = sentences(prompt), sentences(response)
    found: list[Finding] = []
    fix = _fix(said, answered, prompt, outputs)
    if fix:
        found.append(fix)
    found += [Finding("decision", one) for one in (*said, *answered) if is_decision(one)]
    found += [Finding("preference", one) for one in said if is_convention(one)]
    found += _commands(response)
    unique = {finding.text.casefold(): finding for finding in reversed(found)}
    return tuple(finding for finding in found if unique[finding.text.casefold()] is finding)[:FINDINGS]


def sentences(text: str) -> list[str]:
    """Return the sentences of a person's or an agent's own words: no code, no quotations, no tables, no marks."""
    prose = _LIST.sub("", _TABLE.sub("", _QUOTED.sub("", _FENCE.sub("\n", text))))
    found = (" ".join(_MARKS.sub("", match[0]).split()) for match in _SENTENCE.finditer(prose))
    return [one for one in found if len(one) in SENTENCE_CHARS]


def is_decision(sentence: str) -> bool:
    """Whether it states a decision that was taken. "We decided not to" is one; "we have not decided" is none."""
    match = _DECIDED.search(sentence)
    if match is None or _QUESTION.search(sentence):
        return False
    before = _before(sentence, match.start())
    if _RELATIVE.search(before) or _doubted(before + match[0][: _verb_at(match)], future=False):
        return False
    return not _UNDECIDED.search(sentence[match.end() - 4 : match.end() + 12])


def is_fix(sentence: str) -> bool:
    """Whether it states that something was mended. "I have not fixed it yet" and "this should fix it" do not."""
    match = _FIXED.search(sentence)
    if match is None or _QUESTION.search(sentence) or _STILL.search(sentence):
        return False
    return not _doubted(_before(sentence, match.start()) + match[0], future=True)


def is_convention(sentence: str) -> bool:
    """Whether a person states how things are always or never to be done."""
    return bool(_RULE.search(sentence)) and not _QUESTION.search(sentence) and not _TASK.search(sentence)


def _doubted(words: str, *, future: bool) -> bool:
    """Whether the words up to a statement deny it, or make it a condition, a wish or a plan."""
    return bool(_NEGATED.search(words) or _UNREAL.search(words) or (future and _FUTURE.search(words)))


def _before(sentence: str, end: int) -> str:
    """Return the words of a sentence before ``end`` that can deny what follows: those of the same clause, and conditions
    at the sentence's beginning, which reach over commas.
    """
    start = 0
    for match in _CLAUSE.finditer(sentence, 0, end):
        start = match.end()
    opening = sentence[:start]
    condition = re.match(
        r"\W*(?:if|unless|once|when|in case|should|suppose|imagine|before|until|for example|e\.g)\b",
        opening,
        re.IGNORECASE,
    )
    return (opening if condition else "") + sentence[start:end]


def _verb_at(match: re.Match[str]) -> int:
    return match.end("verb") - match.start() if match["verb"] else len(match[0])


def _fix(said: Sequence[str], answered: Sequence[str], prompt: str, outputs: Sequence[str]) -> Finding | None:
    """Return the pair of an error and what mended it; None where either is missing or a later sentence takes it back."""
    places = [place for place, one in enumerate(answered) if is_fix(one)]
    if not places or any(_STILL.search(one) for one in answered[places[0] + 1 :]):
        return None
    place = next((at for at in places if _HOW.search(answered[at])), None)
    if place is None:
        return None
    told = [answered[place]]
    told += [
        one
        for one in answered[max(0, place - 2) : place + 3]
        if _CAUSE.search(one) and one not in told and "?" not in one
    ][:1]
    error = _error(said, prompt, outputs)
    if error is None and not any(_CAUSE.search(one) or _COMPLAINT.search(one) for one in told):
        return None
    return Finding("error_fix", "\n".join([*([f"Error: {error}"] if error else []), f"Fix: {' '.join(told)}"]))


def _error(said: Sequence[str], prompt: str, outputs: Sequence[str]) -> str | None:
    """Return the error's own words: of the prompt before those of tools, the last before the first; else the complaint."""
    for text in (prompt, *reversed(outputs)):
        lines = [
            line.strip() for line in text.splitlines() if len(line.strip()) in SENTENCE_CHARS and _ERROR.search(line)
        ]
        if lines:
            return lines[-1][:ERROR_CHARS]
    return next((one[:ERROR_CHARS] for one in said if _COMPLAINT.search(one)), None)


def _commands(response: str) -> Iterable[Finding]:
    """Yield the shell commands whose purpose stands in the sentence before them."""
    for match in _FENCE.finditer(response):
        lines = [
            line.strip().removeprefix("$ ")
            for line in match["body"].splitlines()
            if line.strip() and not line.strip().startswith("#")
        ]
        lead = sentences(response[: match.start()][-800:])
        purpose = lead[-1].rstrip(" :.") if lead else ""
        useful = [line for line in lines if not _TRIVIAL.match(line)]
        if match["language"].lower() not in _SHELL or not useful or len(lines) > COMMAND_LINES:
            continue
        if not _PURPOSE.match(purpose) or _NEGATED.search(purpose) or _QUESTION.search(purpose):
            continue
        purpose = _RUN.sub("", purpose)
        yield Finding("command", f"{purpose}: `{' && '.join(lines)}`")
