"""The knowledge store in memory: both protocols, small and slow, and the specification of every other store."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from schemas.commands import Job
from schemas.entities import EntityDeclaration, RelationDeclaration
from schemas.events import DocumentCompleted, UnitAsserted, UnitRetracted
from schemas.graph import Contribution
from schemas.messages import MarkerKind, Receipt, ReceiptOutcome, StageMessage
from schemas.positions import Position
from shared.clock import Clock, SystemClock
from shared.effects import Statement, statement_of
from shared.embedder import Vectors
from shared.errors import InvalidInput
from shared.fingerprints import PARTS, contradiction, fingerprints_of, part_digest
from shared.jobs_kept import beyond
from shared.passages import stated_text
from shared.store import (
    CONTRADICTIONS,
    STORED,
    Applied,
    Effect,
    FoundContradiction,
    KnownEvent,
    Resolved,
    Resolving,
    StoredContradiction,
)
from shared.stores.memory_again import resolve
from shared.stores.memory_fingerprints import values_in
from shared.stores.memory_state import Outcome, TenantState
from shared.stores.memory_view import Contents, MemorySnapshot
from shared.vector_models import Coverage, KnownModel, Text


class MemoryStore:
    """Reader and writer in one. State is a plain function of all that was ever said, computed when it is asked for."""

    def __init__(self, clock: Clock | None = None, states: Sequence[TenantState] = ()) -> None:
        self._clock = clock or SystemClock()
        self._tenants: dict[str, TenantState] = {state.tenant: state for state in states}
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
        state.vectors.check([_found(effect) for effect in effects if effect.vectors is not None])
        applied = [_enter(state, effect) for effect in effects]
        for effect, one in zip(effects, applied, strict=True):
            _move(state, STORED, effect.message.position)
            _note(state, effect, one)
        state.vectors.retain(state.counted_texts())
        self._keep(state)
        return applied

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        kept = state.vectors.of(model)
        return {key: kept[key] for key in content_keys if key in kept}

    async def models(self, tenant: str) -> list[KnownModel]:
        """Return the tenant's models, the active one first."""
        return self._state(tenant).vectors.models()

    async def add_model(self, tenant: str, model: str, dims: int) -> None:
        """Make a model known, so that its vectors are kept."""
        state = self._state(tenant)
        state.vectors.add_model(model, dims)
        self._keep(state)

    async def coverage(self, tenant: str, model: str) -> Coverage:
        """Return how many texts lack a model's vectors."""
        state = self._state(tenant)
        texts = state.counted_texts()
        return Coverage(len(texts), len(state.vectors.without(model, texts)))

    async def texts_without(self, tenant: str, model: str, limit: int, after: str = "") -> list[Text]:
        """Return texts that lack a model's vectors."""
        state = self._state(tenant)
        texts = state.counted_texts()
        keys = [key for key in state.vectors.without(model, texts) if key > after]
        units = [(key, texts[key].unit) for key in keys[:limit]]
        return [Text(key, stated_text(unit), unit.id) for key, unit in units if unit is not None]

    async def put_vectors(self, tenant: str, model: str, vectors: Mapping[str, Vectors]) -> int:
        """Keep vectors of texts in place of older ones of this model."""
        state = self._state(tenant)
        kept = state.vectors.replace(model, vectors, state.counted_texts())
        self._keep(state)
        return kept

    async def activate_model(self, tenant: str, model: str) -> bool:
        """Let searches use a model, unless a text lacks its vectors."""
        state = self._state(tenant)
        done = state.vectors.activate(model, state.counted_texts())
        self._keep(state)
        return done

    async def drop_model(self, tenant: str, model: str, limit: int) -> int:
        """Forget a model and some of its vectors."""
        state = self._state(tenant)
        gone = state.vectors.drop(model, limit)
        self._keep(state)
        return gone

    async def record_contradictions(
        self,
        tenant: str,
        position: Position | None,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Keep what was found about the checked units, and move the watermark."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        before = {
            (identity, pair.revisions): at
            for identity, (pair, at) in state.contradictions.items()
            if set(pair.units) & set(checked)
        }
        standing = {pair.id for pair in self._snapshot(tenant).standing_contradictions()} if position else set()
        for identity, _ in before:
            if identity not in standing:
                del state.contradictions[identity]
        for pair in found:
            state.contradictions[pair.id] = (pair, min(before.get((pair.id, pair.revisions), recorded_at), recorded_at))
        if position is not None:
            _move(state, CONTRADICTIONS, position)
        self._keep(state)
        new = {pair.id for pair in found if (pair.id, pair.revisions) not in before}
        kept = await self._snapshot(tenant).contradictions(open_only=False, limit=-1)
        return [pair for pair in kept if pair.found.id in new]

    async def resolve_again(self, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
        """Keep what units' texts were resolved to anew, where they have not changed since."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        answers = [resolve(state, one) for one in resolving]
        self._keep(state)
        return answers

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state; where it is over, let go of those beyond what is kept."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        if job.id not in state.jobs or not state.jobs[job.id].finished:
            state.jobs[job.id] = job
        if job.finished:
            for old in beyond(state.jobs.values()):
                del state.jobs[old.id]
        self._keep(state)

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        declared = [state.declared_contribution(kind, identity) for kind, identity in sorted(state.declared)]
        units = [state.unit_contribution(unit_id, 0) for unit_id in sorted(state.all_live())]
        return [contribution for contribution in (*declared, *units) if not contribution.removed]

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the digests of the tenant's state."""
        return {part: part_digest(await self.fingerprints(tenant, part)) for part in PARTS}

    async def fingerprints(self, tenant: str, part: str) -> dict[str, str]:
        """Return the fingerprint of each thing of a part of the tenant's state."""
        state = self._tenants.get(tenant) or TenantState(tenant)
        if part == "contradictions":
            pairs = self._snapshot(tenant).standing_contradictions()
            return fingerprints_of(
                contradiction(pair.id, pair.difference, pair.detail, pair.attribute) for pair in pairs
            )
        return fingerprints_of(values_in(state, part))

    def _state(self, tenant: str) -> TenantState:
        return self._tenants.get(tenant) or TenantState(tenant)

    def _keep(self, state: TenantState) -> None:
        self._tenants[state.tenant] = state
        self._views.pop(state.tenant, None)

    def _snapshot(self, tenant: str) -> MemorySnapshot:
        if tenant not in self._views:
            self._views[tenant] = _contents(self._tenants.get(tenant) or TenantState(tenant))
        return MemorySnapshot(self._views[tenant], self._clock.now())


def _found(effect: Effect) -> dict[str, Vectors]:
    """Return an effect's vectors by model."""
    embedding = effect.message.embedding
    if effect.vectors is None or embedding is None:
        return {}
    return {embedding.model: effect.vectors, **effect.beside}


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
        moved = message.marker is not None and message.marker.kind is MarkerKind.MOVED
        return _applied(state, message, (ReceiptOutcome.MOVED if moved else ReceiptOutcome.DEAD, (), (), 0))
    if isinstance(event, UnitRetracted):
        return _applied(state, message, state.enter_unit(statement_of(state.tenant, message, event)))
    if isinstance(event, DocumentCompleted):
        return _applied(state, message, state.complete(event.data, event.source, event.id))
    if isinstance(event, UnitAsserted):
        statement = statement_of(state.tenant, message, event)
        outcome = state.enter_part(statement) if statement.document_id else state.enter_unit(statement)
        if outcome[0] is not ReceiptOutcome.STALE and effect.vectors is not None and message.embedding is not None:
            assert statement.content_key is not None  # assertions have a text
            state.vectors.keep(statement.content_key, _found(effect))
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
        model=state.vectors.active,
        models=tuple(state.vectors.models()),
        vectors=state.vectors.of(state.vectors.active),
        embedded=frozenset(
            (key, model.name) for model in state.vectors.models() for key in state.vectors.of(model.name)
        ),
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
