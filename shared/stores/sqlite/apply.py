"""One transaction of the store stage: effects in, receipts and graph contributions out."""

import sqlite3
from collections.abc import Mapping, Sequence

from schemas.events import DocumentCompleted, Event, UnitAsserted, UnitRetracted
from schemas.graph import Contribution
from schemas.messages import MarkerKind, Receipt, ReceiptOutcome, StageMessage
from schemas.positions import Position
from shared.effects import statement_of
from shared.embedder import Vectors
from shared.errors import InvalidInput, ModelChanged
from shared.store import STORED, Applied, Effect
from shared.stores.sqlite import declarations, ledger, schema
from shared.stores.sqlite.documents import Documents
from shared.stores.sqlite.index import Index
from shared.stores.sqlite.units import Units


def apply_effects(connection: sqlite3.Connection, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
    """Enter effects in order and move the watermark. The caller holds the transaction."""
    index = Index(connection)
    units = Units(connection, tenant, index)
    batch = _Batch(connection, tenant, index, units, Documents(connection, index, units))
    applied = [batch.enter(effect) for effect in effects]
    index.finish()
    ledger.note(connection, effects, applied)
    for position in _furthest(effects):
        move_watermark(connection, STORED, position)
    connection.execute("DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?", (schema.CHANGES_KEPT,))
    return applied


def replace_vectors(connection: sqlite3.Connection, model: str, vectors: Mapping[str, Vectors]) -> int:
    """Keep vectors of texts in place of older ones, and tell readers. The caller holds the transaction."""
    index = Index(connection)
    kept = index.replace_vectors(model, vectors)
    index.finish()
    return kept


def move_watermark(connection: sqlite3.Connection, stage: str, position: Position) -> None:
    """Move a stage's watermark of a partition up to a position; never back."""
    connection.execute(
        "INSERT INTO watermark VALUES (?, ?, ?, ?) ON CONFLICT (stage, topic, partition) "
        "DO UPDATE SET number = max(number, excluded.number)",
        (stage, position.topic, position.partition, position.number),
    )


def _furthest(effects: Sequence[Effect]) -> list[Position]:
    """Return the last position of each partition."""
    furthest: dict[tuple[str, int], Position] = {}
    for position in sorted((effect.message.position for effect in effects), key=lambda position: position.number):
        furthest[position.topic, position.partition] = position
    return list(furthest.values())


class _Batch:
    def __init__(
        self, connection: sqlite3.Connection, tenant: str, index: Index, units: Units, documents: Documents
    ) -> None:
        self._connection = connection
        self._tenant = tenant
        self._index = index
        self._units = units
        self._documents = documents

    def enter(self, effect: Effect) -> Applied:
        self._units.begin()
        event, message = effect.event, effect.message
        if event is None:
            moved = message.marker is not None and message.marker.kind is MarkerKind.MOVED
            return self._applied(message, ReceiptOutcome.MOVED if moved else ReceiptOutcome.DEAD)
        if event.tenant != self._tenant:
            raise InvalidInput(f"an event of tenant {event.tenant!r} was handed to the store of {self._tenant!r}")
        if isinstance(event, UnitAsserted):
            return self._assert_unit(effect, event)
        if isinstance(event, UnitRetracted):
            return self._retract_unit(message, event)
        if isinstance(event, DocumentCompleted):
            turned = self._documents.complete(event)
            kept = self._units.same(turned.live)
            return self._applied(message, turned.outcome, turned.live, turned.gone, turned.revision, kept=kept)
        return self._declare(message, event)

    def _assert_unit(self, effect: Effect, event: UnitAsserted) -> Applied:
        message = effect.message
        statement = statement_of(self._tenant, message, event)
        kept: tuple[str, ...] = ()
        if statement.document_id is not None:
            turned = self._documents.enter_part(statement)
            outcome, live, gone = turned.outcome, turned.live, turned.gone
            kept = self._units.same(live)
        else:
            outcome = self._units.enter(statement)
            live = (statement.unit_id,) if self._settled(outcome, statement.unit_id) else ()
            gone = ()
        if outcome is not ReceiptOutcome.STALE:
            self._keep_vectors(effect, statement.content_key)
        return self._applied(message, outcome, live, gone, statement.rank.revision, kept=kept)

    def _keep_vectors(self, effect: Effect, content_key: str | None) -> None:
        """Keep what searches use and what is built beside it. Raises ModelChanged where the former is not there."""
        embedding = effect.message.embedding
        if effect.vectors is None or embedding is None:
            return
        assert content_key is not None  # assertions have a text
        found = {embedding.model: effect.vectors, **effect.beside}
        if not self._index.is_searched_by(found):
            raise ModelChanged(f"{sorted(found)} do not include the model that is searched now")
        for model, vectors in found.items():
            self._index.keep_vectors(content_key, model, vectors)

    def _retract_unit(self, message: StageMessage, event: UnitRetracted) -> Applied:
        statement = statement_of(self._tenant, message, event)
        was = self._units.is_live(statement.unit_id)
        outcome = self._units.enter(statement)
        live = self._units.is_live(statement.unit_id)
        told_again = outcome is ReceiptOutcome.UNCHANGED
        gone = (statement.unit_id,) if outcome is not ReceiptOutcome.STALE and not live and (was or told_again) else ()
        return self._applied(message, outcome, (), gone, statement.rank.revision)

    def _settled(self, outcome: ReceiptOutcome, unit_id: str) -> bool:
        return outcome in (ReceiptOutcome.STORED, ReceiptOutcome.UNCHANGED) and self._units.is_live(unit_id)

    def _declare(self, message: StageMessage, event: Event) -> Applied:
        assert not isinstance(event, UnitAsserted | UnitRetracted | DocumentCompleted)  # entered elsewhere
        outcome, contributions = declarations.declare(self._connection, self._tenant, event, message)
        return Applied(self._receipt(message, outcome), tuple(contributions))

    def _applied(
        self,
        message: StageMessage,
        outcome: ReceiptOutcome,
        live: Sequence[str] = (),
        gone: Sequence[str] = (),
        revision: int = 0,
        *,
        kept: tuple[str, ...] = (),
    ) -> Applied:
        contributions: list[Contribution] = [self._units.contribution(unit_id, revision) for unit_id in (*live, *gone)]
        return Applied(self._receipt(message, outcome, live, gone, kept), tuple(contributions))

    def _receipt(
        self,
        message: StageMessage,
        outcome: ReceiptOutcome,
        live: Sequence[str] = (),
        gone: Sequence[str] = (),
        kept: tuple[str, ...] = (),
    ) -> Receipt:
        return Receipt(
            position=message.position,
            recorded_at=message.recorded_at,
            tenant=self._tenant,
            event_id=message.event_id,
            event_source=message.event_source,
            outcome=outcome,
            units=tuple(live),
            retracted=tuple(gone),
            scopes=self._units.scopes(live),
            before=self._units.before((*live, *gone)),
            kept=kept,
        )
