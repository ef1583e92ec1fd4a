"""Secrets in texts, by the formats of known keys and by context with entropy: where they stand and of what kind.

A guess here fails closed: a text with something that looks like a live credential is kept back. What only talks about
secrets is let through: "dependency injection", "private keyboard", a form's "password: field label", and a value that
is plainly a reference (``$TOKEN``, ``<password>``, ``os.environ["KEY"]``) or a mask (``****``).
"""

import math
import re
from collections import Counter
from typing import Final, NamedTuple


class Secret(NamedTuple):
    """What kind of secret stands where; the half-open span indexes the text. The secret itself is never carried on."""

    kind: str
    start: int
    end: int


class Withheld(NamedTuple):
    """A text that was not published: where it stands, and the kinds of its secrets."""

    where: str
    kinds: tuple[str, ...]


_FORMATS: Final = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("AWS access key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("GitHub token", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,255}"),
        ("GitHub token", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{22,255}"),
        ("GitLab token", r"(?<![A-Za-z0-9])gl(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{20,}"),
        ("Slack token", r"(?<![A-Za-z0-9])xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}"),
        ("Slack webhook", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{8,}"),
        ("Stripe key", r"(?<![A-Za-z0-9])(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("Google API key", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
        ("npm token", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
        ("PyPI token", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{50,}"),
        ("SendGrid key", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
        ("API key", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]*[0-9])(?:[a-z]{2,10}-)?(?:[a-z0-9]{2,6}-)?[A-Za-z0-9_]{20,}"),
        ("JSON web token", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{8,}"),
        ("private key", r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    )
)
"""Formats that their issuers chose to be recognised: no context is needed."""

_URL: Final = re.compile(
    r"(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{1,30}://[^\s:/@\"'`<>]{0,100}:([^\s/@\"'`]{1,200})@[^\s]", re.IGNORECASE
)
_BEARER: Final = re.compile(r"\b(?:bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{12,1000}={0,2})", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    r"(?<![A-Za-z0-9])[\"'`]?((?:[A-Za-z0-9]{1,40}[_.-]){0,5}"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|(?:[A-Za-z0-9]{1,20})?(?:password|secret|token)"
    r"|secret[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|account[_-]?key|key))[\"'`]?"
    r"[ \t]{0,4}(=>|:=|=|:)[ \t]{0,4}"
    r"(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|([^\s\"'`,;&]{1,200}))",
    re.IGNORECASE,
)  # fmt: skip
"""A name that ends in a word for a secret, a sign of assignment, and a value, quoted or bare."""

_REFERENCE: Final = re.compile(
    r"^[$%{<\[(@]|\$\{|\{\{|%\(|[()\[\]]|\.\.\.|…|^[*x•.#-]+$|^(?:os|process|env|self|settings|config|secrets|args|var|vault)\b[.:]",
    re.IGNORECASE,
)
"""A variable, a template's slot, an expression or a mask: where the value comes from, not the value."""

_WORDS: Final = frozenset({"password", "passwd", "pass", "pwd", "secret", "token", "key", "none", "null", "nil", "true", "false",
    "string", "str", "bytes", "int", "optional", "required", "missing", "empty", "invalid", "wrong", "changed", "redacted",
    "removed", "hidden", "placeholder", "undefined", "secretstr"})  # fmt: skip
"""Values that name what belongs there."""

_PASSWORDS: Final = re.compile(r"(?:pass(?:word|wd|phrase)?|pwd|(?:^|[_.-])secret|credentials?)$", re.IGNORECASE)
PASSWORD_CHARS: Final = 6  # people choose them: short, and seldom of high entropy
TOKEN_CHARS: Final = 16  # machines make them: 64 bits at the least
TOKEN_BITS: Final = 3.0  # bits a character: English words reach 3 only with luck and never with digits in them
KEY_CHARS: Final = 20  # a bare "key" may be any lookup key: more is asked of its value
KEY_BITS: Final = 3.5


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Return the secrets in a text, by place; overlapping finds count once. Linear in the text's length."""
    found = [Secret(kind, *match.span()) for kind, pattern in _FORMATS for match in pattern.finditer(text)]
    found += [Secret("password in an address", *m.span(1)) for m in _URL.finditer(text) if not _is_reference(m[1])]
    found += [Secret("credential in a header", *m.span(1)) for m in _BEARER.finditer(text) if _is_random(m[1])]
    found += _assigned(text)
    found.sort(key=lambda secret: (secret.start, -secret.end, secret.kind))
    kept: list[Secret] = []
    for secret in found:
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return tuple(kept)


def secret_kinds(*texts: str) -> tuple[str, ...]:
    """Return the kinds of secrets in some texts, each once, sorted."""
    return tuple(sorted({secret.kind for text in texts for secret in find_secrets(text)}))


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character; 0 for an empty one."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _assigned(text: str) -> list[Secret]:
    found = []
    position = 0
    while match := _ASSIGNED.search(text, position):
        group = next(number for number in (3, 4, 5) if match[number] is not None)
        if _is_value(match[1], match[2], match[group], quoted=group != 5):
            found.append(Secret(f"value of {_named(match[1])}", *match.span(group)))
            position = match.end()
        else:
            position = match.end(2)  # the value may itself begin an assignment: secret: password=...
    return found


def _named(name: str) -> str:
    """Return the kind of name alone: the name itself may tell too much about a system."""
    last = re.split(r"[_.-]", name.lower())[-1]
    return "a password" if _PASSWORDS.search(name) and "secret" not in last else "a secret"


def _is_value(name: str, sign: str, value: str, *, quoted: bool) -> bool:
    value = value.strip().rstrip(".") if not quoted else value
    if _is_reference(value) or value.lower().strip(".!?") in _WORDS:
        return False
    if _PASSWORDS.search(name):
        assigned = quoted or sign == "="
        return _is_password(value, assigned=assigned)
    if name.lower().rpartition(".")[2] == "key":
        return len(value) >= KEY_CHARS and entropy(value) >= KEY_BITS and _is_mixed(value)
    return _is_random(value, TOKEN_CHARS)


def _is_password(value: str, *, assigned: bool) -> bool:
    """Say whether a value may be a password. After a colon prose may follow, so there it needs a digit or a sign."""
    if len(value) < PASSWORD_CHARS or (" " in value and not any(char.isdigit() for char in value)):
        return False
    telling = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return telling or (assigned and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_]\w*)+", value))


def _is_random(value: str, chars: int = 12) -> bool:
    return len(value) >= chars and " " not in value and _is_mixed(value) and entropy(value) >= TOKEN_BITS


def _is_mixed(value: str) -> bool:
    """Say whether letters and digits stand mixed, as chance mixes them: a path, a version or a date is no secret."""
    if re.search(
        r"^[./~\\]|[/\\][a-z_.-]+[/\\]|^\w+(?:[.:]\w+)*\.(?:py|js|ts|md|json|ya?ml|toml|pem|txt)$|^https?:", value
    ):
        return False
    letters, digits = (sum(map(test, value)) for test in (str.isalpha, str.isdigit))
    return letters >= 3 and digits >= 2


def _is_reference(value: str) -> bool:
    return _REFERENCE.search(value) is not None
