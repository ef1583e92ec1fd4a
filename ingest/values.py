"""Quantities in a text: number, unit of measure and how exactly they are meant; and whether two can both hold."""

import math
import re
from dataclasses import dataclass
from typing import Final

APPROXIMATE: Final = 0.15
"""'About 100' and 110 agree: a careful reader gives 'about' some fifteen percent either way."""

BINARY_SLACK: Final = 0.05
"""A kB of 1,000 and one of 1,024 bytes are both in use: 5 percent covers kB and MB; bytes alone get it."""

_UNITS: Final[dict[str, tuple[str, float]]] = {}
"""Unit → (dimension, size in the dimension's base)."""


def _unit(dimension: str, size: float, names: str) -> None:
    _UNITS.update({name: (dimension, size) for name in names.split()})


_unit("time", 1e-9, "ns nanosecond nanoseconds")
_unit("time", 1e-6, "µs μs us microsecond microseconds")
_unit("time", 1e-3, "ms msec millis millisecond milliseconds")
_unit("time", 1, "s sec secs second seconds")
_unit("time", 60, "min mins minute minutes")
_unit("time", 3_600, "h hr hrs hour hours")
_unit("time", 86_400, "d day days")
_unit("time", 7 * 86_400, "week weeks wk")
_unit("time", 30.44 * 86_400, "month months")
_unit("time", 365.25 * 86_400, "year years yr yrs")
_unit("time", 10 * 365.25 * 86_400, "decade decades")
_unit("bytes", 1, "byte bytes")
_unit("bytes", 1e3, "kb kib kilobyte kilobytes")
_unit("bytes", 1e6, "mb mib megabyte megabytes")
_unit("bytes", 1e9, "gb gib gigabyte gigabytes")
_unit("bytes", 1e12, "tb tib terabyte terabytes")
_unit("bytes", 1e15, "pb pib petabyte petabytes")
_unit("rate", 1, "rps qps tps req/s requests/s requests/sec ops/s events/s msg/s messages/s /s")
_unit("rate", 1 / 60, "rpm req/min requests/min /min")
_unit("percent", 1, "% percent pct")
_unit("frequency", 1, "hz hertz")
_unit("frequency", 1e3, "khz")
_unit("frequency", 1e6, "mhz")
_unit("frequency", 1e9, "ghz")
_unit("length", 1e-3, "mm millimetre millimetres millimeter millimeters")
_unit("length", 1e-2, "cm centimetre centimetres centimeter centimeters")
_unit("length", 1, "m metre metres meter meters")
_unit("length", 1e3, "km kilometre kilometres kilometer kilometers")
_unit("length", 0.3048, "ft foot feet")
_unit("length", 1_609.344, "mi mile miles")
_unit("mass", 1e-3, "g gram grams")
_unit("mass", 1, "kg kilogram kilograms kilo kilos")
_unit("mass", 1e3, "tonne tonnes")
_unit("mass", 0.45359237, "lb lbs pound pounds")
_unit("money-usd", 1, "$ usd dollar dollars")
_unit("money-eur", 1, "€ eur euro euros")
_unit("money-gbp", 1, "£ gbp")
_unit("power", 1, "w watt watts")
_unit("power", 1e3, "kw kilowatt kilowatts")

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

_WORDS: Final = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen twenty".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}

_AT_MOST: Final = (
    "up to", "at most", "no more than", "not more than", "maximum of", "max of", "less than", "fewer than", "under",
    "below", "within", "<=", "≤", "<",
)  # fmt: skip
_AT_LEAST: Final = (
    "at least", "no less than", "no fewer than", "not less than", "minimum of", "min of", "more than", "greater than",
    "over", "above", "exceeds", "exceeding", ">=", "≥", ">",
)  # fmt: skip
_ABOUT: Final = ("about", "around", "approximately", "approx.", "approx", "roughly", "nearly", "almost", "some", "circa", "~", "≈")

_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<currency>[$€£])?\s?(?P<sign>[-+]|−)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
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
        for match in _WORD_NUMBER.finditer(text)
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


def _from_digits(text: str, match: re.Match[str]) -> Quantity | None:
    digits = match["digits"].replace(",", "")
    value = float(digits) * (-1.0 if match["sign"] in {"-", "−"} else 1.0)
    grain = 10.0 ** -(len(digits.partition(".")[2])) if "." in digits else 1.0
    high = float(match["high"]) if match["high"] else None
    factor, unit, end, counted = _after(text, match)
    if factor is None:
        return None
    if match["currency"]:
        unit = match["currency"]
    return _quantity(text, (match.start(), end), value * factor, grain * factor, unit, counted, high and high * factor)


def _from_word(text: str, match: re.Match[str]) -> Quantity | None:
    word = match[0].lower()
    unit, end, counted = _following(text, match.end())
    before = text[: match.start()].rsplit(None, 1)[-1:] or [""]
    if word == "one" and (counted in {None, "of", "another", "day"} or before[0].lower() in {"no", "the", "this", "that", "any"}):
        return None
    factor = 1.0
    if counted in _MAGNITUDES:
        factor, counted = _MAGNITUDES[counted], None
        unit, end, counted = _following(text, end)
    return _quantity(text, (match.start(), end), _WORDS[word] * factor, factor, unit, counted, None)


def _after(text: str, match: re.Match[str]) -> tuple[float | None, str | None, int, str | None]:
    """Read magnitude and unit behind digits: (factor, unit, end, counted word); factor None: an identifier, no number."""
    glued, end, factor = match["glued"], match.end(), 1.0
    if glued:
        folded = glued.lower()
        if folded in _MAGNITUDES or folded in {"m", "b"} and match["currency"]:
            factor = _MAGNITUDES.get(folded) or {"m": 1e6, "b": 1e9}[folded]
        elif folded in _UNITS:
            return 1.0, folded, end, None
        else:
            return None, None, end, None
    unit, end_unit, counted = _following(text, end)
    if counted in _MAGNITUDES and counted != "k":
        factor *= _MAGNITUDES[counted]
        end = end_unit
        unit, end_unit, counted = _following(text, end)
    return factor, unit, end_unit if unit else end, counted


def _following(text: str, end: int) -> tuple[str | None, int, str | None]:
    """Return (unit, its end, counted word) behind a number that ends at ``end``."""
    rate = _PER_SECOND.match(text, end)
    if rate:
        return ("rps" if rate[1].lower().startswith("s") else "rpm"), rate.end(), None
    match = _FOLLOWING.match(text, end)
    if match is None:
        return None, end, None
    word = match[1].lower()
    if word in _UNITS and (len(word) > 1 or match[1].islower()):
        return word, match.end(), None
    return None, match.end() if word in _MAGNITUDES else end, word


def _quantity(
    text: str, span: tuple[int, int], value: float, grain: float, unit: str | None, counted: str | None, high: float | None
) -> Quantity:
    dimension, size = _UNITS.get(unit or "", (None, 1.0))
    value, grain = value * size, grain * size
    bound = _bound(text[: span[0]], text[span[1] :])
    low, top = _interval(value, None if high is None else high * size, bound)
    return Quantity(
        start=span[0],
        end=span[1],
        surface=text[span[0] : span[1]].strip(),
        value=value,
        low=low,
        high=top,
        bound="range" if high is not None else bound,
        dimension=dimension,
        grain=grain,
        counted=counted,
    )


def _interval(value: float, high: float | None, bound: str) -> tuple[float, float]:
    if high is not None:
        return min(value, high), max(value, high)
    slack = abs(value) * APPROXIMATE
    return {
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
