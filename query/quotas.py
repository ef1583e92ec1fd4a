"""What one tenant may publish a second: token buckets, one for events and one for bytes (design, invariant 11)."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shared.clock import Clock
from shared.errors import RateLimited

BURST_S = 10.0  # so many seconds' worth may come at once: a feed's first batches, or a person's import
TENANTS_KEPT = 10_000  # with two numbers each; of more, those that published longest ago begin with full buckets again


class Bucket:
    """Fills at ``rate`` a second up to ``burst``.

    What is larger than a whole bucket is given once the bucket is full, and what is missing is owed: so nothing is refused
    for ever, and the rate holds in the mean.
    """

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self.rate = rate
        self.burst = burst
        self._level = burst
        self._seen_s = now_s

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return in how many seconds the amount may be taken; 0.0: now."""
        return max(0.0, (min(amount, self.burst) - self._filled(now_s)) / self.rate)

    def take(self, amount: float, now_s: float) -> None:
        """Take an amount, which may leave the bucket in debt."""
        self._level = self._filled(now_s) - amount
        self._seen_s = now_s

    def _filled(self, now_s: float) -> float:
        return min(self.burst, self._level + (now_s - self._seen_s) * self.rate)


class Amount(NamedTuple):
    """How much of a tenant's share is asked for."""

    events: int
    size: int


@dataclass(frozen=True)
class _Share:
    events: Bucket | None
    size: Bucket | None

    def pairs(self, amount: Amount) -> list[tuple[Bucket, int]]:
        """Return each bucket with what is asked of it."""
        both = ((self.events, amount.events), (self.size, amount.size))
        return [(bucket, asked) for bucket, asked in both if bucket is not None]


class Quotas:
    """Every tenant's share. A rate of 0 is no limit."""

    def __init__(
        self,
        *,
        events_per_s: float,
        bytes_per_s: float,
        clock: Clock,
        burst_s: float = BURST_S,
        kept: int = TENANTS_KEPT,
    ) -> None:
        self._rates = (events_per_s, bytes_per_s)
        self._burst_s = burst_s
        self._clock = clock
        self._kept = kept
        self._shares: OrderedDict[str, _Share] = OrderedDict()

    @property
    def unlimited(self) -> bool:
        """Whether nothing is counted."""
        return not any(self._rates)

    def take(self, amounts: Mapping[str, Amount]) -> None:
        """Take each tenant's amount, all or none. Raises RateLimited with the seconds until all could be taken."""
        now_s = self._clock.monotonic()
        asked = {tenant: self._share(tenant, now_s).pairs(amount) for tenant, amount in amounts.items()}
        waits = {
            tenant: max((bucket.wait_s(amount, now_s) for bucket, amount in pairs), default=0.0)
            for tenant, pairs in asked.items()
        }
        longest = max(waits, key=lambda tenant: (waits[tenant], tenant), default=None)
        if longest is not None and waits[longest] > 0:
            retry_after_s = math.ceil(waits[longest])
            raise RateLimited(
                f"tenant {longest} has used up its share ({self._told()}); nothing of this was kept; "
                f"send it again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )
        for pairs in asked.values():
            for bucket, amount in pairs:
                bucket.take(amount, now_s)

    def _told(self) -> str:
        events, size = self._rates
        told = [f"{events:g} events" if events else "", f"{size:g} bytes" if size else ""]
        return " and ".join(filter(None, told)) + " a second"

    def _share(self, tenant: str, now_s: float) -> _Share:
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = _Share(*(self._bucket(rate, now_s) for rate in self._rates))
            if len(self._shares) > self._kept:
                self._shares.popitem(last=False)
        self._shares.move_to_end(tenant)
        return share

    def _bucket(self, rate: float, now_s: float) -> Bucket | None:
        return Bucket(rate, max(1.0, rate * self._burst_s), now_s) if rate else None
