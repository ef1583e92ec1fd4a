"""A tenant's knowledge in memory: every statement ever made, and the state as a plain function of them."""

from dataclasses import dataclass, field
from datetime import datetime

from schemas.commands import Job
from schemas.entities import EntityDeclaration, EntityRetraction, RelationDeclaration, RelationRetraction
from schemas.events import (
    DocumentCompleted,
    DocumentCompletion,
    EntityDeclared,
    EntityRetracted,
    Event,
    RelationDeclared,
    RelationRetracted,
    UnitAsserted,
    UnitRetracted,
)
from schemas.graph import Contribution
from schemas.messages import ReceiptOutcome, StageMessage
from shared.contributions import (
    entity_contribution,
    relation_contribution,
    relation_identity,
    removal,
    unit_contribution,
    unit_id_of,
)
from shared.effects import Rank, Statement, choose_parts, data_digest, kept_ranks, revision_of
from shared.store import FoundContradiction, KnownEvent
from shared.stores.memory_vectors import VectorState

Declaration = EntityDeclaration | EntityRetraction | RelationDeclaration | RelationRetraction
Outcome = tuple[ReceiptOutcome, tuple[str, ...], tuple[str, ...], int]


@dataclass(frozen=True)
class Declared:
    """The highest-ranked statement about an entity or a relation."""

    rank: Rank
    data: Declaration


@dataclass
class Document:
    """All parts and completions of a document, and which of them stand."""

    parts: dict[tuple[int, int, str], Statement] = field(default_factory=dict)
    completions: dict[tuple[int, str], tuple[Rank, DocumentCompletion]] = field(default_factory=dict)
    current: tuple[Rank, DocumentCompletion] | None = None
    active: tuple[Statement, ...] = ()
    departed: tuple[str, ...] = ()

    @property
    def first_open(self) -> int:
        """The lowest revision whose parts may still matter."""
        return 0 if self.current is None else self.current[0].revision + self.current[0].retraction

    def settle(self) -> None:
        """Stand at the best completion whose parts are all there."""
        for rank, completion in sorted(self.completions.values(), key=lambda item: item[0], reverse=True):
            found: dict[int, list[str]] = {}
            for revision, part, text in self.parts:
                if revision == rank.revision and part < completion.parts:
                    found.setdefault(part, []).append(text)
            texts = choose_parts(found, completion.parts, completion.hash)
            if texts is not None:
                self.current = (rank, completion)
                self.active = tuple(self.parts[rank.revision, part, text] for part, text in enumerate(texts))
                self._drop_older()
                return

    def _drop_older(self) -> None:
        self.parts = {key: statement for key, statement in self.parts.items() if key[0] >= self.first_open}
        self.completions = {
            key: item for key, item in self.completions.items() if self.current and key[0] >= self.current[0].revision
        }


@dataclass
class TenantState:
    """Everything of one tenant."""

    tenant: str
    said: dict[str, dict[tuple[bool, str, str, str], Statement]] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    declared: dict[tuple[str, str], Declared] = field(default_factory=dict)
    entities_version: int = 0
    vectors: VectorState = field(default_factory=VectorState)
    contradictions: dict[str, tuple[FoundContradiction, datetime]] = field(default_factory=dict)
    watermarks: dict[tuple[str, str, int], int] = field(default_factory=dict)
    events: dict[tuple[str, str], KnownEvent] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)

    def own(self, unit_id: str) -> list[Statement]:
        """Return what is kept of the statements about a unit that stands for itself, best first."""
        by_rank = {statement.rank: statement for statement in self.said.get(unit_id, {}).values()}
        return [by_rank[rank] for rank in kept_ranks(by_rank)]

    def live(self, unit_id: str) -> Statement | None:
        """Return the statement that makes a unit live."""
        candidates = self.own(unit_id)[:1] + [
            statement
            for document in self.documents.values()
            for statement in document.active
            if statement.unit_id == unit_id
        ]
        best = max(candidates, key=lambda statement: statement.rank, default=None)
        return None if best is None or best.rank.retraction else best

    def standing(self, event: Event | None) -> dict[str, Statement]:
        """Return the statements of those live units that an event can move."""
        ids: set[str] = set()
        document_id = event.data.id if isinstance(event, DocumentCompleted) else None
        if isinstance(event, UnitAsserted | UnitRetracted):
            ids.add(event.data.id)
        if isinstance(event, UnitAsserted):
            document_id = event.data.document_id
        document = self.documents.get(document_id or "")
        if document is not None:
            ids |= {part.unit_id for part in (*document.active, *document.parts.values())}
        found = {unit_id: self.live(unit_id) for unit_id in sorted(ids)}
        return {unit_id: statement for unit_id, statement in found.items() if statement is not None}

    def all_live(self) -> dict[str, Statement]:
        """Return the statements of all live units, by id."""
        ids = set(self.said) | {part.unit_id for document in self.documents.values() for part in document.active}
        found = {unit_id: self.live(unit_id) for unit_id in sorted(ids)}
        return {unit_id: statement for unit_id, statement in found.items() if statement is not None}

    def counted_texts(self) -> dict[str, Statement]:
        """Return the texts whose vectors are kept, by content key: of what stands, and of parts that wait."""
        own = [statements[0] for unit_id in self.said if (statements := self.own(unit_id))]
        parts = [part for document in self.documents.values() for part in document.parts.values()]
        return {statement.content_key: statement for statement in (*own, *parts) if statement.content_key}

    def enter_unit(self, statement: Statement) -> Outcome:
        """Enter what is said about a unit that stands for itself."""
        unit_id, rank = statement.unit_id, statement.rank
        said = self.said.setdefault(unit_id, {})
        was = self.live(unit_id) is not None
        again = said.get(rank[1:])
        if again is None or again.rank.revision > rank.revision:
            said[rank[1:]] = statement
            outcome = ReceiptOutcome.RETRACTED if rank.retraction else ReceiptOutcome.STORED
        else:
            outcome = ReceiptOutcome.UNCHANGED
            if statement.is_earlier(again):
                said[rank[1:]] = statement
        if self.own(unit_id)[0].rank[1:] != rank[1:]:
            return ReceiptOutcome.STALE, (), (), rank.revision
        is_live = self.live(unit_id) is not None
        if rank.retraction:
            gone = not is_live and (was or outcome is ReceiptOutcome.UNCHANGED)
            return outcome, (), (unit_id,) if gone else (), rank.revision
        return outcome, (unit_id,) if is_live else (), (), rank.revision

    def enter_part(self, statement: Statement) -> Outcome:
        """Enter a part of a document."""
        unit, rank = statement.unit, statement.rank
        assert unit is not None
        assert unit.document_id is not None
        assert unit.part is not None
        document = self.documents.setdefault(unit.document_id, Document())
        if rank.revision < document.first_open:
            return ReceiptOutcome.STALE, (), (), rank.revision
        key = (rank.revision, unit.part, unit.text)
        former = document.parts.get(key)
        active = former is not None and former in document.active
        before, standing = self._live_parts(document), document.current
        were = {unit_id for unit_id in (unit.id, former and former.unit_id) if unit_id and self.live(unit_id)}
        if former is None or rank > former.rank or statement.is_earlier(former):
            document.parts[key] = statement
        document.settle()
        if former is None and document.current != standing:
            return self._turned(document, before)
        if former is None or not active:
            return ReceiptOutcome.PENDING_DOCUMENT, (), (), rank.revision
        affected = sorted({former.unit_id, unit.id})
        live = tuple(unit_id for unit_id in affected if self.live(unit_id))
        gone = tuple(unit_id for unit_id in affected if unit_id in were and unit_id not in live)
        return ReceiptOutcome.STORED if rank > former.rank else ReceiptOutcome.UNCHANGED, live, gone, rank.revision

    def complete(self, data: DocumentCompletion, source: str, event_id: str) -> Outcome:
        """Enter a document's completion."""
        rank = Rank(data.revision, data.parts == 0, data_digest(data), source, event_id)
        document = self.documents.setdefault(data.id, Document())
        if document.current is not None and data.revision < document.current[0].revision:
            return ReceiptOutcome.STALE, (), (), 0
        key = (data.revision, rank.digest)
        if key not in document.completions or rank > document.completions[key][0]:
            document.completions[key] = (rank, data)
        before, standing, active = self._live_parts(document), document.current, document.active
        document.settle()
        if (document.current, document.active) != (standing, active):
            return self._turned(document, before)
        if document.current is None or document.current[0].revision < data.revision:
            return ReceiptOutcome.PENDING_DOCUMENT, (), (), 0
        if document.current[0].digest != rank.digest:
            return ReceiptOutcome.STALE, (), (), 0
        live = tuple(sorted(unit_id for unit_id in before if self._is_part(unit_id, data.id)))
        return ReceiptOutcome.UNCHANGED, live, document.departed, data.revision

    def _turned(self, document: Document, before: set[str]) -> Outcome:
        assert document.current is not None
        rank = document.current[0]
        affected = sorted(before | {part.unit_id for part in document.active})
        live = tuple(unit_id for unit_id in affected if self.live(unit_id))
        document.departed = tuple(unit_id for unit_id in affected if unit_id not in live and unit_id in before)
        outcome = ReceiptOutcome.RETRACTED if rank.retraction else ReceiptOutcome.STORED
        return outcome, live, document.departed, rank.revision

    def _live_parts(self, document: Document) -> set[str]:
        return {part.unit_id for part in document.active if self.live(part.unit_id)}

    def _is_part(self, unit_id: str, document_id: str) -> bool:
        statement = self.live(unit_id)
        return statement is not None and statement.document_id == document_id

    def declare(
        self, event: EntityDeclared | EntityRetracted | RelationDeclared | RelationRetracted, message: StageMessage
    ) -> tuple[ReceiptOutcome, Contribution]:
        """Enter a declaration or its retraction."""
        data = event.data
        retraction = isinstance(data, EntityRetraction | RelationRetraction)
        revision, _ = revision_of(data.revision, message)
        rank = Rank(revision, retraction, data_digest(data), event.source, event.id)
        kind, identity = self._identity(data)
        standing = self.declared.get((kind, identity))
        if standing is not None and standing.rank[1:] == rank[1:]:
            return ReceiptOutcome.UNCHANGED, self.declared_contribution(kind, identity)
        if standing is not None and standing.rank > rank:
            return ReceiptOutcome.STALE, self.declared_contribution(kind, identity)
        self.declared[kind, identity] = Declared(rank, data)
        self.entities_version += kind == "entity"
        outcome = ReceiptOutcome.RETRACTED if retraction else ReceiptOutcome.DECLARED
        return outcome, self.declared_contribution(kind, identity)

    def declared_contribution(self, kind: str, identity: str) -> Contribution:
        """Return what a declared thing contributes now."""
        declared = self.declared[kind, identity]
        if isinstance(declared.data, EntityDeclaration):
            return entity_contribution(self.tenant, declared.data, declared.rank.revision)
        if isinstance(declared.data, RelationDeclaration):
            return relation_contribution(self.tenant, declared.data, declared.rank.revision)
        return removal(self.tenant, f"{kind}:{identity}", declared.rank.revision)

    def unit_contribution(self, unit_id: str, gone_at: int) -> Contribution:
        """Return what a unit contributes now."""
        statement = self.live(unit_id)
        if statement is None or statement.unit is None:
            return removal(self.tenant, unit_id_of(unit_id), gone_at)
        return unit_contribution(self.tenant, statement.unit, statement.rank.revision, statement.mentions)

    def forget_contradictions(self, gone: tuple[str, ...]) -> None:
        """Drop pairs of units that are gone."""
        self.contradictions = {
            identity: (pair, at)
            for identity, (pair, at) in self.contradictions.items()
            if not set(pair.units) & set(gone)
        }

    @staticmethod
    def _identity(data: Declaration) -> tuple[str, str]:
        if isinstance(data, EntityDeclaration | EntityRetraction):
            return "entity", data.id
        return "relation", relation_identity(data.source_id, data.relation.value, data.target_id)
