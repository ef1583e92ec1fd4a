"""The board of news: a bounded, ordered list a tenant, which one process writes and every query process reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from schemas.feed import NewsItem

KEPT = 10_000
"""News kept a tenant, about: some 4 MB. Whoever was away for longer is told that something was missed."""

START = "0-0"
ENTRY_ID = re.compile(r"^[0-9]{1,20}-[0-9]{1,20}$")


@dataclass(frozen=True)
class Mark:
    """The place in a partition that some news comes from; what is posted at or below it again is not news."""

    place: str
    number: int


@dataclass(frozen=True)
class Post:
    """News of one tenant that came of one event."""

    tenant: str
    items: tuple[NewsItem, ...]
    mark: Mark


@dataclass(frozen=True)
class Entry:
    """A piece of news on the board. Ids grow, also when the board was lost and begins anew."""

    id: str
    item: NewsItem


class NewsBoard(Protocol):
    """Keeps the newest `KEPT` news of each tenant. Every call raises CacheUnavailable within its deadline."""

    async def post(self, posts: Sequence[Post]) -> None:
        """Add news in order; a post whose mark is not above the highest of its place is passed over."""
        ...

    async def newest(self, tenant: str) -> str:
        """Return the id of the newest entry; `START` where there has been none."""
        ...

    async def follows(self, tenant: str, entry_id: str) -> bool:
        """Tell whether what comes after an id is all there: its entry is, or it is the newest id, or nothing was ever
        there before what is there now.
        """
        ...

    async def read(self, tenant: str, after: str, until: str, limit: int) -> list[Entry]:
        """Return the oldest entries with after < id <= until."""
        ...

    async def latest(self, tenant: str, until: str, limit: int) -> list[Entry]:
        """Return the newest entries with id <= until, oldest of them first."""
        ...

    async def wait(self, tenant: str, after: str, limit: int, wait_s: float) -> list[Entry]:
        """Return the oldest entries after an id; where there are none, wait for one up to ``wait_s``."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


def order(entry_id: str) -> tuple[int, int]:
    """Return what ids are compared by."""
    first, _, second = entry_id.partition("-")
    return int(first), int(second)
