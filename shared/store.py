"""The knowledge store: what is known, searchable, with its history. The docstrings are the contract.

One process writes (`KnowledgeWriter`), any number read (`KnowledgeReader`). A passage is the identity that searches find:
a titled text in a scope. Units with the same folded title and text in one scope share a passage; a turn is its own.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from schemas.answers import KnownUnit
from schemas.commands import Job, Selection
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.events import Event
from schemas.graph import Contribution
from schemas.messages import Mention, Receipt, ReceiptOutcome, Resolution, StageMessage
from schemas.positions import Position
from schemas.units import Claim, Unit, UnitType
from shared.embedder import Vector, Vectors
from shared.vector_models import KnownModel, VectorModels

STORED = "stored"
CONTRADICTIONS = "contradictions"


@dataclass(frozen=True)
class Effect:
    """One stage message with what it carries, ready to be made durable. ``event`` is None for a marker.

    ``vectors`` are of the message's model; ``beside``: the same text's vectors of other models, by name.
    """

    message: StageMessage
    event: Event | None
    vectors: Vectors | None = None
    beside: Mapping[str, Vectors] = field(default_factory=dict)


@dataclass(frozen=True)
class Applied:
    """What came of an effect: the receipt, and the graph contributions that changed."""

    receipt: Receipt
    contributions: tuple[Contribution, ...] = ()


@dataclass(frozen=True)
class FoundContradiction:
    """A pair that cannot both hold; ``units`` sorted by id, with the revisions that were compared."""

    units: tuple[str, str]
    revisions: tuple[int, int]
    difference: str
    detail: str
    attribute: str
    similarity: float

    @property
    def id(self) -> str:
        """The pair's id: its sorted unit ids, so that either order of arrival names the same pair."""
        return f"{self.units[0]}~{self.units[1]}"


@dataclass(frozen=True)
class SearchFilter:
    """What may be found. Part of every query, never applied afterwards (invariant 6).

    ``scopes``: scope keys; empty finds nothing. Validity: a unit is current at ``at`` when valid_from (where known) ≤
    at < valid_until (where known) and no live unit that supersedes it had begun by then; only a unit of the same scope
    or of a wider level supersedes. ``include_superseded`` also finds what has ended. ``at`` is the present unless as-of
    is asked. ``past`` true also leaves out what occurred after ``at``. ``known_at``: recorded by then.
    ``occurred``: half-open window; a day-precision unit is in it when its day overlaps.
    """

    scopes: frozenset[str]
    at: datetime
    past: bool = False
    known_at: datetime | None = None
    include_superseded: bool = False
    types: frozenset[UnitType] | None = None
    occurred: tuple[datetime | None, datetime | None] | None = None


@dataclass(frozen=True)
class PassageHit:
    """A passage that an arm found. ``score``: BM25 (higher is better) or cosine similarity, by arm.

    ``unit_ids``: live units of the passage that pass the filter, newest first; never empty.
    """

    passage_id: int
    score: float
    unit_ids: tuple[str, ...]


@dataclass(frozen=True)
class StoredUnit:
    """A live unit with its state, its passage, its mentions, and the claims that were extracted from its text."""

    known: KnownUnit
    passage_id: int
    mentions: tuple[Mention, ...] = ()
    subject: str | None = None
    claims: tuple[Claim, ...] = ()


class UnitVersion(NamedTuple):
    """A live unit and a name for what it says now: another statement, even of the same revision, has another name."""

    unit_id: str
    version: str


@dataclass(frozen=True)
class SelectedUnit:
    """A live unit that a selection fits. ``version``: as in `UnitVersion`; ``content_key``: of its text's vectors."""

    unit: Unit
    version: str
    revision: int
    content_key: str
    recorded_at: datetime


class Resolving(NamedTuple):
    """What a unit's text was resolved to anew, when it was the given version, of that revision."""

    unit_id: str
    version: str
    revision: int
    resolution: Resolution


@dataclass(frozen=True)
class Resolved:
    """What came of it: the version that stands (None: the unit is gone), and what it contributes to the graph now.

    ``written``: it was still the version that was resolved, and what was found is kept.
    """

    unit_id: str
    version: str | None
    written: bool
    contribution: Contribution


@dataclass(frozen=True)
class StoredContradiction:
    """A pair as kept. ``open`` is derived: both revisions still stand and neither unit is superseded or ended."""

    found: FoundContradiction
    recorded_at: datetime
    open: bool


@dataclass(frozen=True)
class KnownEvent:
    """What the store did with an event, and at which place. ``units``: those it made live or took away."""

    source: str
    event_id: str
    position: Position
    recorded_at: datetime
    outcome: ReceiptOutcome
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Membership:
    """The principal's way into a scope: ``hops`` 0 for its personal scope, 1 for its team, and so on; its role there."""

    scope: str
    hops: int
    role: str | None = None


@dataclass(frozen=True)
class StoreCounts:
    """Totals of a tenant."""

    units: int
    passages: int
    documents: int
    entities: int
    relations: int
    contradictions_open: int
    by_scope: Mapping[str, int] = field(default_factory=dict)


class Snapshot(Protocol):
    """One view: all calls on it see the same commit, in SQLite and in memory.

    Weaviate keeps no older states: there each call sees at least what was durable when the snapshot was opened, perhaps
    more. The model that is searched is the one that was active then, everywhere.
    """

    async def memberships(self, principal: str | None) -> list[Membership]:
        """Return the scopes a principal may read, by declared relations: personal/<id>, and what member_of, belongs_to
        and part_of lead to, upwards. None is the trusted caller: every scope that has units.
        """
        ...

    async def watermarks(self, stage: str = STORED) -> dict[tuple[str, int], int]:
        """Return the highest number whose effect is durable, per (topic, partition)."""
        ...

    async def keyword(self, terms: Sequence[str], where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by BM25 over the analysed terms (any may match), best first, ties by passage id.

        Terms that occur in more than a tenth of all passages, and in more than 200, are left out unless nothing remains.
        """
        ...

    async def model(self) -> str | None:
        """Return the name of the model whose vectors are searched; None where nothing has vectors yet."""
        ...

    async def models(self) -> list[KnownModel]:
        """Return the models whose vectors are kept, as `VectorModels.models` does."""
        ...

    async def vector(self, query: Vector, where: SearchFilter, limit: int) -> list[PassageHit]:
        """Return passages by cosine similarity (the best of their chunks), best first, ties by passage id. Exact.

        ``query`` is of `model`, as for `similarities`. Raises InvalidInput where its length is another.
        """
        ...

    async def similarities(self, query: Vector, passage_ids: Collection[int]) -> dict[int, float]:
        """Return the cosine similarity of each passage (the best of its chunks)."""
        ...

    async def passage_vectors(self, passage_ids: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors of each passage, one row a chunk, in the order of the chunks; unknown ids are left out."""
        ...

    async def about(self, keys: Collection[str], where: SearchFilter, limit: int) -> dict[str, list[PassageHit]]:
        """Return, per entity key, up to ``limit`` passages whose subject (title, about-link) or mentions have that key;
        score 1.0 for the subject, 0.5 for a mention; newest first at equal scores.
        """
        ...

    async def sharing(self, wanted: Sequence[Collection[str]], limit: int) -> list[list[UnitVersion]]:
        """Return, for each set of keys, up to ``limit`` of the tenant's live units whose subject or mentions have any of them:
        by occurred_at (recorded_at where unknown) newest first, ties by id. No keys: none.

        Every scope counts, whatever its times of holding: for checks between units, never for what a caller may read.
        """
        ...

    async def latest(self, where: SearchFilter, limit: int, *, oldest_first: bool = False) -> list[PassageHit]:
        """Return passages by occurred_at (recorded_at where unknown): newest first, or oldest first."""
        ...

    async def units(self, unit_ids: Collection[str]) -> dict[str, StoredUnit]:
        """Return the live units among the ids. The caller checks the scope of what it did not find by search."""
        ...

    async def history(self, unit_id: str) -> list[KnownUnit]:
        """Return older revisions that are kept, newest first."""
        ...

    async def contradictions(
        self,
        *,
        unit_ids: Collection[str] | None = None,
        scopes: frozenset[str] | None = None,
        limit: int = 100,
        after: str | None = None,
        open_only: bool = True,
    ) -> list[StoredContradiction]:
        """Return contradictions by id. With ``scopes``, only those with both units in them."""
        ...

    async def entities(self) -> tuple[int, list[EntityDeclaration]]:
        """Return a version that changes with every declaration, and the declared entities by id."""
        ...

    async def entities_version(self) -> int:
        """Return the version of `entities` alone: cheap, where the declarations are kept from an earlier look."""
        ...

    async def relations(self, entity_id: str | None = None) -> list[RelationDeclaration]:
        """Return declared relations (that touch the entity), by identity."""
        ...

    async def entity_keys(self, scopes: frozenset[str], limit: int, after: str | None = None) -> list[tuple[str, int]]:
        """Return mentioned keys in readable scopes with their unit counts, by key."""
        ...

    async def counts(self) -> StoreCounts:
        """Return totals."""
        ...

    async def events(self, event_id: str, source: str | None = None) -> list[KnownEvent]:
        """Return what the store did with the events of an id, by source; nothing where none has come this far.

        A redelivery does not change what is said of an event; a failed one that is replayed with success does.
        """
        ...

    async def jobs(self, limit: int = 100, job_id: str | None = None) -> list[Job]:
        """Return background jobs as last saved, newest first, or the one of an id."""
        ...

    async def select(self, selection: Selection, after: str, limit: int) -> list[SelectedUnit]:
        """Return up to ``limit`` live units that fit, by unit id, those beyond ``after``. Every scope counts: no reader's
        right is asked. ``selection.model``: units whose text has vectors of it.
        """
        ...

    async def count_selected(self, selection: Selection) -> int:
        """Return how many live units fit."""
        ...


class KnowledgeReader(Protocol):
    """Reads; opened by the query service and by the stages that look things up."""

    def snapshot(self, tenant: str) -> AbstractAsyncContextManager[Snapshot]:
        """Open a consistent view; a tenant that has nothing yet is empty, not an error. Raises StoreUnavailable."""
        ...

    async def tenants(self) -> list[str]:
        """Return the tenants that have a store, by name."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable when the store cannot be read."""
        ...

    async def close(self) -> None:
        """Give up connections and memory."""
        ...


class KnowledgeWriter(VectorModels, Protocol):
    """Writes; owned by the one process that runs the store stage."""

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable in one transaction, with the watermark ``stored`` of each position; all or none.

        Rules (design, invariants 2, 4, 5, 9): per unit the highest (revision, retraction before assertion, event digest)
        wins whatever the order of arrival; an older one is STALE; the same event again is UNCHANGED (and lists the unit
        when it is live, so that later stages can repeat their work); a retraction leaves a tombstone for ever. A document
        turns to a revision when that revision's completion and all its parts are there and the hash agrees; until then
        the previous one answers; then older parts go. Watermarks never go back. A turn's keyword text holds its date and
        its neighbours' (turn ± 1) words. Equal texts share passage and vector. The first vectors make their model the
        active one; vectors of models that are not known are left out. Raises StoreUnavailable, DiskFull, and ModelChanged
        where a text that is to be kept comes with vectors, but with none of the active model.
        """
        ...

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before for these texts by this model."""
        ...

    async def record_contradictions(
        self,
        tenant: str,
        position: Position | None,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Keep what was ``found`` about the ``checked`` units, and move the watermark ``contradictions``, in one transaction.
        Returns the pairs that are new.

        With a ``position``: pairs of theirs whose revisions do not stand any more go; the others stay, for another lane may
        have found them after these units were checked. Without one units were checked again, alone: what was not found
        again goes too.
        """
        ...

    async def resolve_again(self, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
        """Keep what units' texts were resolved to anew, in one transaction; nothing for a unit that has changed since.

        The answers are in the order given, and each says what stands now. Raises StoreUnavailable, DiskFull.
        """
        ...

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state durably, in place of its older one; one that is over stays as it ended.

        Of the tenant's jobs that are over the newest `shared.jobs_kept.KEPT` are kept; one that is not over is never let go.
        """
        ...

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now: what a compacted topic would hold."""
        ...

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the SHA-256 digest of each part of the tenant's state (shared/fingerprints.py names them), over the
        part's fingerprints. Any order and any redelivery of the same events give equal digests.
        """
        ...

    async def fingerprints(self, tenant: str, part: str) -> dict[str, str]:
        """Return the fingerprint of each thing of a part, by identity, as shared/fingerprints.py writes them: the same in
        every store. What differs between two stores is so found down to the thing. Raises StoreUnavailable.
        """
        ...

    async def close(self) -> None:
        """Close; afterwards the files can be copied."""
        ...
