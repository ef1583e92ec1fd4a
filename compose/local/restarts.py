"""How often, and how soon, what ended may be started again."""

from collections import deque
from collections.abc import Callable
from typing import Final

MOST: Final = 5  # what fails five times within a minute will fail the sixth time too: say so instead
WITHIN_S: Final = 60.0
FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 5.0


class Restarts:
    """Counts the bad ends of one thing. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float], most: int = MOST) -> None:
        self._monotonic = monotonic
        self._most = most
        self._ends: deque[float] = deque()

    def wait_after_end(self) -> float | None:
        """Note an end; return how long to wait before the next start, doubling, or None after too many in a minute."""
        now = self._monotonic()
        self._ends.append(now)
        while self._ends[0] < now - WITHIN_S:
            self._ends.popleft()
        if len(self._ends) > self._most:
            return None
        return min(FIRST_WAIT_S * 2.0 ** (len(self._ends) - 1), LONGEST_WAIT_S)
