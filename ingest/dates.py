"""Dates in a text, as exactly as they were given, and whether two can name the same day."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from ingest.vocabulary import holds_any

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_WEEKDAYS: Final = {
    name: number
    for number, names in enumerate(
        (
            "monday mon",
            "tuesday tue tues",
            "wednesday wed",
            "thursday thu thurs",
            "friday fri",
            "saturday sat",
            "sunday sun",
        )
    )
    for name in names.split()
}
_MONTH: Final = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_YEAR: Final = r"(?P<year>1[0-9]{3}|20[0-9]{2}|2100)"
_DAY: Final = r"(?P<day>3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?"
_NO_NOUN: Final = (
    r"(?=\s*$|\s*[.,;:)!–](?!\d)|\s(?:-|the|a|an|and|or|to|by|with|for|in|at|as|on"
    r"|it|we|he|she|they|is|was|were|had|(?-i:[A-Z(])))"
)
"""'In 2000.' and 'in 2000 the' name a year, 'in 2000 requests' a number."""
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<![\w-])" + _YEAR + r"[-/](?P<number>1[0-2]|0[1-9])[-/]" + r"(?P<day>3[01]|[12][0-9]|0[1-9])(?![\w-])",
        r"\b" + _DAY + r"\s(?:of\s)?" + _MONTH + r"(?:,?\s" + _YEAR + r")?\b",
        r"\b" + _MONTH + r"\s" + _DAY + r"(?!\d)(?:,?\s" + _YEAR + r")?\b",
        r"\b" + _MONTH + r",?\s(?:of\s)?" + _YEAR + r"\b",
        r"\bQ(?P<quarter>[1-4])(?:[\s/-]?" + _YEAR + r")?\b",
        r"\b(?P<year>1[0-9]{2}0|20[0-9]0)s\b",
        r"(?:(?<=^)|(?<=[(–:])|(?<=\b(?:in|of|by)\s)|(?<=\b(?:from|year|late|next|last)\s)|(?<=\b(?:since|until|after|early|circa)\s)"
        r"|(?<=\b(?:before|during)\s))" + _YEAR + _NO_NOUN,
        r"(?<!last )(?<!past )(?<!every )(?<!each )\b(?P<weekday>"
        + "|".join(sorted(_WEEKDAYS, key=len, reverse=True))
        + r")\b",
        r"\b" + _MONTH + r"(?<!\bmay)(?<!\bmar)\b",
        r"\b(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?:\s?(?P<half>am|pm))?(?![\w:])",
        r"\b(?P<hour>1[0-2]|[1-9])\s?(?P<half>am|pm)\b",
    )
)
_DIGIT: Final = re.compile(r"\d")
_NAMES: Final = frozenset({*_MONTHS, *_WEEKDAYS})
_CAPITALISED: Final = frozenset(
    {"may", "march", "mar", "mon", "tue", "wed", "thu", "fri", "sat", "sun", "sep", "dec", "jan"}
)
"""Names of days and months that are other words in lower case: 'may', 'march', 'sat', 'sun', 'wed', …"""

DECADE: Final = 10
NEARBY_DAYS: Final = 7
"""'Friday' of two statements is taken for one week's Friday only when they occurred within a week."""


@dataclass(frozen=True)
class Day:
    """A date at [start, end) with what is known of it; ``years`` is 10 for a decade, 1 for a year."""

    start: int
    end: int
    surface: str
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    quarter: int | None = None
    minute: int | None = None
    years: int = 1

    @property
    def bare_year(self) -> bool:
        """Whether only a year is given: it may be a plain number or part of a name."""
        others = (self.month, self.day, self.weekday, self.quarter, self.minute)
        return self.years == 1 and all(part is None for part in others)


def find_days(text: str) -> tuple[Day, ...]:
    """Find dates in order of a sentence; the longest form at a place counts."""
    if not _DIGIT.search(text) and not holds_any(text, _NAMES):
        return ()  # most sentences hold nothing of the kind
    found: list[Day] = []
    for form in _FORMS:
        for match in form.finditer(text):
            taken = any(match.start() < day.end and day.start < match.end() for day in found)
            if not taken and _looks_like_a_date(match) and (day := _read(match)) is not None:
                found.append(day)
    return tuple(sorted(found, key=lambda day: day.start))


def may_be_the_same(left: Day, right: Day) -> bool | None:
    """Say whether two dates can name one time; None when they share nothing that could be compared. Symmetric."""
    verdicts = [_years_meet(left, right)]
    verdicts += [_equal(getattr(left, name), getattr(right, name)) for name in ("month", "day", "minute")]
    verdicts.append(_equal(_weekday(left), _weekday(right)))
    verdicts.append(_equal(_quarter(left), _quarter(right)))
    known = [verdict for verdict in verdicts if verdict is not None]
    return all(known) if known else None


def are_weeks_apart(left: Day, right: Day, days_apart: float | None) -> bool:
    """Say whether two week days, stated ``days_apart`` (None: unknown), belong to two weeks: then nothing can be said."""
    only_weekdays = left.weekday is not None and right.weekday is not None
    return only_weekdays and days_apart is not None and days_apart > NEARBY_DAYS


def _years_meet(left: Day, right: Day) -> bool | None:
    if left.year is None or right.year is None:
        return None
    return left.year < right.year + right.years and right.year < left.year + left.years


def _equal(left: int | None, right: int | None) -> bool | None:
    return None if left is None or right is None else left == right


def _weekday(day: Day) -> int | None:
    if day.weekday is not None or not (day.year and day.month and day.day):
        return day.weekday
    return date(day.year, day.month, day.day).weekday()


def _quarter(day: Day) -> int | None:
    return (day.month + 2) // 3 if day.month else day.quarter


def _looks_like_a_date(match: re.Match[str]) -> bool:
    parts = match.groupdict()
    word = (parts.get("month") or parts.get("weekday") or "").lower()
    alone = word and not parts.get("day") and not parts.get("year")
    return not alone or word not in _CAPITALISED or match[0][0].isupper()


def _read(match: re.Match[str]) -> Day | None:
    parts = match.groupdict()
    month = _MONTHS.get((parts.get("month") or "").lower()) or _number(parts.get("number"))
    year, day = _number(parts.get("year")), _number(parts.get("day"))
    if year and month and day:
        try:
            date(year, month, day)
        except ValueError:
            return None
    weekday = _WEEKDAYS.get((parts.get("weekday") or "").lower())
    decade = match[0].lower().endswith("0s")
    return Day(
        start=match.start(),
        end=match.end(),
        surface=match[0],
        year=year,
        month=month,
        day=day,
        weekday=weekday,
        quarter=_number(parts.get("quarter")),
        minute=_minute(parts),
        years=DECADE if decade else 1,
    )


def _minute(parts: dict[str, str | None]) -> int | None:
    hour = _number(parts.get("hour"))
    if hour is None:
        return None
    half = (parts.get("half") or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour * 60 + (_number(parts.get("minute")) or 0)


def _number(text: str | None) -> int | None:
    return int(text) if text else None
