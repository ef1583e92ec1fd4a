"""A board in this process: for tests, and the plainest statement of what a board does."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from shared.errors import CacheUnavailable
from shared.news import KEPT, START, Entry, Mark, Post, order


class MemoryBoard:
    """A `NewsBoard`. ``away``: it does not answer, until that is false again."""

    def __init__(self, kept: int = KEPT) -> None:
        self.away = False
        self._kept = kept
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        self._number: dict[str, int] = defaultdict(int)
        self._trimmed: set[str] = set()
        self._marks: dict[str, dict[str, int]] = defaultdict(dict)
        self._posted = asyncio.Condition()

    async def post(self, posts: Sequence[Post]) -> None:
        """Add news."""
        self._answer()
        for post in posts:
            if post.items and self._is_new(post.tenant, post.mark):
                self._add(post)
        async with self._posted:
            self._posted.notify_all()

    async def newest(self, tenant: str) -> str:
        """Return the newest id."""
        self._answer()
        return f"{self._number[tenant]}-0" if self._number[tenant] else START

    async def follows(self, tenant: str, entry_id: str) -> bool:
        """Tell whether nothing is missing after an id."""
        self._answer()
        if entry_id == await self.newest(tenant):
            return True
        if entry_id == START:
            return tenant not in self._trimmed
        return any(entry.id == entry_id for entry in self._entries[tenant])

    async def read(self, tenant: str, after: str, until: str, limit: int) -> list[Entry]:
        """Return entries between ids."""
        self._answer()
        low, high = order(after), order(until)
        return [entry for entry in self._entries[tenant] if low < order(entry.id) <= high][:limit]

    async def latest(self, tenant: str, until: str, limit: int) -> list[Entry]:
        """Return the newest entries up to an id."""
        self._answer()
        high = order(until)
        return [entry for entry in self._entries[tenant] if order(entry.id) <= high][-limit:]

    async def wait(self, tenant: str, after: str, limit: int, wait_s: float) -> list[Entry]:
        """Return entries after an id, or wait for one."""
        low = order(after)

        def there() -> list[Entry]:
            self._answer()
            return [entry for entry in self._entries[tenant] if order(entry.id) > low][:limit]

        try:
            async with asyncio.timeout(wait_s), self._posted:
                return await self._posted.wait_for(there)
        except TimeoutError:
            return []

    async def close(self) -> None:
        """Nothing is held open."""

    async def fail(self, *, away: bool) -> None:
        """Stop answering, or answer again; whoever waits hears of it."""
        self.away = away
        async with self._posted:
            self._posted.notify_all()

    def _answer(self) -> None:
        if self.away:
            raise CacheUnavailable("the board does not answer")

    def _is_new(self, tenant: str, mark: Mark) -> bool:
        marks = self._marks[tenant]
        if mark.number <= marks.get(mark.place, -1):
            return False
        marks[mark.place] = mark.number
        return True

    def _add(self, post: Post) -> None:
        entries = self._entries[post.tenant]
        for item in post.items:
            self._number[post.tenant] += 1
            entries.append(Entry(f"{self._number[post.tenant]}-0", item))
        if len(entries) > self._kept:
            del entries[: len(entries) - self._kept]
            self._trimmed.add(post.tenant)
