"""When units hold, as half-open intervals of microseconds since 1970 (UTC): what every store filters by."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from schemas.times import Moment
from schemas.units import Scope, ScopeLevel, Unit, UnitType
from shared.store import SearchFilter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WIDTH = {level: width for width, level in enumerate(ScopeLevel)}


def micros(at: datetime) -> int:
    """Return microseconds since 1970, exactly."""
    return (at - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the instant of `micros`."""
    return _EPOCH + value * _MICROSECOND


@dataclass(frozen=True)
class Held:
    """Times of a live unit: when it began and ended to hold, when it occurred, when we knew; None: unknown.

    ``moment`` orders units by time: when it occurred, or when it was recorded.
    """

    begins: int | None
    ends: int | None
    occurred_start: int | None
    occurred_end: int | None
    recorded: int
    moment: int
    start: int


def held(unit: Unit, recorded_at: datetime) -> Held:
    """Read a unit's times. ``start``: from when on it supersedes another (valid_from, or occurred_at, or recorded)."""
    recorded = micros(recorded_at)
    begins = micros(unit.valid_from.at) if unit.valid_from else None
    occurred = micros(unit.occurred_at.at) if unit.occurred_at else None
    moment = recorded if occurred is None else occurred
    return Held(
        begins=begins,
        ends=micros(unit.valid_until.at) if isinstance(unit.valid_until, Moment) else None,
        occurred_start=occurred,
        occurred_end=micros(unit.occurred_at.end) if unit.occurred_at else None,
        recorded=recorded,
        moment=moment,
        start=moment if begins is None else begins,
    )


@dataclass(frozen=True)
class Successor:
    """A live unit as supersession sees it: from when on it stands in another's place, and in whose."""

    unit_id: str
    scope: Scope
    start: int
    supersedes: str | None = None


def supersession(unit: Successor, successors: Iterable[Successor]) -> tuple[int | None, str | None]:
    """Return from when on a unit is superseded and by which of those that say so: the earliest, ties by id.

    Only a unit of the same scope or of a wider level counts: nobody's personal note hides what a team knows. Of two that
    supersede each other the one that began later stands, ties by id; else both would be gone.
    """
    standing = [
        (successor.start, successor.unit_id)
        for successor in successors
        if successor.unit_id != unit.unit_id
        and may_supersede(successor.scope, unit.scope)
        and not _stands_against(unit, successor)
    ]
    return min(standing) if standing else (None, None)


def _stands_against(unit: Successor, successor: Successor) -> bool:
    mutual = unit.supersedes == successor.unit_id and may_supersede(unit.scope, successor.scope)
    return mutual and (unit.start, unit.unit_id) > (successor.start, successor.unit_id)


def may_supersede(newer: Scope, older: Scope) -> bool:
    """Tell whether a unit of one scope may replace one of another."""
    return newer == older or _WIDTH[newer.level] > _WIDTH[older.level]


def passes(where: SearchFilter, scope: str, unit_type: UnitType, times: Held, superseded_from: int | None) -> bool:
    """Apply a filter to a live unit: the specification of what each store writes in its own query language."""
    at = micros(where.at)
    if scope not in where.scopes or (where.types is not None and unit_type not in where.types):
        return False
    if times.begins is not None and times.begins > at:
        return False
    if not where.include_superseded and any(end is not None and end <= at for end in (times.ends, superseded_from)):
        return False
    if where.past and times.occurred_start is not None and times.occurred_start > at:
        return False
    if where.known_at is not None and times.recorded > micros(where.known_at):
        return False
    return where.occurred is None or _overlaps(times, *where.occurred)


def _overlaps(times: Held, since: datetime | None, until: datetime | None) -> bool:
    if times.occurred_start is None or times.occurred_end is None:
        return False
    return (until is None or times.occurred_start < micros(until)) and (
        since is None or times.occurred_end > micros(since)
    )
