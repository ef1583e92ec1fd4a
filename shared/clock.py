"""Time, as an argument: what reads the clock takes one."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time in UTC and a monotonic one for durations."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, never going back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, never going back."""
        return time.monotonic()


class ManualClock:
    """A clock that only moves when told: for tests."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that were advanced."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move on."""
        self._elapsed += seconds
        self._now += timedelta(seconds=seconds)
