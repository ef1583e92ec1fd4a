"""An event's way: over the log and the stages into the store, and who may read what it left there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from query.visible import readable_scopes
from schemas.answers import KnownUnit
from schemas.entities import EntityType, Relation
from schemas.events import (
    DocumentCompleted,
    EntityDeclared,
    EntityRetracted,
    Event,
    RelationDeclared,
    RelationRetracted,
    UnitAsserted,
    UnitRetracted,
)
from schemas.explanations import Trace, TracedLetter, TracedUnit, TraceStep
from schemas.positions import PartitionWatermark
from schemas.status import DeadLetter, EventState, LetterState
from schemas.units import Scope
from shared.log import LogRecord
from shared.memberships import LEVELS, readers
from shared.store import CONTRADICTIONS, Snapshot

STAGES: Final = ("embed", "resolve", "store", CONTRADICTIONS)
READERS_SHOWN: Final = 100

Place = tuple[str, int]


@dataclass(frozen=True)
class Progress:
    """How far an event's partition is: the watermarks of both stages that keep one, and what waits. Numbers; -1: none."""

    stored: int
    checked: int
    lag: int

    @classmethod
    def read(
        cls, place: Place, stored: Mapping[Place, int], checked: Mapping[Place, int], lags: Mapping[Place, int]
    ) -> "Progress":
        """Take one partition's."""
        return cls(stored.get(place, -1), checked.get(place, -1), lags.get(place, 0))


@dataclass(frozen=True)
class Onlooker:
    """Who asks for the trace: a principal (None: reads the whole tenant), and whether as an administrator."""

    principal: str | None
    is_admin: bool

    async def may_read(self, snapshot: Snapshot, scopes: frozenset[str]) -> bool:
        """Whether what lies in all of these scopes may be shown."""
        if self.is_admin or self.principal is None or not scopes:
            return True
        return scopes <= await readable_scopes(snapshot, self.principal)


def stage_steps(number: int, progress: Progress, letter: DeadLetter | None) -> tuple[TraceStep, ...]:
    """Say for each stage whether an event has passed it. Nothing follows the stage at which it died."""
    steps: list[TraceStep] = []
    for stage in STAGES:
        if letter is not None and letter.stage == stage:
            replayed = f"; {letter.resolved_by} has it replayed" if letter.state is LetterState.REPLAYED else ""
            died = f"{letter.cause} after {letter.attempts} attempts: {letter.detail}{replayed}"
            steps.append(TraceStep(step=stage, outcome="failed", detail=died, at=letter.failed_at))
            break
        mark = progress.checked if stage == CONTRADICTIONS else progress.stored
        if mark >= number:
            words = f"the partition's watermark is {mark}" if stage in {"store", CONTRADICTIONS} else "passed"
            steps.append(TraceStep(step=stage, outcome="done", detail=words))
        else:
            words = f"the watermark is {mark}, the event is number {number}; {progress.lag} events wait to be stored"
            steps.append(TraceStep(step=stage, outcome="waiting", detail=words))
    return tuple(steps)


@dataclass(frozen=True)
class Way:
    """What is known of an event outside the store: its record, what it says, its dead letter, and its partition."""

    record: LogRecord
    event: Event
    letter: DeadLetter | None
    progress: Progress
    state: EventState

    @property
    def is_stored(self) -> bool:
        """Whether its effect is in the store."""
        return self.state not in {"pending", "retrying", "failed"}

    @property
    def failure(self) -> DeadLetter | None:
        """Its letter, as long as nothing has come of the event since."""
        return None if self.is_stored else self.letter


async def trace(way: Way, snapshot: Snapshot, onlooker: Onlooker, now: datetime) -> Trace:
    """Put an event's way together. What lies in a scope that the onlooker may not read is withheld, and said to be."""
    record, event, letter, progress, stored = way.record, way.event, way.letter, way.progress, way.is_stored
    place = record.position
    accepted = f"{place.topic}, partition {place.partition}, number {place.number}"
    steps: list[TraceStep] = [
        TraceStep(step="log", outcome="done", detail=accepted, at=record.recorded_at),
        *stage_steps(place.number, progress, way.failure),
    ]
    unit: TracedUnit | None = None
    names: Sequence[str] = ()
    count: int | None = None
    if isinstance(event, UnitAsserted | UnitRetracted):
        unit, scopes = await _unit(event, snapshot, now, stored=stored)
        scope = unit.scope
        if not await onlooker.may_read(snapshot, scopes):
            unit = None
            words = "it lies in a scope that you may not read"
            steps.append(TraceStep(step="knowledge", outcome="withheld", detail=words))
        else:
            unit = await _seen(unit, snapshot, onlooker)
            done = "done" if stored else "waiting"
            steps.append(TraceStep(step="knowledge", outcome=done, detail=_words(unit)))
            if scope is not None:
                names = await _readers(snapshot, Scope.parse(scope), now)
                count = len(names)
                steps.append(TraceStep(step="rights", outcome="done", detail=_rights(scope, names)))
    else:
        done = "done" if stored else "waiting"
        steps.append(TraceStep(step="knowledge", outcome=done, detail=await _declared(event, snapshot)))
    return Trace(
        id=record.event_id,
        source=record.source,
        tenant=record.tenant,
        type=str(event.type),
        state=way.state,
        token=place.token(),
        steps=tuple(steps),
        watermarks=(
            PartitionWatermark(topic=place.topic, partition=place.partition, number=progress.stored, lag=progress.lag),
        ),
        letter=None if letter is None else TracedLetter.model_validate(letter.model_dump(exclude={"body", "headers"})),
        unit=unit,
        readers=tuple(names[:READERS_SHOWN]),
        readers_count=count,
    )


async def _unit(
    event: UnitAsserted | UnitRetracted, snapshot: Snapshot, now: datetime, *, stored: bool
) -> tuple[TracedUnit, frozenset[str]]:
    """Return what stands now, and the scopes that have to be readable for it to be shown: the event's, and where it is."""
    unit_id = event.data.id
    live = (await snapshot.units([unit_id])).get(unit_id)
    said = event.data.scope.key if isinstance(event, UnitAsserted) else None
    if live is not None:
        known = live.known
        scope = known.unit.scope.key
        own = (known.state.event_id, known.state.source) == (event.id, event.source)
        traced = TracedUnit(
            unit_id=unit_id,
            state=_state(known, now) if own else "replaced",
            revision=known.state.revision,
            by_this_event=own,
            scope=scope,
            superseded_by=known.state.superseded_by,
            document_id=known.unit.document_id,
        )
        return traced, frozenset({scope, *([said] if said else [])})
    if said is None:
        older = await snapshot.history(unit_id)
        said = older[0].unit.scope.key if older else None
    document = event.data.document_id if isinstance(event, UnitAsserted) else None
    gone = isinstance(event, UnitRetracted)
    state = "unknown" if not stored else "waiting-for-document" if document else "retracted"
    traced = TracedUnit(
        unit_id=unit_id, state=state, by_this_event=stored and gone, scope=said, document_id=document
    )  # fmt: skip
    return traced, frozenset([said] if said else [])


async def _seen(unit: TracedUnit, snapshot: Snapshot, onlooker: Onlooker) -> TracedUnit:
    """Leave out the name of a unit that supersedes it from where the onlooker cannot look."""
    if unit.superseded_by is None:
        return unit
    newer = (await snapshot.units([unit.superseded_by])).get(unit.superseded_by)
    if newer is not None and await onlooker.may_read(snapshot, frozenset({newer.known.unit.scope.key})):
        return unit
    return unit.model_copy(update={"superseded_by": None})


def _state(known: KnownUnit, now: datetime) -> str:
    if known.state.held_until is None or known.state.held_until > now:
        return "current"
    return "superseded" if known.state.superseded_by else "ended"


def _words(unit: TracedUnit | None) -> str:
    if unit is None or unit.state == "unknown":
        return "nothing is stored yet"
    words = {
        "current": "the unit stands as this event says it",
        "superseded": "the unit stands, but another supersedes it",
        "ended": "the unit stands, but no longer holds",
        "replaced": "another event's statement of this unit stands",
        "retracted": "the unit is withdrawn; its tombstone stays",
        "waiting-for-document": "no live unit: its document has not turned to this revision, or has turned from it",
    }
    return words[unit.state]


async def _declared(event: Event, snapshot: Snapshot) -> str:
    if isinstance(event, EntityDeclared | EntityRetracted):
        _, entities = await snapshot.entities()
        stands = any(entity.id == event.data.id for entity in entities)
        return f"the entity {event.data.id} is {'declared' if stands else 'not declared'} now"
    if isinstance(event, RelationDeclared | RelationRetracted):
        wanted = (event.data.source_id, Relation(event.data.relation), event.data.target_id)
        found = await snapshot.relations(event.data.source_id)
        stands = any((one.source_id, one.relation, one.target_id) == wanted for one in found)
        named = f"{wanted[0]} {wanted[1].value} {wanted[2]}"
        return f"the relation {named} is {'declared' if stands else 'not declared'} now"
    assert isinstance(event, DocumentCompleted)
    return f"document {event.data.id}, revision {event.data.revision} of {event.data.parts} parts"


async def _readers(snapshot: Snapshot, scope: Scope, now: datetime) -> list[str]:
    """Return those who may read the scope, by id, without the teams and departments through which they may."""
    found = readers(scope, await snapshot.relations(), now)
    _, entities = await snapshot.entities()
    scopes = {entity.id for entity in entities if EntityType(entity.type) in LEVELS}
    return sorted(found - scopes)


def _rights(scope: str, names: Sequence[str]) -> str:
    if not names:
        return f"{scope}: nobody belongs to it; only callers that read the whole tenant see it"
    shown = ", ".join(names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{scope}: {shown}{more} may read it"
