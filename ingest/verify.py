"""verify: is what a store knows what the log says? Two stores are compared part by part, while one of them is written.

The second is brought up to the first one's watermarks, then both are fingerprinted. Where the first has moved meanwhile,
that is done again: what is only on its way differs once, what is wrong differs every time. What the log tells anew of during
every look, such as a unit that is stated several times a second, may differ each time and be right: it is counted, not judged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.rebuild import Place, Watermarks
from shared.effects import canonical, model_json
from shared.fingerprints import PARTS, fingerprints_of, part_digest
from shared.store import CONTRADICTIONS, STORED, KnowledgeReader, KnowledgeWriter, Snapshot, StoredUnit

ROUNDS: Final = 5
"""Looks, at most, at a store that is being written; the second one already replays only what came during the first."""
SETTLE_S: Final = 30.0
"""How long a round waits until what is stored is compared too: a check takes milliseconds."""
POLL_S: Final = 0.1
SHOWN: Final = 20
"""Differences that are told with both values; the others are counted."""
VALUE_CHARACTERS: Final = 600
PAGE: Final = 500
STATES: Final = "states"
"""The part beside those of a digest: what the log's own times and places make of a unit."""


@dataclass(frozen=True)
class Side:
    """One of two stores; only looked at."""

    reader: KnowledgeReader
    writer: KnowledgeWriter


@dataclass(frozen=True)
class ComparedPart:
    """A part of the state: how many things the live store has of it, and the digests of both."""

    things: int
    live: str
    rebuilt: str
    differing: int


@dataclass(frozen=True)
class Difference:
    """A thing that differs, and what each side says of it; None: it is not there."""

    part: str
    identity: str
    live: str | None
    rebuilt: str | None


@dataclass(frozen=True)
class Verdict:
    """What came of a comparison. ``settled``: the live store stood still during the last look, so its digests are exact;
    else what differs is what differed in every look. ``moving``: of how many such things the log told anew during each look,
    so that nobody can say whether they are wrong; they count as not differing.
    """

    tenant: str
    rounds: int
    settled: bool
    moving: int
    watermarks: Mapping[Place, int]
    parts: Mapping[str, ComparedPart]
    differences: tuple[Difference, ...]

    @property
    def differing(self) -> int:
        """How many things differ."""
        return sum(part.differing for part in self.parts.values())


_Thing = tuple[str, str]
"""A part, and an identity in it."""


@dataclass(frozen=True)
class _Look:
    """Both sides' fingerprints at one time."""

    live: Mapping[str, Mapping[str, str]]
    rebuilt: Mapping[str, Mapping[str, str]]

    def differing(self) -> set[_Thing]:
        return {
            (part, identity)
            for part, live in self.live.items()
            for identity in live.keys() | self.rebuilt[part].keys()
            if live.get(identity) != self.rebuilt[part].get(identity)
        }


async def verify(
    tenant: str,
    live: Side,
    rebuilt: Side,
    replay: Callable[[Watermarks], Awaitable[Collection[str]]],
    *,
    states: bool = True,
    settle_s: float = SETTLE_S,
) -> Verdict:
    """Compare a store with one that ``replay`` brings up to given watermarks. Raises what both stores and the log do.

    ``replay`` returns what the events that it replayed tell of: ids of units, documents, entities, a relation's source.
    ``states``: also what follows from the log's own times and positions, which two stores of one log must have alike.
    """
    until = await _checked(tenant, live, settle_s)
    await replay(until)
    suspects: set[_Thing] = set()
    judged: set[_Thing] = set()  # differed in a look during which nothing was told of them
    for rounds in range(1, ROUNDS + 1):
        look = await _look(tenant, live, rebuilt, states=states)
        differing = look.differing()
        settled = await _watermarks(tenant, live, STORED) == until
        if settled:
            suspects = judged = differing
            break
        later = await _checked(tenant, live, settle_s)
        told = set(await replay(later))  # whatever the look has seen of what came after ``until``
        suspects = differing if rounds == 1 else suspects & differing
        judged |= {thing for thing in differing if told.isdisjoint(_subjects(*thing))}
        if not suspects or (rounds > 1 and judged.isdisjoint(suspects)):  # what is left is told of all the time
            break
        until = later
    wrong = suspects & judged
    return Verdict(
        tenant=tenant,
        rounds=rounds,
        settled=settled,
        moving=len(suspects - wrong),
        watermarks=until,
        parts={part: _compared(part, look, wrong) for part in look.live},
        differences=await _told(tenant, live, rebuilt, look, sorted(wrong)[:SHOWN]),
    )


def _subjects(part: str, identity: str) -> set[str]:
    """Return the ids under which events tell of a thing of a part (`fingerprints.PARTS` lists the identities)."""
    match part:
        case "contradictions":
            return set(identity.split("~"))
        case "documents":
            return set(identity.split(" ")[1:2])
        case "relations":
            return set(identity.split(" ")[:1])
    return {identity}


async def _look(tenant: str, live: Side, rebuilt: Side, *, states: bool) -> _Look:
    found = [await _fingerprints(tenant, side, states=states) for side in (live, rebuilt)]
    return _Look(*found)


async def _checked(tenant: str, live: Side, settle_s: float) -> Watermarks:
    """Return what is stored, once it has been compared with all else; after ``settle_s`` without waiting further."""
    stored = await _watermarks(tenant, live, STORED)
    deadline = asyncio.get_running_loop().time() + settle_s
    while asyncio.get_running_loop().time() < deadline:
        checked = await _watermarks(tenant, live, CONTRADICTIONS)
        if all(checked.get(place, -1) >= number for place, number in stored.items()):
            break
        await asyncio.sleep(POLL_S)
    return stored


async def _watermarks(tenant: str, side: Side, stage: str) -> Watermarks:
    async with side.reader.snapshot(tenant) as snapshot:
        return await snapshot.watermarks(stage)


async def _fingerprints(tenant: str, side: Side, *, states: bool) -> dict[str, dict[str, str]]:
    found = {part: await side.writer.fingerprints(tenant, part) for part in PARTS}
    if states:
        found[STATES] = await _states(tenant, side, sorted(found["units"]))
    return found


async def _states(tenant: str, side: Side, unit_ids: list[str]) -> dict[str, str]:
    """Fingerprint what the store has derived of each unit from where and when its events stand in the log."""
    states: dict[str, str] = {}
    for start in range(0, len(unit_ids), PAGE):
        async with side.reader.snapshot(tenant) as snapshot:
            units = await snapshot.units(unit_ids[start : start + PAGE])
        states |= fingerprints_of((unit_id, _state(unit)) for unit_id, unit in units.items())
    return states


def _state(unit: StoredUnit) -> Any:
    state = unit.known.state
    return {
        "revision": state.revision,
        "recorded_at": state.recorded_at.isoformat(),
        "superseded_by": state.superseded_by,
        "held_until": None if state.held_until is None else state.held_until.isoformat(),
        "corroborations": state.corroborations,
    }


def _compared(part: str, look: _Look, suspects: set[_Thing]) -> ComparedPart:
    live, rebuilt = look.live[part], look.rebuilt[part]
    differing = sum(1 for name, _ in suspects if name == part)
    return ComparedPart(len(live), part_digest(live), part_digest(rebuilt), differing)


async def _told(
    tenant: str, live: Side, rebuilt: Side, look: _Look, suspects: Sequence[_Thing]
) -> tuple[Difference, ...]:
    differences: list[Difference] = []
    for part, identity in suspects:
        values = [
            await _value(tenant, side, part, identity, prints[part].get(identity))
            for side, prints in ((live, look.live), (rebuilt, look.rebuilt))
        ]
        differences.append(Difference(part, identity, *values))
    return tuple(differences)


async def _value(tenant: str, side: Side, part: str, identity: str, print_: str | None) -> str | None:
    """Return what a side says of a thing, shortened; its fingerprint, where a store has no words for it."""
    if print_ is None:
        return None
    async with side.reader.snapshot(tenant) as snapshot:
        said = await _said(snapshot, part, identity)
    return f"fingerprint {print_[:12]}" if said is None else canonical(said).decode()[:VALUE_CHARACTERS]


async def _said(snapshot: Snapshot, part: str, identity: str) -> Any:
    if part in ("units", "mentions", STATES):
        unit = (await snapshot.units([identity])).get(identity)
        return None if unit is None else _words(part, unit)
    if part == "history":
        older = await snapshot.history(identity)
        return [[known.state.revision, known.state.event_id, known.unit.text] for known in older]
    if part == "contradictions":
        pairs = await snapshot.contradictions(unit_ids=identity.split("~"), open_only=False, limit=PAGE)
        named = (pair.found for pair in pairs if pair.found.id == identity)
        return next(({"detail": pair.detail, "revisions": pair.revisions} for pair in named), None)
    if part == "entities":
        _, entities = await snapshot.entities()
        return next((model_json(entity) for entity in entities if entity.id == identity), None)
    return None


def _words(part: str, unit: StoredUnit) -> Any:
    if part == STATES:
        return _state(unit)
    if part == "units":
        return {"event": unit.known.state.event_id, **model_json(unit.known.unit)}
    return {
        "mentions": [[mention.key, mention.start, mention.end] for mention in unit.mentions],
        "claims": [model_json(claim) for claim in unit.claims],
    }
