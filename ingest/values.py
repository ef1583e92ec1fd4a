"""Quantities in a text: number, unit of measure and how exactly they are meant; and whether two can both hold."""

import math
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from ingest.vocabulary import holds_any

APPROXIMATE: Final = 0.15
"""'About 100' and 110 agree: a careful reader gives 'about' some fifteen percent either way."""

BINARY_SLACK: Final = 0.05
"""A kB of 1,000 and one of 1,024 bytes are both in use: 5 percent covers kB and MB; bytes alone get it."""

_UNIT_TABLE: Final = (
    ("time", 1e-9, "ns nanosecond nanoseconds"),
    ("time", 1e-6, "µs μs us microsecond microseconds"),
    ("time", 1e-3, "ms msec millis millisecond milliseconds"),
    ("time", 1, "s sec secs second seconds"),
    ("time", 60, "min mins minute minutes"),
    ("time", 3_600, "h hr hrs hour hours"),
    ("time", 86_400, "d day days"),
    ("time", 7 * 86_400, "week weeks wk"),
    ("time", 30.44 * 86_400, "month months"),
    ("time", 365.25 * 86_400, "year years yr yrs"),
    ("time", 10 * 365.25 * 86_400, "decade decades"),
    ("bytes", 1, "byte bytes"),
    ("bytes", 1e3, "kb kib kilobyte kilobytes"),
    ("bytes", 1e6, "mb mib megabyte megabytes"),
    ("bytes", 1e9, "gb gib gigabyte gigabytes"),
    ("bytes", 1e12, "tb tib terabyte terabytes"),
    ("bytes", 1e15, "pb pib petabyte petabytes"),
    ("rate", 1, "rps qps tps req/s requests/s requests/sec ops/s events/s msg/s messages/s /s"),
    ("rate", 1 / 60, "rpm req/min requests/min /min"),
    ("percent", 1, "% percent pct"),
    ("frequency", 1, "hz hertz"),
    ("frequency", 1e3, "khz"),
    ("frequency", 1e6, "mhz"),
    ("frequency", 1e9, "ghz"),
    ("length", 1e-3, "mm millimetre millimetres millimeter millimeters"),
    ("length", 1e-2, "cm centimetre centimetres centimeter centimeters"),
    ("length", 1, "m metre metres meter meters"),
    ("length", 1e3, "km kilometre kilometres kilometer kilometers"),
    ("length", 0.3048, "ft foot feet"),
    ("length", 1_609.344, "mi mile miles"),
    ("mass", 1e-3, "g gram grams"),
    ("mass", 1, "kg kilogram kilograms kilo kilos"),
    ("mass", 1e3, "tonne tonnes"),
    ("mass", 0.45359237, "lb lbs pound pounds"),
    ("money-usd", 1, "$ usd dollar dollars"),
    ("money-eur", 1, "€ eur euro euros"),
    ("money-gbp", 1, "£ gbp"),
    ("power", 1, "w watt watts"),
    ("power", 1e3, "kw kilowatt kilowatts"),
)
_UNITS: Final = {name: (dimension, size) for dimension, size, names in _UNIT_TABLE for name in names.split()}
"""Unit → (dimension, size in the dimension's base unit)."""

_MAGNITUDES: Final = {
    "k": 1e3,
    "thousand": 1e3,
    "million": 1e6,
    "mio": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
    "dozen": 12.0,
    "hundred": 100.0,
}

_SMALL: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_WORDS: Final = {word: value for value, word in enumerate(_SMALL.split())} | {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}

_AT_MOST: Final = (
    "up to", "at most", "no more than", "not more than", "maximum of", "max of", "less than", "fewer than", "under",
    "below", "within", "<=", "≤", "<",
)  # fmt: skip
_AT_LEAST: Final = (
    "at least", "no less than", "no fewer than", "not less than", "minimum of", "min of", "more than", "greater than",
    "over", "above", "exceeds", "exceeding", ">=", "≥", ">",
)  # fmt: skip
_ABOUT: Final = (
    "about",
    "around",
    "approximately",
    "approx.",
    "approx",
    "roughly",
    "nearly",
    "almost",
    "some",
    "circa",
    "~",
    "≈",
)

_SHORT_MONEY: Final = {"m": 1e6, "b": 1e9}
_AFTER_PRONOUN: Final = frozenset({None, "of", "another", "day"})
_BEFORE_PRONOUN: Final = frozenset({"no", "the", "this", "that", "any"})
"""'One' between these is no number: 'one of', 'no one'."""

_NUMBER: Final = re.compile(
    r"(?<![\w.,:/])(?<!\w[-–])(?P<currency>[$€£])?\s?(?P<sign>[-+]|−)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:\s?[-–]\s?(?P<high>\d+(?:\.\d+)?))?"
    r"(?P<glued>[a-zµμ%]+(?:/[a-z]+)?)?(?![\w]|[.,:/-]\d)",
    re.IGNORECASE,
)
_WORD_NUMBER: Final = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b(?!-)", re.IGNORECASE)
_FOLLOWING: Final = re.compile(r"[\s-]{0,2}([^\W\d_]+(?:/[^\W\d_]+)?|%|/[a-z]+)", re.IGNORECASE)
_PER_SECOND: Final = re.compile(
    r"\s(?:requests?|queries|transactions|operations|events|messages|calls|units|records)?\s?(?:per|a|/|each)\s?(second|s|sec|minute|min)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quantity:
    """A number in a text at [start, end): ``low`` to ``high`` in base units of ``dimension`` (or none).

    ``bound``: 'exact', 'at most', 'at least', 'about' or 'range'. ``decimals``: how finely it was given, for rounding.
    ``grain``: size of one unit of its last digit, in base units. ``counted``: the word after a number without unit.
    """

    start: int
    end: int
    surface: str
    value: float
    low: float
    high: float
    bound: str
    dimension: str | None
    grain: float
    counted: str | None = None


def find_quantities(text: str, taken: tuple[tuple[int, int], ...] = ()) -> tuple[Quantity, ...]:
    """Find numbers with their units, in order of the text; spans in ``taken`` (dates) are left out."""
    found = [
        quantity
        for match in _NUMBER.finditer(text)
        if not _overlaps(match.span(), taken) and (quantity := _from_digits(text, match)) is not None
    ]
    spans = tuple((quantity.start, quantity.end) for quantity in found) + taken
    found += [
        quantity
        for match in (_WORD_NUMBER.finditer(text) if holds_any(text, _WORDS.keys()) else ())
        if not _overlaps(match.span(), spans) and (quantity := _from_word(text, match)) is not None
    ]
    return tuple(sorted(found, key=lambda quantity: quantity.start))


def can_both_hold(left: Quantity, right: Quantity) -> bool:
    """Say whether one thing can have both values: they overlap as meant, allowing for rounding. Symmetric.

    Two limits of one kind ('up to 5', 'up to 6') name two different limits, although intervals overlap.
    """
    if left.dimension != right.dimension:
        return True
    if left.bound == right.bound and left.bound in {"at most", "at least"}:
        return _same(left, right)
    if "range" in {left.bound, right.bound}:
        return left.low <= right.high and right.low <= left.high
    overlap = left.low <= right.high and right.low <= left.high
    return overlap or (left.bound == right.bound == "exact" and _same(left, right))


def _same(left: Quantity, right: Quantity) -> bool:
    grain = max(left.grain, right.grain) if left.grain != right.grain else 0.0
    slack = BINARY_SLACK * max(abs(left.value), abs(right.value)) if left.dimension == "bytes" else 0.0
    return math.isclose(left.value, right.value, rel_tol=1e-9) or abs(left.value - right.value) <= max(grain / 2, slack)


class _Tail(NamedTuple):
    """What follows a number: its unit (or none) up to ``end``, or else the word that may be what is counted."""

    unit: str | None
    end: int
    counted: str | None


class _Number(NamedTuple):
    """A number as written: where it starts, its value, the upper end of a range, and the size of its last digit."""

    start: int
    value: float
    high: float | None
    grain: float


def _from_digits(text: str, match: re.Match[str]) -> Quantity | None:
    read = _after(text, match)
    if read is None:
        return None
    factor, tail = read
    if match["currency"]:
        tail = tail._replace(unit=match["currency"])
    digits = match["digits"].replace(",", "")
    decimals = len(digits.partition(".")[2])
    value = float(digits) * (-factor if match["sign"] in {"-", "−"} else factor)
    high = float(match["high"]) * factor if match["high"] else None
    return _quantity(text, _Number(match.start(), value, high, factor * 10.0**-decimals), tail)


def _from_word(text: str, match: re.Match[str]) -> Quantity | None:
    word, tail, factor = match[0].lower(), _following(text, match.end()), 1.0
    before = text[: match.start()].lower().split()[-1:]
    if word == "one" and (tail.counted in _AFTER_PRONOUN or not _BEFORE_PRONOUN.isdisjoint(before)):
        return None
    if tail.counted in _MAGNITUDES:
        factor = _MAGNITUDES[tail.counted or ""]
        tail = _following(text, tail.end)
    return _quantity(text, _Number(match.start(), _WORDS[word] * factor, None, factor), tail)


def _after(text: str, match: re.Match[str]) -> tuple[float, _Tail] | None:
    """Read magnitude and unit behind digits; None: they are part of an identifier."""
    factor, end = 1.0, match.end()
    if match["glued"]:
        glued = match["glued"].lower()
        if glued in _UNITS and not match["currency"]:
            return 1.0, _Tail(glued, end, None)
        magnitude = _MAGNITUDES.get(glued) or (_SHORT_MONEY.get(glued) if match["currency"] else None)
        if magnitude is None:
            return None
        factor = magnitude
    tail = _following(text, end)
    if tail.counted in _MAGNITUDES and tail.counted != "k":
        factor *= _MAGNITUDES[tail.counted or ""]
        tail = _following(text, tail.end)
    return factor, tail


def _following(text: str, end: int) -> _Tail:
    rate = _PER_SECOND.match(text, end)
    if rate:
        return _Tail("rps" if rate[1].lower().startswith("s") else "rpm", rate.end(), None)
    match = _FOLLOWING.match(text, end)
    if match is None:
        return _Tail(None, end, None)
    word = match[1].lower()
    if word in _UNITS and (len(word) > 1 or match[1].islower()):
        return _Tail(word, match.end(), None)
    return _Tail(None, match.end() if word in _MAGNITUDES else end, word)


def _quantity(text: str, number: _Number, tail: _Tail) -> Quantity:
    dimension, size = _UNITS.get(tail.unit or "", (None, 1.0))
    value = number.value * size
    bound = "range" if number.high is not None else _bound(text[: number.start], text[tail.end :])
    low, high = _interval(value, value if number.high is None else number.high * size, bound)
    return Quantity(
        start=number.start,
        end=tail.end,
        surface=text[number.start : tail.end].strip(),
        value=value,
        low=low,
        high=high,
        bound=bound,
        dimension=dimension,
        grain=number.grain * size,
        counted=tail.counted,
    )


def _interval(value: float, high: float, bound: str) -> tuple[float, float]:
    slack = abs(value) * APPROXIMATE
    return {
        "range": (min(value, high), max(value, high)),
        "at most": (-math.inf, value),
        "at least": (value, math.inf),
        "about": (value - slack, value + slack),
    }.get(bound, (value, value))


def _bound(before: str, after: str) -> str:
    left = before.lower().rstrip()
    for phrases, bound in ((_AT_MOST, "at most"), (_AT_LEAST, "at least"), (_ABOUT, "about")):
        if any(_ends_with(left, phrase) for phrase in phrases):
            return bound
    right = after.lower().lstrip()
    if right.startswith(("or more", "or higher", "and above", "+")):
        return "at least"
    return "at most" if right.startswith(("or less", "or fewer", "or lower", "at most")) else "exact"


def _ends_with(left: str, phrase: str) -> bool:
    if not left.endswith(phrase):
        return False
    rest = left[: -len(phrase)]
    return not (rest and phrase[0].isalpha() and rest[-1].isalnum())


def _overlaps(span: tuple[int, int], taken: tuple[tuple[int, int], ...]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in taken)
