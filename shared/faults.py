"""What is wrong with an input, in words for whoever sent it: the same at every door."""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import ValidationError

from shared.errors import Fault

FAULTS_TOLD: Final = 5
LIMIT_WORDS = {
    "max_length": "at most {} long",
    "min_length": "at least {} long",
    "le": "at most {}",
    "lt": "less than {}",
    "ge": "at least {}",
    "gt": "more than {}",
    "pattern": "the pattern {}",
    "expected": "one of {}",
    "expected_tags": "one of {}",
}


def nesting_fault(pointer: str) -> Fault:
    """The fault of a value that is nested beyond what any field holds."""
    return Fault(pointer, "nested too deeply")


def not_json(error: orjson.JSONDecodeError, body: bytes) -> Fault:
    """The fault of bytes that are not JSON: where reading ended, or the first that is no text."""
    try:
        body.decode()
    except UnicodeDecodeError as odd:
        return Fault("", f"the body is not UTF-8: byte {odd.start} is 0x{body[odd.start]:02x}")
    return Fault("", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")


def faults_of(error: ValidationError, value: Any, base: str = "") -> tuple[Fault, ...]:
    """Translate Pydantic's findings: each a JSON Pointer below ``base``, a message and the limit that was met."""
    faults: dict[tuple[str, str], Fault] = {}
    for found in error.errors(include_url=False, include_input=False):
        context: Mapping[str, Any] = found.get("ctx") or {}
        location = ("type",) if found["type"].startswith("union_tag") else found["loc"]
        pointer = base + _pointer(location, value, missing=found["type"] in {"missing", "union_tag_not_found"})
        message = _message(found["type"], found["msg"])
        faults.setdefault((pointer, message), Fault(pointer, message, _limit(context)))
    return tuple(faults.values())


def told(error: ValidationError, body: bytes) -> str:
    """Say in a line what is wrong with bytes that should have been one of our own records."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError as odd:
        return str(not_json(odd, body))
    faults = faults_of(error, value)
    more = f"; and {len(faults) - FAULTS_TOLD} more" if len(faults) > FAULTS_TOLD else ""
    return "; ".join(map(str, faults[:FAULTS_TOLD])) + more


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown field"
    if kind == "missing":
        return "required, but not there"
    if kind.startswith("union_tag"):
        return "not a kind of event that is known"
    return message.removeprefix("Value error, ")


def _limit(context: Mapping[str, Any]) -> str | None:
    for name, words in LIMIT_WORDS.items():
        if name in context:
            value = context[name]
            if name == "expected_tags":
                value = ", ".join(re.findall(r"'([^']+)'>", value))
            return words.format(f"{value:g}" if isinstance(value, float) else value)
    return None


def _pointer(location: tuple[int | str, ...], value: Any, *, missing: bool) -> str:
    """Write a JSON Pointer (RFC 6901). Names of union members stand in Pydantic's location but not in the input."""
    parts: list[str] = []
    for place, part in enumerate(location):
        found, inner = _step(value, part)
        if found:
            value = inner
        elif not (place == len(location) - 1 and missing):
            continue
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)


def _step(value: Any, part: int | str) -> tuple[bool, Any]:
    if isinstance(value, dict) and part in value:
        return True, value[part]
    if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
        return True, value[part]
    return False, None
