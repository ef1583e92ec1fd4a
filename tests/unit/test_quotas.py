"""A tenant's share at the door: a rate, a burst, an honest Retry-After, and no tenant pays for another."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.quotas import Amount, Bucket, Quotas
from shared.clock import ManualClock
from shared.errors import RateLimited

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def quotas(events_per_s: float = 10, bytes_per_s: float = 0, **given: object) -> tuple[Quotas, ManualClock]:
    clock = ManualClock(NOW)
    return Quotas(events_per_s=events_per_s, bytes_per_s=bytes_per_s, clock=clock, **given), clock


def refused(shares: Quotas, **amounts: Amount) -> int | None:
    """Ask, and return the seconds of the refusal; None where it was taken."""
    try:
        shares.take(amounts)
    except RateLimited as error:
        return error.retry_after_s
    return None


def test_ten_seconds_worth_may_come_at_once_and_not_one_event_more():
    shares, _ = quotas()
    assert refused(shares, a=Amount(100, 1)) is None
    assert refused(shares, a=Amount(1, 1)) == 1


def test_what_is_told_is_when_it_is_taken():
    """After the seconds of Retry-After the same is taken, and half a second before it is not."""
    shares, clock = quotas()
    refused(shares, a=Amount(100, 1))
    assert refused(shares, a=Amount(40, 1)) == 4
    clock.advance(3.5)
    assert refused(shares, a=Amount(40, 1)) == 1
    clock.advance(0.5)
    assert refused(shares, a=Amount(40, 1)) is None


def test_a_refusal_uses_up_nothing():
    shares, clock = quotas()
    refused(shares, a=Amount(100, 1))
    for _ in range(50):
        assert refused(shares, a=Amount(10, 1)) == 1
    clock.advance(1)
    assert refused(shares, a=Amount(10, 1)) is None


def test_a_batch_larger_than_the_burst_is_taken_once_the_share_is_whole_and_is_paid_off_afterwards():
    shares, clock = quotas()
    assert refused(shares, a=Amount(250, 1)) is None  # 100 there, 150 owed
    assert refused(shares, a=Amount(1, 1)) == 16  # 150 + 1 at 10 a second
    assert refused(shares, a=Amount(250, 1)) == 25  # until it is whole again
    clock.advance(25)
    assert refused(shares, a=Amount(250, 1)) is None


def test_bytes_have_a_share_of_their_own():
    shares, _ = quotas(events_per_s=0, bytes_per_s=1_000)
    assert refused(shares, a=Amount(1_000_000, 10_000)) is None
    assert refused(shares, a=Amount(1, 500)) == 1


def test_one_tenant_s_flood_costs_another_nothing():
    shares, _ = quotas()
    refused(shares, a=Amount(100, 1))
    assert refused(shares, a=Amount(100, 1)) == 10
    assert refused(shares, b=Amount(100, 1)) is None


def test_a_batch_of_several_tenants_is_taken_whole_or_not_at_all():
    shares, _ = quotas()
    refused(shares, a=Amount(100, 1))
    assert refused(shares, a=Amount(10, 1), b=Amount(60, 1)) == 1
    assert refused(shares, b=Amount(100, 1)) is None  # nothing of b's was taken before


def test_a_rate_of_zero_is_no_limit():
    shares, _ = quotas(events_per_s=0)
    assert shares.unlimited
    assert refused(shares, a=Amount(10**9, 10**9)) is None


def test_no_more_tenants_are_kept_than_the_bound():
    shares, _ = quotas(kept=2)
    for tenant in "abc":
        refused(shares, **{tenant: Amount(100, 1)})
    assert refused(shares, c=Amount(1, 1)) == 1
    assert refused(shares, a=Amount(100, 1)) is None  # forgotten, and whole again


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 400)), min_size=1, max_size=60))
def test_never_more_is_taken_than_rate_and_burst_allow(steps: list[tuple[float, int]]):
    """Whatever comes when: what was taken until now is within burst + rate · time + one batch that may be owed."""
    bucket = Bucket(10.0, 100.0, 0.0)
    now = taken = 0.0
    largest = max(amount for _, amount in steps)
    for pause, amount in steps:
        now += pause
        if bucket.wait_s(amount, now) == 0.0:
            bucket.take(amount, now)
            taken += amount
        assert taken <= 100 + 10 * now + largest + 1e-6


@pytest.mark.parametrize("amount", [1, 50, 100, 400])
def test_an_amount_may_be_taken_after_exactly_its_wait(amount: int):
    bucket = Bucket(8.0, 80.0, 0.0)
    bucket.take(90, 0.0)
    wait_s = bucket.wait_s(amount, 0.0)
    assert wait_s > 0
    assert bucket.wait_s(amount, wait_s) == pytest.approx(0.0, abs=1e-9)
