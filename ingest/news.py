"""news: what receipts and contradictions say has happened goes to the board that every query process reads.

Nothing waits for the board. While it is away news is dropped, at once after the first try, and when it is back everybody
is told that something is missing: knowledge is in the store, the feed only says that it came.
"""

from collections.abc import Sequence
from datetime import datetime

import orjson
import structlog
from pydantic import ValidationError

from ingest.lanes import Draining
from ingest.metrics import IngestMetrics
from schemas.feed import NewsItem
from schemas.messages import Receipt, ReceiptOutcome
from shared.clock import Clock
from shared.errors import CacheUnavailable
from shared.kafka import EPOCH_KEY, STORED, Record
from shared.news import Mark, NewsBoard, Post
from shared.store import KnowledgeReader

REST_S = 2.0  # after a failure: one lane tries every so often, the others pass
REFILLED = "cortex-refill"
"""Header of a contradiction that is told again for a broker that keeps nothing; everybody has heard of it."""
SILENT = frozenset({ReceiptOutcome.UNCHANGED, ReceiptOutcome.STALE, ReceiptOutcome.MOVED})

_log = structlog.get_logger(__name__)


class NewsStage:
    """From ``cortex.stored`` and ``cortex.contradictions`` to the board."""

    def __init__(
        self, board: NewsBoard, reader: KnowledgeReader, clock: Clock, metrics: IngestMetrics, epoch: str
    ) -> None:
        """``epoch`` names the life of the broker, within which offsets mean something."""
        self._board = board
        self._reader = reader
        self._clock = clock
        self._metrics = metrics
        self._epoch = epoch
        self._rest_until = float("-inf")
        self._owed: dict[str, datetime] = {}

    async def work(self, records: Sequence[Record], draining: Draining) -> int:
        """Post a window's news in one go."""
        del draining
        posts: list[Post] = []
        for record in records:
            post = self._receipt(record) if record.topic.endswith(STORED) else await self._pair(record)
            if post is not None and post.items:
                posts.append(post)
        if posts:
            await self._post(posts)
        return len(records)

    async def _post(self, posts: list[Post]) -> None:
        if self._clock.monotonic() < self._rest_until:
            self._drop(posts)
            return
        try:
            await self._board.post([*self._gaps(), *posts])
        except CacheUnavailable as error:
            self._rest_until = self._clock.monotonic() + REST_S
            _log.warning("news.dropped", cause=str(error), posts=len(posts))
            self._drop(posts)
        else:
            self._owed.clear()

    def _drop(self, posts: Sequence[Post]) -> None:
        self._metrics.news_dropped(sum(len(post.items) for post in posts))
        for post in posts:
            self._owed[post.tenant] = post.items[0].recorded_at

    def _gaps(self) -> list[Post]:
        """Say first, to each tenant that lost some, that news is missing."""
        return [
            Post(
                tenant,
                (NewsItem(kind="gap", unit_ids=(), scopes=(), recorded_at=at),),
                Mark(f"gap/{self._epoch}/{at.isoformat()}", 0),
            )
            for tenant, at in sorted(self._owed.items())
        ]

    def _receipt(self, record: Record) -> Post | None:
        try:
            receipt = Receipt.model_validate_json(record.value or b"")
        except ValidationError:
            return None  # the contradictions stage has buried it
        if receipt.tenant is None or receipt.outcome in SILENT:
            return None
        place = receipt.position
        mark = Mark(f"{place.log}/{place.topic}/{place.partition}", place.number)
        return Post(receipt.tenant, news_of(receipt), mark)

    async def _pair(self, record: Record) -> Post | None:
        if record.key == EPOCH_KEY or record.value is None or any(name == REFILLED for name, _ in record.headers):
            return None
        try:
            told = orjson.loads(record.value)
            tenant, units, at = told["tenant"], tuple(told["units"]), datetime.fromisoformat(told["recorded_at"])
            if not told["open"]:
                return None
            async with self._reader.snapshot(tenant) as snapshot:
                stored = await snapshot.units(units)
        except (ValueError, KeyError, TypeError):
            return None
        if len(stored) < len(units):
            return None  # one of them is gone by now, and with it the contradiction
        item = NewsItem(
            kind="contradicted",
            unit_ids=units,
            scopes=tuple(stored[unit_id].known.unit.scope.key for unit_id in units),
            recorded_at=at,
            difference=told.get("difference"),
            detail=told.get("detail"),
            attribute=told.get("attribute"),
        )
        return Post(tenant, (item,), Mark(f"pairs/{self._epoch}/{record.partition}", record.offset))


def news_of(receipt: Receipt) -> tuple[NewsItem, ...]:
    """Return what a receipt has to tell: each unit that came, changed or went, once a scope; a kept part is no news.

    A unit that moves is stored in its new scope and retracted from the old one, for readers of both see it change place.
    """
    kept = frozenset(receipt.kept)
    told: list[NewsItem] = []

    def tell(kind: str, unit_id: str, scope: str) -> None:
        told.append(
            NewsItem.model_validate(
                {
                    "kind": kind,
                    "unit_ids": (unit_id,),
                    "scopes": (scope,),
                    "recorded_at": receipt.recorded_at,
                    "source": receipt.event_source,
                }
            )
        )

    for unit_id in receipt.units:
        was, now = receipt.before.get(unit_id), receipt.scopes.get(unit_id)
        if unit_id in kept or now is None:
            continue
        if was is not None and was != now:
            tell("retracted", unit_id, was)
        tell("changed" if was == now else "stored", unit_id, now)
    for unit_id in receipt.retracted:
        if unit_id in receipt.before:
            tell("retracted", unit_id, receipt.before[unit_id])
    return tuple(told)
