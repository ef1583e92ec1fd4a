"""What the store in memory writes fingerprints of: plain functions of a tenant's state."""

from collections.abc import Iterator

from shared import fingerprints
from shared.effects import model_json
from shared.fingerprints import Identified
from shared.stores.memory_state import TenantState


def values_in(state: TenantState, part: str) -> Iterator[Identified]:
    """Yield the values of a part; contradictions are not among them, for which of them stand is the view's to say."""
    if part == "units":
        yield from _units(state)
    elif part == "history":
        yield from _history(state)
    elif part == "tombstones":
        yield from _tombstones(state)
    elif part == "documents":
        yield from _documents(state)
    elif part == "mentions":
        yield from _mentions(state)
    elif part in ("entities", "relations"):
        yield from _declared(state, {"entities": "entity", "relations": "relation"}[part])
    else:
        raise KeyError(part)


def _units(state: TenantState) -> Iterator[Identified]:
    for unit_id, said in state.all_live().items():
        assert said.unit is not None  # what is live has a body
        yield fingerprints.live_unit(unit_id, said.rank.source, said.rank.event_id, model_json(said.unit))


def _history(state: TenantState) -> Iterator[Identified]:
    for unit_id in state.said:
        older = state.own(unit_id)[1:]
        if older:
            statements = [(said.rank, said.explicit, model_json(said.unit) if said.unit else None) for said in older]
            yield fingerprints.past(unit_id, statements)


def _tombstones(state: TenantState) -> Iterator[Identified]:
    for unit_id in state.said:
        best = next(iter(state.own(unit_id)), None)
        if best is not None and best.rank.retraction:
            yield fingerprints.tombstone(unit_id, best.rank.revision, explicit=best.explicit)


def _documents(state: TenantState) -> Iterator[Identified]:
    for document_id, document in state.documents.items():
        if document.current is not None:
            rank, current = document.current
            yield fingerprints.standing(document_id, rank.revision, current.parts, rank.digest)
        for rank, _ in document.completions.values():
            yield fingerprints.completion(document_id, rank.revision, rank.digest)
        for (revision, part, _), statement in document.parts.items():
            if statement not in document.active:
                yield fingerprints.waiting(document_id, revision, part, statement.rank.digest)


def _mentions(state: TenantState) -> Iterator[Identified]:
    for unit_id, said in state.all_live().items():
        if said.mentions or said.claims:
            yield fingerprints.resolved(unit_id, said.mentions, said.claims)


def _declared(state: TenantState, kind: str) -> Iterator[Identified]:
    for (name, identity), item in state.declared.items():
        if name == kind:
            yield fingerprints.declaration(identity, None if item.rank.retraction else model_json(item.data))
