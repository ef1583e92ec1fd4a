"""How soon, and how often, what ended is started again."""

from datetime import UTC, datetime

from compose.local.restarts import Restarts
from shared.clock import ManualClock


def restarts_on(clock: ManualClock) -> Restarts:
    return Restarts(clock.monotonic)


def test_the_wait_doubles_with_every_end_within_a_minute() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    restarts = restarts_on(clock)
    assert [restarts.wait_after_end() for _ in range(5)] == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_the_sixth_end_within_a_minute_is_one_too_many() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    restarts = restarts_on(clock)
    for _ in range(5):
        restarts.wait_after_end()
    clock.advance(59)
    assert restarts.wait_after_end() is None


def test_ends_longer_ago_than_a_minute_are_forgotten() -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    restarts = restarts_on(clock)
    for _ in range(5):
        restarts.wait_after_end()
    clock.advance(61)
    assert restarts.wait_after_end() == 0.2
