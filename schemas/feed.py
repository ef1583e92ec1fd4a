"""The live feed: what was stored, changed, retracted or contradicted, as it happens.

An SSE message's event name is ``kind``, its data the event's JSON. Only news has an id: give the last one back as
``Last-Event-ID`` and the feed goes on after it. The rest says how the feed itself is.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Record
from schemas.problems import Problem
from schemas.times import Moment
from schemas.units import UnitType

NewsKind = Literal["stored", "changed", "retracted", "contradicted", "gap"]
EXCERPT_CHARS = 280
FEED_END = frozenset({"closing", "error"})


class NewsItem(Record):
    """One piece of news as the board keeps it: who may hear of it, and no text; that is read when it is told.

    ``scopes``: every one of them must be readable. A pair has two units, a gap (news was lost on its way) none.
    """

    version: Literal[1] = 1
    kind: NewsKind
    unit_ids: tuple[str, ...]
    scopes: tuple[str, ...]
    recorded_at: datetime
    source: str | None = None
    difference: str | None = None
    detail: str | None = None
    attribute: str | None = None


class UnitNews(Record):
    """What there is to see of a unit in the news: its text's beginning, where it still stands and may be read."""

    unit_id: str
    scope: str
    title: str | None = None
    text: str | None = Field(default=None, description=f"at most {EXCERPT_CHARS} characters; none: it is gone")
    type: UnitType | None = None
    occurred_at: Moment | None = None
    creator: str | None = None
    supersedes: str | None = None


class StoredEvent(Record):
    """A unit is there that was not."""

    kind: Literal["stored"] = "stored"
    recorded_at: datetime
    unit: UnitNews
    source: str | None = None


class ChangedEvent(Record):
    """A unit has a new revision, or came from another scope of the reader's."""

    kind: Literal["changed"] = "changed"
    recorded_at: datetime
    unit: UnitNews
    source: str | None = None


class RetractedEvent(Record):
    """A unit is gone from a scope of the reader's."""

    kind: Literal["retracted"] = "retracted"
    recorded_at: datetime
    unit: UnitNews
    source: str | None = None


class ContradictedEvent(Record):
    """Two units cannot both hold; the reader may read both."""

    kind: Literal["contradicted"] = "contradicted"
    recorded_at: datetime
    sides: tuple[UnitNews, UnitNews]
    difference: str
    detail: str
    attribute: str = ""


class OpenEvent(Record):
    """The beginning. ``resumed``: the feed goes on right after the id that was given; otherwise `MissedEvent` follows."""

    kind: Literal["open"] = "open"
    live: bool
    resumed: bool = False


class MissedEvent(Record):
    """News that this reader did not get. ``count`` none: it cannot be known how many.

    ``slow``: it came faster than it was read. ``trimmed``: it is older than what is kept. ``outage``: the board or the
    store was away.
    """

    kind: Literal["missed"] = "missed"
    count: int | None = Field(default=None, ge=1)
    reason: Literal["slow", "trimmed", "outage"]


class DegradedEvent(Record):
    """The board does not answer: nothing comes until `LiveEvent`. Questions are not affected."""

    kind: Literal["degraded"] = "degraded"
    reason: str


class LiveEvent(Record):
    """The board answers again."""

    kind: Literal["live"] = "live"


class FeedClosingEvent(Record):
    """The end: come back after ``retry_ms`` with the last id."""

    kind: Literal["closing"] = "closing"
    retry_ms: int = 1_000


class FeedErrorEvent(Record):
    """The end: a failure, as a problem."""

    kind: Literal["error"] = "error"
    problem: Problem


NewsEvent = StoredEvent | ChangedEvent | RetractedEvent | ContradictedEvent
FeedEvent = Annotated[
    StoredEvent
    | ChangedEvent
    | RetractedEvent
    | ContradictedEvent
    | OpenEvent
    | MissedEvent
    | DegradedEvent
    | LiveEvent
    | FeedClosingEvent
    | FeedErrorEvent,
    Field(discriminator="kind"),
]
