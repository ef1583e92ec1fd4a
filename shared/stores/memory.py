"""The knowledge store in memory: both protocols, small and slow, and the specification of every other store."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import numpy as np

from schemas.commands import Job
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.events import DocumentCompleted, UnitAsserted, UnitRetracted
from schemas.graph import Contribution
from schemas.messages import MarkerKind, Receipt, ReceiptOutcome, StageMessage
from schemas.positions import Position
from shared.clock import Clock, SystemClock
from shared.effects import Statement, digest_rows, model_json, resolution_row, statement_of
from shared.embedder import Vectors
from shared.errors import InvalidInput
from shared.store import CONTRADICTIONS, STORED, Applied, Effect, FoundContradiction, KnownEvent, StoredContradiction
from shared.stores.memory_state import Outcome, TenantState
from shared.stores.memory_view import Contents, MemorySnapshot


class MemoryStore:
    """Reader and writer in one. State is a plain function of all that was ever said, computed when it is asked for."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tenants: dict[str, TenantState] = {}
        self._views: dict[str, Contents] = {}

    @asynccontextmanager
    async def snapshot(self, tenant: str) -> AsyncIterator[MemorySnapshot]:
        """Open a consistent view."""
        yield self._snapshot(tenant)

    async def tenants(self) -> list[str]:
        """Return the tenants that have something, by name."""
        return sorted(self._tenants)

    async def ping(self) -> None:
        """Memory always answers."""

    async def close(self) -> None:
        """Nothing is held open."""

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects part of the state: all, or none where one raises."""
        for effect in effects:
            if effect.event is not None and effect.event.tenant != tenant:
                raise InvalidInput(f"an event of tenant {effect.event.tenant!r} was handed to the store of {tenant!r}")
        state = self._tenants.get(tenant) or TenantState(tenant)
        applied = [_enter(state, effect) for effect in effects]
        for effect, one in zip(effects, applied, strict=True):
            _move(state, STORED, effect.message.position)
            _note(state, effect, one)
        counted = state.counted_texts()
        state.vectors = {key: kept for key, kept in state.vectors.items() if key in counted}
        self._keep(state)
        return applied

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        kept = {key: state.vectors[key] for key in content_keys if key in state.vectors}
        return {key: vectors for key, (name, vectors) in kept.items() if name == model}

    async def record_contradictions(
        self,
        tenant: str,
        position: Position,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Replace what is kept for the checked units, and move the watermark."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        before = {
            (identity, pair.revisions): at
            for identity, (pair, at) in state.contradictions.items()
            if set(pair.units) & set(checked)
        }
        for identity, _ in before:
            del state.contradictions[identity]
        for pair in found:
            state.contradictions[pair.id] = (pair, min(before.get((pair.id, pair.revisions), recorded_at), recorded_at))
        _move(state, CONTRADICTIONS, position)
        self._keep(state)
        new = {pair.id for pair in found if (pair.id, pair.revisions) not in before}
        kept = await self._snapshot(tenant).contradictions(open_only=False, limit=-1)
        return [pair for pair in kept if pair.found.id in new]

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        state.jobs[job.id] = job
        self._keep(state)

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        declared = [state.declared_contribution(kind, identity) for kind, identity in sorted(state.declared)]
        units = [state.unit_contribution(unit_id, 0) for unit_id in sorted(state.all_live())]
        return [contribution for contribution in (*declared, *units) if not contribution.removed]

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the digests of the tenant's state."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        standing = self._snapshot(tenant).standing_contradictions()
        live = state.all_live()
        rows: dict[str, list[object]] = {
            "units": [
                [said.rank.source, said.rank.event_id, model_json(said.unit)]
                for said in live.values()
                if said.unit is not None
            ],
            "tombstones": [
                [unit_id, own[0].rank.revision if own[0].explicit else None]
                for unit_id in state.said
                if (own := state.own(unit_id)) and own[0].rank.retraction
            ],
            "documents": _document_rows(state),
            "mentions": [
                [unit_id, resolution_row(said.mentions, said.claims)]
                for unit_id, said in live.items()
                if said.mentions or said.claims
            ],
            "entities": _declared_rows(state, "entity"),
            "relations": _declared_rows(state, "relation"),
            "contradictions": [[pair.id, pair.difference, pair.detail, pair.attribute] for pair in standing],
        }
        return {part: digest_rows(of_part) for part, of_part in rows.items()}

    def _keep(self, state: TenantState) -> None:
        self._tenants[state.tenant] = state
        self._views.pop(state.tenant, None)

    def _snapshot(self, tenant: str) -> MemorySnapshot:
        if tenant not in self._views:
            self._views[tenant] = _contents(self._tenants.get(tenant) or TenantState(tenant))
        return MemorySnapshot(self._views[tenant], self._clock.now())


def _enter(state: TenantState, effect: Effect) -> Applied:
    before = state.standing(effect.event)
    applied = _entered(state, effect)
    receipt = applied.receipt
    now = {unit_id: said for unit_id in receipt.units if (said := state.live(unit_id))}
    moved = {
        unit_id: was
        for unit_id in (*receipt.units, *receipt.retracted)
        if (was := before.get(unit_id)) is not None and now.get(unit_id) is not was
    }
    return Applied(
        receipt.model_copy(
            update={
                "scopes": {unit_id: _scope(said) for unit_id, said in now.items()},
                "before": {unit_id: _scope(was) for unit_id, was in moved.items()},
                "kept": tuple(
                    unit_id
                    for unit_id in receipt.units
                    if unit_id in moved and now[unit_id].document_id and _same_text(now[unit_id], moved[unit_id])
                ),
            }
        ),
        applied.contributions,
    )


def _scope(statement: Statement) -> str:
    assert statement.unit is not None  # what is or was live has a body
    return statement.unit.scope.key


def _same_text(one: Statement, other: Statement) -> bool:
    return one.content_key == other.content_key  # a content key holds the scope


def _entered(state: TenantState, effect: Effect) -> Applied:
    event, message = effect.event, effect.message
    if event is None:
        redelivered = message.marker is not None and message.marker.kind is MarkerKind.REDELIVERED
        return _applied(state, message, (ReceiptOutcome.UNCHANGED if redelivered else ReceiptOutcome.DEAD, (), (), 0))
    if isinstance(event, UnitRetracted):
        return _applied(state, message, state.enter_unit(statement_of(state.tenant, message, event)))
    if isinstance(event, DocumentCompleted):
        return _applied(state, message, state.complete(event.data, event.source, event.id))
    if isinstance(event, UnitAsserted):
        statement = statement_of(state.tenant, message, event)
        outcome = state.enter_part(statement) if statement.document_id else state.enter_unit(statement)
        if outcome[0] is not ReceiptOutcome.STALE and effect.vectors is not None and message.embedding is not None:
            assert statement.content_key is not None  # assertions have a text
            kept = state.vectors.get(statement.content_key)
            if kept is None or kept[0] != message.embedding.model:
                matrix = np.atleast_2d(effect.vectors).astype(np.float32)
                state.vectors[statement.content_key] = (message.embedding.model, matrix)
        return _applied(state, message, outcome)
    declared, contribution = state.declare(event, message)
    return Applied(_receipt(state, message, declared), (contribution,))


def _applied(state: TenantState, message: StageMessage, outcome: Outcome) -> Applied:
    result, live, gone, revision = outcome
    state.forget_contradictions(gone)
    contributions = tuple(state.unit_contribution(unit_id, revision) for unit_id in (*live, *gone))
    return Applied(_receipt(state, message, result, live, gone), contributions)


def _receipt(
    state: TenantState,
    message: StageMessage,
    outcome: ReceiptOutcome,
    live: tuple[str, ...] = (),
    gone: tuple[str, ...] = (),
) -> Receipt:
    return Receipt(
        position=message.position,
        recorded_at=message.recorded_at,
        tenant=state.tenant,
        event_id=message.event_id,
        event_source=message.event_source,
        outcome=outcome,
        units=live,
        retracted=gone,
    )


def _move(state: TenantState, stage: str, position: Position) -> None:
    key = (stage, position.topic, position.partition)
    state.watermarks[key] = max(state.watermarks.get(key, position.number), position.number)


def _note(state: TenantState, effect: Effect, applied: Applied) -> None:
    message, receipt = effect.message, applied.receipt
    if message.event_id is None or message.event_source is None:
        return
    known = state.events.get((message.event_id, message.event_source))
    again = receipt.outcome in (ReceiptOutcome.UNCHANGED, ReceiptOutcome.DEAD)
    if known is not None and known.outcome is not ReceiptOutcome.DEAD and (again or known.position != message.position):
        return
    state.events[message.event_id, message.event_source] = KnownEvent(
        source=message.event_source,
        event_id=message.event_id,
        position=message.position,
        recorded_at=message.recorded_at,
        outcome=receipt.outcome,
        units=(*receipt.units, *receipt.retracted),
    )


def _contents(state: TenantState) -> Contents:
    history = {
        unit_id: tuple(statement for statement in state.own(unit_id)[1:] if not statement.rank.retraction)
        for unit_id in state.said
    }
    return Contents(
        live=state.all_live(),
        history=history,
        vectors=dict(state.vectors),
        declared=tuple(
            item.data
            for item in state.declared.values()
            if isinstance(item.data, EntityDeclaration | RelationDeclaration)
        ),
        entities_version=state.entities_version,
        documents=sum(1 for document in state.documents.values() if document.current and document.current[1].parts),
        contradictions=dict(state.contradictions),
        watermarks=dict(state.watermarks),
        events=dict(state.events),
        jobs=dict(state.jobs),
    )


def _document_rows(state: TenantState) -> list[object]:
    rows: list[object] = []
    for document_id, document in state.documents.items():
        if document.current is not None:
            rank, completion = document.current
            rows.append(["current", document_id, rank.revision, completion.parts, rank.digest])
        rows += [["completion", document_id, rank.revision, rank.digest] for rank, _ in document.completions.values()]
        rows += [
            ["waiting", document_id, revision, part, statement.rank.digest]
            for (revision, part, _), statement in document.parts.items()
            if statement not in document.active
        ]
    return rows


def _declared_rows(state: TenantState, kind: str) -> list[object]:
    return [
        [identity, int(item.rank.retraction), None if item.rank.retraction else model_json(item.data)]
        for (name, identity), item in state.declared.items()
        if name == kind
    ]
