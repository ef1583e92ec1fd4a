"""Units, hits and results made up for the tests of the question's path."""

from datetime import UTC, datetime

from query.fuse import Candidate
from schemas.answers import KnownUnit, Result, ScoreTerm, UnitState
from schemas.times import Moment
from schemas.units import Origin, Scope, Sensitivity, Unit, UnitType
from shared.store import PassageHit, StoredUnit

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def stored(unit_id="u1", text="The cache is flushed at noon.", *, scope="team/platform", passage=1, **given):
    """Return a stored unit; keywords of the unit's state are told apart by name."""
    state = {key: given.pop(key) for key in ("corroborations", "superseded_by", "held_until", "source") if key in given}
    unit = Unit(
        id=unit_id,
        text=text,
        type=given.pop("type", UnitType.CONTEXT),
        scope=Scope.parse(scope),
        origin=given.pop("origin", Origin()),
        **given,
    )
    known = UnitState(
        recorded_at=NOW,
        position="p",
        revision=1,
        event_id=f"e-{unit_id}",
        content_key="0" * 32,
        **{"source": "test", "corroborations": 1, **state},
    )
    return StoredUnit(KnownUnit(unit=unit, state=known), passage)


def hits(*passages):
    """Return hits in the given order, each of one unit named after its passage."""
    return [PassageHit(passage, 1.0 / place, (f"u{passage}",)) for place, passage in enumerate(passages, start=1)]


def candidate(unit_id="u1", text="The cache is flushed at noon.", *, similarity=0.5, passage=1, **given):
    """Return a candidate that one arm ranked first."""
    unit = stored(unit_id, text, passage=passage, **given)
    return Candidate(
        passage_id=passage,
        unit=unit,
        arms={"keyword": 1},
        terms=(ScoreTerm(name="rrf.keyword", value=1 / 11),),
        similarity=similarity,
        sources=frozenset({unit.known.state.source}),
        corroborations=unit.known.state.corroborations,
    )


def result(rank=1, text="The cache is flushed at noon.", **given):
    """Return a result of that rank."""
    fields = {
        "unit_id": f"u{rank}",
        "type": UnitType.CONTEXT,
        "scope": "team/platform",
        "sensitivity": Sensitivity.INTERNAL,
        "trusted": True,
        "score": 1.0 / rank,
        "recorded_at": NOW,
        "source": "wiki",
        "occurred_at": Moment.model_validate("2026-02-01"),
        **given,
    }
    return Result(rank=rank, citation=f"[{rank}]", text=text, **fields)
