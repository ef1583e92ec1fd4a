"""What must hold when everything is handled: against the plan, against an undisturbed run, and within the store itself."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.commands import Selection
from schemas.graph import Contribution
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.fingerprints import PARTS
from shared.settings import Settings
from shared.store import SearchFilter, Snapshot
from shared.stores.opening import open_reader, open_writer
from shared.text import query_terms
from tests.chaos.plan import TENANTS, Plan

SHOWN = 10  # of one kind of difference
AMONG = 20  # best hits among which a unit must be that is searched for with its own text
AT_ONCE = 8
EVERYTHING = 10_000  # units of a tenant


@dataclass(frozen=True)
class State:
    """What a store knows. ``corroborations``: by tenant and live unit; ``events``: by tenant, each (source, id).

    ``unit_counts``: units that a filter finds, one by one; ``said_counts``: what the store says that there are.
    ``unfound``: by tenant, what a search should find of the plan's units and does not.
    """

    fingerprints: Mapping[str, Mapping[str, Mapping[str, str]]]
    digests: Mapping[str, Mapping[str, str]]
    texts: Mapping[str, Mapping[str, str]]
    corroborations: Mapping[str, Mapping[str, int]]
    contributions: Mapping[str, Mapping[str, Contribution]]
    events: Mapping[str, set[tuple[str, str]]]
    unit_counts: Mapping[str, int]
    said_counts: Mapping[str, int]
    unfound: Mapping[str, list[str]]


@dataclass
class Verdict:
    """What was found wrong: nothing, if all is well."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    graph: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """Everything, each with what it is."""
        return [f"{kind}: {what}" for kind, found in vars(self).items() for what in found]


async def read_state(settings: Settings, plan: Plan) -> State:
    """Read what a store knows of a plan's tenants; nobody writes it any more."""
    clock = SystemClock()
    writer, reader = open_writer(settings, clock), open_reader(settings, clock, threads=1)
    prints, digests, contributions = {}, {}, {}
    texts: dict[str, dict[str, str]] = {}
    corroborations: dict[str, dict[str, int]] = {}
    events: dict[str, set[tuple[str, str]]] = {tenant: set() for tenant in TENANTS}
    counts, said_counts, unfound = {}, {}, {}
    try:
        for tenant in TENANTS:
            prints[tenant] = {part: await writer.fingerprints(tenant, part) for part in PARTS}
            digests[tenant] = await writer.digest(tenant)
            contributions[tenant] = {one.id: one for one in await writer.contributions(tenant)}
            async with reader.snapshot(tenant) as snapshot:
                units = await snapshot.units({*plan.live[tenant], *plan.gone[tenant]})
                texts[tenant] = {unit_id: one.known.unit.text for unit_id, one in units.items()}
                corroborations[tenant] = {unit_id: one.known.state.corroborations for unit_id, one in units.items()}
                everything = await snapshot.select(Selection(), "", EVERYTHING)
                counts[tenant], said_counts[tenant] = len(everything), (await snapshot.counts()).units
                unfound[tenant] = await _unfound(snapshot, plan.live[tenant], clock.now())
                for event in plan.events():
                    if event.tenant == tenant and await snapshot.events(event.id, event.source):
                        events[tenant].add((event.source, event.id))
    finally:
        await reader.close()
        await writer.close()
    return State(prints, digests, texts, corroborations, contributions, events, counts, said_counts, unfound)


async def _unfound(snapshot: Snapshot, live: Mapping[str, str], now: datetime) -> list[str]:
    """Search for each unit by its words and by its vector: what is there may yet be missing from an index."""
    embedder = HashedEmbedder()
    where = SearchFilter(frozenset(one.scope for one in await snapshot.memberships(None)), now)

    async def lacking(unit_id: str, text: str) -> list[str]:
        words = await snapshot.keyword(query_terms(text), where, AMONG)
        near = await snapshot.vector(await embedder.embed_query(text), where, AMONG)
        found = {"words": words, "vector": near}
        return [
            f"unit {unit_id} is not found by its {arm}"
            for arm, hits in found.items()
            if not any(unit_id in hit.unit_ids for hit in hits)
        ]

    units, missing = sorted(live.items()), []
    for start in range(0, len(units), AT_ONCE):
        some = await asyncio.gather(*(lacking(*one) for one in units[start : start + AT_ONCE]))
        missing += [what for one in some for what in one]
    return missing


def judge(plan: Plan, state: State, calm: State, *, store_killed: bool = False) -> Verdict:
    """Compare a state with the plan, and with that of an undisturbed run.

    ``store_killed``: Weaviate was, and may count entries of its indexes to which it has no object any more.
    """
    verdict = Verdict()
    for event in plan.events():
        if (event.source, event.id) not in state.events[event.tenant]:
            verdict.lost.append(f"nothing is known of event {event.tenant} {event.source} {event.id}")
    for tenant in TENANTS:
        for unit_id, text in plan.live[tenant].items():
            found = state.texts[tenant].get(unit_id)
            if found != text:
                verdict.lost.append(f"unit {tenant} {unit_id} says {found!r} and not {text!r}")
        verdict.lost += [f"{tenant}: {what}" for what in state.unfound.get(tenant, ())]
        verdict.doubled += [
            f"unit {tenant} {one} is there" for one in sorted(plan.gone[tenant] & set(state.texts[tenant]))
        ]
        if state.unit_counts[tenant] != len(plan.live[tenant]):
            verdict.doubled.append(f"{tenant} has {state.unit_counts[tenant]} units and not {len(plan.live[tenant])}")
        if not store_killed and state.said_counts[tenant] != len(plan.live[tenant]):
            verdict.others.append(f"{tenant} is said to have {state.said_counts[tenant]} units")
        for unit_id, count in calm.corroborations[tenant].items():
            if state.corroborations[tenant].get(unit_id, count) != count:
                found = state.corroborations[tenant][unit_id]
                verdict.doubled.append(f"unit {tenant} {unit_id} has {found} sources and not {count}")
        for part in PARTS:
            if state.digests[tenant][part] == calm.digests[tenant][part]:
                continue
            mine, theirs = state.fingerprints[tenant][part], calm.fingerprints[tenant][part]
            names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
            verdict.differing.append(f"{tenant} {part}: {len(names)} of {len(theirs)}: {', '.join(names[:SHOWN])}")
    return verdict


def judge_letters(plan: Plan, bodies: Sequence[bytes]) -> list[str]:
    """Compare the dead letters with those that were planned."""
    wanted, found = Counter(plan.poison), Counter(bodies)
    missing = [f"no letter of {body!r}" for body in (wanted - found).elements()]
    return missing + [f"a letter too many of {body!r}" for body in (found - wanted).elements()]


def judge_graph(state: State, told: Mapping[str, Mapping[str, Contribution]]) -> list[str]:
    """Compare what ``cortex.graph`` says last of each contribution with what the store would tell."""
    wrong = []
    for tenant in TENANTS:
        kept, said = state.contributions[tenant], told[tenant]
        wrong += [
            f"{tenant} {name}: told {said.get(name)}, kept {kept.get(name)}"
            for name in sorted(kept.keys() | said.keys())
            if kept.get(name) != said.get(name) and (name in kept or not said[name].removed)
        ]
    return wrong
