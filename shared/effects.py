"""What an event does to the knowledge, as pure functions of the set of events: every store must agree on these.

Order of arrival plays no part here: a unit is the highest-ranked statement about it, a document the highest revision
whose parts are all there.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from schemas.events import UnitAsserted, UnitRetracted
from schemas.messages import Mention, StageMessage
from schemas.positions import Position
from schemas.units import Claim, Unit
from shared.identity import content_key
from shared.passages import stated_text

HISTORY = 50
"""Older revisions kept a unit: enough to show what became of it, and a bound (design, invariant 11)."""

COMBINATIONS = 256
"""Ways to combine conflicting texts of one document revision that are tried before it is left pending. A producer who
keeps the rules needs one; one who sent a revision twice with changed texts needs two; the bound stops the product.
"""

PART_SEPARATOR = "\x1e"


class Rank(NamedTuple):
    """What decides between two statements about one thing: the greater wins, so at equal revisions a retraction does.

    The digest, and last the event's name, make the order total: any two stores choose the same.
    """

    revision: int
    retraction: bool
    digest: str
    source: str
    event_id: str


@dataclass(frozen=True)
class Statement:
    """What one event says about one unit. ``unit`` is None for a retraction.

    ``explicit``: the producer gave the revision (else it is the position's number). ``document_id`` and ``part`` are the
    unit's, so that a statement without a body still says where it belongs.
    """

    unit_id: str
    rank: Rank
    explicit: bool
    unit: Unit | None
    recorded_at: datetime
    position: Position
    content_key: str | None = None
    mentions: tuple[Mention, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def document_id(self) -> str | None:
        """The document whose part it is."""
        return self.unit.document_id if self.unit else None

    def is_earlier(self, other: "Statement") -> bool:
        """Say whether it is another copy of the same event that was recorded before: of copies the first one counts."""
        return self.rank == other.rank and self.recorded_at < other.recorded_at


def data_digest(data: BaseModel) -> str:
    """Return SHA-256 (hex) over the canonical JSON of an event's data."""
    return hashlib.sha256(canonical(model_json(data))).hexdigest()


def model_json(model: BaseModel) -> Any:
    """Return a model as JSON without what is not said."""
    return model.model_dump(mode="json", exclude_none=True)


def resolution_row(mentions: Sequence[Mention], claims: Sequence[Claim]) -> Any:
    """Return what a digest holds of a unit's resolution."""
    return [[model_json(mention) for mention in mentions], [model_json(claim) for claim in claims]]


def canonical(value: Any) -> bytes:
    """Write JSON with sorted keys and no white space."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def revision_of(explicit: int | None, message: StageMessage) -> tuple[int, bool]:
    """Return the revision that counts, and whether the producer gave it."""
    if explicit is not None:
        return explicit, True
    return (message.position.number if message.revision is None else message.revision), False


def effective_unit(event: UnitAsserted) -> Unit:
    """Return the unit as it counts: the event's time is when it occurred, where the unit does not say."""
    if event.data.occurred_at is None and event.time is not None:
        return event.data.model_copy(update={"occurred_at": event.time})
    return event.data


def statement_of(tenant: str, message: StageMessage, event: UnitAsserted | UnitRetracted) -> Statement:
    """Read what an event says about a unit."""
    revision, explicit = revision_of(event.data.revision, message)
    if isinstance(event, UnitRetracted):
        rank = Rank(revision, True, data_digest(event.data), event.source, event.id)
        return Statement(event.data.id, rank, explicit, None, message.recorded_at, message.position)
    unit = effective_unit(event)
    resolution = message.resolution
    return Statement(
        unit_id=unit.id,
        rank=Rank(revision, False, data_digest(unit), event.source, event.id),
        explicit=explicit,
        unit=unit,
        recorded_at=message.recorded_at,
        position=message.position,
        content_key=content_key(tenant, unit.scope.key, stated_text(unit)),
        mentions=resolution.mentions if resolution else (),
        claims=resolution.claims if resolution else (),
    )


def kept_ranks(ranks: Iterable[Rank]) -> list[Rank]:
    """Return the statements about a unit that are kept, best first: none below a retraction, and `HISTORY` older ones."""
    kept: list[Rank] = []
    for rank in sorted(ranks, reverse=True):
        kept.append(rank)
        if rank.retraction or len(kept) > HISTORY:
            break
    return kept


def document_hash(texts: Sequence[str]) -> str:
    """Return the hash that ``document.completed`` carries: SHA-256 (hex) over the parts' texts in order."""
    return hashlib.sha256(PART_SEPARATOR.join(texts).encode()).hexdigest()


def choose_parts(candidates: Mapping[int, Sequence[str]], parts: int, wanted: str) -> tuple[str, ...] | None:
    """Return the text of each part so that together they have the ``wanted`` hash, or None while they do not.

    ``candidates`` holds the distinct texts that were sent for each part, in any order. None too where more than
    `COMBINATIONS` would have to be tried. No parts, a retraction, need no hash.
    """
    if parts == 0:
        return ()
    choices = [sorted(candidates.get(part, ())) for part in range(parts)]
    for texts in itertools.islice(itertools.product(*choices), COMBINATIONS):
        if document_hash(texts) == wanted:
            return texts
    return None


def digest_rows(rows: Iterable[Any]) -> str:
    """Return SHA-256 (hex) over rows in their sorted canonical form, floats left out."""
    digest = hashlib.sha256()
    for row in sorted(canonical(without_floats(row)) for row in rows):
        digest.update(row + b"\n")
    return digest.hexdigest()


def without_floats(value: Any) -> Any:
    """Return JSON without its floats: they are the one thing two machines may write differently."""
    if isinstance(value, dict):
        return {key: without_floats(item) for key, item in value.items() if not isinstance(item, float)}
    if isinstance(value, list | tuple):
        return [without_floats(item) for item in value if not isinstance(item, float)]
    return value
