"""The part of a tenant's state that a batch of effects touches: read from records, and what of it must be written."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import orjson

from schemas.entities import EntityDeclaration, EntityRetraction
from schemas.events import DocumentCompleted, UnitAsserted, UnitRetracted
from schemas.units import Unit
from shared.contributions import relation_identity
from shared.effects import Statement
from shared.store import Effect
from shared.stores.memory_state import Declaration, Document, TenantState
from shared.stores.weaviate import records
from shared.stores.weaviate.models import MODELS_KEY, Models, models_from
from shared.stores.weaviate.records import (
    COMPLETION,
    DOCUMENT,
    ENTITY,
    NAME_ONLY,
    PAST,
    RELATION,
    STANDING,
    STATEMENT,
    Record,
)
from shared.stores.weaviate.table import Table
from shared.together import both

_SAID = (STATEMENT, COMPLETION, DOCUMENT, ENTITY, RELATION)


@dataclass
class Touched:
    """What a batch is about, by id. ``again``: units whose relations are to be looked at even where the units agree, and so
    are those of the documents that are ``completed``. ``late``: units that only their time has brought here. ``events``:
    (event id, source). ``news``: units that are stated, each with its content key.
    """

    units: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    declared: set[tuple[str, str]] = field(default_factory=set)
    events: set[tuple[str, str]] = field(default_factory=set)
    news: list[tuple[Unit, str | None]] = field(default_factory=list)


def touched_by(effects: Iterable[Effect]) -> Touched:
    """Return what effects are about."""
    touched = Touched()
    for effect in effects:
        event, message = effect.event, effect.message
        if message.event_id is not None and message.event_source is not None:
            touched.events.add((message.event_id, message.event_source))
        if isinstance(event, UnitAsserted | UnitRetracted):
            touched.units.add(event.data.id)
            touched.again.add(event.data.id)
            if isinstance(event, UnitAsserted):
                touched.news.append((event.data, message.embedding.content_key if message.embedding else None))
                if event.data.document_id is not None:
                    touched.documents.add(event.data.document_id)
        elif isinstance(event, DocumentCompleted):
            touched.documents.add(event.data.id)
            touched.completed.add(event.data.id)
        elif event is not None:
            touched.declared.add(identity_of(event.data))
    return touched


def identity_of(data: Declaration) -> tuple[str, str]:
    """Return what kind of thing a declaration is about, and which."""
    if isinstance(data, EntityDeclaration | EntityRetraction):
        return ENTITY, data.id
    return RELATION, relation_identity(data.source_id, data.relation.value, data.target_id)


@dataclass
class Fragment:
    """``state`` is complete for the ``units`` and whatever decides on them; ``held``: the records it was read from, and
    ``keys`` those by which they were found. ``models``: as they were then.
    """

    tenant: str
    state: TenantState
    units: set[str]
    held: dict[UUID, Record]
    keys: set[str]
    models: Models

    def wanted(self) -> dict[UUID, Record]:
        """Return the records that the state is now made of, without vectors."""
        found = [*self._statements(), *self._documents()]
        found += [
            records.declared_record(self.tenant, kind, identity, declared)
            for (kind, identity), declared in self.state.declared.items()
        ]
        return {record.id: record for record in found}

    def _statements(self) -> Iterable[Record]:
        for unit_id, said in self.state.said.items():
            own = self.state.own(unit_id)
            for place, statement in enumerate(own):
                yield records.statement_record(self.tenant, statement, STANDING if place == 0 else PAST)
            kept = {statement.rank for statement in own}
            for statement in said.values():
                # A revision that the producer gave tells a redelivery as old; one taken from the position would not.
                if statement.rank not in kept and not statement.explicit:
                    yield records.statement_record(self.tenant, statement, NAME_ONLY)

    def _documents(self) -> Iterable[Record]:
        for document_id, document in self.state.documents.items():
            for part in document.parts.values():
                yield records.statement_record(self.tenant, part, STANDING)
            for rank, data in document.completions.values():
                yield records.completion_record(self.tenant, rank, data)
            if document.current is not None:
                rank, data = document.current
                yield records.document_record(self.tenant, document_id, rank, data.parts, document.departed)


async def load(table: Table, tenant: str, touched: Touched, parts: Callable[[], Awaitable[set[str]]]) -> Fragment:
    """Read what decides on the touched units, documents and declarations, and nothing else.

    A document decides on all units that are parts of it, and a unit may be a part of several documents. ``parts`` tells
    which units are still there as parts of the documents.
    """
    keys = {records.unit_key(unit_id) for unit_id in touched.units}
    keys |= {records.document_key(document_id) for document_id in touched.documents}
    keys |= {records.declared_key(kind, identity) for kind, identity in touched.declared}
    events = {records.event_id(tenant, name, source) for name, source in touched.events}
    found, there = await both(
        lambda: _records(table, {*keys, MODELS_KEY, *(records.event_key(name) for name, _ in touched.events)}), parts
    )
    held = said_in(found)
    units, documents = touched.units | there, set(touched.documents)
    units |= {said.unit_id for said in _statements(held) if said.document_id in documents}
    if more := {records.unit_key(unit_id) for unit_id in units} - keys:
        held |= said_in(await _records(table, more))
        keys |= more
    others = {said.document_id for said in _statements(held) if said.document_id is not None} - documents
    if more := {records.document_key(document_id) for document_id in others if document_id}:
        held |= said_in(await _records(table, more))
        keys |= more
    state = state_of(tenant, held.values())
    for record in found.values():
        if record.id in events:
            known = records.event_from(record.body)
            state.events[known.event_id, known.source] = known
    of_models = found.get(records.models_id(tenant))
    return Fragment(tenant, state, units, held, keys, models_from(of_models.body if of_models else None))


def begun(fragment: Fragment, effects: Iterable[Effect]) -> set[UUID]:
    """Return the records of effects that were begun and not finished: they are there, and the ledger has not their event.

    ``fragment``: as it was read, before the effects were entered.
    """
    named = [(effect.message.event_id, effect.message.event_source) for effect in effects]
    unfinished = {(source, name) for name, source in named if (name, source) not in fragment.state.events}
    return {identity for identity, record in fragment.held.items() if _said_by(record) in unfinished}


def _said_by(record: Record) -> tuple[str, str]:
    """Return the source and id of the event that a record keeps."""
    _, _, _, source, name = orjson.loads(record.body)["rank"]
    return source, name


async def is_unchanged(table: Table, fragment: Fragment, expected: Mapping[UUID, Record]) -> bool:
    """Tell whether the records that decide are those that are expected, and the models those of the fragment."""
    found = await table.fetch_any("keys", {*fragment.keys, MODELS_KEY}, ("kind", "past", "models", "body"))
    said = {one.id: one.properties for one in found}
    of_models = records.models_id(fragment.tenant)
    body = said[of_models]["body"] if of_models in said else None
    if fragment.models != models_from(body):
        return False
    now = {identity: one for identity, one in said.items() if one["kind"] in _SAID}
    return now.keys() == expected.keys() and all(
        (one["body"] or "", int(one["past"] or 0), tuple(one["models"] or ()))
        == (expected[identity].body, expected[identity].past, expected[identity].models)
        for identity, one in now.items()
    )


def said_in(found: Mapping[UUID, Record]) -> dict[UUID, Record]:
    """Return the records among those found of which a state is made."""
    return {identity: record for identity, record in found.items() if record.kind in _SAID}


def state_of(tenant: str, said: Iterable[Record]) -> TenantState:
    """Fold records into the state that they make, in whatever order they come."""
    state = TenantState(tenant)
    turned: list[Record] = []
    for record in said:
        if record.kind == STATEMENT:
            _enter(state, records.statement_from(record.body))
        elif record.kind == COMPLETION:
            _complete(state, record)
        elif record.kind == DOCUMENT:
            turned.append(record)
        elif record.kind in {ENTITY, RELATION}:
            _declare(state, record)
    for document in state.documents.values():
        document.settle()
    for record in turned:
        document_id, rank, units = records.departed_from(record.body)
        standing = state.documents.get(document_id)
        if standing is not None and standing.current is not None and standing.current[0] == rank:
            standing.departed = units
    return state


def _complete(state: TenantState, record: Record) -> None:
    rank, data = records.completion_from(record.body)
    completions = state.documents.setdefault(data.id, Document()).completions
    key = (data.revision, rank.digest)
    if key not in completions or rank > completions[key][0]:
        completions[key] = (rank, data)


def _declare(state: TenantState, record: Record) -> None:
    identity, declared = records.declared_from(record.body)
    standing = state.declared.get((record.kind, identity))
    if standing is None or declared.rank > standing.rank:
        state.declared[record.kind, identity] = declared


def _enter(state: TenantState, said: Statement) -> None:
    if said.unit is None or said.unit.document_id is None:
        own = state.said.setdefault(said.unit_id, {})
        again = own.get(said.rank[1:])
        # the same event at two places: the earliest counts
        if again is None or said.rank.revision < again.rank.revision or said.is_earlier(again):
            own[said.rank[1:]] = said
        return
    assert said.unit.part is not None  # a part of a document has a number
    parts = state.documents.setdefault(said.unit.document_id, Document()).parts
    key = (said.rank.revision, said.unit.part, said.unit.text)
    if key not in parts or said.rank > parts[key].rank:
        parts[key] = said


def _statements(held: dict[UUID, Record]) -> Sequence[Statement]:
    return [records.statement_from(record.body) for record in held.values() if record.kind == STATEMENT]


async def _records(table: Table, keys: set[str]) -> dict[UUID, Record]:
    found = await table.fetch_any("keys", keys, records.WHOLE)
    return {one.id: records.record_of(one) for one in found}
